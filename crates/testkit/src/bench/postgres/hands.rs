//! Hands: clients that enqueue, claim and settle one thing at a time, of Windrow or of the bare
//! loop. The loops around them are the same for both.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
    let (Job::Rate { load, .. } | Job::Life { load, .. }) = job;
    let Load { producers, workers, batch } = *load;
    let hands = (0..producers + workers).map(|number| hand(number, batch));
    let hands: Vec<H> = hands.collect::<anyhow::Result<_>>()?;
    let (adding, taking, left) = match *job {
        Job::Rate { seconds, .. } => {
            let until = Until::seconds(seconds);
            (until.clone(), until, u64::MAX)
        }
        Job::Life { items, .. } => (Until::items(items), Until::endless(), items),
    };
    let left = Arc::new(AtomicU64::new(left));
    let clients = hands.into_iter().enumerate().map(|(number, hand)| {
        let (adding, taking, left) = (adding.clone(), taking.clone(), Arc::clone(&left));
        async move {
            if number < producers {
                add(hand, adding).await
            } else {
                take(hand, taking, left).await
            }
        }
    });
    Ok(Outcome::of(run_all(&ground.runtime, clients)?, load))
}

async fn add<H: Hand>(mut hand: H, until: Until) -> anyhow::Result<Done> {
    while until.takes(hand.batch()) {
        hand.enqueue().await?;
    }
    Ok(std::mem::take(hand.done()))
}

/// Claims and settles until it is over or nothing is left to settle.
async fn take<H: Hand>(mut hand: H, until: Until, left: Arc<AtomicU64>) -> anyhow::Result<Done> {
    while until.takes(hand.batch()) && left.load(Ordering::Relaxed) > 0 {
        let Some(held) = hand.claim().await? else {
            tokio::time::sleep(EMPTY).await;
            continue;
        };
        let before = hand.done().settled;
        hand.settle(held).await?;
        left.fetch_sub(hand.done().settled - before, Ordering::Relaxed);
    }
    Ok(std::mem::take(hand.done()))
}
