//! Finding items: the tables are looked at in slices, and records are read without the lock.
//!
//! What lives and what has ended are walked together, by serial, downwards. What the tables know of
//! an item (status, queue, tenant, and of a live one stage and kind) is asked there; for the rest
//! its records are read, in the order of the log, and nobody waits for that. A record that cannot
//! be read like this, because it is not on disk yet or was moved, says nothing; whoever may be in
//! the list is read once more under the lock, a few at a time, and only then is it decided.

use windrow_core::find::{Filter, Page, Text};
use windrow_core::item::Marks;
use windrow_core::ledger::Ledger as _;
use windrow_core::ports::{Enough, Inspected, StoreError};
use windrow_core::trail::Trail;
use windrow_core::{ItemId, Refusal, Status};

use super::Embedded;
use super::codec::Reader;
use super::codec::body::get_body;
use super::codec::record::Image;
use super::log::{Ahead, Loc};
use super::schedule::history::Entry;
use super::tables::Tables;

/// Items that are looked at under the lock before others get their turn.
const SLICE: usize = 1_000;
/// Of those, how many are read at once.
const READ: usize = 256;
/// Items that are read under the lock before others get their turn.
const SHOWN: usize = 8;

/// A filter's names as numbers.
struct Sought<'a> {
    filter: &'a Filter,
    queue: Option<u32>,
    tenant: Option<u32>,
    kind: Option<u32>,
    stage: Option<u32>,
}

/// An item that may be in the list, and where its records are.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    id: ItemId,
    body: Option<Loc>,
    /// Of a live item that has one.
    trail: Option<Loc>,
    /// The last record of an ended one.
    finished: Option<Loc>,
    /// Its error has the text, or may have it.
    in_error: bool,
    is_out: bool,
}

/// A part of the walk.
struct Slice {
    candidates: Vec<Candidate>,
    /// The last serial that was looked at; none at the end.
    reached: Option<u64>,
}

impl Embedded {
    pub(super) async fn find_items(
        &self,
        filter: &Filter,
        after: Option<ItemId>,
        limit: usize,
        enough: Enough<'_>,
    ) -> Result<Page, StoreError> {
        let (page, group) = self.search(filter, after, limit, enough)?;
        self.shared.durable.until(group).await.map_err(StoreError::Poisoned)?;
        Ok(page)
    }

    /// A page, and the group that must be durable before anybody sees it.
    fn search(
        &self,
        filter: &Filter,
        after: Option<ItemId>,
        limit: usize,
        enough: Enough<'_>,
    ) -> Result<(Page, u64), StoreError> {
        let mut page = Page { items: Vec::new(), next: after };
        let mut below = after.map_or(u64::MAX, ItemId::serial);
        loop {
            let (slice, mut group) = {
                let tables = self.shared.tables.lock();
                // What stopped it may have left memory ahead of the log, so nothing is shown.
                if let Some(why) = self.poisoned() {
                    return Err(StoreError::Poisoned(why));
                }
                let room = limit.saturating_sub(page.items.len());
                let slice = match Sought::new(&tables, filter) {
                    Some(sought) => tables.slice(&sought, below, room),
                    None => Slice { candidates: Vec::new(), reached: None },
                };
                (slice, tables.observed())
            };
            let mut candidates = slice.candidates;
            self.read(filter, &mut candidates);
            candidates.retain(|candidate| !candidate.is_out);
            for some in candidates.chunks(SHOWN) {
                let tables = self.shared.tables.lock();
                group = tables.observed();
                for candidate in some {
                    if page.items.len() >= limit {
                        return Ok((page, group));
                    }
                    // One that cannot be read is told of by the store's health; the list goes on.
                    let seen = tables.inspect(candidate.id).ok().flatten();
                    page.items.extend(seen.filter(|seen| filter.admits(seen)).map(Into::into));
                    page.next = Some(candidate.id);
                }
            }
            let Some(reached) = slice.reached else {
                return Ok((Page { next: None, ..page }, group));
            };
            below = reached;
            page.next = Some(self.id(reached));
            if page.items.len() >= limit || enough() {
                return Ok((page, group));
            }
        }
    }

