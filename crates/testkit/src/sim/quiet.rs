//! Quiet moments: clients begin nothing new, everything under way ends, and all is checked.

use windrow_core::command::{Claim, Command, Outcome};
use windrow_core::ports::{Store as _, Work};
use windrow_core::{Answer, Item, Status, Timestamp};
use windrow_engine::Failure;

use super::Simulation;
use super::clients::Doing;
use super::ledger::{Finding, Lawful};
use super::plan::{RESOURCE, alike};
use crate::suite::check_everything;

/// Leases are taken back at most so late.
const LATE_MS: u64 = 1_000;
/// Polls after which somebody must be waiting for somebody.
const ENOUGH: usize = 20_000;

impl Simulation {
    /// Waits until nothing is under way, and compares everything with everything.
    pub(super) fn audit(&mut self) -> Lawful {
        self.disarm();
        self.life().desk.hush();
        self.calm()?;
        self.life().time.advance(LATE_MS);
        self.calm()?;
        self.check_clients()?;
        self.check_waiters()?;
        self.check_arrivals()?;
        self.check_early_calls()?;
        self.check_store()?;
        self.compare_with_ledger()?;
        let life = self.life();
        let live = |status| matches!(status, Status::Pending | Status::Processing);
        let counts = life.counts().into_iter().filter(|count| live(count.status));
        life.desk.live.set(counts.map(|count| count.items).sum());
        life.desk.unhush();
        Ok(())
    }

    /// Polls whoever is ready and syncs, until there is nothing to do.
    fn calm(&mut self) -> Lawful {
        for _ in 0..ENOUGH {
            let ready: Vec<usize> = self.life().tasks.ready().collect();
            if let Some(number) = self.dice.pick(&ready).copied() {
                self.note(number as u64);
                let over = self.life().tasks.poll(number);
                if over && number == self.life().ticker() {
                    return Err(Finding::general("ticking stopped although the store goes on"));
                }
            } else if !self.life().store.sync_step() {
                return match self.ledger.lock().finding.take() {
                    Some(finding) => Err(finding),
                    None => Ok(()),
                };
            }
        }
        Err(Finding::general("it never comes to rest"))
    }

    /// Whoever asked was answered.
    fn check_clients(&mut self) -> Lawful {
        let life = self.life();
        if let Some(why) = life.store.poisoned() {
            return Err(Finding::general(format!("it stopped although nothing failed: {why}")));
        }
        for (number, doing) in life.desk.doing.borrow().iter().enumerate() {
            if let Doing::Asking(verb) = doing {
                let what = format!("client {number} waits for ever for its {verb}");
                return Err(Finding::general(what));
            }
        }
        let under_way = life.engine.in_flight();
        if under_way > 0 {
            return Err(Finding::general(format!("{under_way} commands are under way for ever")));
        }
        Ok(())
    }

    /// Nobody sleeps while work that it would take is ready.
    fn check_waiters(&mut self) -> Lawful {
        let now = self.now();
        let life = self.life.as_ref().expect("a life is under way");
        let doing = life.desk.doing.borrow().clone();
        for (number, doing) in doing.into_iter().enumerate() {
            let Doing::Waiting { claim, until } = doing else { continue };
            if until <= now {
                let what = format!("client {number} waits beyond its time for work");
                return Err(Finding::general(what));
            }
            self.sometimes.waiters_checked += 1;
            let probe = Claim { worker: "probe".into(), max: 1, ..claim.clone() };
            let answer = Self::drive(life, life.engine.submit(Command::Claim(probe)));
            if let Ok(Answer::Claimed(Some(grant))) = answer {
                let what = format!("client {number} sleeps although it is ready for {claim:?}");
                return Err(Finding::of(grant.items[0].item.id, what));
            }
        }
        Ok(())
    }

    /// Work that arrives at once wakes everybody who would take some of it.
    fn check_arrivals(&mut self) -> Lawful {
        let waits = |doing: &&Doing| matches!(doing, Doing::Waiting { .. });
        let waiting = self.life().desk.doing.borrow().iter().filter(waits).count();
        if waiting < 2 || self.dice.percent(50) {
            return Ok(());
        }
        let items = alike(&mut self.dice, &mut self.ledger.lock(), 4 * waiting);
        // Some or all may be refused.
        self.submit(Command::Enqueue(items))?;
        self.calm()?;
        self.sometimes.arrivals_checked += 1;
        self.check_waiters()
    }

