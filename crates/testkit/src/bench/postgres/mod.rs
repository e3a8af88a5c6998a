//! `bench postgres`: Windrow on PostgreSQL beside a bare loop and two peers, on one server.
//!
//! 256-byte payloads that do not compress, a key on every item of Windrow, a sync before every
//! answer. Everybody has a database of its own on the same server and takes turns in short rounds,
//! so that a slow moment of the machine meets all of them.

mod bare;
mod contender;
mod depth;
mod finished;
mod ground;
mod hands;
mod history;
mod ours;
mod pairs;
mod peers;
mod pinned;
mod rates;
mod servers;
mod tree;

use std::ffi::OsString;
use std::io::Write as _;
use std::time::Instant;

use anyhow::Context as _;
use lexopt::ValueExt as _;

use self::ground::Ground;
use super::asked::{self, Words};
use super::machine;
use super::report::{Bar, Row, Want, check, tell};
use crate::servers::Version;

pub const HELP: &str = "\
bench postgres [--json] [--quick] [--only PARTS] [--pinned-minutes N] [--width N]
               [--postgres 15|18] [--no-peers]
  Measures Windrow on PostgreSQL, in one run on one server with its default durability, beside a
  bare SKIP LOCKED loop that keeps no history, and beside graphile-worker and pg-boss 10. Everybody
  has a database of its own and takes turns in short rounds; figures are medians, ratios are medians
  of what Windrow did in a round over what the other did in the round beside it. After loading and
  after every round items are counted: one that is lost or doubled ends the run. Fails if a bar is
  not met; peers that are not installed are bars not met.

  --only PARTS        some of these, with commas between them:
      enqueue   1x1, 1x16 and 100x4 (batch x clients)
      claim     claim+settle 1x16 and 100x4
      life      100 thousand items come and go, 4 producers and 4 consumers in batches of 100
      tree      16 workers on the chunks of one tree of 10 thousand, and on unrelated items
      depth     claim+settle with 10 thousand and with 1 million items waiting
      servers   one server, and two on one database, each with clients of its own; two together may
                not do less than one, beyond the noise: the upper end of the confidence interval of
                the median ratio reaches 1, and the median 0.9
      finished  claim+settle with 10 million finished items kept, and with none
      pinned    500 items/s flow while a transaction holds a snapshot; claim+settle then, and before
  --pinned-minutes N  how long the snapshot is held before the second measurement (10)
  --quick             fewer and shorter rounds, a tenth of the items, without finished and pinned
                      unless they are asked for; indicates, proves nothing
  --width N           submits that an engine of Windrow has under way at once (4)
  --postgres 15|18    which server; by default the newest that is here
  --no-peers          without graphile-worker and pg-boss, for tuning; their bars are not met
  --json              prints {machine, rows, checks} instead of a table

  The whole takes about an hour and 10 GB in the temporary directory. While tuning:
  cargo xtask bench postgres --quick --no-peers --only claim,enqueue
";

/// A named part of the bench.
struct Part {
    name: &'static str,
    run: fn(&Ground) -> anyhow::Result<Vec<Row>>,
    /// Left out if somebody is in a hurry.
    is_long: bool,
}

const fn part(name: &'static str, run: fn(&Ground) -> anyhow::Result<Vec<Row>>) -> Part {
    Part { name, run, is_long: false }
}

const PARTS: [Part; 8] = [
    part("enqueue", rates::enqueue),
    part("claim", rates::claim),
    part("life", rates::life),
    part("tree", tree::run),
    part("depth", depth::run),
    part("servers", servers::run),
    Part { name: "finished", run: finished::run, is_long: true },
    Part { name: "pinned", run: pinned::run, is_long: true },
];

const CLAIM_1: &str = "claim+settle 1x16";
const CLAIM_100: &str = "claim+settle 100x4";
const ENQUEUE_100: &str = "enqueue 100x4";

