//! Who has to wait for whom. A race that happens once in a million times is decided here by
//! holding one transaction open and giving the other no time.

use uuid::Uuid;
use windrow_core::Timestamp;
use windrow_testkit::servers::{Durability, Postgres as Server, Version};

use super::super::{
    Called, Catalog as _, ChunkId, Content, GenerationKey, NewChunk, NewDocument, NewEntity,
    NewGraph, NewVector, PageKey, PageOutcome, Scope,
};
use super::documents::{self, Hold};
use super::value::Tx;
use super::{Connect, Options, Postgres, Trouble, chunks, graph, removal, uuid, vectors};

/// A catalog with one generation that is being built, and one chunk for each page.
struct Bed {
    catalog: Postgres,
    at: GenerationKey,
    chunks: Vec<ChunkId>,
    _server: Server,
}

async fn bed(pages: u32) -> Bed {
    let server = Server::start(Version::V15, Durability::Off).unwrap();
    server.create_database("locks").unwrap();
    let connect = Connect::plain(&server.url("locks")).unwrap();
    let catalog = Postgres::open(Options::new(connect)).await.unwrap();
    let at = GenerationKey { document: Uuid::from_u128(1), generation: 1 };
    let content =
        Content { hash: [0; 32], media_type: "text/plain".into(), bytes: 1, place: "p".into() };
    let (scope, source, name) = (Scope::new("t", "c"), "a".to_owned(), "a".to_owned());
    let new = NewDocument { id: at.document, scope, source, name, content, again: false };
    catalog.add_document(new, Timestamp(1)).await.unwrap();
    catalog.begin_pages(at, pages).await.unwrap();
    let mut chunks = Vec::new();
    for number in 1..=pages {
        let page = PageKey { document: at.document, generation: 1, number };
        let (markdown, how) = ("text".to_owned(), "text_layer".to_owned());
        let read = PageOutcome::Read { markdown, how, hash: [0; 32] };
        catalog.put_page(page, read).await.unwrap();
        let chunk = NewChunk {
            index: 0,
            kind: "text".into(),
            text: "text".into(),
            tokens: 1,
            begins: 0,
            ends: 4,
            metadata: serde_json::Value::Null,
        };
        chunks.extend(catalog.put_chunks(page, vec![chunk]).await.unwrap());
    }
    Bed { catalog, at, chunks, _server: server }
}

fn ada() -> NewGraph {
    let called = Called::new("name", "Ada");
    let entity = NewEntity { called, description: String::new(), score: 1.0 };
    NewGraph { entities: vec![entity], relationships: Vec::new() }
}

/// Gives a transaction no time to wait.
async fn hurry(tx: &Tx<'_>) {
    tx.0.batch_execute("set local lock_timeout = '100ms'").await.unwrap();
}

fn has_to_wait<T: std::fmt::Debug>(result: Result<T, Trouble>) {
    let code = match &result {
        Err(Trouble::Theirs(error)) => error.code().map(|code| code.code()),
        _ => None,
    };
    assert_eq!(code, Some("55P03"), "{result:?}");
}

#[tokio::test]
async fn a_generation_that_is_written_to_does_not_become_old_meanwhile() {
    let bed = bed(1).await;
    let (mut one, mut other) =
        (bed.catalog.pool.get().await.unwrap(), bed.catalog.pool.get().await.unwrap());
    let writing = one.writing().await.unwrap();
    documents::open(&writing, bed.at, Hold::Shared).await.unwrap();
    // Others may write as well.
    let tx = other.writing().await.unwrap();
    hurry(&tx).await;
    documents::open(&tx, bed.at, Hold::Shared).await.unwrap();
    drop(tx);
    let tx = other.writing().await.unwrap();
    hurry(&tx).await;
    has_to_wait(documents::publish(&tx, bed.at, Timestamp(2)).await);
    drop(tx);
    let tx = other.writing().await.unwrap();
    hurry(&tx).await;
    has_to_wait(removal::begin(&tx, "t", bed.at.document, &[], Timestamp(2)).await.map(drop));
    drop(tx);
    writing.commit().await.unwrap();
    let tx = other.writing().await.unwrap();
    hurry(&tx).await;
    documents::publish(&tx, bed.at, Timestamp(2)).await.unwrap();
}

