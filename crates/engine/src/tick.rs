//! Ticking: what happens by itself as time passes.
//!
//! [`Engine::step`] does everything that is due and says when to call it again; [`Engine::run`]
//! calls it with the machine's clock. After a start or a gap in which nobody ticked, live leases
//! get more time first, because nobody could renew them. Of several servers one does all this; the
//! others ask again every second whether it is still there.
//!
//! A step is bounded by time, however much there is to sweep: only between steps does the server
//! say that it is still there, and look for leases that have run out.
//!
//! A store that keeps time says when something is due by its own clock, which need not agree with
//! this server's. So a due time only decides when to look again, within bounds.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use windrow_core::Timestamp;
use windrow_core::command::{Answer, Command};
use windrow_core::limits::COMMAND_ITEMS_MAX;
use windrow_core::ports::{Lead, Store, StoreError};

use crate::clock::Clock;
use crate::engine::{Engine, Failure};

/// A job that the engine does from time to time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    pub name: &'static str,
    pub every_ms: u64,
    pub last: Option<Timestamp>,
    pub next: Timestamp,
    /// Items that the last run ended, took back or removed.
    pub handled: u64,
}

/// Whether what must happen by itself happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pulse {
    /// When a step last came to its end.
    pub last: Option<Timestamp>,
    /// Whether this server does it, or another.
    pub lead: Option<Lead>,
    /// Since when no step has come to its end.
    pub failing_since: Option<Timestamp>,
}

/// Longest time between two steps; leases expire at most this late.
const STEP_MAX_MS: u64 = 1_000;
/// Nobody ticked for so long: leases get their grace.
const GAP_MS: u64 = 5_000;
/// Shortest time until the next step when something seems due of which nothing came: by the store's
/// clock its time is still ahead.
const EARLY_MS: u64 = 50;
/// How long one step goes on with slices of one job after another before it lets others in. Far
/// below the time after which another server leads, or nobody seems to have ticked.
const WORK_MAX_MS: u64 = 1_000;
/// Slices of one job in one step, however fast they are.
const SLICES_MAX: usize = 64;

/// What is known of time passing here. Nothing until the first step: an engine that never steps
/// notices no gap.
#[derive(Debug, Default)]
pub(crate) struct Ticked {
    /// One more than when somebody last ticked; 0 if nobody has.
    behind: AtomicU64,
    /// A gap was seen, and leases have not had their grace for it yet.
    owes_grace: AtomicBool,
    /// One looks at a time: whoever comes meanwhile waits for the grace.
    one: tokio::sync::Mutex<()>,
}

impl Ticked {
    fn at(&self, now: Timestamp) {
        self.behind.fetch_max(now.0.saturating_add(1), Ordering::AcqRel);
    }

    /// When somebody last ticked.
    fn last(&self) -> Option<Timestamp> {
        self.behind.load(Ordering::Acquire).checked_sub(1).map(Timestamp)
    }

    fn is_late(&self, now: Timestamp) -> bool {
        self.last().is_some_and(|last| now.since(last) > GAP_MS)
    }
}

/// The engine's jobs.
#[derive(Debug)]
pub(crate) struct Jobs {
    pub(crate) reclaim: Job,
    pub(crate) sweep: Job,
    pub(crate) pulse: Pulse,
}

impl Default for Jobs {
    fn default() -> Jobs {
        let job =
            |name, every_ms| Job { name, every_ms, last: None, next: Timestamp::ZERO, handled: 0 };
        Jobs {
            reclaim: job("reclaim", STEP_MAX_MS),
            sweep: job("sweep", STEP_MAX_MS),
            pulse: Pulse::default(),
        }
    }
}

impl Job {
    fn ran(&mut self, now: Timestamp, handled: u64, more: bool) {
        self.last = Some(now);
        self.next = if more { now } else { now.plus(self.every_ms) };
        self.handled = handled;
    }
}

impl<S: Store, C: Clock> Engine<S, C> {
    /// Does everything that is due at `now`; says when there is something to do again.
    pub async fn step(&self) -> Result<Timestamp, Failure> {
        let stepped = self.do_step().await;
        let now = self.clock().now();
        let pulse = &mut self.jobs().lock().pulse;
        if stepped.is_ok() {
            (pulse.last, pulse.failing_since) = (Some(now), None);
        } else {
            pulse.failing_since.get_or_insert(now);
        }
        stepped
    }

    async fn do_step(&self) -> Result<Timestamp, Failure> {
        let now = self.clock().now();
        let lead = {
            let _one = self.ticked().one.lock().await;
            self.catch_up().await?
        };
        if lead == Lead::Follows {
            self.ticked().at(now);
            return Ok(now.plus(STEP_MAX_MS));
        }
        self.store().advance(now).await?;
        // Only now: a store that cannot be reached takes no renewals either, which is a gap.
        self.ticked().at(now);
        let more = self.work(now).await?;
        let next = self.store().next_due().await?.unwrap_or(Timestamp::NEVER);
        let early = next <= now && !more;
        let least = if early { self.clock().now().plus(EARLY_MS) } else { now.plus(1) };
        let jobs = self.jobs().lock();
        let soonest = next.min(jobs.sweep.next).min(jobs.reclaim.next);
        Ok(soonest.min(now.plus(STEP_MAX_MS)).max(least))
    }

