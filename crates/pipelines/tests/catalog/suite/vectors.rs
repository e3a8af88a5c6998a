//! Vectors, and following what happens to them.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;
use windrow_pipelines::catalog::{
    Catalog, CatalogError, ChunkId, GenerationKey, NewVector, PageOutcome, Scope, VectorChange,
    VectorCursor, VectorsSince,
};

use crate::bed::{Bed, cases, is_bad, key, page, scope};

/// An index as the built-in one is: it learns of the vectors by following the catalog.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Follower {
    pub(crate) cursor: VectorCursor,
    pub(crate) points: BTreeMap<ChunkId, (GenerationKey, Vec<f32>)>,
    pub(crate) live: BTreeMap<Uuid, u32>,
    pub(crate) begun_again: u32,
}

impl Follower {
    /// Takes in what is new, in steps of so many.
    pub(crate) async fn follow(&mut self, catalog: &dyn Catalog, limit: u32) {
        loop {
            match catalog.vectors_since(self.cursor, limit).await.expect("changes") {
                VectorsSince::BeginAgain => {
                    *self = Follower { begun_again: self.begun_again + 1, ..Follower::default() };
                }
                VectorsSince::Changes { changes, next } => {
                    if changes.is_empty() {
                        assert_eq!(next.sequence, self.cursor.sequence);
                        return;
                    }
                    assert!(changes.len() <= limit as usize);
                    assert!(changes.is_sorted_by(|a, b| a.0 < b.0), "in order, each once");
                    assert!(changes[0].0 > self.cursor.sequence);
                    changes.into_iter().for_each(|(_, change)| self.take(change));
                    self.cursor = next;
                }
            }
        }
    }

    fn take(&mut self, change: VectorChange) {
        match change {
            VectorChange::Put { point, vector } => {
                let at = GenerationKey { document: point.document, generation: point.generation };
                self.points.insert(point.chunk, (at, vector));
            }
            VectorChange::Live(at) => _ = self.live.insert(at.document, at.generation),
            VectorChange::ChunkRemoved(chunk) => _ = self.points.remove(&chunk),
            VectorChange::GenerationRemoved(gone) => {
                self.points.retain(|_, (at, _)| *at != gone);
                if self.live.get(&gone.document) == Some(&gone.generation) {
                    self.live.remove(&gone.document);
                }
            }
        }
    }

    /// What search would see.
    pub(crate) fn seen(&self) -> BTreeSet<ChunkId> {
        let is_live = |at: &GenerationKey| self.live.get(&at.document) == Some(&at.generation);
        self.points.iter().filter(|(_, (at, _))| is_live(at)).map(|(chunk, _)| *chunk).collect()
    }
}

cases![
    who_follows_has_what_who_begins_has,
    the_same_vector_is_no_news_and_another_one_is,
    a_collection_has_vectors_of_one_dimension,
    all_documents_of_a_collection_can_be_embedded_anew_one_by_one,
    of_two_dimensions_that_come_at_once_one_stays,
    who_missed_a_removal_that_was_swept_begins_again
];

async fn who_follows_has_what_who_begins_has(bed: &Bed) {
    let mut follower = Follower::default();
    let catalog = &*bed.catalog;
    follower.follow(catalog, 3).await;
    assert_eq!(follower.cursor.sequence, 0);
    let first = bed.built_in(&scope(), "a.md", &["One.\n\nTwo.\n\nThree.", "Four."]).await;
    follower.follow(catalog, 3).await;
    assert_eq!((follower.points.len(), follower.seen().len()), (4, 0), "not yet live");
    bed.publish(first).await;
    follower.follow(catalog, 3).await;
    assert_eq!(follower.seen().len(), 4);
    let ids = bed.read(page(first, 1), "One.\n\nOther.").await;
    bed.enrich("t", &ids).await.unwrap();
    follower.follow(catalog, 3).await;
    assert_eq!(follower.seen().len(), 3, "one stays, one comes, one is elsewhere");
    let without = PageOutcome::Without { reason: "blank".into() };
    bed.catalog.put_page(page(first, 2), without).await.unwrap();
    follower.follow(catalog, 3).await;
    assert_eq!(follower.seen(), ids.iter().copied().collect());
    let second = bed.ingest("a.md", &["Five."]).await;
    follower.follow(catalog, 3).await;
    assert_eq!((follower.points.len(), follower.seen().len()), (3, 1));
    bed.catalog.remove_generation(first).await.unwrap();
    follower.follow(catalog, 3).await;
    assert_eq!((follower.points.len(), follower.seen().len()), (1, 1));
    let mut fresh = Follower::default();
    fresh.follow(catalog, 2).await;
    assert_eq!((&fresh.points, &fresh.live), (&follower.points, &follower.live));
    assert!(bed.catalog.begin_delete("t", second.document, vec![], bed.now()).await.unwrap());
    follower.follow(catalog, 3).await;
    assert!(follower.points.is_empty() && follower.live.is_empty(), "{follower:?}");
}