    fn id(&self, serial: u64) -> ItemId {
        self.shared.tables.lock().id(serial)
    }

    /// Reads what a filter cannot do without, and takes out whoever is not in the list.
    fn read(&self, filter: &Filter, candidates: &mut [Candidate]) {
        let of_ended = filter.kind.is_some() || filter.stage.is_some() || filter.needs_body();
        if of_ended {
            self.read_in_order(candidates, |c| c.finished, |c, bytes| self.ended(filter, c, bytes));
        }
        if !filter.needs_body() {
            return;
        }
        if let Some(text) = &filter.text {
            self.read_in_order(
                candidates,
                |candidate| candidate.trail,
                |candidate, bytes| {
                    let from = &mut Reader::new(bytes);
                    let trail = from.serial().and_then(|_| from.get::<Trail>());
                    candidate.in_error = trail.is_ok_and(|trail| text.is_in_error(&trail));
                },
            );
        }
        let of_body = |candidate: &Candidate| candidate.body.filter(|_| !candidate.is_out);
        self.read_in_order(candidates, of_body, |candidate, bytes| {
            let read = get_body(bytes, &self.shared.names.read());
            let Ok((_, body)) = read else { return };
            let lacks = |text: &Text| {
                !candidate.in_error && !text.begins(candidate.id) && !text.is_in_body(&body)
            };
            candidate.is_out =
                !filter.admits_body(&body) || filter.text.as_ref().is_some_and(lacks);
        });
    }

    /// What the last record of an ended item says.
    fn ended(&self, filter: &Filter, candidate: &mut Candidate, bytes: &[u8]) {
        let from = &mut Reader::new(bytes);
        let Ok(image) = from.get::<Image>() else { return };
        candidate.body = image.body;
        {
            let names = self.shared.names.read();
            let stage = names.route(image.route).route.stage(image.stage);
            let kind = names.text(image.kind);
            candidate.is_out = filter.kind.as_ref().is_some_and(|only| only != kind)
                || filter.stage.as_ref().is_some_and(|only| *only != stage.name);
        }
        if let Some(text) = &filter.text {
            let trail = from.get::<Trail>();
            candidate.in_error = trail.is_ok_and(|trail| text.is_in_error(&trail));
        }
    }

    /// Reads one record of each, neighbours in the log together.
    fn read_in_order(
        &self,
        candidates: &mut [Candidate],
        at: impl Fn(&Candidate) -> Option<Loc>,
        mut read: impl FnMut(&mut Candidate, &[u8]),
    ) {
        let placed =
            candidates.iter_mut().filter_map(|candidate| Some((at(candidate)?, candidate)));
        let mut placed: Vec<(Loc, &mut Candidate)> = placed.collect();
        placed.sort_unstable_by_key(|(at, _)| *at);
        let mut source = Ahead::new(&self.shared.segments);
        for (at, candidate) in placed {
            if let Ok(record) = source.read(at) {
                read(candidate, record.bytes);
            }
        }
    }
}

