//! Settle: the holder of a lease reports how the work ended.
//!
//! Sees one item and its lease. Writes that item, its trail, and through [`super::roll_up`] its
//! ancestors. Leaves out retries of the *caller*: a settle repeated with the lease that settled
//! gets its first answer again, and one that says something else is refused.

use crate::change::{Change, Changes, Lease};
use crate::command::{NewItem, Outcome, Settled};
use crate::id::{ItemId, LeaseId};
use crate::item::{End, Item, Marks, State, Status};
use crate::ledger::Ledger;
use crate::limits::{DELAY_MAX_MS, RESULT_MAX};
use crate::planted::{Bug, is_planted};
use crate::refusal::Refusal;
use crate::resource;
use crate::retry::delay_ms;
use crate::rules::retry::leave_children;
use crate::rules::roll_up::{Moved, roll_up};
use crate::rules::{Decision, each, enqueue, known, split};
use crate::tally::Tally;
use crate::time::Timestamp;
use crate::trail::{Attempt, Class, Ending, Fault, Trail};
use crate::transitions::Event;

/// Ends one attempt.
pub fn settle<L: Ledger>(
    ledger: &mut L,
    lease: LeaseId,
    id: ItemId,
    outcome: Outcome,
    now: Timestamp,
) -> Result<Settled, Refusal> {
    let report = resource::reported(ledger, lease, id, &outcome);
    let settled = end_attempt(ledger, lease, id, outcome, now)?;
    if let Some((name, report)) = report {
        resource::hear(ledger, name, report, now);
    }
    Ok(settled)
}

fn end_attempt<L: Ledger>(
    ledger: &mut L,
    lease: LeaseId,
    id: ItemId,
    outcome: Outcome,
    now: Timestamp,
) -> Result<Settled, Refusal> {
    match outcome {
        Outcome::Split { children, more, on_gaps, output } => {
            let ids: Vec<ItemId> = children.iter().map(|_| ledger.next_id(now)).collect();
            let slice = split::Slice { children, ids, more, on_gaps, output };
            each(ledger, id, now, |l| split::split(l, lease, id, slice, now))
        }
        Outcome::Complete { result, output, spawn } => {
            let spawn = to_spawn(ledger, lease, id, spawn, now)?;
            let outcome = Outcome::Complete { result, output, spawn: Vec::new() };
            let settled = each(ledger, id, now, |l| decide(l, lease, id, outcome, now))?;
            spawn_all(ledger, spawn, now);
            Ok(settled)
        }
        outcome => each(ledger, id, now, |l| decide(l, lease, id, outcome, now)),
    }
}

/// What a completed item spawns, if it is sound: nothing when it was settled before.
fn to_spawn<L: Ledger>(
    ledger: &L,
    lease: LeaseId,
    id: ItemId,
    spawn: Vec<NewItem>,
    now: Timestamp,
) -> Result<Vec<NewItem>, Refusal> {
    if spawn.is_empty() || matches!(holder(ledger, lease, id, now)?, Holder::Settled(_)) {
        return Ok(Vec::new());
    }
    for new in &spawn {
        enqueue::validate(new, now)?;
        enqueue::check_blob(ledger, &new.body)?;
    }
    Ok(spawn)
}

/// Enqueues what a completed item spawned. It was validated; a key in use coalesces.
fn spawn_all<L: Ledger>(ledger: &mut L, spawn: Vec<NewItem>, now: Timestamp) {
    for new in spawn {
        let _outcome_is_in_the_ledger = enqueue::insert(ledger, new, now);
    }
}

fn decide<L: Ledger>(
    ledger: &L,
    lease: LeaseId,
    id: ItemId,
    outcome: Outcome,
    now: Timestamp,
) -> Decision<Settled> {
    let (item, lease) = match holder(ledger, lease, id, now)? {
        Holder::Current(item, lease) => (item, lease),
        Holder::Settled(ending) => return again(id, ending, endings(&outcome)),
    };
    let mut step = Step::new(ledger, item, lease, now)?;
    let ending = match outcome {
        Outcome::Complete { result, output, .. } => step.complete(result, output)?,
        Outcome::Retry { class, message, delay_ms } => step.retry(class, message, delay_ms),
        Outcome::Fail { class, message } => step.fail(Fault::new(class, message)),
        Outcome::Skip { reason } => step.skip(reason),
        Outcome::Release { delay_ms } => {
            step.defer(Ending::Released, now.plus(delay_ms.min(DELAY_MAX_MS)))
        }
        Outcome::Snooze { until } => step.defer(Ending::Snoozed, until.min(now.plus(DELAY_MAX_MS))),
        Outcome::Split { .. } => unreachable!("a split has its own rule"),
    };
    Ok((Settled { id, ending }, step.finish(ending)?))
}

