//! The verbs: one file each, and here the one way in.
//!
//! A rule looks at the ledger and returns what to write; [`decide`] applies it. A rule that panics
//! has changed nothing: its command answers `internal` and what it was about is set aside.

mod bounds;
pub mod cancel;
pub mod claim;
pub mod enqueue;
pub mod forecast;
pub mod notify;
pub mod reclaim;
pub mod renew;
pub mod retry;
pub mod roll_up;
pub mod settle;
pub mod split;
pub mod sweep;

use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::change::{Change, Changes};
use crate::command::{Answer, Command, Request, Scope};
use crate::find::shown;
use crate::id::ItemId;
use crate::item::{Item, Marks};
use crate::ledger::Ledger;
use crate::limits::{COMMAND_BYTES_MAX, COMMAND_ITEMS_MAX, PRIORITY_MAX};
use crate::note;
use crate::refusal::Refusal;
use crate::time::Timestamp;
use crate::transitions::Event;

/// What a rule comes to: an answer, and what to write for it to be true.
pub type Decision<T> = Result<(T, Changes), Refusal>;

/// Decides a request and applies what follows from it.
pub fn decide<L: Ledger>(ledger: &mut L, request: Request, now: Timestamp) -> Answer {
    let Some(id) = request.id else {
        return run(ledger, request.command, now);
    };
    let fingerprint = fingerprint(&request.command);
    match ledger.remembered(id) {
        Err(refusal) => return Answer::Refused(refusal),
        Ok(Some((known, answer))) if known == fingerprint => return again(ledger, answer),
        Ok(Some(_)) => return Answer::Refused(Refusal::RequestReused),
        Ok(None) => {}
    }
    let answer = run(ledger, request.command, now);
    if !did_nothing(&answer) {
        let answer = Box::new(answer.clone());
        ledger.apply(Change::Answered { request: id, fingerprint, answer }, now);
    }
    answer
}

/// Whether an answer says that nothing was done. It is not remembered, so that a request that was
/// wrong may be mended and sent again under its id.
fn did_nothing(answer: &Answer) -> bool {
    fn none<T>(each: &[Result<T, Refusal>]) -> bool {
        !each.is_empty() && each.iter().all(Result::is_err)
    }
    match answer {
        Answer::Refused(_) | Answer::Claimed(None) => true,
        Answer::Enqueued(each) => none(each),
        Answer::Settled(each) => none(each),
        Answer::Cancelled(each) => none(each),
        Answer::Retried(each) => none(each),
        Answer::Deleted(each) => none(each),
        Answer::Progressed(each) | Answer::Prioritised(each) => none(each),
        _ => false,
    }
}

/// The first answer, for a repeat. What a lease holds no more is not handed out by it again.
fn again<L: Ledger>(ledger: &L, mut answer: Answer) -> Answer {
    if let Answer::Claimed(Some(grant)) = &mut answer {
        let holder = |id| ledger.item(id).ok().flatten().and_then(|item| item.lease());
        grant.items.retain(|item| holder(item.id) == Some(grant.lease));
    }
    answer
}

