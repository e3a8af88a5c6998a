//! Searching by words in SQLite.
//!
//! Decides which rows are ranked. Ranking one costs many times as much as counting it, and a
//! question of a language has words that are in a large part of all chunks and so tell little. A
//! place with few chunks is searched with all words. Elsewhere the telling words say what is
//! ranked, as long as that gives enough hits. Where even that is more than [`Worth::counted`] rows,
//! the newest of them are ranked: what is in so many chunks alike tells none from another.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params, params_from_iter};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::super::chunk::uuid_of;
use super::super::error::CatalogError;
use super::super::{ChunkId, PageKey, Scope, TextHit, TextQuery, snippet, words};

/// How many rows are worth what.
#[derive(Clone, Copy)]
struct Worth {
    /// So many are ranked without a second thought.
    ranked: u32,
    /// A word that is in more of them does not even say which is better.
    counted: u32,
}

const WORTH: Worth = Worth { ranked: 5_000, counted: 20_000 };

/// And so many for each hit that is wanted, however few are worth it.
const RANKED_FOR_ONE: u32 = 10;

/// Makes a chunk's text found.
pub(super) fn index(
    db: &Connection,
    row: i64,
    scope: &Scope,
    document: Uuid,
    text: &str,
) -> Result<(), CatalogError> {
    let Scope { tenant, collection } = scope;
    let (tenant, collection) = (of_tenant(tenant), of_collection(tenant, collection));
    let scope = format!("{tenant} {collection} {}", of_document(document));
    let sql = "insert into words (rowid, scope, text) values (?1, ?2, ?3)";
    db.prepare_cached(sql)?.execute(params![row, scope, text])?;
    Ok(())
}

pub(super) fn remove(db: &Connection, row: i64) -> Result<(), CatalogError> {
    db.prepare_cached("delete from words where rowid = ?1")?.execute([row])?;
    Ok(())
}

fn of_tenant(tenant: &str) -> u64 {
    number(&[tenant.as_bytes()])
}

fn of_collection(tenant: &str, collection: &str) -> u64 {
    number(&[tenant.as_bytes(), collection.as_bytes()])
}

fn of_document(document: Uuid) -> u64 {
    number(&[b"", b"", document.as_bytes()])
}

/// A word of digits for a place, which no stemmer changes. Two places may share one: rows say
/// whose they are.
fn number(names: &[&[u8]]) -> u64 {
    let mut sum = Sha256::new();
    for name in names {
        sum.update((name.len() as u64).to_be_bytes());
        sum.update(name);
    }
    let mut first = [0; 8];
    first.copy_from_slice(&sum.finalize()[..8]);
    u64::from_be_bytes(first)
}

/// Which rows are ranked.
struct Matched {
    /// All that have any of the words.
    all: String,
    /// Those that the telling words have, where these are fewer.
    telling: Option<String>,
    /// Whether all can be ranked if the telling ones are not enough.
    is_all_worth_it: bool,
}

fn matched(
    db: &Connection,
    query: &TextQuery,
    words: &[String],
    worth: Worth,
) -> Result<Matched, CatalogError> {
    let place = match (query.document, &query.collection) {
        (Some(document), _) => of_document(document),
        (None, Some(collection)) => of_collection(&query.tenant, collection),
        (None, None) => of_tenant(&query.tenant),
    };
    let place = format!("scope : \"{place}\"");
    if count(db, &place, worth.ranked + 1)? <= worth.ranked {
        let all = format!("{place} AND {}", any(words));
        return Ok(Matched { all, telling: None, is_all_worth_it: true });
    }
    let mut counted = Vec::with_capacity(words.len());
    for word in words {
        let rows = count(db, &any(std::slice::from_ref(word)), worth.counted + 1)?;
        counted.push((rows, word.clone()));
    }
    counted.sort();
    let total: u32 = counted.iter().map(|(rows, _)| rows).sum();
    let all = any(words);
    if total <= worth.ranked {
        return Ok(Matched { all, telling: None, is_all_worth_it: true });
    }
    let mut room = worth.ranked;
    let fits = |(rows, _): &&(u32, String)| {
        let left = room.checked_sub(*rows);
        room = left.unwrap_or_default();
        left.is_some()
    };
    let few: Vec<String> = counted.iter().take_while(fits).map(|(_, word)| word.clone()).collect();
    let telling = match few.is_empty() {
        // Each word is common; what has all of them is less so.
        true => {
            words.iter().map(|word| format!("text : \"{word}\"")).collect::<Vec<_>>().join(" AND ")
        }
        // The others say which of them are better.
        false => {
            let known = counted.iter().filter(|(rows, _)| *rows <= worth.counted);
            let known: Vec<String> = known.map(|(_, word)| word.clone()).collect();
            format!("{} AND {}", any(&few), any(&known))
        }
    };
    Ok(Matched { all, telling: Some(telling), is_all_worth_it: total <= worth.counted })
}

