//! Work: what a claim handed out, read from the log without the lock.

use std::convert::Infallible;
use std::sync::Arc;

use windrow_core::Change;
use windrow_core::Ledger as _;
use windrow_core::command::{Answer, Grant, Outcome};
use windrow_core::item::{Item, Marks};
use windrow_core::ports::Work;
use windrow_core::rules::settle::settle;
use windrow_core::trail::Trail;
use windrow_core::transitions::Event;

use super::codec::body::get_body;
use super::codec::{Malformed, Reader};
use super::commit::Decided;
use super::log::{Ahead, Loc, LogError, Segments};
use super::schedule::names::Names;
use super::tables::Tables;
use super::{Embedded, Shared};

/// An item that was handed out, and where to read it.
#[derive(Debug)]
pub(crate) struct Placed {
    item: Item,
    body: Option<Loc>,
    trail: Option<Loc>,
    stage: Arc<str>,
}

impl Placed {
    /// The younger one of its places.
    pub(crate) fn newest(&self) -> Option<Loc> {
        self.body.max(self.trail)
    }
}

impl Embedded {
    /// Turns what was claimed into work, by reading bodies. Happens without the lock.
    pub(crate) fn complete(&self, decided: Decided) -> Vec<Answer<Work>> {
        let mut claimed = decided.claimed.into_iter();
        let complete = |answer: Answer| {
            let done: Result<Answer<Work>, Infallible> = answer.map(|grant| {
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
        let read = self.read_once(&placed);
        let each = placed.into_iter().zip(read);
        each.filter_map(|(placed, read)| self.read_until(placed, read?)).collect()
    }

    /// Reads items in the order of the log, where neighbours come along with each other.
    fn read_once(&self, placed: &[Placed]) -> Vec<Option<Result<Work, Unread>>> {
        let mut order: Vec<usize> = (0..placed.len()).collect();
        order.sort_unstable_by_key(|at| placed[*at].body);
        let mut read: Vec<_> = placed.iter().map(|_| None).collect();
        let (names, mut source) = (self.shared.names.read(), Source::new(&self.shared.segments));
        for at in order {
            read[at] = Some(source.read(&names, &placed[at]));
        }
        read
    }

    /// Sees to an item that could not be read. Its record may have been moved while the disk was
    /// waited for; then it is looked up again, unless the item is gone by now.
    fn read_until(&self, mut placed: Placed, mut read: Result<Work, Unread>) -> Option<Work> {
        loop {
            match read {
                Ok(work) => return Some(work),
                Err(Unread::Damaged(what)) => {
                    self.shared.quarantine(&placed.item, &what);
                    return None;
                }
                Err(Unread::Moved) => {}
            }
            let (body, trail) = {
                let tables = self.shared.tables.lock();
                let slot = tables.slab.get(tables.find_live(placed.item.id)?);
                (slot.body, slot.trail)
            };
            if (placed.body, placed.trail) == (body, trail) {
                self.shared.quarantine(&placed.item, "its segment is gone");
                return None;
            }
            (placed.body, placed.trail) = (body, trail);
            // Not under the tables: whoever has those may be waiting to add a name.
            let names = self.shared.names.read();
            read = Source::new(&self.shared.segments).read(&names, &placed);
        }
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

/// Where work is read from: bodies lie near each other, and so do trails.
struct Source<'a> {
    bodies: Ahead<'a>,
    trails: Ahead<'a>,
}

impl<'a> Source<'a> {
    fn new(segments: &'a Segments) -> Source<'a> {
        Source { bodies: Ahead::new(segments), trails: Ahead::new(segments) }
    }

    fn read(&mut self, names: &Names, placed: &Placed) -> Result<Work, Unread> {
        let at = placed.body.ok_or_else(|| Unread::Damaged("it has no place".into()))?;
        let (_, body) = get_body(self.bodies.read(at)?.bytes, names)?;
        let mut input = None;
        if placed.item.stage > 0
            && let Some(at) = placed.trail
        {
            let from = &mut Reader::new(self.trails.read(at)?.bytes);
            from.serial()?;
            let trail: Trail = from.get()?;
            input = trail.input_of(placed.item.stage).map(<[u8]>::to_vec);
        }
        Ok(Work { item: placed.item, body, stage: placed.stage.clone(), input })
    }
}

impl Shared {
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
}

impl Tables {
    /// Where to read what a claim handed out. A repeated claim may name items that are gone.
    pub(crate) fn place(&self, grant: &Grant<Item>) -> Vec<Placed> {
        let placed = grant.items.iter().filter_map(|item| {
            let slot = self.slab.get(self.find_live(item.id)?);
            let known = self.names.route(item.route.0);
            let stage = &known.route.stage(item.stage).name;
            Some(Placed { item: *item, body: slot.body, trail: slot.trail, stage: stage.clone() })
        });
        placed.collect()
    }
}
