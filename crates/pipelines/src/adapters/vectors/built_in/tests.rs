//! The index against a list that is looked through whole.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::super::Live;
use super::*;

fn id(n: u64) -> ChunkId {
    u128::from(n).to_be_bytes()
}

fn point(n: u64, document: u128, generation: u32) -> Point {
    Point {
        id: id(n),
        document: Uuid::from_u128(document),
        generation,
        page: n as u32 % 7 + 1,
        tenant: if document.is_multiple_of(3) { "acme" } else { "other" }.into(),
        collection: if document.is_multiple_of(2) { "papers" } else { "notes" }.into(),
    }
}

fn unit(vector: &[f64]) -> Vec<f32> {
    let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    vector.iter().map(|x| (x / length) as f32).collect()
}

/// Vectors around a few centres, so that many lie closer together than codes can tell apart.
struct Cloud {
    random: StdRng,
    centres: Vec<Vec<f64>>,
}

impl Cloud {
    fn new(seed: u64, dimension: usize) -> Cloud {
        let mut random = StdRng::seed_from_u64(seed);
        let mut centre = || (0..dimension).map(|_| random.random_range(-1.0..1.0)).collect();
        let centres = (0..4).map(|_| centre()).collect();
        Cloud { random, centres }
    }

    fn vector(&mut self) -> Vec<f32> {
        let width = [0.0, 0.001, 0.01, 0.3, 3.0][self.random.random_range(0..5)];
        let centre = self.random.random_range(0..self.centres.len());
        let moved = self.centres[centre].clone();
        let moved = moved.iter().map(|x| x + width * self.random.random_range(-1.0..1.0));
        unit(&moved.collect::<Vec<_>>())
    }
}

/// The same points in a list.
#[derive(Default)]
struct List(BTreeMap<ChunkId, (Point, Vec<f32>)>);

impl List {
    fn admitted<'a>(&'a self, filter: &Filter) -> impl Iterator<Item = &'a (Point, Vec<f32>)> {
        self.0.values().filter(|(point, _)| {
            filter.admits(&point.tenant, &point.collection, point.document)
                && filter.admits_generation(point.document, point.generation)
        })
    }

    fn scores(&self, query: &[f32], filter: &Filter) -> BTreeMap<ChunkId, f64> {
        let score = |vector: &[f32]| -> f64 {
            vector.iter().zip(query).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
        };
        self.admitted(filter).map(|(point, vector)| (point.id, score(vector))).collect()
    }
}

/// Demands that hits are the nearest of the list: as many, as near, each once, each with its point.
#[track_caller]
fn check(list: &List, query: &[f32], filter: &Filter, limit: usize, hits: &[Hit]) {
    const ROUNDING: f64 = 1e-5;
    let scores = list.scores(query, filter);
    let mut best: Vec<f64> = scores.values().copied().collect();
    best.sort_by(|one, other| other.total_cmp(one));
    best.truncate(limit);
    assert_eq!(hits.len(), best.len());
    for (hit, best) in hits.iter().zip(&best) {
        let own = scores.get(&hit.point.id).expect("only what the filter admits is found");
        assert!((f64::from(hit.score) - own).abs() < ROUNDING, "{} {own}", hit.score);
        assert!((own - best).abs() < ROUNDING, "{own} is not as near as {best}");
        assert_eq!(hit.point, list.0[&hit.point.id].0);
    }
    for two in hits.windows(2) {
        let in_order = two[0].score > two[1].score
            || two[0].score == two[1].score && two[0].point.id < two[1].point.id;
        assert!(in_order, "{two:?}");
    }
}

fn some_filter(random: &mut StdRng) -> Filter {
    let mut maybe = |odds| random.random_bool(odds);
    let tenant = maybe(0.3).then(|| "acme".into());
    let collection = maybe(0.3).then(|| "papers".into());
    let (has_document, has_live) = (maybe(0.2), maybe(0.4));
    let document = has_document.then(|| Uuid::from_u128(random.random_range(0..12)));
    let live = has_live.then(|| {
        let all = (0..12u128).map(|n| (Uuid::from_u128(n), random.random_range(1..4)));
        Arc::new(all.collect::<Live>())
    });
    Filter { tenant, collection, document, live }
}