/// Words have only letters and digits, so that a quoted one is a word.
fn any(words: &[String]) -> String {
    let any = words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" OR ");
    format!("text : ({any})")
}

/// How many rows match, at most so many.
fn count(db: &Connection, matched: &str, at_most: u32) -> Result<u32, CatalogError> {
    let sql = "select count(*) from (select 1 from words where words match ?1 limit ?2)";
    let counted = db.prepare_cached(sql)?.query_row(params![matched, at_most], |row| row.get(0));
    Ok(counted.optional()?.unwrap_or_default())
}

/// The first row that is ranked, if more match than are worth it: the newest are.
fn first_ranked(
    db: &Connection,
    matched: &str,
    query: &TextQuery,
    worth: Worth,
) -> Result<i64, CatalogError> {
    let sql = "select rowid from words where words match ?1 order by rowid desc limit 1 offset ?2";
    let at_most = worth.counted.max(query.limit.saturating_mul(RANKED_FOR_ONE));
    let first = db.prepare_cached(sql)?.query_row(params![matched, at_most], |row| row.get(0));
    Ok(first.optional()?.unwrap_or_default())
}

/// The statement of a search, and its values. The index goes first and gives the best first, so
/// that reading stops when there are enough.
pub(super) fn search_sql(query: &TextQuery, matched: &str, first: i64) -> (String, Vec<Value>) {
    let mut values = vec![Value::from(matched.to_owned()), Value::from(query.tenant.clone())];
    let mut sql =
        "select c.id, c.document, c.generation, c.page, c.ordinal, c.kind, c.collection, \
         d.source, d.name, words.rank, c.text from words \
         cross join chunks c on c.row = words.rowid \
         cross join documents d on d.id = c.document and d.live = c.generation \
         where words match ?1 and c.tenant = ?2"
            .to_owned();
    let mut and = |column: &str, value: Option<Value>| {
        if let Some(value) = value {
            values.push(value);
            sql += &format!(" and {column} = ?{}", values.len());
        }
    };
    and("c.collection", query.collection.clone().map(Value::from));
    and("c.document", query.document.map(|id| Value::from(id.as_bytes().to_vec())));
    and("c.page", query.page.map(|page| Value::from(i64::from(page))));
    and("c.kind", query.kind.clone().map(Value::from));
    if first > 0 {
        values.push(Value::from(first));
        sql += &format!(" and words.rowid > ?{}", values.len());
    }
    values.push(Value::from(i64::from(query.limit)));
    sql += &format!(" order by words.rank limit ?{}", values.len());
    (sql, values)
}

pub(super) fn search(db: &Connection, query: &TextQuery) -> Result<Vec<TextHit>, CatalogError> {
    search_with(db, query, WORTH)
}

fn search_with(
    db: &Connection,
    query: &TextQuery,
    worth: Worth,
) -> Result<Vec<TextHit>, CatalogError> {
    let words = words(&query.text);
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let Matched { all, telling, is_all_worth_it } = matched(db, query, &words, worth)?;
    if let Some(telling) = telling {
        let hits = ranked(db, query, &telling, &words, worth)?;
        let is_enough = hits.len() >= query.limit as usize;
        // A hit by a word that is everywhere is worth waiting for only if there is no other.
        if is_enough || !(hits.is_empty() || is_all_worth_it) {
            return Ok(hits);
        }
    }
    ranked(db, query, &all, &words, worth)
}

