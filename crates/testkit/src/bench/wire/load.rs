//! Producers and workers on a rival, timed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::super::clients::{Done, Load, Maker, PLAIN, Until};
use super::rival::{Client, Rival};

/// How long a worker that found nothing waits before it asks again.
const EMPTY: Duration = Duration::from_millis(1);

/// A queue of a rival, with clients that stay connected.
#[derive(Debug)]
pub(super) struct Lane {
    clients: Vec<Client>,
    maker: Arc<Maker>,
    /// What waits, as far as we put it there and took it out.
    pub(super) stock: u64,
}

impl Lane {
    pub(super) async fn open(rival: &Rival, queue: &str, clients: usize) -> anyhow::Result<Lane> {
        rival.prepare(queue).await?;
        let mut open = Vec::new();
        for number in 0..clients {
            open.push(rival.client(queue, number).await?);
        }
        Ok(Lane { clients: open, maker: Maker::new(queue, PLAIN), stock: 0 })
    }

    /// Runs some clients as producers, of so many items if a number is given, and some as workers,
    /// until the time is over or everything has come and gone.
    pub(super) async fn run(
        &mut self,
        load: Load,
        until: Until,
        items: Option<u64>,
    ) -> anyhow::Result<Done> {
        let Load { producers, workers, batch } = load;
        let producing = Arc::new(AtomicUsize::new(producers));
        let produced = until.clone().or_items(items);
        let (begun, mut running) = (Instant::now(), JoinSet::new());
        for number in (0..producers + workers).rev() {
            let client = self.clients.remove(number);
            let (until, produced) = (until.clone(), produced.clone());
            let (maker, producing) = (Arc::clone(&self.maker), Arc::clone(&producing));
            running.spawn(async move {
                if number >= producers {
                    return work(client, batch, &until, &producing).await;
                }
                let done = produce(client, &maker, batch, &produced).await;
                producing.fetch_sub(1, Ordering::Relaxed);
                done
            });
        }
        let mut all = Done::default();
        while let Some(ended) = running.join_next().await {
            let (client, done) = ended??;
            self.clients.push(client);
            all.merge(done);
        }
        all.seconds = begun.elapsed().as_secs_f64();
        self.stock = (self.stock + all.enqueued).saturating_sub(all.settled);
        Ok(all)
    }

    /// Sees to it that so much waits.
    pub(super) async fn fill(&mut self, items: u64) -> anyhow::Result<()> {
        let missing = items.saturating_sub(self.stock);
        if missing > 0 {
            let producers = self.clients.len().min(4);
            let load = Load { producers, workers: 0, batch: 100 };
            self.run(load, Until::endless(), Some(missing)).await?;
        }
        Ok(())
    }

    /// So many items come and go, or as many as do in time.
    pub(super) async fn live(&mut self, items: u64, within: f64) -> anyhow::Result<Done> {
        let load = Load { producers: 4, workers: 4, batch: 100 };
        self.run(load, Until::seconds(within), Some(items)).await
    }
}

async fn produce(
    mut client: Client,
    maker: &Maker,
    batch: usize,
    until: &Until,
) -> anyhow::Result<(Client, Done)> {
    let mut done = Done::default();
    while let Some(items) = until.next(batch) {
        let payloads = maker.payloads(items);
        let begun = Instant::now();
        client.enqueue(&payloads).await?;
        done.enqueue.add(begun.elapsed());
        done.enqueued += items as u64;
    }
    Ok((client, done))
}

async fn work(
    mut client: Client,
    batch: usize,
    until: &Until,
    producing: &AtomicUsize,
) -> anyhow::Result<(Client, Done)> {
    let mut done = Done::default();
    while !until.is_over() {
        // Asked before the look: what comes after it is found by the next one.
        let may_come = producing.load(Ordering::Relaxed) > 0;
        let begun = Instant::now();
        if client.take(batch).await? == 0 {
            if !may_come {
                break;
            }
            tokio::time::sleep(EMPTY).await;
            continue;
        }
        done.claim.add(begun.elapsed());
        let begun = Instant::now();
        let items = client.settle().await? as u64;
        done.settle.add(begun.elapsed());
        done.settled += items;
    }
    Ok((client, done))
}
