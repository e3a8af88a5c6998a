//! Windrow through its own clients, over HTTP and over RPC.

use anyhow::{Context as _, ensure};
use windrow_client::{Options, http, rpc};
use windrow_core::command::{Claim, NewItem, Outcome};
use windrow_core::item::{Body, Payload};
use windrow_core::queue::Queue;
use windrow_core::{ItemId, LeaseId};

/// A client of a server of ours.
#[derive(Debug)]
pub(in crate::bench) struct Windrow<C> {
    client: C,
    template: Body,
    worker: String,
    held: Option<(LeaseId, Vec<ItemId>)>,
}

impl Windrow<http::Client> {
    pub(in crate::bench) fn over_http(
        url: &str,
        queue: &str,
        worker: usize,
    ) -> anyhow::Result<Self> {
        Ok(Windrow::new(http::Client::new(url, Options::default())?, queue, worker))
    }
}

impl Windrow<rpc::Client> {
    pub(in crate::bench) fn over_rpc(
        url: &str,
        queue: &str,
        worker: usize,
    ) -> anyhow::Result<Self> {
        Ok(Windrow::new(rpc::Client::new(url, Options::default())?, queue, worker))
    }
}

impl<C: Queue> Windrow<C> {
    fn new(client: C, queue: &str, worker: usize) -> Self {
        let mut template = Body::new("bench", queue);
        template.content_type = Some("application/octet-stream".into());
        Windrow { client, template, worker: format!("w{worker}"), held: None }
    }

    pub(in crate::bench) async fn enqueue(&mut self, payloads: &[Vec<u8>]) -> anyhow::Result<()> {
        let item = |payload: &Vec<u8>| {
            let payload = Payload::Inline(payload.clone());
            NewItem::new(Body { payload, ..self.template.clone() })
        };
        let each = self.client.enqueue(payloads.iter().map(item).collect(), None).await?;
        ensure!(each.len() == payloads.len() && each.iter().all(Result::is_ok), "{each:?}");
        Ok(())
    }

    pub(in crate::bench) async fn take(&mut self, max: usize) -> anyhow::Result<usize> {
        let claim = Claim::new(&*self.worker, &*self.template.queue, max);
        let granted = self.client.claim(claim, 0, None).await?;
        self.held = granted.map(|granted| {
            (granted.lease, granted.items.into_iter().map(|work| work.id).collect())
        });
        Ok(self.held.as_ref().map_or(0, |(_, ids)| ids.len()))
    }

    pub(in crate::bench) async fn settle(&mut self) -> anyhow::Result<usize> {
        let (lease, ids) = self.held.take().context("nothing is held")?;
        let items: Vec<_> = ids.into_iter().map(|id| (id, Outcome::complete())).collect();
        let count = items.len();
        let each = self.client.settle(lease, items, None).await?;
        ensure!(each.len() == count && each.iter().all(Result::is_ok), "{each:?}");
        Ok(count)
    }
}
