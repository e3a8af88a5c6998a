//! The keeper: snapshots, spare segments, and giving space back. One small thing per step.
//!
//! Space is reclaimed by moving what still lives out of the oldest segment and dropping the file.
//! Three rules make that safe, and each has a planted bug that breaks it:
//! a moved record's new place is published only after it is durable; a segment is dropped only
//! when the last durable snapshot starts after it; and no snapshot begins while a move is not
//! published, or it would keep an old place that no replay corrects.

use windrow_core::RequestId;
use windrow_core::planted::{Bug, is_planted};
use windrow_core::refusal::Refusal;

use super::codec::record::{Image, tag};
use super::codec::{Pack, Reader};
use super::log::{Loc, LogError, RECORD_OVERHEAD, Space, Spares, Work};
use super::snapshot::{Start, Writing};
use super::tables::Tables;
use super::worth::Verdict;
use super::{Embedded, Shared};

/// Records that are looked at under one lock.
pub(super) const SLICE: usize = 512;

/// Steps between two tries to reclaim a segment of which something cannot be read.
const REST: u32 = 200;

/// What the keeper is doing, and what it knows of the disk.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(super) spares: Spares,
    snapshot: Option<Start>,
    task: Task,
    way: Way,
    /// How far the last snapshot came for which there was no room: one takes that, at least.
    unfinished: u64,
    pub(super) verdict: Option<Verdict>,
    /// Why there could be no further spare, or no space be reclaimed; it is tried again.
    trouble: Option<String>,
    /// Why there could be no snapshot; it is tried again.
    no_snapshot: Option<String>,
    /// Steps to go before that is.
    rest: u32,
}

/// Whether spares make room on a full disk for a snapshot, without which no space is reclaimed.
#[derive(Debug)]
enum Way {
    Shut,
    /// They do if there is not room enough, for a snapshot of about so many bytes.
    Wanted {
        bytes: u64,
    },
    Made,
}

#[derive(Debug)]
enum Task {
    Idle,
    Snapshot(Box<Writing>),
    Move(Moving),
}

/// A segment whose living records are being moved out.
#[derive(Debug)]
struct Moving {
    segment: u32,
    /// Records that may live, in order.
    records: Vec<Candidate>,
    next: usize,
    /// A record was found alive in this pass, so there will be another.
    found: bool,
    /// Moved, and waiting for the group to be durable.
    moved: Vec<Moved>,
    group: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    at: Loc,
    tag: u8,
    of: u128,
    pub(super) bytes: u32,
}

#[derive(Clone, Copy, Debug)]
enum Moved {
    Body { serial: u64, from: Loc, to: Loc },
    Trail { serial: u64, from: Loc, to: Loc },
    Finish { serial: u64, from: Loc, to: Loc },
    Answer { request: RequestId, from: Loc, to: Loc },
}

impl Keeper {
    pub(crate) fn new(spares: Spares, snapshot: Option<Start>) -> Keeper {
        Keeper {
            spares,
            snapshot,
            task: Task::Idle,
            way: Way::Shut,
            unfinished: 0,
            verdict: None,
            trouble: None,
            no_snapshot: None,
            rest: 0,
        }
    }

    /// Where the last snapshot begins, if there is one.
    pub(crate) fn snapshot(&self) -> Option<&Start> {
        self.snapshot.as_ref()
    }

    /// A snapshot did not find room. Says whether there may be some now.
    fn make_way(&mut self) -> bool {
        let way = std::mem::replace(&mut self.way, Way::Made);
        if let Way::Wanted { bytes } = way {
            self.spares.give_way(bytes);
            return true;
        }
        self.shut_way();
        self.rest = REST;
        false
    }

    /// No snapshot waits for room.
    fn shut_way(&mut self) {
        self.spares.resume();
        self.way = Way::Shut;
    }

    /// What could not be done last time, if anything.
    pub(crate) fn trouble(&self) -> Option<&String> {
        self.no_snapshot.as_ref().or(self.trouble.as_ref())
    }

    /// The first segment that a recovery needs.
    fn needed_from(&self) -> u32 {
        self.snapshot.as_ref().map_or(0, |start| start.position.segment)
    }
}

impl Embedded {
    /// Does one small piece of housekeeping; false if nothing is to be done now.
    pub fn keep_step(&self) -> bool {
        let mut keeper = self.shared.keeper.lock();
        let prepared = self.shared.prepare(&mut keeper);
        let worked = self.shared.keep(&mut keeper);
        prepared || worked
    }

    /// Prepares the next segments, and nothing else; false if none is wanted.
    pub(crate) fn prepare_step(&self) -> bool {
        self.shared.prepare(&mut self.shared.keeper.lock())
    }

