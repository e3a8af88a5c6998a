//! Figures of the catalog in SQLite, with `-- 100000` of so many chunks.
//!
//! Writes them, ten on a page, with vectors of 384 numbers, by eight tasks as workers would,
//! publishes them, and asks questions of three words.

#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use uuid::Uuid;
use windrow_core::Timestamp;
use windrow_pipelines::catalog::{
    Added, Catalog, Content, GenerationKey, NewChunk, NewDocument, NewVector, PageKey, PageOutcome,
    Scope, Sqlite, TextQuery, VectorCursor, VectorsSince, content_hash,
};

const PER_PAGE: u32 = 10;
const PAGES: u32 = 50;
const QUESTIONS: u64 = 500;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let chunks: u32 = std::env::args().nth(1).map_or(Ok(10_000), |chunks| chunks.parse())?;
    let folder = std::env::temp_dir().join(format!("windrow-catalog-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let catalog = Arc::new(Sqlite::open(&folder.join("catalog.db"))?);
    let documents = chunks.div_ceil(PER_PAGE * PAGES);

    let begun = Instant::now();
    let writing: Vec<_> = (0..8)
        .map(|task| {
            let catalog = Arc::clone(&catalog);
            tokio::spawn(async move {
                for number in (task..documents).step_by(8) {
                    write(&catalog, number).await?;
                }
                Ok::<(), windrow_pipelines::catalog::CatalogError>(())
            })
        })
        .collect();
    for task in writing {
        task.await??;
    }
    let written = documents * PER_PAGE * PAGES;
    let rate = f64::from(written) / begun.elapsed().as_secs_f64();
    println!("{written} chunks written with vectors: {:.1?}, {rate:.0} a second", begun.elapsed());

    let mut took = Vec::new();
    for seed in 0..QUESTIONS {
        let words: Vec<String> = (0..3).map(|n| word(seed * 3 + n, 7)).collect();
        let begun = Instant::now();
        catalog.search_text(TextQuery::of("t", words.join(" "))).await?;
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
    let (half, most, all): (Duration, Duration, Duration) = (at(0.5), at(0.99), at(1.0));
    println!(
        "questions: half within {half:.1?}, 99 of 100 within {most:.1?}, all within {all:.1?}"
    );

    let (begun, mut cursor, mut loaded) = (Instant::now(), VectorCursor::default(), 0);
    while let VectorsSince::Changes { changes, next } = catalog.vectors_since(cursor, 1_000).await?
    {
        if changes.is_empty() {
            break;
        }
        (loaded, cursor) = (loaded + changes.len(), next);
    }
    println!("{loaded} changes followed from the beginning: {:.1?}", begun.elapsed());
    drop(catalog);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

async fn write(
    catalog: &Sqlite,
    number: u32,
) -> Result<(), windrow_pipelines::catalog::CatalogError> {
    let source = format!("{number}.md");
    let content = Content {
        hash: content_hash(&source),
        media_type: "text/markdown".into(),
        bytes: 0,
        place: source.clone(),
    };
    let new = NewDocument {
        id: Uuid::from_u128(u128::from(number) + 1),
        scope: Scope::new("t", "c"),
        name: source.clone(),
        source,
        content,
        again: false,
    };
    let added = catalog.add_document(new, Timestamp(u64::from(number))).await?;
    let Added::New(at) = added else { return Ok(()) };
    catalog.begin_pages(at, PAGES).await?;
    for page in 1..=PAGES {
        write_page(catalog, at, page).await?;
    }
    catalog.publish(at, Timestamp(u64::from(number))).await?;
    Ok(())
}

async fn write_page(
    catalog: &Sqlite,
    at: GenerationKey,
    number: u32,
) -> Result<(), windrow_pipelines::catalog::CatalogError> {
    let page = PageKey { document: at.document, generation: at.generation, number };
    let seed = at.document.as_u128() as u64 * 1_000_000 + u64::from(number) * 10_000;
    let texts: Vec<String> = (0..u64::from(PER_PAGE)).map(|n| text(seed + n * 1_000)).collect();
    let markdown = texts.join("\n\n");
    let hash = content_hash(&markdown);
    catalog.put_page(page, PageOutcome::Read { markdown, how: "text_layer".into(), hash }).await?;
    let chunk = |(index, text): (u32, String)| NewChunk {
        index,
        kind: "text".into(),
        tokens: text.len() as u32 / 4,
        begins: 0,
        ends: text.len() as u32,
        text,
        metadata: json!({ "heading_path": ["A", "B"] }),
    };
    let ids = catalog.put_chunks(page, (0..).zip(texts).map(chunk).collect()).await?;
    let vector = |id: &windrow_pipelines::catalog::ChunkId| NewVector {
        chunk: *id,
        vector: (0..384).map(|n| f32::from(id.0[n % 16])).collect(),
    };
    catalog.put_vectors(ids.iter().map(vector).collect()).await?;
    catalog.mark_embedded(ids, "none@1").await?;
    Ok(())
}

/// About 1,500 letters.
fn text(seed: u64) -> String {
    (0..200).map(|n| word(seed, n)).collect::<Vec<_>>().join(" ")
}

/// One of twenty thousand words, the first ones far more often, as in a language.
fn word(seed: u64, n: u64) -> String {
    let mixed = (seed * 1_000 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let share = (mixed >> 11) as f64 / (1_u64 << 53) as f64;
    format!("word{}", (20_000_f64.powf(share)) as u32)
}
