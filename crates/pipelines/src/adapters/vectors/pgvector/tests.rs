//! Which way a search goes, on a real server, and that what it finds is the nearest either way.

use std::collections::HashSet;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use windrow_testkit::servers::{Durability, Postgres as Server, Version};

use super::super::Live;
use super::find::{Ask, Way};
use super::*;

const DIMENSION: usize = 24;
const DOCUMENTS: u64 = 200;
const CHUNKS: u64 = 20;

/// A store in which the index is asked whenever it may be, with four thousand points.
struct Bed {
    store: PgVector,
    random: StdRng,
    _server: Server,
}

fn document(n: u64) -> Uuid {
    Uuid::from_u128(u128::from(n) + 1)
}

async fn bed() -> Bed {
    let server = Server::start(Version::V18, Durability::Off).unwrap();
    server.create_database("ways").unwrap();
    // It gives up after twenty thousand otherwise, and there are not so many here.
    let soon = "create extension vector; alter database ways set hnsw.max_scan_tuples = 1";
    server.psql("ways", soon).unwrap();
    let connect = Connect::plain(&server.url("ways")).unwrap();
    let options = Options { exact_max: 0, ..Options::new(connect) };
    let store = PgVector::open(options).await.unwrap();
    let mut bed = Bed { store, random: StdRng::seed_from_u64(11), _server: server };
    let mut points = Vec::new();
    for n in 0..DOCUMENTS * CHUNKS {
        let of = n / CHUNKS;
        let point = Point {
            id: u128::from(n).to_be_bytes(),
            document: document(of),
            generation: 1,
            page: 1,
            tenant: "acme".into(),
            collection: if of == 7 { "few" } else { "many" }.into(),
        };
        points.push((point, bed.vector()));
    }
    bed.store.put(&points).await.unwrap();
    let used = bed.store.pool.get().await.unwrap();
    used.batch_execute("vacuum analyze windrow_vectors.points_24").await.unwrap();
    drop(used);
    bed
}

impl Bed {
    fn vector(&mut self) -> Vec<f32> {
        let numbers: Vec<f64> =
            (0..DIMENSION).map(|_| self.random.random_range(-1.0..1.0)).collect();
        let length = numbers.iter().map(|x| x * x).sum::<f64>().sqrt();
        numbers.iter().map(|x| (x / length) as f32).collect()
    }

    /// What the index finds, and what there is to be found.
    async fn both(&mut self, filter: &Filter, limit: usize) -> (Vec<Hit>, Vec<Hit>) {
        let query = self.vector();
        let found = self.store.search(&query, filter, limit).await.unwrap();
        let ask = Ask { extension: &self.store.extension, query: &query, filter, limit };
        let mut used = self.store.pool.get().await.unwrap();
        let tx = used.reading().await.unwrap();
        (found, ask.hits(&tx, Way::Exact).await.unwrap())
    }

    async fn plan(&mut self, filter: &Filter, way: Way) -> String {
        let query = self.vector();
        let ask = Ask { extension: &self.store.extension, query: &query, filter, limit: 10 };
        let built = ask.statement(way);
        let mut used = self.store.pool.get().await.unwrap();
        let tx = used.reading().await.unwrap();
        let lines = tx.rows(&format!("explain {}", built.sql), &built.values()).await.unwrap();
        lines.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n")
    }
}

fn of_collection(collection: &str) -> Filter {
    Filter { tenant: Some("acme".into()), collection: Some(collection.into()), ..Filter::default() }
}

fn live(documents: impl Iterator<Item = u64>) -> Filter {
    let live: Live = documents.map(|n| (document(n), 1)).collect();
    Filter { live: Some(Arc::new(live)), ..Filter::default() }
}

#[tokio::test]
async fn the_index_finds_nearly_all_and_what_it_cannot_reach_is_found_without_it() {
    let mut bed = bed().await;
    let all_but_one = live(1..DOCUMENTS);
    for filter in [Filter::default(), of_collection("many"), all_but_one.clone()] {
        let plan = bed.plan(&filter, Way::Index).await;
        assert!(plan.contains("points_24_by_nearness"), "{plan}");
        let plan = bed.plan(&filter, Way::Exact).await;
        assert!(!plan.contains("points_24_by_nearness"), "{plan}");
        let (mut found, mut there) = (0, 0);
        for _ in 0..20 {
            let (by_index, exact) = bed.both(&filter, 30).await;
            assert_eq!((by_index.len(), exact.len()), (30, 30));
            assert!(by_index.is_sorted_by(|one, other| one.score >= other.score));
            let known: HashSet<ChunkId> = by_index.iter().map(|hit| hit.point.id).collect();
            found += exact.iter().filter(|hit| known.contains(&hit.point.id)).count();
            there += exact.len();
        }
        assert!(found * 100 >= there * 95, "{found} of {there}: {filter:?}");
    }
    // One document of two hundred: the index gives up before it has all of it.
    bed.store.candidates = 1;
    let (of_one, limit) = (live([7].into_iter()), CHUNKS as usize);
    let (found, exact) = bed.both(&of_one, limit).await;
    assert_eq!((found, exact.len()), (exact.clone(), limit));
    // What is narrow goes along an index of its own.
    let plan = bed.plan(&of_collection("few"), Way::Exact).await;
    assert!(plan.contains("points_24_by_scope"), "{plan}");
    let one = Filter { document: Some(document(7)), ..Filter::default() };
    let plan = bed.plan(&one, Way::Exact).await;
    assert!(plan.contains("points_24_by_document"), "{plan}");
}
