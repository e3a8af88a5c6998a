//! Batches: what many ask for one by one is done together.
//!
//! There is no timer: while one batch is under way the next one gathers, so that batches are as
//! large as the load makes them, and somebody who is alone waits for nobody.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Does things together; answers for each, in their order.
type Together<I, O> = dyn Fn(Vec<I>) -> BoxFuture<'static, Vec<O>> + Send + Sync;

/// Somebody who waits: what for, and where it is told.
type Waiting<I, O> = (I, oneshot::Sender<O>);

/// Where things are left to be done together.
pub(super) struct Batches<I, O> {
    waiting: mpsc::Sender<Waiting<I, O>>,
}

impl<I, O> Clone for Batches<I, O> {
    fn clone(&self) -> Self {
        Batches { waiting: self.waiting.clone() }
    }
}

impl<I, O> fmt::Debug for Batches<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Batches")
    }
}

impl<I: Send + 'static, O: Send + 'static> Batches<I, O> {
    /// Up to `max` at a time, and so many such batches at once. Ends with its last clone.
    pub(super) fn new(
        max: usize,
        at_once: usize,
        together: impl Fn(Vec<I>) -> BoxFuture<'static, Vec<O>> + Send + Sync + 'static,
    ) -> Self {
        let (waiting, arriving) = mpsc::channel(max);
        tokio::spawn(gather(arriving, max, Arc::new(Semaphore::new(at_once)), Arc::new(together)));
        Batches { waiting }
    }

    /// Has it done; None if it was given up, by a panic or because everything ends.
    pub(super) async fn ask(&self, what: I) -> Option<O> {
        let (tell, told) = oneshot::channel();
        self.waiting.send((what, tell)).await.ok()?;
        told.await.ok()
    }
}

async fn gather<I: Send + 'static, O: Send + 'static>(
    mut arriving: mpsc::Receiver<Waiting<I, O>>,
    max: usize,
    places: Arc<Semaphore>,
    together: Arc<Together<I, O>>,
) {
    loop {
        // First a place: what comes while there is none goes along.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let mut batch = Vec::new();
        if arriving.recv_many(&mut batch, max).await == 0 {
            return;
        }
        // Those who are ready to ask at this moment.
        tokio::task::yield_now().await;
        while batch.len() < max {
            match arriving.try_recv() {
                Ok(one) => batch.push(one),
                Err(_) => break,
            }
        }
        let together = Arc::clone(&together);
        tokio::spawn(async move {
            let (what, tell): (Vec<I>, Vec<_>) = batch.into_iter().unzip();
            let count = what.len();
            let made = together(what).await;
            assert_eq!(made.len(), count, "a batch is answered for each");
            for (tell, made) in tell.into_iter().zip(made) {
                // Whoever asked may have gone.
                let _told = tell.send(made);
            }
            drop(place);
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use futures_util::future::join_all;
    use parking_lot::Mutex;

    use super::*;

    #[tokio::test]
    async fn many_are_done_together_and_each_gets_its_own_answer() {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let batches = Batches::new(40, 1, {
            let sizes = Arc::clone(&sizes);
            move |numbers: Vec<u32>| {
                sizes.lock().push(numbers.len());
                async move {
                    tokio::task::yield_now().await;
                    numbers.into_iter().map(|number| number * 2).collect()
                }
                .boxed()
            }
        });
        let asked = join_all((0..100).map(|number| batches.ask(number))).await;
        assert_eq!(asked, (0..100).map(|number| Some(number * 2)).collect::<Vec<_>>());
        let sizes = sizes.lock().clone();
        assert!(sizes.len() <= 5 && sizes.iter().all(|size| *size <= 40), "{sizes:?}");
        assert_eq!(batches.ask(7).await, Some(14), "who is alone is done alone");
    }

    #[tokio::test]
    async fn a_batch_that_panics_takes_nobody_else_with_it() {
        let batches = Batches::new(1, 2, |numbers: Vec<u32>| {
            async move {
                assert_ne!(numbers[0], 13, "planted");
                numbers
            }
            .boxed()
        });
        assert_eq!(batches.ask(13).await, None);
        assert_eq!(batches.ask(14).await, Some(14));
        assert_eq!(batches.ask(15).await, Some(15), "its place is free again");
    }
}
