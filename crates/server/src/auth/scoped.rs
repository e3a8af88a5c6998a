//! The queue as one caller sees it.
//!
//! A caller with a tenant sees and touches that tenant's things only. What belongs to others is
//! answered exactly as what does not exist, so that nobody learns that it does. What the caller
//! itself names for another tenant is forbidden, because that says nothing about what is there.
//!
//! A lease has no tenant of its own, and asking for each of its items would cost a read per item.
//! So callers with a tenant know a lease by another id: the real one, mixed with a secret of the
//! store for that tenant. The id that another tenant or a caller without one was given is, to them,
//! the id of no lease. Ids of requests are mixed in the same way, so that tenants who choose the
//! same `Idempotency-Key` do not meet.

mod forecast;
mod in_hand;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::Instant;
use windrow_core::change::Lease;
use windrow_core::command::{
    Answer, Cancelled, Claim, Command, Deleted, Enqueued, Grant, NewItem, Outcome, Renewed,
    Request, Retried, RetryMode, Scope, Settled,
};
use windrow_core::explain::{Explanation, Reason};
use windrow_core::find;
use windrow_core::item::{State, Status};
use windrow_core::note::Note;
use windrow_core::ports::{Count, Inspected, Store as _, Work};
use windrow_core::rules::notify::EVERY_QUEUE;
use windrow_core::settings::Settings;
use windrow_core::trail::Progress;
use windrow_core::{ItemId, LeaseId, Refusal, RequestId};
use windrow_engine::events::Ring;
use windrow_engine::presence::Worker;
use windrow_engine::{Failure, Job, SystemClock};

use windrow_store::blobs::{BlobError, Blobs as _, Upload, UploadId};

use super::{Book, Caller, Denied, Guarded};
use crate::store::Queue;

/// The tenant of whoever has none and names none.
const TENANT: &str = "default";

/// Live items that are looked at together.
const LIVE_SLICE: usize = 20;

/// The queue as one caller sees it.
#[derive(Clone, Debug)]
pub(crate) struct Scoped {
    queue: Arc<Queue>,
    book: Arc<Book>,
    caller: Caller,
    /// What its ids are mixed with; zero changes nothing.
    mask: u128,
}

impl Scoped {
    pub(crate) fn new(guarded: &Guarded, book: &Arc<Book>, caller: Caller) -> Scoped {
        let mask = caller.tenant.as_deref().map_or(0, |tenant| guarded.mask(tenant));
        Scoped { queue: Arc::clone(guarded.for_the_server()), book: Arc::clone(book), caller, mask }
    }

    /// Who it is.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The tokens, for who may have to do with them.
    pub(crate) fn book(&self) -> &Book {
        &self.book
    }

    /// The queue itself, for what is about more than one tenant's things.
    pub(crate) fn whole(&self) -> Result<&Arc<Queue>, Denied> {
        match &self.caller.tenant {
            None => Ok(&self.queue),
            Some(tenant) => Err(Denied::Forbidden(format!(
                "this is about all tenants, and the token is for {tenant} only"
            ))),
        }
    }

    /// The queue itself, for what is about one tenant's things and names that tenant.
    pub(crate) fn of(&self, tenant: &str) -> Result<&Arc<Queue>, Denied> {
        self.own(tenant)?;
        Ok(&self.queue)
    }

    /// An upload that the caller may know of.
    pub(crate) async fn upload(&self, id: UploadId) -> Result<Upload, BlobError> {
        let upload = self.queue.store().upload(id).await?;
        if self.sees(&upload.new.tenant) { Ok(upload) } else { Err(BlobError::NotFound) }
    }

    /// What happens, to all tenants: whoever passes it on asks [`Scoped::sees`] of each event.
    pub(crate) fn events(&self) -> &Ring {
        self.queue.events()
    }

    /// Notes of all tenants: whoever passes one on asks [`Scoped::sees`] of it.
    pub(crate) async fn notes(&self, shelf: &str) -> Result<Vec<Note>, Denied> {
        Ok(self.queue.store().notes(shelf).await?)
    }

    /// Lets other servers know that somebody here wants to hear what happens there.
    pub(crate) async fn watch(&self) -> Result<(), Denied> {
        Ok(self.queue.store().watch().await?)
    }

