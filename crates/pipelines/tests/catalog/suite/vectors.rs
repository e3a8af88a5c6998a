//! Vectors, and following what happens to them.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;
use windrow_pipelines::catalog::{
    Catalog, ChunkId, GenerationKey, NewVector, PageOutcome, VectorChange, VectorCursor,
    VectorsSince,
};

use crate::bed::{Bed, cases, is_bad, page, scope};

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