#[tokio::test]
async fn whatever_is_put_in_and_removed_the_nearest_are_found() {
    for seed in 0..36 {
        let dimension = [3, 16, 40, 384][seed as usize % 4];
        let mut cloud = Cloud::new(seed, dimension);
        let index = BuiltIn::with_segments([4, 32, 300][seed as usize % 3]);
        let mut list = List::default();
        for _ in 0..40 {
            match cloud.random.random_range(0..10) {
                0..6 => {
                    let many = cloud.random.random_range(0..50);
                    let some: Vec<(Point, Vec<f32>)> = (0..many)
                        .map(|_| {
                            // Often one that is there already, sometimes twice in one batch.
                            let n = cloud.random.random_range(0..600u64);
                            let (document, generation) =
                                (u128::from(n % 12), n as u32 / 12 % 3 + 1);
                            (point(n, document, generation), cloud.vector())
                        })
                        .collect();
                    index.put(&some).await.unwrap();
                    list.0.extend(some.into_iter().map(|(point, v)| (point.id, (point, v))));
                }
                6..8 => {
                    let document = Uuid::from_u128(cloud.random.random_range(0..12));
                    let generation = cloud.random.random_range(1..4);
                    index.remove_generation(document, generation).await.unwrap();
                    list.0.retain(|_, (point, _)| {
                        (point.document, point.generation) != (document, generation)
                    });
                }
                _ => {}
            }
            let filter = some_filter(&mut cloud.random);
            let limit = [0, 1, 3, 10, 1_000][cloud.random.random_range(0..5)];
            let query = cloud.vector();
            let hits = index.search(&query, &filter, limit).await.unwrap();
            check(&list, &query, &filter, limit, &hits);
            let count = index.count(&filter).await.unwrap();
            assert_eq!(count, list.admitted(&filter).count() as u64);
        }
        let all = index.count(&Filter::default()).await.unwrap();
        assert_eq!(all, list.0.len() as u64);
        assert_eq!(index.writer.lock().places.len(), list.0.len());
    }
}

#[tokio::test]
async fn many_threads_find_the_same() {
    let mut cloud = Cloud::new(5, 384);
    let index = BuiltIn::with_segments(4_000);
    let some: Vec<Vec<f32>> = (0..500).map(|_| cloud.vector()).collect();
    let one = |n: u64| (point(n, u128::from(n / 20), 1), some[n as usize % 500].clone());
    let points: Vec<_> = (0..24_000).map(one).collect();
    index.put(&points).await.unwrap();
    let filter = Filter::default();
    let query = cloud.vector();
    let numbers = scan::numbers(&index.snapshot(), &Query::new(&query), &filter);
    assert!(!scan::is_small(numbers), "this test is about several threads");
    let hits = index.search(&query, &filter, 50).await.unwrap();
    let list = List(points.into_iter().map(|(point, v)| (point.id, (point, v))).collect());
    check(&list, &query, &filter, 50, &hits);
}

#[test]
fn a_search_needs_no_runtime() {
    let index = BuiltIn::default();
    index.put_now(&[(point(1, 1, 1), vec![1.0])], 0).unwrap();
    let filter = Filter::default();
    let hits = futures_util::FutureExt::now_or_never(index.search(&[-1.0], &filter, 3));
    assert_eq!(hits.unwrap().unwrap()[0].score, -1.0);
}

#[tokio::test]
async fn of_equally_near_points_the_smaller_ids_come_first() {
    let index = BuiltIn::with_segments(2);
    for n in [7u64, 3, 9, 1, 5] {
        index.put(&[(point(n, 1, 1), unit(&[1.0, 2.0]))]).await.unwrap();
    }
    let hits = index.search(&unit(&[2.0, 1.0]), &Filter::default(), 3).await.unwrap();
    let ids: Vec<_> = hits.iter().map(|hit| hit.point.id).collect();
    assert_eq!(ids, [id(1), id(3), id(5)]);
}

#[tokio::test]
async fn segments_stay_few_and_dead_rows_do_not_stay() {
    let index = BuiltIn::with_segments(64);
    let mut cloud = Cloud::new(1, 8);
    for n in 0..1_000u64 {
        index.put(&[(point(n, u128::from(n / 100), 1), cloud.vector())]).await.unwrap();
    }
    let parts = index.snapshot();
    // Full ones, each more than half, and one of each size that is to grow.
    assert!(parts.len() <= 2 * 1_000 / 64 + 7, "{}", parts.len());
    for document in 0..9 {
        index.remove_generation(Uuid::from_u128(document), 1).await.unwrap();
        let (rows, living) = index
            .snapshot()
            .iter()
            .fold((0, 0), |(rows, living), part| (rows + part.rows(), living + part.living()));
        assert_eq!(living, 900 - document as usize * 100);
        assert!(rows * 3 <= living * 4, "{rows} rows for {living}");
    }
    index.remove_generation(Uuid::from_u128(9), 1).await.unwrap();
    assert!(index.snapshot().is_empty());
    assert!(index.writer.lock().places.is_empty());
}

#[tokio::test]
async fn what_is_there_already_is_put_in_again_without_work() {
    let index = BuiltIn::default();
    let points = [(point(1, 1, 1), vec![0.6, 0.8]), (point(2, 1, 1), vec![0.8, 0.6])];
    index.put(&points).await.unwrap();
    let before = index.snapshot();
    index.put(&points).await.unwrap();
    let after = index.snapshot();
    assert!(Arc::ptr_eq(&before[0].segment, &after[0].segment));
    assert_eq!((after.len(), after[0].dead.count), (1, 0));
    // Another vector, page or owner is another thing.
    let mut moved = points[0].clone();
    moved.0.page += 1;
    index.put(&[moved.clone()]).await.unwrap();
    let hits = index.search(&[0.6, 0.8], &Filter::default(), 1).await.unwrap();
    assert_eq!(hits[0].point, moved.0);
    assert_eq!(index.count(&Filter::default()).await, Ok(2));
}

