//! Searching by words in SQLite.
//!
//! Decides which rows are ranked. Ranking one costs many times as much as counting it, and a
//! question of a language has words that are in a large part of all chunks and so tell little. A
//! place with few chunks is searched with all words. Elsewhere the telling words say what is
//! ranked, as long as that gives enough hits. Where no word is telling the database is not asked
//! for a rank, since it would look at each place of each word in all chunks: of the newest
//! [`NEWEST`] those come first that have the words most densely.

use std::collections::HashSet;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params, params_from_iter};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::super::chunk::uuid_of;
use super::super::error::CatalogError;
use super::super::words::{folded, spans};
use super::super::{ChunkId, PageKey, Scope, Snippet, TextHit, TextQuery, snippet, words};

/// How many rows are worth what.
#[derive(Clone, Copy)]
struct Worth {
    /// So many are ranked without a second thought.
    ranked: u32,
    /// A word that is in more of them does not even say which is better.
    counted: u32,
}

const WORTH: Worth = Worth { ranked: 5_000, counted: 10_000 };

/// Of what is everywhere so many are looked at; or so many times as many as are wanted.
const NEWEST: u32 = 300;
const NEWEST_FOR_ONE: u32 = 2;

/// From so many on, one more of the same word makes little difference: in a text of so many words.
const OFTEN: f64 = 1.2;
const LENGTH: f64 = 300.0;

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
enum Matched {
    /// All that have any of the words.
    All(String),
    /// Those that the telling words have; and if they are not enough, all, if that is worth it.
    Telling { telling: String, all: Option<String> },
    /// No word is telling.
    Everywhere,
}

/// Where is searched, as the index knows it.
fn place(query: &TextQuery) -> String {
    let place = match (query.document, &query.collection) {
        (Some(document), _) => of_document(document),
        (None, Some(collection)) => of_collection(&query.tenant, collection),
        (None, None) => of_tenant(&query.tenant),
    };
    format!("scope : \"{place}\"")
}

