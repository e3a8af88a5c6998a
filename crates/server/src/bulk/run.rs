//! Running bulk work: one operation at a time, in slices, each written down before the next.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;
use windrow_core::find::{self, Listed};
use windrow_core::item::Status;
use windrow_core::note::Expects;
use windrow_core::ports::{Store as _, StoreError};
use windrow_core::{Item, ItemId, Refusal, RequestId};
use windrow_engine::{Clock as _, Failure};

use super::shelf::{self, Kept};
use super::{Document, HELD_MS, Stand, Verb};
use crate::http::{App, search};
use crate::store::{AnyStore, Queue};

/// Items of a slice.
const SLICE: usize = 100;
/// How long a search may look for a slice before what is known is written down.
const SEARCH: Duration = Duration::from_secs(1);
/// How often the shelf is looked at for what another server left.
const LOOK: Duration = Duration::from_secs(5);
/// How long to wait after the store did not do something, and how often. Shorter than an operation
/// is held, so that nobody takes it meanwhile.
const PAUSE: Duration = Duration::from_secs(1);
const TRIES: u32 = 10;

/// Does what is to be done, until the server stops.
pub(crate) async fn run(app: Arc<App>) {
    while !app.is_stopping() {
        match take(&app).await {
            Ok(Some(kept)) => {
                if let Err(failure) = work(&app, kept).await {
                    eprintln!("windrow: an operation waits: {failure}");
                    rest(&app, PAUSE).await;
                }
            }
            Ok(None) => rest(&app, LOOK).await,
            Err(_) => rest(&app, PAUSE).await,
        }
    }
}

/// Waits until there may be something to do, for so long at most.
async fn rest(app: &App, at_most: Duration) {
    tokio::select! {
        () = app.bulk.wanted.notified() => {}
        () = app.stops() => {}
        () = tokio::time::sleep(at_most) => {}
    }
}

/// Takes the oldest operation that has not ended and that nobody else does.
async fn take(app: &App) -> Result<Option<Kept>, Failure> {
    let (queue, me) = (app.queue.for_the_server(), app.bulk.runner);
    let now = queue.clock().now();
    let alone = matches!(queue.store(), AnyStore::Embedded(..));
    let is_free = |document: &Document| {
        let others = document.runner != me && document.held_until_ms > now.0;
        !document.stand.has_ended() && (alone || !others)
    };
    let mut free = shelf::all(queue).await?;
    free.retain(|kept| is_free(&kept.document));
    free.sort_by_key(|kept| kept.document.started_ms);
    for Kept { name, version, mut document } in free {
        document.hold(me, now.0);
        let expects = Expects::Version(version);
        if let Some(version) = shelf::write(queue, &name, expects, &document).await? {
            return Ok(Some(Kept { name, version, document }));
        }
    }
    Ok(None)
}

impl Document {
    fn hold(&mut self, runner: u64, now_ms: u64) {
        self.runner = runner;
        self.held_until_ms = now_ms + HELD_MS;
    }

    fn refuse(&mut self, refusal: &Refusal) {
        *self.refused.entry(refusal.code().to_owned()).or_default() += 1;
    }
}

/// Does an operation to its end, or until the server stops or somebody else has it.
async fn work(app: &Arc<App>, mut kept: Kept) -> Result<(), Failure> {
    let asked = match kept.document.filter.to_core() {
        Ok(asked) => Arc::new(asked),
        Err(refusal) => {
            kept.document.message = Some(refusal.to_string());
            kept.document.end(Stand::Failed, app.queue.for_the_server().clock().now());
            return save(app, &mut kept).await.map(drop);
        }
    };
    let filter = kept.document.looks_at(&asked);
    loop {
        if app.is_stopping() {
            return Ok(());
        }
        let now = app.queue.for_the_server().clock().now();
        if kept.document.stand == Stand::Cancelling {
            kept.document.end(Stand::Cancelled, now);
        } else {
            let page = slice(app, &filter, &kept.document).await?;
            let (items, refusals) = doable(app, &kept.document, &asked, page.items).await?;
            kept.document.matched += (items.len() + refusals.len()) as u64;
            refusals.iter().for_each(|refusal| kept.document.refuse(refusal));
            let is_whole = kept.document.dry_run || act(app, &mut kept, &asked, items).await;
            if !is_whole && app.is_stopping() {
                // What is not written down is done once more by whoever goes on.
                return Ok(());
            }
            kept.document.cursor = page.next.map(|id| id.to_string());
            match (is_whole, page.next) {
                (false, _) => {
                    kept.document.end(Stand::Failed, app.queue.for_the_server().clock().now())
                }
                (true, None) => {
                    kept.document.end(Stand::Done, app.queue.for_the_server().clock().now())
                }
                (true, Some(_)) => {}
            }
        }
        if !save(app, &mut kept).await? || kept.document.stand.has_ended() {
            return Ok(());
        }
    }
}

