//! The stages, on text files.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use windrow_core::command::RetryMode;
use windrow_core::item::Status;
use windrow_core::ports::Store as _;
use windrow_core::queue::Queue as _;
use windrow_pipelines::catalog::{DocumentState, PageKey};
use windrow_pipelines::documents::{Added, PageText, Plan, ReadError, Reader, TextFiles};

use crate::place::{Place, enqueued};

/// Reads text files, but for pages that it does not.
#[derive(Debug, Default)]
struct Picky {
    bad: Mutex<Vec<u32>>,
    /// The program that the first page needs is not installed.
    is_missing: AtomicBool,
    /// Somebody removes the file while it is read.
    is_removed: AtomicBool,
    read: Mutex<Vec<u32>>,
}

impl Reader for Picky {
    fn version(&self) -> String {
        "picky".into()
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
        if self.is_removed.load(Ordering::Relaxed) {
            // Another page that is read at the same time has made a new one.
            let (kept, text) = (file.with_extension("old"), std::fs::read(file).unwrap());
            std::fs::rename(file, kept).unwrap();
            std::fs::write(file, text).unwrap();
            return Box::pin(async { Err(ReadError::bad("Couldn't open file")) });
        }
        if self.bad.lock().contains(&page) {
            return Box::pin(async { Err(ReadError::bad("it is torn")) });
        }
        if page == 1 && self.is_missing.load(Ordering::Relaxed) {
            let (program, package) = ("tesseract".to_owned(), "tesseract-ocr".to_owned());
            return Box::pin(async { Err(ReadError::Missing { program, package }) });
        }
        self.read.lock().push(page);
        TextFiles.read(file, media_type, page)
    }
}