async fn the_same_vector_is_no_news_and_another_one_is(bed: &Bed) {
    let at = bed.building("a.md", "x", 1).await;
    let chunk = bed.read(page(at, 1), "One.").await[0];
    let put =
        |number: f32| bed.catalog.put_vectors(vec![NewVector { chunk, vector: vec![number, 2.0] }]);
    put(1.0).await.unwrap();
    let mut follower = Follower::default();
    follower.follow(&*bed.catalog, 10).await;
    let before = follower.cursor;
    put(1.0).await.unwrap();
    follower.follow(&*bed.catalog, 10).await;
    assert_eq!(follower.cursor, before);
    put(1.5).await.unwrap();
    follower.follow(&*bed.catalog, 10).await;
    assert_eq!(follower.points[&chunk].1, [1.5, 2.0]);
    assert_eq!(bed.base.counts().unwrap()["vectors"], 1);
    let two = vec![NewVector { chunk, vector: vec![f32::NAN] }];
    is_bad(bed.catalog.put_vectors(two).await, "something else than numbers");
}

/// A page of one chunk, and a vector of this dimension for it.
async fn put(bed: &Bed, at: GenerationKey, number: u32, dimension: usize) -> Put {
    let chunk = bed.read(page(at, number), &format!("Page {number} of {at}.")).await[0];
    let vector = NewVector { chunk, vector: vec![1.0; dimension] };
    bed.catalog.put_vectors(vec![vector]).await
}

type Put = Result<u32, CatalogError>;

async fn begin(bed: &Bed, scope: &Scope, source: &str, content: &str) -> GenerationKey {
    let new = bed.new_in(scope, source, content);
    let at = key(&bed.catalog.add_document(new, bed.now()).await.unwrap());
    bed.catalog.begin_pages(at, 3).await.unwrap();
    at
}

/// One vector of another embedder was taken in, and no vector of anybody was found any more.
async fn a_collection_has_vectors_of_one_dimension(bed: &Bed) {
    let first = begin(bed, &scope(), "a.md", "a").await;
    put(bed, first, 1, 2).await.unwrap();
    let second = begin(bed, &scope(), "b.md", "b").await;
    for building_or_live in 0..2 {
        let refused = put(bed, second, 1, 3).await;
        is_bad(refused.clone(), "\"c\" has vectors of 2 dimensions and this one has 3");
        is_bad(refused, "another collection");
        is_bad(put(bed, second, 1, 1).await, "2 dimensions and this one has 1");
        if building_or_live == 0 {
            bed.publish(first).await;
        }
    }
    assert_eq!(bed.base.counts().unwrap()["vectors"], 1, "nothing of it is there");
    // Others are no matter.
    for (tenant, collection) in [("t", "d"), ("u", "c")] {
        let other = begin(bed, &Scope::new(tenant, collection), "b.md", "b").await;
        assert_eq!(put(bed, other, 1, 3).await, Ok(1), "{tenant} {collection}");
    }
    assert_eq!(put(bed, second, 1, 2).await, Ok(1));
    is_bad(put(bed, second, 2, 3).await, "reindex the document");
    // At once, nothing is there to differ from.
    let fresh = Scope::new("t", "fresh");
    let (one, other) = (begin(bed, &fresh, "1", "1").await, begin(bed, &fresh, "2", "2").await);
    let mut both = Vec::new();
    for (at, dimension) in [(one, 2), (other, 3)] {
        let chunk = bed.read(page(at, 1), "x").await[0];
        both.push(NewVector { chunk, vector: vec![1.0; dimension] });
    }
    is_bad(bed.catalog.put_vectors(both).await, "\"fresh\" has vectors of");
    // What is being deleted, or was replaced, is no hindrance.
    for document in [first.document, second.document] {
        assert!(bed.catalog.begin_delete("t", document, vec![], bed.now()).await.unwrap());
    }
    let third = begin(bed, &scope(), "c.md", "c").await;
    assert_eq!(put(bed, third, 1, 3).await, Ok(1));
}