async fn slice(
    app: &App,
    filter: &find::Filter,
    document: &Document,
) -> Result<find::Page, StoreError> {
    search(app.queue.for_the_server().store(), filter, document.after(), SLICE, SEARCH).await
}

/// Of the items of a slice those to which it can be done, and why not to the others. Of these, what
/// nobody named by its status is passed over.
async fn doable(
    app: &App,
    document: &Document,
    asked: &find::Filter,
    items: Vec<Listed>,
) -> Result<(Vec<Item>, Vec<Refusal>), StoreError> {
    let queue = app.queue.for_the_server();
    let (mut doable, mut refusals) = (Vec::with_capacity(items.len()), Vec::new());
    for listed in items {
        let mut refusal = document.refusal_of(&listed, queue.clock().now());
        if refusal.is_none() && document.verb == Verb::Delete && !listed.item.is_root() {
            refusal = with_its_root(queue, asked, &listed.item).await?.err();
        }
        match refusal {
            None => doable.push(listed.item),
            Some(Refusal::StillLive { .. }) if asked.statuses.is_empty() => {}
            Some(refusal) => refusals.push(refusal),
        }
    }
    Ok((doable, refusals))
}

/// Writes down how far it is. Says whether it is still this server's.
async fn save(app: &App, kept: &mut Kept) -> Result<bool, Failure> {
    let (queue, me) = (app.queue.for_the_server(), app.bulk.runner);
    loop {
        kept.document.hold(me, queue.clock().now().0);
        let expects = Expects::Version(kept.version);
        if let Some(version) = shelf::write(queue, &kept.name, expects, &kept.document).await? {
            kept.version = version;
            return Ok(true);
        }
        // Somebody told it to stop, or took it because this server was not heard of.
        let Some(now) = shelf::read(queue, &kept.name).await? else { return Ok(false) };
        if now.document.runner != me {
            return Ok(false);
        }
        kept.version = now.version;
        if !kept.document.stand.has_ended() {
            kept.document.stand = now.document.stand;
        }
    }
}

/// Does the verb to each item of a slice, all at once, so that the store writes them together. What
/// the store did not do is tried again; says whether all was answered for in the end.
async fn act(
    app: &Arc<App>,
    kept: &mut Kept,
    asked: &Arc<find::Filter>,
    mut left: Vec<Item>,
) -> bool {
    let document = Arc::new(kept.document.clone());
    for _ in 0..TRIES {
        if app.is_stopping() {
            return left.is_empty();
        }
        if document.verb == Verb::Cancel
            && let Err(failure) = cancel_above(app.queue.for_the_server(), asked, &left).await
        {
            kept.document.message = Some(failure.to_string());
            rest(app, PAUSE).await;
            continue;
        }
        let mut under_way = JoinSet::new();
        for item in std::mem::take(&mut left) {
            let (app, document) = (Arc::clone(app), Arc::clone(&document));
            let (asked, request) = (Arc::clone(asked), request(&kept.name, &item));
            under_way.spawn(async move {
                let queue = app.queue.for_the_server();
                let did = one(queue, &document, &asked, &item, request).await;
                (item, did)
            });
        }
        while let Some(ended) = under_way.join_next().await {
            match ended {
                Ok((_, Ok(Did::Done))) => kept.document.done += 1,
                Ok((_, Ok(Did::WithRoot))) => kept.document.with_root += 1,
                Ok((_, Err(Failure::Refused(refusal)))) => kept.document.refuse(&refusal),
                Ok((item, Err(failure))) => {
                    kept.document.message = Some(failure.to_string());
                    left.push(item);
                }
                // It panicked: a bug of ours, and no other item's matter.
                Err(_) => kept.document.refuse(&Refusal::Internal),
            }
        }
        if left.is_empty() {
            kept.document.message = None;
            return true;
        }
        rest(app, PAUSE).await;
    }
    false
}

