//! The worker of the Rust client, with a handler that does nothing.

use std::time::Instant;

use anyhow::ensure;
use windrow_client::worker::{Job, Raw, Worker};
use windrow_client::{Options, rpc};
use windrow_core::trail::Ending;

use super::super::clients::PAYLOAD_BYTES;
use super::wire::{BATCH, CLIENTS};

/// Does everything that waits, which is so much. How many seconds that takes.
pub(super) async fn drain(url: &str, queue: &str, items: u64) -> anyhow::Result<f64> {
    let client = rpc::Client::new(url, Options::default())?;
    let handler = |job: Job<Raw>| async move {
        assert_eq!(job.payload.0.len(), PAYLOAD_BYTES);
        Ok(())
    };
    let worker = Worker::on(client)
        .queues([queue.to_owned()])
        .concurrency(CLIENTS)
        .batch(BATCH)
        .prefetch(BATCH * CLIENTS)
        .handle(handler);
    let begun = Instant::now();
    let endings = worker.drain().await?;
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(endings.of(Ending::Completed) == items, "of {items} items: {endings}");
    Ok(seconds)
}