impl<'a> Sought<'a> {
    /// None if it names something that does not exist.
    fn new(tables: &Tables, filter: &'a Filter) -> Option<Sought<'a>> {
        let find = |name: &Option<std::sync::Arc<str>>| match name {
            Some(name) => tables.names.find(name).map(Some),
            None => Some(None),
        };
        // The others are looked for in bodies, but those have numbers too.
        for name in [&filter.collection, &filter.branch, &filter.source_type] {
            find(name)?;
        }
        Some(Sought {
            filter,
            queue: find(&filter.queue)?,
            tenant: find(&filter.tenant)?,
            kind: find(&filter.kind)?,
            stage: find(&filter.stage)?,
        })
    }

    /// What lives shows one of two statuses, also if it waits for children: as soon as all of those
    /// have ended, so does it, or it goes on.
    fn wants_live(&self) -> bool {
        [Status::Pending, Status::Processing].into_iter().any(|s| self.filter.admits_status(s))
    }

    fn wants_ended(&self) -> bool {
        let ends = [Status::Completed, Status::Failed, Status::Cancelled, Status::Skipped];
        ends.into_iter().any(|status| self.filter.admits_status(status))
    }
}

fn is(only: Option<u32>, no: u32) -> bool {
    only.is_none_or(|only| only == no)
}

impl Tables {
    pub(super) fn inspect(&self, id: ItemId) -> Result<Option<Inspected>, Refusal> {
        let Some(item) = self.item(id)? else { return Ok(None) };
        Ok(Some(Inspected {
            item,
            body: self.body(&item)?,
            trail: self.trail(&item)?,
            tally: self.tally(id).filter(|_| item.has(Marks::PARENT)).cloned(),
            successor: self.successor(id),
        }))
    }

    /// Looks at the next items below a serial, and says which may be in the list.
    fn slice(&self, sought: &Sought<'_>, below: u64, room: usize) -> Slice {
        let reads = sought.filter.needs_body();
        let most = if reads { READ } else { READ.min(room.max(1)) };
        let live = sought.wants_live().then(|| self.slab.before(below));
        let ended = sought.wants_ended().then(|| self.history.before(below));
        let mut live = live.into_iter().flatten().peekable();
        let mut ended = ended.into_iter().flatten().peekable();
        let mut slice = Slice { candidates: Vec::new(), reached: None };
        for _ in 0..SLICE {
            let next = (live.peek().copied(), ended.peek().copied());
            let (serial, candidate) = match next {
                (None, None) => return Slice { reached: None, ..slice },
                (Some(serial), ended) if ended.is_none_or(|entry| entry.serial < serial) => {
                    live.next();
                    (serial, self.live_candidate(sought, serial))
                }
                (_, Some(entry)) => {
                    ended.next();
                    (entry.serial, self.ended_candidate(sought, &entry))
                }
                (Some(_), None) => unreachable!("what lives comes next"),
            };
            slice.reached = Some(serial);
            slice.candidates.extend(candidate);
            if slice.candidates.len() >= most {
                break;
            }
        }
        slice
    }

    fn live_candidate(&self, sought: &Sought<'_>, serial: u64) -> Option<Candidate> {
        let no = self.slab.find(serial)?;
        let slot = self.slab.get(no);
        let lane = self.lanes.get(slot.lane).name;
        let fits = is(sought.queue, lane.queue)
            && is(sought.tenant, slot.tenant)
            && is(sought.kind, lane.kind)
            && is(sought.stage, lane.stage);
        if !fits {
            return None;
        }
        let item = self.item_in(no);
        let admitted = sought.filter.admits_shown(&item, self.tally(item.id));
        let trail = slot.trail.filter(|_| item.has(Marks::TRAIL));
        let in_error = trail.is_some();
        let candidate = Candidate::new(item.id);
        admitted.then_some(Candidate { body: slot.body, trail, in_error, ..candidate })
    }

    fn ended_candidate(&self, sought: &Sought<'_>, entry: &Entry) -> Option<Candidate> {
        let owner = self.owners.get(entry.owner);
        let fits = is(sought.queue, owner.queue)
            && is(sought.tenant, owner.tenant)
            && sought.filter.admits_status(entry.end.into());
        let id = self.id(entry.serial);
        let candidate = Candidate::new(id);
        fits.then_some(Candidate { finished: Some(entry.at), in_error: true, ..candidate })
    }
}

impl Candidate {
    fn new(id: ItemId) -> Candidate {
        Candidate { id, body: None, trail: None, finished: None, in_error: false, is_out: false }
    }
}
