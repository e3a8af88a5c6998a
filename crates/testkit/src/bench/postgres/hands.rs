//! Hands: clients that enqueue, claim and settle one thing at a time, of Windrow or of the bare
//! loop. The loops around them are the same for both.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use super::contender::{EMPTY, Job, Outcome};
use super::ground::Ground;
use crate::bench::clients::{Done, Load, Until, run_all};

/// One client. It notes what it did and how long each call took.
pub(super) trait Hand: Send + 'static {
    type Held: Send;
    fn enqueue(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;
    /// Takes a batch; none if nothing waits.
    fn claim(&mut self) -> impl Future<Output = anyhow::Result<Option<Self::Held>>> + Send;
    /// Completes what was claimed.
    fn settle(&mut self, held: Self::Held) -> impl Future<Output = anyhow::Result<()>> + Send;
    fn batch(&self) -> usize;
    fn done(&mut self) -> &mut Done;
}

/// Does a job with as many hands as it wants.
pub(super) fn work<H: Hand>(
    ground: &Ground,
    job: &Job,
    mut hand: impl FnMut(usize, usize) -> anyhow::Result<H>,
) -> anyhow::Result<Outcome> {
    let Load { producers, workers, batch } = *job.load();
    let hands = (0..producers + workers).map(|number| hand(number, batch));
    let hands: Vec<H> = hands.collect::<anyhow::Result<_>>()?;
    let (adding, taking, left) = match *job {
        Job::Rate { seconds, items, .. } => {
            let until = Until::seconds(seconds).or_items(items);
            (until.clone(), until, i64::MAX)
        }
        Job::Flow { seconds, .. } => {
            let until = Until::seconds(seconds);
            (until.clone(), until, i64::MAX)
        }
        Job::Life { items, .. } => (Until::items(items), Until::endless(), items as i64),
    };
    let left = Arc::new(AtomicI64::new(left));
    let each = |hands: usize| match *job {
        Job::Flow { per_s, .. } => Some(Duration::from_secs_f64((batch * hands) as f64 / per_s)),
        _ => None,
    };
    let (add_every, take_every) = (Pace::new(each(producers)), Pace::new(each(workers)));
    let clients = hands.into_iter().enumerate().map(|(number, hand)| {
        let (adding, taking, left) = (adding.clone(), taking.clone(), Arc::clone(&left));
        async move {
            match number < producers {
                true => add(hand, adding, add_every).await,
                false => take(hand, taking, take_every, left).await,
            }
        }
    });
    Ok(Outcome::of(run_all(&ground.runtime, clients)?, job.load()))
}

/// When the next batch may begin: as soon as it can, or every so often. Who is late catches up.
#[derive(Clone, Copy, Debug)]
struct Pace {
    next: Instant,
    every: Option<Duration>,
}

impl Pace {
    fn new(every: Option<Duration>) -> Pace {
        Pace { next: Instant::now(), every }
    }

    async fn wait(&mut self) {
        if let Some(every) = self.every {
            tokio::time::sleep_until(self.next.into()).await;
            self.next += every;
        }
    }
}

async fn add<H: Hand>(mut hand: H, until: Until, mut pace: Pace) -> anyhow::Result<Done> {
    while until.takes(hand.batch()) {
        pace.wait().await;
        hand.enqueue().await?;
    }
    Ok(std::mem::take(hand.done()))
}

/// Claims and settles until it is over or nothing is left to settle.
async fn take<H: Hand>(
    mut hand: H,
    until: Until,
    mut pace: Pace,
    left: Arc<AtomicI64>,
) -> anyhow::Result<Done> {
    while until.takes(hand.batch()) && left.load(Ordering::Relaxed) > 0 {
        pace.wait().await;
        let Some(held) = hand.claim().await? else {
            tokio::time::sleep(EMPTY).await;
            continue;
        };
        let before = hand.done().settled;
        hand.settle(held).await?;
        left.fetch_sub((hand.done().settled - before) as i64, Ordering::Relaxed);
    }
    Ok(std::mem::take(hand.done()))
}
