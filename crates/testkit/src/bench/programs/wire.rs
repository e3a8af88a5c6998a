//! Clients that claim and settle by hand, as `bench wire` has them.

use std::sync::Arc;
use std::time::Instant;

use anyhow::ensure;
use tokio::task::JoinSet;
use windrow_client::rpc;

use super::super::clients::{Maker, PLAIN, Until};
use super::super::wire::ours::Windrow;

pub(super) const BATCH: usize = 100;
pub(super) const CLIENTS: usize = 4;

/// A queue, with clients that stay connected.
pub(super) struct Lane {
    clients: Vec<Windrow<rpc::Client>>,
    maker: Arc<Maker>,
}

impl Lane {
    pub(super) fn open(url: &str, queue: &str) -> anyhow::Result<Lane> {
        let clients = (0..CLIENTS).map(|number| Windrow::over_rpc(url, queue, number));
        let clients = clients.collect::<anyhow::Result<_>>()?;
        Ok(Lane { clients, maker: Maker::new(queue, PLAIN) })
    }

    pub(super) async fn fill(&mut self, items: u64) -> anyhow::Result<()> {
        let (until, mut running) = (Until::items(items), JoinSet::new());
        for mut client in self.clients.drain(..) {
            let (until, maker) = (until.clone(), Arc::clone(&self.maker));
            running.spawn(async move {
                while let Some(items) = until.next(BATCH) {
                    client.enqueue(&maker.payloads(items)).await?;
                }
                anyhow::Ok(client)
            });
        }
        while let Some(ended) = running.join_next().await {
            self.clients.push(ended??);
        }
        Ok(())
    }

    /// Takes and settles everything, which is so much. How many seconds that takes.
    pub(super) async fn drain(&mut self, items: u64) -> anyhow::Result<f64> {
        let (begun, mut running) = (Instant::now(), JoinSet::new());
        for mut client in self.clients.drain(..) {
            running.spawn(async move {
                let mut settled = 0;
                while client.take(BATCH).await? > 0 {
                    settled += client.settle().await? as u64;
                }
                anyhow::Ok((client, settled))
            });
        }
        let mut settled = 0;
        while let Some(ended) = running.join_next().await {
            let (client, items) = ended??;
            self.clients.push(client);
            settled += items;
        }
        ensure!(settled == items, "{settled} of {items} were settled");
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Fails if there is something left.
    pub(super) async fn is_empty(&mut self) -> anyhow::Result<()> {
        ensure!(self.clients[0].take(1).await? == 0, "something is left");
        Ok(())
    }
}
