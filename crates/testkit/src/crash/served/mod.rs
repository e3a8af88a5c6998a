//! `crash serve`: `windrow serve` dies under load again and again, and its clients go on.
//!
//! Producers and workers in this process use the public API through the client, which reconnects
//! and repeats by itself; none of them knows of the deaths. Every answer goes into a [`Ledger`].
//! Every few rounds the load stops, and what the server shows is held against it: nothing
//! acknowledged is lost, nothing is there twice, a repeated request gets its first answer, nothing
//! that was settled is handed out again, and no attempt was spent on a restart.

mod check;
mod ledger;
mod load;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::runtime::Runtime;
use windrow_client::Options;
use windrow_client::http::Client;

use self::ledger::Ledger;
use self::load::Load;
use crate::random::Splitmix;
use crate::servers::windrow::{On, Windrow};

/// Rounds between two checks.
const CHECK_EVERY: u32 = 5;
/// How long the server runs between two deaths.
const LIFE_MS: std::ops::Range<u64> = 50..400;

/// A mistake that the checks must find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    Nothing,
    /// After each death the server has the data of the beginning.
    Forgets,
    /// A producer that hears nothing asks again under another id.
    NewIds,
}

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The `windrow` program.
    pub program: PathBuf,
    pub on: On,
    /// Deaths by kill -9.
    pub kills: u32,
    /// Restarts by SIGTERM, in between.
    pub stops: u32,
    pub seed: u64,
    pub plant: Plant,
}

/// How it went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    pub kills: u32,
    pub stops: u32,
    pub checks: u32,
    pub enqueued: u64,
    pub settled: u64,
    pub repeated: u64,
    /// Longest time from a death until the server answered again.
    pub worst_back: Duration,
}

/// Runs it; an error says what must never be.
pub fn run(wanted: &Wanted) -> anyhow::Result<Summary> {
    let mut server = Windrow::start(&wanted.program, wanted.on.clone())?;
    let forgotten = match wanted.plant {
        Plant::Forgets => Some(server.keep_copy()?),
        _ => None,
    };
    let runtime = Runtime::new()?;
    let ledger = Arc::new(Ledger::new(wanted.seed));
    let client = Client::new(&server.url(), Options::default())?;
    let (mut draws, mut summary) = (Splitmix(wanted.seed), Summary::default());
    let rounds = wanted.kills + wanted.stops;
    let mut load = Some(Load::start(&runtime, &client, &ledger, wanted.plant)?);
    for round in 1..=rounds {
        let life = LIFE_MS.start + draws.draw() % (LIFE_MS.end - LIFE_MS.start);
        std::thread::sleep(Duration::from_millis(life));
        let began = Instant::now();
        // Stops are spread evenly among the kills.
        if round * wanted.stops / rounds > (round - 1) * wanted.stops / rounds {
            server.stop().with_context(|| format!("round {round}"))?;
            summary.stops += 1;
        } else {
            server.kill()?;
            summary.kills += 1;
        }
        if let Some(copy) = &forgotten {
            server.put_back(copy)?;
        }
        server.start_again().with_context(|| format!("round {round}"))?;
        summary.worst_back = summary.worst_back.max(began.elapsed());
        if round % CHECK_EVERY == 0 || round == rounds {
            let running = load.take().context("the load runs")?;
            running.stop(&runtime)?;
            runtime.block_on(check::check(&client, &ledger, &mut summary))?;
            summary.checks += 1;
            if round < rounds {
                load = Some(Load::start(&runtime, &client, &ledger, wanted.plant)?);
            }
        }
    }
    let (enqueued, settled) = ledger.totals();
    Ok(Summary { enqueued, settled, ..summary })
}
