//! Waking claimers on other servers: what became ready here is told there.
//!
//! Told after the commit and by a connection of its own, many batches at once: a NOTIFY inside the
//! transaction would make all commits wait for each other. What gets lost that way, or while a
//! connection is broken, is found by whoever asks again after a while.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio_postgres::{AsyncMessage, NoTls};
use windrow_core::ports::Ready;

use super::turns::LaneName;
use super::{Error, Shared, naming};

const CHANNEL: &str = "windrow_ready";
/// The most that one notification says; PostgreSQL takes 8,000 bytes.
const LANES_MAX: usize = 100;
/// How long to wait before a broken connection is made again.
const AGAIN: Duration = Duration::from_secs(1);

/// Items by lane and tenant.
pub(super) type Lanes = BTreeMap<(LaneName, u32), usize>;

/// Tells other servers what became ready, until the store is dropped.
pub(super) async fn tell(store: Weak<Shared>, mut ready: UnboundedReceiver<Lanes>) {
    while let Some(mut lanes) = ready.recv().await {
        while let Ok(more) = ready.try_recv() {
            more.into_iter().for_each(|(lane, count)| *lanes.entry(lane).or_default() += count);
        }
        let Some(shared) = store.upgrade() else { return };
        // Whoever is not told asks again after a while.
        let _lost = shared.notify(lanes).await;
    }
}

/// Hears what became ready on other servers.
pub(super) async fn hear(store: Weak<Shared>, config: tokio_postgres::Config) {
    loop {
        let _broken = hear_until_broken(&store, &config).await;
        if store.strong_count() == 0 {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn hear_until_broken(
    store: &Weak<Shared>,
    config: &tokio_postgres::Config,
) -> Result<(), Error> {
    let (client, mut connection) = config.connect(NoTls).await?;
    let (send, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let driving = tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(said) = message
                && send.send(said.payload().to_owned()).is_err()
            {
                return;
            }
        }
    });
    let listening = client.batch_execute(&format!("listen {CHANNEL}")).await;
    listening?;
    while let Some(said) = heard.recv().await {
        let Some(shared) = store.upgrade() else { break };
        shared.heard(&said).await?;
    }
    driving.abort();
    Ok(())
}

impl Shared {
    async fn notify(&self, lanes: Lanes) -> Result<(), Error> {
        let client = self.pool.get().await?;
        let lanes: Vec<String> = lanes
            .into_iter()
            .map(|((LaneName { queue, stage, kind }, tenant), count)| {
                format!("{queue},{stage},{kind},{tenant},{count}")
            })
            .collect();
        for some in lanes.chunks(LANES_MAX) {
            let said = format!("{}|{}", self.origin, some.join(";"));
            client.execute("select pg_notify($1, $2)", &[&CHANNEL, &said]).await?;
        }
        Ok(())
    }

    /// What another server said, passed on to who listens here.
    async fn heard(&self, said: &str) -> Result<(), Error> {
        let Some((origin, lanes)) = said.split_once('|') else { return Ok(()) };
        if origin == self.origin.to_string() {
            return Ok(());
        }
        let numbers = |lane: &str| -> Option<[u32; 5]> {
            let numbers: Vec<u32> = lane.split(',').filter_map(|no| no.parse().ok()).collect();
            numbers.try_into().ok()
        };
        let lanes: Vec<[u32; 5]> = lanes.split(';').filter_map(numbers).collect();
        let unknown: Vec<i32> = {
            let names = self.names.read();
            let all = lanes.iter().flat_map(|lane| &lane[..4]);
            all.filter(|no| names.text(**no).is_none()).map(|no| *no as i32).collect()
        };
        if !unknown.is_empty() {
            let client = self.pool.get().await?;
            naming::learn(&*client, &self.names, &unknown, &Vec::new()).await?;
        }
        let ready: Vec<Ready> = {
            let names = self.names.read();
            let text = |no: u32| names.text(no).cloned();
            let ready = lanes.iter().filter_map(|[queue, stage, kind, tenant, count]| {
                let (queue, stage, kind) = (text(*queue)?, text(*stage)?, text(*kind)?);
                Some(Ready { queue, stage, kind, tenant: text(*tenant)?, count: *count as usize })
            });
            ready.collect()
        };
        let listener = self.listener.read().clone();
        if let Some(listener) = listener.filter(|_| !ready.is_empty()) {
            listener.ready(&ready);
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

/// Both tasks of a store.
pub(super) fn begin(shared: &Arc<Shared>, ready: UnboundedReceiver<Lanes>) -> [Task; 2] {
    let (runtime, store) = (shared.pool.runtime(), Arc::downgrade(shared));
    [
        Task::begin(runtime, tell(Weak::clone(&store), ready)),
        Task::begin(runtime, hear(store, shared.pool.config().clone())),
    ]
}
