//! `crash serve`: `windrow serve` dies under load again and again, and its clients go on.
//!
//! Producers and workers in this process use the public API through the client, over HTTP, over RPC
//! or half of them over each; it reconnects and repeats by itself, and none of them knows of the
//! deaths. Every answer goes into a ledger of its wire.
//! Every few rounds the load stops, and what the server shows is held against it: nothing
//! acknowledged is lost, nothing is there twice, a repeated request gets its first answer, nothing
//! that was settled is handed out again, and no attempt was spent on a restart.

mod check;
mod ledger;
mod load;
mod side;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::runtime::Runtime;

use self::side::{Party, Side};
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

/// How the clients speak to the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wire {
    Http,
    Rpc,
    /// Some of them so and some so, at the same time.
    Both,
}

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The `windrow` program.
    pub program: PathBuf,
    pub on: On,
    pub wire: Wire,
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
    let mut parties = parties(&server, wanted)?;
    parties.iter().try_for_each(|party| party.keep_all(&runtime))?;
    let (mut draws, mut summary) = (Splitmix(wanted.seed), Summary::default());
    let rounds = wanted.kills + wanted.stops;
    parties.iter_mut().for_each(|party| party.start(&runtime, wanted.plant));
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
            for party in &mut parties {
                party.stop(&runtime)?;
            }
            for party in &parties {
                party.check(&runtime, &mut summary)?;
            }
            summary.checks += 1;
            if round < rounds {
                parties.iter_mut().for_each(|party| party.start(&runtime, wanted.plant));
            }
        }
    }
    for party in &parties {
        let (enqueued, settled) = party.totals();
        (summary.enqueued, summary.settled) =
            (summary.enqueued + enqueued, summary.settled + settled);
    }
    Ok(summary)
}

/// Those who use the server, one for each wire.
fn parties(server: &Windrow, wanted: &Wanted) -> anyhow::Result<Vec<Box<dyn Party>>> {
    let mut parties: Vec<Box<dyn Party>> = Vec::new();
    if wanted.wire != Wire::Rpc {
        parties.push(Box::new(Side::http(&server.url(), wanted.seed)?));
    }
    if wanted.wire != Wire::Http {
        parties.push(Box::new(Side::rpc(&server.rpc_url(), wanted.seed)?));
    }
    Ok(parties)
}
