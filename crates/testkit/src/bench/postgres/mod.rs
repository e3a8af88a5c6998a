//! `bench postgres`: Windrow on PostgreSQL beside a bare loop and two peers, on one server.
//!
//! 256-byte payloads that do not compress, a key on every item of Windrow, a sync before every
//! answer. Everybody has a database of its own on the same server and takes turns in short rounds,
//! so that a slow moment of the machine meets all of them.

mod bare;
mod contender;
mod ground;
mod hands;
mod ours;
mod peers;
mod rates;

use std::ffi::OsString;
use std::io::Write as _;
use std::time::Instant;

use anyhow::Context as _;
use lexopt::prelude::*;

use self::ground::Ground;
use super::machine;
use super::report::{Bar, Row, Want, check, tell};
use crate::servers::Version;

pub const HELP: &str = "\
bench postgres [--json] [--quick] [--only NAMES] [--width N]
  Measures Windrow on PostgreSQL beside a bare SKIP LOCKED loop.
  --only NAMES  some of: enqueue, claim, life (comma between them)
  --quick       fewer and shorter rounds; indicates, proves nothing
  --width N     submits that Windrow has under way at once (4)
  --json        prints {machine, rows, checks} instead of a table
";

/// A named part of the bench.
struct Part {
    name: &'static str,
    run: fn(&Ground) -> anyhow::Result<Vec<Row>>,
}

const PARTS: [Part; 3] = [
    Part { name: "enqueue", run: rates::enqueue },
    Part { name: "claim", run: rates::claim },
    Part { name: "life", run: rates::life },
];

const CLAIM_1: &str = "claim+settle 1x16";
const CLAIM_100: &str = "claim+settle 100x4";
const ENQUEUE_100: &str = "enqueue 100x4";

const BARS: [Bar; 12] = [
    least("claim+settle 1x16, times the bare loop", CLAIM_1, "of_bare", 2.0),
    least("claim+settle 1x16, times graphile-worker", CLAIM_1, "of_graphile", 2.0),
    least("claim+settle 1x16, times pg-boss 10", CLAIM_1, "of_pgboss", 2.0),
    least("claim+settle 100x4, times the bare loop", CLAIM_100, "of_bare", 0.8),
    least("claim+settle 100x4, times graphile-worker", CLAIM_100, "of_graphile", 1.0),
    least("claim+settle 100x4, times pg-boss 10", CLAIM_100, "of_pgboss", 1.0),
    least("enqueue 100x4, times the bare loop", ENQUEUE_100, "of_bare", 0.6),
    least("enqueue 100x4, times graphile-worker", ENQUEUE_100, "of_graphile", 1.0),
    least("enqueue 100x4, times pg-boss 10", ENQUEUE_100, "of_pgboss", 1.0),
    least("life cycle, times the bare loop", rates::LIFE, "of_bare", 1.0),
    least("life cycle, times graphile-worker", rates::LIFE, "of_graphile", 1.0),
    least("life cycle, times pg-boss 10", rates::LIFE, "of_pgboss", 1.0),
];

const fn least(name: &'static str, row: &'static str, figure: &'static str, least: f64) -> Bar {
    Bar { name, row, figure, want: Want::AtLeast(least) }
}

#[derive(Debug)]
struct Asked {
    json: bool,
    quick: bool,
    only: Option<Vec<String>>,
    width: usize,
    pinned_minutes: f64,
    version: Option<Version>,
    peers: bool,
}

impl Default for Asked {
    fn default() -> Asked {
        let (width, pinned_minutes) = (ours::WIDTH, 10.0);
        let (json, quick, only, version, peers) = (false, false, None, None, true);
        Asked { json, quick, only, width, pinned_minutes, version, peers }
    }
}

/// Runs the bench; false if a bar was missed.
pub fn run(words: Vec<OsString>) -> anyhow::Result<bool> {
    let Some(asked) = read(words)? else {
        write!(std::io::stdout(), "{HELP}")?;
        return Ok(true);
    };
    let mut machine = machine::describe(&std::env::temp_dir())?;
    let ground = Ground::new(&asked)?;
    machine["postgres"] = ground.sql("postgres", "show server_version")?.into();
    machine["width"] = asked.width.into();
    machine["pinned_minutes"] = ground.pinned_minutes.into();
    eprintln!("{machine}");
    let mut rows = Vec::new();
    for part in &PARTS {
        let wanted = |only: &Vec<String>| only.iter().any(|name| name == part.name);
        if asked.only.as_ref().is_none_or(wanted) {
            eprintln!("{} …", part.name);
            let begun = Instant::now();
            rows.extend((part.run)(&ground).with_context(|| part.name)?);
            eprintln!("{} took {:.0} s", part.name, begun.elapsed().as_secs_f64());
        }
    }
    let checks = check(&BARS, &rows, asked.only.is_none());
    tell(asked.json, asked.quick, &machine, &rows, &checks)?;
    Ok(checks.iter().all(|check| check.ok))
}

fn read(words: Vec<OsString>) -> anyhow::Result<Option<Asked>> {
    let mut asked = Asked::default();
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next()? {
        match word {
            Long("json") => asked.json = true,
            Long("quick") => asked.quick = true,
            Long("only") => {
                let names = words.value()?.string()?;
                let names: Vec<String> = names.split(',').map(str::to_owned).collect();
                for name in &names {
                    let known = PARTS.iter().any(|part| part.name == name);
                    anyhow::ensure!(known, "no part {name}\n\n{HELP}");
                }
                asked.only = Some(names);
            }
            Long("width") => asked.width = words.value()?.parse()?,
            Long("pinned-minutes") => asked.pinned_minutes = words.value()?.parse()?,
            Long("no-peers") => asked.peers = false,
            Long("postgres") => {
                asked.version = match words.value()?.string()?.as_str() {
                    "15" => Some(Version::V15),
                    "18" => Some(Version::V18),
                    other => anyhow::bail!("no PostgreSQL {other} here; 15 or 18"),
                }
            }
            Long("help") | Short('h') => return Ok(None),
            word => return Err(word.unexpected().into()),
        }
    }
    Ok(Some(asked))
}
