//! Peers from npm, each a Node process that is told what to do line by line; `peers/peer.mjs` says
//! how each is used. Installed by `cargo xtask bench postgres`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::contender::{Contender, Job, Outcome};
use super::ground::Ground;
use crate::bench::measure::Round;

/// A package that is measured, as it is used with its defaults.
#[derive(Clone, Copy, Debug)]
pub(super) struct Package {
    /// Also of its database.
    name: &'static str,
    npm: &'static str,
    /// Counts what waits or is held.
    waiting: &'static str,
    stock_max: u64,
}

pub(super) const PACKAGES: [Package; 2] = [
    Package {
        name: "graphile",
        npm: "graphile-worker",
        waiting: "select count(*) from graphile_worker._private_jobs",
        stock_max: 100_000,
    },
    Package {
        name: "pgboss",
        npm: "pg-boss",
        waiting: "select count(*) from pgboss.job where state <> 'completed'",
        // Each of its fetches sorts all that waits: the fewer, the better for it.
        stock_max: 20_000,
    },
];

const PROGRAM: &str = include_str!("../../../peers/peer.mjs");

/// Where `cargo xtask` installed them: we lie in the target directory, and so do they.
fn installed() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let mut places = program.ancestors().skip(1).map(|dir| dir.join("tools/peers"));
    let found = places.find(|dir| dir.join("node_modules/pg-boss").is_dir());
    found.context("the peers are not installed; `cargo xtask bench postgres` does it, with npm")
}

/// Says why peers cannot be measured, if so.
pub(super) fn missing() -> Option<String> {
    let node = Command::new("node").arg("--version").stdout(Stdio::null()).status();
    let node = node.context("there is no node");
    installed().and(node).err().map(|error| format!("{error:#}"))
}

pub(super) struct Peer {
    package: Package,
    node: Option<Node>,
}

impl Peer {
    pub(super) fn new(package: Package) -> Peer {
        Peer { package, node: None }
    }

    fn ask(&mut self, job: &Value) -> anyhow::Result<Value> {
        let node = self.node.as_mut().context("reset comes first")?;
        node.ask(job).with_context(|| format!("{} was asked for {job}", self.package.npm))
    }
}

impl Contender for Peer {
    fn name(&self) -> &'static str {
        self.package.name
    }

    fn reset(&mut self, ground: &Ground) -> anyhow::Result<()> {
        self.close();
        ground.fresh(self.package.name)?;
        self.node = Some(Node::start(self.package.npm, &ground.url(self.package.name))?);
        Ok(())
    }

    fn fill(&mut self, _: &Ground, items: u64) -> anyhow::Result<()> {
        self.ask(&json!({ "do": "fill", "items": items })).map(drop)
    }

    fn run(&mut self, _: &Ground, job: &Job) -> anyhow::Result<Outcome> {
        let load = job.load();
        let (what, seconds, items) = match *job {
            Job::Rate { seconds, .. } => ("rate", seconds, 0),
            Job::Life { items, .. } => ("life", 0.0, items),
            Job::Flow { .. } => anyhow::bail!("peers are not asked for a flow"),
        };
        let told = self.ask(&json!({
            "do": what,
            "producers": load.producers,
            "workers": load.workers,
            "batch": load.batch,
            "seconds": seconds,
            "items": items,
        }))?;
        let number = |name: &str| told[name].as_f64().unwrap_or(0.0);
        let (enqueued, settled) = (number("enqueued"), number("settled"));
        let items = if load.workers == 0 { enqueued } else { settled };
        let round = Round {
            items_per_s: items / number("seconds"),
            p50_us: number("p50_us"),
            p99_us: number("p99_us"),
            worst_us: number("worst_us"),
            ..Round::default()
        };
        Ok(Outcome { enqueued: enqueued as u64, settled: settled as u64, round })
    }

    fn waiting(&mut self, ground: &Ground) -> anyhow::Result<u64> {
        ground.count(self.package.name, self.package.waiting)
    }

    fn stock_max(&self) -> u64 {
        self.package.stock_max
    }

    fn close(&mut self) {
        self.node = None;
    }
}

/// A running Node. Ends when dropped.
struct Node {
    child: Child,
    jobs: ChildStdin,
    told: BufReader<ChildStdout>,
}

impl Node {
    fn start(npm: &str, url: &str) -> anyhow::Result<Node> {
        let mut command = Command::new("node");
        command.args(["--input-type=module", "--eval", PROGRAM, "--", npm, url]);
        command.current_dir(installed()?).env("NO_LOG_SUCCESS", "1").env("NODE_ENV", "production");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let jobs = child.stdin.take().context("it was piped")?;
        let told = BufReader::new(child.stdout.take().context("it was piped")?);
        let mut node = Node { child, jobs, told };
        let ready = node.told()?;
        ensure!(ready["ready"] == npm, "{npm} begins with {ready}");
        Ok(node)
    }

    fn ask(&mut self, job: &Value) -> anyhow::Result<Value> {
        writeln!(self.jobs, "{job}")?;
        self.told()
    }

    fn told(&mut self) -> anyhow::Result<Value> {
        let mut line = String::new();
        ensure!(self.told.read_line(&mut line)? > 0, "it ended; what it said is above");
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _it_may_have_ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
