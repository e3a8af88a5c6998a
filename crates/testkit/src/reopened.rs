//! An embedded store that dies again and again, between its commands and in the middle of them.
//!
//! Whoever asks does not notice: a command that was cut short is sent again under its request id,
//! as clients do, and must have happened exactly once. So whatever runs on a store can run on this
//! one, and shows that a recovered store is the store that died.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use parking_lot::Mutex;
use windrow_core::change::Lease;
use windrow_core::command::Command;
use windrow_core::explain::Explanation;
use windrow_core::find::{Configured, Filter, Page};
use windrow_core::note::Note;
use windrow_core::ports::{Count, Enough, Inspected, Listener, Now, Store, StoreError, Work};
use windrow_core::resource::Resource;
use windrow_core::trail::Progress;
use windrow_core::vitals::{Standing, Vitals};
use windrow_core::{Answer, Item, ItemId, LeaseId, Refusal, Request, RequestId, Timestamp};
use windrow_store::embedded::Options;

use crate::disk::SimDisk;
use crate::random::Splitmix;
use crate::stepped::Stepped;
use crate::suite::block_on;

/// How often it dies, of a hundred commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mortality {
    /// Before a command.
    pub before: u64,
    /// Between the decision and the answer.
    pub during: u64,
}

impl Default for Mortality {
    fn default() -> Mortality {
        Mortality { before: 8, during: 15 }
    }
}

/// A store that dies and is opened again.
#[derive(Debug)]
pub struct Reopened {
    inside: Mutex<Inside>,
}

struct Inside {
    store: Stepped,
    disk: SimDisk,
    options: Options,
    mortality: Mortality,
    dice: Splitmix,
    lives: u64,
    requests: u128,
    /// How far workers said they are, which no disk promises to keep.
    progress: BTreeMap<ItemId, (LeaseId, Progress)>,
    listener: Option<Arc<dyn Listener>>,
}

impl std::fmt::Debug for Inside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inside").field("store", &self.store).field("lives", &self.lives).finish()
    }
}

impl Reopened {
    /// An empty store with small segments and frequent snapshots.
    pub fn new(seed: u64, mortality: Mortality) -> Reopened {
        let options = Options {
            segment_bytes: 64 << 10,
            reserve_segments: 1,
            snapshot_bytes: 8 << 10,
            slack_bytes: 0,
            ..Options::default()
        };
        let disk = SimDisk::new(seed);
        let store = open(&disk, &options, seed << 20);
        Reopened {
            inside: Mutex::new(Inside {
                store,
                disk,
                options,
                mortality,
                dice: Splitmix(seed),
                lives: seed << 20,
                requests: 1 << 100,
                progress: BTreeMap::new(),
                listener: None,
            }),
        }
    }
}

/// Opens the store; every life draws its leases from another seed.
fn open(disk: &SimDisk, options: &Options, life: u64) -> Stepped {
    let options = Options { seed: Some(life), ..options.clone() };
    Stepped::open(Arc::new(disk.clone()), options).expect("what was durable can be opened")
}

impl Inside {
    fn submit(&mut self, mut request: Request, now: Timestamp) -> Result<Answer<Work>, StoreError> {
        for _ in 0..self.dice.below(5) {
            self.store.store.keep_step();
        }
        let Mortality { before, during } = self.mortality;
        let drawn = self.dice.draw() % 100;
        let saved = if drawn < before + during { self.save_progress(now) } else { None };
        let remembers = !matches!(request.command, Command::Progress { .. });
        match saved {
            Some(saved) if drawn < before => {
                let disk = self.fall(false);
                self.rise(disk, &saved, now);
            }
            Some(saved) if remembers => {
                self.requests += 1;
                request.id.get_or_insert(RequestId(self.requests));
                self.cut_short(&request, now);
                let disk = self.fall(true);
                self.rise(disk, &saved, now);
            }
            _ => {}
        }
        let answer = self.ask(request.clone(), now)?;
        self.note_progress(&request.command, &answer);
        Ok(answer)
    }

    fn ask(&self, request: Request, now: Timestamp) -> Result<Answer<Work>, StoreError> {
        let answers = block_on(self.store.submit(vec![request], Now::Given(now)))?;
        let none = || StoreError::OutcomeUnknown("no answer".into());
        answers.into_iter().next().ok_or_else(none)
    }

    /// Lets the store decide a request, and breaks off while it becomes durable.
    fn cut_short(&mut self, request: &Request, now: Timestamp) {
        let store = &self.store.store;
        let mut deciding = pin!(store.submit(vec![request.clone()], Now::Given(now)));
        let _it_dies = deciding.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        match self.dice.below(6) {
            0 => {}
            1 => {
                self.disk.fail_sync(1);
                store.sync_step();
            }
            _ => {
                self.disk.cut_power_after(self.dice.below(4) as u64);
                store.sync_step();
            }
        }
    }

    /// The process is gone; the disk that the next one finds.
    fn fall(&mut self, cut: bool) -> SimDisk {
        match cut && self.disk.is_off() || self.dice.percent(70) {
            true => self.disk.crash(),
            false => self.disk.kill(),
        }
    }

