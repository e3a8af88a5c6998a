//! The end of a life and the beginning of the next.

use std::sync::Arc;

use windrow_core::Timestamp;
use windrow_store::embedded::{Embedded, Options, check};

use super::Simulation;
use super::ledger::{Finding, Lawful};
use super::life::{Fingerprint, Life};
use super::plan::{QUEUES, new_settings};
use crate::clock::SimClock;
use crate::disk::SimDisk;

impl Simulation {
    /// Opens the first life on an empty disk.
    pub(super) fn start(&mut self) -> Lawful {
        let disk = SimDisk::new(self.seed);
        disk.set_capacity(None);
        self.open(disk, SimClock::default().now())?;
        for queue in QUEUES {
            let settings = new_settings(&mut self.dice);
            let life = self.life.as_mut().expect("it was opened");
            let stepping = life.engine.configure(queue, settings);
            if let Err(failure) = Self::drive(life, stepping) {
                return Err(Finding::general(format!("it cannot be set up: {failure}")));
            }
        }
        let seed = self.dice.draw();
        self.life().populate(seed);
        Ok(())
    }

    /// Runs a future to its end, syncing whenever it waits.
    pub(super) fn drive<T>(life: &Life, future: impl Future<Output = T>) -> T {
        let mut future = std::pin::pin!(future);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        for _ in 0..1_000 {
            if let std::task::Poll::Ready(done) = future.as_mut().poll(&mut context) {
                return done;
            }
            life.store.sync_step();
        }
        panic!("it waits for ever");
    }

    fn options(&self) -> Options {
        // Another seed for every life, or leases of two lives would have the same names.
        Options { seed: Some(self.seed << 20 | self.lives), ..self.plan.options.clone() }
    }

    fn open(&mut self, disk: SimDisk, wall: Timestamp) -> Lawful {
        self.lives += 1;
        let opened = Embedded::open(Arc::new(disk.clone()), self.options());
        let store = opened
            .map_err(|error| Finding::general(format!("it cannot be opened again: {error}")))?;
        let life = Life::begin(store, disk, wall, &self.plan, &self.ledger, self.lives);
        self.life = Some(life);
        Ok(())
    }

    /// The process is gone; the next one finds this disk.
    pub(super) fn begin_again(&mut self, disk: SimDisk) -> Lawful {
        self.reopen(disk)?;
        self.compare_with_ledger()?;
        let seed = self.dice.draw();
        self.life().populate(seed);
        Ok(())
    }

    fn reopen(&mut self, disk: SimDisk) -> Lawful {
        let now = self.now();
        self.ledger.lock().dies();
        self.life = None;
        self.ledger.lock().crashed();
        self.full_until = 0;
        disk.set_capacity(None);
        if self.dice.percent(15) {
            self.check_directory(&disk)?;
        }
        let disk = self.cut_recovery(disk);
        // It took a while, or the wall clock was set back; time in the store never runs back.
        let wall = match self.dice.below(10) {
            0 => Timestamp(now.0.saturating_sub(self.dice.below(300_000) as u64)),
            1 => now.plus(self.dice.below(300_000) as u64),
            _ => now.plus(self.dice.below(3_000) as u64),
        };
        self.open(disk, wall)
    }

    /// Recoveries that are cut by further power cuts, as many as the seed wants.
    fn cut_recovery(&mut self, mut disk: SimDisk) -> SimDisk {
        while self.dice.percent(15) {
            disk.cut_power_after(self.dice.below(14) as u64);
            let opened = Embedded::open(Arc::new(disk.clone()), self.options());
            self.sometimes.cuts_in_recovery += u64::from(opened.is_err() && disk.is_off());
            drop(opened);
            disk = disk.crash();
        }
        disk
    }

    /// What `windrow check` says about the directory.
    fn check_directory(&mut self, disk: &SimDisk) -> Lawful {
        let copy: Arc<dyn windrow_store::embedded::disk::Disk> = Arc::new(disk.kill());
        let checked = check(&copy, self.options())
            .map_err(|error| Finding::general(format!("the check cannot open it: {error}")))?;
        if let Some(fault) = checked.faults.first() {
            return Err(Finding::general(format!("the check found: {fault}")));
        }
        self.sometimes.checked += 1;
        self.sometimes.torn_tails += u64::from(checked.torn);
        Ok(())
    }

    /// Everything acknowledged is there, and nothing else than was asked.
    pub(super) fn compare_with_ledger(&mut self) -> Lawful {
        let life = self.life.as_ref().expect("it was opened");
        let all = crate::suite::everything(&life.stepped());
        let leases = life.leases();
        self.note(all.len() as u64);
        self.ledger.lock().audit(&all, &leases)
    }

    /// Lets a few commands be decided and not acknowledged, crashes in the middle of their sync,
    /// and demands that what is there then is the state after some of them, in order.
    pub(super) fn crash_and_compare(&mut self) -> Lawful {
        self.disarm();
        let mut states = Vec::new();
        {
            let life = self.life.as_mut().expect("a life is under way");
            life.sync_all();
            states.push(life.fingerprint());
        }
        for _ in 0..1 + self.dice.below(6) {
            let ready: Vec<usize> = self.life().tasks.ready().collect();
            let Some(number) = self.dice.pick(&ready).copied() else { break };
            self.life().tasks.poll(number);
            if self.dice.percent(20) {
                self.life().store.keep_step();
            }
            let state = self.life().fingerprint();
            if states.last() != Some(&state) {
                states.push(state);
            }
        }
        let disk = self.crash_in_a_sync();
        self.reopen(disk)?;
        let after = self.life().fingerprint();
        self.sometimes.compared += 1;
        self.sometimes.compared_kept += u64::from(states[0] != after);
        // Commands that were submitted as one batch have states between them that nobody saw.
        let batched = self.plan.width < self.plan.clients();
        if !batched && !states.contains(&after) {
            return Err(Finding::general(differs(&states, &after)));
        }
        self.compare_with_ledger()?;
        let seed = self.dice.draw();
        self.life().populate(seed);
        Ok(())
    }

    fn crash_in_a_sync(&mut self) -> SimDisk {
        let soon = self.dice.below(5) as u64;
        let kind = self.dice.below(4);
        let life = self.life();
        match kind {
            0 => life.disk.crash(),
            1 => {
                life.disk.fail_sync(1);
                life.store.sync_step();
                life.disk.kill()
            }
            _ => {
                life.disk.cut_power_after(soon);
                life.store.sync_step();
                life.disk.crash()
            }
        }
    }

    /// Takes back what would fail later, and gives the disk room.
    pub(super) fn disarm(&mut self) {
        let life = self.life();
        life.disk.set_capacity(None);
        life.disk.cut_power_after(u64::MAX);
        life.disk.fail_sync(u64::MAX);
        life.disk.fail_write(u64::MAX);
        life.armed = false;
        self.full_until = 0;
    }
}

fn differs(states: &[Fingerprint], after: &Fingerprint) -> String {
    let each = states.iter().map(|state| state.differences(after));
    let nearest = each.enumerate().min_by_key(|(_, lines)| lines.len());
    let (number, lines) = nearest.unwrap_or_default();
    format!(
        "what was recovered is none of the {} states since the last sync; number {number} is \
         nearest (- was, + is):\n{}",
        states.len(),
        lines.join("\n")
    )
}
