//! Vitals: how a store itself is, for whoever watches over it.
//!
//! Facts only. What of them is good or bad is decided by whoever asks.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::time::Timestamp;

/// How a store is at a moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Vitals {
    /// The moment, by the clock that the store decides by.
    pub at: Timestamp,
    /// Queues in which something could be claimed, by name.
    pub waiting: Vec<Waiting>,
    /// Resources that are closed, by name.
    pub closed: Vec<Closed>,
    /// Items that are set aside because a rule failed on them or they cannot be read.
    pub quarantined: u64,
    /// Bytes that the store takes, if it can tell.
    pub used_bytes: Option<u64>,
    /// Room on the disk that holds it, if it can tell.
    pub disk: Option<DiskSpace>,
    /// Whether it refuses new items for want of room, or would soon.
    pub room: Room,
    /// Whether somebody did what happens by itself within the last seconds; none if only whoever
    /// has the store open can.
    pub is_led: Option<bool>,
    /// What the store itself says is not as it should be: each a sentence, without anything that a
    /// user of the queue wrote.
    pub warnings: Vec<String>,
}

/// How long the first in line of a queue has been there. An item that is delayed, or whose group is
/// full, is not in line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiting {
    pub queue: Arc<str>,
    /// Since when the first of those waits that anybody may claim, in each stage.
    pub open: BTreeMap<Arc<str>, Timestamp>,
    /// Since when the first of those waits that are held back by a pause or a closed resource.
    pub held_since: Option<Timestamp>,
}

impl Waiting {
    /// Since when the first of all waits.
    pub fn since(&self) -> Option<Timestamp> {
        [self.open_since(), self.held_since].into_iter().flatten().min()
    }

    /// Since when the first of those waits that anybody may claim.
    pub fn open_since(&self) -> Option<Timestamp> {
        self.open.values().min().copied()
    }

    /// Adds one that waits.
    fn add(&mut self, stage: Arc<str>, since: Timestamp, is_held: bool) {
        let first = match is_held {
            true => self.held_since.get_or_insert(since),
            false => self.open.entry(stage).or_insert(since),
        };
        *first = since.min(*first);
    }

    /// Of those that wait, the first of each queue.
    pub fn first_of(each: impl Iterator<Item = InLine>) -> Vec<Waiting> {
        let mut queues = BTreeMap::<Arc<str>, Waiting>::new();
        for InLine { queue, stage, since, is_held } in each {
            let none =
                || Waiting { queue: Arc::clone(&queue), open: BTreeMap::new(), held_since: None };
            queues.entry(Arc::clone(&queue)).or_insert_with(none).add(stage, since, is_held);
        }
        queues.into_values().collect()
    }
}

/// Somebody who waits in line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InLine {
    pub queue: Arc<str>,
    pub stage: Arc<str>,
    pub since: Timestamp,
    /// Whether a pause or a closed resource holds it back.
    pub is_held: bool,
}

/// How a stage of a queue stands, all tenants and kinds together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    pub queue: Arc<str>,
    pub stage: Arc<str>,
    /// Pending items, also those whose time has not come or whose group is full.
    pub waiting: u64,
    /// There are more that wait, and nobody counted them.
    pub is_capped: bool,
    /// Items in the hands of workers.
    pub running: u64,
    /// Since when the first in line can be claimed, or could if nothing held it back.
    pub since: Option<Timestamp>,
}

/// Stages, by queue and name.
#[derive(Clone, Default, Debug)]
pub struct Standings(BTreeMap<(Arc<str>, Arc<str>), Standing>);

impl Standings {
    /// How a stage stands as far as it was counted.
    pub fn of(&mut self, queue: Arc<str>, stage: Arc<str>) -> &mut Standing {
        let key = (Arc::clone(&queue), Arc::clone(&stage));
        let none =
            || Standing { queue, stage, waiting: 0, is_capped: false, running: 0, since: None };
        self.0.entry(key).or_insert_with(none)
    }

    /// Those in which something is.
    pub fn told(self) -> Vec<Standing> {
        let all = self.0.into_values();
        all.filter(|standing| standing.waiting > 0 || standing.running > 0).collect()
    }
}

impl Standing {
    /// Somebody is in line there.
    pub fn add_first(&mut self, since: Timestamp) {
        self.since = Some(self.since.map_or(since, |first| first.min(since)));
    }
}

/// A resource that is closed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Closed {
    pub resource: Arc<str>,
    pub until: Timestamp,
}

/// The disk that holds a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskSpace {
    pub free_bytes: u64,
    pub total_bytes: u64,
}

/// Whether a store has room for more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Room {
    #[default]
    Plenty,
    /// Only what was set aside for settling what is there is left.
    Reserve,
    None,
}
