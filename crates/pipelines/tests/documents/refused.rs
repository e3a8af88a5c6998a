//! Chunks and an endpoint that refuses some of them, or all for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use windrow_core::ItemId;
use windrow_core::item::Status;
use windrow_core::queue::{Queue as _, Seen};
use windrow_core::trail::Class;
use windrow_pipelines::adapters::embed::openai::{OpenAi, Options};
use windrow_pipelines::adapters::embed::{Embedded, Embedder};

use crate::place::{Place, enqueued};
use crate::server::{Answer, Asked, Server, vectors};

/// So many pages of a document, the fifth of which has a word that somebody minds.
pub(crate) fn pages(count: u32) -> String {
    let page = |number: u32| {
        let word = if number == 5 { "wormwood" } else { "clover" };
        format!("Field {number} of the farm grows {word} for the cattle in summer.")
    };
    (1..=count).map(page).collect::<Vec<_>>().join("\x0c")
}

fn is_minded(asked: &Asked) -> bool {
    asked.texts().iter().any(|text| text.contains("wormwood"))
}

/// The chunks below a document.
pub(crate) async fn chunks(place: &Place, document: ItemId) -> Vec<Seen> {
    let mut chunks = Vec::new();
    let pages = place.queue.children(document, 0, 100).await.unwrap().unwrap();
    for page in pages.items {
        let below = place.queue.children(page.id, 0, 100).await.unwrap();
        chunks.extend(below.into_iter().flat_map(|below| below.items));
    }
    chunks
}

async fn started(place: &Place, server: &Server) -> windrow_pipelines::documents::Workers {
    let model = OpenAi::new(&server.base(), Options::new("tiny")).unwrap();
    place.start_with(|parts| parts.embedder = Arc::new(model)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_chunk_that_an_endpoint_refuses_is_quarantined_in_its_words() {
    for status in [400, 413, 422, 500] {
        let server = Server::start(move |asked| match is_minded(asked) {
            true => Answer::status(status, r#"{"error": {"message": "no wormwood here"}}"#),
            false => vectors(asked),
        });
        let server = server.await;
        let place = Place::new(&format!("refused-{status}"));
        let workers = started(&place, &server).await;
        let (at, item) = enqueued(place.add("fields.txt", &pages(12)).await);
        assert_eq!(place.ended(item).await, Status::Completed);
        let known = place.catalog.progress("acme", at).await.unwrap().unwrap();
        assert_eq!((known.chunks, known.chunks_embedded), (12, 11), "{status}");
        let chunks = chunks(&place, item).await;
        let failed: Vec<&Seen> =
            chunks.iter().filter(|chunk| chunk.status == Status::Failed).collect();
        assert_eq!((chunks.len(), failed.len()), (12, 1), "{status}");
        let error = failed[0].stages[0].error.as_ref().unwrap();
        assert_eq!((error.class, failed[0].attempts), (Class::BadData, 1));
        let words = format!("({status}): no wormwood here");
        assert!(error.message.contains(&words), "{}", error.message);
        workers.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_is_busy_or_away_costs_no_chunk_anything() {
    let is_back = Arc::new(AtomicBool::new(false));
    for status in [429, 503] {
        is_back.store(false, Ordering::SeqCst);
        let seen = Arc::clone(&is_back);
        let server = Server::start(move |asked| match seen.load(Ordering::SeqCst) {
            true => vectors(asked),
            false => {
                let headers = "retry-after-ms: 100\r\n";
                Answer::Say { status, headers, body: r#"{"error": "come again"}"#.into() }
            }
        });
        let server = server.await;
        let place = Place::new(&format!("away-{status}"));
        let workers = started(&place, &server).await;
        let (at, item) = enqueued(place.add("fields.txt", &pages(12)).await);
        // Refused more than once, and every chunk waits as if nothing had been.
        let waits = |chunk: &Seen| chunk.status == Status::Pending && chunk.attempts == 0;
        loop {
            let chunks = chunks(&place, item).await;
            if server.asked().len() >= 3 && chunks.len() == 12 && chunks.iter().all(waits) {
                break;
            }
            place.moment().await;
        }
        is_back.store(true, Ordering::SeqCst);
        assert_eq!(place.ended(item).await, Status::Completed);
        let known = place.catalog.progress("acme", at).await.unwrap().unwrap();
        assert_eq!((known.chunks, known.chunks_embedded), (12, 12), "{status}");
        workers.stop().await.unwrap();
    }
}

/// An embedder whose version does not say how long its vectors are.
#[derive(Debug)]
struct Stretched {
    length: usize,
    texts: AtomicUsize,
}

impl Embedder for Stretched {
    fn name(&self) -> &str {
        "stretched"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn dimension(&self) -> Option<usize> {
        Some(self.length)
    }

    fn embed<'a>(&'a self, texts: &'a [&'a str]) -> BoxFuture<'a, Vec<Embedded>> {
        self.texts.fetch_add(texts.len(), Ordering::SeqCst);
        let mut vector = vec![0.0; self.length];
        vector[0] = 1.0;
        let all = texts.iter().map(|_| Ok(vector.clone())).collect();
        Box::pin(async { all })
    }
}

/// After the dimension was changed, what was remembered had the old length.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vector_of_another_length_is_not_remembered() {
    let place = Place::new("length");
    for (name, length, made) in [("a.txt", 3, 4), ("b.txt", 3, 0), ("c.txt", 5, 4)] {
        let embedder = Arc::new(Stretched { length, texts: AtomicUsize::new(0) });
        let used = Arc::clone(&embedder);
        let workers = place.start_with(|parts| parts.embedder = used).await;
        let (_, item) = enqueued(place.add(name, &pages(4)).await);
        place.ended(item).await;
        assert_eq!(embedder.texts.load(Ordering::SeqCst), made, "{name}");
        workers.stop().await.unwrap();
    }
}