fn ranked(
    db: &Connection,
    query: &TextQuery,
    matched: &str,
    words: &[String],
    worth: Worth,
) -> Result<Vec<TextHit>, CatalogError> {
    let first = first_ranked(db, matched, query, worth)?;
    let (sql, values) = search_sql(query, matched, first);
    let mut found = db.prepare_cached(&sql)?;
    let mut rows = found.query(params_from_iter(values))?;
    let mut hits = Vec::new();
    while let Some(row) = rows.next()? {
        let document = uuid_of(&row.get::<_, Vec<u8>>(1)?)?;
        let text: String = row.get(10)?;
        hits.push(TextHit {
            chunk: ChunkId(row.get(0)?),
            page: PageKey { document, generation: row.get(2)?, number: row.get(3)? },
            index: row.get(4)?,
            kind: row.get(5)?,
            collection: row.get(6)?,
            source: row.get(7)?,
            name: row.get(8)?,
            // The database's rank is the less the better.
            score: -row.get::<_, f64>(9)?,
            snippet: snippet(&text, words),
        });
    }
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.chunk.cmp(&b.chunk)));
    Ok(hits)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windrow_core::Timestamp;

    use super::*;
    use crate::catalog::{
        Catalog as _, Content, GenerationKey, NewChunk, NewDocument, PageOutcome, Sqlite,
    };

    /// One document of these chunks, and what its file is.
    async fn filled(name: &str, texts: &[&str]) -> (Arc<Sqlite>, std::path::PathBuf) {
        let folder = std::env::temp_dir().join(format!("windrow-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let catalog = Arc::new(Sqlite::open(&folder.join("catalog.db")).unwrap());
        let at = GenerationKey { document: Uuid::from_u128(1), generation: 1 };
        let content =
            Content { hash: [0; 32], media_type: "x".into(), bytes: 0, place: String::new() };
        let (scope, source, name) = (Scope::new("t", "c"), "a".to_owned(), "a".to_owned());
        let new = NewDocument { id: at.document, scope, source, name, content, again: false };
        catalog.add_document(new, Timestamp(1)).await.unwrap();
        catalog.begin_pages(at, 1).await.unwrap();
        let page = PageKey { document: at.document, generation: 1, number: 1 };
        let (markdown, how) = ("x".to_owned(), "text_layer".to_owned());
        let read = PageOutcome::Read { markdown, how, hash: [0; 32] };
        catalog.put_page(page, read).await.unwrap();
        let chunk = |(index, text): (u32, &&str)| NewChunk {
            index,
            kind: "text".into(),
            text: (*text).to_owned(),
            tokens: 1,
            begins: 0,
            ends: 1,
            metadata: serde_json::Value::Null,
        };
        catalog.put_chunks(page, (0..).zip(texts).map(chunk).collect()).await.unwrap();
        catalog.publish(at, Timestamp(2)).await.unwrap();
        (catalog, folder)
    }

    #[tokio::test]
    async fn telling_words_say_what_is_ranked_and_the_others_which_is_better() {
        let common = [["river"; 9].as_slice(), &["a stone by itself"; 40]].concat();
        let texts = [&["river heron", "heron", "pike", "pike river pike"], &common[..]].concat();
        let (catalog, folder) = filled("telling", &texts).await;
        let worth = Worth { ranked: 4, counted: 20 };
        let check = |text: &str, limit: u32, worth: Worth, want: &[u32]| {
            let query = TextQuery { limit, ..TextQuery::of("t", text) };
            let found = catalog.read(Ok(()), move |db| search_with(db, &query, worth));
            let want = want.to_vec();
            async move {
                let hits = found.await.unwrap();
                let found: Vec<u32> = hits.iter().map(|hit| hit.index).collect();
                assert_eq!(found[..want.len().min(found.len())], want, "{found:?}");
                found.len()
            }
        };
        // With few rows, or many that are worth it, all words count.
        assert_eq!(check("heron river", 20, WORTH, &[0]).await, 12);
        assert_eq!(check("heron river", 20, worth, &[0]).await, 12, "the telling were too few");
        assert_eq!(check("heron river", 2, worth, &[0, 1]).await, 2);
        assert_eq!(check("pike river", 2, worth, &[3, 2]).await, 2);
        // A word that is everywhere is left out, unless there is nothing else.
        let strict = Worth { ranked: 4, counted: 5 };
        assert_eq!(check("heron river", 20, strict, &[]).await, 2);
        assert_eq!(check("eagle river", 20, strict, &[]).await, 11);
        assert_eq!(check("river", 20, strict, &[]).await, 11);
        assert_eq!(check("eagle", 20, strict, &[]).await, 0);
        // Of what is everywhere the newest is ranked.
        let query = TextQuery { limit: 2, ..TextQuery::of("t", "stone itself") };
        let found = catalog.read(Ok(()), move |db| search_with(db, &query, strict)).await.unwrap();
        let found: Vec<u32> = found.iter().map(|hit| hit.index).collect();
        assert!(found.len() == 2 && found.iter().all(|index| *index >= 33), "{found:?}");
        drop(catalog);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
