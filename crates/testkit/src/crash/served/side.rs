//! Those who use the server over one wire: their clients, and what they were told.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::Runtime;
use windrow_client::{Options, http, rpc};
use windrow_core::queue::Queue;
use windrow_core::settings::{Retention, Settings};

use super::ledger::Ledger;
use super::load::Load;
use super::{Plant, Summary, check};

/// More items than a run ends.
const KEPT_MAX: u32 = 100_000_000;

/// Producers and workers of one wire, whichever it is.
pub(super) trait Party {
    /// Says that what has ended stays: what retention takes would look as if it were lost.
    fn keep_all(&self, runtime: &Runtime) -> anyhow::Result<()>;

    fn start(&mut self, runtime: &Runtime, plant: Plant);

    /// Lets everybody end what it does.
    fn stop(&mut self, runtime: &Runtime) -> anyhow::Result<()>;

    /// Holds what the server shows against what it acknowledged.
    fn check(&self, runtime: &Runtime, summary: &mut Summary) -> anyhow::Result<()>;

    /// Items that were enqueued, and settled.
    fn totals(&self) -> (u64, u64);
}

#[derive(Debug)]
pub(super) struct Side<C> {
    name: &'static str,
    client: C,
    hasty: C,
    ledger: Arc<Ledger>,
    load: Option<Load>,
}

fn hasty() -> Options {
    Options { within: Duration::ZERO, ..Options::default() }
}

impl Side<http::Client> {
    pub(super) fn http(url: &str, seed: u64) -> anyhow::Result<Self> {
        let client = http::Client::new(url, Options::default())?;
        Ok(Side::new("http", client, http::Client::new(url, hasty())?, seed))
    }
}

impl Side<rpc::Client> {
    pub(super) fn rpc(url: &str, seed: u64) -> anyhow::Result<Self> {
        let client = rpc::Client::new(url, Options::default())?;
        // Request ids of its own: they are made of the seed.
        Ok(Side::new("rpc", client, rpc::Client::new(url, hasty())?, !seed))
    }
}

impl<C> Side<C> {
    fn new(name: &'static str, client: C, hasty: C, seed: u64) -> Self {
        let ledger = Arc::new(Ledger::new(name, seed));
        Side { name, client, hasty, ledger, load: None }
    }
}

impl<C: Queue + Clone> Party for Side<C> {
    fn keep_all(&self, runtime: &Runtime) -> anyhow::Result<()> {
        let retention = Retention { max_per_tenant: KEPT_MAX, ..Retention::default() };
        let settings = Settings { retention, ..Settings::default() };
        Ok(runtime.block_on(self.client.configure(self.ledger.queue.as_str().into(), settings))?)
    }

    fn start(&mut self, runtime: &Runtime, plant: Plant) {
        let clients = (&self.client, &self.hasty);
        self.load = Some(Load::start(runtime, clients, &self.ledger, plant));
    }

    fn stop(&mut self, runtime: &Runtime) -> anyhow::Result<()> {
        self.load.take().context("the load runs")?.stop(runtime)
    }

    fn check(&self, runtime: &Runtime, summary: &mut Summary) -> anyhow::Result<()> {
        let checked = check::check(&self.client, &self.ledger, summary);
        runtime.block_on(checked).map_err(|error| error.context(format!("over {}", self.name)))
    }

    fn totals(&self) -> (u64, u64) {
        self.ledger.totals()
    }
}
