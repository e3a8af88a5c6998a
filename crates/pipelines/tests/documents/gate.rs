//! What pages and chunks wait for: for themselves, or for all of their document.

use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use windrow_core::command::RetryMode;
use windrow_core::item::Status;
use windrow_core::queue::Queue as _;
use windrow_core::tally::{Bucket, Counts};
use windrow_core::{ItemId, Timestamp};
use windrow_pipelines::adapters::embed::hashed::Hashed;
use windrow_pipelines::adapters::embed::{EmbedError, Embedded, Embedder};
use windrow_pipelines::catalog::DocumentState;
use windrow_pipelines::documents::{Gate, PageText, Parts, ReadError, Reader, TextFiles};

use crate::place::{Place, enqueued};

/// How long whoever is slow asks to be left alone.
const REST_MS: u64 = 300;

/// What becomes of a page or a text that has a word in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mood {
    /// It works the second time, after a rest.
    Slow,
    /// It never works.
    Bad,
}

/// Reads and embeds, but for what it has been told of.
#[derive(Debug, Default)]
struct Moody {
    pages: Mutex<Vec<(u32, Mood)>>,
    texts: Mutex<Vec<(&'static str, Mood)>>,
    /// Pages that were read.
    read: Mutex<Vec<u32>>,
}

impl Moody {
    /// What is to become of something, which is forgotten if it is to work the next time.
    fn mood<T: Copy>(of: &Mutex<Vec<(T, Mood)>>, is_it: impl Fn(T) -> bool) -> Option<Mood> {
        let mut of = of.lock();
        let at = of.iter().position(|(what, _)| is_it(*what))?;
        let mood = of[at].1;
        if mood == Mood::Slow {
            of.remove(at);
        }
        Some(mood)
    }
}

impl Reader for Moody {
    fn version(&self) -> String {
        "moody".into()
    }

    fn pages<'a>(
        &'a self,
        file: &'a Path,
        media_type: &'a str,
    ) -> BoxFuture<'a, Result<u32, ReadError>> {
        TextFiles.pages(file, media_type)
    }

    fn read<'a>(
        &'a self,
        file: &'a Path,
        media_type: &'a str,
        page: u32,
    ) -> BoxFuture<'a, Result<PageText, ReadError>> {
        match Moody::mood(&self.pages, |number| number == page) {
            Some(Mood::Slow) => Box::pin(async {
                let (why, retry_after_ms) = ("not now".to_owned(), Some(REST_MS));
                Err(ReadError::Transient { why, retry_after_ms })
            }),
            Some(Mood::Bad) => Box::pin(async { Err(ReadError::bad("it is torn")) }),
            None => {
                self.read.lock().push(page);
                TextFiles.read(file, media_type, page)
            }
        }
    }
}

impl Embedder for Moody {
    fn name(&self) -> &str {
        Hashed.name()
    }

    fn version(&self) -> &str {
        Hashed.version()
    }

    fn dimension(&self) -> Option<usize> {
        Hashed.dimension()
    }

    fn is_paid(&self) -> bool {
        false
    }

    fn embed<'a>(&'a self, texts: &'a [&'a str]) -> BoxFuture<'a, Vec<Embedded>> {
        Box::pin(async move {
            let mut all = Hashed.embed(texts).await;
            for (one, text) in all.iter_mut().zip(texts) {
                match Moody::mood(&self.texts, |word| text.contains(word)) {
                    Some(Mood::Slow) => {
                        let (why, retry_after_ms) = ("not now".to_owned(), Some(REST_MS));
                        *one = Err(EmbedError::Transient { why, retry_after_ms });
                    }
                    Some(Mood::Bad) => *one = Err(EmbedError::Bad { why: "too odd".into() }),
                    None => {}
                }
            }
            all
        })
    }
}

/// A text of three pages, with one chunk each.
const TOWNS: &str = "The first page tells of the old town by the river Elbe.\x0c\
    The second page tells of the market that Hamburg holds in May.\x0c\
    The third page tells of the bridge that was built in Lauenburg.";

async fn gated(test: &str, gate: Gate) -> (Place, Arc<Moody>) {
    let mut place = Place::new(test);
    place.gate = gate;
    (place, Arc::new(Moody::default()))
}

fn with(moody: &Arc<Moody>) -> impl FnOnce(&mut Parts) + use<> {
    let moody = Arc::clone(moody);
    move |parts| {
        parts.reader = Arc::clone(&moody) as Arc<dyn Reader>;
        parts.embedder = moody;
    }
}

/// A stage that something below a document passed.
#[derive(Debug)]
struct Passed {
    stage: String,
    begun: Timestamp,
    ended: Timestamp,
}

/// All stages of all that is below an item.
async fn passed(place: &Place, below: ItemId) -> Vec<Passed> {
    let (mut all, mut waiting) = (Vec::new(), vec![below]);
    while let Some(item) = waiting.pop() {
        let mut from = Some(0);
        while let Some(first) = from {
            let page = place.queue.children(item, first, 100).await.unwrap().unwrap();
            for child in &page.items {
                waiting.extend(child.children.as_ref().map(|_| child.id));
                let passed = child.stages.iter().map(|stage| Passed {
                    stage: stage.name.to_string(),
                    begun: stage.started.unwrap(),
                    ended: stage.completed.unwrap(),
                });
                all.extend(passed);
            }
            from = page.next;
        }
    }
    all
}

/// Whether a stage began for anything before another had ended for everything.
fn overlap(passed: &[Passed], early: &str, late: &str) -> bool {
    let of = |stage: &'static str| passed.iter().filter(move |one| one.stage == stage);
    let early = passed.iter().filter(|one| one.stage == early).map(|one| one.ended).max();
    let late = passed.iter().filter(|one| one.stage == late).map(|one| one.begun).min();
    assert!(of("ocr").count() == 3 && of("graph").count() == 3, "{passed:?}");
    late.unwrap() < early.unwrap()
}