fn run<L: Ledger>(ledger: &mut L, command: Command, now: Timestamp) -> Answer {
    if let Err(refusal) = check(&command) {
        return Answer::Refused(refusal);
    }
    match command {
        Command::Enqueue(items) => Answer::Enqueued(
            items.into_iter().map(|new| enqueue::enqueue(ledger, new, now)).collect(),
        ),
        Command::Claim(claim) => Answer::Claimed(claim::claim(ledger, &claim, now)),
        Command::Renew { lease, lease_ms } => {
            whole(ledger, now, |l| renew::renew(l, lease, lease_ms, now), Answer::Renewed)
        }
        Command::Progress { lease, items } => Answer::Progressed(
            items
                .into_iter()
                .map(|(id, p)| each(ledger, id, now, |l| renew::progress(l, lease, id, p, now)))
                .collect(),
        ),
        Command::Settle { lease, items } => Answer::Settled(
            items
                .into_iter()
                .map(|(id, outcome)| settle::settle(ledger, lease, id, outcome, now))
                .collect(),
        ),
        Command::Cancel { items } => {
            Answer::Cancelled(over(ledger, items, now, |l, id| cancel::cancel(l, id, now)))
        }
        Command::Retry { items, mode, from_stage } => Answer::Retried(
            items
                .into_iter()
                .map(|id| retry::retry(ledger, id, mode, from_stage.as_deref(), now))
                .collect(),
        ),
        Command::Delete { items } => {
            Answer::Deleted(items.into_iter().map(|id| sweep::delete(ledger, id, now)).collect())
        }
        Command::Prioritise { items, priority } => {
            Answer::Prioritised(over(ledger, items, now, |l, id| prioritise(l, id, priority)))
        }
        Command::Pause(scope) => pause(ledger, scope, true, now),
        Command::Resume(scope) => pause(ledger, scope, false, now),
        Command::Configure { queue, mut settings } => {
            settings.notify.clone_from(&ledger.settings(&queue).notify);
            done(ledger, Change::Settings { queue, settings }, now)
        }
        Command::Introduce { queue, settings } if !ledger.is_configured(&queue) => {
            done(ledger, Change::Settings { queue, settings }, now)
        }
        Command::Introduce { .. } => Answer::Done,
        Command::Notify { queue, webhook, wanted } => {
            notify::notify(ledger, queue, &webhook, wanted, now)
        }
        Command::Gate { resource, closed_until } => {
            let state = ledger.resource(&resource, true).closed_by_hand(closed_until, now);
            done(ledger, Change::Gate { resource, state: Some(state) }, now)
        }
        Command::Limit { resource, limits } => {
            let known = ledger.resource(&resource, true);
            let state = limits.map(|limits| known.limited(limits, now));
            done(ledger, Change::Gate { resource, state }, now)
        }
        Command::Blob { tenant, blob } => {
            let references = Some(ledger.blob(&tenant, &blob).unwrap_or(0));
            done(ledger, Change::Blob { tenant, blob, references }, now)
        }
        Command::ForgetBlob { tenant, blob } => match ledger.blob(&tenant, &blob) {
            Some(0) => done(ledger, Change::Blob { tenant, blob, references: None }, now),
            _ => Answer::Done,
        },
        Command::Note(write) => whole(ledger, now, |l| note::write(l, write, now), Answer::Noted),
        Command::Reclaim { limit } => Answer::Reclaimed(reclaim::reclaim(ledger, limit, now)),
        Command::Grace { until } => reclaim::grace(ledger, until, now),
        Command::Sweep { limit } => Answer::Swept(sweep::sweep(ledger, limit, now)),
    }
}

/// Refuses a command that names more than one step may handle, or what cannot be a name.
fn check(command: &Command) -> Result<(), Refusal> {
    let items = match command {
        Command::Enqueue(items) => items.len(),
        Command::Claim(claim) => claim.max,
        Command::Progress { items, .. } => items.len(),
        Command::Settle { items, .. } => items.len().max(bounds::created(items)),
        Command::Cancel { items }
        | Command::Retry { items, .. }
        | Command::Delete { items }
        | Command::Prioritise { items, .. } => items.len(),
        _ => 0,
    };
    if items > COMMAND_ITEMS_MAX {
        let why = format!("{items} items in one command; at most {COMMAND_ITEMS_MAX}, use slices");
        return Err(Refusal::invalid("items", why));
    }
    let bytes = weight(command);
    if bytes > COMMAND_BYTES_MAX {
        let why = format!("{bytes} bytes in one command; at most {COMMAND_BYTES_MAX}");
        return Err(Refusal::invalid("bytes", why));
    }
    if let Command::Prioritise { priority, .. } = command
        && *priority > PRIORITY_MAX
    {
        return Err(Refusal::invalid("priority", "must lie between 0 and 10"));
    }
    bounds::check_names(command)
}

/// Roughly how many bytes a command brings.
pub fn weight(command: &Command) -> usize {
    match command {
        Command::Enqueue(items) => items.iter().map(|new| new.body.weight()).sum(),
        Command::Settle { items, .. } => items.iter().map(|(_, outcome)| outcome.weight()).sum(),
        _ => 0,
    }
}

/// Runs a rule; a panic in it becomes a refusal.
pub(crate) fn guarded<T>(rule: impl FnOnce() -> Decision<T>) -> Decision<T> {
    catch_unwind(AssertUnwindSafe(rule)).unwrap_or(Err(Refusal::Internal))
}

