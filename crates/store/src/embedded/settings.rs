//! Settings of queues: what each says for itself, and what is said for all of them.
//!
//! Both are asked for with every item that ends, so neither is looked for by its name.

use std::sync::Arc;

use hashbrown::HashMap;
use windrow_core::rules::notify::EVERY_QUEUE;
use windrow_core::settings::{Retention, Settings};

/// The settings of all queues, by the numbers of their names.
#[derive(Debug, Default)]
pub(crate) struct QueueSettings {
    said: HashMap<u32, Arc<Settings>>,
    every: Arc<Settings>,
    plain: Arc<Settings>,
}

impl QueueSettings {
    pub(crate) fn say(&mut self, queue: u32, name: &str, settings: Arc<Settings>) {
        if name == EVERY_QUEUE {
            self.every = Arc::clone(&settings);
        }
        self.said.insert(queue, settings);
    }

    pub(crate) fn has(&self, queue: u32) -> bool {
        self.said.contains_key(&queue)
    }

    pub(crate) fn of(&self, queue: u32) -> &Arc<Settings> {
        self.said.get(&queue).unwrap_or(&self.plain)
    }

    /// What is said for every queue.
    pub(crate) fn of_every(&self) -> &Arc<Settings> {
        &self.every
    }

    /// Those of a queue that nobody said anything about.
    pub(crate) fn plain(&self) -> &Arc<Settings> {
        &self.plain
    }

    /// How long ended items of a queue are kept.
    pub(crate) fn keeps(&self, queue: u32) -> Retention {
        self.of(queue).retention.or(self.every.retention)
    }

    /// The shortest time for which anything is kept anywhere.
    pub(crate) fn shortest_age_ms(&self) -> u64 {
        let every = self.every.retention;
        let ages = self.said.values().map(|own| own.retention.or(every).max_age_ms);
        ages.fold(every.max_age_ms, u64::min)
    }

    pub(crate) fn len(&self) -> usize {
        self.said.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&u32, &Arc<Settings>)> {
        self.said.iter()
    }
}
