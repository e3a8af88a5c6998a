//! The full queue: everything that can be asked, with answers per item.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use windrow_core::command::{EnqueueOutcome, RetryMode, Scope};
use windrow_core::{ItemId, Refusal, RequestId};
use windrow_engine::Clock as _;
use windrow_wire::problem::Code;
use windrow_wire::queue_capnp as wire;
use windrow_wire::queue_capnp::windrow;
use windrow_wire::rpc::settle::Answers;
use windrow_wire::rpc::shown::ByStatus;
use windrow_wire::rpc::{
    PAGE_MAX, Wrong, item_id, item_ids, lease_id, new, request_id, settle, shown, work,
};
use windrow_wire::settings::Settings;

use super::connection::Meter;
use super::login::Login;
use super::{Shared, handing, login};
use crate::auth::{Role, Scoped};

pub(super) struct Full {
    shared: Shared,
    meter: Rc<Meter>,
    login: Rc<Login>,
}

impl Full {
    pub(super) fn new(shared: Shared, meter: Rc<Meter>, login: Rc<Login>) -> Full {
        Full { shared, meter, login }
    }

    /// Does what an operator asks, and writes down to what it was done. A task of its own goes on
    /// when the caller hangs up, so that nobody does something and leaves before it is written.
    async fn does<T: Send + 'static>(
        &self,
        queue: &Scoped,
        verb: &'static str,
        deed: impl Future<Output = Result<(T, Vec<String>), Wrong>> + Send + 'static,
    ) -> Result<T, Wrong> {
        let (app, caller) = (Arc::clone(&self.shared.app), queue.caller().clone());
        let doing = self.shared.runtime.spawn(async move {
            let (done, targets) = deed.await?;
            login::did(&app, &caller, verb, targets).await;
            Ok(done)
        });
        doing.await.unwrap_or_else(|_| Err(Wrong::new(Code::Internal, "a bug of ours")))
    }
}

/// Those of these items to which something was done.
fn done<T>(items: &[ItemId], each: &[Result<T, Wrong>]) -> Vec<String> {
    let of = items.iter().zip(each).filter(|(_, each)| each.is_ok());
    of.map(|(id, _)| id.to_string()).collect()
}

/// Does what a call asks of whoever has the role, and writes why not if it cannot. Who may not ask
/// is told so before anything else of the call is looked at.
macro_rules! answer {
    ($self:ident, $results:ident, $role:ident, |$queue:ident| $body:expr) => {{
        let _call = $self.meter.call()?;
        let done: Result<(), Wrong> = async {
            let $queue = $self.login.may(Role::$role).await?;
            $body
        }
        .await;
        if let Err(wrong) = done {
            wrong.write($results.get().init_refused());
        }
        Ok(())
    }};
}

/// Does something to each of these items; gives an answer for each, and those it was done to.
macro_rules! to_each {
    ($queue:ident, $items:ident, |$item:ident| $one:expr) => {{
        let $queue = $queue.clone();
        async move {
            let mut each: Vec<Result<_, Wrong>> = Vec::with_capacity($items.len());
            for &$item in &$items {
                each.push($one.await.map_err(Wrong::from));
            }
            let targets = done(&$items, &each);
            Ok((each, targets))
        }
    }};
}

/// Writes an answer for each, or why there is none.
macro_rules! each {
    ($list:ident, $answers:expr, |$into:ident, $one:ident| $write:expr) => {
        for (at, answer) in (0..).zip($answers) {
            let mut $into = $list.reborrow().get(at);
            match answer {
                Ok($one) => $write,
                Err(refused) => Wrong::from(refused).write($into.init_refused()),
            }
        }
    };
}

impl windrow::Server for Full {
    async fn enqueue(
        self: Rc<Self>,
        params: windrow::EnqueueParams,
        mut results: windrow::EnqueueResults,
    ) -> Result<(), capnp::Error> {
        answer!(self, results, Producer, |queue| {
            let request = params.get()?;
            let id = request_id(request.get_request_id()?)?;
            let items = new::enqueued(request, &queue.tenant(), queue.clock().now())?;
            let each = queue.enqueue(items, id).await?;
            let mut list = results.get().init_each(each.len() as u32);
            each!(list, each, |into, enqueued| {
                into.set_id(&enqueued.id.0.to_be_bytes());
                into.set_outcome(match enqueued.outcome {
                    EnqueueOutcome::Created => wire::EnqueueOutcome::Created,
                    EnqueueOutcome::Duplicate => wire::EnqueueOutcome::Duplicate,
                    EnqueueOutcome::Replaced => wire::EnqueueOutcome::Replaced,
                    EnqueueOutcome::Successor => wire::EnqueueOutcome::Successor,
                });
            });
            Ok(())
        })
    }

