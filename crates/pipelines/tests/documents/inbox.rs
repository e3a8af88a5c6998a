//! The whole of `examples/inbox`, read with the real programs.

use std::path::PathBuf;
use std::sync::Arc;

use windrow_core::item::Status;
use windrow_pipelines::adapters::ocr::tesseract::{Options, Tesseract};
use windrow_pipelines::adapters::pdf::Pdf;
use windrow_pipelines::adapters::reader::AnyFile;
use windrow_pipelines::catalog::DocumentState;
use windrow_pipelines::documents::{Added, Reader};

use crate::place::{Place, enqueued};

fn inbox() -> Vec<(String, Vec<u8>)> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/inbox");
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(path).unwrap())
    };
    let mut all: Vec<_> = std::fs::read_dir(dir).unwrap().map(read).collect();
    all.sort();
    all
}

#[derive(serde::Deserialize)]
struct Question {
    question: String,
    file: String,
    page: u32,
}

fn questions() -> Vec<Question> {
    let text = include_str!("../../../../examples/inbox-questions.json");
    serde_json::from_str(text).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_inbox_is_read_to_the_end_and_ten_questions_find_their_pages() {
    let place = Place::new("inbox");
    let ocr = Arc::new(Tesseract::new(Options::default()).unwrap());
    let reader = Arc::new(AnyFile { pdf: Pdf::default(), ocr }) as Arc<dyn Reader>;
    let workers = place.start(reader).await;
    let mut added = Vec::new();
    for (name, bytes) in inbox() {
        let (at, item) = enqueued(place.add_bytes(&name, &bytes).await);
        added.push((name, at, item));
    }
    for (name, at, item) in &added {
        let is_corrupt = name.starts_with("corrupt");
        let (want, state) = match is_corrupt {
            true => (Status::Failed, DocumentState::Failed),
            false => (Status::Completed, DocumentState::Live),
        };
        assert_eq!(place.ended(*item).await, want, "{name}");
        let document = place.catalog.document("acme", at.document).await.unwrap().unwrap();
        assert_eq!(document.state, state, "{name}");
        let failure = document.newest.and_then(|newest| newest.failure);
        assert_eq!(failure.is_some(), is_corrupt, "{name}: {failure:?}");
    }
    let mut found = 0;
    for Question { question, file, page } in questions() {
        let hits = place.found(&question).await;
        let is_found = hits.contains(&(file.clone(), page));
        found += usize::from(is_found);
        if !is_found {
            eprintln!("{question}: {file} {page} is not among {hits:?}");
        }
    }
    assert!(found >= 9, "{found} of ten");
    // A second time there is nothing to do, but for what failed.
    for (name, bytes) in inbox() {
        let again = place.add_bytes(&name, &bytes).await;
        let is_unchanged = matches!(again, Added::Unchanged { .. });
        assert_eq!(is_unchanged, !name.starts_with("corrupt"), "{name}: {again:?}");
    }
    workers.stop().await.unwrap();
}
