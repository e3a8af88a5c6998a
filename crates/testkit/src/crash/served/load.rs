//! Producers and workers that know nothing of the deaths: the client repeats for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use windrow_core::command::{Claim, NewItem, Outcome};
use windrow_core::item::{Body, Payload};
use windrow_core::queue::{Error, Queue};

use super::Plant;
use super::ledger::{Asked, Ledger};

const PRODUCERS: usize = 3;
const WORKERS: usize = 3;
const BATCH: usize = 5;
const WAIT_MS: u64 = 100;

/// Clients at work.
#[derive(Debug)]
pub(super) struct Load {
    over: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

impl Load {
    /// `hasty` makes one attempt and no more: what follows is the producer's own mistake.
    pub(super) fn start<C: Queue + Clone>(
        runtime: &Runtime,
        (client, hasty): (&C, &C),
        ledger: &Arc<Ledger>,
        plant: Plant,
    ) -> Load {
        let (over, mut tasks) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        for _ in 0..PRODUCERS {
            let client = if plant == Plant::NewIds { hasty.clone() } else { client.clone() };
            let (over, ledger) = (Arc::clone(&over), Arc::clone(ledger));
            let producing = async move { produce(&client, &ledger, &over, plant).await };
            tasks.spawn_on(producing, runtime.handle());
        }
        for number in 0..WORKERS {
            let (client, over, ledger) = (client.clone(), Arc::clone(&over), Arc::clone(ledger));
            let working = async move { work(&client, &ledger, &over, number).await };
            tasks.spawn_on(working, runtime.handle());
        }
        Load { over, tasks }
    }

    /// Lets everybody end what it does.
    pub(super) fn stop(mut self, runtime: &Runtime) -> anyhow::Result<()> {
        self.over.store(true, Ordering::Relaxed);
        runtime.block_on(async {
            while let Some(ended) = self.tasks.join_next().await {
                ended?;
            }
            Ok(())
        })
    }
}

async fn produce(client: &impl Queue, ledger: &Ledger, over: &AtomicBool, plant: Plant) {
    while !over.load(Ordering::Relaxed) {
        let item = |number: usize| {
            let mut body = Body::new("crash", &*ledger.queue);
            body.payload = Payload::Inline(format!("[{number}]").into_bytes());
            NewItem::new(body)
        };
        let items: Vec<NewItem> = (0..BATCH).map(item).collect();
        let mut id = ledger.request();
        let answer = loop {
            match client.enqueue(items.clone(), Some(id)).await {
                Ok(each) => break each,
                Err(Error::OutcomeUnknown(_) | Error::NotApplied(_)) if plant == Plant::NewIds => {
                    id = ledger.request();
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(error) => return ledger.wrong(format!("an enqueue has no answer: {error}")),
            }
        };
        match answer.into_iter().collect::<Result<Vec<_>, _>>() {
            Ok(answer) => ledger.enqueued(Asked { id, items, answer }),
            Err(refused) => ledger.wrong(format!("an enqueue was refused: {refused}")),
        }
    }
}

async fn work(client: &impl Queue, ledger: &Ledger, over: &AtomicBool, number: usize) {
    while !over.load(Ordering::Relaxed) {
        let claim = Claim::new(format!("w{number}"), &*ledger.queue, BATCH);
        let granted = match client.claim(claim, WAIT_MS, Some(ledger.request())).await {
            Ok(Some(granted)) => granted,
            Ok(None) => continue,
            Err(error) => return ledger.wrong(format!("a claim has no answer: {error}")),
        };
        granted.items.iter().for_each(|work| ledger.handed_out(work.id, work.attempt));
        let done = granted.items.iter().map(|work| (work.id, Outcome::complete())).collect();
        match client.settle(granted.lease, done, Some(ledger.request())).await {
            Ok(each) => each.into_iter().for_each(|one| match one {
                Ok(settled) => ledger.settled(settled.id),
                Err(refused) => ledger.wrong(format!("a settle was refused: {refused}")),
            }),
            Err(error) => return ledger.wrong(format!("a settle has no answer: {error}")),
        }
    }
}