#[test]
fn the_catalog_is_taken_in_once_and_again_but_for_what_is_no_vector() {
    let index = BuiltIn::with_segments(4);
    let row = |n: u64| Row { sequence: n, point: point(n, 1, 1), vector: unit(&[n as f64, 1.0]) };
    let feed = |rows: &mut dyn Iterator<Item = Row>| (index.feed(rows), index.sequence());
    assert_eq!(feed(&mut [].into_iter()), (0, 0));
    assert_eq!(feed(&mut (1..=10).map(row)), (0, 10));
    assert_eq!(feed(&mut (5..=6).map(row)), (0, 10), "an older row takes nothing back");
    assert_eq!(feed(&mut (1..=13).map(row)), (0, 13));
    assert_eq!(index.writer.lock().places.len(), 13);
    let bad = |n| Row { vector: vec![0.5], ..row(n) };
    let rows = (14..=18).map(row).chain((19..=26).map(bad)).chain([row(27)]);
    assert_eq!(feed(&mut rows.into_iter()), (8, 27), "two fours of nothing else are among them");
    assert_eq!(index.writer.lock().places.len(), 19);
}

#[tokio::test]
async fn a_collection_that_is_embedded_anew_has_two_dimensions_and_is_searched_in_each() {
    let index = BuiltIn::default();
    let row = |n: u64, vector: Vec<f32>| Row { sequence: n, point: point(n, 1, 1), vector };
    let rows = [row(1, vec![1.0, 0.0]), row(2, vec![0.0, 1.0, 0.0]), row(3, vec![0.0, 1.0])];
    assert_eq!(index.feed(rows), 0);
    let found = async |query: &[f32]| {
        let (hits, others) = index.search_alike(query, &Filter::default(), 9).await.unwrap();
        let ids: Vec<_> = hits.iter().map(|hit| hit.point.id).collect();
        (ids, others.map(|error| error.to_string()).unwrap_or_default())
    };
    let (ids, others) = found(&[1.0, 0.0]).await;
    assert_eq!(ids, [point(1, 1, 1).id, point(3, 1, 1).id]);
    assert!(others.contains("holds vectors of 3 dimensions"), "{others}");
    let (ids, others) = found(&[1.0, 0.0, 0.0]).await;
    assert_eq!(ids, [point(2, 1, 1).id]);
    assert!(others.contains("holds vectors of 2 dimensions"), "{others}");
    // Whoever puts is still told, and so is who wants all or nothing.
    let given = [(point(4, 1, 1), vec![1.0])];
    assert!(matches!(index.put(&given).await, Err(VectorsError::Dimension { .. })));
    let strict = index.search(&[1.0, 0.0], &Filter::default(), 9).await;
    assert!(matches!(strict, Err(VectorsError::Dimension { holds: 3, given: 2, .. })));
    index.remove(&[point(2, 1, 1).id]);
    assert_eq!(found(&[1.0, 0.0]).await.1, "");
}

#[test]
fn a_writer_at_work_keeps_no_reader_waiting() {
    let index = BuiltIn::default();
    index.put_now(&[(point(1, 1, 1), vec![1.0])], 0).unwrap();
    let _at_work = index.writer.lock();
    let filter = Filter::default();
    let hits = futures_util::FutureExt::now_or_never(index.search(&[1.0], &filter, 3));
    assert_eq!(hits.expect("no waiting").unwrap().len(), 1);
    let count = futures_util::FutureExt::now_or_never(index.count(&filter));
    assert_eq!(count.expect("no waiting"), Ok(1));
}

#[test]
fn readers_see_all_of_a_put_or_nothing_of_it() {
    let index = BuiltIn::with_segments(64);
    let is_over = AtomicBool::new(false);
    let look = || {
        let (mut looks, mut before) = (0, 0);
        while !is_over.load(Ordering::Acquire) || looks == 0 {
            let filter = Filter::default();
            let hits = futures_util::FutureExt::now_or_never(index.search(&[1.0], &filter, 9_999));
            let seen = hits.expect("no waiting").unwrap().len();
            assert!(seen.is_multiple_of(5) && seen >= before, "{seen} after {before}");
            (before, looks) = (seen, looks + 1);
        }
    };
    std::thread::scope(|scope| {
        let readers = [scope.spawn(look), scope.spawn(look)];
        for n in 0..300u64 {
            let five: Vec<_> = (0..5).map(|m| (point(n * 5 + m, 1, 1), vec![1.0])).collect();
            index.put_now(&five, 0).unwrap();
        }
        is_over.store(true, Ordering::Release);
        for reader in readers {
            reader.join().unwrap();
        }
    });
    assert_eq!(index.writer.lock().places.len(), 1_500);
}
