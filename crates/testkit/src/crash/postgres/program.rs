//! The program: a control that must be caught, rounds of disasters, and rounds with a standby.

use std::path::{Path, PathBuf};

use super::super::program::Failure;
use super::campaign::{Campaign, Summary, Wanted};
use super::disaster::Disaster;
use crate::random::Splitmix;
use crate::servers::{Durability, Version};

/// Rounds between two checks.
const CHECK_EVERY: u32 = 5;
/// A control that is not caught by then was missed.
const CONTROL_ROUNDS: u32 = 10;

/// What the command line asks for.
#[derive(Clone, Debug)]
pub struct Run {
    /// The program whose hidden verb is a server.
    pub program: PathBuf,
    pub version: Version,
    pub rounds: u32,
    pub standby_rounds: u32,
    pub seed: u64,
}

impl Run {
    fn wanted(&self, durability: Durability, standby: bool) -> Wanted {
        let (program, seed) = (self.program.clone(), self.seed);
        Wanted { program, version: self.version, seed, durability, standby }
    }
}

/// Runs the control, the rounds, and the rounds with a standby: gives a summary of both.
pub fn run(run: &Run) -> Result<[Summary; 2], Failure> {
    let work = std::env::temp_dir().join(format!("windrow-crash-{}", std::process::id()));
    control(run, &work.join("control"))?;
    let alone = rounds(run, &work.join("alone"), false)?;
    let followed = match run.standby_rounds {
        0 => Summary::default(),
        _ => rounds(run, &work.join("followed"), true)?,
    };
    std::fs::remove_dir_all(&work)?;
    Ok([alone, followed])
}

/// PostgreSQL acknowledges before it writes, and is stopped. That must be found.
pub fn control(run: &Run, work: &Path) -> Result<(), Failure> {
    let what = "synchronous_commit = off";
    let mut campaign = Campaign::new(run.wanted(Durability::Late, false), work)?;
    for round in 1..=CONTROL_ROUNDS {
        campaign.round(&[Disaster::Stop])?;
        if let Some(finding) = campaign.look()? {
            eprintln!("control ({what}): caught in round {round}: {finding}");
            return Ok(());
        }
    }
    let seed = run.seed;
    Err(Failure::Found(format!(
        "control ({what}) NOT caught in {CONTROL_ROUNDS} rounds; seed {seed}"
    )))
}

/// Rounds on one PostgreSQL, or on two of which the second takes over.
pub fn rounds(run: &Run, work: &Path, standby: bool) -> Result<Summary, Failure> {
    let mut campaign = Campaign::new(run.wanted(Durability::Real, standby), work)?;
    let mut dice = Splitmix(run.seed ^ 0x5eed);
    let count = if standby { run.standby_rounds } else { run.rounds };
    for round in 1..=count {
        let disasters = match standby {
            true => Disaster::draw_with_standby(&mut dice),
            false => Disaster::draw(&mut dice),
        };
        campaign.round(&disasters)?;
        let checked = standby || round.is_multiple_of(CHECK_EVERY) || round == count;
        if checked {
            campaign.check()?;
        }
        progress(round, count, &disasters, checked, &campaign.summary());
    }
    campaign.end()
}

fn progress(round: u32, of: u32, disasters: &[Disaster], checked: bool, summary: &Summary) {
    let struck: Vec<&str> = disasters.iter().map(|disaster| disaster.name()).collect();
    let checked = if checked { format!("; checked, acks {}", summary.acks) } else { String::new() };
    eprintln!("round {round}/{of}  {}{checked}", struck.join(" + "));
}