/// Runs a rule about one item and applies what it decided. If the rule panics, the item is set
/// aside so that the next command does not run into the same.
pub(crate) fn each<L: Ledger, T>(
    ledger: &mut L,
    id: ItemId,
    now: Timestamp,
    rule: impl FnOnce(&L) -> Decision<T>,
) -> Result<T, Refusal> {
    match guarded(|| rule(ledger)) {
        Ok((answer, changes)) => {
            apply(ledger, changes, now);
            ledger.between();
            Ok(answer)
        }
        Err(Refusal::Internal) => {
            quarantine(ledger, id, now);
            Err(Refusal::Internal)
        }
        Err(refusal) => Err(refusal),
    }
}

fn over<L: Ledger, T>(
    ledger: &mut L,
    items: Vec<ItemId>,
    now: Timestamp,
    rule: impl Fn(&L, ItemId) -> Decision<T>,
) -> Vec<Result<T, Refusal>> {
    items.into_iter().map(|id| each(ledger, id, now, |l| rule(l, id))).collect()
}

fn whole<L: Ledger, T>(
    ledger: &mut L,
    now: Timestamp,
    rule: impl FnOnce(&L) -> Decision<T>,
    answer: impl FnOnce(T) -> Answer,
) -> Answer {
    match guarded(|| rule(ledger)) {
        Ok((value, changes)) => {
            apply(ledger, changes, now);
            answer(value)
        }
        Err(refusal) => Answer::Refused(refusal),
    }
}

pub(crate) fn apply<L: Ledger>(ledger: &mut L, changes: Changes, now: Timestamp) {
    let mut deliveries = Vec::new();
    for change in changes.0 {
        deliveries.extend(notify::deliveries(ledger, &change));
        ledger.apply(change, now);
    }
    notify::add(ledger, deliveries, now);
}

fn done<L: Ledger>(ledger: &mut L, change: Change, now: Timestamp) -> Answer {
    ledger.apply(change, now);
    Answer::Done
}

/// Sets an item aside, so that the next command does not run into the same.
pub(crate) fn quarantine<L: Ledger>(ledger: &mut L, id: ItemId, now: Timestamp) {
    let Ok(Some(item)) = ledger.item(id) else {
        return;
    };
    if !item.is_done() {
        let item = Item { marks: item.marks.with(Marks::QUARANTINED), ..item };
        ledger.apply(Change::Item { item, event: Event::Mark }, now);
    }
}

fn pause<L: Ledger>(ledger: &mut L, scope: Scope, paused: bool, now: Timestamp) -> Answer {
    done(ledger, Change::Paused { scope, paused }, now)
}

fn prioritise<L: Ledger>(ledger: &L, id: ItemId, priority: u8) -> Decision<()> {
    let item = known(ledger, id)?;
    if item.is_done() {
        return Err(Refusal::AlreadyDone { item: id, status: item.status() });
    }
    let mut changes = Changes::default();
    changes.item(Item { priority, ..item }, Event::Prioritise);
    Ok(((), changes))
}

/// An item that must exist.
pub(crate) fn known<L: Ledger>(ledger: &L, id: ItemId) -> Result<Item, Refusal> {
    ledger.item(id)?.ok_or(Refusal::NotFound { item: id })
}

/// Why something is not done to an item that has not ended, in the words that people see of it.
pub(crate) fn still_live<L: Ledger>(ledger: &L, item: &Item) -> Refusal {
    // It ends when what is below it has: nobody needs to cancel it.
    if item.has(Marks::CANCELLING) {
        return Refusal::UnderCancelled { ancestor: item.id };
    }
    Refusal::StillLive { item: item.id, status: shown(item, ledger.tally(item.id)) }
}

/// A number that tells one command from another, the same in every process.
fn fingerprint(command: &Command) -> u64 {
    struct Fold(u64);
    impl Hasher for Fold {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, bytes: &[u8]) {
            for chunk in bytes.chunks(8) {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                let mixed = self.0.rotate_left(23) ^ u64::from_le_bytes(word);
                self.0 = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            }
        }
    }
    let mut fold = Fold(0x77_69_6e_64_72_6f_77);
    command.hash(&mut fold);
    fold.finish()
}
