//! A dump: everything a store says about every item, so that two stores can be compared.
//!
//! Leaves out what lives in memory alone: the numbers of groups and the progress of attempts.

use std::collections::BTreeMap;

use windrow_core::ItemId;
use windrow_core::invariants::sorted;
use windrow_core::item::GroupNo;
use windrow_core::ports::{Count, Inspected, Store, StoreError};

use crate::suite::block_on;

/// All items of a store, by id, and its counts.
#[derive(Clone, PartialEq, Debug)]
pub struct Dump {
    pub items: BTreeMap<ItemId, Inspected>,
    pub counts: Vec<Count>,
}

/// Reads everything; an error if anything of it is unreadable.
pub fn dump<S: Store>(store: &S) -> Result<Dump, StoreError> {
    let mut items = BTreeMap::new();
    for item in block_on(store.items(None, usize::MAX))? {
        let missing = || StoreError::NotApplied(format!("{} is listed and not there", item.id));
        let mut seen = block_on(store.inspect(item.id))?.ok_or_else(missing)?;
        seen.item.group = seen.item.group.map(|_| GroupNo(0));
        seen.trail.progress = None;
        seen.tally = seen.tally.map(sorted);
        items.insert(item.id, seen);
    }
    let mut counts = block_on(store.counts())?;
    counts.retain(|count| count.items > 0);
    counts.sort();
    Ok(Dump { items, counts })
}

impl Dump {
    /// The first thing in which two dumps differ, in words.
    pub fn difference(&self, other: &Dump) -> Option<String> {
        for (id, seen) in &self.items {
            match other.items.get(id) {
                None => return Some(format!("item {id} is missing: {seen:?}")),
                Some(now) if now != seen => {
                    return Some(format!("item {id} was {seen:?}, and now it is {now:?}"));
                }
                Some(_) => {}
            }
        }
        if let Some((id, seen)) = other.items.iter().find(|(id, _)| !self.items.contains_key(id)) {
            return Some(format!("item {id} is new: {seen:?}"));
        }
        let (before, now) = (&self.counts, &other.counts);
        (before != now).then(|| format!("the counts were {before:?}, and now they are {now:?}"))
    }
}
