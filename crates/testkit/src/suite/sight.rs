//! Sight: what a case can see of a store, and a recount of everything at its end.

use std::collections::BTreeMap;

use windrow_core::explain::{Explanation, Reason};
use windrow_core::find::{Filter, Listed};
use windrow_core::invariants::{check_item, sorted};
use windrow_core::item::Marks;
use windrow_core::ports::{Count, Inspected, Store};
use windrow_core::tally::{Counts, Share, Tally};
use windrow_core::trail::Trail;
use windrow_core::{Item, ItemId, State, Status, Timestamp};

use super::bed::{Bed, block_on};

impl<S: Store> Bed<S> {
    #[track_caller]
    pub fn try_see(&self, id: ItemId) -> Option<Inspected> {
        block_on(self.store.inspect(id)).expect("it can be read")
    }

    #[track_caller]
    pub fn see(&self, id: ItemId) -> Inspected {
        self.try_see(id).expect("the item exists")
    }

    #[track_caller]
    pub fn item(&self, id: ItemId) -> Item {
        self.see(id).item
    }

    #[track_caller]
    pub fn trail(&self, id: ItemId) -> Trail {
        self.see(id).trail
    }

    /// The status that people see.
    #[track_caller]
    pub fn status(&self, id: ItemId) -> Status {
        let seen = self.see(id);
        match (seen.item.state, seen.tally) {
            (State::Split, Some(tally)) => tally.status(),
            _ => seen.item.status(),
        }
    }

    #[track_caller]
    pub fn is(&self, id: ItemId, status: Status) {
        assert_eq!(self.status(id), status, "{:?}", self.item(id));
    }

    #[track_caller]
    pub fn is_gone(&self, id: ItemId) {
        assert_eq!(self.try_see(id), None, "nothing is kept of it");
    }

    #[track_caller]
    pub fn tally(&self, id: ItemId) -> Tally {
        self.see(id).tally.expect("it has children")
    }

    /// How its children stand in a phase.
    #[track_caller]
    pub fn phase(&self, id: ItemId, name: &str) -> Counts {
        let tally = self.tally(id);
        let found = tally.phases.iter().find(|(phase, _)| &**phase == name);
        found.map_or(Counts::default(), |(_, counts)| *counts)
    }

    /// How the items of one level stand in a stage of their own.
    #[track_caller]
    pub fn level(&self, id: ItemId, level: u8, phase: &str) -> Counts {
        let tally = self.tally(id);
        let found = tally.levels.iter().find(|l| l.level == level && &*l.phase == phase);
        found.map_or(Counts::default(), |level| level.counts)
    }

    #[track_caller]
    pub fn children(&self, id: ItemId) -> Vec<ItemId> {
        block_on(self.store.children(id, 0, usize::MAX)).expect("children can be listed")
    }

    #[track_caller]
    pub fn explain(&self, id: ItemId) -> Explanation {
        let explained = block_on(self.store.explain(id, self.now())).expect("it can be explained");
        explained.expect("the item exists")
    }

    /// The codes of all reasons for which an item is where it is.
    #[track_caller]
    pub fn why(&self, id: ItemId) -> Vec<&'static str> {
        self.explain(id).reasons.iter().map(Reason::code).collect()
    }

    /// When something becomes due by itself.
    #[track_caller]
    pub fn next_due(&self) -> Option<Timestamp> {
        block_on(self.store.next_due()).expect("the next time is known")
    }

    /// Everything that exists.
    pub fn everything(&self) -> Vec<Inspected> {
        everything(&*self.store)
    }
}

/// Everything that exists in a store, oldest first.
pub fn everything<S: Store>(store: &S) -> Vec<Inspected> {
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let page = block_on(store.items(after, 100)).expect("items can be listed");
        let Some(last) = page.last() else {
            return all;
        };
        after = Some(last.id);
        for item in page {
            let seen =
                block_on(store.inspect(item.id)).expect("it can be read").expect("it was listed");
            assert_eq!(seen.item, item, "a list shows what inspecting shows");
            all.push(seen);
        }
    }
}

/// Counts everything in a store again and asserts what must hold at every commit.
pub fn check_everything<S: Store>(store: &S) {
    let all: BTreeMap<ItemId, Inspected> =
        everything(store).into_iter().map(|seen| (seen.item.id, seen)).collect();
    for seen in all.values() {
        check_item(&seen.item);
        check_names(seen);
        check_key(seen, &all);
        check_place(seen, &all);
        if let Some(counted) = recount(store, seen, &all) {
            let known = seen.tally.clone().expect("it was counted");
            assert_eq!(sorted(known), sorted(counted), "Q5: counts of {}", seen.item.id);
        }
    }
    check_counts(store, &all);
    check_list(store, &all);
}

