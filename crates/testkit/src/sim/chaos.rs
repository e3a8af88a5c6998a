//! What happens next: the seed decides between clients, disk, housekeeping, time and faults.

use super::Simulation;
use super::ledger::{Finding, Lawful};

/// How a power cut, a kill or a fault comes about.
#[derive(Clone, Copy, Debug)]
enum Fault {
    PowerCut,
    Kill,
    /// A crash whose outcome is compared with every state since the last sync.
    Compared,
    PowerCutSoon,
    FailedSync,
    FailedWrite,
    FullDisk,
}

const FAULTS: [(usize, Fault); 7] = [
    (24, Fault::PowerCut),
    (10, Fault::Kill),
    (18, Fault::Compared),
    (14, Fault::PowerCutSoon),
    (8, Fault::FailedSync),
    (8, Fault::FailedWrite),
    (18, Fault::FullDisk),
];

impl Simulation {
    /// One operation.
    pub(super) fn step(&mut self) -> Lawful {
        self.op += 1;
        self.ledger.lock().op = self.op;
        if self.full_until == self.op {
            self.life().disk.set_capacity(None);
        }
        let faults = self.plan.faults;
        match self.dice.below(1_000) {
            drawn if drawn < faults => self.strike()?,
            drawn if drawn < faults + 2 => self.audit()?,
            0..30 => self.churn(),
            30..90 => self.pass_time(),
            90..210 => self.keep()?,
            210..330 => {
                self.life().store.sync_step();
            }
            _ => self.poll_somebody(),
        }
        self.look()
    }

    /// A piece of housekeeping. Right after a segment went, whatever lived in it must be durable
    /// elsewhere: a power cut would show if it is not, and by chance there would seldom be one.
    fn keep(&mut self) -> Lawful {
        let life = self.life.as_mut().expect("a life is under way");
        if life.keep(&mut self.sometimes) && self.plan.faults > 0 && self.dice.percent(30) {
            return self.cut_power();
        }
        Ok(())
    }

    fn cut_power(&mut self) -> Lawful {
        let disk = self.life().disk.crash();
        self.sometimes.power_cuts += 1;
        self.begin_again(disk)
    }

    /// Lets one client that is ready go on; if nobody is, the disk or the clock does.
    fn poll_somebody(&mut self) {
        let ready: Vec<usize> = self.life().tasks.ready().collect();
        let Some(number) = self.dice.pick(&ready).copied() else {
            if !self.life().store.sync_step() {
                self.skip_time();
            }
            return;
        };
        self.note(number as u64);
        let over = self.life().tasks.poll(number);
        self.life().stopped_ticking |= over && number == self.life().ticker();
    }

    /// Nobody has anything to do before the next sleeper wakes.
    fn skip_time(&mut self) {
        let now = self.now();
        let next = self.life().time.next().map_or(1_000, |at| at.since(now));
        self.life().time.advance(next);
    }

    fn pass_time(&mut self) {
        let ms = match self.dice.below(1_000) {
            0..900 => self.dice.below(60),
            900..985 => self.dice.below(1_500),
            985..997 => self.dice.below(30_000),
            997..999 => self.dice.below(600_000),
            _ => self.dice.below(7_500_000),
        };
        self.note(ms as u64);
        self.life().time.advance(ms as u64);
    }

    /// A client goes away in the middle of whatever it does, and another comes.
    fn churn(&mut self) {
        if !self.dice.percent(15) {
            return;
        }
        let (clients, seed) = (self.plan.clients(), self.dice.draw());
        let number = self.dice.below(clients);
        self.sometimes.clients_dropped += 1;
        self.life().start_client(number, seed);
    }

    fn strike(&mut self) -> Lawful {
        let total = FAULTS.iter().map(|(weight, _)| weight).sum();
        let mut drawn = self.dice.below(total);
        let mut faults = FAULTS.iter();
        let fault = faults.find(|(weight, _)| {
            let hit = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            hit
        });
        let (soon, room) = (1 + self.dice.below(40) as u64, self.dice.below(300 << 10) as u64);
        let life = self.life.as_mut().expect("a life is under way");
        match fault.map_or(Fault::PowerCut, |(_, fault)| *fault) {
            Fault::PowerCut => return self.cut_power(),
            Fault::Kill => {
                let disk = life.disk.kill();
                self.sometimes.kills += 1;
                return self.begin_again(disk);
            }
            Fault::Compared => return self.crash_and_compare(),
            Fault::PowerCutSoon => life.disk.cut_power_after(soon),
            Fault::FailedSync => life.disk.fail_sync(soon.div_ceil(4)),
            Fault::FailedWrite => life.disk.fail_write(soon.div_ceil(2)),
            Fault::FullDisk => {
                life.disk.set_capacity(Some(life.disk.used() + room));
                self.full_until = self.op + 300 + self.dice.below(1_500) as u64;
                return Ok(());
            }
        }
        life.armed = true;
        Ok(())
    }

    /// Whether a law was broken, and whether the store has stopped.
    fn look(&mut self) -> Lawful {
        if let Some(finding) = self.ledger.lock().finding.take() {
            return Err(finding);
        }
        let life = self.life.as_mut().expect("a life is under way");
        if life.disk.is_off() {
            // Nothing runs without power.
            return self.cut_power();
        }
        let Some(why) = life.store.poisoned() else {
            return match life.stopped_ticking {
                true => Err(Finding::general("ticking stopped although the store goes on")),
                false => Ok(()),
            };
        };
        if !life.armed {
            let what = format!("the store stopped although nothing failed: {why}");
            return Err(Finding::general(what));
        }
        self.sometimes.poisoned += 1;
        // The process says so and ends; the machine may go down with it.
        let disk = match self.dice.percent(50) {
            true => life.disk.crash(),
            false => life.disk.kill(),
        };
        self.begin_again(disk)
    }
}
