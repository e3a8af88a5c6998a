//! Churn: five million items come and go at a million live, with an engine's housekeeping.

use std::sync::Arc;

use anyhow::Context as _;
use tokio::sync::Semaphore;
use windrow_core::ports::Store;

use crate::bench::clients::{Client, Done, Load, Maker, PAYLOAD_BYTES, PLAIN, Until, run_all};
use crate::bench::measure::{cpu_us, kernel_written_bytes};
use crate::bench::report::Row;
use crate::bench::rig::{Housekeeping, Rig};
use crate::bench::scenario::Stage;

pub(super) const NAME: &str = "churn of 5 million at 1 million live";

const LIVE: u64 = 1_000_000;
const ITEMS: u64 = 5_000_000;
/// The limit has a turn after each slice.
const SLICES: u64 = 5;
const LOAD: Load = Load { producers: 4, workers: 4, batch: 100 };
const LIMIT_S: f64 = 2.0;

pub(super) fn run(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let rig = Rig::fresh(stage.dir.join("churn"))?;
    let maker = Maker::new("queue", PLAIN);
    rig.fill(&stage.runtime, &maker, stage.items(LIVE))?;
    let (cpu, kernel, written) = (cpu_us()?, kernel_written_bytes()?, rig.written());
    let house = Housekeeping::begin(&stage.runtime, &rig.store);
    let mut whole = Done::default();
    let mut limit_worst_us = 0.0f64;
    for slice in 1..=SLICES {
        let done = turn_over(stage, &rig, &maker, stage.items(ITEMS / SLICES))?;
        let (rate, worst_us) = (done.settled as f64 / done.seconds, done.claim.worst_us());
        whole.seconds += done.seconds;
        whole.merge(done);
        let limit = stage.limit.round(&LOAD, if stage.quick { 0.3 } else { LIMIT_S })?;
        limit_worst_us = limit_worst_us.max(limit.worst_us);
        stage.say(&format!(
            "slice {slice}: {rate:.0}/s, worst claim {:.1} ms, the limit's {:.1} ms",
            worst_us / 1e3,
            limit.worst_us / 1e3
        ));
    }
    let removed = house.end(&stage.runtime)?;
    rig.quiet()?;
    let items = whole.settled as f64;
    let payload = items * PAYLOAD_BYTES as f64;
    let handed = rig.written().since(&written);
    let kernel = (kernel_written_bytes()? - kernel) as f64;
    let row = Row::new(NAME)
        .with("items_per_s", items / whole.seconds)
        .with("worst_ms", whole.claim.worst_us() / 1e3)
        .with("limit_worst_ms", limit_worst_us / 1e3)
        .with("p50_us", whole.claim.percentile_us(50.0))
        .with("p99_us", whole.claim.percentile_us(99.0))
        .with("cpu_us_per_item", (cpu_us()? - cpu) / items)
        .with("bytes_per_item", handed.total() as f64 / items)
        .with("kernel_bytes_per_item", kernel / items)
        .with("written_per_payload", handed.total() as f64 / payload)
        .with("of_it_log", handed.log as f64 / payload)
        .with("of_it_snapshots", handed.snapshots as f64 / payload)
        .with("of_it_zeros", handed.zeros as f64 / payload)
        .with("swept", removed as f64)
        .with("disk_mb", rig.disk_bytes()? as f64 / 1e6);
    rig.remove()?;
    Ok(vec![row])
}

/// Lets so many items come and go: producers add what workers have taken away, and neither runs
/// ahead of the other by more than a little.
pub(super) fn turn_over(
    stage: &Stage,
    rig: &Rig,
    maker: &Arc<Maker>,
    items: u64,
) -> anyhow::Result<Done> {
    let pace = Arc::new(Pace { add: Semaphore::new(0), take: Semaphore::new(AHEAD) });
    let (adding, taking) = (Until::items(items), Until::items(items));
    let clients = (0..LOAD.producers + LOAD.workers).map(|number| {
        let client = Client::new(&rig.store, maker, number, LOAD.batch);
        let pace = Arc::clone(&pace);
        let (adding, taking) = (adding.clone(), taking.clone());
        async move {
            let done = if number < LOAD.producers {
                add(client, &pace, &adding).await
            } else {
                take(client, &pace, &taking).await
            };
            // Nobody waits for one who gave up.
            done.inspect_err(|_| {
                pace.add.close();
                pace.take.close();
            })
        }
    });
    run_all(&stage.runtime, clients)
}

/// How many batches workers may be ahead of producers.
const AHEAD: usize = 64;

/// Batches that may be added, and batches that may be taken.
struct Pace {
    add: Semaphore,
    take: Semaphore,
}

async fn add<S: Store>(mut client: Client<S>, pace: &Pace, until: &Until) -> anyhow::Result<Done> {
    while until.takes(client.batch) {
        pace.add.acquire().await?.forget();
        client.enqueue().await?;
        pace.take.add_permits(1);
    }
    Ok(client.done)
}

async fn take<S: Store>(mut client: Client<S>, pace: &Pace, until: &Until) -> anyhow::Result<Done> {
    while until.takes(client.batch) {
        pace.take.acquire().await?.forget();
        let grant = client.claim().await?.context("the queue ran dry")?;
        client.settle(grant).await?;
        pace.add.add_permits(1);
    }
    Ok(client.done)
}