#[tokio::test]
async fn an_entity_does_not_go_while_somebody_mentions_it() {
    let bed = bed(2).await;
    let (first, second) = (bed.chunks[0], bed.chunks[1]);
    bed.catalog.put_graph(first, ada()).await.unwrap();
    let (mut one, mut other) =
        (bed.catalog.pool.get().await.unwrap(), bed.catalog.pool.get().await.unwrap());
    // The second chunk mentions it too, and nobody sees that yet.
    let writing = one.writing().await.unwrap();
    graph::put(&writing, second, &ada()).await.unwrap();
    let tx = other.writing().await.unwrap();
    hurry(&tx).await;
    has_to_wait(chunks::remove(&tx, vec![uuid(first.0)], true).await);
    drop(tx);
    writing.commit().await.unwrap();
    // The other way round: it goes with its last mentions, and whoever mentions it waits for that.
    let removing = one.writing().await.unwrap();
    graph::clear(&removing, &vec![uuid(first.0), uuid(second.0)]).await.unwrap();
    let tx = other.writing().await.unwrap();
    hurry(&tx).await;
    has_to_wait(graph::put(&tx, first, &ada()).await);
    drop(tx);
    removing.commit().await.unwrap();
    drop((one, other));
    bed.catalog.put_graph(first, ada()).await.unwrap();
    let found = bed.catalog.pool.get().await.unwrap();
    let entities = "select count(*) from windrow_catalog.entities";
    assert_eq!(found.query_one(entities, &[]).await.unwrap().get::<_, i64>(0), 1);
}

#[tokio::test]
async fn a_later_sequence_is_not_seen_before_an_earlier_one() {
    let bed = bed(2).await;
    let vector = |chunk: ChunkId| vec![NewVector { chunk, vector: vec![1.0] }];
    let (mut one, mut other) =
        (bed.catalog.pool.get().await.unwrap(), bed.catalog.pool.get().await.unwrap());
    let writing = one.writing().await.unwrap();
    vectors::put(&writing, &vector(bed.chunks[0])).await.unwrap();
    let tx = other.writing().await.unwrap();
    hurry(&tx).await;
    has_to_wait(vectors::put(&tx, &vector(bed.chunks[1])).await);
    drop(tx);
    writing.commit().await.unwrap();
    let tx = other.writing().await.unwrap();
    hurry(&tx).await;
    assert_eq!(vectors::put(&tx, &vector(bed.chunks[1])).await.unwrap(), 1);
}

#[tokio::test]
async fn a_chunk_does_not_go_while_it_gets_a_vector() {
    let bed = bed(1).await;
    let (mut one, mut other) =
        (bed.catalog.pool.get().await.unwrap(), bed.catalog.pool.get().await.unwrap());
    let writing = one.writing().await.unwrap();
    let vector = NewVector { chunk: bed.chunks[0], vector: vec![1.0] };
    vectors::put(&writing, &[vector]).await.unwrap();
    let tx = other.writing().await.unwrap();
    hurry(&tx).await;
    has_to_wait(chunks::remove(&tx, vec![uuid(bed.chunks[0].0)], true).await);
}

/// Each had a round trip of its own, while everybody else who wrote vectors waited.
#[tokio::test]
async fn what_is_removed_together_is_told_in_one_statement() {
    let bed = bed(20).await;
    let vector = |chunk: &ChunkId| NewVector { chunk: *chunk, vector: vec![1.0] };
    bed.catalog.put_vectors(bed.chunks.iter().map(vector).collect()).await.unwrap();
    let before = bed.catalog.newest_change().await.unwrap();
    let mut used = bed.catalog.pool.get().await.unwrap();
    let count = "create sequence windrow_catalog.told; \
         create function windrow_catalog.tell() returns trigger language plpgsql as \
         'begin perform nextval(''windrow_catalog.told''); return null; end'; \
         create trigger told after insert on windrow_catalog.changes \
         for each statement execute function windrow_catalog.tell()";
    used.batch_execute(count).await.unwrap();
    let tx = used.writing().await.unwrap();
    chunks::remove(&tx, bed.chunks.iter().map(|id| uuid(id.0)).collect(), true).await.unwrap();
    tx.commit().await.unwrap();
    let told = used.query_one("select last_value from windrow_catalog.told", &[]).await.unwrap();
    assert_eq!(told.get::<_, i64>(0), 1);
    drop(used);
    assert_eq!(bed.catalog.newest_change().await.unwrap(), before + 20);
    assert_eq!(bed.catalog.sweep_changes(u64::MAX, 100).await, Ok(20));
}