    async fn claim(
        self: Rc<Self>,
        params: windrow::ClaimParams,
        mut results: windrow::ClaimResults,
    ) -> Result<(), capnp::Error> {
        answer!(self, results, Worker, |queue| {
            let request = params.get()?;
            let (claim, wait_ms) = (work::claim(request)?, request.get_wait_ms());
            let id = request_id(request.get_request_id()?)?;
            let granted = handing::claim(&self.shared, queue, claim, wait_ms, id).await?;
            if let Some(grant) = granted.and_then(handing::Handing::over) {
                work::granted(results.get(), &grant);
            }
            Ok(())
        })
    }

    async fn renew(
        self: Rc<Self>,
        params: windrow::RenewParams,
        mut results: windrow::RenewResults,
    ) -> Result<(), capnp::Error> {
        answer!(self, results, Worker, |queue| {
            let request = params.get()?;
            let lease_ms = Some(request.get_lease_ms()).filter(|ms| *ms > 0);
            let renewed = queue.renew(lease_id(request.get_lease()?)?, lease_ms).await?;
            let mut into = results.get();
            into.set_expires_at(renewed.expires_at.0);
            let mut held = into.init_held(renewed.held.len() as u32);
            for (at, id) in (0..).zip(&renewed.held) {
                held.set(at, &id.0.to_be_bytes());
            }
            Ok(())
        })
    }

    async fn progress(
        self: Rc<Self>,
        params: windrow::ProgressParams,
        mut results: windrow::ProgressResults,
    ) -> Result<(), capnp::Error> {
        answer!(self, results, Worker, |queue| {
            let request = params.get()?;
            let lease = lease_id(request.get_lease()?)?;
            let mut answers = Answers::new(request.get_items()?, settle::progressed);
            let told = queue.progress(lease, answers.take()).await?;
            let mut list = results.get().init_each(answers.len());
            each!(list, answers.with(told), |into, _told| {
                let _: wire::done::Builder<'_> = into.reborrow();
            });
            Ok(())
        })
    }

    async fn settle(
        self: Rc<Self>,
        params: windrow::SettleParams,
        mut results: windrow::SettleResults,
    ) -> Result<(), capnp::Error> {
        answer!(self, results, Worker, |queue| {
            let request = params.get()?;
            let lease = lease_id(request.get_lease()?)?;
            let id = request_id(request.get_request_id()?)?;
            let (tenant, now) = (queue.tenant(), queue.clock().now());
            let read = |item: wire::settle::Reader<'_>| settle::settled(item, &tenant, now);
            let mut answers = Answers::new(request.get_items()?, read);
            let settled = queue.settle(lease, answers.take(), id).await?;
            let mut list = results.get().init_each(answers.len());
            each!(list, answers.with(settled), |into, settled| {
                into.set_id(&settled.id.0.to_be_bytes());
                into.set_ending(shown::ending(settled.ending));
            });
            Ok(())
        })
    }

    async fn cancel(
        self: Rc<Self>,
        params: windrow::CancelParams,
        mut results: windrow::CancelResults,
    ) -> Result<(), capnp::Error> {
        answer!(self, results, Operator, |queue| {
            let request = params.get()?;
            let items = item_ids(request.get_items()?)?;
            let id = id_of_one(request.get_request_id()?, items.len())?;
            let deed = to_each!(queue, items, |item| queue.cancel(item, id));
            let each = self.does(&queue, "cancel", deed).await?;
            let mut list = results.get().init_each(each.len() as u32);
            each!(list, each, |into, cancelled| {
                into.set_id(&cancelled.id.0.to_be_bytes());
                into.set_ongoing(cancelled.ongoing);
            });
            Ok(())
        })
    }