async fn all_documents_of_a_collection_can_be_embedded_anew_one_by_one(bed: &Bed) {
    for source in ["a.md", "b.md"] {
        let at = begin(bed, &scope(), source, "old").await;
        put(bed, at, 1, 2).await.unwrap();
        bed.publish(at).await;
    }
    let fresh = begin(bed, &scope(), "c.md", "new").await;
    for (nth, source) in ["a.md", "b.md"].into_iter().enumerate() {
        is_bad(put(bed, fresh, 1, 3).await, "2 dimensions");
        let again = begin(bed, &scope(), source, "new").await;
        assert_eq!(put(bed, again, 1, 3).await, Ok(1), "{source}");
        assert_eq!(put(bed, again, 2, 3).await, Ok(1), "{source}");
        bed.publish(again).await;
        // One that was moved may change while others are still to be.
        let later = begin(bed, &scope(), source, "newer").await;
        assert_eq!(put(bed, later, 1, 3).await, Ok(1), "{source}");
        bed.publish(later).await;
        let old = bed.catalog.old_generations(10).await.unwrap();
        // The last of them lingers, and is no hindrance.
        for one in old.iter().skip(nth) {
            bed.catalog.remove_generation(one.at).await.unwrap();
        }
    }
    assert_eq!(put(bed, fresh, 1, 3).await, Ok(1), "all others have moved");
    is_bad(put(bed, begin(bed, &scope(), "d.md", "old").await, 1, 2).await, "3 dimensions");
}

async fn of_two_dimensions_that_come_at_once_one_stays(bed: &Bed) {
    for round in 0..8 {
        let scope = Scope::new("t", format!("c{round}"));
        let mut news = Vec::new();
        for n in 0..6 {
            let at = begin(bed, &scope, &n.to_string(), "x").await;
            let chunk = bed.read(page(at, 1), "x").await[0];
            news.push(NewVector { chunk, vector: vec![1.0; 2 + n % 2] });
        }
        let puts = news
            .into_iter()
            .map(|new| async move { (new.vector.len(), bed.catalog.put_vectors(vec![new]).await) });
        let ended = futures_util::future::join_all(puts).await;
        let mut stayed: Vec<usize> =
            ended.iter().filter(|(_, put)| put.is_ok()).map(|(dimension, _)| *dimension).collect();
        assert_eq!(stayed.len(), 3, "{round}: {ended:?}");
        stayed.dedup();
        assert_eq!(stayed.len(), 1, "{round}: {ended:?}");
    }
}

async fn who_missed_a_removal_that_was_swept_begins_again(bed: &Bed) {
    let catalog = &*bed.catalog;
    let first = bed.ingest("a.md", &["One.\n\nTwo."]).await;
    bed.ingest("b.md", &["Three.\n\nFour.\n\nFive."]).await;
    let (mut late, mut prompt) = (Follower::default(), Follower::default());
    late.follow(catalog, 10).await;
    bed.ingest("a.md", &["Six."]).await;
    catalog.remove_generation(first).await.unwrap();
    prompt.follow(catalog, 2).await;
    let all = prompt.cursor.sequence;
    assert_eq!(catalog.newest_change().await, Ok(all));
    assert_eq!(catalog.sweep_changes(all + 1, 100).await, Ok(1));
    assert_eq!(catalog.sweep_changes(all + 1, 100).await, Ok(0));
    bed.ingest("c.md", &["Seven."]).await;
    prompt.follow(catalog, 2).await;
    late.follow(catalog, 2).await;
    assert_eq!((prompt.begun_again, late.begun_again), (0, 1));
    assert_eq!((&late.points, &late.live), (&prompt.points, &prompt.live));
    // Whoever begins reads what is older than what was forgotten, in small steps, once.
    let mut fresh = Follower::default();
    fresh.follow(catalog, 1).await;
    assert_eq!((fresh.begun_again, &fresh.points), (0, &prompt.points));
    assert_eq!(fresh.seen().len(), 5);
}