/// What a document knows of the phases below it.
async fn phases(place: &Place, item: ItemId) -> Vec<(String, Counts)> {
    let seen = place.queue.inspect(item).await.unwrap().unwrap();
    let phases = seen.children.unwrap().phases;
    phases.into_iter().map(|(name, counts)| (name.to_string(), counts)).collect()
}

fn counts(of: &[(Bucket, u32)]) -> Counts {
    let mut counts = Counts::default();
    of.iter().for_each(|(bucket, many)| counts.0[*bucket as usize] = *many);
    counts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_phase_begins_before_the_whole_document_has_passed_the_one_before_unless_it_may() {
    for (gate, test) in [(Gate::Item, "by-item"), (Gate::Document, "by-document")] {
        let (place, moody) = gated(test, gate).await;
        moody.pages.lock().push((3, Mood::Slow));
        moody.texts.lock().push(("third", Mood::Slow));
        let workers = place.start_with(with(&moody)).await;
        let (at, item) = enqueued(place.add("towns.txt", TOWNS).await);
        assert_eq!(place.ended(item).await, Status::Completed);
        let passed = passed(&place, item).await;
        let waits = gate == Gate::Document;
        assert_eq!(overlap(&passed, "ocr", "chunk"), !waits, "{gate:?}: {passed:?}");
        assert_eq!(overlap(&passed, "vector", "graph"), !waits, "{gate:?}: {passed:?}");
        let known = phases(&place, item).await;
        let names: Vec<&str> = known.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["ocr", "chunk", "vector", "graph"]);
        let all = counts(&[(Bucket::Completed, 3)]);
        assert!(known.iter().all(|(_, counts)| *counts == all), "{gate:?}: {known:?}");
        let document = place.catalog.document("acme", at.document).await.unwrap().unwrap();
        assert_eq!(document.state, DocumentState::Live);
        assert_eq!(place.found("which bridge was built").await[0].1, 3);
        workers.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gaps_hold_up_nobody_and_each_is_made_up_for_through_all_phases_behind_it() {
    for (gate, test) in [(Gate::Item, "gaps-item"), (Gate::Document, "gaps-document")] {
        let (place, moody) = gated(test, gate).await;
        moody.pages.lock().push((1, Mood::Bad));
        moody.texts.lock().push(("third", Mood::Bad));
        let workers = place.start_with(with(&moody)).await;
        let (at, item) = enqueued(place.add("towns.txt", TOWNS).await);
        assert_eq!(place.ended(item).await, Status::Completed);
        let known = place.catalog.progress("acme", at).await.unwrap().unwrap();
        assert_eq!((known.pages_read, known.pages_without), (2, 1), "{gate:?}");
        assert_eq!((known.chunks, known.chunks_embedded, known.chunks_linked), (2, 1, 1));
        assert_eq!(place.found("market in May").await[0].1, 2);
        let failed = phases(&place, item).await;
        assert_eq!(failed[0].1, counts(&[(Bucket::Completed, 2), (Bucket::Failed, 1)]));
        // Mended: both gaps are filled, and nothing else is done again.
        moody.pages.lock().clear();
        moody.texts.lock().clear();
        moody.read.lock().clear();
        let retried = place.queue.retry(item, RetryMode::Reset, None, None).await.unwrap();
        assert_eq!(retried.reset, 2, "{gate:?}");
        assert_eq!(place.ended(item).await, Status::Completed);
        assert_eq!(*moody.read.lock(), [1], "{gate:?}");
        let known = place.catalog.progress("acme", at).await.unwrap().unwrap();
        assert_eq!((known.chunks, known.chunks_embedded, known.chunks_linked), (3, 3, 3));
        let all = counts(&[(Bucket::Completed, 3)]);
        let known = phases(&place, item).await;
        assert!(known.iter().all(|(_, counts)| *counts == all), "{gate:?}: {known:?}");
        assert_eq!(place.found("old town by the river").await[0].1, 1);
        workers.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_enqueued_before_the_gate_changed_goes_its_own_way_to_the_end() {
    let (mut place, moody) = gated("changed", Gate::Document).await;
    let (first, item) = enqueued(place.add("towns.txt", TOWNS).await);
    place.gate = Gate::Item;
    // It takes the place of what waits, and keeps the way of that.
    let shorter = TOWNS.rsplit_once('\x0c').unwrap().0;
    let (second, same) = enqueued(place.add("towns.txt", shorter).await);
    assert_eq!((second.document, same), (first.document, item));
    let (_, other) = enqueued(place.add("other.txt", TOWNS).await);
    let workers = place.start_with(with(&moody)).await;
    for item in [item, other] {
        assert_eq!(place.ended(item).await, Status::Completed);
    }
    let routed = |seen: &windrow_core::queue::Seen| seen.stages.len();
    let [waited, went] = [item, other].map(|item| place.queue.inspect(item));
    assert_eq!(routed(&waited.await.unwrap().unwrap()), 5);
    assert_eq!(routed(&went.await.unwrap().unwrap()), 2);
    let two = counts(&[(Bucket::Completed, 2)]);
    let known = phases(&place, item).await;
    assert!(known.iter().all(|(_, counts)| *counts == two), "{known:?}");
    // A removal goes the same way, and there is nothing to do on most of it.
    place.gate = Gate::Document;
    let (again, _) = enqueued(place.add("towns.txt", TOWNS).await);
    let removal = place.remove(again.document).await.unwrap();
    place.ended(removal).await;
    assert_eq!(place.catalog.document("acme", again.document).await.unwrap(), None);
    workers.stop().await.unwrap();
}