    async fn retry(
        self: Rc<Self>,
        params: windrow::RetryParams,
        mut results: windrow::RetryResults,
    ) -> Result<(), capnp::Error> {
        answer!(self, results, Operator, |queue| {
            let request = params.get()?;
            let (items, mode) = (item_ids(request.get_items()?)?, request.get_mode()?);
            let id = id_of_one(request.get_request_id()?, items.len())?;
            let stage = request.get_from_stage()?.to_str()?;
            let stage: Option<Arc<str>> = (!stage.is_empty()).then(|| stage.into());
            let deed = to_each!(queue, items, |item| retry(&queue, item, mode, stage.clone(), id));
            let each = self.does(&queue, "retry", deed).await?;
            let mut list = results.get().init_each(each.len() as u32);
            each!(list, each, |into, retried| {
                into.set_id(&retried.id.0.to_be_bytes());
                into.set_reset(retried.reset);
            });
            Ok(())
        })
    }

    async fn delete(
        self: Rc<Self>,
        params: windrow::DeleteParams,
        mut results: windrow::DeleteResults,
    ) -> Result<(), capnp::Error> {
        answer!(self, results, Operator, |queue| {
            let request = params.get()?;
            let items = item_ids(request.get_items()?)?;
            let id = id_of_one(request.get_request_id()?, items.len())?;
            let deed = to_each!(queue, items, |item| queue.delete(item, id));
            let each = self.does(&queue, "delete", deed).await?;
            let mut list = results.get().init_each(each.len() as u32);
            each!(list, each, |into, deleted| into.set_removed(deleted.removed));
            Ok(())
        })
    }

    async fn prioritise(
        self: Rc<Self>,
        params: windrow::PrioritiseParams,
        mut results: windrow::PrioritiseResults,
    ) -> Result<(), capnp::Error> {
        answer!(self, results, Operator, |queue| {
            let request = params.get()?;
            let items = item_ids(request.get_items()?)?;
            let priority = request.get_priority();
            let deed = to_each!(queue, items, |item| queue.prioritise(item, priority));
            let each = self.does(&queue, "prioritise", deed).await?;
            let mut list = results.get().init_each(each.len() as u32);
            each!(list, each, |into, _done| {
                let _: wire::done::Builder<'_> = into.reborrow();
            });
            Ok(())
        })
    }

    async fn pause(
        self: Rc<Self>,
        params: windrow::PauseParams,
        mut results: windrow::PauseResults,
    ) -> Result<(), capnp::Error> {
        answer!(self, results, Operator, |queue| {
            let (scope, its) = (scope(params.get()?)?, queue.clone());
            let deed = async move {
                let target = scope.queue.to_string();
                its.pause(scope).await?;
                Ok(((), vec![target]))
            };
            self.does(&queue, "pause", deed).await
        })
    }

    async fn resume(
        self: Rc<Self>,
        params: windrow::ResumeParams,
        mut results: windrow::ResumeResults,
    ) -> Result<(), capnp::Error> {
        answer!(self, results, Operator, |queue| {
            let (scope, its) = (scope(params.get()?)?, queue.clone());
            let deed = async move {
                let target = scope.queue.to_string();
                its.resume(scope).await?;
                Ok(((), vec![target]))
            };
            self.does(&queue, "resume", deed).await
        })
    }

    async fn configure(
        self: Rc<Self>,
        params: windrow::ConfigureParams,
        mut results: windrow::ConfigureResults,
    ) -> Result<(), capnp::Error> {
        answer!(self, results, Operator, |queue| {
            let request = params.get()?;
            let text = request.get_settings()?.to_str()?;
            let settings: Settings = serde_json::from_str(text)
                .map_err(|error| Wrong::new(Code::Malformed, format!("settings: {error}")))?;
            let (name, its) = (request.get_queue()?.to_str()?.to_owned(), queue.clone());
            settings.check()?;
            let settings = settings.or_assumed(text.as_bytes(), &queue.assumed());
            let deed = async move {
                its.configure(&name, settings.into()).await?;
                Ok(((), vec![name]))
            };
            self.does(&queue, "configure", deed).await
        })
    }

    async fn inspect(
        self: Rc<Self>,
        params: windrow::InspectParams,
        mut results: windrow::InspectResults,
    ) -> Result<(), capnp::Error> {
        answer!(self, results, Viewer, |queue| {
            let item = item_id(params.get()?.get_id()?)?;
            let seen = queue.look(&[item]).await?.pop();
            let (seen, _) = seen.ok_or(Refusal::NotFound { item })?;
            shown::inspected(results.get().init_item(), &seen);
            Ok(())
        })
    }

