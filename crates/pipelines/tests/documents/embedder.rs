//! Somebody changes the embedder of a server for one of another dimension.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use windrow_core::command::{RetryMode, Scope};
use windrow_core::item::Status;
use windrow_core::queue::Queue as _;
use windrow_pipelines::adapters::embed::{Embedded, Embedder};
use windrow_pipelines::catalog::GenerationKey;
use windrow_pipelines::documents::{QUEUE, Workers, stage};

use crate::place::{Place, enqueued};

/// Counts bytes, in five numbers.
#[derive(Debug)]
struct Five;

impl Embedder for Five {
    fn name(&self) -> &str {
        "five"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn dimension(&self) -> Option<usize> {
        Some(5)
    }

    fn embed<'a>(&'a self, texts: &'a [&'a str]) -> BoxFuture<'a, Vec<Embedded>> {
        let vector = |text: &&str| {
            let mut counts = [0.0_f32; 5];
            text.bytes().for_each(|byte| counts[usize::from(byte) % 5] += 1.0);
            let length = counts.iter().map(|count| count * count).sum::<f32>().sqrt();
            Ok(counts.iter().map(|count| count / length).collect())
        };
        Box::pin(std::future::ready(texts.iter().map(vector).collect()))
    }
}

async fn changed(place: &Place) -> Workers {
    place.start_with(|parts| parts.embedder = Arc::new(Five)).await
}

/// How many of a generation's chunks are there, and have vectors.
async fn embedded(place: &Place, at: GenerationKey) -> (u32, u32) {
    let progress = place.catalog.progress("acme", at).await.unwrap().unwrap();
    (progress.chunks, progress.chunks_embedded)
}

/// What could not be found with the new embedder's vector of a question.
async fn missing(place: &Place) -> String {
    let found = place.found_by(Arc::new(Five), "honey of the bees").await;
    assert!(!found.hits.is_empty(), "words find it anyway");
    found.missing.unwrap_or_default()
}

/// A document of the new one went into a collection of the old one, and nobody's vectors were found
/// any more, for good.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_embedder_is_refused_where_others_are_until_all_is_reindexed() {
    let place = Place::new("embedder");
    let workers = place.start_with(|_| {}).await;
    for (name, text) in [("bees.txt", "The bees make honey."), ("wasps.txt", "Wasps make none.")] {
        let (_, item) = enqueued(place.add(name, text).await);
        assert_eq!(place.ended(item).await, Status::Completed);
    }
    workers.stop().await.unwrap();

    // One that is new and one that is there already, embedded together.
    let vector = Scope { queue: QUEUE.into(), stage: Some(stage::VECTOR.into()), tenant: None };
    place.queue.pause(vector.clone()).await.unwrap();
    let (ants, new) = enqueued(place.add("ants.txt", "Ants make no honey either.").await);
    let (bees, again) = enqueued(place.add("bees.txt", "The bees make much honey.").await);
    let workers = changed(&place).await;
    while embedded(&place, ants).await.0 + embedded(&place, bees).await.0 < 2 {
        place.moment().await;
    }
    assert!(missing(&place).await.contains("no vectors"), "all of it is the old one's");
    place.queue.resume(vector).await.unwrap();
    assert_eq!(place.ended(new).await, Status::Completed);
    assert_eq!(place.ended(again).await, Status::Completed);
    assert_eq!((embedded(&place, ants).await, embedded(&place, bees).await), ((1, 0), (1, 1)));
    let page = place.queue.children(new, 0, 9).await.unwrap().unwrap().items[0].id;
    let chunk = place.queue.children(page, 0, 9).await.unwrap().unwrap().items[0].clone();
    let why = format!("{:?}", chunk.stages);
    assert_eq!(chunk.status, Status::Failed);
    for part in ["has vectors of 384 dimensions", "has 5", "another collection", "reindex"] {
        assert!(why.contains(part), "{why}");
    }
    let said = missing(&place).await;
    assert!(said.starts_with("not all vectors") && said.contains("384 dimensions"), "{said}");

    // The rest is done again, and then what was refused.
    let (_, item) = enqueued(place.add("wasps.txt", "Wasps make none at all.").await);
    assert_eq!(place.ended(item).await, Status::Completed);
    assert_eq!(missing(&place).await, "");
    place.queue.retry(new, RetryMode::Reset, None, None).await.unwrap();
    while embedded(&place, ants).await != (1, 1) {
        place.moment().await;
    }
    assert_eq!(place.ended(new).await, Status::Completed);
    assert_eq!(missing(&place).await, "");
    workers.stop().await.unwrap();
}
