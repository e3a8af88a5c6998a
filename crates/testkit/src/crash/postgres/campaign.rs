//! A campaign: rounds of disasters over one database, and the checks between them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use windrow_core::limits::GRACE_MS;
use windrow_core::ports::{Now, Store as _};
use windrow_core::{Command, ItemId, Request, Status, Timestamp};
use windrow_store::postgres::{Options, Postgres as Store};

use super::super::ack::Ack;
use super::super::ledger::{Finding, Ledger};
use super::super::name::{LEASE_MS, Queue};
use super::super::program::Failure;
use super::super::story;
use super::super::verify::{Depth, Verified, verify};
use super::child::{Order, wall_us};
use super::disaster::{Disaster, broken};
use super::fleet::{Fleet, Plan};
use super::holds::Holds;
use super::proxy::{Cut, Proxy};
use crate::random::Splitmix;
use crate::servers::{Durability, Postgres, Version};
use crate::suite::block_on;

/// Most live leases per group.
const GROUP_LIMIT: u32 = 1;
const LIVE_MAX: u64 = 300;
/// A database with more items is left for a fresh one.
const ITEMS_MAX: usize = 6_000;
/// How long work may take to drain before leases of the dead are let run out.
const QUIET: Duration = Duration::from_millis(LEASE_MS + 500);
/// Nothing is stuck that drains within this time.
const PATIENCE: Duration = Duration::from_secs(60);
/// So far the clocks move on: every lease of a dead worker is over then, with its grace.
const SKIP_MS: u64 = GRACE_MS + LEASE_MS + 1_000;
/// Items that each check reads whole beyond those that were touched.
const SAMPLE: usize = 200;

/// What a campaign is made of.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub program: PathBuf,
    pub version: Version,
    pub seed: u64,
    pub durability: Durability,
    pub standby: bool,
}

/// How it went.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub rounds: u32,
    pub checks: u32,
    pub databases: u32,
    pub disasters: BTreeMap<Disaster, u32>,
    pub terminated: u64,
    /// By where they were cut, in the order of [`Cut::ALL`].
    pub cuts: [usize; 3],
    pub acks: u64,
    pub claims: u64,
    pub settled: u64,
    /// Outcomes that were not known: asked again under their request id, and not.
    pub unknown: [u64; 2],
    /// Batches of which the store said that nothing was written.
    pub declined: u64,
    pub items: u64,
    pub read: u64,
    pub parents: u64,
    pub repeated: u64,
    pub holds: u64,
    pub most_held: usize,
    /// From the end of a disaster until every server had an answer.
    pub worst_back_ms: u64,
}

/// The database that servers share.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) primary: Postgres,
    pub(super) standby: Option<Postgres>,
}

/// Rounds that share servers and a ledger.
#[derive(Debug)]
pub struct Campaign {
    wanted: Wanted,
    pub(super) dice: Splitmix,
    pub(super) fleet: Fleet,
    pub(super) proxy: Proxy,
    runtime: Runtime,
    pub(super) database: Database,
    ledger: Ledger,
    holds: Holds,
    /// Every report, for the story of an item.
    reports: PathBuf,
    pub(super) summary: Summary,
}

impl Campaign {
    pub fn new(wanted: Wanted, work: &Path) -> Result<Campaign, Failure> {
        std::fs::create_dir_all(work)?;
        let mut dice = Splitmix(wanted.seed);
        let runtime = Runtime::new()?;
        let primary = Postgres::start(wanted.version, wanted.durability).map_err(broken)?;
        let standby = match wanted.standby {
            true => Some(primary.standby().map_err(broken)?),
            false => None,
        };
        let proxy = Proxy::start(runtime.handle(), primary.port())?;
        let database = Database { primary, standby };
        make(&runtime, &database.primary, 1)?;
        let plan = Plan {
            program: wanted.program.clone(),
            url: proxy.url(&name(1)),
            complaints: work.join("complaints.log"),
        };
        let fleet = Fleet::start(plan, 0, 0, &mut dice)?;
        Ok(Campaign {
            wanted,
            dice,
            fleet,
            proxy,
            runtime,
            database,
            ledger: ledger(),
            holds: Holds::default(),
            reports: work.join("reports.log"),
            summary: Summary { databases: 1, ..Summary::default() },
        })
    }

    /// How it went so far.
    pub fn summary(&self) -> Summary {
        let mut summary = self.summary.clone();
        summary.cuts = Cut::ALL.map(|cut| self.proxy.made(cut));
        summary
    }

