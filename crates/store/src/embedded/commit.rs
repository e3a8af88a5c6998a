//! Submit: decide under the lock, wait for the disk without it, then answer.
//!
//! While one group syncs the next one fills, so groups adapt to the load by themselves. Every
//! answer, refusals included, waits for the group that it was decided in; only an empty claim does
//! not.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use windrow_core::command::{Answer, Command, Grant, Outcome, Request};
use windrow_core::decide;
use windrow_core::item::{Item, Marks};
use windrow_core::limits::{ERROR_MAX, RETRY_AFTER_MS};
use windrow_core::planted::{Bug, is_planted};
use windrow_core::ports::{Happened, Ready, StoreError, Work};
use windrow_core::refusal::{Full, Refusal};
use windrow_core::rules::settle::settle;
use windrow_core::trail::Trail;
use windrow_core::transitions::Event;
use windrow_core::{Change, Ledger, Timestamp};

use super::codec::body::get_body;
use super::codec::record::tag;
use super::codec::{Malformed, Pack, Reader};
use super::log::{Loc, LogError, Segments};
use super::outbox::Target;
use super::schedule::lanes::LaneName;
use super::schedule::names::Names;
use super::tables::Tables;
use super::{Embedded, Shared};

/// Callers wait once this many bytes are not durable yet.
const PENDING_BYTES_MAX: usize = 16 << 20;
/// What a command may write beyond what it brings.
const RESERVE_BYTES: usize = 64 << 10;
/// What one item of a command may write: its last record, its trail, its parent's counts.
const EACH_BYTES: usize = 1 << 10;
/// The clock is written when it has moved by this much.
const CLOCK_MS: u64 = 1_000;

/// What was decided, before it is durable.
struct Decided {
    answers: Vec<Answer>,
    /// What each claim handed out and where it lies.
    claimed: Vec<Vec<Placed>>,
    /// Whether everything that was claimed lies on disk already, so that it may be read at once.
    on_disk: bool,
    group: u64,
}

/// What came of a batch.
enum Room {
    Decided(Decided),
    /// Too much is under way; there may be room once the group `next` is durable.
    None {
        back: Vec<Request>,
        next: u64,
    },
}

/// An item that was handed out, and where to read it.
struct Placed {
    item: Item,
    body: Option<Loc>,
    trail: Option<Loc>,
    stage: Arc<str>,
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
        let decided = self.decided(batch, now).await?;
        let (group, must_wait) = (decided.group, self.must_wait(&decided.answers));
        let durable = async || {
            let unknown = |why: String| StoreError::OutcomeUnknown(why);
            if must_wait { self.shared.durable.until(group).await.map_err(unknown) } else { Ok(()) }
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
    ) -> Result<Decided, StoreError> {
        loop {
            match self.shared.decide(batch, now)? {
                Room::Decided(decided) => return Ok(decided),
                Room::None { back, next } => {
                    batch = back;
                    self.shared.durable.until(next).await.map_err(StoreError::Poisoned)?;
                }
            }
        }
    }

    fn must_wait(&self, answers: &[Answer]) -> bool {
        if is_planted(Bug::AckBeforeSync) {
            return false;
        }
        if is_planted(Bug::AnswerBeforeGroup) && answers.iter().all(is_refusal) {
            return false;
        }
        !answers.iter().all(|answer| matches!(answer, Answer::Claimed(None)))
    }

    /// Turns what was claimed into work, by reading bodies. Happens without the lock.
    fn complete(&self, decided: Decided) -> Vec<Answer<Work>> {
        let mut claimed = decided.claimed.into_iter();
        let complete = |answer: Answer| {
            let done: Result<Answer<Work>, std::convert::Infallible> = answer.map(|grant| {
                let placed = claimed.next().unwrap_or_default();
                let items = self.read_all(placed);
                Ok(Grant { lease: grant.lease, expires_at: grant.expires_at, items })
            });
            match done {
                Ok(answer) => answer,
                Err(never) => match never {},
            }
        };
        decided.answers.into_iter().map(complete).collect()
    }

