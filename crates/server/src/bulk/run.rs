//! Running bulk work: one operation at a time, in slices, each written down before the next.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;
use windrow_core::command::RetryMode;
use windrow_core::find::{self, Listed};
use windrow_core::item::Status;
use windrow_core::note::Expects;
use windrow_core::ports::{Store as _, StoreError};
use windrow_core::{Item, ItemId, Refusal, RequestId};
use windrow_engine::{Clock as _, Failure};

use super::above::{Above, Fate};
use super::shelf::{self, Kept};
use super::{Document, HELD_MS, Stand, Verb};
use crate::http::{App, search};
use crate::store::Queue;

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
    let alone = queue.store().is_alone();
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
        Ok(asked) => asked,
        Err(refusal) => {
            kept.document.message = Some(refusal.to_string());
            kept.document.end(Stand::Failed, app.queue.for_the_server().clock().now());
            return save(app, &mut kept).await.map(drop);
        }
    };
    let filter = kept.document.looks_at(&asked);
    let mut above = Above::of(app.queue.for_the_server().store());
    loop {
        if app.is_stopping() {
            return Ok(());
        }
        let now = app.queue.for_the_server().clock().now();
        if kept.document.stand == Stand::Cancelling {
            kept.document.end(Stand::Cancelled, now);
        } else {
            let page = slice(app, &filter, &kept.document).await?;
            let is_whole = match sorted(app, &mut above, &kept.document, &asked, &page.items).await
            {
                Ok(fates) => {
                    let items = taken_down(&mut kept.document, fates);
                    kept.document.dry_run || act(app, &mut kept, &asked, items).await
                }
                Err(error) => {
                    kept.document.message = Some(error.to_string());
                    false
                }
            };
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

/// What is to become of each item of a slice. If that cannot be read it is tried again.
async fn sorted(
    app: &App,
    above: &mut Above<'_>,
    document: &Document,
    asked: &find::Filter,
    items: &[Listed],
) -> Result<Vec<(Item, Fate)>, StoreError> {
    let queue = app.queue.for_the_server();
    let (mut fates, mut tries) = (Vec::new(), TRIES);
    above.begin_slice();
    while let Some(listed) = items.get(fates.len()) {
        match above.fate(document, asked, listed, queue.clock().now()).await {
            Ok(fate) => fates.push((listed.item, fate)),
            Err(error) if tries == 0 || app.is_stopping() => return Err(error),
            Err(_) => {
                tries -= 1;
                rest(app, PAUSE).await;
            }
        }
    }
    Ok(fates)
}

/// Counts what is to become of items, and gives those to which the verb is done.
fn taken_down(document: &mut Document, fates: Vec<(Item, Fate)>) -> Vec<Item> {
    let mut items = Vec::new();
    for (item, fate) in fates {
        document.matched += u64::from(!matches!(fate, Fate::PassedOver));
        match fate {
            Fate::Own => items.push(item),
            Fate::Refused(refusal) => document.refuse(&refusal),
            Fate::WithAbove if !document.dry_run => document.with_root += 1,
            Fate::Gone if !document.dry_run => document.done += 1,
            Fate::WithAbove | Fate::Gone | Fate::PassedOver => {}
        }
    }
    items
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
async fn act(app: &Arc<App>, kept: &mut Kept, asked: &find::Filter, mut left: Vec<Item>) -> bool {
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
            let request = request(&kept.name, &item);
            under_way.spawn(async move {
                let done = one(app.queue.for_the_server(), &document, &item, request).await;
                (item, done)
            });
        }
        while let Some(ended) = under_way.join_next().await {
            match ended {
                Ok((_, Ok(()))) => kept.document.done += 1,
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
    item: &Item,
    request: RequestId,
) -> Result<(), Failure> {
    let gone = Refusal::NotFound { item: item.id };
    match document.verb {
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
        Verb::Delete => queue.delete(item.id, Some(request)).await.map(drop),
        Verb::Retry => {
            let (mode, from_stage) = (document.mode.of(item), document.from_stage.as_deref());
            let is_reset = mode == RetryMode::Reset && from_stage.is_none();
            let from_stage = from_stage.map(Arc::from);
            match queue.retry(item.id, mode, from_stage, Some(request)).await {
                // It came back meanwhile, with what is above or below it.
                Err(Failure::Refused(Refusal::StillLive { .. })) if is_reset => Ok(()),
                retried => retried.map(drop),
            }
        }
    }
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