/// A list shows everything, newest first, as inspecting shows it.
fn check_list<S: Store>(store: &S, all: &BTreeMap<ItemId, Inspected>) {
    let want: Vec<Listed> = all.values().rev().map(|seen| seen.clone().into()).collect();
    assert_eq!(walk(store, &Filter::default(), 100), want, "what a list shows");
}

/// Everything that a filter admits, by pages of so many.
pub(super) fn walk<S: Store>(store: &S, filter: &Filter, limit: usize) -> Vec<Listed> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = block_on(store.find(filter, after, limit, &|| false));
        let page = page.expect("items can be found");
        assert!(page.items.len() <= limit, "no more than were asked for");
        assert!(page.items.len() == limit || page.next.is_none(), "nobody said it was enough");
        all.extend(page.items);
        if page.next.is_none() {
            return all;
        }
        assert!(after.is_none() || page.next < after, "it goes on");
        after = page.next;
    }
}

fn check_names(seen: &Inspected) {
    let Inspected { item, body, trail, tally, .. } = seen;
    assert!(!item.has(Marks::QUARANTINED), "a rule failed on {item:?}");
    assert_eq!(item.has(Marks::KEYED), body.key.is_some(), "{item:?}");
    assert_eq!(item.has(Marks::BLOB), body.payload.blob().is_some(), "{item:?}");
    assert_eq!(item.group.is_some(), body.group.is_some(), "{item:?}");
    assert_eq!(item.is_done(), trail.finished_at.is_some(), "{item:?}");
    assert_eq!(item.has(Marks::PARENT), tally.is_some(), "{item:?}");
    assert!(usize::from(item.stage) < body.route.len(), "{item:?}");
    let shows_life = matches!(seen.status(), Status::Pending | Status::Processing);
    assert_eq!(shows_life, !item.is_done(), "lists look for what ended only there: {item:?}");
}

/// Two live items never share a key, unless one waits behind the other.
fn check_key(seen: &Inspected, all: &BTreeMap<ItemId, Inspected>) {
    let Some(key) = &seen.body.key else {
        return;
    };
    let same = |other: &&Inspected| {
        let (a, b) = (&seen.body, &other.body);
        b.key.as_ref() == Some(key) && (&a.tenant, &a.queue) == (&b.tenant, &b.queue)
    };
    let live = all.values().filter(same).filter(|other| !other.item.is_done());
    let (held, in_line): (Vec<_>, Vec<_>) =
        live.partition(|other| matches!(other.item.state, State::Held { .. }));
    assert!(in_line.len() <= 1 && held.len() <= 1, "{key:?} is live {} times", in_line.len());
    let successor = in_line.first().and_then(|ahead| ahead.successor);
    assert_eq!(successor, held.first().map(|held| held.item.id), "who waits for {key:?}");
}

/// A live child has a parent that waits for it, unless its generation is over.
fn check_place(seen: &Inspected, all: &BTreeMap<ItemId, Inspected>) {
    let item = &seen.item;
    let Some(place) = item.place.filter(|_| !item.is_done()) else {
        return;
    };
    let parent = &all.get(&place.parent).expect("a live child has a parent").item;
    let current = parent.generation == place.generation;
    assert!(!current || !parent.is_done(), "Q6: {parent:?} ended before its child {item:?}");
}

/// The counts of a parent from its children; none if some of them were folded or deleted.
fn recount<S: Store>(
    store: &S,
    parent: &Inspected,
    all: &BTreeMap<ItemId, Inspected>,
) -> Option<Tally> {
    let known = parent.tally.as_ref()?;
    let children =
        block_on(store.children(parent.item.id, 0, usize::MAX)).expect("children can be listed");
    if parent.item.is_done() && children.len() < known.children.total() as usize {
        return None;
    }
    let mut tally = Tally::new(known.stage, known.on_gaps);
    tally.more = known.more;
    for id in children {
        let child = &all[&id];
        tally.add(&Share::of(&child.item, &child.body.route, child.tally.as_ref()));
    }
    Some(tally)
}

/// The maintained counts equal a count of what exists.
fn check_counts<S: Store>(store: &S, all: &BTreeMap<ItemId, Inspected>) {
    let mut counted: BTreeMap<_, u64> = BTreeMap::new();
    for seen in all.values() {
        let at = (seen.body.queue.clone(), seen.body.tenant.clone(), seen.item.status());
        *counted.entry(at).or_default() += 1;
    }
    let count = |((queue, tenant, status), items)| Count { queue, tenant, status, items };
    let counted: Vec<Count> = counted.into_iter().map(count).collect();
    let mut known = block_on(store.counts()).expect("items can be counted");
    known.retain(|count| count.items > 0);
    known.sort();
    assert_eq!(known, counted, "counts by queue, tenant and status");
}
