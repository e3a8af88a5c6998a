//! Clients of a store: producers and workers that check every answer and time every call.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail, ensure};
use tokio::runtime::Runtime;
use windrow_core::command::{Claim, Grant, NewItem, Outcome};
use windrow_core::item::{Body, Payload};
use windrow_core::ports::{Now, Store, Work};
use windrow_core::{Answer, Command, Timestamp};

use super::measure::{Latencies, noise};

pub const PAYLOAD_BYTES: usize = 256;
/// How long a worker that found nothing waits before it asks again.
const EMPTY: Duration = Duration::from_millis(1);

/// How many clients do what, in which batches.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub producers: usize,
    pub workers: usize,
    pub batch: usize,
}

/// When clients stop: at a time, after so many items, or at whatever comes first.
#[derive(Clone, Debug)]
pub struct Until {
    time: Option<Instant>,
    left: Option<Arc<AtomicI64>>,
}

impl Until {
    pub fn seconds(seconds: f64) -> Until {
        Until { time: Some(Instant::now() + Duration::from_secs_f64(seconds)), left: None }
    }

    pub fn items(items: u64) -> Until {
        Until::endless().or_items(Some(items))
    }

    /// Or after so many items, if that comes first.
    #[must_use]
    pub fn or_items(self, items: Option<u64>) -> Until {
        let left = items.map(|items| Arc::new(AtomicI64::new(items as i64)));
        Until { left, ..self }
    }

    /// Never: whoever uses it has another reason to stop.
    pub fn endless() -> Until {
        Until { time: None, left: None }
    }

    /// How many items may be begun next, at most `batch`, so that all of them come to the number
    /// exactly; none when it is over.
    pub fn next(&self, batch: usize) -> Option<usize> {
        if self.time.is_some_and(|time| Instant::now() >= time) {
            return None;
        }
        let Some(left) = &self.left else { return Some(batch) };
        let before = left.fetch_sub(batch as i64, Ordering::Relaxed);
        (before > 0).then(|| batch.min(before as usize))
    }

    /// Whether another so many items may be begun.
    pub fn takes(&self, items: usize) -> bool {
        let early = self.time.is_none_or(|time| Instant::now() < time);
        let take = |left: &Arc<AtomicI64>| left.fetch_sub(items as i64, Ordering::Relaxed) > 0;
        early && self.left.as_ref().is_none_or(take)
    }

    /// Whether the last item was begun or the time is over.
    pub fn is_over(&self) -> bool {
        self.time.is_some_and(|time| Instant::now() >= time)
            || self.left.as_ref().is_some_and(|left| left.load(Ordering::Relaxed) <= 0)
    }
}

/// Makes items: 256 bytes that do not compress, and a key on each if the shape says so.
#[derive(Debug)]
pub struct Maker {
    template: Body,
    shape: Shape,
    tenants: Vec<Arc<str>>,
    groups: Vec<Arc<str>>,
    noise: Vec<u8>,
    next: AtomicU64,
}

/// What items are spread over.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub tenants: u64,
    /// Groups of each tenant; zero for none.
    pub groups: u64,
    pub all_priorities: bool,
    pub has_keys: bool,
}

/// One tenant, no groups, one priority.
pub const PLAIN: Shape = Shape { tenants: 1, groups: 0, all_priorities: false, has_keys: true };

impl Maker {
    pub fn new(queue: &str, shape: Shape) -> Arc<Maker> {
        let names = |what: &str, count: u64| -> Vec<Arc<str>> {
            (0..count).map(|no| format!("{what}-{no}").into()).collect()
        };
        let (tenants, groups) = (names("tenant", shape.tenants), names("group", shape.groups));
        let template = Body::new(Arc::clone(&tenants[0]), queue);
        let next = AtomicU64::new(0);
        Arc::new(Maker { template, shape, tenants, groups, noise: noise(), next })
    }

    pub fn queue(&self) -> Arc<str> {
        Arc::clone(&self.template.queue)
    }

    /// Begins numbering elsewhere, so that keys of another process's items do not come again.
    pub fn skip_to(&self, number: u64) {
        self.next.store(number, Ordering::Relaxed);
    }

    pub fn payload(&self, number: u64) -> Vec<u8> {
        let from = (number as usize).wrapping_mul(61) % (self.noise.len() - PAYLOAD_BYTES);
        self.noise[from..from + PAYLOAD_BYTES].to_vec()
    }

    /// Payloads alone, for queues that know no keys.
    pub fn payloads(&self, items: usize) -> Vec<Vec<u8>> {
        let first = self.next.fetch_add(items as u64, Ordering::Relaxed);
        (first..first + items as u64).map(|number| self.payload(number)).collect()
    }

    pub fn batch(&self, items: usize) -> Vec<NewItem> {
        let first = self.next.fetch_add(items as u64, Ordering::Relaxed);
        (first..first + items as u64).map(|number| self.item(number)).collect()
    }

    fn item(&self, number: u64) -> NewItem {
        let Shape { tenants, groups, all_priorities, has_keys } = self.shape;
        let mut body = self.template.clone();
        body.key = has_keys.then(|| format!("{number:016x}"));
        body.payload = Payload::Inline(self.payload(number));
        if tenants > 1 {
            body.tenant = Arc::clone(&self.tenants[(number % tenants) as usize]);
        }
        if groups > 0 {
            body.group = Some(Arc::clone(&self.groups[(number / tenants % groups) as usize]));
        }
        let mut item = NewItem::new(body);
        if all_priorities {
            item.priority = (number / 7 % 11) as u8;
        }
        item
    }
}