    async fn explain(
        self: Rc<Self>,
        params: windrow::ExplainParams,
        mut results: windrow::ExplainResults,
    ) -> Result<(), capnp::Error> {
        answer!(self, results, Viewer, |queue| {
            let item = item_id(params.get()?.get_id()?)?;
            let explained = queue.explain(item).await?;
            let explained = explained.ok_or(Refusal::NotFound { item })?;
            let mut into = results.get();
            into.set_status(shown::status(explained.status));
            shown::reasons(into.init_reasons(explained.reasons.len() as u32), &explained);
            Ok(())
        })
    }

    async fn children(
        self: Rc<Self>,
        params: windrow::ChildrenParams,
        mut results: windrow::ChildrenResults,
    ) -> Result<(), capnp::Error> {
        answer!(self, results, Viewer, |queue| {
            let request = params.get()?;
            let (item, from) = (item_id(request.get_id()?)?, request.get_from());
            let limit = match request.get_limit() as usize {
                0 => PAGE_MAX,
                limit => limit.min(PAGE_MAX),
            };
            queue.inspect(item).await?.ok_or(Refusal::NotFound { item })?;
            let ids = queue.children(item, from, limit).await?;
            // One that went since the list was made is not there any more.
            let children = queue.look(&ids).await?;
            let last = children.last().and_then(|(child, _)| child.item.place);
            let mut into = results.get();
            if let Some(last) = last.filter(|_| ids.len() == limit) {
                into.set_next(last.ordinal + 1);
            }
            let mut list = into.init_items(children.len() as u32);
            for (at, (child, _)) in (0..).zip(&children) {
                shown::inspected(list.reborrow().get(at), child);
            }
            Ok(())
        })
    }

    async fn stats(
        self: Rc<Self>,
        params: windrow::StatsParams,
        mut results: windrow::StatsResults,
    ) -> Result<(), capnp::Error> {
        answer!(self, results, Viewer, |queue| {
            let request = params.get()?;
            let name = request.get_queue()?.to_str()?;
            let tenant = request.get_tenant()?.to_str()?;
            let is_asked = |asked: &str, name: &str| asked.is_empty() || asked == name;
            let counts = queue.counts().await?;
            let mut all = ByStatus::default();
            let mut places: BTreeMap<(&str, &str), ByStatus> = BTreeMap::new();
            for count in &counts {
                if is_asked(name, &count.queue) && is_asked(tenant, &count.tenant) {
                    let place = places.entry((&count.queue, &count.tenant)).or_default();
                    place[count.status as usize] += count.items;
                    all[count.status as usize] += count.items;
                }
            }
            let mut into = results.get();
            shown::write_counts(into.reborrow().init_all(), &all);
            let mut list = into.init_places(places.len() as u32);
            for (at, ((queue, tenant), counts)) in (0..).zip(&places) {
                let mut into = list.reborrow().get(at);
                into.set_queue(*queue);
                into.set_tenant(*tenant);
                shown::write_counts(into.init_counts(), counts);
            }
            Ok(())
        })
    }
}

/// The id of a request about one item. Of several, each would need its own.
fn id_of_one(bytes: &[u8], items: usize) -> Result<Option<RequestId>, Wrong> {
    let id = request_id(bytes)?;
    if id.is_some() && items != 1 {
        return Err(Refusal::invalid("requestId", "is for one item at a time here").into());
    }
    Ok(id)
}

async fn retry(
    queue: &Scoped,
    item: ItemId,
    mode: wire::RetryMode,
    from_stage: Option<Arc<str>>,
    request: Option<RequestId>,
) -> Result<windrow_core::command::Retried, Wrong> {
    let seen = queue.inspect(item).await?.ok_or(Refusal::NotFound { item })?;
    // A child cannot be cloned away from its tree.
    let mode = match mode {
        wire::RetryMode::Clone if seen.item.is_root() => RetryMode::Clone,
        wire::RetryMode::Clone | wire::RetryMode::Reset => RetryMode::Reset,
    };
    Ok(queue.retry(item, mode, from_stage, request).await?)
}

fn scope(scope: wire::scope::Reader<'_>) -> Result<Scope, Wrong> {
    let stage = scope.has_stage().then(|| scope.get_stage()).transpose()?;
    let tenant = scope.has_tenant().then(|| scope.get_tenant()).transpose()?;
    let part = |text: Option<capnp::text::Reader<'_>>| -> Result<_, Wrong> {
        Ok(text.map(|text| text.to_str()).transpose()?.map(Into::into))
    };
    let queue = scope.get_queue()?.to_str()?.into();
    Ok(Scope { queue, stage: part(stage)?, tenant: part(tenant)? })
}