    /// Some load, these disasters, and a wait until every server works again.
    pub fn round(&mut self, disasters: &[Disaster]) -> Result<(), Failure> {
        self.summary.rounds += 1;
        std::thread::sleep(Duration::from_millis(150 + self.dice.below(450) as u64));
        self.strike(disasters)?;
        let struck = wall_us();
        self.fleet.wait_for_answers(struck).map_err(|error| self.told(error))?;
        let back_ms = (wall_us() - struck) / 1_000;
        self.summary.worst_back_ms = self.summary.worst_back_ms.max(back_ms);
        Ok(())
    }

    /// Lets the work drain, halts everybody, and holds the ledger against the database.
    pub fn check(&mut self) -> Result<(), Failure> {
        let drained = self.drain()?;
        let found = self.judge(drained).err();
        match found {
            Some(finding) => Err(Failure::Found(self.story(&finding))),
            None => self.go_on(),
        }
    }

    /// The same without draining: for a control, in which a part of the work is gone.
    pub fn look(&mut self) -> Result<Option<Finding>, Failure> {
        self.fleet.halt()?;
        let found = self.judge(true).err();
        self.fleet.order(Order::Work)?;
        Ok(found)
    }

    /// Whether everything that was begun has ended.
    fn drain(&mut self) -> Result<bool, Failure> {
        self.fleet.order(Order::Drain)?;
        let store = self.open()?;
        let begun = Instant::now();
        let mut hurried = false;
        let drained = loop {
            if is_drained(&store) {
                break true;
            }
            if begun.elapsed() > PATIENCE {
                break false;
            }
            if begun.elapsed() > QUIET && !hurried {
                hurried = true;
                self.fleet.order(Order::Ahead(self.fleet.ahead_ms() + SKIP_MS))?;
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        drop(store);
        self.fleet.halt().map_err(|error| self.told(error))?;
        Ok(drained)
    }

    /// Enters the reports into the ledger and holds it against the database.
    fn judge(&mut self, drained: bool) -> Result<(), Finding> {
        self.summary.checks += 1;
        let lines = self.fleet.take_lines();
        let kept = self.keep(&lines.iter().map(|l| (l.server, &*l.text)).collect::<Vec<_>>());
        kept.map_err(|error| Finding::general(format!("reports cannot be kept: {error}")))?;
        for line in &lines {
            let ack = Ack::parse(&line.text);
            let ack = ack.ok_or_else(|| Finding::general(format!("not a report: {line:?}")))?;
            self.count(&ack);
            self.holds.take(&ack);
            self.ledger.take(ack)?;
        }
        let audited = self.holds.audit(GROUP_LIMIT as usize)?;
        self.summary.holds += audited.holds;
        self.summary.most_held = self.summary.most_held.max(audited.most);
        let store = self.open().map_err(|error| Finding::general(error.to_string()))?;
        if !drained {
            return Err(stuck(&store, self.now()));
        }
        let (depth, now) = (Depth::Sample(SAMPLE), self.now());
        let verified = verify(&store, &mut self.ledger, depth, &mut self.dice, now)?;
        let Verified { read, parents, repeated, .. } = verified;
        self.summary.read += read as u64;
        self.summary.parents += parents as u64;
        self.summary.repeated += repeated as u64;
        Ok(())
    }

    fn count(&mut self, ack: &Ack) {
        let summary = &mut self.summary;
        summary.acks += ack.weight();
        match ack {
            Ack::Claimed { items, .. } => summary.claims += items.len() as u64,
            Ack::Settled { items, .. } => summary.settled += items.len() as u64,
            Ack::Unknown { by_request } => summary.unknown[usize::from(!by_request)] += 1,
            Ack::Declined { .. } => summary.declined += 1,
            _ => {}
        }
    }

    /// On the same database, or on a fresh one with fresh servers.
    fn go_on(&mut self) -> Result<(), Failure> {
        if self.ledger.items.len() < ITEMS_MAX {
            return Ok(self.fleet.order(Order::Work)?);
        }
        self.fresh()
    }

    fn fresh(&mut self) -> Result<(), Failure> {
        self.fleet.stop()?;
        self.summary.items += std::mem::replace(&mut self.ledger, ledger()).items.len() as u64;
        self.summary.databases += 1;
        File::create(&self.reports)?;
        make(&self.runtime, &self.database.primary, self.summary.databases)?;
        let plan = Plan {
            program: self.wanted.program.clone(),
            url: self.proxy.url(&name(self.summary.databases)),
            complaints: self.reports.with_file_name("complaints.log"),
        };
        let (lives, ahead_ms) = (self.fleet.lives(), self.fleet.ahead_ms());
        self.fleet = Fleet::start(plan, lives, ahead_ms, &mut self.dice)?;
        Ok(())
    }

    /// Ends it; everything was checked.
    pub fn end(mut self) -> Result<Summary, Failure> {
        self.fleet.stop()?;
        let mut summary = self.summary();
        summary.items += self.ledger.items.len() as u64;
        Ok(summary)
    }

    fn now(&self) -> Timestamp {
        Timestamp(wall_us() / 1_000).plus(self.fleet.ahead_ms())
    }

    fn open(&self) -> Result<Store, Failure> {
        open(&self.runtime, &self.database.primary, self.summary.databases)
    }

    fn keep(&self, lines: &[(u8, &str)]) -> io::Result<()> {
        let mut file = File::options().create(true).append(true).open(&self.reports)?;
        let round = self.summary.rounds;
        let lines = lines.iter().map(|(server, text)| format!("{round}/{server} {text}\n"));
        file.write_all(lines.collect::<String>().as_bytes())
    }

    /// A server that does not come back is a finding, not a failure of the harness.
    fn told(&self, error: io::Error) -> Failure {
        Failure::Found(self.story(&Finding::general(error.to_string())))
    }

    /// What was found, how to see it again, and everything that was ever reported of the item.
    pub fn story(&self, finding: &Finding) -> String {
        let Summary { rounds, .. } = self.summary;
        let mut text = format!("{finding}\n\nseed {}, round {rounds}", self.wanted.seed);
        if let Some(id) = finding.item {
            text.push_str("\nwhat was reported of it (round/server, then the report):\n");
            text.push_str(&story::of_item(&self.reports, id));
        }
        let kept = self.reports.parent().unwrap_or(Path::new("."));
        text.push_str(&format!("\nreports are kept in {}", kept.display()));
        text
    }
}

fn name(number: u32) -> String {
    format!("crash_{number}")
}

/// Answers get lost here: that is the point.
fn ledger() -> Ledger {
    let mut ledger = Ledger::default();
    ledger.answers_get_lost = true;
    ledger
}

fn open(runtime: &Runtime, database: &Postgres, number: u32) -> Result<Store, Failure> {
    let options = Options::new(database.url(&name(number)));
    let opened = runtime.block_on(Store::open(options));
    opened.map_err(|error| broken(anyhow::anyhow!("cannot look into the database: {error}")))
}

/// A fresh database with its queues.
fn make(runtime: &Runtime, database: &Postgres, number: u32) -> Result<(), Failure> {
    database.create_database(&name(number)).map_err(broken)?;
    let store = open(runtime, database, number)?;
    let configure = |queue: Queue| -> Request {
        let mut settings = queue.settings(LIVE_MAX);
        settings.defaults.group_limit = Some(GROUP_LIMIT);
        Command::Configure { queue: queue.name().into(), settings: Box::new(settings) }.into()
    };
    let configured = block_on(store.submit(Queue::ALL.map(configure).to_vec(), Now::Database));
    configured.map(drop).map_err(|error| broken(error.into()))
}

fn is_drained(store: &Store) -> bool {
    let live = [Status::Pending, Status::Processing];
    let counts = block_on(store.counts());
    counts.is_ok_and(|counts| counts.iter().all(|count| !live.contains(&count.status)))
}

/// Something has not ended although everybody who could work did.
fn stuck(store: &Store, now: Timestamp) -> Finding {
    let items = match block_on(store.items(None, usize::MAX)) {
        Ok(items) => items,
        Err(error) => return Finding::general(format!("items cannot be listed: {error}")),
    };
    let mut live: Vec<ItemId> = items.iter().filter(|i| !i.is_done()).map(|i| i.id).collect();
    // A parent waits for its children, which come later.
    let Some(id) = live.pop() else {
        return Finding::general("counts say that something is live, and nothing is");
    };
    let why = block_on(store.explain(id, now));
    let item = items.into_iter().find(|item| item.id == id);
    Finding::of(id, format!("STUCK, with {} others: {item:?}; {why:?}", live.len()))
}
