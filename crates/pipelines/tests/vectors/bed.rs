//! What a case stands on: an empty store, short words for long calls, and a list to compare with.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use uuid::Uuid;
use windrow_pipelines::adapters::vectors::{
    ChunkId, Filter, Hit, Live, Point, Vectors, VectorsError,
};

use crate::bases::Base;

/// One case of the suite.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) run: for<'a> fn(&'a Bed) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
}

/// The cases of a file. One that is not in the list is never used, which the compiler says.
macro_rules! cases {
    ($list:ident: $($name:ident),* $(,)?) => {
        pub(crate) fn $list() -> Vec<crate::bed::Case> {
            let noun = module_path!().rsplit("::").next().unwrap_or_default();
            vec![$(crate::bed::Case {
                name: format!("{noun}::{}", stringify!($name)),
                run: |bed| Box::pin($name(bed)),
            }),*]
        }
    };
}
pub(crate) use cases;

pub(crate) struct Bed {
    pub(crate) store: Arc<dyn Vectors>,
    pub(crate) base: Arc<dyn Base>,
}

/// What points are in a store.
pub(crate) type Points = Vec<(Point, Vec<f32>)>;

impl Bed {
    pub(crate) async fn put(&self, points: &[(Point, Vec<f32>)]) {
        self.store.put(points).await.unwrap();
    }

    pub(crate) async fn count(&self, filter: &Filter) -> u64 {
        self.store.count(filter).await.unwrap()
    }

    /// The numbers of the points that are nearest.
    pub(crate) async fn nearest(&self, query: &[f32], filter: &Filter, limit: usize) -> Vec<u128> {
        let hits = self.store.search(query, filter, limit).await.unwrap();
        hits.iter().map(|hit| u128::from_be_bytes(hit.point.id)).collect()
    }
}

pub(crate) fn id(n: u64) -> ChunkId {
    u128::from(n).to_be_bytes()
}

pub(crate) fn document(n: u64) -> Uuid {
    Uuid::from_u128(u128::from(n) << 32 | 0xd0c)
}

/// A point of a document: every third is of the tenant `acme`, every other of `papers`.
pub(crate) fn point(n: u64, of: u64, generation: u32) -> Point {
    Point {
        id: id(n),
        document: document(of),
        generation,
        page: n as u32 % 7 + 1,
        tenant: if of.is_multiple_of(3) { "acme" } else { "other" }.into(),
        collection: if of.is_multiple_of(2) { "papers" } else { "notes" }.into(),
    }
}

pub(crate) fn unit(vector: &[f64]) -> Vec<f32> {
    let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    vector.iter().map(|x| (x / length) as f32).collect()
}

/// A vector of two numbers, so many degrees from the first axis.
pub(crate) fn at(degrees: f64) -> Vec<f32> {
    let turned = degrees.to_radians();
    unit(&[turned.cos(), turned.sin()])
}

pub(crate) fn everything() -> Filter {
    Filter::default()
}

pub(crate) fn of_tenant(tenant: &str) -> Filter {
    Filter { tenant: Some(tenant.into()), ..Filter::default() }
}

pub(crate) fn of_collection(collection: &str) -> Filter {
    Filter { collection: Some(collection.into()), ..Filter::default() }
}

pub(crate) fn of_document(n: u64) -> Filter {
    Filter { document: Some(document(n)), ..Filter::default() }
}

/// Those of these generations, by the number of the document.
pub(crate) fn live(generations: &[(u64, u32)]) -> Filter {
    let live: Live = generations.iter().map(|(of, number)| (document(*of), *number)).collect();
    Filter { live: Some(Arc::new(live)), ..Filter::default() }
}

/// Vectors around a few centres, so that many lie close together.
pub(crate) struct Cloud {
    pub(crate) random: StdRng,
    centres: Vec<Vec<f64>>,
}

impl Cloud {
    pub(crate) fn new(seed: u64, dimension: usize) -> Cloud {
        let mut random = StdRng::seed_from_u64(seed);
        let mut centre = || (0..dimension).map(|_| random.random_range(-1.0..1.0)).collect();
        let centres = (0..4).map(|_| centre()).collect();
        Cloud { random, centres }
    }

    pub(crate) fn vector(&mut self) -> Vec<f32> {
        let width = [0.0, 0.01, 0.3, 3.0][self.random.random_range(0..4)];
        let centre = self.random.random_range(0..self.centres.len());
        let moved = self.centres[centre].clone();
        let moved = moved.iter().map(|x| x + width * self.random.random_range(-1.0..1.0));
        unit(&moved.collect::<Vec<_>>())
    }
}

/// The same points in a list.
#[derive(Default)]
pub(crate) struct List(pub(crate) BTreeMap<ChunkId, (Point, Vec<f32>)>);

impl List {
    pub(crate) fn put(&mut self, points: &[(Point, Vec<f32>)]) {
        self.0.extend(points.iter().cloned().map(|(point, vector)| (point.id, (point, vector))));
    }

    pub(crate) fn admitted<'a>(
        &'a self,
        filter: &Filter,
    ) -> impl Iterator<Item = &'a (Point, Vec<f32>)> {
        self.0.values().filter(|(point, _)| {
            let at = (point.document, point.generation);
            filter.tenant.as_ref().is_none_or(|tenant| *tenant == point.tenant)
                && filter.collection.as_ref().is_none_or(|one| *one == point.collection)
                && filter.document.is_none_or(|document| document == point.document)
                && filter.live.as_ref().is_none_or(|live| live.contains(&at))
        })
    }

    fn scores(&self, query: &[f32], filter: &Filter) -> BTreeMap<ChunkId, f64> {
        let score = |vector: &[f32]| -> f64 {
            vector.iter().zip(query).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
        };
        self.admitted(filter).map(|(point, vector)| (point.id, score(vector))).collect()
    }

    /// Demands that hits are the nearest of the list: as many, as near, each once, each with its
    /// point.
    #[track_caller]
    pub(crate) fn check(&self, query: &[f32], filter: &Filter, limit: usize, hits: &[Hit]) {
        const ROUNDING: f64 = 1e-5;
        let scores = self.scores(query, filter);
        let mut best: Vec<f64> = scores.values().copied().collect();
        best.sort_by(|one, other| other.total_cmp(one));
        best.truncate(limit);
        assert_eq!(hits.len(), best.len());
        for (hit, best) in hits.iter().zip(&best) {
            let own = scores.get(&hit.point.id).expect("only what the filter admits is found");
            assert!((f64::from(hit.score) - own).abs() < ROUNDING, "{} {own}", hit.score);
            assert!((own - best).abs() < ROUNDING, "{own} is not as near as {best}");
            assert_eq!(hit.point, self.0[&hit.point.id].0);
        }
        for two in hits.windows(2) {
            let in_order = two[0].score > two[1].score
                || two[0].score == two[1].score && two[0].point.id < two[1].point.id;
            assert!(in_order, "{two:?}");
        }
    }
}

#[track_caller]
pub(crate) fn is_bad<T: std::fmt::Debug>(result: Result<T, VectorsError>, part: &str) {
    match result {
        Err(VectorsError::Bad { why }) => assert!(why.contains(part), "{why}"),
        other => panic!("not refused: {other:?}"),
    }
}
