//! What is gone goes from stores outside too, however late somebody writes to them.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use uuid::Uuid;
use windrow_core::item::Status;
use windrow_pipelines::adapters::vectors::built_in::BuiltIn;
use windrow_pipelines::adapters::vectors::{Filter, Hit, Point, Vectors, VectorsError};
use windrow_pipelines::catalog::{ChunkId, NewChunk, PageKey};
use windrow_pipelines::documents::Leftovers;

use crate::place::{Place, enqueued};

/// A store outside, whose door somebody holds: whoever puts something in waits for it.
#[derive(Debug)]
struct Outside {
    points: BuiltIn,
    door: Semaphore,
    /// How many came to the door.
    came: Mutex<usize>,
    /// Nobody gets an answer that something was removed.
    is_away: Mutex<bool>,
}

impl Outside {
    fn open() -> Arc<Outside> {
        let (points, came, is_away) = (BuiltIn::default(), Mutex::default(), Mutex::default());
        Arc::new(Outside { points, door: Semaphore::new(1), came, is_away })
    }

    async fn count(&self) -> u64 {
        self.points.count(&Filter::default()).await.unwrap()
    }

    fn away(&self) -> Result<(), VectorsError> {
        let why = || VectorsError::Transient { why: "away".into(), retry_after_ms: None };
        if *self.is_away.lock() { Err(why()) } else { Ok(()) }
    }
}

impl Vectors for Outside {
    fn name(&self) -> &str {
        "outside"
    }

    fn put<'a>(
        &'a self,
        points: &'a [(Point, Vec<f32>)],
    ) -> BoxFuture<'a, Result<(), VectorsError>> {
        Box::pin(async move {
            *self.came.lock() += 1;
            let _open = self.door.acquire().await;
            self.points.put(points).await
        })
    }

    fn remove_generation(
        &self,
        document: Uuid,
        generation: u32,
    ) -> BoxFuture<'_, Result<(), VectorsError>> {
        Box::pin(async move {
            self.away()?;
            self.points.remove_generation(document, generation).await
        })
    }

    fn remove_document(&self, document: Uuid) -> BoxFuture<'_, Result<(), VectorsError>> {
        Box::pin(async move {
            self.away()?;
            self.points.remove_document(document).await
        })
    }

    fn remove_chunks<'a>(
        &'a self,
        chunks: &'a [[u8; 16]],
    ) -> BoxFuture<'a, Result<(), VectorsError>> {
        self.points.remove_chunks(chunks)
    }

    fn search<'a>(
        &'a self,
        query: &'a [f32],
        filter: &'a Filter,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Hit>, VectorsError>> {
        self.points.search(query, filter, limit)
    }

    fn count<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<u64, VectorsError>> {
        self.points.count(filter)
    }
}

const ONE: &str = "The bees of the northern hives fly at nine degrees and above.";
const TWO: &str = "Wasps build nests of paper under the roof of the barn.";

