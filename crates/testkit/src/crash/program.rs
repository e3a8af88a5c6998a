//! The program: `crash kill` and `crash power`, cycle after cycle on one data directory.
//!
//! Begins with its own control, a planted bug that the same check must catch: without that, a
//! clean run proves nothing. A failure prints the seed and the story of the item, and keeps the
//! directory.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use windrow_store::embedded::disk::RealDisk;

use super::ack::Ack;
use super::child::{self, Orders, Plant};
use super::ledger::{Finding, Ledger};
use super::life::{self, Life};
use super::story;
use super::verify::{Depth, Verified, verify};
use super::volume::Volume;
use crate::dump::dump;
use crate::random::Splitmix;
use crate::stepped::Stepped;

/// A directory that has grown beyond this is left for a fresh one.
const DIR_BYTES_MAX: u64 = 200 << 20;
/// The size of the file system whose power is cut.
const VOLUME_BYTES: u64 = 1 << 30;
/// A control that is not caught by then was missed.
const CONTROL_CYCLES: u32 = 20;
/// Items that each check reads whole beyond those that were touched.
const SAMPLE: usize = 1_000;
/// How the system calls a disk without power.
const NO_DISK: &str = "os error 5";
/// So many cycles come to snapshots and reclaimed segments, or something is wrong with them.
const ENOUGH_CYCLES: u32 = 50;
/// Every so many cycles everything is read, and the store is opened twice.
const WHOLE_EVERY: u32 = 20;

/// How children die.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Death {
    /// SIGKILL: the page cache survives.
    Kill,
    /// The file system loses its power, then SIGKILL.
    Power,
}

/// What the command line asks for.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub death: Death,
    pub cycles: u32,
    pub seed: u64,
}

/// How a campaign went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    pub cycles: u32,
    pub acks: u64,
    pub directories: u32,
    pub worst_open_ms: u64,
    pub read: u64,
    pub parents: u64,
    pub repeated: u64,
    /// Children that died before their store was open.
    pub died_opening: u32,
    /// Snapshots that a check found, each once.
    pub snapshots: u32,
    /// Segments that were reclaimed by the time of a check.
    pub reclaimed: u32,
}

/// Why a run did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// Something that must never be; the text has the story.
    Found(String),
    /// The harness itself could not go on.
    Broken(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Broken(error)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Found(story) => f.write_str(story),
            Failure::Broken(error) => write!(f, "the harness could not go on: {error}"),
        }
    }
}

/// Runs the control, then the cycles.
pub fn run(wanted: &Wanted) -> Result<Summary, Failure> {
    let work = std::env::temp_dir().join(format!("windrow-crash-{}", std::process::id()));
    std::fs::create_dir_all(&work)?;
    control(wanted, &work)?;
    let mut campaign = Campaign::new(wanted, &work, Plant::Nothing)?;
    let show = io::stderr().is_terminal();
    for cycle in 1..=wanted.cycles {
        if let Err(finding) = campaign.cycle()? {
            return Err(Failure::Found(campaign.story(&finding)));
        }
        campaign.progress(cycle, wanted.cycles, show);
    }
    let summary = campaign.summary;
    drop(campaign);
    std::fs::remove_dir_all(&work)?;
    if wanted.cycles >= ENOUGH_CYCLES && (summary.snapshots == 0 || summary.reclaimed == 0) {
        let little = format!("nothing was lost, but the cycles never came to it: {summary:?}");
        return Err(Failure::Found(little));
    }
    Ok(summary)
}

/// The same cycles with a planted bug. It must be found, or finding nothing means nothing.
fn control(wanted: &Wanted, work: &Path) -> Result<(), Failure> {
    let (plant, what) = match wanted.death {
        Death::Kill => (Plant::AckEarly, "acks before the commit"),
        Death::Power => (Plant::NoSync, "sync switched off"),
    };
    let mut campaign = Campaign::new(wanted, &work.join("control"), plant)?;
    for cycle in 1..=CONTROL_CYCLES {
        if let Err(finding) = campaign.cycle()? {
            eprintln!("control ({what}): caught in cycle {cycle}: {finding}");
            return Ok(());
        }
    }
    let seed = wanted.seed;
    let missed = format!("control ({what}) NOT caught in {CONTROL_CYCLES} cycles; seed {seed}");
    Err(Failure::Found(missed))
}

