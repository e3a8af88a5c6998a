//! The verbs of the port as calls.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use windrow_core::command::{
    Cancelled, Claim, Enqueued, Grant, NewItem, Outcome, Renewed, Retried, RetryMode, Scope,
    Settled,
};
use windrow_core::ports::Count;
use windrow_core::queue::{Answered, Each, Error, Explained, Page, Queue, Seen, Work};
use windrow_core::settings::Settings;
use windrow_core::trail::Progress;
use windrow_core::{ItemId, LeaseId, RequestId};
use windrow_wire::queue_capnp::{claim_request, done, enqueue_request, granted, scope, windrow};
use windrow_wire::rpc::{PAGE_MAX, asked, told};

use super::{Call, Client};

/// Longest wait that one call asks for: a server that vanished is noticed by then.
const WAIT_SLICE_MS: u64 = 30_000;

/// The methods by their numbers in the schema, in which they never change.
mod method {
    pub(super) const ENQUEUE: u16 = 0;
    pub(super) const CLAIM: u16 = 1;
    pub(super) const RENEW: u16 = 2;
    pub(super) const PROGRESS: u16 = 3;
    pub(super) const SETTLE: u16 = 4;
    pub(super) const CANCEL: u16 = 5;
    pub(super) const RETRY: u16 = 6;
    pub(super) const DELETE: u16 = 7;
    pub(super) const PRIORITISE: u16 = 8;
    pub(super) const PAUSE: u16 = 9;
    pub(super) const RESUME: u16 = 10;
    pub(super) const CONFIGURE: u16 = 11;
    pub(super) const INSPECT: u16 = 12;
    pub(super) const EXPLAIN: u16 = 13;
    pub(super) const STATS: u16 = 14;
    pub(super) const CHILDREN: u16 = 15;
}

/// Writes the parameters of a call.
macro_rules! write {
    ($into:ty, |$params:ident| $write:expr) => {
        |params: capnp::any_pointer::Builder<'_>| {
            #[allow(unused_mut, reason = "some are handed on whole")]
            let mut $params = params.init_as::<$into>();
            $write
        }
    };
}

/// Reads the results of a call, unless they say why it was refused.
macro_rules! read {
    ($from:ty, |$results:ident| $read:expr) => {
        |results: capnp::any_pointer::Reader<'_>| {
            let $results = results.get_as::<$from>()?;
            if $results.has_refused() {
                return Ok(Err(told::refused($results.get_refused()?)?));
            }
            Ok(Ok($read))
        }
    };
}

/// The answer to a call about one.
fn only<T>(each: Vec<Each<T>>) -> Answered<T> {
    let none = || Error::OutcomeUnknown("the server's answer is about nothing".into());
    each.into_iter().next().ok_or_else(none)?.map_err(Error::Refused)
}

/// None for what is not known.
fn known<T>(answer: Answered<T>) -> Answered<Option<T>> {
    match answer {
        Err(error) if error.code() == Some("not_found") => Ok(None),
        answer => answer.map(Some),
    }
}