/// Under this id an item is cloned once, however often the operation is begun again.
fn request(operation: &str, item: &Item) -> RequestId {
    let hash: [u8; 32] = Sha256::digest(format!("{operation} {}", item.id)).into();
    let half: [u8; 16] = std::array::from_fn(|at| hash[at]);
    RequestId(u128::from_be_bytes(half))
}

async fn one(
    queue: &Queue,
    document: &Document,
    asked: &find::Filter,
    item: &Item,
    request: RequestId,
) -> Result<Did, Failure> {
    let gone = Refusal::NotFound { item: item.id };
    let done = match document.verb {
        Verb::Cancel => {
            let each = queue.cancel(vec![item.id]).await?.pop();
            match each.unwrap_or(Err(gone)) {
                // By somebody else, or with what is above it.
                Err(Refusal::AlreadyDone { status: Status::Cancelled, .. }) => Ok(()),
                cancelled => cancelled.map(drop).map_err(Failure::from),
            }
        }
        Verb::Prioritise => {
            let priority = document.priority.unwrap_or(item.priority);
            let each = queue.prioritise(vec![item.id], priority).await?.pop();
            each.unwrap_or(Err(gone)).map_err(Failure::from)
        }
        Verb::Delete => match queue.delete(item.id, Some(request)).await {
            // It went with its root.
            Err(Failure::Refused(Refusal::NotFound { .. })) if !item.is_root() => Ok(()),
            Err(Failure::Refused(Refusal::NotARoot { .. })) => {
                return with_its_root(queue, asked, item).await?.map_err(Failure::from);
            }
            deleted => deleted.map(drop),
        },
        Verb::Retry => {
            let (mode, from_stage) = (document.mode.of(item), document.from_stage.as_deref());
            let from_stage = from_stage.map(Arc::from);
            match queue.retry(item.id, mode, from_stage, Some(request)).await {
                // It came back meanwhile, with what is above or below it.
                Err(Failure::Refused(Refusal::StillLive { .. })) if item.is_done() => Ok(()),
                retried => retried.map(drop),
            }
        }
    };
    done.map(|()| Did::Done)
}

/// Cancels what is above these items and to be cancelled too, first: whose children all end goes on
/// to its next stage.
async fn cancel_above(queue: &Queue, asked: &find::Filter, items: &[Item]) -> Result<(), Failure> {
    let parents: HashSet<ItemId> =
        items.iter().filter_map(|item| Some(item.place?.parent)).collect();
    let mut highest = HashSet::new();
    for parent in parents {
        let (mut next, mut admitted) = (Some(parent), None);
        while let Some(id) = next {
            let Some(above) = queue.store().inspect(id).await? else { break };
            if !above.item.is_done() && asked.admits(&above) {
                admitted = Some(id);
            }
            next = above.item.place.map(|place| place.parent);
        }
        highest.extend(admitted);
    }
    if !highest.is_empty() {
        // Refused is only what has ended meanwhile.
        queue.cancel(highest.into_iter().collect()).await?;
    }
    Ok(())
}

/// What became of an item.
enum Did {
    Done,
    /// It goes with the root of its tree.
    WithRoot,
}

/// What is part of a tree is not deleted by itself, but with its root, if that is asked for too:
/// then the one is answered as the other is.
async fn with_its_root(
    queue: &Queue,
    asked: &find::Filter,
    item: &Item,
) -> Result<Result<Did, Refusal>, StoreError> {
    let mut place = item.place;
    while let Some(inside) = place {
        let above = queue.store().inspect(inside.parent).await?;
        // Its root is gone already, and with it all that was below.
        let Some(above) = above else { return Ok(Ok(Did::Done)) };
        place = above.item.place;
        if place.is_none() && asked.admits(&above) {
            let (item, status) = (above.item.id, above.status());
            let live = Refusal::StillLive { item, status };
            return Ok(if above.item.is_done() { Ok(Did::WithRoot) } else { Err(live) });
        }
    }
    Ok(Err(Refusal::NotARoot { item: item.id }))
}
