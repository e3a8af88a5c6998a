//! Submit: decide under the lock, wait for the disk without it, then answer.
//!
//! While one group syncs the next one fills, so groups adapt to the load by themselves. Every
//! answer, refusals included, waits for the group that it was decided in; only an empty claim does
//! not.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use windrow_core::change::Created;
use windrow_core::command::{Answer, Command, Outcome, Request};
use windrow_core::decide;
use windrow_core::limits::{COMMAND_ITEMS_MAX, ERROR_MAX, RETRY_AFTER_MS};
use windrow_core::planted::{Bug, is_planted};
use windrow_core::ports::{Happened, Ready, StoreError, Work};
use windrow_core::refusal::{Full, Refusal};
use windrow_core::{ItemId, Timestamp};

use super::codec::Pack;
use super::codec::record::tag;
use super::intake::Asking;
use super::outbox::Target;
use super::schedule::lanes::{LaneName, look};
use super::schedule::slab::Slot;
use super::sync::Promise;
use super::tables::Tables;
use super::work::Placed;
use super::{Embedded, Shared};

/// Callers wait once this many bytes are not durable yet.
const PENDING_BYTES_MAX: usize = 16 << 20;
/// What a command may write beyond what it brings.
const RESERVE_BYTES: usize = 64 << 10;
/// What one item of a command may write: its last record, its trail, its parent's counts.
const EACH_BYTES: usize = 1 << 10;
/// Whoever claimed so many items is woken before they are durable, to read them meanwhile.
const READ_EARLY: usize = 16;
/// Items of a batch that is small.
const SMALL_ITEMS: usize = 4;
/// The clock is written when it has moved by this much.
const CLOCK_MS: u64 = 1_000;

/// What was decided, before it is durable.
#[derive(Debug)]
pub(crate) struct Decided {
    pub(crate) answers: Vec<Answer>,
    /// What each claim handed out and where it lies.
    pub(crate) claimed: Vec<Vec<Placed>>,
    /// Whether everything that was claimed lies on disk already, so that it may be read at once.
    on_disk: bool,
    /// The group to wait for before answering, if any.
    wait_for: Option<u64>,
    /// Freed with the answer, by the caller's thread.
    #[expect(clippy::vec_box, reason = "they come in boxes, and moving them costs")]
    _spent: Vec<Box<Created>>,
}

impl Decided {
    fn claims(&self) -> usize {
        self.claimed.iter().map(Vec::len).sum()
    }
}

/// What came of a batch.
#[derive(Debug)]
pub(crate) enum Room {
    Decided(Decided),
    /// Too much is under way; there may be room once the group `next` is durable.
    None {
        back: Vec<Request>,
        next: u64,
    },
}

impl Room {
    /// The group whose caller has next to nothing to do before it is durable.
    pub(crate) fn idle_until(&self) -> Option<u64> {
        match self {
            Room::Decided(decided) => decided.wait_for.filter(|_| decided.claims() < READ_EARLY),
            Room::None { .. } => None,
        }
    }

    /// The group to wait for; zero for none.
    pub(crate) fn group(&self) -> u64 {
        match self {
            Room::Decided(decided) => decided.wait_for.unwrap_or(0),
            Room::None { .. } => 0,
        }
    }
}

/// Notices that wait for their group.
#[derive(Debug)]
pub(crate) struct Told {
    group: u64,
    ready: Vec<Ready>,
    happened: Vec<Happened>,
}

impl Embedded {
    pub(crate) async fn submit_batch(
        &self,
        batch: Vec<Request>,
        now: Timestamp,
    ) -> Result<Vec<Answer<Work>>, StoreError> {
        let (decided, promise) = self.decided(batch, now).await?;
        let wait_for = decided.wait_for;
        let durable = async || {
            let Some(group) = wait_for else { return Ok(()) };
            if let Some(promise) = promise {
                promise.keep(group).await;
            }
            let durable = self.shared.durable.until(group).await;
            durable.map_err(StoreError::OutcomeUnknown)
        };
        if decided.on_disk {
            // The disk is busy with the group anyway: read meanwhile, answer afterwards.
            let answers = self.complete(decided);
            durable().await?;
            return Ok(answers);
        }
        durable().await?;
        Ok(self.complete(decided))
    }

    /// Decides a batch, once not too much is under way.
    async fn decided(
        &self,
        mut batch: Vec<Request>,
        now: Timestamp,
    ) -> Result<(Decided, Option<Promise<'_>>), StoreError> {
        let promises = self.shared.may_promise() && is_small(&batch);
        loop {
            let (room, promise) = Asking::new(&self.shared, batch, now, promises).await?;
            match room {
                Room::Decided(decided) => return Ok((decided, promise)),
                Room::None { back, next } => {
                    batch = back;
                    self.shared.durable.until(next).await.map_err(StoreError::Poisoned)?;
                }
            }
        }
    }
}

