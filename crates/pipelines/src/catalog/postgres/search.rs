//! Searching by words in PostgreSQL.
//!
//! What a word is, `words.rs` decides for texts and questions alike; the database only finds the
//! stem of each, and knows no word that is not worth finding. So it finds what SQLite finds.

use super::super::{PageKey, TextHit, TextQuery, snippet, words};
use super::Trouble;
use super::chunks::id_of;
use super::value::{Built, Tx, nat};

/// The statement of a search. Words have only letters and digits, so that a quoted one is a word.
pub(super) fn search_sql(query: &TextQuery, words: &[String]) -> Built {
    let any = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" | ");
    let mut built = Built::default();
    built.with(
        "select c.id, c.document, c.generation, c.page, c.ordinal, c.kind, c.collection, \
         d.source, d.name, \
         ts_rank_cd(c.words, to_tsquery('windrow_catalog.words', ?), 1)::float8 as score, \
         c.text from windrow_catalog.chunks c \
         join windrow_catalog.documents d on d.id = c.document and d.live = c.generation \
         where c.words @@ to_tsquery('windrow_catalog.words', $1)",
        any,
    );
    built.with(" and c.tenant = ?", query.tenant.clone());
    if let Some(collection) = &query.collection {
        built.with(" and c.collection = ?", collection.clone());
    }
    if let Some(document) = query.document {
        built.with(" and c.document = ?", document);
    }
    if let Some(page) = query.page {
        built.with(" and c.page = ?", i64::from(page));
    }
    if let Some(kind) = &query.kind {
        built.with(" and c.kind = ?", kind.clone());
    }
    built.with(" order by score desc, c.id limit ?", i64::from(query.limit));
    built
}

pub(super) async fn search(tx: &Tx<'_>, query: &TextQuery) -> Result<Vec<TextHit>, Trouble> {
    let words = words(&query.text);
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let built = search_sql(query, &words);
    let rows = tx.rows(&built.sql, &built.values()).await?;
    let hits = rows.iter().map(|row| TextHit {
        chunk: id_of(row, 0),
        page: PageKey {
            document: row.get(1),
            generation: nat(row.get(2)),
            number: nat(row.get(3)),
        },
        index: nat(row.get(4)),
        kind: row.get(5),
        collection: row.get(6),
        source: row.get(7),
        name: row.get(8),
        score: row.get(9),
        snippet: snippet(row.get(10), &words),
    });
    Ok(hits.collect())
}
