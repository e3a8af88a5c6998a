//! Firing: what is due is enqueued, once.

use std::sync::Arc;

use windrow_core::command::{EnqueueOutcome, Enqueued};
use windrow_core::note::{Expects, Note, WriteNote};
use windrow_core::ports::Store as _;
use windrow_core::{ItemId, Refusal, RequestId, Timestamp};
use windrow_engine::{Clock as _, Failure};
use windrow_wire::schedule::{Overlap, RunOutcome};
use windrow_wire::time::Time;

use super::kept::{Kept, Last, SHELF, When, item, request};
use super::plan::{Plan, plan};
use crate::named::Name;
use crate::store::Queue;

/// Longest time between two looks: so late is a schedule that another server wrote.
const LOOK_MS: u64 = 1_000;
/// Runs of one schedule before others have their turn.
const RUNS_MAX: usize = 200;

/// Fires what is due, for as long as the server runs.
pub(crate) async fn run(queue: Arc<Queue>) {
    loop {
        let now = queue.clock().now();
        let soonest = if queue.leads() { look(&queue).await } else { None };
        let next = soonest.unwrap_or(Timestamp::NEVER).min(now.plus(LOOK_MS));
        queue.clock().sleep_until(next).await;
    }
}

/// Fires what is due now; says when something is due next.
async fn look(queue: &Queue) -> Option<Timestamp> {
    // A store that cannot be read is asked again in a moment.
    let notes = queue.store().notes(SHELF).await.unwrap_or_default();
    let mut soonest: Option<Timestamp> = None;
    for note in notes {
        // What fails here is due still, and comes up at the next look.
        let next = fire(queue, note).await.unwrap_or_default();
        soonest = [soonest, next].into_iter().flatten().min();
    }
    soonest
}

/// Fires one schedule until nothing of it is due; says when it is due next.
async fn fire(queue: &Queue, note: Note) -> Result<Option<Timestamp>, Failure> {
    let read = Name::parse(&note.name).zip(Kept::read(&note.body));
    let Some((name, mut kept)) = read.filter(|(_, kept)| kept.says.enabled) else {
        return Ok(None);
    };
    let Ok(when) = When::read(&kept.says) else { return Ok(None) };
    let mut version = note.version;
    for _ in 0..RUNS_MAX {
        let now = queue.clock().now();
        let next = kept.next.map(|Time(next)| next);
        match plan(next, kept.says.missed, kept.made_up, now, |at| when.after(at)) {
            Plan::Wait(next) => return Ok(next),
            Plan::Run { run, then, made_up } => {
                let id = request(&name, kept.revision, run, kept.tries);
                let when = format!("at {run}");
                match enqueue(queue, &name, &kept, run, &when, Some(id)).await {
                    Ok(last) => {
                        let (next, last) = (then.map(Time), Some(last));
                        kept = Kept { next, made_up, tries: 0, last, ..kept };
                    }
                    Err(full @ Failure::Refused(_)) => {
                        kept.tries += 1;
                        write(queue, &name, Expects::Version(version), &kept).await?;
                        return Err(full);
                    }
                    Err(failure) => return Err(failure),
                }
            }
            Plan::Miss { then } => {
                kept = Kept { next: then.map(Time), made_up: 0, tries: 0, ..kept };
            }
        }
        // If somebody else moved it on or wrote it anew, theirs counts.
        version = write(queue, &name, Expects::Version(version), &kept).await?;
    }
    Ok(Some(queue.clock().now()))
}

pub(crate) async fn write(
    queue: &Queue,
    name: &Name,
    expects: Expects,
    kept: &Kept,
) -> Result<u64, Failure> {
    let body = Some(kept.written());
    let name = name.of_note().into();
    queue.note(WriteNote { shelf: SHELF.into(), name, expects, body }).await
}

/// Enqueues the item of one run, as the overlap policy says. What passes with time is a failure;
/// what would be refused again is what the run came to.
async fn enqueue(
    queue: &Queue,
    name: &Name,
    kept: &Kept,
    run: Timestamp,
    when: &str,
    id: Option<RequestId>,
) -> Result<Last, Failure> {
    let last = |outcome, item: Option<ItemId>, reason: Option<String>| Last {
        run_at: Time(run),
        outcome,
        item: item.map(|item| item.to_string()),
        reason,
        request: None,
    };
    if let Some(live) = live(queue, kept).await? {
        match kept.says.overlap {
            Overlap::Allow => {}
            Overlap::Skip => {
                let reason = format!("{live}, the item of the run before, has not ended");
                return Ok(last(RunOutcome::Skipped, Some(live), Some(reason)));
            }
            // It may have ended meanwhile, which is as good.
            Overlap::Replace => drop(queue.cancel(vec![live]).await?),
        }
    }
    let enqueued = match item(name, &kept.says, run, when) {
        Ok(item) => queue.enqueue(vec![item], id).await?.pop().unwrap_or(Err(Refusal::Internal)),
        Err(refusal) => Err(refusal),
    };
    match enqueued {
        Ok(Enqueued { id, outcome: EnqueueOutcome::Duplicate }) => {
            Ok(last(RunOutcome::Duplicate, Some(id), None))
        }
        Ok(Enqueued { id, .. }) => Ok(last(RunOutcome::Enqueued, Some(id), None)),
        Err(passes) if passes.retry_after_ms().is_some() => Err(passes.into()),
        Err(refusal) => Ok(last(RunOutcome::Refused, None, Some(refusal.to_string()))),
    }
}

/// The item of the last run, if it has not ended.
async fn live(queue: &Queue, kept: &Kept) -> Result<Option<ItemId>, Failure> {
    let item = kept.last.as_ref().and_then(|last| last.item.as_deref()?.parse().ok());
    let Some(item) = item else { return Ok(None) };
    let seen = queue.store().inspect(item).await?;
    Ok(seen.filter(|seen| !seen.item.is_done()).map(|_| item))
}

/// Runs a schedule now, because somebody asked for it. Its next run comes as it would have.
pub(crate) async fn run_now(
    queue: &Queue,
    name: &Name,
    id: Option<RequestId>,
) -> Result<Option<Last>, Failure> {
    let Some((mut kept, mut version)) = find(queue, name).await? else { return Ok(None) };
    let asked = id.map(|RequestId(number)| format!("{number:032x}"));
    if let Some(last) = kept.last.as_ref().filter(|last| asked.is_some() && last.request == asked) {
        // A repeat: it must not be in its own way.
        return Ok(Some(last.clone()));
    }
    let last = enqueue(queue, name, &kept, queue.clock().now(), "on demand", id).await?;
    let last = Last { request: asked, ..last };
    loop {
        kept.last = Some(last.clone());
        match write(queue, name, Expects::Version(version), &kept).await {
            // It ran by itself meanwhile, or was written anew.
            Err(Failure::Refused(Refusal::Changed { .. })) => match find(queue, name).await? {
                Some(found) => (kept, version) = found,
                None => return Ok(Some(last)),
            },
            written => return written.map(|_| Some(last)),
        }
    }
}

/// A schedule and the version of its note.
pub(crate) async fn find(queue: &Queue, name: &Name) -> Result<Option<(Kept, u64)>, Failure> {
    let called = name.of_note();
    let notes = queue.store().notes(SHELF).await?;
    let note = notes.into_iter().find(|note| *note.name == *called);
    Ok(note.and_then(|note| Some((Kept::read(&note.body)?, note.version))))
}
