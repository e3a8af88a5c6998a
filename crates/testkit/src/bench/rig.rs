//! A rig: an embedded store with its defaults in a directory, a counted disk, and an engine's
//! housekeeping.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use windrow_core::ports::Store;
use windrow_core::settings::Settings;
use windrow_core::{Answer, Command};
use windrow_store::embedded::disk::RealDisk;
use windrow_store::embedded::{Embedded, Options, Running};

use super::clients::{Done, Load, Maker, Until, ask, now, run};
use super::counted::{CountedDisk, Counters, Written};
use super::measure::{Latencies, Round, cpu_us, kernel_written_bytes};

/// How often an engine looks for what is over.
const TICK: Duration = Duration::from_millis(100);
const SWEEP: usize = 1_000;
/// A store is quiet when it wrote nothing for this long.
const QUIET: Duration = Duration::from_millis(150);
const QUIET_WITHIN: Duration = Duration::from_secs(120);
/// How waiting items are put in place before a measurement.
const FILL: Load = Load { producers: 4, workers: 0, batch: 1_000 };

/// A running store and what its disk was handed.
#[derive(Debug)]
pub struct Rig {
    pub store: Arc<Embedded>,
    counters: Arc<Counters>,
    running: Option<Running>,
    dir: PathBuf,
}

impl Rig {
    /// A new store in an empty directory.
    pub fn fresh(dir: PathBuf) -> anyhow::Result<Rig> {
        if dir.exists() {
            std::fs::remove_dir_all(&dir)?;
        }
        let rig = Rig::open(&dir)?;
        rig.quiet()?;
        Ok(rig)
    }

    pub fn open(dir: &Path) -> anyhow::Result<Rig> {
        let disk = CountedDisk::new(RealDisk::open(dir)?);
        let counters = disk.counters();
        let running = Embedded::open(Arc::new(disk), Options::default())?.run()?;
        let store = Arc::new((*running).clone());
        Ok(Rig { store, counters, running: Some(running), dir: dir.to_owned() })
    }

    /// Stops the store; its directory stays.
    pub fn close(mut self) {
        self.running.take();
    }

    /// Stops the store and removes its directory.
    pub fn remove(self) -> anyhow::Result<()> {
        let dir = self.dir.clone();
        self.close();
        Ok(std::fs::remove_dir_all(dir)?)
    }

    pub fn written(&self) -> Written {
        self.counters.now()
    }

    /// Waits until the store has nothing left to do by itself.
    pub fn quiet(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < QUIET_WITHIN {
            let before = self.written();
            std::thread::sleep(QUIET);
            self.healthy()?;
            if !self.store.is_keeping() && self.written() == before {
                return Ok(());
            }
        }
        bail!("the store does not come to rest: {:?}", self.store.trouble())
    }

    fn healthy(&self) -> anyhow::Result<()> {
        match self.store.poisoned().or_else(|| self.store.unhealthy()) {
            Some(why) => bail!("the store stopped: {why}"),
            None => Ok(()),
        }
    }

    pub fn configure(
        &self,
        runtime: &Runtime,
        maker: &Maker,
        settings: Settings,
    ) -> anyhow::Result<()> {
        let (queue, settings) = (maker.queue(), Box::new(settings));
        let asked = ask(&*self.store, Command::Configure { queue, settings });
        let answer = runtime.block_on(asked)?;
        anyhow::ensure!(answer == Answer::Done, "settings were answered {answer:?}");
        Ok(())
    }

    /// Puts waiting items in place and waits until the store is at rest.
    pub fn fill(&self, runtime: &Runtime, maker: &Arc<Maker>, items: u64) -> anyhow::Result<Done> {
        let done = run(runtime, &self.store, maker, &FILL, &Until::items(items))?;
        self.quiet()?;
        Ok(done)
    }

    /// Measures what `work` does, and everything the store does in its wake.
    pub fn round(
        &self,
        work: impl FnOnce() -> anyhow::Result<Done>,
        latencies: impl FnOnce(&mut Done) -> Latencies,
    ) -> anyhow::Result<(Round, Done)> {
        let (cpu, kernel, written) = (cpu_us()?, kernel_written_bytes()?, self.written());
        let mut done = work()?;
        self.quiet()?;
        let items = done.items().max(1) as f64;
        let round = Round {
            cpu_us_per_item: (cpu_us()? - cpu) / items,
            bytes_per_item: self.written().since(&written).total() as f64 / items,
            kernel_bytes_per_item: (kernel_written_bytes()? - kernel) as f64 / items,
            ..Round::new(done.items(), done.seconds, latencies(&mut done))
        };
        Ok((round, done))
    }

    /// How many bytes the directory takes.
    pub fn disk_bytes(&self) -> anyhow::Result<u64> {
        let entries = std::fs::read_dir(&self.dir)?;
        entries.map(|entry| Ok(entry?.metadata()?.len())).sum()
    }
}

/// What an engine does beside its callers: takes back expired leases and removes what is over.
#[derive(Debug)]
pub struct Housekeeping {
    stop: Arc<AtomicBool>,
    task: JoinHandle<anyhow::Result<u64>>,
}

impl Housekeeping {
    pub fn begin<S: Store>(runtime: &Runtime, store: &Arc<S>) -> Housekeeping {
        let stop = Arc::new(AtomicBool::new(false));
        let task = runtime.spawn(keep_house(Arc::clone(store), Arc::clone(&stop)));
        Housekeeping { stop, task }
    }

    /// Ends when nothing is left to remove; says how many items were.
    pub fn end(self, runtime: &Runtime) -> anyhow::Result<u64> {
        self.stop.store(true, Ordering::Release);
        runtime.block_on(self.task).context("housekeeping panicked")?
    }
}

async fn keep_house<S: Store>(store: Arc<S>, stop: Arc<AtomicBool>) -> anyhow::Result<u64> {
    let mut removed = 0;
    loop {
        let is_last = stop.load(Ordering::Acquire);
        store.advance(now()).await?;
        let _when_to_look_again = store.next_due().await?;
        loop {
            let answer = ask(&*store, Command::Reclaim { limit: SWEEP }).await?;
            let Answer::Reclaimed(reclaimed) = answer else { bail!("reclaim: {answer:?}") };
            if !reclaimed.more {
                break;
            }
        }
        loop {
            let answer = ask(&*store, Command::Sweep { limit: SWEEP }).await?;
            let Answer::Swept(swept) = answer else { bail!("sweep: {answer:?}") };
            removed += u64::from(swept.removed);
            if !swept.more {
                break;
            }
        }
        if is_last {
            return Ok(removed);
        }
        tokio::time::sleep(TICK).await;
    }
}
