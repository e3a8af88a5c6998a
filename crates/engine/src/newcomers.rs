//! Newcomers: queues that nobody has configured.
//!
//! An engine can be told how such a queue behaves. It then configures each one before it first
//! enqueues to it, so that the settings stand in the store, for everybody to see and to change.
//! Without that, nothing here is asked.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use windrow_core::command::{Command, NewItem};
use windrow_core::ports::Store;
use windrow_core::settings::Settings;

use crate::clock::Clock;
use crate::engine::{Engine, Failure};

#[derive(Debug, Default)]
pub(crate) struct Newcomers {
    settings: OnceLock<Settings>,
    /// Queues that have settings, for all we know.
    known: Mutex<HashSet<Arc<str>>>,
}

impl Newcomers {
    /// The queues of these items that may have no settings.
    fn among(&self, items: &[NewItem]) -> Vec<Arc<str>> {
        let known = self.known.lock();
        let mut unknown: Vec<Arc<str>> = Vec::new();
        for item in items {
            let queue = &item.body.queue;
            if !known.contains(queue) && !unknown.contains(queue) {
                unknown.push(Arc::clone(queue));
            }
        }
        unknown
    }
}

impl<S: Store, C: Clock> Engine<S, C> {
    /// Says, once, how queues behave that nobody has configured.
    pub fn assume(&self, settings: Settings) {
        // Whoever said it first is right.
        let _said = self.newcomers().settings.set(settings);
    }

    /// How a queue behaves that nobody has configured, once it has its first item.
    pub fn assumed(&self) -> Settings {
        self.newcomers().settings.get().cloned().unwrap_or_default()
    }

    /// Gives settings to those queues of these items that have none.
    pub(crate) async fn introduce(&self, items: &[NewItem]) -> Result<(), Failure> {
        let newcomers = self.newcomers();
        let Some(settings) = newcomers.settings.get() else { return Ok(()) };
        let unknown = newcomers.among(items);
        if unknown.is_empty() {
            return Ok(());
        }
        let configured = self.store().configured().await?.settings;
        for queue in unknown {
            if !configured.iter().any(|(name, _)| *name == queue) {
                // Somebody may configure it at this moment; then that stands.
                let settings = Box::new(settings.clone());
                let command = Command::Introduce { queue: Arc::clone(&queue), settings };
                match self.submit(command).await {
                    Ok(_) => {}
                    // It can be no queue, and whoever enqueues to it is told so.
                    Err(Failure::Refused(_)) => continue,
                    Err(failure) => return Err(failure),
                }
            }
            newcomers.known.lock().insert(queue);
        }
        Ok(())
    }
}