    /// Takes a snapshot now, if nothing else is under way. Used before a planned stop.
    pub fn begin_snapshot(&self) {
        let mut keeper = self.shared.keeper.lock();
        if matches!(keeper.task, Task::Idle) {
            self.shared.begin_snapshot(&mut keeper);
        }
    }

    /// Whether housekeeping has something under way.
    pub fn is_keeping(&self) -> bool {
        !matches!(self.shared.keeper.lock().task, Task::Idle)
    }

    /// What housekeeping could not do last time, if anything. It tries again.
    pub fn trouble(&self) -> Option<String> {
        self.shared.keeper.lock().trouble().cloned()
    }
}

impl Shared {
    fn prepare(&self, keeper: &mut Keeper) -> bool {
        match keeper.spares.step() {
            Ok(Work::More) => true,
            Ok(Work::Idle) => {
                keeper.trouble = None;
                false
            }
            Ok(Work::Blocked(error)) => {
                keeper.trouble = Some(error.to_string());
                false
            }
            Err(error) => {
                self.poison(&error.to_string());
                false
            }
        }
    }

    fn keep(&self, keeper: &mut Keeper) -> bool {
        match std::mem::replace(&mut keeper.task, Task::Idle) {
            Task::Idle => self.choose(keeper),
            Task::Snapshot(writing) => self.continue_snapshot(keeper, *writing),
            Task::Move(moving) => self.continue_move(keeper, moving),
        }
    }

    /// What to do next, if anything.
    fn choose(&self, keeper: &mut Keeper) -> bool {
        let (position, live) = {
            let tables = self.tables.lock();
            (tables.writer().position(), tables.live_bytes())
        };
        let numbers = self.segments.numbers();
        let (oldest, total) = (*numbers.start(), self.segments.total_bytes());
        let segment = u64::from(self.options.segment_bytes);
        let place =
            |segment_no: u32, offset: u32| u64::from(segment_no) * segment + u64::from(offset);
        let since = match &keeper.snapshot {
            Some(start) => place(start.position.segment, start.position.offset),
            None => place(oldest, 0),
        };
        let grown = place(position.segment, position.offset).saturating_sub(since);
        let last = keeper.snapshot.as_ref().map_or(0, |start| start.bytes);
        if keeper.rest > 0 {
            keeper.rest -= 1;
            return false;
        }
        let is_full = keeper.spares.space() != Space::Plenty;
        if !is_full {
            keeper.no_snapshot = None;
            keeper.verdict = None;
        }
        // On a full disk less is worth it, but not to write all of it again for little.
        let is_wanted = is_full
            && oldest < position.segment
            && total > 2 * live
            && self.is_worth_it(keeper, oldest, position);
        match (&keeper.way, is_wanted) {
            (Way::Shut, true) => {
                let bytes = self.tables.lock().image_bytes().max(keeper.unfinished);
                keeper.way = Way::Wanted { bytes };
            }
            (_, true) => {}
            (_, false) => keeper.shut_way(),
        }
        if grown > self.options.snapshot_bytes.max(2 * last) {
            return self.begin_snapshot(keeper);
        }
        let is_due = total > 2 * live + self.options.slack_bytes;
        if oldest >= position.segment || !is_due && !is_wanted {
            return false;
        }
        if oldest < keeper.needed_from() || is_planted(Bug::DropBeforeSnapshot) {
            return self.begin_move(keeper, oldest);
        }
        (is_wanted || grown > segment) && self.begin_snapshot(keeper)
    }

    fn begin_snapshot(&self, keeper: &mut Keeper) -> bool {
        let begun = Writing::begin(&*self.disk, &self.tables.lock());
        match begun {
            Ok(writing) => {
                keeper.task = Task::Snapshot(Box::new(writing));
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
                self.snapshot_failed(keeper, &error, 0)
            }
            Err(error) => {
                keeper.no_snapshot = Some(format!("no snapshot: {error}"));
                false
            }
        }
    }

    fn continue_snapshot(&self, keeper: &mut Keeper, mut writing: Writing) -> bool {
        if let Some(group) = writing.waits_for() {
            if self.durable.reached() < group {
                keeper.task = Task::Snapshot(Box::new(writing));
                return false;
            }
            let written = writing.bytes();
            return match writing.publish(&*self.disk) {
                Ok(start) => {
                    keeper.snapshot = Some(start);
                    keeper.no_snapshot = None;
                    keeper.unfinished = 0;
                    keeper.shut_way();
                    true
                }
                Err(error) => self.snapshot_failed(keeper, &error, written),
            };
        }
        let blocks = writing.slice(&self.tables.lock());
        match writing.write(&blocks) {
            Ok(()) => {
                keeper.task = Task::Snapshot(Box::new(writing));
                true
            }
            Err(error) => self.snapshot_failed(keeper, &error, writing.bytes()),
        }
    }

