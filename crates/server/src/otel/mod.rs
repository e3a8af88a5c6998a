//! Traces: spans of what the queue was asked to do, sent by OTLP over HTTP.
//!
//! An enqueue belongs to the trace of its producer, whose context is kept on the item; a claim of
//! the item belongs to the same trace, however much later and on whichever server. A settle belongs
//! to the trace that the worker's request names, or else to the claim's. Spans name queues, items,
//! leases and codes, and nothing that somebody wrote.

mod context;
mod export;
mod span;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use windrow_core::ItemId;
use windrow_core::command::Answer;
use windrow_core::ports::Work;
use windrow_engine::Failure;
use windrow_engine::observe::{Observer, Operation};

use context::Context;
use export::Exporter;
pub(crate) use export::figures;
use span::{Kind, Span, Value};

tokio::task_local! {
    /// The context that the request under way came with.
    static WITHIN: Option<Context>;
}

/// The last claims of items that are remembered.
const CLAIMS_MAX: usize = 10_000;

/// Whoever observes the engine to make spans.
#[derive(Debug)]
pub(crate) struct Tracer {
    exporter: Exporter,
    claims: Mutex<Claims>,
}

/// Which claims led to what is in hand here.
#[derive(Debug, Default)]
struct Claims {
    by_item: BTreeMap<ItemId, Claimed>,
    order: VecDeque<ItemId>,
}

#[derive(Clone, Debug)]
struct Claimed {
    context: Context,
    queue: Arc<str>,
}

/// Begins to send spans. Must be called in a tokio runtime.
pub(crate) fn begin(endpoint: &str) -> anyhow::Result<Arc<Tracer>> {
    let exporter = Exporter::begin(endpoint)?;
    Ok(Arc::new(Tracer { exporter, claims: Mutex::default() }))
}

/// Notes the context that a request comes with, for as long as it is under way.
pub(crate) async fn within(request: Request, next: Next) -> Response {
    let header = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    let context = header.and_then(Context::parse);
    WITHIN.scope(context, next.run(request)).await
}

fn around() -> Option<Context> {
    WITHIN.try_with(|context| *context).ok().flatten()
}

impl Tracer {
    /// Sends what waits, for a short while.
    pub(crate) async fn flush(&self) {
        self.exporter.flush().await;
    }

    fn enqueued(&self, operation: &Operation<'_>, times: (SystemTime, SystemTime)) {
        let Some(queue) = &operation.asked.queue else { return };
        let kept = operation.asked.trace.as_deref().and_then(Context::parse);
        let mut span = Span::new("enqueue", queue, Kind::Producer, kept.or_else(around), times);
        if let Ok(Answer::Enqueued(each)) = operation.answered {
            span.set("messaging.batch.message_count", Value::Number(each.len() as u64));
            if let [Ok(enqueued)] = each.as_slice() {
                span.set("messaging.message.id", Value::Text(enqueued.id.to_string()));
            }
        }
        self.finish(span, operation.answered.as_ref().err());
    }

    fn claimed(&self, work: &Work, lease: &str, times: (SystemTime, SystemTime)) {
        let kept = work.body.metadata.as_deref().and_then(windrow_core::trace::kept);
        let parent = kept.and_then(Context::parse).or_else(around);
        let mut span = Span::new("claim", &work.body.queue, Kind::Consumer, parent, times);
        span.set("messaging.message.id", Value::Text(work.item.id.to_string()));
        span.set("windrow.lease.id", Value::Text(lease.to_owned()));
        span.set("windrow.stage", Value::Text(work.stage.to_string()));
        span.set("windrow.attempt", Value::Number(u64::from(work.item.attempts)));
        let claimed = Claimed { context: span.context(), queue: Arc::clone(&work.body.queue) };
        self.claims().remember(work.item.id, claimed);
        self.finish(span, None);
    }

    fn settled(&self, operation: &Operation<'_>, times: (SystemTime, SystemTime)) {
        let each = match operation.answered {
            Ok(Answer::Settled(each)) => each.as_slice(),
            _ => &[],
        };
        for (at, id) in operation.asked.items.iter().enumerate() {
            let claimed = self.claims().by_item.remove(id);
            let parent = around().or(claimed.as_ref().map(|claimed| claimed.context));
            let queue = claimed.as_ref().map_or("", |claimed| &claimed.queue);
            let mut span = Span::new("settle", queue, Kind::Client, parent, times);
            span.set("messaging.message.id", Value::Text(id.to_string()));
            if let Some(lease) = operation.asked.lease {
                span.set("windrow.lease.id", Value::Text(lease.to_string()));
            }
            match each.get(at) {
                Some(Ok(settled)) => {
                    span.set("windrow.outcome", Value::Text(settled.ending.name().to_owned()));
                }
                Some(Err(refusal)) => span.fail(refusal.code()),
                None => {}
            }
            self.finish(span, operation.answered.as_ref().err());
        }
    }

    fn finish(&self, mut span: Span, failure: Option<&Failure>) {
        if let Some(failure) = failure {
            span.fail(crate::logs::code(failure));
        }
        if span.is_sampled() {
            self.exporter.send(span);
        }
    }

    fn claims(&self) -> std::sync::MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claims {
    fn remember(&mut self, item: ItemId, claimed: Claimed) {
        if self.by_item.insert(item, claimed).is_none() {
            self.order.push_back(item);
        }
        while self.order.len() > CLAIMS_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.by_item.remove(&oldest);
            }
        }
    }
}

impl Observer for Tracer {
    fn ended(&self, operation: &Operation<'_>) {
        let ended = SystemTime::now();
        let times = (ended - Duration::from_micros(operation.micros), ended);
        match operation.verb {
            "enqueue" => self.enqueued(operation, times),
            "settle" => self.settled(operation, times),
            "claim" => {
                if let Ok(Answer::Claimed(Some(grant))) = operation.answered {
                    let lease = grant.lease.to_string();
                    grant.items.iter().for_each(|work| self.claimed(work, &lease, times));
                }
            }
            _ => {}
        }
    }

    fn did_not_tick(&self, _: &Failure) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_of_claims_is_bounded() {
        let mut claims = Claims::default();
        for number in 0..CLAIMS_MAX as u128 + 5 {
            let claimed = Claimed { context: Context::root(), queue: "q".into() };
            claims.remember(ItemId(number), claimed);
        }
        assert_eq!((claims.by_item.len(), claims.order.len()), (CLAIMS_MAX, CLAIMS_MAX));
        assert!(!claims.by_item.contains_key(&ItemId(4)));
    }
}
