//! What the server acknowledged, kept where it cannot lose it.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use windrow_core::command::{Enqueued, NewItem};
use windrow_core::{ItemId, RequestId};

/// Acknowledgements of one queue, which nobody else uses.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) queue: String,
    seed: u64,
    next: AtomicU64,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    /// Whether it was settled.
    items: HashMap<ItemId, bool>,
    /// Of these a producer has the answer.
    created: HashSet<ItemId>,
    settled: u64,
    /// Requests with their first answers.
    requests: Vec<Asked>,
    /// What must never be, as it was seen.
    wrong: Vec<String>,
}

/// A request and its answer.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) id: RequestId,
    pub(super) items: Vec<NewItem>,
    pub(super) answer: Vec<Enqueued>,
}

impl Ledger {
    pub(super) fn new(name: &str, seed: u64) -> Ledger {
        let queue = format!("crash-{name}-{seed}");
        Ledger { queue, seed, next: AtomicU64::new(1), inside: Mutex::default() }
    }

    /// A request id that was not used before.
    pub(super) fn request(&self) -> RequestId {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        RequestId(u128::from(self.seed) << 64 | u128::from(number))
    }

    pub(super) fn enqueued(&self, asked: Asked) {
        let mut inside = self.inside.lock();
        for one in &asked.answer {
            if !inside.created.insert(one.id) {
                inside.wrong.push(format!("item {} was created twice", one.id));
            }
            // A worker may have settled it before its producer, whose answer was lost, asked again.
            inside.items.entry(one.id).or_insert(false);
        }
        inside.requests.push(asked);
    }

    /// An item was handed out. Its producer may not have heard of it yet.
    pub(super) fn handed_out(&self, id: ItemId, attempt: u16) {
        let mut inside = self.inside.lock();
        if inside.items.get(&id) == Some(&true) {
            inside.wrong.push(format!("item {id} was settled and is handed out again"));
        }
        if attempt != 1 {
            inside.wrong.push(format!("item {id} is in its attempt {attempt}: one was burnt"));
        }
    }

    pub(super) fn settled(&self, id: ItemId) {
        let mut inside = self.inside.lock();
        if inside.items.insert(id, true) == Some(true) {
            inside.wrong.push(format!("item {id} was settled twice"));
        }
        inside.settled += 1;
    }

    pub(super) fn wrong(&self, what: String) {
        self.inside.lock().wrong.push(what);
    }

    /// The first thing that must never be, if there is one.
    pub(super) fn first_wrong(&self) -> Option<String> {
        self.inside.lock().wrong.first().cloned()
    }

    /// Every item, and whether it was settled.
    pub(super) fn items(&self) -> Vec<(ItemId, bool)> {
        self.inside.lock().items.iter().map(|(id, settled)| (*id, *settled)).collect()
    }

    /// The last requests.
    pub(super) fn last_requests(&self, count: usize) -> Vec<Asked> {
        let inside = self.inside.lock();
        let from = inside.requests.len().saturating_sub(count);
        inside.requests[from..].to_vec()
    }

    /// Items that were enqueued, and settled.
    pub(super) fn totals(&self) -> (u64, u64) {
        let inside = self.inside.lock();
        (inside.items.len() as u64, inside.settled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_never_be_is_noted() {
        let ledger = Ledger::new("http", 1);
        ledger.handed_out(ItemId(1), 1);
        ledger.settled(ItemId(1));
        assert_eq!(ledger.first_wrong(), None);
        ledger.handed_out(ItemId(1), 1);
        assert!(ledger.first_wrong().is_some_and(|wrong| wrong.contains("handed out again")));
        let ledger = Ledger::new("http", 1);
        ledger.handed_out(ItemId(2), 2);
        assert!(ledger.first_wrong().is_some_and(|wrong| wrong.contains("burnt")));
    }
}
