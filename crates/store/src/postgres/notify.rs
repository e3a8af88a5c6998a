//! Waking claimers on other servers: what became ready here is told there.
//!
//! Told after the commit and by a connection of its own, many batches at once: a NOTIFY inside the
//! transaction would make all commits wait for each other. What could not be told is told later,
//! and whoever could not hear looks for what waits. Only a server that dies between its commit and
//! its telling leaves something untold; that is found by whoever asks again after a while.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio_postgres::AsyncMessage;

use super::address::Address;
use super::line::Spot;
use super::tx::step;
use super::watch::{HAPPENED, WATCH};
use super::{Error, Shared, naming, watch};

const CHANNEL: &str = "windrow_ready";
/// The most that one notification says; PostgreSQL takes 8,000 bytes.
const SEATS_MAX: usize = 100;
/// How long to wait before a broken connection is made again.
const AGAIN: Duration = Duration::from_secs(1);
/// How much is told of one lane that nobody heard of: more than that many do not wait for work.
const WAITING_MAX: i64 = 10_000;

/// What came in line, by lane, class and tenant.
pub(super) type Came = BTreeMap<(u32, u8, u32), Arrived>;

/// How many came, and the lowest serial of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Arrived {
    pub(super) first: u64,
    pub(super) count: usize,
}

pub(super) fn add(came: &mut Came, spot: Spot, first: u64, count: usize) {
    let at = (spot.lane, spot.class, spot.tenant);
    let arrived = came.entry(at).or_insert(Arrived { first, count: 0 });
    arrived.first = first.min(arrived.first);
    arrived.count += count;
}

