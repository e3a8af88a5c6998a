//! The simulation: the real engine over the real embedded store, on a simulated disk and clock.
//!
//! One seed is one run. A single thread polls clients, syncs, keeps house, moves the clock and
//! breaks things, each in an order that the seed decides; the same seed gives the same run. The
//! process dies by power cuts and kills at any operation, sometimes again while it recovers, and
//! is opened from what the disk kept. A [`ledger::Ledger`] outside of it knows what was
//! acknowledged. `chaos.rs` chooses what happens next, `quiet.rs` checks everything while nothing
//! is under way, `crash.rs` ends a life and begins the next.

mod chaos;
mod clients;
mod crash;
pub mod ledger;
mod life;
mod payload;
mod plan;
mod quiet;
mod sometimes;
mod tasks;
mod time;
mod watch;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;
use windrow_core::Timestamp;

use crate::random::Splitmix;
use ledger::{Finding, Lawful, Ledger, Line};
use life::Life;
use plan::Plan;
pub use sometimes::Sometimes;
use watch::Shared;

/// Operations of one seed, unless somebody asks for more.
pub const OPS_PER_SEED: u64 = 20_000;

/// What a clean run did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    pub ops: u64,
    pub sometimes: Sometimes,
    /// Equal runs have equal traces.
    pub trace: u64,
}

/// What went wrong, and how to see it again.
#[derive(Clone, Debug)]
pub struct Broken {
    pub seed: u64,
    pub ops: u64,
    /// The operation that showed it.
    pub op: u64,
    pub finding: Finding,
    pub story: Vec<Line>,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Broken { seed, ops, op, finding, story } = self;
        writeln!(f, "seed {seed}, operation {op}: {finding}")?;
        writeln!(f, "repeat it with: cargo xtask sim --seed {seed} --ops {ops}")?;
        for Line { op, at, item, what } in story {
            let of = item.map_or(String::new(), |id| format!("{id} "));
            writeln!(f, "  op {op:>6} {at:?} {of}{what:?}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Broken {}

/// Runs one seed for so many operations, and then until everything has ended.
pub fn run(seed: u64, ops: u64) -> Result<Report, Box<Broken>> {
    let mut simulation = Simulation::new(seed, ops);
    let played = catch_unwind(AssertUnwindSafe(|| simulation.play()));
    let finding = match played {
        Ok(Ok(())) => return Ok(simulation.report()),
        Ok(Err(finding)) => finding,
        Err(panic) => Finding::general(said(panic.as_ref())),
    };
    let story = match finding.item {
        Some(item) => simulation.ledger.lock().story(item),
        None => Vec::new(),
    };
    Err(Box::new(Broken { seed, ops, op: simulation.op, finding, story }))
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("a panic: {}", text.unwrap_or("without words"))
}

/// One run.
struct Simulation {
    seed: u64,
    ops: u64,
    op: u64,
    dice: Splitmix,
    plan: Plan,
    ledger: Shared,
    sometimes: Sometimes,
    life: Option<Life>,
    lives: u64,
    /// When the disk has room again.
    full_until: u64,
    trace: u64,
}

impl Simulation {
    fn new(seed: u64, ops: u64) -> Simulation {
        let mut dice = Splitmix(seed);
        let plan = Plan::draw(&mut dice);
        let mut ledger = Ledger::new();
        ledger.cramped = plan.is_cramped();
        Simulation {
            seed,
            ops,
            op: 0,
            dice,
            plan,
            ledger: Arc::new(Mutex::new(ledger)),
            sometimes: Sometimes::default(),
            life: None,
            lives: 0,
            full_until: 0,
            trace: seed,
        }
    }

    fn play(&mut self) -> Lawful {
        self.start()?;
        while self.op < self.ops {
            self.step()?;
        }
        self.drain()
    }

    fn report(&self) -> Report {
        let mut sometimes = self.sometimes;
        sometimes.add(&self.ledger.lock().sometimes);
        Report { ops: self.op, sometimes, trace: self.trace }
    }

    fn life(&mut self) -> &mut Life {
        self.life.as_mut().expect("a life is under way")
    }

    /// Mixes what happened into the trace.
    fn note(&mut self, what: u64) {
        self.trace = (self.trace.rotate_left(7) ^ what).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn now(&mut self) -> Timestamp {
        use windrow_engine::Clock as _;
        self.life().time.now()
    }
}