/// How an attempt can end that is settled like this.
fn endings(outcome: &Outcome) -> &'static [Ending] {
    use Ending::{Completed, Failed, Released, Retried, Skipped, Snoozed, Split};
    match outcome {
        Outcome::Complete { .. } => &[Completed, Split],
        Outcome::Split { .. } => &[Split],
        Outcome::Retry { .. } => &[Retried, Failed, Released],
        Outcome::Fail { .. } => &[Failed],
        Outcome::Skip { .. } => &[Skipped, Split],
        Outcome::Release { .. } => &[Released, Retried, Failed],
        Outcome::Snooze { .. } => &[Snoozed, Retried, Failed],
    }
}

/// The first answer again, unless it cannot be the answer to what is said now: then somebody has
/// changed their mind, and what was settled stands.
pub(crate) fn again(id: ItemId, ending: Ending, may_be: &[Ending]) -> Decision<Settled> {
    if !may_be.contains(&ending) {
        let why = format!("this lease has settled it before, as {}; that stands", ending.name());
        return Err(Refusal::invalid("outcome", why));
    }
    Ok((Settled { id, ending }, Changes::default()))
}

/// Who asks to settle.
#[expect(clippy::large_enum_variant, reason = "it lives for one call")]
pub(crate) enum Holder {
    /// The one that holds the item now.
    Current(Item, Lease),
    /// One that settled it before, and how that attempt ended.
    Settled(Ending),
}

/// Whether a lease may write an item now (Q2).
pub(crate) fn holder<L: Ledger>(
    ledger: &L,
    id: LeaseId,
    item: ItemId,
    now: Timestamp,
) -> Result<Holder, Refusal> {
    let item = known(ledger, item)?;
    let lost = Refusal::LeaseLost { lease: id };
    if is_planted(Bug::SettleWithoutLease)
        && let Some(other) = item.lease().and_then(|other| ledger.lease(other))
    {
        return Ok(Holder::Current(item, other));
    }
    if item.lease() == Some(id) {
        let lease = ledger.lease(id).ok_or(lost.clone())?;
        let late = lease.expires <= now && !is_planted(Bug::SettleAfterExpiry);
        return if late { Err(lost) } else { Ok(Holder::Current(item, lease)) };
    }
    if !item.has(Marks::TRAIL) {
        return Err(lost);
    }
    match ledger.trail(&item)?.under(id) {
        Some(attempt) if !matches!(attempt.ending, Ending::Expired | Ending::Cancelled) => {
            Ok(Holder::Settled(attempt.ending))
        }
        _ => Err(lost),
    }
}

/// One step of one leased item, while it is decided.
pub(crate) struct Step<'a, L> {
    ledger: &'a L,
    before: Item,
    pub(crate) item: Item,
    lease: Lease,
    pub(crate) trail: Trail,
    event: Event,
    error: Option<Fault>,
    now: Timestamp,
}

