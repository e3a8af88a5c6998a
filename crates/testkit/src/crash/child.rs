//! The child: a store with threads, eight producers and eight workers, until somebody kills it.
//!
//! Runs in a process of its own. Everything that the store answers is reported on standard output,
//! and only then is anything done with it.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use windrow_core::Timestamp;
use windrow_core::command::Command;
use windrow_core::ports::{Now, Store as _, StoreError};
use windrow_store::embedded::disk::{Disk, RealDisk};
use windrow_store::embedded::{Embedded, Options};

use super::ack::Ack;
use super::load::{Did, Producer, Told, Worker, configure, tick};
use super::unsynced::Unsynced;
use crate::random::Splitmix;

const PRODUCERS: u8 = 8;
const WORKERS: u8 = 8;
const BATCH_MAX: usize = 20;
const LIVE_MAX: u64 = 4_000;
/// How long somebody who found nothing to do waits.
const IDLE: Duration = Duration::from_millis(2);
const TICK: Duration = Duration::from_millis(20);

/// What the child is told by its parent.
#[derive(Clone, Debug)]
pub struct Orders {
    pub dir: PathBuf,
    /// The file that takes its standard error.
    pub complaints: PathBuf,
    pub life: u32,
    pub seed: u64,
    pub plant: Plant,
}

/// The bug that a control plants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    Nothing,
    /// The disk's syncs do nothing. Only a power cut finds that.
    NoSync,
    /// Enqueues are reported before the store has answered.
    AckEarly,
}

/// Small files, so that segments, snapshots and reclaim come around within seconds.
pub fn options() -> Options {
    Options {
        segment_bytes: 4 << 20,
        reserve_segments: 1,
        snapshot_bytes: 8 << 20,
        slack_bytes: 8 << 20,
        ..Options::default()
    }
}

pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Timestamp(since.unwrap_or_default().as_millis() as u64)
}

/// Reports go to standard output, each in one call.
#[derive(Clone, Copy, Debug)]
struct Report;

impl Told for Report {
    fn tell(&self, ack: Ack) {
        let mut out = std::io::stdout().lock();
        // A parent that no longer reads has died; so does the child.
        if out.write_all(ack.line().as_bytes()).and_then(|()| out.flush()).is_err() {
            std::process::exit(3);
        }
    }
}

/// Works until it is killed, or until the store stops.
pub fn run(orders: &Orders) -> Result<(), String> {
    let started = Instant::now();
    let disk = RealDisk::open(&orders.dir).map_err(|error| error.to_string())?;
    let disk: Arc<dyn Disk> = match orders.plant {
        Plant::NoSync => Arc::new(Unsynced(disk)),
        _ => Arc::new(disk),
    };
    let store = Embedded::open(disk, options()).map_err(|error| error.to_string())?;
    let store = store.run().map_err(|error| error.to_string())?;
    Report.tell(Ack::Opened { took_ms: started.elapsed().as_millis() as u64 });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .map_err(|error| error.to_string())?;
    let stopped = runtime.block_on(work(store.clone(), orders));
    Report.tell(Ack::Stopped(stopped.to_string()));
    // Without a clean end: whoever waits for the disk would wait for ever.
    std::process::exit(4);
}

/// Runs everybody; ends when the first of them cannot go on.
async fn work(store: Embedded, orders: &Orders) -> StoreError {
    let mut dice = Splitmix(orders.seed);
    if let Err(stopped) = begin(&store).await {
        return stopped;
    }
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..PRODUCERS {
        let mut producer = Producer::new(number, orders.life, BATCH_MAX, dice.draw());
        producer.pretends = orders.plant == Plant::AckEarly;
        tasks.spawn(produce(store.clone(), producer));
    }
    for number in 0..WORKERS {
        tasks.spawn(labour(store.clone(), Worker::new(number, BATCH_MAX, dice.draw())));
    }
    tasks.spawn(keep(store));
    match tasks.join_next().await {
        Some(Ok(stopped)) => stopped,
        Some(Err(panic)) => StoreError::Poisoned(panic.to_string()),
        None => StoreError::Poisoned("nobody worked".to_owned()),
    }
}

/// After a start nobody could renew for a while, so every lease gets a little more time.
async fn begin(store: &Embedded) -> Result<(), StoreError> {
    configure(store, LIVE_MAX, now()).await?;
    let grace = Command::Grace { until: now().plus(100) };
    store.submit(vec![grace.into()], Now::Given(now())).await.map(drop)
}

async fn produce(store: Embedded, mut producer: Producer) -> StoreError {
    loop {
        match producer.step(&store, now(), &Report).await {
            Ok(Did::Something) => tokio::task::yield_now().await,
            Ok(Did::Nothing) => tokio::time::sleep(IDLE).await,
            Err(stopped) => return stopped,
        }
    }
}

async fn labour(store: Embedded, mut worker: Worker) -> StoreError {
    loop {
        match worker.step(&store, now(), &Report).await {
            Ok(Did::Something) => {}
            Ok(Did::Nothing) => tokio::time::sleep(IDLE).await,
            Err(stopped) => return stopped,
        }
    }
}

async fn keep(store: Embedded) -> StoreError {
    loop {
        if let Err(stopped) = tick(&store, now()).await {
            return stopped;
        }
        if let Some(unhealthy) = store.unhealthy() {
            Report.tell(Ack::Wrong(format!("unhealthy: {unhealthy}")));
        }
        tokio::time::sleep(TICK).await;
    }
}