/// Where a child works.
#[derive(Debug)]
enum Ground {
    Plain(PathBuf),
    Volume(Box<Volume>),
}

impl Ground {
    fn new(death: Death, work: &Path) -> io::Result<Ground> {
        Ok(match death {
            Death::Kill => Ground::Plain(work.join("data")),
            Death::Power => Ground::Volume(Box::new(Volume::create(work, VOLUME_BYTES)?)),
        })
    }

    fn dir(&self) -> PathBuf {
        match self {
            Ground::Plain(dir) => dir.clone(),
            Ground::Volume(volume) => volume.path().join("data"),
        }
    }

    /// What happens before the child is killed.
    fn strike(&self) -> io::Result<()> {
        match self {
            Ground::Plain(_) => Ok(()),
            Ground::Volume(volume) => volume.cut(),
        }
    }

    fn restart(&mut self) -> io::Result<()> {
        match self {
            Ground::Plain(_) => Ok(()),
            Ground::Volume(volume) => volume.restart(),
        }
    }

    fn clear(&mut self) -> io::Result<()> {
        match self {
            Ground::Plain(dir) => std::fs::remove_dir_all(dir),
            Ground::Volume(volume) => volume.format(),
        }
    }
}

/// Cycles that share a ledger.
#[derive(Debug)]
struct Campaign {
    death: Death,
    seed: u64,
    plant: Plant,
    dice: Splitmix,
    ground: Ground,
    ledger: Ledger,
    /// Every report, for the story of an item.
    reports: PathBuf,
    acks_before: u64,
    /// The newest snapshot and the oldest segment of this directory, as their files are called.
    oldest: (String, u32),
    summary: Summary,
}

impl Campaign {
    fn new(wanted: &Wanted, work: &Path, plant: Plant) -> io::Result<Campaign> {
        std::fs::create_dir_all(work)?;
        Ok(Campaign {
            death: wanted.death,
            seed: wanted.seed,
            plant,
            dice: Splitmix(wanted.seed),
            ground: Ground::new(wanted.death, work)?,
            ledger: Ledger::default(),
            reports: work.join("reports.log"),
            acks_before: 0,
            oldest: (String::new(), 1),
            summary: Summary { directories: 1, ..Summary::default() },
        })
    }

    /// One child, its death, and the check. The outer error is the harness's own.
    fn cycle(&mut self) -> io::Result<Result<(), Finding>> {
        if life::size(&self.ground.dir()) > DIR_BYTES_MAX {
            self.ground.clear()?;
            File::create(&self.reports)?;
            self.acks_before += std::mem::take(&mut self.ledger).acks;
            self.summary.directories += 1;
            self.oldest = (String::new(), 1);
        }
        self.summary.cycles += 1;
        let lasts = Duration::from_millis(50 + self.dice.below(951) as u64);
        let orders = Orders {
            dir: self.ground.dir(),
            complaints: self.reports.with_file_name("complaints.log"),
            life: self.summary.cycles,
            seed: self.dice.draw(),
            plant: self.plant,
        };
        let life = life::live(&orders, lasts, || self.ground.strike())?;
        self.ground.restart()?;
        self.keep_reports(&life)?;
        Ok(self.judge(&life))
    }

    fn keep_reports(&self, life: &Life) -> io::Result<()> {
        let mut file = File::options().create(true).append(true).open(&self.reports)?;
        let cycle = self.summary.cycles;
        let lines = life.lines.iter().map(|line| format!("{cycle} {line}\n"));
        file.write_all(lines.collect::<String>().as_bytes())
    }

