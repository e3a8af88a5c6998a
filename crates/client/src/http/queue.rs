//! The verbs of the port as calls.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use hyper::body::Bytes;
use serde::Serialize;
use tokio::time::Instant;
use windrow_core::command::{
    Cancelled, Claim, Enqueued, Grant, NewItem, Outcome, Renewed, Retried, RetryMode, Scope,
    Settled,
};
use windrow_core::ports::Count;
use windrow_core::queue::{Answered, Each, Error, Explained, Page, Queue, Seen, Work};
use windrow_core::settings::Settings;
use windrow_core::trail::Progress;
use windrow_core::{ItemId, LeaseId, Refusal, RequestId};

use super::{Call, Client, said, seen};

const BASE: &str = "/api/v1";
/// Longest wait that one request asks for. The server has a limit of its own, above this.
const WAIT_SLICE_MS: u64 = 30_000;
/// Most children that the server puts on a page.
const PAGE_MAX: usize = 200;

/// A body. What it is made of is text, numbers and JSON that was read: it can be written.
fn body(of: &impl Serialize) -> Answered<Bytes> {
    let written = serde_json::to_vec(of).map(Bytes::from);
    written.map_err(|error| Error::NotApplied(format!("it cannot be written as JSON: {error}")))
}

/// The path of something about a queue. A path cannot hold an empty name, which no queue has.
fn of_queue(queue: &str, what: &str) -> Answered<String> {
    if queue.is_empty() {
        return Err(Refusal::invalid("queue", "must not be empty").into());
    }
    let mut path = format!("{BASE}/queues/");
    for byte in queue.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => {
                path.push(char::from(byte));
            }
            _ => {
                let _infallible = write!(path, "%{byte:02X}");
            }
        }
    }
    Ok(path + "/" + what)
}

/// None for what is not known.
fn known<T>(answer: Answered<T>) -> Answered<Option<T>> {
    match answer {
        Err(error) if error.code() == Some("not_found") => Ok(None),
        answer => answer.map(Some),
    }
}

impl Client {
    async fn do_to_queue(&self, queue: &str, what: &str, said: &impl Serialize) -> Answered<()> {
        let method = if what == "settings" { Method::PUT } else { Method::POST };
        let call = Call::post(of_queue(queue, what)?, body(said)?);
        self.ask(&Call { method, ..call }, |_| Ok(())).await
    }

    /// All of an item's payload, for whoever holds the lease over it.
    pub async fn payload(&self, lease: LeaseId, item: ItemId) -> Answered<Vec<u8>> {
        let call = Call::look(format!("{BASE}/leases/{lease}/items/{item}/payload"));
        self.ask(&call, |bytes| Ok(bytes.to_vec())).await
    }
}

impl Queue for Client {
    async fn enqueue(
        &self,
        items: Vec<NewItem>,
        request: Option<RequestId>,
    ) -> Answered<Vec<Each<Enqueued>>> {
        let new: Result<Vec<said::New<'_>>, Refusal> = items.iter().map(said::New::of).collect();
        let call = Call::post(format!("{BASE}/items"), body(&new?)?);
        let call = Call { request: Some(self.named(request)), ..call };
        self.ask(&call, seen::enqueued).await
    }

    async fn claim(
        &self,
        claim: Claim,
        wait_ms: u64,
        request: Option<RequestId>,
    ) -> Answered<Option<Grant<Work>>> {
        let deadline = Instant::now() + Duration::from_millis(wait_ms);
        // A claim that got nothing is not remembered, so that the id stays good for the next slice.
        let request = Some(self.named(request));
        let mut wait_ms = wait_ms.min(WAIT_SLICE_MS);
        loop {
            let wait = Duration::from_millis(wait_ms);
            let call =
                Call::post(format!("{BASE}/claims"), body(&said::Take::of(&claim, wait_ms))?);
            let granted = self.ask(&Call { request, wait, ..call }, seen::granted).await?;
            let left = deadline.saturating_duration_since(Instant::now());
            if granted.is_some() || left.is_zero() {
                return Ok(granted);
            }
            wait_ms = (left.as_millis() as u64).clamp(1, WAIT_SLICE_MS);
        }
    }

    async fn renew(&self, lease: LeaseId, lease_ms: Option<u64>) -> Answered<Renewed> {
        let said = body(&said::Renew { lease_ms })?;
        let call = Call::post(format!("{BASE}/leases/{lease}/renew"), said);
        self.ask(&call, seen::renewed).await
    }