fn matched(
    db: &Connection,
    query: &TextQuery,
    words: &[String],
    worth: Worth,
) -> Result<Matched, CatalogError> {
    let place = place(query);
    if count(db, &place, worth.ranked + 1)? <= worth.ranked {
        return Ok(Matched::All(format!("{place} AND {}", any(words))));
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
        return Ok(Matched::All(all));
    }
    let mut room = worth.ranked;
    let fits = |(rows, _): &&(u32, String)| {
        let left = room.checked_sub(*rows);
        room = left.unwrap_or_default();
        left.is_some()
    };
    let few: Vec<String> = counted.iter().take_while(fits).map(|(_, word)| word.clone()).collect();
    if few.is_empty() {
        return Ok(Matched::Everywhere);
    }
    // The others say which of them are better.
    let known = counted.iter().filter(|(rows, _)| *rows <= worth.counted);
    let known: Vec<String> = known.map(|(_, word)| word.clone()).collect();
    let telling = format!("{} AND {}", any(&few), any(&known));
    Ok(Matched::Telling { telling, all: (total <= worth.counted).then_some(all) })
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

/// Which rows come first.
#[derive(Clone, Copy)]
pub(super) enum First {
    Best,
    Newest,
}

/// The statement of a search, and its values. The index goes first and gives in order, so that
/// reading stops when there are enough.
pub(super) fn search_sql(
    query: &TextQuery,
    matched: &str,
    first: First,
    limit: u32,
) -> (String, Vec<Value>) {
    let mut values = vec![Value::from(matched.to_owned()), Value::from(query.tenant.clone())];
    let (rank, order) = match first {
        First::Best => ("words.rank", "words.rank"),
        First::Newest => ("0.0", "words.rowid desc"),
    };
    let mut sql = format!(
        "select c.id, c.document, c.generation, c.page, c.ordinal, c.kind, c.collection, \
         d.source, d.name, {rank}, c.text from words \
         cross join chunks c on c.row = words.rowid \
         cross join documents d on d.id = c.document and d.live = c.generation \
         where words match ?1 and c.tenant = ?2"
    );
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
    values.push(Value::from(i64::from(limit)));
    sql += &format!(" order by {order} limit ?{}", values.len());
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
    let best = |matched: &str| {
        let rows = found(db, query, &words, matched, First::Best, query.limit)?;
        Ok(hits(rows, query, &words))
    };
    match matched(db, query, &words, worth)? {
        Matched::All(all) => best(&all),
        Matched::Telling { telling, all } => {
            let hits = best(&telling)?;
            match all {
                _ if hits.len() >= query.limit as usize => Ok(hits),
                Some(all) => best(&all),
                // A hit by a word that is everywhere is worth a look only if there is no other.
                None if hits.is_empty() => newest(db, query, &words),
                None => Ok(hits),
            }
        }
        Matched::Everywhere => newest(db, query, &words),
    }
}

/// Some of the newest that have all words, and if these are not enough, of those that have one.
fn newest(
    db: &Connection,
    query: &TextQuery,
    words: &[String],
) -> Result<Vec<TextHit>, CatalogError> {
    let each: Vec<String> = words.iter().map(|word| format!("text : \"{word}\"")).collect();
    let limit = NEWEST.max(query.limit.saturating_mul(NEWEST_FOR_ONE));
    // In this place only: a tenant with few chunks does not wait for one with many.
    let place = place(query);
    let some = |matched: String| {
        let there = format!("{place} AND {matched}");
        found(db, query, words, &there, First::Newest, limit)
    };
    let mut rows = some(each.join(" AND "))?;
    if words.len() > 1 && rows.len() < query.limit as usize {
        let known: HashSet<ChunkId> = rows.iter().map(|(hit, _)| hit.chunk).collect();
        rows.extend(some(any(words))?.into_iter().filter(|(hit, _)| !known.contains(&hit.chunk)));
    }
    Ok(hits(rows, query, words))
}

/// How densely a text has words: each counts for less the more often it was there.
fn density(text: &str, words: &[String]) -> f64 {
    let (mut times, mut length) = (vec![0.0; words.len()], 0.0);
    for (begins, ends) in spans(text) {
        length += 1.0;
        let there = folded(&text[begins..ends]);
        for (times, word) in times.iter_mut().zip(words) {
            // Nearly as stems go: a word and what is only longer.
            let is_it = there.starts_with(word.as_str()) || word.starts_with(&there);
            *times += f64::from(u8::from(is_it && there.len().abs_diff(word.len()) <= 3));
        }
    }
    let often = OFTEN * (0.25 + 0.75 * length / LENGTH);
    times.into_iter().map(|times| times / (times + often)).sum()
}

/// A hit that has no snippet yet, and its text.
type Hit = (TextHit, String);

/// The best of what was found, the best first, each with its snippet.
fn hits(mut rows: Vec<Hit>, query: &TextQuery, words: &[String]) -> Vec<TextHit> {
    rows.sort_by(|(one, _), (two, _)| {
        two.score.total_cmp(&one.score).then_with(|| one.chunk.cmp(&two.chunk))
    });
    rows.truncate(query.limit as usize);
    rows.into_iter().map(|(hit, text)| TextHit { snippet: snippet(&text, words), ..hit }).collect()
}

fn found(
    db: &Connection,
    query: &TextQuery,
    words: &[String],
    matched: &str,
    first: First,
    limit: u32,
) -> Result<Vec<Hit>, CatalogError> {
    let (sql, values) = search_sql(query, matched, first, limit);
    let mut found = db.prepare_cached(&sql)?;
    let mut rows = found.query(params_from_iter(values))?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let document = uuid_of(&row.get::<_, Vec<u8>>(1)?)?;
        let text: String = row.get(10)?;
        let score = match first {
            // The database's rank is the less the better.
            First::Best => -row.get::<_, f64>(9)?,
            First::Newest => density(&text, words),
        };
        let hit = TextHit {
            chunk: ChunkId(row.get(0)?),
            page: PageKey { document, generation: row.get(2)?, number: row.get(3)? },
            index: row.get(4)?,
            kind: row.get(5)?,
            collection: row.get(6)?,
            source: row.get(7)?,
            name: row.get(8)?,
            score,
            snippet: Snippet::default(),
        };
        all.push((hit, text));
    }
    Ok(all)
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
