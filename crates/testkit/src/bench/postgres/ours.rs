//! Windrow: an engine over the PostgreSQL store, as a server runs it, housekeeping included.

use std::sync::Arc;

use anyhow::Context as _;
use tokio::task::JoinHandle;
use windrow_core::command::{Grant, Request};
use windrow_core::item::Status;
use windrow_core::ports::{Listener, Now, Store, StoreError, Work};
use windrow_core::settings::{Retention, Settings};
use windrow_core::{Answer, Command, Timestamp};
use windrow_engine::{Engine, Failure, Limits, SystemClock};
use windrow_store::postgres::{Options, Postgres};

use super::contender::{Contender, Job, Outcome};
use super::ground::Ground;
use super::hands::{Hand, work};
use crate::bench::clients::{Client, Done, Load, Maker, PLAIN, Shape, Until, ask, run_all};

pub(super) const NAME: &str = "windrow";

/// Submits that an engine has under way at once, unless somebody asks for another number.
pub(super) const WIDTH: usize = 4;
/// Connections beside those of submits: housekeeping and reads.
const SPARE: usize = 2;
const FILL: Load = Load { producers: 4, workers: 0, batch: 1_000 };
pub(super) const QUEUE: &str = "queue";

/// An engine, used as if it were its store: everything is submitted through it.
pub(super) struct Through {
    engine: Arc<Engine<Postgres, SystemClock>>,
    housekeeping: JoinHandle<Failure>,
}

impl Through {
    /// One server on a database, which may have others.
    pub(super) async fn open(url: String, width: usize) -> anyhow::Result<Through> {
        let mut options = Options::new(url);
        options.connections = width + SPARE;
        let store = Postgres::open(options).await?;
        let clock = SystemClock::new(Timestamp::ZERO);
        let engine = Arc::new(Engine::new(store, clock, Limits::default(), width));
        let housekeeping = tokio::spawn({
            let engine = Arc::clone(&engine);
            async move { engine.run().await }
        });
        Ok(Through { engine, housekeeping })
    }

    /// How many items are in a status, as the store says.
    pub(super) async fn count(&self, wanted: Status) -> anyhow::Result<u64> {
        let counts = self.counts().await?.into_iter();
        Ok(counts.filter(|count| count.status == wanted).map(|count| count.items).sum())
    }
}

impl Drop for Through {
    fn drop(&mut self) {
        self.housekeeping.abort();
    }
}

impl Store for Through {
    async fn submit(&self, batch: Vec<Request>, _: Now) -> Result<Vec<Answer<Work>>, StoreError> {
        let mut answers = Vec::with_capacity(batch.len());
        for request in batch {
            answers.push(match self.engine.submit(request).await {
                Ok(answer) => answer,
                Err(Failure::Refused(refusal)) => Answer::Refused(refusal),
                Err(Failure::Store(error)) => return Err(error),
                Err(failure) => return Err(StoreError::NotApplied(failure.to_string())),
            });
        }
        Ok(answers)
    }

    crate::reads_through!(self, reading of self.engine.store() => reading.await);

    async fn advance(&self, now: Timestamp) -> Result<(), StoreError> {
        self.engine.store().advance(now).await
    }

    fn listen(&self, listener: Arc<dyn Listener>) {
        self.engine.store().listen(listener);
    }
}

/// Windrow in a database, with one server or more.
pub(super) struct Ours {
    name: &'static str,
    servers: usize,
    open: Vec<Arc<Through>>,
    pub(super) maker: Arc<Maker>,
}

impl Ours {
    /// Items have no keys: neither the bare loop nor the peers keep one item per key.
    pub(super) fn new() -> Ours {
        let maker = Maker::new(QUEUE, Shape { has_keys: false, ..PLAIN });
        Ours { maker, ..Ours::named(NAME, 1) }
    }

    /// With a database of that name. Each server brings as many clients as a job asks for.
    pub(super) fn named(name: &'static str, servers: usize) -> Ours {
        Ours { name, servers, open: Vec::new(), maker: Maker::new(QUEUE, PLAIN) }
    }

    pub(super) fn server(&self) -> anyhow::Result<&Arc<Through>> {
        self.open.first().context("reset comes first")
    }
}

impl Contender for Ours {
    fn name(&self) -> &'static str {
        self.name
    }

    fn reset(&mut self, ground: &Ground) -> anyhow::Result<()> {
        self.close();
        ground.fresh(self.name)?;
        for _ in 0..self.servers {
            let open = Through::open(ground.url(self.name), ground.width);
            self.open.push(Arc::new(ground.runtime.block_on(open)?));
        }
        // Everything that ended is kept, so that it can be counted.
        let retention = Retention { max_per_tenant: u32::MAX, ..Retention::default() };
        let settings = Box::new(Settings { retention, ..Settings::default() });
        let configure = Command::Configure { queue: QUEUE.into(), settings };
        let server = self.server()?;
        let answer = ground.runtime.block_on(ask(&**server, configure))?;
        anyhow::ensure!(answer == Answer::Done, "settings were answered {answer:?}");
        Ok(())
    }

    fn fill(&mut self, ground: &Ground, items: u64) -> anyhow::Result<()> {
        let until = Until::items(items);
        let server = self.server()?;
        let clients = (0..FILL.producers).map(|number| {
            let mut client = Client::new(server, &self.maker, number, FILL.batch);
            let until = until.clone();
            async move {
                while let Some(batch) = until.next(FILL.batch) {
                    client.batch = batch;
                    client.enqueue().await?;
                }
                Ok(client.done)
            }
        });
        run_all(&ground.runtime, clients).map(drop)
    }

    fn run(&mut self, ground: &Ground, job: &Job) -> anyhow::Result<Outcome> {
        let mut job = *job;
        let (Job::Rate { load, .. } | Job::Life { load, .. } | Job::Flow { load, .. }) = &mut job;
        load.producers *= self.servers;
        load.workers *= self.servers;
        work(ground, &job, |number, batch| {
            let server = &self.open[number % self.servers];
            Ok(Client::new(server, &self.maker, number, batch))
        })
    }

    fn waiting(&mut self, ground: &Ground) -> anyhow::Result<u64> {
        let server = self.server()?;
        let held = ground.runtime.block_on(server.count(Status::Processing))?;
        anyhow::ensure!(held == 0, "{held} items are still held");
        ground.runtime.block_on(server.count(Status::Pending))
    }

    fn finished(&mut self, ground: &Ground) -> anyhow::Result<Option<u64>> {
        ground.runtime.block_on(self.server()?.count(Status::Completed)).map(Some)
    }

    fn close(&mut self) {
        self.open.clear();
    }
}

impl Hand for Client<Through> {
    type Held = Grant<Work>;

    async fn enqueue(&mut self) -> anyhow::Result<()> {
        Client::enqueue(self).await
    }

    async fn claim(&mut self) -> anyhow::Result<Option<Grant<Work>>> {
        Client::claim(self).await
    }

    async fn settle(&mut self, held: Grant<Work>) -> anyhow::Result<()> {
        Client::settle(self, held).await
    }

    fn batch(&self) -> usize {
        self.batch
    }

    fn done(&mut self) -> &mut Done {
        &mut self.done
    }
}