const BEES: &str = "The bees of the northern hives fly at nine degrees and above.\x0c\
    Honey is taken in July, when the combs are sealed.";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_becomes_pages_chunks_and_vectors_and_is_found() {
    let place = Place::new("found");
    let workers = place.start(Arc::new(TextFiles)).await;
    let (at, item) = enqueued(place.add("bees.txt", BEES).await);
    assert_eq!(place.ended(item).await, Status::Completed);
    let document = place.catalog.document("acme", at.document).await.unwrap().unwrap();
    assert_eq!(document.state, DocumentState::Live);
    let progress = place.catalog.progress("acme", at).await.unwrap().unwrap();
    assert_eq!((progress.pages, progress.pages_read, progress.chunks), (Some(2), 2, 2));
    assert_eq!(progress.chunks_embedded, 2);
    assert_eq!(place.found("when is honey taken").await[0], ("bees.txt".to_owned(), 2));
    assert_eq!(place.found("at what temperature do bees fly").await[0].1, 1);
    // The same again is no work.
    let again = place.add("bees.txt", BEES).await;
    assert_eq!(again, Added::Unchanged { at });
    workers.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_version_replaces_the_old_one_when_it_is_whole_and_leaves_nothing_of_it() {
    let place = Place::new("version");
    let workers = place.start(Arc::new(TextFiles)).await;
    let (first, item) = enqueued(place.add("bees.txt", BEES).await);
    assert_eq!(place.ended(item).await, Status::Completed);
    workers.stop().await.unwrap();
    let second = "Wasps build paper nests under the roof.";
    let (at, item) = enqueued(place.add("bees.txt", second).await);
    assert_eq!((at.document, at.generation), (first.document, 2));
    // Nobody works: the old one is what is found.
    assert_eq!(place.found("honey").await[0].1, 2);
    let workers = place.start(Arc::new(TextFiles)).await;
    assert_eq!(place.ended(item).await, Status::Completed);
    assert_eq!(place.found("honey in July").await, [("bees.txt".to_owned(), 1)]);
    let old = PageKey { document: first.document, generation: 1, number: 1 };
    assert_eq!(place.catalog.page("acme", old).await.unwrap(), None);
    assert!(place.catalog.old_generations(10).await.unwrap().is_empty());
    workers.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_of_which_nothing_can_be_read_does_not_replace_one_that_was() {
    let place = Place::new("empty");
    let reader = Arc::new(Picky::default());
    let workers = place.start(Arc::clone(&reader) as Arc<dyn Reader>).await;
    let (first, item) = enqueued(place.add("bees.txt", BEES).await);
    assert_eq!(place.ended(item).await, Status::Completed);
    *reader.bad.lock() = vec![1];
    let (at, item) = enqueued(place.add("bees.txt", "Wasps build paper nests.").await);
    assert_eq!((at.document, at.generation), (first.document, 2));
    place.ended(item).await;
    let document = place.catalog.document("acme", at.document).await.unwrap().unwrap();
    assert_eq!((document.state, document.live), (DocumentState::Failed, Some(1)));
    let why = document.newest.unwrap().failure.unwrap();
    assert!(why.contains("no page could be read; the first: it is torn"), "{why}");
    assert_eq!(place.found("honey").await[0].1, 2, "the old one is found still");
    // Mended, and done again: it takes its place.
    reader.bad.lock().clear();
    place.queue.retry(item, RetryMode::Reset, None, None).await.unwrap();
    assert_eq!(place.ended(item).await, Status::Completed);
    let document = place.catalog.document("acme", at.document).await.unwrap().unwrap();
    assert_eq!((document.state, document.live), (DocumentState::Live, Some(2)));
    assert_eq!(place.found("paper nests").await, [("bees.txt".to_owned(), 1)]);
    workers.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_added_again_while_it_is_built_is_no_work() {
    let place = Place::new("building");
    let (at, item) = enqueued(place.add("bees.txt", BEES).await);
    assert_eq!(place.add("bees.txt", BEES).await, Added::Unchanged { at });
    // Its item is lost: to add it again enqueues it.
    windrow_core::queue::Queue::cancel(&*place.queue, item, None).await.unwrap();
    let (again, item) = enqueued(place.add("bees.txt", BEES).await);
    assert_eq!(again, at);
    let workers = place.start(Arc::new(TextFiles)).await;
    assert_eq!(place.ended(item).await, Status::Completed);
    workers.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_versions_that_are_added_at_once_the_newest_is_the_one_that_stays() {
    let place = Arc::new(Place::new("at-once"));
    let workers = place.start(Arc::new(TextFiles)).await;
    for round in 0..10 {
        let add = |version: usize| {
            let place = Arc::clone(&place);
            tokio::spawn(async move {
                place.add("bees.txt", &format!("{BEES} Version {round} {version}.")).await
            })
        };
        let mut added = Vec::new();
        for adding in (0..8).map(add).collect::<Vec<_>>() {
            added.push(enqueued(adding.await.unwrap()).0);
        }
        let newest = added.iter().map(|at| at.generation).max();
        loop {
            let document = place.catalog.document("acme", added[0].document).await.unwrap();
            let document = document.unwrap();
            assert_eq!(document.newest.map(|newest| newest.number), newest);
            if document.live == newest {
                break;
            }
            place.moment().await;
        }
    }
    workers.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_cannot_be_read_is_a_gap_and_is_read_alone_when_it_can() {
    let place = Place::new("gap");
    let reader = Arc::new(Picky::default());
    *reader.bad.lock() = vec![7];
    let workers = place.start(Arc::clone(&reader) as Arc<dyn Reader>).await;
    let page = |number: u32| format!("Chapter {number} tells of the town number {number} in full.");
    let text = (1..=20).map(page).collect::<Vec<_>>().join("\x0c");
    let (at, item) = enqueued(place.add("towns.txt", &text).await);
    place.ended(item).await;
    let progress = place.catalog.progress("acme", at).await.unwrap().unwrap();
    assert_eq!((progress.pages_read, progress.pages_without), (19, 1));
    assert_eq!(place.found("town number 12").await[0].1, 12);
    let manifest = place.catalog.manifest("acme", at, 6, 1).await.unwrap();
    assert!(format!("{manifest:?}").contains("it is torn"), "{manifest:?}");
    // Mended: only that page is read again.
    reader.bad.lock().clear();
    reader.read.lock().clear();
    place.queue.retry(item, RetryMode::Reset, None, None).await.unwrap();
    loop {
        let progress = place.catalog.progress("acme", at).await.unwrap().unwrap();
        if progress.chunks_embedded == 20 {
            break;
        }
        place.moment().await;
    }
    assert_eq!(*reader.read.lock(), [7]);
    assert_eq!(place.ended(item).await, Status::Completed);
    assert_eq!(place.found("town number 7").await[0].1, 7);
    workers.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_waits_for_a_program_that_is_missing_while_others_go_on_and_no_attempt_is_lost() {
    let place = Place::new("missing");
    let reader = Arc::new(Picky::default());
    reader.is_missing.store(true, Ordering::Relaxed);
    let workers = place.start(Arc::clone(&reader) as Arc<dyn Reader>).await;
    let (_, item) = enqueued(place.add("bees.txt", BEES).await);
    let (waiting, other) = loop {
        let children = place.queue.children(item, 0, 10).await.unwrap();
        let pages: Vec<_> = children.into_iter().flat_map(|page| page.items).collect();
        if let [first, second] = &*pages
            && first.stages[0].error.is_some()
            && second.status == Status::Completed
        {
            break (first.clone(), second.clone());
        }
        place.moment().await;
    };
    let why = format!("{:?}", waiting.stages[0].error);
    assert!(why.contains("install tesseract-ocr"), "{why}");
    assert_eq!((waiting.status, waiting.attempts), (Status::Pending, 0));
    assert_eq!(other.status, Status::Completed);
    // Installed: whoever does not want to wait for the next look says so.
    reader.is_missing.store(false, Ordering::Relaxed);
    place.queue.retry(waiting.id, RetryMode::Reset, None, None).await.unwrap();
    assert_eq!(place.ended(item).await, Status::Completed);
    workers.stop().await.unwrap();
}

/// A page failed for good because its file had gone from the cache.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_whose_file_is_removed_while_it_is_read_is_read_again() {
    let place = Place::new("vanished");
    let reader = Arc::new(Picky::default());
    reader.is_removed.store(true, Ordering::Relaxed);
    let workers = place.start(Arc::clone(&reader) as Arc<dyn Reader>).await;
    let bees = "The bees of the northern hives fly at nine degrees and above.";
    let (_, item) = enqueued(place.add("bees.txt", bees).await);
    let page = loop {
        let children = place.queue.children(item, 0, 10).await.unwrap();
        match children.and_then(|page| page.items.into_iter().next()) {
            Some(page) if page.stages[0].error.is_some() => break page,
            _ => place.moment().await,
        }
    };
    let why = format!("{:?}", page.stages[0].error);
    assert!(why.contains("its copy was removed while it was read"), "{why}");
    assert_eq!(page.status, Status::Pending);
    reader.is_removed.store(false, Ordering::Relaxed);
    place.now(page.id).await;
    assert_eq!(place.ended(item).await, Status::Completed);
    workers.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_that_is_removed_is_not_found_at_once_and_then_gone_everywhere() {
    let place = Place::new("removed");
    let workers = place.start(Arc::new(TextFiles)).await;
    let (at, item) = enqueued(place.add("bees.txt", BEES).await);
    let (_, other) = enqueued(place.add("wasps.txt", "Wasps do not make honey at all.").await);
    assert_eq!(place.ended(item).await, Status::Completed);
    assert_eq!(place.ended(other).await, Status::Completed);
    workers.stop().await.unwrap();
    let removal = place.remove(at.document).await.unwrap();
    let only_wasps = |found: Vec<(String, u32)>| found.iter().all(|(name, _)| name == "wasps.txt");
    assert!(only_wasps(place.found("honey").await), "before anybody worked on it");
    assert_eq!(place.add("bees.txt", BEES).await, Added::Deleting { document: at.document });
    let workers = place.start(Arc::new(TextFiles)).await;
    assert_eq!(place.ended(removal).await, Status::Completed);
    assert_eq!(place.catalog.document("acme", at.document).await.unwrap(), None);
    assert!(only_wasps(place.found("honey").await));
    // It may come again, as another document.
    let (again, item) = enqueued(place.add("bees.txt", BEES).await);
    assert_ne!(again.document, at.document);
    assert_eq!(place.ended(item).await, Status::Completed);
    assert_eq!(place.remove(at.document).await, None);
    workers.stop().await.unwrap();
}

/// Never gets through with anything: not with counting the pages of one file, and with no page.
#[derive(Debug, Default)]
struct Stuck {
    begun: AtomicUsize,
}

impl Stuck {
    fn begins<'a, T: 'a>(&'a self) -> BoxFuture<'a, T> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::pending())
    }
}

impl Reader for Stuck {
    fn version(&self) -> String {
        "stuck".into()
    }

    fn pages<'a>(
        &'a self,
        file: &'a Path,
        media_type: &'a str,
    ) -> BoxFuture<'a, Result<u32, ReadError>> {
        match file.ends_with("5-stuck.txt") {
            true => self.begins(),
            false => TextFiles.pages(file, media_type),
        }
    }

    fn read<'a>(
        &'a self,
        _: &'a Path,
        _: &'a str,
        _: u32,
    ) -> BoxFuture<'a, Result<PageText, ReadError>> {
        self.begins()
    }
}

/// They stopped one after the other, each with its own grace, so that a server was long gone before
/// the last of them handed anything back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_stop_hand_back_at_once_while_one_of_them_does_not_end() {
    let place = Place::new("stopping");
    let stuck = Arc::new(Stuck::default());
    let workers = Arc::new(place.start(stuck.clone()).await);
    // Who holds an item may not have begun with it yet, and then hands it back as well.
    let held_and_begun = async || {
        let items = place.queue.store().items(None, 1_000).await.unwrap();
        let held = items.iter().filter(|item| item.lease().is_some()).count();
        (held, stuck.begun.load(Ordering::Relaxed))
    };
    let until = async |what: &str, wanted: (usize, usize)| {
        for _ in 0..500 {
            if held_and_begun().await == wanted {
                return;
            }
            place.moment().await;
        }
        panic!("not in time: {what}; held and begun are {:?}", held_and_begun().await);
    };
    let cores = Plan::default().pages;
    let pages = vec!["A page that nobody reads."; 4 * cores].join("\x0c");
    place.add("many.txt", &pages).await;
    until("pages that are read, and as many in hand", (2 * cores, cores)).await;
    place.add("stuck.txt", "stuck").await;
    until("a file that is opened", (2 * cores + 1, cores + 1)).await;
    let stopping = tokio::spawn({
        let workers = Arc::clone(&workers);
        async move { workers.stop().await }
    });
    until("what nobody had begun is handed back", (cores + 1, cores + 1)).await;
    assert!(!stopping.is_finished(), "the others have their grace");
    stopping.abort();
}