const BARS: [Bar; 19] = [
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
    least("chunks of one tree, times unrelated items", tree::NAME, "ratio", 0.5),
    most("times slower at 1 million waiting than at 10 thousand", depth::WORST, 1.3),
    least("two servers, times one, the median", servers::LOWEST, "ratio", 0.9),
    least("two servers, times one, within noise", servers::LOWEST, servers::WITHIN_NOISE, 1.0),
    most("times slower with 10 million finished", finished::WORST, 1.3),
    least("items/s under the pinned snapshot", pinned::LOWEST, pinned::FLOW_PER_S, 490.0),
    least("after the pinned snapshot, times before", pinned::LOWEST, "ratio", 0.5),
];

const fn least(name: &'static str, row: &'static str, figure: &'static str, least: f64) -> Bar {
    Bar { name, row, figure, want: Want::AtLeast(least) }
}

const fn most(name: &'static str, row: &'static str, most: f64) -> Bar {
    Bar { name, row, figure: "ratio", want: Want::AtMost(most) }
}

#[derive(Debug)]
struct Asked {
    common: asked::Asked,
    width: usize,
    pinned_minutes: f64,
    version: Option<Version>,
    peers: bool,
}

impl Asked {
    fn wants(&self, part: &Part) -> bool {
        let is_left_out = self.common.only.is_none() && self.common.quick && part.is_long;
        self.common.wants(part.name) && !is_left_out
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
        if asked.wants(part) {
            eprintln!("{} …", part.name);
            let begun = Instant::now();
            rows.extend((part.run)(&ground).with_context(|| part.name)?);
            eprintln!("{} took {:.0} s", part.name, begun.elapsed().as_secs_f64());
        }
    }
    // Others may use the disk too; this says whether they came or went meanwhile.
    machine["fdatasync_per_s_after"] = machine::syncs_per_s(&std::env::temp_dir())?.round().into();
    let checks = check(&BARS, &rows, asked.common.only.is_none() && !asked.common.quick);
    tell(asked.common.json, asked.common.quick, &machine, &rows, &checks)?;
    Ok(checks.iter().all(|check| check.ok))
}

fn read(words: Vec<OsString>) -> anyhow::Result<Option<Asked>> {
    let (mut width, mut pinned_minutes, mut version, mut peers) = (ours::WIDTH, 10.0, None, true);
    let parts = PARTS.iter().map(|part| part.name).collect();
    let common = Words { help: HELP, part: "part", parts }.read(words, |option, words| {
        match option {
            "width" => width = words.value()?.parse()?,
            "pinned-minutes" => pinned_minutes = words.value()?.parse()?,
            "no-peers" => peers = false,
            "postgres" => {
                version = match words.value()?.string()?.as_str() {
                    "15" => Some(Version::V15),
                    "18" => Some(Version::V18),
                    other => anyhow::bail!("no PostgreSQL {other} here; 15 or 18"),
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(common.map(|common| Asked { common, width, pinned_minutes, version, peers }))
}

#[cfg(test)]
mod tests {
    use super::contender::{BATCHES, SINGLE, shape};
    use super::*;

    #[test]
    fn the_help_names_every_part() {
        for part in &PARTS {
            assert!(HELP.contains(&format!("\n      {} ", part.name)), "{}", part.name);
        }
    }

    #[test]
    fn bars_are_held_against_rows_that_are_measured() {
        assert_eq!(CLAIM_1, format!("claim+settle {}", shape(&SINGLE)));
        assert_eq!(CLAIM_100, format!("claim+settle {}", shape(&BATCHES)));
    }

    #[test]
    fn a_row_without_peers_misses_their_bars() {
        let row = Row::new(CLAIM_100).with("of_bare", 1.0);
        let checks = check(&BARS, &[row], false);
        let met: Vec<bool> = checks.iter().map(|check| check.ok).collect();
        assert_eq!(met, [true, false, false]);
    }

    #[test]
    fn what_is_asked_for_is_read() {
        let words = ["--quick", "--only", "claim,tree", "--pinned-minutes", "0.5", "--width", "8"];
        let asked = read(words.map(OsString::from).to_vec()).unwrap().unwrap();
        let wanted: Vec<&str> =
            PARTS.iter().filter(|part| asked.wants(part)).map(|part| part.name).collect();
        assert_eq!(wanted, ["claim", "tree"]);
        assert!(asked.common.quick && asked.pinned_minutes == 0.5 && asked.width == 8);
        assert!(read(vec!["--only".into(), "clam".into()]).is_err());
    }
}