    /// Gives live leases more time if nobody has ticked for long. Who leads.
    async fn catch_up(&self) -> Result<Lead, Failure> {
        let ticked = self.ticked();
        let lead = self.store().lead().await?;
        self.jobs().lock().pulse.lead = Some(lead);
        let gap = match lead {
            Lead::Alone => ticked.last().is_none() || ticked.is_late(self.clock().now()),
            Lead::Leads { idle_ms } => idle_ms > GAP_MS,
            Lead::Follows => false,
        };
        // A store says so only once. Whoever asked may be gone before the grace is given.
        ticked.owes_grace.fetch_or(gap, Ordering::AcqRel);
        if ticked.owes_grace.load(Ordering::Acquire) {
            // As much as the rules give, reckoned from the time at which the store decides.
            self.submit_now(Command::Grace { until: Timestamp::NEVER }.into()).await?;
            ticked.owes_grace.store(false, Ordering::Release);
        }
        Ok(lead)
    }

    /// Whoever asks something after a gap must not be faster than the next step: the process was
    /// stopped, or the machine slept, and nobody could renew.
    pub(crate) async fn catch_up_if_late(&self) -> Result<(), Failure> {
        let ticked = self.ticked();
        if !ticked.is_late(self.clock().now()) {
            return Ok(());
        }
        let _one = ticked.one.lock().await;
        // Somebody may have done it while we waited.
        if ticked.is_late(self.clock().now()) {
            self.catch_up().await?;
            ticked.at(self.clock().now());
        }
        Ok(())
    }

    /// Runs the jobs that are due, for a while. Whether one of them has more to do.
    async fn work(&self, now: Timestamp) -> Result<bool, Failure> {
        let until = now.plus(WORK_MAX_MS);
        let (reclaim, sweep) = {
            let jobs = self.jobs().lock();
            (jobs.reclaim.next, jobs.sweep.next)
        };
        let due = self.store().next_due().await?;
        let mut has_more = false;
        if reclaim <= now || due.is_some_and(|due| due <= now) {
            let (handled, more) = self.reclaim(until).await?;
            self.jobs().lock().reclaim.ran(now, handled, more);
            has_more |= more;
        }
        if sweep <= now {
            let (handled, more) = self.sweep(until).await?;
            self.jobs().lock().sweep.ran(now, handled, more);
            has_more |= more;
            self.presence().forget(&self.store().leases().await?, now);
        }
        Ok(has_more)
    }

    /// Slices of reclaiming, at least one. How many items came back, and whether there are more.
    async fn reclaim(&self, until: Timestamp) -> Result<(u64, bool), Failure> {
        let mut handled = 0;
        for _ in 0..SLICES_MAX {
            let limit = COMMAND_ITEMS_MAX / 10;
            let answer = self.submit(Command::Reclaim { limit }).await?;
            let Answer::Reclaimed(reclaimed) = answer else { return Ok((handled, false)) };
            handled += u64::from(reclaimed.items);
            if !reclaimed.more {
                return Ok((handled, false));
            }
            if self.clock().now() >= until {
                break;
            }
        }
        Ok((handled, true))
    }

    /// Says how much time lies between two sweeps.
    pub fn sweep_every(&self, every_ms: u64) {
        self.jobs().lock().sweep.every_ms = every_ms.max(STEP_MAX_MS);
    }

    /// The same for sweeping, which anybody may do at any time.
    pub async fn sweep(&self, until: Timestamp) -> Result<(u64, bool), Failure> {
        let mut handled = 0;
        for _ in 0..SLICES_MAX {
            let answer = self.submit(Command::Sweep { limit: COMMAND_ITEMS_MAX }).await?;
            let Answer::Swept(swept) = answer else { return Ok((handled, false)) };
            handled += u64::from(swept.cancelled + swept.folded + swept.removed);
            if !swept.more {
                return Ok((handled, false));
            }
            if self.clock().now() >= until {
                break;
            }
        }
        Ok((handled, true))
    }

    /// Steps until the store stops or is closed; gives the reason.
    pub async fn run(&self) -> Failure {
        loop {
            let next = match self.step().await {
                Ok(next) => next,
                Err(failure @ Failure::Store(StoreError::Poisoned(_) | StoreError::Closed)) => {
                    return failure;
                }
                // The answer got lost: with its batch, or because the store has just stopped.
                Err(Failure::Store(StoreError::OutcomeUnknown(_))) => continue,
                // A full disk, too much under way: that passes.
                Err(failure) => {
                    self.figures().did_not_tick(&failure);
                    self.clock().now().plus(STEP_MAX_MS)
                }
            };
            self.clock().sleep_until(next).await;
        }
    }

    /// Whether steps are taken.
    pub fn pulse(&self) -> Pulse {
        self.jobs().lock().pulse
    }

    /// Whether this server is the one that does what happens by itself, as far as it knows.
    pub fn leads(&self) -> bool {
        let lead = self.jobs().lock().pulse.lead;
        let (ticked, now) = (self.ticked(), self.clock().now());
        lead.is_some_and(|lead| lead != Lead::Follows)
            && ticked.last().is_some()
            && !ticked.is_late(now)
    }

    /// The engine's jobs, with their last and next runs.
    pub fn scheduled(&self) -> [Job; 2] {
        let jobs = self.jobs().lock();
        [jobs.reclaim, jobs.sweep]
    }
}
