//! Chunks that are linked together, some of which cannot be.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use windrow_core::item::Status;
use windrow_core::trail::Class;
use windrow_pipelines::adapters::extract::cooccurrence::Cooccurrence;
use windrow_pipelines::adapters::extract::{
    Context, Entity, ExtractError, Extracted, Extractor, Relationship,
};
use windrow_pipelines::catalog::{ChunkId, GenerationKey};
use windrow_pipelines::documents::{Keeping as _, Piece, Unkept};

use crate::place::{Place, enqueued};
use crate::refused::{chunks, pages};

/// Sees names, but for one word, of which it knows nothing, and another, which it relates to what
/// is not in the text.
#[derive(Debug, Default)]
struct Choosy(Cooccurrence);

impl Extractor for Choosy {
    fn name(&self) -> &str {
        "choosy"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn parameters(&self) -> String {
        String::new()
    }

    fn is_paid(&self) -> bool {
        false
    }

    fn extract<'a>(
        &'a self,
        text: &'a str,
        _context: Context<'a>,
    ) -> BoxFuture<'a, Result<Extracted, ExtractError>> {
        let said = match text {
            _ if text.contains("wormwood") => Err(ExtractError::Bad { why: "too bitter".into() }),
            _ if text.contains("Field 7 ") => Ok(stranger()),
            _ => Ok(self.0.read(text)),
        };
        Box::pin(std::future::ready(said))
    }
}

/// What no graph takes: it relates what it does not mention.
fn stranger() -> Extracted {
    let relationship = Relationship {
        source: "Nobody".into(),
        target: "Nowhere".into(),
        description: String::new(),
        keywords: vec!["lives in".into()],
        weight: 1,
    };
    Extracted { entities: Vec::new(), relationships: vec![relationship] }
}

fn clover() -> Extracted {
    let (name, kind) = ("Clover".to_owned(), "plant".to_owned());
    let entity = Entity { name, kind, description: String::new(), score: 90 };
    Extracted { entities: vec![entity], relationships: Vec::new() }
}

/// All chunks of a generation, as stages see them.
async fn pieces(place: &Place, at: GenerationKey) -> Vec<Piece> {
    let keeping = place.at_hand(None);
    let places = keeping.places("acme", at, (0, 0)).await.unwrap();
    let ids = places.into_iter().map(|place| place.id).collect();
    keeping.pieces("acme", ids).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_chunks_that_cannot_be_linked_fail_in_their_own_words() {
    let place = Place::new("linked");
    let choosy = |parts: &mut windrow_pipelines::documents::Parts| {
        parts.extractor = Some(Arc::new(Choosy::default()));
    };
    let workers = place.start_with(choosy).await;
    let (at, item) = enqueued(place.add("fields.txt", &pages(12)).await);
    assert_eq!(place.ended(item).await, Status::Completed);
    let known = place.catalog.progress("acme", at).await.unwrap().unwrap();
    assert_eq!((known.chunks, known.chunks_embedded, known.chunks_linked), (12, 12, 10));
    let all = chunks(&place, item).await;
    let failed = all.iter().filter(|chunk| chunk.status == Status::Failed);
    let said: Vec<_> = failed.filter_map(|chunk| chunk.stages[1].error.as_ref()).collect();
    assert!(said.iter().all(|error| error.class == Class::BadData), "{said:?}");
    let mut words: Vec<&str> = said.iter().map(|error| &*error.message).collect();
    words.sort_unstable();
    assert!(words[0].contains("names \"Nobody\""), "{words:?}");
    assert_eq!(words[1..], ["too bitter"]);
    workers.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_chunk_of_a_batch_is_answered_for_by_itself() {
    let place = Place::new("graphs");
    let workers = place.start_with(|parts| parts.extractor = None).await;
    let (at, item) = enqueued(place.add("fields.txt", &pages(4)).await);
    assert_eq!(place.ended(item).await, Status::Completed);
    workers.stop().await.unwrap();
    let known = place.catalog.progress("acme", at).await.unwrap().unwrap();
    assert_eq!((known.chunks, known.chunks_linked), (4, 0), "nobody wanted a graph");

    let mut pieces = pieces(&place, at).await;
    // Cut anew meanwhile: nobody has that one any more.
    pieces[1].id = ChunkId([7; 16]);
    let mut said: Vec<_> = pieces.iter().map(|piece| (piece.clone(), clover())).collect();
    said[2].1 = stranger();
    let kept = place.at_hand(None).put_graphs("acme", &said).await;
    assert_eq!((&kept[0], &kept[3]), (&Ok(()), &Ok(())));
    assert!(matches!(&kept[1], Err(Unkept::Gone { what }) if what.contains("0707")), "{kept:?}");
    assert!(matches!(&kept[2], Err(Unkept::Bad { why }) if why.contains("Nobody")), "{kept:?}");
    let known = place.catalog.progress("acme", at).await.unwrap().unwrap();
    assert_eq!(known.chunks_linked, 2);
    let ids = pieces.iter().map(|piece| piece.id).collect();
    let mentions = place.catalog.mentions("acme", ids).await.unwrap();
    let has = |nth: usize| mentions.iter().any(|mention| mention.chunk == pieces[nth].id);
    assert_eq!([has(0), has(1), has(2), has(3)], [true, false, false, true]);
}