/// What clients did, and how long each call took.
#[derive(Clone, Debug, Default)]
pub struct Done {
    pub enqueued: u64,
    pub settled: u64,
    pub seconds: f64,
    pub enqueue: Latencies,
    pub claim: Latencies,
    pub settle: Latencies,
}

impl Done {
    pub fn items(&self) -> u64 {
        self.enqueued + self.settled
    }

    pub fn merge(&mut self, other: Done) {
        self.enqueued += other.enqueued;
        self.settled += other.settled;
        self.enqueue.merge(other.enqueue);
        self.claim.merge(other.claim);
        self.settle.merge(other.settle);
    }
}

/// The clock, read at the edge.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(since.as_millis() as u64)
}

/// Sends one command and returns its answer.
pub async fn ask<S: Store>(store: &S, command: Command) -> anyhow::Result<Answer<Work>> {
    let answers = store.submit(vec![command.into()], Now::Given(now())).await?;
    answers.into_iter().next().context("a command has an answer")
}

/// One client. It does one thing at a time and notes how long that took.
#[derive(Debug)]
pub struct Client<S> {
    pub store: Arc<S>,
    pub maker: Arc<Maker>,
    pub batch: usize,
    pub done: Done,
    claim: Claim,
}

impl<S: Store> Client<S> {
    pub fn new(store: &Arc<S>, maker: &Arc<Maker>, number: usize, batch: usize) -> Client<S> {
        let claim = Claim::new(format!("worker-{number}"), maker.queue(), batch);
        let (store, maker) = (Arc::clone(store), Arc::clone(maker));
        Client { store, maker, batch, done: Done::default(), claim }
    }

    pub async fn enqueue(&mut self) -> anyhow::Result<()> {
        let items = self.maker.batch(self.batch);
        let begun = Instant::now();
        let answer = ask(&*self.store, Command::Enqueue(items)).await?;
        self.done.enqueue.add(begun.elapsed());
        let Answer::Enqueued(each) = answer else { bail!("an enqueue was answered {answer:?}") };
        if let Some(refusal) = each.into_iter().find_map(Result::err) {
            bail!("an enqueue was refused: {refusal}");
        }
        self.done.enqueued += self.batch as u64;
        Ok(())
    }

    pub async fn claim(&mut self) -> anyhow::Result<Option<Grant<Work>>> {
        let command = Command::Claim(self.claim.clone());
        let begun = Instant::now();
        let answer = ask(&*self.store, command).await?;
        let took = begun.elapsed();
        let Answer::Claimed(grant) = answer else { bail!("a claim was answered {answer:?}") };
        if let Some(grant) = &grant {
            self.done.claim.add(took);
            for work in &grant.items {
                let len = work.body.payload.inline_len();
                ensure!(len == PAYLOAD_BYTES, "a payload came back with {len} bytes");
            }
        }
        Ok(grant)
    }

    /// Completes everything that was claimed.
    pub async fn settle(&mut self, grant: Grant<Work>) -> anyhow::Result<()> {
        let complete = |work: &Work| (work.item.id, Outcome::complete());
        let items: Vec<_> = grant.items.iter().map(complete).collect();
        let count = items.len() as u64;
        let begun = Instant::now();
        let answer = ask(&*self.store, Command::Settle { lease: grant.lease, items }).await?;
        self.done.settle.add(begun.elapsed());
        let Answer::Settled(each) = answer else { bail!("a settle was answered {answer:?}") };
        if let Some(refusal) = each.into_iter().find_map(Result::err) {
            bail!("a settle was refused: {refusal}");
        }
        self.done.settled += count;
        Ok(())
    }

    /// Enqueues until it is over.
    pub async fn produce(mut self, until: Until) -> anyhow::Result<Done> {
        while until.takes(self.batch) {
            self.enqueue().await?;
        }
        Ok(self.done)
    }

    /// Claims and settles until it is over.
    pub async fn work(mut self, until: Until) -> anyhow::Result<Done> {
        while until.takes(self.batch) {
            match self.claim().await? {
                Some(grant) => self.settle(grant).await?,
                None => tokio::time::sleep(EMPTY).await,
            }
        }
        Ok(self.done)
    }

    /// Claims, settles and puts as much back, so that the number of waiting items stays.
    pub async fn cycle(mut self, until: Until) -> anyhow::Result<Done> {
        while until.takes(self.batch) {
            let grant = self.claim().await?.context("the queue ran dry")?;
            self.settle(grant).await?;
            self.enqueue().await?;
        }
        Ok(self.done)
    }
}

/// Runs futures as tasks of their own to their ends and adds up what they did.
pub fn run_all<F>(runtime: &Runtime, clients: impl Iterator<Item = F>) -> anyhow::Result<Done>
where
    F: Future<Output = anyhow::Result<Done>> + Send + 'static,
{
    let begun = Instant::now();
    let tasks: Vec<_> = clients.map(|client| runtime.spawn(client)).collect();
    let mut done = Done::default();
    for task in tasks {
        done.merge(runtime.block_on(task)??);
    }
    done.seconds = begun.elapsed().as_secs_f64();
    Ok(done)
}

/// Producers and workers side by side.
pub fn run<S: Store>(
    runtime: &Runtime,
    store: &Arc<S>,
    maker: &Arc<Maker>,
    load: &Load,
    until: &Until,
) -> anyhow::Result<Done> {
    let Load { producers, workers, batch } = *load;
    let clients = (0..producers + workers).map(|number| {
        let (client, until) = (Client::new(store, maker, number, batch), until.clone());
        async move {
            if number < producers { client.produce(until).await } else { client.work(until).await }
        }
    });
    run_all(runtime, clients)
}