    /// A snapshot that cannot be written is given up; the one before it still counts. A failed
    /// sync is another matter: what the disk says from then on is not to be trusted. Says whether
    /// there may be room for another one now.
    fn snapshot_failed(&self, keeper: &mut Keeper, error: &std::io::Error, written: u64) -> bool {
        if error.kind() != std::io::ErrorKind::StorageFull {
            self.poison(&format!("snapshot: {error}"));
            return false;
        }
        keeper.no_snapshot = Some(format!("no snapshot: {error}"));
        keeper.unfinished = written;
        let _it_is_unfinished = self.disk.remove("snapshot.tmp");
        keeper.make_way()
    }

    /// The records of a segment that may live.
    pub(super) fn candidates(&self, segment: u32) -> Result<Vec<Candidate>, LogError> {
        let mut records = Vec::new();
        let walked = self.segments.verify_segment(segment, None, |group| {
            for record in group.records() {
                let (at, record) = record.map_err(LogError::from)?;
                if let Some(of) = owner_of(record.tag, record.bytes) {
                    let bytes = record.bytes.len() as u32;
                    records.push(Candidate { at, tag: record.tag, of, bytes });
                }
            }
            Ok::<(), LogError>(())
        });
        walked.map(|_| records)
    }

    fn begin_move(&self, keeper: &mut Keeper, segment: u32) -> bool {
        let records = match self.candidates(segment) {
            Ok(records) => records,
            Err(error) => return self.move_failed(keeper, &Stuck::from(error)),
        };
        keeper.task = Task::Move(Moving {
            segment,
            records,
            next: 0,
            found: false,
            moved: Vec::new(),
            group: 0,
        });
        true
    }

    fn continue_move(&self, keeper: &mut Keeper, mut moving: Moving) -> bool {
        if !moving.moved.is_empty() {
            if self.durable.reached() < moving.group && !is_planted(Bug::MoveBeforeDurable) {
                keeper.task = Task::Move(moving);
                return false;
            }
            self.tables.lock().publish(&moving.moved);
            moving.moved.clear();
        }
        if moving.next < moving.records.len() {
            let to = (moving.next + SLICE).min(moving.records.len());
            let slice = &moving.records[moving.next..to];
            let done = self.move_slice(slice, &mut moving.moved);
            moving.next = to;
            match done {
                Ok(group) => {
                    moving.group = group;
                    moving.found |= !moving.moved.is_empty();
                    if is_planted(Bug::MoveBeforeDurable) {
                        self.tables.lock().publish(&moving.moved);
                    }
                    keeper.task = Task::Move(moving);
                    self.filled.notify_one();
                }
                Err(stuck) => return self.move_failed(keeper, &stuck),
            }
            return true;
        }
        if moving.found {
            // What ended while it was moved may still refer to its old place: look again.
            moving.next = 0;
            moving.found = false;
            keeper.task = Task::Move(moving);
            return true;
        }
        match keeper.spares.drop_segment(moving.segment) {
            Ok(_) => true,
            Err(error) => {
                self.poison(&error.to_string());
                false
            }
        }
    }

    /// Gives a move up for now. What cannot be read may be needed, so its segment stays.
    fn move_failed(&self, keeper: &mut Keeper, stuck: &Stuck) -> bool {
        keeper.trouble = Some(format!("no space reclaimed: {stuck}"));
        keeper.rest = REST;
        self.tables.lock().revived = None;
        if !stuck.is_full() {
            self.tables.lock().unhealthy.replace(Some(stuck.to_string()));
        }
        false
    }

    /// Appends what still lives of a slice of the segment; says which group it went to.
    fn move_slice(&self, slice: &[Candidate], moved: &mut Vec<Moved>) -> Result<u64, Stuck> {
        let mut living = Vec::new();
        {
            let tables = self.tables.lock();
            for record in slice {
                if tables.lives(record)? {
                    living.push(*record);
                }
            }
        }
        let mut scratch = Vec::new();
        let mut group = 0;
        for record in living {
            let bytes = self.segments.read(record.at, &mut scratch)?.bytes.to_vec();
            let mut tables = self.tables.lock();
            if tables.lives(&record)? {
                tables.append_again(&record, &bytes, moved)?;
                group = tables.observed();
            }
        }
        Ok(group)
    }
}