    /// Nobody is called while time passes in which nothing becomes due.
    fn check_early_calls(&mut self) -> Lawful {
        let now = self.now();
        let doing = self.life().desk.doing.borrow().clone();
        let waiting = doing.iter().enumerate().filter_map(|(number, doing)| match doing {
            Doing::Waiting { until, .. } => Some((number, *until)),
            _ => None,
        });
        let waiting: Vec<(usize, Timestamp)> = waiting.collect();
        let deadlines = waiting.iter().map(|(_, until)| *until);
        let due = deadlines.chain(self.life().next_due()).min();
        let Some(due) = due.filter(|due| *due > now.plus(1)) else { return Ok(()) };
        let rung = |life: &super::Life| -> Vec<u64> {
            waiting.iter().map(|(number, _)| life.tasks.rung(*number)).collect()
        };
        let before = rung(self.life());
        let swept = self.ledger.lock().sometimes.swept;
        self.life().time.advance(due.since(now) - 1);
        self.calm()?;
        let ended_some = self.ledger.lock().sometimes.swept > swept;
        if !ended_some && rung(self.life()) != before {
            return Err(Finding::general("a claim was woken although nothing became due"));
        }
        Ok(())
    }

    /// Counts, keys, trees, leases and the families of seed 002.
    fn check_store(&mut self) -> Lawful {
        let now = self.now();
        let life = self.life();
        if let Some(what) = life.store.families().broken() {
            return Err(Finding::general(what));
        }
        if let Some(what) = life.store.unhealthy() {
            return Err(Finding::general(format!("the store is not well: {what}")));
        }
        let late = |lease: &&windrow_core::change::Lease| lease.expires.plus(LATE_MS) < now;
        if let Some(lease) = life.leases().iter().find(late) {
            return Err(Finding::general(format!("nobody took back {lease:?} by {now:?}")));
        }
        check_everything(&life.stepped());
        Ok(())
    }

    /// Opens every gate and works off whatever is left: all of it must end.
    pub(super) fn drain(&mut self) -> Lawful {
        self.audit()?;
        for number in 0..self.plan.clients() {
            self.life().tasks.stop(number);
        }
        self.calm()?;
        self.open_everything()?;
        for _ in 0..ENOUGH {
            if self.work_off()? {
                continue;
            }
            if self.live() == 0 {
                self.check_store()?;
                return self.compare_with_ledger();
            }
            let now = self.now();
            let due = self.life().next_due().map_or(LATE_MS, |due| due.since(now));
            // A longer gap would give leases more time; dead workers would keep theirs for ever.
            let most = if self.life().leases().is_empty() { 3_600_000 } else { LATE_MS };
            self.life().time.advance(due.clamp(1, most));
            self.calm()?;
        }
        Err(self.what_is_left())
    }

    fn live(&mut self) -> u64 {
        let live = |status| matches!(status, Status::Pending | Status::Processing);
        let counts = self.life().counts().into_iter();
        counts.filter(|count| live(count.status)).map(|count| count.items).sum()
    }

    fn submit(&mut self, command: Command) -> Result<Answer<Work>, Finding> {
        let life = self.life.as_ref().expect("a life is under way");
        let verb = command.verb();
        let answer = Self::drive(life, life.engine.submit(command));
        answer.map_err(|failure: Failure| Finding::general(format!("{verb} failed: {failure}")))
    }

    fn open_everything(&mut self) -> Lawful {
        let closed_until = self.now();
        self.submit(Command::Gate { resource: RESOURCE.into(), closed_until })?;
        let paused = self.ledger.lock().paused();
        for scope in paused {
            self.submit(Command::Resume(scope))?;
        }
        Ok(())
    }

    /// Claims and completes; false if nothing was to be had.
    fn work_off(&mut self) -> Result<bool, Finding> {
        let claim = Claim { queues: Vec::new(), ..Claim::new("drain", "", 40) };
        let Answer::Claimed(Some(grant)) = self.submit(Command::Claim(claim))? else {
            return Ok(false);
        };
        let items = grant.items.iter().map(|work| (work.item.id, Outcome::complete())).collect();
        self.submit(Command::Settle { lease: grant.lease, items })?;
        match self.ledger.lock().finding.take() {
            Some(finding) => Err(finding),
            None => Ok(true),
        }
    }

    fn what_is_left(&mut self) -> Finding {
        let now = self.now();
        let stepped = self.life().stepped();
        let all = crate::suite::everything(&stepped);
        let live = all.iter().map(|seen| &seen.item).filter(|item| !item.is_done());
        let items: Vec<&Item> = live.collect();
        let Some(item) = items.first() else { return Finding::general("it never ends") };
        let why = crate::suite::block_on(stepped.explain(item.id, now));
        let what = format!("{} items never end; this one: {item:?}, {why:?}", items.len());
        Finding::of(item.id, what)
    }
}