    async fn progress(
        &self,
        lease: LeaseId,
        items: Vec<(ItemId, Progress)>,
    ) -> Answered<Vec<Each<()>>> {
        let said = body(&said::Progressing::of(&items))?;
        let call = Call::post(format!("{BASE}/leases/{lease}/progress"), said);
        self.ask(&call, seen::progressed).await
    }

    async fn settle(
        &self,
        lease: LeaseId,
        items: Vec<(ItemId, Outcome)>,
        request: Option<RequestId>,
    ) -> Answered<Vec<Each<Settled>>> {
        let said = body(&said::Settle::of(&items)?)?;
        let call = Call::post(format!("{BASE}/leases/{lease}/settle"), said);
        let call = Call { request: Some(self.named(request)), ..call };
        self.ask(&call, seen::settled).await
    }

    async fn cancel(&self, item: ItemId, request: Option<RequestId>) -> Answered<Cancelled> {
        let call = Call::post(format!("{BASE}/queue/{item}/cancel"), Bytes::new());
        let call = Call { request: Some(self.named(request)), ..call };
        self.ask(&call, seen::cancelled).await
    }

    async fn retry(
        &self,
        item: ItemId,
        mode: RetryMode,
        from_stage: Option<Arc<str>>,
        request: Option<RequestId>,
    ) -> Answered<Retried> {
        let said = body(&said::Retry::of(mode, from_stage.as_deref()))?;
        let call = Call::post(format!("{BASE}/queue/{item}/retry"), said);
        let call = Call { request: Some(self.named(request)), ..call };
        self.ask(&call, seen::retried).await
    }

    async fn delete(&self, item: ItemId, request: Option<RequestId>) -> Answered<u32> {
        let call = Call::post(format!("{BASE}/queue/{item}"), Bytes::new());
        let request = Some(self.named(request));
        self.ask(&Call { method: Method::DELETE, request, ..call }, seen::removed).await
    }

    async fn prioritise(&self, item: ItemId, priority: u8) -> Answered<()> {
        let said = body(&said::Prioritise { priority })?;
        let call = Call::post(format!("{BASE}/queue/{item}/prioritise"), said);
        self.ask(&call, |_| Ok(())).await
    }

    async fn pause(&self, scope: Scope) -> Answered<()> {
        self.do_to_queue(&scope.queue, "pause", &said::Part::of(&scope)).await
    }

    async fn resume(&self, scope: Scope) -> Answered<()> {
        self.do_to_queue(&scope.queue, "resume", &said::Part::of(&scope)).await
    }

    async fn configure(&self, queue: Arc<str>, settings: Settings) -> Answered<()> {
        let settings = windrow_wire::settings::Settings::from(settings);
        self.do_to_queue(&queue, "settings", &settings).await
    }

    async fn inspect(&self, item: ItemId) -> Answered<Option<Seen>> {
        let call = Call::look(format!("{BASE}/queue/{item}"));
        known(self.ask(&call, seen::item).await)
    }

    async fn explain(&self, item: ItemId) -> Answered<Option<Explained>> {
        let call = Call::look(format!("{BASE}/queue/{item}/explain"));
        known(self.ask(&call, seen::explained).await)
    }

    async fn children(&self, item: ItemId, from: u32, limit: usize) -> Answered<Option<Page>> {
        let (mut from, mut page) = (from, Page { items: Vec::new(), next: None });
        loop {
            let some = (limit - page.items.len()).min(PAGE_MAX);
            let call = format!("{BASE}/queue/{item}/tree?from={from}&limit={some}");
            let Some(more) = known(self.ask(&Call::look(call), seen::page).await)? else {
                return Ok(None);
            };
            page.items.extend(more.items);
            page.next = more.next;
            match more.next {
                Some(next) if page.items.len() < limit => from = next,
                _ => return Ok(Some(page)),
            }
        }
    }

    async fn counts(&self) -> Answered<Vec<Count>> {
        self.ask(&Call::look(format!("{BASE}/queue/stats")), seen::counts).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_whole_in_a_path() {
        let path = of_queue("a/b?c#d %é..", "pause").expect("a path");
        assert_eq!(path, "/api/v1/queues/a%2Fb%3Fc%23d%20%25%C3%A9%2E%2E/pause");
        assert!(of_queue("", "pause").is_err());
    }
}