impl<'a, L: Ledger> Step<'a, L> {
    pub(crate) fn new(
        ledger: &'a L,
        item: Item,
        lease: Lease,
        now: Timestamp,
    ) -> Result<Step<'a, L>, Refusal> {
        assert!(item.attempts >= 1, "Q4: a leased item has been attempted");
        let trail = ledger.trail(&item)?;
        let event = Event::Complete;
        Ok(Step { ledger, before: item, item, lease, trail, event, error: None, now })
    }

    fn complete(
        &mut self,
        result: Option<Vec<u8>>,
        output: Option<Vec<u8>>,
    ) -> Result<Ending, Refusal> {
        check_len("result", result.as_deref())?;
        check_len("output", output.as_deref())?;
        if result.is_some() {
            self.trail.result = result;
        }
        let record = self.trail.stage_mut(self.item.stage);
        record.output = output;
        record.error = None;
        if self.is_slicing() {
            return Ok(self.last_slice());
        }
        self.advance(Event::Complete);
        Ok(Ending::Completed)
    }

    /// Whether children of this very stage were created and more of them announced.
    fn is_slicing(&self) -> bool {
        let announced = |tally: &Tally| tally.more && tally.stage == self.item.stage;
        self.item.has(Marks::PARENT) && self.ledger.tally(self.item.id).is_some_and(announced)
    }

    /// More slices were announced; ending the attempt says that the one before was the last.
    fn last_slice(&mut self) -> Ending {
        self.event = Event::Split;
        self.item.state = State::Split;
        Ending::Split
    }

    fn skip(&mut self, reason: String) -> Ending {
        self.trail.reason = Some(Fault::new(Class::Other, reason).message);
        if self.is_slicing() {
            return self.last_slice();
        }
        self.item.skipped |= 1 << self.item.stage;
        self.advance(Event::Skip);
        Ending::Skipped
    }

    /// On to the next stage, or to the end.
    fn advance(&mut self, event: Event) {
        let stages = self.ledger.route(&self.item).len();
        let next = self.item.stage + 1;
        if usize::from(next) < stages {
            self.event = if event == Event::Complete { Event::Advance } else { event };
            self.item = entering(self.item, next, self.now);
            return;
        }
        self.event = event;
        let all_skipped = self.item.skipped.count_ones() as usize == stages;
        let end = if all_skipped { End::Skipped } else { End::Completed };
        self.item.state = State::Done(end);
    }

    fn retry(&mut self, class: Class, message: String, delay: Option<u64>) -> Ending {
        let fault = Fault::new(class, message);
        if class.is_permanent() {
            return self.fail(fault);
        }
        let policy = self.ledger.policy(&self.item);
        let attempts = self.item.attempts;
        let own = delay_ms(&policy.backoff, class, attempts, self.item.id);
        let until = self.now.plus(delay.unwrap_or(own).min(DELAY_MAX_MS));
        // What a shared resource did not do is not the item's fault.
        let is_down = class == Class::Infrastructure && policy.resource.is_some();
        if class == Class::RateLimit || is_down {
            self.error = Some(fault);
            return self.defer(Ending::Released, until);
        }
        if policy.max_attempts > 0 && attempts >= policy.max_attempts {
            return self.fail(fault);
        }
        self.error = Some(fault);
        self.wait(Event::Retry, until);
        Ending::Retried
    }

    pub(crate) fn fail(&mut self, fault: Fault) -> Ending {
        self.error = Some(fault);
        self.event = Event::Fail;
        self.item.state = State::Done(End::Failed);
        Ending::Failed
    }

    /// Back in line with the attempt given back; beyond the limit it costs one after all.
    fn defer(&mut self, ending: Ending, until: Timestamp) -> Ending {
        let limit = self.ledger.policy(&self.item).deferrals_max;
        if self.item.deferrals >= limit {
            let message = format!("deferred more than {limit} times");
            return self.retry(Class::Other, message, Some(until.since(self.now)));
        }
        let event = if ending == Ending::Snoozed { Event::Snooze } else { Event::Release };
        let again = self.item.has(Marks::RETRYING);
        self.item.attempts -= 1;
        self.item.deferrals += 1;
        self.wait(event, until);
        if !again {
            self.item.marks = self.item.marks.without(Marks::RETRYING);
        }
        ending
    }

    pub(crate) fn wait(&mut self, event: Event, until: Timestamp) {
        self.event = event;
        self.item.state = State::Pending { not_before: until };
        self.item.marks = self.item.marks.with(Marks::RETRYING);
    }

    pub(crate) fn because(&mut self, event: Event) {
        self.event = event;
    }

    pub(crate) fn error(&mut self, fault: Fault) {
        self.error = Some(fault);
    }

    /// Ends the attempt of an item that was split, with its counts before and after.
    pub(crate) fn wait_for_children(
        mut self,
        before: Option<Tally>,
        after: Tally,
        changes: &mut Changes,
    ) -> Result<(), Refusal> {
        self.item.marks = self.item.marks.without(Marks::ALONE).with(Marks::TRAIL);
        record(&mut self.trail, &self.before, &self.lease, Ending::Split, None, self.now);
        let moved = Moved {
            before: Some(self.before),
            after: self.item,
            tally_before: before.map(Box::new),
            tally_after: Some(Box::new(after)),
        };
        roll_up(self.ledger, moved, Event::Split, Some(self.trail), self.now, changes)
    }

    /// Writes the attempt into the trail and says what changes.
    pub(crate) fn finish(mut self, ending: Ending) -> Result<Changes, Refusal> {
        let alone = matches!(ending, Ending::Expired);
        if !alone {
            self.item.marks = self.item.marks.without(Marks::ALONE);
        }
        self.item.marks = self.item.marks.with(Marks::TRAIL);
        let error = self.error.take();
        record(&mut self.trail, &self.before, &self.lease, ending, error, self.now);
        let mut changes = Changes::default();
        self.correct_record();
        if self.item.is_done() {
            end(
                self.ledger,
                &mut self.item,
                self.ledger.tally(self.before.id),
                &mut self.trail,
                self.now,
                &mut changes,
            )?;
        }
        let mut moved = Moved::new(self.ledger, Some(self.before), self.item);
        let forgotten = self.is_forgotten();
        if self.event == Event::Split
            && let Some(tally) = &mut moved.tally_after
        {
            tally.more = false;
        }
        let trail = self.trail;
        roll_up(self.ledger, moved, self.event, Some(trail), self.now, &mut changes)?;
        if forgotten {
            forget(self.ledger, &self.before, &mut changes)?;
        }
        Ok(changes)
    }

    /// Lets the stage's record agree with the item where its attempt's ending does not tell: an
    /// attempt that was given back, or the expiry of the last one.
    fn correct_record(&mut self) {
        let record = self.trail.stage_mut(self.before.stage);
        if self.item.stage == self.before.stage {
            record.attempts = self.item.attempts;
        }
        if self.item.state == State::Done(End::Failed) {
            record.status = Status::Failed;
            record.completed = Some(self.now);
        }
    }

    /// Whether its queue keeps nothing of an item that ends like this.
    fn is_forgotten(&self) -> bool {
        let plain = self.item.is_root() && !self.item.has(Marks::PARENT);
        plain
            && self.item.generation == 0
            && self.item.state == State::Done(End::Completed)
            && self.ledger.settings_of(&self.item).forget_completed
    }
}