    pub(crate) fn clock(&self) -> &SystemClock {
        self.queue.clock()
    }

    /// Whether the caller may know of what belongs to a tenant.
    pub(crate) fn sees(&self, tenant: &str) -> bool {
        self.caller.tenant.as_deref().is_none_or(|own| *own == *tenant)
    }

    /// Refuses what the caller says of another tenant.
    pub(crate) fn own(&self, tenant: &str) -> Result<(), Denied> {
        match &self.caller.tenant {
            Some(own) if **own != *tenant => {
                Err(Denied::Forbidden(format!("the token is for the tenant {own} only")))
            }
            _ => Ok(()),
        }
    }

    /// The tenant of what the caller says without naming one.
    pub(crate) fn tenant(&self) -> Arc<str> {
        self.caller.tenant.clone().unwrap_or_else(|| TENANT.into())
    }

    /// Waits until the caller would be let in no more. Whatever lasts must end then.
    pub(crate) async fn ended(&self) {
        self.book.ended(&self.caller).await;
    }

    /// Whether that is so already.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended().now_or_never().is_some()
    }

    pub(crate) async fn enqueue(
        &self,
        items: Vec<NewItem>,
        request: Option<RequestId>,
    ) -> Result<Vec<Result<Enqueued, Refusal>>, Denied> {
        self.must_be_open()?;
        items.iter().try_for_each(|item| self.own(&item.body.tenant))?;
        Ok(self.queue.enqueue(items, self.request(request)).await?)
    }

    /// Work, until the caller's token is revoked.
    pub(crate) async fn claim(
        &self,
        claim: Claim,
        wait_ms: u64,
        request: Option<RequestId>,
    ) -> Result<Option<Grant<Work>>, Denied> {
        self.claim_unless(claim, wait_ms, request, std::future::pending()).await
    }

    /// The same, and not once `gone` is over.
    pub(crate) async fn claim_unless(
        &self,
        mut claim: Claim,
        wait_ms: u64,
        request: Option<RequestId>,
        gone: impl Future<Output = ()>,
    ) -> Result<Option<Grant<Work>>, Denied> {
        self.must_be_open()?;
        claim.tenants.iter().try_for_each(|tenant| self.own(tenant))?;
        if let Some(own) = &self.caller.tenant {
            claim.tenants = vec![Arc::clone(own)];
        }
        // Not dropped halfway: what is being handed out when the token goes is handed out.
        let revoked = AtomicBool::new(false);
        let over = async {
            tokio::select! {
                () = gone => {}
                () = self.ended() => revoked.store(true, Ordering::Relaxed),
            }
        };
        let request = self.request(request);
        let granted = self.queue.claim_unless(claim, wait_ms, request, over).await?;
        if granted.is_none() && revoked.load(Ordering::Relaxed) {
            return Err(match self.caller.token() {
                Some(_) => Denied::WrongToken,
                // The server was open until its first token.
                None => Denied::NoToken,
            });
        }
        Ok(granted.map(|mut grant| {
            grant.lease = self.lease(grant.lease);
            grant.items.iter_mut().for_each(|work| self.show(&mut work.item.state));
            grant
        }))
    }

    pub(crate) async fn renew(
        &self,
        lease: LeaseId,
        lease_ms: Option<u64>,
    ) -> Result<Renewed, Denied> {
        let renewed = self.queue.renew(self.lease(lease), lease_ms).await;
        renewed.map_err(|failure| match failure {
            Failure::Refused(refusal) => self.lost(lease, refusal).into(),
            failure => failure.into(),
        })
    }

    pub(crate) async fn progress(
        &self,
        lease: LeaseId,
        items: Vec<(ItemId, Progress)>,
    ) -> Result<Vec<Result<(), Refusal>>, Denied> {
        let each = self.queue.progress(self.lease(lease), items).await?;
        Ok(each.into_iter().map(|each| each.map_err(|no| self.lost(lease, no))).collect())
    }

    pub(crate) async fn settle(
        &self,
        lease: LeaseId,
        items: Vec<(ItemId, Outcome)>,
        request: Option<RequestId>,
    ) -> Result<Vec<Result<Settled, Refusal>>, Denied> {
        for (_, outcome) in &items {
            if let Outcome::Complete { spawn, .. } = outcome {
                spawn.iter().try_for_each(|item| self.own(&item.body.tenant))?;
            }
        }
        let command = Command::Settle { lease: self.lease(lease), items };
        let id = self.request(request);
        let Answer::Settled(each) = self.queue.submit(Request { id, command }).await? else {
            return Err(Refusal::Internal.into());
        };
        Ok(each.into_iter().map(|each| each.map_err(|no| self.lost(lease, no))).collect())
    }

    /// Everything about an item that the caller may know of.
    pub(crate) async fn inspect(&self, id: ItemId) -> Result<Option<Inspected>, Denied> {
        let seen = self.queue.store().inspect(id).await?;
        let seen = seen.filter(|seen| self.sees(&seen.body.tenant));
        Ok(seen.map(|mut seen| {
            self.show(&mut seen.item.state);
            seen
        }))
    }

    /// Everything about each of these that the caller may know of, in their order.
    pub(crate) async fn inspect_all(&self, ids: &[ItemId]) -> Result<Vec<Inspected>, Denied> {
        let mut all = self.queue.store().inspect_all(ids).await?;
        all.retain(|seen| self.sees(&seen.body.tenant));
        all.iter_mut().for_each(|seen| self.show(&mut seen.item.state));
        Ok(all)
    }

    /// The same, with what only their leases know of the attempts that run, and those leases.
    pub(crate) async fn look(
        &self,
        ids: &[ItemId],
    ) -> Result<Vec<(Inspected, Option<Lease>)>, Denied> {
        let mut all = self.queue.store().inspect_all(ids).await?;
        all.retain(|seen| self.sees(&seen.body.tenant));
        let leases = self.queue.show_attempts(&mut all).await?;
        let with_lease = |mut seen: Inspected| {
            let held_by = seen.item.lease();
            let lease = leases.iter().find(|lease| Some(lease.id) == held_by).cloned();
            self.show(&mut seen.item.state);
            (seen, lease)
        };
        Ok(all.into_iter().map(with_lease).collect())
    }

    /// The leases that hold something, by the ids that the caller's items show. Whoever passes one
    /// on has its id from an item of the caller: those of others have ids here that none has.
    pub(crate) async fn leases(&self) -> Result<Vec<Lease>, Denied> {
        let mut leases = self.queue.store().leases().await?;
        leases.iter_mut().for_each(|lease| lease.id = self.lease(lease.id));
        Ok(leases)
    }

    /// The oldest item of the caller that is pending, if it is found within a while. What nobody
    /// looked at by then begins after the second.
    pub(crate) async fn oldest_pending(
        &self,
        within: Duration,
    ) -> Result<(Option<Inspected>, Option<ItemId>), Denied> {
        let (until, mut after) = (Instant::now() + within, None);
        loop {
            let items = self.queue.store().live(after, LIVE_SLICE).await?;
            let pending = items.iter().filter(|item| item.status() == Status::Pending);
            let ids: Vec<ItemId> = pending.map(|item| item.id).collect();
            let mut seen = self.inspect_all(&ids).await?;
            if !seen.is_empty() {
                return Ok((Some(seen.swap_remove(0)), None));
            }
            after = items.last().map(|item| item.id);
            if after.is_none() || Instant::now() >= until {
                return Ok((None, after));
            }
        }
    }

    /// What the engine does by itself, with its last and next runs; and whether this server is the
    /// one that does it.
    pub(crate) fn jobs(&self) -> (Vec<Job>, bool) {
        (self.queue.scheduled().to_vec(), self.queue.leads())
    }

    /// Whether the caller has to do with all tenants.
    pub(crate) fn sees_all(&self) -> bool {
        self.caller.tenant.is_none()
    }

    pub(crate) async fn explain(&self, id: ItemId) -> Result<Option<Explanation>, Denied> {
        if !self.is_there(id).await? {
            return Ok(None);
        }
        let mut explained = self.queue.explain(id).await?;
        if !self.sees_all() {
            let known = self.workers().await?;
            let is_known = |name: &String| known.iter().any(|worker| *worker.name == **name);
            for reason in explained.iter_mut().flat_map(|explained| &mut explained.reasons) {
                if let Reason::NoWorker { drained } = reason {
                    drained.retain(is_known);
                }
            }
        }
        Ok(explained)
    }

    /// Children of an item. They are of its tenant.
    pub(crate) async fn children(
        &self,
        id: ItemId,
        from: u32,
        limit: usize,
    ) -> Result<Vec<ItemId>, Denied> {
        if !self.is_there(id).await? {
            return Ok(Vec::new());
        }
        Ok(self.queue.store().children(id, from, limit).await?)
    }

    pub(crate) async fn cancel(
        &self,
        item: ItemId,
        request: Option<RequestId>,
    ) -> Result<Cancelled, Denied> {
        self.must_be_there(item).await?;
        let (id, command) = (self.request(request), Command::Cancel { items: vec![item] });
        let Answer::Cancelled(mut each) = self.queue.submit(Request { id, command }).await? else {
            return Err(Refusal::Internal.into());
        };
        Ok(each.pop().unwrap_or(Err(Refusal::NotFound { item }))?)
    }

    pub(crate) async fn prioritise(&self, item: ItemId, priority: u8) -> Result<(), Denied> {
        self.must_be_there(item).await?;
        let each = self.queue.prioritise(vec![item], priority).await?.pop();
        Ok(each.unwrap_or(Err(Refusal::NotFound { item }))?)
    }

    pub(crate) async fn retry(
        &self,
        item: ItemId,
        mode: RetryMode,
        from_stage: Option<Arc<str>>,
        request: Option<RequestId>,
    ) -> Result<Retried, Denied> {
        self.must_be_there(item).await?;
        Ok(self.queue.retry(item, mode, from_stage, self.request(request)).await?)
    }

    pub(crate) async fn delete(
        &self,
        item: ItemId,
        request: Option<RequestId>,
    ) -> Result<Deleted, Denied> {
        self.must_be_there(item).await?;
        Ok(self.queue.delete(item, self.request(request)).await?)
    }

    /// Says how a queue behaves. What holds for every queue is not an operator's to say.
    pub(crate) async fn configure(&self, queue: &str, settings: Settings) -> Result<(), Denied> {
        if *queue == *EVERY_QUEUE {
            let why = "is no queue; PATCH /admin/settings/queue says what is kept of every queue";
            return Err(Refusal::invalid("queue", why).into());
        }
        Ok(self.whole()?.configure(queue, settings).await?)
    }

    /// How a queue behaves: as somebody said, or as its first item will find it.
    pub(crate) async fn settings(&self, queue: &str) -> Result<Settings, Denied> {
        let set = self.configured().await?.settings.into_iter().find(|(of, _)| **of == *queue);
        if let Some((_, set)) = set {
            return Ok(set);
        }
        let has_items = self.counts().await?.iter().any(|count| *count.queue == *queue);
        Ok(if has_items { Settings::default() } else { self.queue.assumed() })
    }

    /// How a queue behaves of which nobody says otherwise.
    pub(crate) fn assumed(&self) -> Settings {
        self.queue.assumed()
    }

    /// What of a queue is paused, as far as the caller may know.
    pub(crate) async fn paused(&self, queue: &str) -> Result<Vec<Scope>, Denied> {
        let mut paused = self.configured().await?.paused;
        paused.retain(|scope| *scope.queue == *queue);
        Ok(paused)
    }

    pub(crate) async fn pause(&self, scope: Scope) -> Result<(), Denied> {
        self.must_own(&scope)?;
        Ok(self.queue.pause(scope).await?)
    }

    pub(crate) async fn resume(&self, scope: Scope) -> Result<(), Denied> {
        self.must_own(&scope)?;
        Ok(self.queue.resume(scope).await?)
    }

    /// Items by status and place, as far as the caller may know.
    pub(crate) async fn counts(&self) -> Result<Vec<Count>, Denied> {
        let mut counts = self.queue.store().counts().await?;
        counts.retain(|count| self.sees(&count.tenant));
        Ok(counts)
    }

    /// Looks for so many items, for so long, among those that the caller may know of.
    pub(crate) async fn search(
        &self,
        mut filter: find::Filter,
        after: Option<ItemId>,
        limit: usize,
        within: Duration,
    ) -> Result<find::Page, Denied> {
        if let Some(own) = &self.caller.tenant {
            if filter.tenant.as_ref().is_some_and(|asked| asked != own) {
                return Ok(find::Page { items: Vec::new(), next: None });
            }
            filter.tenant = Some(Arc::clone(own));
        }
        let store = self.queue.store();
        let mut page = crate::http::search(store, &filter, after, limit, within).await?;
        if page.items.iter().any(|listed| listed.item.lease().is_some()) {
            let leases = store.leases().await?;
            for listed in &mut page.items {
                let held_by = listed.item.lease();
                let lease = leases.iter().find(|lease| Some(lease.id) == held_by);
                let renewed = lease.map_or(listed.changed_at, |lease| lease.renewed);
                listed.changed_at = listed.changed_at.max(renewed);
            }
        }
        page.items.iter_mut().for_each(|listed| self.show(&mut listed.item.state));
        Ok(page)
    }

    /// What operators said about queues; to a caller with a tenant, about those it has items in.
    pub(crate) async fn configured(&self) -> Result<find::Configured, Denied> {
        let mut configured = self.queue.store().configured().await?;
        if self.caller.tenant.is_some() {
            let counts = self.counts().await?;
            let is_known = |queue: &Arc<str>| counts.iter().any(|count| count.queue == *queue);
            configured.settings.retain(|(queue, _)| is_known(queue));
            configured.paused.retain(|scope| match &scope.tenant {
                Some(tenant) => self.sees(tenant),
                None => is_known(&scope.queue),
            });
        }
        Ok(configured)
    }

    /// The workers that are present; to a caller with a tenant what they do for no other.
    pub(crate) async fn workers(&self) -> Result<Vec<Worker>, Denied> {
        let mut workers = self.queue.workers().await?;
        if self.caller.tenant.is_some() {
            workers.retain_mut(|worker| {
                worker.offers.retain(|offer| {
                    let tenants = &offer.tenants;
                    !tenants.is_empty() && tenants.iter().all(|tenant| self.sees(tenant))
                });
                !worker.offers.is_empty()
            });
        }
        Ok(workers)
    }

    /// Nothing new begins on a server that stops. What began before may end.
    fn must_be_open(&self) -> Result<(), Denied> {
        if self.queue.is_closed() { Err(Denied::Stopping) } else { Ok(()) }
    }

    /// A whole queue, or a stage of it, is everybody's.
    fn must_own(&self, scope: &Scope) -> Result<(), Denied> {
        match &scope.tenant {
            Some(tenant) => self.own(tenant),
            None => self.whole().map(drop),
        }
    }

    async fn must_be_there(&self, item: ItemId) -> Result<(), Denied> {
        if self.is_there(item).await? { Ok(()) } else { Err(Refusal::NotFound { item }.into()) }
    }

    /// Whether an item is there for the caller. An item never changes its tenant.
    async fn is_there(&self, item: ItemId) -> Result<bool, Denied> {
        Ok(self.caller.tenant.is_none() || self.inspect(item).await?.is_some())
    }

    /// A lease by the id that the caller knows, of the one that the store knows, and back.
    fn lease(&self, LeaseId(id): LeaseId) -> LeaseId {
        LeaseId(id ^ self.mask)
    }

    /// The id of a request that no other tenant can have chosen.
    pub(crate) fn request(&self, request: Option<RequestId>) -> Option<RequestId> {
        request.map(|RequestId(id)| RequestId(id ^ self.mask))
    }

    fn show(&self, state: &mut State) {
        if let State::Leased { lease } = state {
            *lease = self.lease(*lease);
        }
    }

    /// To a caller with a tenant an item of another and one that does not exist are both not held
    /// by its lease.
    fn lost(&self, lease: LeaseId, refusal: Refusal) -> Refusal {
        match refusal {
            Refusal::LeaseLost { .. } => Refusal::LeaseLost { lease },
            Refusal::NotFound { .. } if self.caller.tenant.is_some() => {
                Refusal::LeaseLost { lease }
            }
            refusal => refusal,
        }
    }
}