    /// Enters the reports into the ledger and holds it against the store.
    fn judge(&mut self, life: &Life) -> Result<(), Finding> {
        self.ledger.begin_life();
        for ack in life.acks().map_err(Finding::general)? {
            match &ack {
                Ack::Opened { took_ms } => self.opened(*took_ms),
                Ack::Stopped(why) if self.death == Death::Kill => {
                    return Err(Finding::general(format!("the store stopped by itself: {why}")));
                }
                // Between the cut and its own end a child cannot read either, and says so.
                Ack::Wrong(what) if self.death == Death::Power && what.contains(NO_DISK) => {
                    continue;
                }
                _ => {}
            }
            self.ledger.take(ack)?;
        }
        if life.ended_early {
            return Err(Finding::general("the child ended before anybody killed it"));
        }
        let opened = life.lines.iter().any(|line| line.starts_with('O'));
        self.summary.died_opening += u32::from(!opened);
        self.summary.acks = self.acks_before + self.ledger.acks;
        self.look_at_files();
        let whole = self.summary.cycles.is_multiple_of(WHOLE_EVERY) || self.plant != Plant::Nothing;
        let store = self.open()?;
        let depth = if whole { Depth::Everything } else { Depth::Sample(SAMPLE) };
        let verified = verify(&store, &mut self.ledger, depth, &mut self.dice, child::now())?;
        let Verified { read, parents, repeated, .. } = verified;
        self.summary.read += read as u64;
        self.summary.parents += parents as u64;
        self.summary.repeated += repeated as u64;
        if whole { self.open_again(store) } else { Ok(()) }
    }

    /// Takes note of what the keeper did, to show that the cycles came to it.
    fn look_at_files(&mut self) {
        let (newest, oldest) = (life::newest_snapshot(&self.ground.dir()), self.oldest.1);
        if let Some(newest) = newest.filter(|newest| *newest > self.oldest.0) {
            self.summary.snapshots += 1;
            self.oldest.0 = newest;
        }
        let first = life::first_segment(&self.ground.dir()).unwrap_or(oldest);
        self.summary.reclaimed += first.saturating_sub(oldest);
        self.oldest.1 = oldest.max(first);
    }

    /// Opening changes nothing: another opening finds the same.
    fn open_again(&mut self, store: Stepped) -> Result<(), Finding> {
        let unreadable = |error| Finding::general(format!("it cannot be read: {error}"));
        let before = dump(&store).map_err(unreadable)?;
        drop(store);
        let after = dump(&self.open()?).map_err(unreadable)?;
        match before.difference(&after) {
            Some(difference) => Err(Finding::general(format!("opened again: {difference}"))),
            None => Ok(()),
        }
    }

    fn open(&mut self) -> Result<Stepped, Finding> {
        let started = Instant::now();
        let dir = self.ground.dir();
        let disk = RealDisk::open(&dir).map_err(|error| Finding::general(error.to_string()))?;
        let store = Stepped::open(Arc::new(disk), child::options());
        let store = store.map_err(|error| Finding::general(format!("not opened: {error}")))?;
        self.opened(started.elapsed().as_millis() as u64);
        Ok(store)
    }

    fn opened(&mut self, took_ms: u64) {
        self.summary.worst_open_ms = self.summary.worst_open_ms.max(took_ms);
    }

    fn progress(&self, cycle: u32, of: u32, show: bool) {
        let Summary { acks, directories, worst_open_ms, .. } = self.summary;
        let line = format!(
            "cycle {cycle}/{of}  acks {acks}  restarts ok {cycle}  directories {directories}  \
             worst open {worst_open_ms} ms"
        );
        if show {
            eprint!("\r{line}   ");
            if cycle == of {
                eprintln!();
            }
        } else if cycle.is_multiple_of(25) || cycle == of {
            eprintln!("{line}");
        }
    }

    /// What was found, how to see it again, and everything that was ever reported of the item.
    fn story(&self, finding: &Finding) -> String {
        let Summary { cycles, .. } = self.summary;
        let mut story = format!("{finding}\n\nseed {}, cycle {cycles}", self.seed);
        if let Some(id) = finding.item {
            story.push_str("\nwhat was reported of it (cycle, then the report):\n");
            story.push_str(&story::of_item(&self.reports, id));
        }
        let kept = self.reports.parent().unwrap_or(Path::new("."));
        story.push_str(&format!("\nreports and data are kept in {}", kept.display()));
        story
    }
}