/// Takes an ended item away together with its claim on a blob.
pub(crate) fn forget<L: Ledger>(
    ledger: &L,
    item: &Item,
    changes: &mut Changes,
) -> Result<(), Refusal> {
    if item.has(Marks::BLOB) {
        enqueue::refer(ledger, &ledger.body(item)?, -1, changes);
    }
    changes.push(Change::Remove { id: item.id });
    Ok(())
}

/// An item at the start of a stage: nothing tried yet.
pub(crate) fn entering(item: Item, stage: u8, now: Timestamp) -> Item {
    let marks = item.marks.without(Marks::RETRYING).without(Marks::ALONE);
    let state = State::Pending { not_before: now };
    Item { stage, state, attempts: 0, deferrals: 0, marks, ..item }
}

/// What ending brings with it: children left behind, the successor's turn, the time. `tally` is
/// what the item knows of its children at that moment.
pub(crate) fn end<L: Ledger>(
    ledger: &L,
    item: &mut Item,
    tally: Option<&Tally>,
    trail: &mut Trail,
    now: Timestamp,
    changes: &mut Changes,
) -> Result<(), Refusal> {
    trail.finished_at = Some(now);
    let unfinished = tally.is_some_and(|tally| !tally.is_over());
    if item.has(Marks::PARENT) && unfinished {
        // It failed while its children still run: they belong to a generation that is over.
        leave_children(item, changes);
    }
    if item.has(Marks::SUCCEEDED) {
        item.marks = item.marks.without(Marks::SUCCEEDED);
        let lost =
            is_planted(Bug::SuccessorLostOnFailure) && item.state == State::Done(End::Failed);
        if let Some(next) = ledger.successor(item.id).filter(|_| !lost) {
            promote(ledger, next, changes)?;
        }
        changes.push(Change::Successor { of: item.id, is: None });
    }
    Ok(())
}

fn promote<L: Ledger>(ledger: &L, next: ItemId, changes: &mut Changes) -> Result<(), Refusal> {
    let next = ledger.item(next)?.ok_or(Refusal::Internal)?;
    if let State::Held { not_before } = next.state {
        changes.item(Item { state: State::Pending { not_before }, ..next }, Event::Promote);
    }
    Ok(())
}

/// Adds how an attempt ended to the trail.
pub(crate) fn record(
    trail: &mut Trail,
    item: &Item,
    lease: &Lease,
    ending: Ending,
    error: Option<Fault>,
    now: Timestamp,
) {
    let status = match ending {
        Ending::Completed | Ending::Split => Status::Completed,
        Ending::Failed => Status::Failed,
        Ending::Skipped => Status::Skipped,
        Ending::Cancelled => Status::Cancelled,
        Ending::Retried | Ending::Released | Ending::Snoozed | Ending::Expired => Status::Pending,
    };
    let stage = trail.stage_mut(item.stage);
    stage.status = status;
    stage.attempts = item.attempts;
    stage.worker = Some(lease.worker.clone());
    stage.started = Some(lease.granted);
    stage.renewed = (lease.renewed > lease.granted).then_some(lease.renewed);
    stage.completed = (status != Status::Pending).then_some(now);
    if error.is_some() {
        stage.error.clone_from(&error);
    }
    trail.log(Attempt {
        stage: item.stage,
        number: item.attempts,
        lease: lease.id,
        worker: lease.worker.clone(),
        started: lease.granted,
        ended: now,
        ending,
        error,
    });
    trail.progress = None;
}

pub(crate) fn check_len(field: &'static str, bytes: Option<&[u8]>) -> Result<(), Refusal> {
    match bytes {
        Some(bytes) if bytes.len() > RESULT_MAX => {
            let why = format!("has {} bytes; at most {RESULT_MAX}", bytes.len());
            Err(Refusal::invalid(field, why))
        }
        _ => Ok(()),
    }
}
