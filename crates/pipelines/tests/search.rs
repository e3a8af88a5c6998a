//! Search over a store of vectors that also holds what is not live.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;
use windrow_core::Timestamp;
use windrow_pipelines::adapters::embed::hashed::{self, Hashed};
use windrow_pipelines::adapters::vectors::built_in::BuiltIn;
use windrow_pipelines::adapters::vectors::{Point, Vectors};
use windrow_pipelines::catalog::{
    Added, Catalog, Content, GenerationKey, NewChunk, NewDocument, PageKey, PageOutcome, Scope,
    Sqlite, content_hash,
};
use windrow_pipelines::search::fuse::Part;
use windrow_pipelines::search::hybrid::{Found, Nearest, Query, Search};

const NOW: Timestamp = Timestamp(1_800_000_000_000);

struct Place {
    dir: std::path::PathBuf,
    catalog: Arc<Sqlite>,
    store: Arc<BuiltIn>,
}

impl Place {
    fn new(test: &str) -> Place {
        let dir = format!("windrow-search-{test}-{}", std::process::id());
        let dir = std::env::temp_dir().join(dir);
        std::fs::create_dir_all(&dir).unwrap();
        let catalog = Arc::new(Sqlite::open(&dir.join("catalog.db")).unwrap());
        Place { dir, catalog, store: Arc::default() }
    }

    /// A new generation of a document, not yet live, with its vectors in the store.
    async fn build(&self, source: &str, texts: &[String]) -> GenerationKey {
        let content = Content {
            hash: content_hash(&texts.join("\n")),
            media_type: "text/plain".into(),
            bytes: 1,
            place: source.into(),
        };
        let new = NewDocument {
            id: Uuid::from_u128(rand::random()),
            scope: Scope::new("acme", "books"),
            source: source.into(),
            name: source.into(),
            content,
            again: false,
        };
        let added = self.catalog.add_document(new, NOW).await.unwrap();
        let (Added::New(at) | Added::Changed(at)) = added else { panic!("{added:?}") };
        self.catalog.begin_pages(at, 1).await.unwrap();
        let page = PageKey { document: at.document, generation: at.generation, number: 1 };
        let markdown = texts.join("\n\n");
        let hash = content_hash(&markdown);
        let read = PageOutcome::Read { markdown, hash, how: "text".into() };
        self.catalog.put_page(page, read).await.unwrap();
        let chunk = |(index, text): (u32, &String)| NewChunk {
            index,
            kind: "text".into(),
            text: text.clone(),
            tokens: 4,
            begins: 0,
            ends: 1,
            metadata: Value::Null,
        };
        let chunks = (0..).zip(texts).map(chunk).collect();
        let ids = self.catalog.put_chunks(page, chunks).await.unwrap();
        let point = |id: [u8; 16]| Point {
            id,
            document: at.document,
            generation: at.generation,
            page: 1,
            tenant: "acme".into(),
            collection: "books".into(),
        };
        let vector = |text: &String| hashed::vector(text).unwrap();
        let points: Vec<_> =
            ids.iter().zip(texts).map(|(id, text)| (point(id.0), vector(text))).collect();
        self.store.put(&points).await.unwrap();
        at
    }

    async fn find(&self, text: &str, limit: u32) -> Found {
        let search = Search {
            catalog: Arc::clone(&self.catalog) as _,
            embedder: Arc::new(Hashed),
            nearest: Nearest::Store(Arc::clone(&self.store) as _),
        };
        let (tenant, collection) = ("acme".to_owned(), Some("books".to_owned()));
        let query = Query { text: text.into(), tenant, collection, document: None, limit };
        let found = search.find(&query).await.unwrap();
        assert_eq!(found.missing, None);
        found
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _left_behind_at_worst = std::fs::remove_dir_all(&self.dir);
    }
}

fn numbered(count: u32, text: &str) -> Vec<String> {
    (0..count).map(|n| format!("{text} {n}")).collect()
}

/// What was found, and where the vectors put it, from 1; None where they did not find it.
fn ranks(found: &Found) -> Vec<(&str, Option<u32>)> {
    let by_vectors =
        |parts: &[Part]| parts.iter().find(|part| part.list == "vectors").map(|part| part.rank);
    found.hits.iter().map(|hit| (&*hit.chunk.text, by_vectors(&hit.parts))).collect()
}

#[tokio::test]
async fn what_is_not_live_hides_nothing_that_is() {
    let place = Place::new("hides");
    let first = place.build("a.txt", &numbered(60, "honey in a jar")).await;
    place.catalog.publish(first, NOW).await.unwrap();
    let before = place.find("honey of bees", 10).await;
    let before = ranks(&before);
    assert!(before.len() == 10 && before.iter().all(|(_, rank)| rank.is_some()), "{before:?}");
    // Twenty times as many lie nearer, and are being built.
    place.build("a.txt", &numbered(900, "honey of bees")).await;
    place.build("b.txt", &numbered(300, "honey of the bees")).await;
    let after = place.find("honey of bees", 10).await;
    assert_eq!(ranks(&after), before);
}

#[tokio::test]
async fn what_the_catalog_does_not_know_is_passed_over() {
    let place = Place::new("unknown");
    let first = place.build("a.txt", &numbered(5, "honey in a jar")).await;
    place.catalog.publish(first, NOW).await.unwrap();
    let before = place.find("honey of bees", 10).await;
    assert_eq!(before.hits.len(), 5);
    // A worker that came too late left these.
    let stray = |n: u64| Point {
        id: (u128::from(n) | 1 << 100).to_be_bytes(),
        document: first.document,
        generation: 7,
        page: 1,
        tenant: "acme".into(),
        collection: "books".into(),
    };
    let vector = hashed::vector("honey of bees").unwrap();
    let strays: Vec<_> = (0..500).map(|n| (stray(n), vector.clone())).collect();
    place.store.put(&strays).await.unwrap();
    assert_eq!(place.find("honey of bees", 10).await, before);
}
