//! The threads of a running store: one syncs groups, one keeps the house.

use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Embedded;

/// How long the keeper sleeps when there is nothing to do.
const IDLE: Duration = Duration::from_millis(50);
/// How often it looks whether the directory is still there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A store whose threads run. They stop when this is dropped: what was decided is synced and
/// answered, and every later submit on a remaining handle fails, since nothing is written any more.
#[derive(Debug)]
pub struct Running {
    store: Embedded,
    threads: Vec<JoinHandle<()>>,
}

impl Embedded {
    /// Starts the threads that make groups durable and keep the log small.
    pub fn run(self) -> std::io::Result<Running> {
        let syncer = self.clone();
        let keeper = self.clone();
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let threads = vec![
            named("windrow-sync").spawn(move || syncer.sync_loop())?,
            named("windrow-keep").spawn(move || keeper.keep_loop())?,
        ];
        // Whatever a caller leaves, the syncer takes.
        self.shared.syncing.begin();
        Ok(Running { store: self, threads })
    }

    /// Writes and syncs one group; false if none waited.
    pub fn sync_step(&self) -> bool {
        self.shared.sync_step()
    }

    fn sync_loop(&self) {
        loop {
            if self.shared.sync_step() {
                continue;
            }
            let mut writer = self.shared.writer.lock();
            if self.shared.durable.poisoned().is_some() {
                return;
            }
            if writer.has_group() {
                continue;
            }
            if self.shared.is_stopping() {
                return;
            }
            self.shared.filled.wait(&mut writer);
        }
    }

    fn keep_loop(&self) {
        let mut looked = Instant::now();
        while !self.shared.is_stopping() && self.poisoned().is_none() {
            if looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                if !self.shared.disk.is_there() {
                    // What is written to it from now on nobody will find.
                    self.shared.poison("somebody removed or replaced the data directory");
                }
            }
            if !self.keep_step() {
                std::thread::park_timeout(IDLE);
            }
        }
    }
}

impl std::ops::Deref for Running {
    type Target = Embedded;

    fn deref(&self) -> &Embedded {
        &self.store
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let shared = &self.store.shared;
        shared.stopping.store(true, Ordering::Release);
        // Whoever is deciding goes first, so that the syncer finds all of it.
        drop(shared.tables.lock());
        // Under the lock, so that the syncer cannot miss it between its look and its sleep.
        drop(shared.writer.lock());
        shared.filled.notify_all();
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            if thread.join().is_err() {
                shared.poison("a thread of the store panicked");
            }
        }
        // The keeper may have moved something after the syncer had gone.
        while shared.sync_step() {}
    }
}