/// Why a move cannot go on.
#[derive(Debug, thiserror::Error)]
enum Stuck {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Unreadable(#[from] Refusal),
}

impl Stuck {
    fn is_full(&self) -> bool {
        matches!(self, Stuck::Log(error) if error.is_full())
    }
}

/// Whose record this is, if it is one that can live on by itself.
fn owner_of(tag: u8, bytes: &[u8]) -> Option<u128> {
    let mut from = Reader::new(bytes);
    match tag {
        tag::CREATE | tag::BODY | tag::TRAIL | tag::FINISH => from.serial().ok().map(u128::from),
        tag::ANSWERED => from.get::<RequestId>().ok().map(|request| request.0),
        _ => None,
    }
}

impl Tables {
    /// Whether something still refers to a record. Where that cannot be read it is not known, which
    /// is an error and never a no.
    pub(super) fn lives(&self, record: &Candidate) -> Result<bool, Refusal> {
        let serial = record.of as u64;
        Ok(match record.tag {
            tag::CREATE | tag::BODY => match self.slab.find(serial) {
                Some(no) => self.slab.get(no).body == Some(record.at),
                None => match self.history.find(serial) {
                    Some(entry) => self.image_of(&entry)?.body == Some(record.at),
                    None => false,
                },
            },
            tag::TRAIL => {
                let slot = self.slab.find(serial).map(|no| self.slab.get(no));
                slot.is_some_and(|slot| slot.trail == Some(record.at))
            }
            tag::FINISH => self.history.find(serial).is_some_and(|entry| entry.at == record.at),
            _ => self.requests.find(RequestId(record.of)) == Some(record.at),
        })
    }

    fn append(&mut self, tag: u8, bytes: &[u8]) -> Result<Loc, LogError> {
        let mut writer = self.writer();
        writer.begin(bytes.len() + RECORD_OVERHEAD)?;
        Ok(writer.push(tag, bytes))
    }

    fn append_again(
        &mut self,
        record: &Candidate,
        bytes: &[u8],
        moved: &mut Vec<Moved>,
    ) -> Result<(), Stuck> {
        let (serial, from) = (record.of as u64, record.at);
        match record.tag {
            tag::CREATE | tag::BODY => match self.history.find(serial) {
                None => {
                    let to = self.append(tag::BODY, bytes)?;
                    moved.push(Moved::Body { serial, from, to });
                    self.revived.get_or_insert_default();
                }
                // Its last record says where the body is, so it is written again with it.
                Some(entry) => {
                    let (image, trail) = self.finished(&entry)?;
                    let body = Some(self.append(tag::BODY, bytes)?);
                    let mut bytes = Vec::new();
                    Image { body, ..image }.put(&mut bytes);
                    trail.put(&mut bytes);
                    let to = self.append(tag::FINISH, &bytes)?;
                    moved.push(Moved::Finish { serial, from: entry.at, to });
                }
            },
            tag::TRAIL => {
                let to = self.append(tag::TRAIL, bytes)?;
                moved.push(Moved::Trail { serial, from, to });
            }
            tag::FINISH => {
                // If its body lies in this segment too, it was written again together with that.
                // A second copy, which still names the old place, would win in a replay.
                let image: Result<Image, _> = Reader::new(bytes).get();
                let body = image.ok().and_then(|image| image.body);
                if body.is_none_or(|body| body.segment() != from.segment()) {
                    let to = self.append(tag::FINISH, bytes)?;
                    moved.push(Moved::Finish { serial, from, to });
                }
            }
            _ => {
                let to = self.append(tag::ANSWERED, bytes)?;
                moved.push(Moved::Answer { request: RequestId(record.of), from, to });
            }
        }
        Ok(())
    }

    /// Says where moved records are now, unless they were written anew in the meantime.
    fn publish(&mut self, moved: &[Moved]) {
        // The log names the old place of their bodies again, after the copy: they are copied anew.
        let revived = self.revived.take().unwrap_or_default();
        for moved in moved {
            match *moved {
                Moved::Body { serial, .. }
                    if revived.contains(&serial) && !is_planted(Bug::StaleCopyTaken) => {}
                Moved::Body { serial, from, to } => {
                    if let Some(no) = self.slab.find(serial)
                        && self.slab.get(no).body == Some(from)
                    {
                        self.slab.get_mut(no).body = Some(to);
                    }
                }
                Moved::Trail { serial, from, to } => {
                    if let Some(no) = self.slab.find(serial)
                        && self.slab.get(no).trail == Some(from)
                    {
                        self.slab.get_mut(no).trail = Some(to);
                    }
                }
                Moved::Finish { serial, from, to } => {
                    if self.history.find(serial).is_some_and(|entry| entry.at == from) {
                        self.history.relocate(serial, to);
                    }
                }
                Moved::Answer { request, from, to } => {
                    if self.requests.find(request) == Some(from) {
                        self.requests.relocate(request, to);
                    }
                }
            }
        }
    }
}