/// Tells other servers what became ready, until the store is dropped.
pub(super) async fn tell(store: Weak<Shared>, mut ready: UnboundedReceiver<Came>) {
    let mut came = Came::new();
    loop {
        if came.is_empty() {
            let Some(first) = ready.recv().await else { return };
            came = first;
        }
        while let Ok(more) = ready.try_recv() {
            for ((lane, class, tenant), Arrived { first, count }) in more {
                add(&mut came, Spot { lane, class, tenant }, first, count);
            }
        }
        let Some(shared) = store.upgrade() else { return };
        let told = shared.notify(&came).await;
        drop(shared);
        match told {
            Ok(()) => came.clear(),
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}

/// Hears what became ready on other servers.
pub(super) async fn hear(store: Weak<Shared>, address: Address) {
    let mut again = false;
    loop {
        let _broken = hear_until_broken(&store, &address, &mut again).await;
        if store.strong_count() == 0 {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn hear_until_broken(
    store: &Weak<Shared>,
    address: &Address,
    again: &mut bool,
) -> Result<(), Error> {
    let (client, mut connection) = address.connect().await?;
    let (send, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let driving = tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(said) = message
                && send.send(said).is_err()
            {
                return;
            }
        }
    });
    let channels = [CHANNEL, WATCH, HAPPENED].map(|channel| format!("listen {channel}")).join(";");
    client.batch_execute(&channels).await?;
    if let Some(shared) = store.upgrade().filter(|_| *again) {
        shared.heard_nothing();
        shared.pass_on(shared.waiting().await?).await?;
    }
    *again = true;
    while let Some(said) = heard.recv().await {
        let Some(shared) = store.upgrade() else { break };
        shared.heard(said.channel(), said.payload()).await?;
    }
    driving.abort();
    Ok(())
}

impl Shared {
    async fn notify(&self, came: &Came) -> Result<(), Error> {
        let client = self.pool.get().await?;
        let words: Vec<String> = came
            .iter()
            .map(|((lane, class, tenant), Arrived { first, count })| {
                format!("{lane},{class},{tenant},{first},{count}")
            })
            .collect();
        for some in words.chunks(SEATS_MAX) {
            let said = format!("{}|{}", self.origin, some.join(";"));
            client.query(step!("select pg_notify($1, $2)", CHANNEL.to_owned(), said)).await?;
        }
        Ok(())
    }

    /// What another server said.
    async fn heard(&self, channel: &str, said: &str) -> Result<(), Error> {
        let Some((origin, words)) = said.split_once('|') else { return Ok(()) };
        if origin == self.origin.to_string() {
            return Ok(());
        }
        match channel {
            WATCH => self.is_watched(),
            HAPPENED => self.heard_happened(words),
            _ => return self.heard_ready(words).await,
        }
        Ok(())
    }

    /// What became ready there.
    async fn heard_ready(&self, words: &str) -> Result<(), Error> {
        let mut came = Came::new();
        for word in words.split(';') {
            let numbers: Vec<u64> = word.split(',').filter_map(|no| no.parse().ok()).collect();
            let Ok([lane, class, tenant, first, count]) = <[u64; 5]>::try_from(numbers) else {
                continue;
            };
            let spot = Spot { lane: lane as u32, class: class as u8, tenant: tenant as u32 };
            add(&mut came, spot, first, count as usize);
        }
        self.pass_on(came).await
    }

    /// What waits in line: nobody knows what was told while we did not hear.
    async fn waiting(&self) -> Result<Came, Error> {
        let sql = "select l.no, w.class, w.tenant, w.first, w.items from windrow.lanes l, \
             lateral (select class, tenant, min(serial) as first, count(*) as items from (\
               select class, tenant, serial from windrow.line i \
               where i.lane = l.no limit $1) i group by 1, 2) w";
        let client = self.pool.get().await?;
        let mut came = Came::new();
        for row in client.query(step!(sql, WAITING_MAX)).await? {
            let (spot, first) = super::load::came(&row);
            add(&mut came, spot, first, row.get::<_, i64>(4) as usize);
        }
        Ok(came)
    }

    /// Tells who listens here.
    async fn pass_on(&self, came: Came) -> Result<(), Error> {
        self.learn_of(&came).await?;
        {
            let mut seats = self.seats.lock();
            for ((lane, class, tenant), arrived) in &came {
                let spot = Spot { lane: *lane, class: *class, tenant: *tenant };
                seats.came(spot, arrived.first);
            }
        }
        let ready = self.in_words(&came);
        let listener = self.listener.read().clone();
        if let Some(listener) = listener.filter(|_| !ready.is_empty()) {
            listener.ready(&ready);
        }
        Ok(())
    }

    /// Learns the names of what another server put in line.
    async fn learn_of(&self, came: &Came) -> Result<(), Error> {
        let (texts, knows_lanes) = {
            let names = self.names.read();
            let tenants = came.keys().map(|(_, _, tenant)| *tenant);
            let unknown = tenants.filter(|no| names.text(*no).is_none()).map(|no| no as i32);
            let knows_lanes = came.keys().all(|(lane, _, _)| names.lane(*lane).is_some());
            (unknown.collect::<Vec<i32>>(), knows_lanes)
        };
        if texts.is_empty() && knows_lanes {
            return Ok(());
        }
        let client = self.pool.get().await?;
        naming::learn(&client, &self.names, &texts, &[]).await?;
        if !knows_lanes {
            naming::learn_lanes(&client, &self.names).await?;
        }
        Ok(())
    }
}

/// A task that ends with the store.
#[derive(Debug)]
pub(super) struct Task(tokio::task::AbortHandle);

impl Task {
    pub(super) fn begin(
        runtime: &tokio::runtime::Handle,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Task {
        Task(runtime.spawn(work).abort_handle())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The tasks of a store. Through a pooler nothing can be heard: what it would listen on is given to
/// somebody else after each transaction.
pub(super) fn begin(shared: &Arc<Shared>, ready: UnboundedReceiver<Came>) -> Vec<Task> {
    let (runtime, store) = (shared.pool.runtime(), Arc::downgrade(shared));
    let address = shared.pool.address();
    let watch = Arc::clone(&shared.watch);
    let mut tasks = vec![
        Task::begin(runtime, tell(Weak::clone(&store), ready)),
        Task::begin(runtime, watch::tell(Weak::clone(&store), watch)),
    ];
    if !address.pooled {
        tasks.push(Task::begin(runtime, hear(store, address.clone())));
    }
    tasks
}