    fn read_all(&self, placed: Vec<Placed>) -> Vec<Work> {
        let mut scratch = Vec::new();
        let mut items = Vec::with_capacity(placed.len());
        for mut placed in placed {
            match self.read_one(&mut placed, &mut scratch) {
                Ok(work) => items.push(work),
                Err(Unread::Moved) => {}
                Err(Unread::Damaged(what)) => self.shared.quarantine(&placed.item, &what),
            }
        }
        items
    }
}

impl Embedded {
    /// Reads an item that was handed out. Its record may have been moved while the disk was waited
    /// for; then it is looked up again, unless the item is gone by now.
    fn read_one(&self, placed: &mut Placed, scratch: &mut Vec<u8>) -> Result<Work, Unread> {
        loop {
            // The names are let go before the tables are locked: whoever has the tables may be
            // waiting to add a name.
            let read = {
                let names = self.shared.names.read();
                read_work(&self.shared.segments, &names, placed, scratch)
            };
            match read {
                Err(Unread::Moved) => {
                    let tables = self.shared.tables.lock();
                    let no = tables.find_live(placed.item.id).ok_or(Unread::Moved)?;
                    let slot = tables.slab.get(no);
                    if (placed.body, placed.trail) == (slot.body, slot.trail) {
                        return Err(Unread::Damaged("its segment is gone".into()));
                    }
                    (placed.body, placed.trail) = (slot.body, slot.trail);
                }
                read => return read,
            }
        }
    }
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

/// Why an item that was handed out could not be read.
enum Unread {
    /// Its segment was dropped after what lives in it was moved.
    Moved,
    Damaged(String),
}

impl From<LogError> for Unread {
    fn from(error: LogError) -> Unread {
        match error {
            LogError::Dropped { .. } => Unread::Moved,
            error => Unread::Damaged(error.to_string()),
        }
    }
}

impl From<Malformed> for Unread {
    fn from(malformed: Malformed) -> Unread {
        Unread::Damaged(malformed.to_string())
    }
}

fn read_work(
    segments: &Segments,
    names: &Names,
    placed: &Placed,
    scratch: &mut Vec<u8>,
) -> Result<Work, Unread> {
    let at = placed.body.ok_or_else(|| Unread::Damaged("it has no place".into()))?;
    let (_, body) = get_body(segments.read(at, scratch)?.bytes, names)?;
    let mut input = None;
    if placed.item.stage > 0
        && let Some(at) = placed.trail
    {
        let from = &mut Reader::new(segments.read(at, scratch)?.bytes);
        from.serial()?;
        let trail: Trail = from.get()?;
        input = trail.input_of(placed.item.stage).map(<[u8]>::to_vec);
    }
    Ok(Work { item: placed.item, body, stage: placed.stage.clone(), input })
}

impl Shared {
    /// Decides a batch and leaves its records in the open group.
    fn decide(&self, batch: Vec<Request>, now: Timestamp) -> Result<Room, StoreError> {
        let mut tables = self.tables.lock();
        if let Some(why) = self.durable.poisoned() {
            return Err(StoreError::Poisoned(why));
        }
        if tables.writer().pending_bytes() >= PENDING_BYTES_MAX {
            return Ok(Room::None { back: batch, next: tables.writer().durable() + 1 });
        }
        let run = AssertUnwindSafe(|| tables.run(batch, now));
        let Ok(decided) = catch_unwind(run) else {
            let why = "a change could not be applied; memory and log may differ";
            self.poison(why);
            return Err(StoreError::Poisoned(why.into()));
        };
        drop(tables);
        self.filled.notify_one();
        Ok(Room::Decided(decided))
    }

    /// An item whose record is damaged goes out of reach, loudly. It goes back as if its holder had
    /// released it, so that what is above it still counts right.
    fn quarantine(&self, item: &Item, what: &str) {
        let mut tables = self.tables.lock();
        let (id, now) = (item.id, tables.now);
        tables.unhealthy.replace(Some(format!("item {id} is unreadable: {what}")));
        let held = tables.find_live(id).map(|no| tables.item_in(no));
        if let Some(held) = held.filter(|held| held.lease() == item.lease())
            && let Some(lease) = held.lease()
            && self.durable.poisoned().is_none()
        {
            let item = Item { marks: held.marks.with(Marks::QUARANTINED), ..held };
            tables.apply(Change::Item { item, event: Event::Mark }, now);
            let release = Outcome::Release { delay_ms: 0 };
            // Without its trail it cannot be released; then it stays marked under its lease.
            let _marked_is_enough = settle(&mut *tables, lease, id, release, now);
            tables.flush_or_stop();
        }
        drop(tables);
        self.filled.notify_one();
    }