    fn rise(&mut self, disk: SimDisk, progress: &[(ItemId, LeaseId, Progress)], now: Timestamp) {
        self.lives += 1;
        self.disk = disk;
        self.store = open(&self.disk, &self.options, self.lives);
        if let Some(listener) = &self.listener {
            self.store.listen(Arc::clone(listener));
        }
        block_on(self.store.advance(now)).expect("a store that was opened answers");
        for (item, lease, progress) in progress {
            let items = vec![(*item, progress.clone())];
            let command = Command::Progress { lease: *lease, items };
            self.ask(command.into(), now).expect("a store that was opened answers");
        }
    }

    fn note_progress(&mut self, command: &Command, answer: &Answer<Work>) {
        let (Command::Progress { lease, items }, Answer::Progressed(each)) = (command, answer)
        else {
            return;
        };
        for ((id, progress), one) in items.iter().zip(each) {
            if one.is_ok() {
                self.progress.insert(*id, (*lease, progress.clone()));
            }
        }
    }

    /// What would have to be said again after a death; none if some of it could not.
    fn save_progress(&mut self, now: Timestamp) -> Option<Vec<(ItemId, LeaseId, Progress)>> {
        let leases = block_on(self.store.leases()).expect("leases can be listed");
        let mut saved = Vec::new();
        let mut lost = false;
        let store = &self.store;
        self.progress.retain(|id, (lease, _)| {
            let seen = block_on(store.inspect(*id)).expect("it can be read");
            let Some(progress) = seen.and_then(|seen| seen.trail.progress) else { return false };
            let live = leases.iter().any(|known| known.id == *lease && known.expires > now);
            lost |= !live;
            saved.push((*id, *lease, progress));
            true
        });
        (!lost).then_some(saved)
    }
}

impl Store for Reopened {
    async fn submit(&self, batch: Vec<Request>, now: Now) -> Result<Vec<Answer<Work>>, StoreError> {
        let Now::Given(now) = now else {
            return Err(StoreError::NotApplied("it is given its time".into()));
        };
        let mut inside = self.inside.lock();
        batch.into_iter().map(|request| inside.submit(request, now)).collect()
    }

    async fn inspect(&self, id: ItemId) -> Result<Option<Inspected>, StoreError> {
        block_on(self.inside.lock().store.inspect(id))
    }

    async fn explain(&self, id: ItemId, now: Timestamp) -> Result<Option<Explanation>, StoreError> {
        block_on(self.inside.lock().store.explain(id, now))
    }

    async fn forecast(
        &self,
        command: &Command,
        now: Timestamp,
    ) -> Result<Result<(), Refusal>, StoreError> {
        block_on(self.inside.lock().store.forecast(command, now))
    }

    async fn children(
        &self,
        id: ItemId,
        from: u32,
        limit: usize,
    ) -> Result<Vec<ItemId>, StoreError> {
        block_on(self.inside.lock().store.children(id, from, limit))
    }

    async fn items(&self, after: Option<ItemId>, limit: usize) -> Result<Vec<Item>, StoreError> {
        block_on(self.inside.lock().store.items(after, limit))
    }

    async fn find(
        &self,
        filter: &Filter,
        after: Option<ItemId>,
        limit: usize,
        enough: Enough<'_>,
    ) -> Result<Page, StoreError> {
        block_on(self.inside.lock().store.find(filter, after, limit, enough))
    }

    async fn configured(&self) -> Result<Configured, StoreError> {
        block_on(self.inside.lock().store.configured())
    }

    async fn counts(&self) -> Result<Vec<Count>, StoreError> {
        block_on(self.inside.lock().store.counts())
    }

    async fn leases(&self) -> Result<Vec<Lease>, StoreError> {
        block_on(self.inside.lock().store.leases())
    }

    async fn held_by(
        &self,
        leases: &[LeaseId],
        limit: usize,
    ) -> Result<Vec<(LeaseId, Vec<ItemId>)>, StoreError> {
        block_on(self.inside.lock().store.held_by(leases, limit))
    }

    async fn resources(&self) -> Result<Vec<(Arc<str>, Resource)>, StoreError> {
        block_on(self.inside.lock().store.resources())
    }

    async fn notes(&self, shelf: &str) -> Result<Vec<Note>, StoreError> {
        block_on(self.inside.lock().store.notes(shelf))
    }

    async fn vitals(&self, now: Timestamp) -> Result<Vitals, StoreError> {
        block_on(self.inside.lock().store.vitals(now))
    }

    async fn stages(&self, now: Timestamp, most: u64) -> Result<Vec<Standing>, StoreError> {
        block_on(self.inside.lock().store.stages(now, most))
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        block_on(self.inside.lock().store.next_due())
    }

    async fn advance(&self, now: Timestamp) -> Result<(), StoreError> {
        block_on(self.inside.lock().store.advance(now))
    }

    fn listen(&self, listener: Arc<dyn Listener>) {
        let mut inside = self.inside.lock();
        inside.listener = Some(Arc::clone(&listener));
        inside.store.listen(listener);
    }
}