impl Client {
    async fn do_to_queue(&self, method: u16, of: &Scope) -> Answered<()> {
        let write = write!(scope::Builder<'_>, |params| asked::part(params, of));
        self.ask(Call::of(method), write, read!(done::Reader<'_>, |results| ())).await
    }
}

impl Queue for Client {
    async fn enqueue(
        &self,
        items: Vec<NewItem>,
        request: Option<RequestId>,
    ) -> Answered<Vec<Each<Enqueued>>> {
        let id = self.named(request);
        let call = Call { words: asked::enqueue_words(&items), ..Call::of(method::ENQUEUE) };
        let write =
            write!(enqueue_request::Builder<'_>, |params| asked::enqueue(params, &items, id));
        let read = read!(windrow::enqueue_results::Reader<'_>, |results| {
            told::enqueued(results.get_each()?)?
        });
        self.ask(call, write, read).await
    }

    async fn claim(
        &self,
        claim: Claim,
        wait_ms: u64,
        request: Option<RequestId>,
    ) -> Answered<Option<Grant<Work>>> {
        let deadline = Instant::now() + Duration::from_millis(wait_ms);
        // A claim that got nothing is not remembered, so that the id stays good for the next slice.
        let id = self.named(request);
        let mut wait_ms = wait_ms.min(WAIT_SLICE_MS);
        loop {
            let call = Call { wait: Duration::from_millis(wait_ms), ..Call::of(method::CLAIM) };
            let write = write!(claim_request::Builder<'_>, |params| {
                asked::claim(params, &claim, wait_ms, id);
            });
            let read = read!(granted::Reader<'_>, |results| told::granted(results)?);
            let granted = self.ask(call, write, read).await?;
            let left = deadline.saturating_duration_since(Instant::now());
            if granted.is_some() || left.is_zero() {
                return Ok(granted);
            }
            wait_ms = (left.as_millis() as u64).clamp(1, WAIT_SLICE_MS);
        }
    }

    async fn renew(&self, lease: LeaseId, lease_ms: Option<u64>) -> Answered<Renewed> {
        let write = write!(windrow::renew_params::Builder<'_>, |params| {
            params.set_lease(&lease.0.to_be_bytes());
            params.set_lease_ms(lease_ms.unwrap_or_default());
        });
        let read = read!(windrow::renew_results::Reader<'_>, |results| told::renewed(results)?);
        self.ask(Call::of(method::RENEW), write, read).await
    }

    async fn progress(
        &self,
        lease: LeaseId,
        items: Vec<(ItemId, Progress)>,
    ) -> Answered<Vec<Each<()>>> {
        let write = write!(windrow::progress_params::Builder<'_>, |params| {
            params.set_lease(&lease.0.to_be_bytes());
            asked::progress(params.init_items(items.len() as u32), &items);
        });
        let read = read!(windrow::progress_results::Reader<'_>, |results| {
            told::done(results.get_each()?)?
        });
        self.ask(Call::of(method::PROGRESS), write, read).await
    }

    async fn settle(
        &self,
        lease: LeaseId,
        items: Vec<(ItemId, Outcome)>,
        request: Option<RequestId>,
    ) -> Answered<Vec<Each<Settled>>> {
        let id = self.named(request);
        let call = Call { words: asked::settle_words(&items), ..Call::of(method::SETTLE) };
        let write = write!(windrow::settle_params::Builder<'_>, |params| {
            asked::settle(params, lease, &items, id);
        });
        let read = read!(windrow::settle_results::Reader<'_>, |results| {
            told::settled(results.get_each()?)?
        });
        self.ask(call, write, read).await
    }

    async fn cancel(&self, item: ItemId, request: Option<RequestId>) -> Answered<Cancelled> {
        let id = self.named(request);
        let write = write!(windrow::cancel_params::Builder<'_>, |params| {
            params.set_request_id(&id.0.to_be_bytes());
            asked::one(params.init_items(1), item);
        });
        let read = read!(windrow::cancel_results::Reader<'_>, |results| {
            told::cancelled(results.get_each()?)?
        });
        only(self.ask(Call::of(method::CANCEL), write, read).await?)
    }

    async fn retry(
        &self,
        item: ItemId,
        mode: RetryMode,
        from_stage: Option<Arc<str>>,
        request: Option<RequestId>,
    ) -> Answered<Retried> {
        let id = self.named(request);
        let write = write!(windrow::retry_params::Builder<'_>, |params| {
            params.set_request_id(&id.0.to_be_bytes());
            params.set_mode(asked::retry_mode(mode));
            if let Some(stage) = &from_stage {
                params.set_from_stage(&**stage);
            }
            asked::one(params.init_items(1), item);
        });
        let read = read!(windrow::retry_results::Reader<'_>, |results| {
            told::retried(results.get_each()?)?
        });
        only(self.ask(Call::of(method::RETRY), write, read).await?)
    }

    async fn delete(&self, item: ItemId, request: Option<RequestId>) -> Answered<u32> {
        let id = self.named(request);
        let write = write!(windrow::delete_params::Builder<'_>, |params| {
            params.set_request_id(&id.0.to_be_bytes());
            asked::one(params.init_items(1), item);
        });
        let read = read!(windrow::delete_results::Reader<'_>, |results| {
            told::deleted(results.get_each()?)?
        });
        only(self.ask(Call::of(method::DELETE), write, read).await?)
    }

    async fn prioritise(&self, item: ItemId, priority: u8) -> Answered<()> {
        let write = write!(windrow::prioritise_params::Builder<'_>, |params| {
            params.set_priority(priority);
            asked::one(params.init_items(1), item);
        });
        let read = read!(windrow::prioritise_results::Reader<'_>, |results| {
            told::done(results.get_each()?)?
        });
        only(self.ask(Call::of(method::PRIORITISE), write, read).await?)
    }

    async fn pause(&self, scope: Scope) -> Answered<()> {
        self.do_to_queue(method::PAUSE, &scope).await
    }

    async fn resume(&self, scope: Scope) -> Answered<()> {
        self.do_to_queue(method::RESUME, &scope).await
    }

    async fn configure(&self, queue: Arc<str>, settings: Settings) -> Answered<()> {
        let settings = windrow_wire::settings::Settings::from(settings);
        let settings = serde_json::to_string(&settings)
            .map_err(|error| Error::NotApplied(format!("it cannot be written as JSON: {error}")))?;
        let write = write!(windrow::configure_params::Builder<'_>, |params| {
            params.set_queue(&*queue);
            params.set_settings(&*settings);
        });
        let read = read!(done::Reader<'_>, |results| ());
        self.ask(Call::of(method::CONFIGURE), write, read).await
    }

    async fn inspect(&self, item: ItemId) -> Answered<Option<Seen>> {
        let write = write!(windrow::inspect_params::Builder<'_>, |params| {
            params.set_id(&item.0.to_be_bytes());
        });
        let read = read!(windrow::inspect_results::Reader<'_>, |results| {
            told::item(results.get_item()?)?
        });
        known(self.ask(Call::look(method::INSPECT), write, read).await)
    }

    async fn explain(&self, item: ItemId) -> Answered<Option<Explained>> {
        let write = write!(windrow::explain_params::Builder<'_>, |params| {
            params.set_id(&item.0.to_be_bytes());
        });
        let read = read!(windrow::explain_results::Reader<'_>, |results| {
            told::explained(results, item)?
        });
        known(self.ask(Call::look(method::EXPLAIN), write, read).await)
    }

    async fn children(&self, item: ItemId, from: u32, limit: usize) -> Answered<Option<Page>> {
        let (mut from, mut page) = (from, Page { items: Vec::new(), next: None });
        if limit == 0 {
            // The server takes that for as many as it has.
            return Ok(self.inspect(item).await?.map(|_| page));
        }
        loop {
            let some = (limit - page.items.len()).min(PAGE_MAX);
            let write = write!(windrow::children_params::Builder<'_>, |params| {
                params.set_id(&item.0.to_be_bytes());
                params.set_from(from);
                params.set_limit(some as u32);
            });
            let read = read!(windrow::children_results::Reader<'_>, |results| told::page(results)?);
            let more = known(self.ask(Call::look(method::CHILDREN), write, read).await)?;
            let Some(more) = more else { return Ok(None) };
            page.items.extend(more.items);
            page.next = more.next;
            match more.next {
                Some(next) if page.items.len() < limit => from = next,
                _ => return Ok(Some(page)),
            }
        }
    }

    async fn counts(&self) -> Answered<Vec<Count>> {
        let write = write!(windrow::stats_params::Builder<'_>, |_params| ());
        let read = read!(windrow::stats_results::Reader<'_>, |results| {
            told::counts(results.get_places()?)?
        });
        self.ask(Call::look(method::STATS), write, read).await
    }
}
