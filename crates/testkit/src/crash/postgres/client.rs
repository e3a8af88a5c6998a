//! How producers and workers reach their engine: as clients do that want to know what became of
//! what they asked. They give requests ids, repeat what may be repeated, and report what they are
//! told about the rest.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use windrow_core::command::Grant;
use windrow_core::ports::{Listener, Now, Store, StoreError, Work};
use windrow_core::{Answer, Command, Request, RequestId, Timestamp};
use windrow_engine::{Clock, Engine, Failure};
use windrow_store::postgres::Postgres;

use super::super::ack::Ack;
use super::super::load::Told;
use super::super::name::Name;
use crate::random::Splitmix;

/// How long a claim waits for work.
const WAIT_MS: u64 = 200;
/// How long before something is asked again.
const AGAIN: Duration = Duration::from_millis(25);
/// A lease is over by then, and with it the point of settling.
const POINTLESS: Duration = Duration::from_secs(4);

/// A client of one engine.
pub struct Client<C, T> {
    pub engine: Arc<Engine<Postgres, C>>,
    pub told: T,
    pub dice: Mutex<Splitmix>,
    /// How many of a hundred commands get a request id.
    pub careful: u64,
}

impl<C: Clock, T: Told + Send + Sync + 'static> Client<C, T> {
    async fn ask(&self, request: Request) -> Result<Answer<Work>, StoreError> {
        let answer = match request.command {
            Command::Claim(claim) => {
                self.engine.claim(claim, WAIT_MS, request.id).await.map(Answer::Claimed)
            }
            command => self.engine.submit(Request { id: request.id, command }).await,
        };
        match answer {
            Ok(answer) => Ok(answer),
            Err(Failure::Refused(refusal)) => Ok(Answer::Refused(refusal)),
            Err(Failure::Store(error)) => Err(error),
            Err(overloaded) => Err(StoreError::NotApplied(overloaded.to_string())),
        }
    }

    /// Asks until there is an answer, or nothing more to be learnt by asking.
    async fn ask_well(&self, request: Request) -> Result<Answer<Work>, StoreError> {
        let begun = Instant::now();
        let mut unknown = false;
        loop {
            let error = match self.ask(request.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            match &error {
                StoreError::OutcomeUnknown(_) => {
                    unknown = true;
                    self.told.tell(Ack::Unknown { by_request: request.id.is_some() });
                    if request.id.is_none() {
                        return Err(error);
                    }
                }
                // This time nothing was written; what was before is still not known.
                StoreError::NotApplied(_) if unknown => {}
                StoreError::NotApplied(_) => {
                    if let Some((first, len)) = enqueued(&request) {
                        self.told.tell(Ack::Declined { first, len });
                        return Err(error);
                    }
                    if begun.elapsed() > POINTLESS {
                        return Err(error);
                    }
                }
                StoreError::Closed | StoreError::Poisoned(_) => return Err(error),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// An id, for those who want to be able to ask again.
    fn request(&self) -> Option<RequestId> {
        let mut dice = self.dice.lock();
        let id = u128::from(dice.draw()) << 64 | u128::from(dice.draw());
        dice.percent(self.careful).then_some(RequestId(id))
    }

    fn tell_holding(&self, grant: &Grant<Work>) {
        let place = |work: &Work| {
            let group = work.body.group.as_ref()?;
            let (queue, tenant) = (&work.body.queue, &work.body.tenant);
            Some((work.item.id, format!("{queue}/{}/{tenant}/{group}", work.stage)))
        };
        let items: Vec<_> = grant.items.iter().filter_map(place).collect();
        if !items.is_empty() {
            let (from, until) = (self.engine.clock().now(), grant.expires_at);
            self.told.tell(Ack::Holding { lease: grant.lease, from, until, items });
        }
    }
}

/// The names in an enqueue.
fn enqueued(request: &Request) -> Option<(Name, usize)> {
    let Command::Enqueue(items) = &request.command else { return None };
    Some((Name::read(&items.first()?.body.payload).ok()?, items.len()))
}

impl<C: Clock, T: Told + Send + Sync + 'static> Store for Client<C, T> {
    /// One request at a time; the engine makes the batches, and has the clock.
    async fn submit(
        &self,
        mut batch: Vec<Request>,
        _now: Now,
    ) -> Result<Vec<Answer<Work>>, StoreError> {
        assert_eq!(batch.len(), 1, "a client asks one thing at a time");
        let mut request = batch.remove(0);
        request.id = request.id.or_else(|| self.request());
        if let Command::Settle { lease, items } = &request.command {
            let items = items.iter().map(|(id, _)| *id).collect();
            let (lease, at) = (*lease, self.engine.clock().now());
            self.told.tell(Ack::Leaving { lease, at, items });
        }
        let answer = self.ask_well(request).await?;
        if let Answer::Claimed(Some(grant)) = &answer {
            self.tell_holding(grant);
        }
        Ok(vec![answer])
    }

    crate::reads_through!(self, reading of self.engine.store() => reading.await);

    async fn advance(&self, now: Timestamp) -> Result<(), StoreError> {
        self.engine.store().advance(now).await
    }

    fn listen(&self, listener: Arc<dyn Listener>) {
        self.engine.store().listen(listener);
    }
}

impl<C, T> std::fmt::Debug for Client<C, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