    /// Writes and syncs one group; false if none waits. The one place where data becomes durable.
    /// Once the store has stopped nothing more does: after a failed sync the next one would lie.
    pub(crate) fn sync_step(&self) -> bool {
        let sealed = {
            let mut tables = self.tables.lock();
            let stopped = self.durable.poisoned().is_some();
            if stopped { None } else { tables.writer_mut().take() }
        };
        let Some(sealed) = sealed else { return false };
        if let Err(error) = sealed.write_and_sync()
            && !is_planted(Bug::SyncFailureIgnored)
        {
            self.poison(&error.to_string());
            return false;
        }
        let group = sealed.sequence();
        let told = {
            let mut tables = self.tables.lock();
            tables.writer_mut().done(sealed);
            tables.told_by(group)
        };
        self.durable.reach(group);
        self.tell(told);
        true
    }

    /// Tells the listener what became durable.
    pub(crate) fn tell(&self, told: Vec<Told>) {
        let Some(listener) = self.listener.read().clone() else { return };
        for told in told {
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
            let answer = decide(self, request, now);
            self.flush_or_stop();
            if let Answer::Claimed(Some(grant)) = &answer {
                claimed.push(self.place(grant));
            }
            answers.push(answer);
        }
        let group = self.observed();
        self.tell_later(group);
        let newest = claimed.iter().flatten().filter_map(|placed| placed.body.max(placed.trail));
        let on_disk = newest.max().is_none_or(|newest| self.writer().peek(newest).is_none());
        Decided { answers, claimed, on_disk, group }
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
        let writer = self.writer_mut();
        // Only if there is no other segment to go to must this one have room for the worst.
        let ready = if writer.is_ready_for(at_most) { Ok(()) } else { writer.begin(at_most) };
        match ready.and_then(|()| writer.begin(bytes)) {
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
            Command::Claim(claim) => claim.max * EACH_BYTES / 8,
            Command::Settle { items, .. } => {
                items.iter().map(|(_, outcome)| EACH_BYTES + said(outcome)).sum()
            }
            Command::Cancel { items }
            | Command::Retry { items, .. }
            | Command::Delete { items }
            | Command::Prioritise { items, .. } => items.len() * EACH_BYTES,
            Command::Reclaim { .. } => self.leases.expired_items(self.now) * EACH_BYTES,
            Command::Grace { .. } => self.leases.iter().count() * EACH_BYTES / 4,
            Command::Sweep { limit } => *limit * EACH_BYTES,
            _ => 0,
        }
    }

    /// The newest group that holds something which is visible now.
    pub(crate) fn observed(&self) -> u64 {
        let open = self.writer().open_bytes() > 0;
        self.writer().group_no() - u64::from(!open)
    }

    /// Where to read what a claim handed out. A repeated claim may name items that are gone.
    fn place(&self, grant: &Grant<Item>) -> Vec<Placed> {
        let placed = grant.items.iter().filter_map(|item| {
            let slot = self.slab.get(self.find_live(item.id)?);
            let known = self.names.route(item.route.0);
            let stage = &known.route.stage(item.stage).name;
            Some(Placed { item: *item, body: slot.body, trail: slot.trail, stage: stage.clone() })
        });
        placed.collect()
    }

    /// Keeps what listeners are to be told until its group is durable.
    pub(crate) fn tell_later(&mut self, group: u64) {
        if !self.notices.wanted {
            return;
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
        if !ready.is_empty() || !happened.is_empty() {
            self.told.push_back(Told { group, ready, happened });
        }
    }

    /// What listeners are to be told now that everything up to `group` is durable.
    pub(crate) fn told_by(&mut self, group: u64) -> Vec<Told> {
        let due = self.told.iter().take_while(|told| told.group <= group).count();
        self.told.drain(..due).collect()
    }
}