/// Whether waking another thread costs more than deciding all of this.
fn is_small(batch: &[Request]) -> bool {
    batch.iter().map(|request| request.command.items()).sum::<usize>() <= SMALL_ITEMS
}

/// Whether these answers must not be given before their group is durable.
fn must_wait(answers: &[Answer]) -> bool {
    if is_planted(Bug::AckBeforeSync) {
        return false;
    }
    if is_planted(Bug::AnswerBeforeGroup) && answers.iter().all(is_refusal) {
        return false;
    }
    !answers.iter().all(|answer| matches!(answer, Answer::Claimed(None)))
}

fn is_refusal(answer: &Answer) -> bool {
    match answer {
        Answer::Refused(_) => true,
        Answer::Settled(each) => each.iter().all(Result::is_err),
        Answer::Enqueued(each) => each.iter().all(|one| {
            !matches!(one, Ok(enqueued)
                if enqueued.outcome == windrow_core::command::EnqueueOutcome::Created)
        }),
        _ => false,
    }
}

impl Shared {
    /// Decides a batch and leaves its records in the open group, which the syncer or whoever
    /// promises it must write.
    pub(crate) fn decide(&self, batch: Vec<Request>, now: Timestamp) -> Result<Room, StoreError> {
        let mut tables = self.tables.lock();
        if let Some(why) = self.durable.poisoned() {
            return Err(StoreError::Poisoned(why));
        }
        // Under the lock of the tables: what was decided before it is synced, and nothing after it
        // is decided.
        if self.is_stopping() {
            return Err(StoreError::Closed);
        }
        if let Some(next) = tables.must_wait_for_room() {
            return Ok(Room::None { back: batch, next });
        }
        let run = AssertUnwindSafe(|| tables.run(batch, now));
        let Ok(decided) = catch_unwind(run) else {
            let why = "a change could not be applied; memory and log may differ";
            self.poison(why);
            return Err(StoreError::Poisoned(why.into()));
        };
        let group = tables.observed();
        let tells = tables.tell_later(group);
        drop(tables);
        if tells && self.durable.reached() >= group {
            // It was durable before the syncer could know what to tell.
            self.tell();
        }
        Ok(Room::Decided(decided))
    }

    /// Tells the listener what became durable, in order.
    pub(crate) fn tell(&self) {
        let Some(listener) = self.listener.read().clone() else { return };
        // Held while the listener is told, so that nobody overtakes.
        let mut told = self.told.lock();
        let reached = self.durable.reached();
        while told.front().is_some_and(|told| told.group <= reached)
            && let Some(told) = told.pop_front()
        {
            if !told.happened.is_empty() {
                listener.happened(&told.happened);
            }
            if !told.ready.is_empty() {
                listener.ready(&told.ready);
            }
        }
    }
}

impl Tables {
    fn run(&mut self, batch: Vec<Request>, now: Timestamp) -> Decided {
        let now = now.max(self.now);
        self.now = now;
        if now.since(self.clock_written) >= CLOCK_MS {
            self.clock_written = now;
            self.out.push(tag::CLOCK, Target::Nobody, |out| now.put(out));
        }
        let mut answers = Vec::with_capacity(batch.len());
        let mut claimed: Vec<Vec<Placed>> = Vec::new();
        for request in batch {
            if let Err(full) = self.reserve(&request.command) {
                answers.push(Answer::Refused(full));
                continue;
            }
            match &request.command {
                Command::Settle { items, .. } => self.warm_settle(items),
                Command::Claim(claim) if (2..=COMMAND_ITEMS_MAX).contains(&claim.max) => {
                    self.warm_claim(claim);
                }
                _ => {}
            }
            let answer = decide(self, request, now);
            self.flush_or_stop();
            if let Answer::Claimed(Some(grant)) = &answer {
                claimed.push(self.place(grant));
            }
            answers.push(answer);
        }
        let newest = claimed.iter().flatten().filter_map(Placed::newest);
        let on_disk = newest.max().is_none_or(|newest| self.writer().peek(newest).is_none());
        let wait_for = must_wait(&answers).then(|| self.observed());
        let _spent = std::mem::take(&mut self.spent);
        Decided { answers, claimed, on_disk, wait_for, _spent }
    }

    /// Looks at items that are about to end, so that the processor fetches them all at once instead
    /// of one after the other.
    fn warm_settle(&self, items: &[(ItemId, Outcome)]) {
        let live = items.iter().filter_map(|(id, _)| self.find_live(*id));
        let slots: Vec<&Slot> = live.map(|no| self.slab.get(no)).collect();
        let keyed = slots.iter().map(|slot| self.slab.with_key(slot.key, |_| true).is_some());
        look(keyed.map(u64::from));
        look(slots.iter().map(|slot| u64::from(self.lanes.group_load(slot))));
        let names = slots.iter().filter_map(|slot| self.groups.name(slot.group));
        look(names.filter_map(|name| name.bytes().next()).map(u64::from));
    }