/// Puts a point of a chunk that nobody has heard of any more, as a stage does that was stopped for
/// long, and then killed.
async fn late(outside: &Outside, id: [u8; 16], document: Uuid) {
    let (tenant, collection) = ("acme".into(), "books".into());
    let point = Point { id, document, generation: 1, page: 1, tenant, collection };
    let mut vector = vec![0.0; 384];
    vector[0] = 1.0;
    outside.points.put(&[(point, vector)]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vector_that_comes_after_its_document_is_gone_is_taken_back() {
    let place = Place::new("taken-back");
    let outside = Outside::open();
    let store = Arc::clone(&outside);
    let workers = place.start_outside(store).await;
    let held = outside.door.acquire().await.unwrap();
    let (at, _) = enqueued(place.add("bees.txt", ONE).await);
    while *outside.came.lock() == 0 {
        place.moment().await;
    }
    // Somebody embeds it; now it goes.
    let removal = place.remove(at.document).await.unwrap();
    assert_eq!(place.ended(removal).await, Status::Completed);
    assert_eq!(place.catalog.document("acme", at.document).await.unwrap(), None);
    drop(held);
    // Whoever is late takes it back before its answer; another document comes through afterwards.
    let (_, item) = enqueued(place.add("wasps.txt", TWO).await);
    assert_eq!(place.ended(item).await, Status::Completed);
    workers.stop().await.unwrap();
    assert_eq!(outside.count().await, 1, "only that of the wasps");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_stage_left_behind_goes_with_the_second_look() {
    let place = Place::new("left-behind");
    let outside = Outside::open();
    let store = Arc::clone(&outside) as Arc<dyn Vectors>;
    let workers = place.start_outside(Arc::clone(&store)).await;
    let mut leftovers = Leftovers::new(place.at_hand(Some(store)));
    let (gone, item) = enqueued(place.add("bees.txt", ONE).await);
    assert_eq!(place.ended(item).await, Status::Completed);
    let removal = place.remove(gone.document).await.unwrap();
    assert_eq!(place.ended(removal).await, Status::Completed);
    let (old, item) = enqueued(place.add("wasps.txt", ONE).await);
    assert_eq!(place.ended(item).await, Status::Completed);
    let (_, item) = enqueued(place.add("wasps.txt", TWO).await);
    assert_eq!(place.ended(item).await, Status::Completed);
    late(&outside, [1; 16], gone.document).await;
    late(&outside, [2; 16], old.document).await;
    assert_eq!(outside.count().await, 3);
    assert_eq!(leftovers.look().await, Ok(0), "it may be that somebody is late still");
    assert_eq!(outside.count().await, 3);
    assert_ne!(leftovers.look().await, Ok(0));
    assert_eq!(outside.count().await, 1);
    assert_eq!(leftovers.look().await, Ok(0), "once is enough");
    workers.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunks_that_a_page_is_no_longer_cut_into_go_and_come_back_only_when_they_are_gone() {
    let place = Place::new("cut-anew");
    let outside = Outside::open();
    let store = Arc::clone(&outside) as Arc<dyn Vectors>;
    let workers = place.start_outside(Arc::clone(&store)).await;
    let (at, item) = enqueued(place.add("bees.txt", ONE).await);
    assert_eq!(place.ended(item).await, Status::Completed);
    workers.stop().await.unwrap();
    let page = PageKey { document: at.document, generation: 1, number: 1 };
    let chunk = |text: &str| NewChunk {
        index: 0,
        kind: "text".into(),
        tokens: 5,
        begins: 0,
        ends: text.len() as u32,
        metadata: serde_json::json!({}),
        text: text.into(),
    };
    let first: Vec<ChunkId> = place.catalog.put_chunks(page, vec![chunk("one")]).await.unwrap();
    late(&outside, first[0].0, at.document).await;
    let catalog = &place.catalog;
    catalog.put_chunks(page, vec![chunk("another")]).await.unwrap();
    // It comes back before anybody looked: then it is not left over.
    catalog.put_chunks(page, vec![chunk("one")]).await.unwrap();
    let mut leftovers = Leftovers::new(place.at_hand(Some(store)));
    for _ in 0..2 {
        leftovers.look().await.unwrap();
    }
    assert_eq!(outside.count().await, 1, "the one that is there; that of the bees went");
    // While somebody removes it elsewhere it has to wait.
    catalog.put_chunks(page, vec![chunk("another")]).await.unwrap();
    let last = catalog.last_leftover().await.unwrap();
    let taken = catalog.take_leftovers(last, 10).await.unwrap();
    let refused = catalog.put_chunks(page, vec![chunk("one")]).await.unwrap_err();
    assert!(refused.to_string().contains("just being removed"), "{refused}");
    catalog.forget_leftovers(taken.iter().map(|one| one.number).collect()).await.unwrap();
    catalog.put_chunks(page, vec![chunk("one")]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_waits_for_a_store_that_is_away_and_costs_no_attempt() {
    let place = Place::new("away");
    let outside = Outside::open();
    let store = Arc::clone(&outside) as Arc<dyn Vectors>;
    let workers = place.start_outside(store).await;
    let (at, item) = enqueued(place.add("bees.txt", ONE).await);
    assert_eq!(place.ended(item).await, Status::Completed);
    *outside.is_away.lock() = true;
    let removal = place.remove(at.document).await.unwrap();
    let seen = place.tried(removal).await;
    assert_eq!((seen.status, seen.attempts), (Status::Pending, 0));
    *outside.is_away.lock() = false;
    place.now(removal).await;
    assert_eq!(place.ended(removal).await, Status::Completed);
    assert_eq!(outside.count().await, 0);
    workers.stop().await.unwrap();
}