    /// The group after which there may be room again, if too much is under way now.
    fn must_wait_for_room(&self) -> Option<u64> {
        let writer = self.writer();
        (writer.pending_bytes() >= PENDING_BYTES_MAX).then(|| writer.durable() + 1)
    }

    /// Makes sure that what a command writes will find room, before anything is decided.
    fn reserve(&mut self, command: &Command) -> Result<(), Refusal> {
        let most = self.command_bytes_max;
        let brought = windrow_core::rules::weight(command);
        if brought + RESERVE_BYTES.min(most / 8) > most {
            let why = format!("{brought} bytes in one command; a segment here holds {most}");
            return Err(Refusal::invalid("bytes", why));
        }
        let bytes = brought + RESERVE_BYTES.min(most / 8);
        let at_most = (bytes + self.beyond(command)).min(most);
        let begun = {
            let mut writer = self.writer();
            // Only if there is no other segment to go to must this one have room for the worst.
            let ready = if writer.is_ready_for(at_most) { Ok(()) } else { writer.begin(at_most) };
            ready.and_then(|()| writer.begin(bytes))
        };
        match begun {
            Ok(()) => Ok(()),
            Err(error) if error.is_failed_sync() && !error.is_full() => self.stop(&error),
            Err(_) => Err(Refusal::StoreFull { what: Full::Disk, retry_after_ms: RETRY_AFTER_MS }),
        }
    }

    /// Roughly, and rather too much, what a command writes beyond what it brings. Too little is
    /// harmless until the disk is full and the reserve used up; then it would stop the store.
    fn beyond(&self, command: &Command) -> usize {
        // An error is kept with its stage and with its attempt.
        let said = |outcome: &Outcome| match outcome {
            Outcome::Retry { message, .. } | Outcome::Fail { message, .. } => {
                2 * message.len().min(ERROR_MAX)
            }
            Outcome::Skip { reason } => reason.len().min(ERROR_MAX),
            _ => 0,
        };
        match command {
            Command::Enqueue(items) => items.len() * EACH_BYTES / 2,
            Command::Claim(claim) => claim.max.min(COMMAND_ITEMS_MAX) * EACH_BYTES / 8,
            Command::Settle { items, .. } => {
                items.iter().map(|(_, outcome)| EACH_BYTES + said(outcome)).sum()
            }
            Command::Cancel { items }
            | Command::Retry { items, .. }
            | Command::Delete { items }
            | Command::Prioritise { items, .. } => items.len() * EACH_BYTES,
            Command::Reclaim { .. } => self.leases.expired_items(self.now) * EACH_BYTES,
            Command::Grace { .. } => self.leases.iter().count() * EACH_BYTES / 4,
            Command::Sweep { limit } => (*limit).min(COMMAND_ITEMS_MAX) * EACH_BYTES,
            _ => 0,
        }
    }

    /// The newest group that holds something which is visible now.
    pub(crate) fn observed(&self) -> u64 {
        let writer = self.writer();
        writer.group_no() - u64::from(writer.open_bytes() == 0)
    }

    /// Keeps what listeners are to be told until its group is durable.
    /// Says whether there is anything to tell.
    pub(crate) fn tell_later(&mut self, group: u64) -> bool {
        if !self.notices.wanted {
            return false;
        }
        // In a fixed order: who is woken first must not hang on a hash.
        let mut counts: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        for ready in self.lanes.ready.drain(..) {
            *counts.entry(ready).or_default() += 1;
        }
        // What a pause or a closed resource holds back is told when that ends.
        counts.retain(|(lane, tenant), _| {
            let LaneName { queue, stage, .. } = self.lanes.get(*lane).name;
            self.is_open(*lane, self.now)
                && !self.pauses.tenants.contains(&(queue, *tenant))
                && !self.pauses.cells.contains(&(queue, stage, *tenant))
        });
        let ready = counts.into_iter().map(|((lane, tenant), count)| {
            let lane = self.lanes.get(lane).name;
            let text = |no: u32| Arc::clone(self.names.text(no));
            let (queue, stage, kind) = (text(lane.queue), text(lane.stage), text(lane.kind));
            Ready { queue, stage, kind, tenant: text(tenant), count }
        });
        let ready: Vec<Ready> = ready.collect();
        let happened = std::mem::take(&mut self.notices.happened);
        let tells = !ready.is_empty() || !happened.is_empty();
        if tells {
            self.told.lock().push_back(Told { group, ready, happened });
        }
        tells
    }
}
