//! Finding items: what a list may be narrowed by, and what it shows of each item.
//!
//! A list goes from the newest item to the oldest, by id, and never turns back: so whoever walks
//! it page by page sees every item that was there at the start exactly once, whatever is enqueued,
//! settled or deleted meanwhile. [`Filter::admits`] is the one place that says what is in a list; a
//! store may pass over what it knows cannot be admitted, and asks here about the rest.

use std::sync::Arc;

use crate::change::Lease;
use crate::command::Scope;
use crate::id::ItemId;
use crate::item::{Body, Item, Payload, State, Status};
use crate::ports::Inspected;
use crate::settings::Settings;
use crate::tally::Tally;
use crate::time::Timestamp;
use crate::trail::{Fault, Progress, Trail};

/// What a list is narrowed by. What is not given does not matter.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Any of these, as they are shown; all if empty.
    pub statuses: Vec<Status>,
    /// An item that waits for its children is taken for processing, whatever those do.
    pub split_is_processing: bool,
    pub queue: Option<Arc<str>>,
    pub stage: Option<Arc<str>>,
    pub kind: Option<Arc<str>>,
    pub tenant: Option<Arc<str>>,
    pub collection: Option<Arc<str>>,
    pub branch: Option<Arc<str>>,
    pub source_type: Option<Arc<str>>,
    pub text: Option<Text>,
}

/// A text that stands in an item's key, kind, source_info or error, or at the beginning of its id.
/// `A` to `Z` are taken for `a` to `z`, and nothing else is alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Text(String);

/// The beginning of an id is looked for from this length on: shorter ones say only in which month
/// an item was created.
const ID_MIN: usize = 8;

impl Text {
    pub fn new(text: &str) -> Text {
        Text(text.to_ascii_lowercase())
    }

    /// The text in small letters.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it stands in another.
    pub fn is_in(&self, other: &str) -> bool {
        let (text, other) = (self.0.as_bytes(), other.as_bytes());
        let Some(first) = text.first() else { return true };
        let last = other.len().checked_sub(text.len());
        last.is_some_and(|last| {
            (0..=last).any(|at| {
                other[at].eq_ignore_ascii_case(first)
                    && other[at..at + text.len()].eq_ignore_ascii_case(text)
            })
        })
    }

    /// Whether it begins an id.
    pub fn begins(&self, id: ItemId) -> bool {
        self.0.len() >= ID_MIN && id.to_string().starts_with(&self.0)
    }

    /// Whether it is in what a producer says of an item.
    pub fn is_in_body(&self, body: &Body) -> bool {
        self.is_in(&body.kind)
            || body.key.as_ref().is_some_and(|key| self.is_in(key))
            || body.source_info.as_ref().is_some_and(|info| self.is_in(info))
    }

    /// Whether it is in the error that is shown.
    pub fn is_in_error(&self, trail: &Trail) -> bool {
        trail.last_error().is_some_and(|fault| self.is_in(&fault.message))
            || trail.reason.as_ref().is_some_and(|reason| self.is_in(reason))
    }
}

impl Filter {
    /// Whether an item is in the list.
    pub fn admits(&self, seen: &Inspected) -> bool {
        let stage = &seen.body.route.stage(seen.item.stage).name;
        self.admits_shown(&seen.item, seen.tally.as_ref())
            && is(self.queue.as_ref(), &seen.body.queue)
            && is(self.tenant.as_ref(), &seen.body.tenant)
            && is(self.kind.as_ref(), &seen.body.kind)
            && is(self.stage.as_ref(), stage)
            && self.admits_body(&seen.body)
            && self.text.as_ref().is_none_or(|text| {
                text.begins(seen.item.id)
                    || text.is_in_body(&seen.body)
                    || text.is_in_error(&seen.trail)
            })
    }

    /// Whether the status of an item is asked for, given what it knows of its children.
    pub fn admits_shown(&self, item: &Item, tally: Option<&Tally>) -> bool {
        let status = if self.split_is_processing { item.status() } else { shown(item, tally) };
        self.admits_status(status)
    }

    pub fn admits_status(&self, status: Status) -> bool {
        self.statuses.is_empty() || self.statuses.contains(&status)
    }

    /// Whether what a producer says of an item is asked for, the text aside.
    pub fn admits_body(&self, body: &Body) -> bool {
        has(self.collection.as_ref(), body.collection.as_ref())
            && has(self.branch.as_ref(), body.branch.as_ref())
            && has(self.source_type.as_ref(), body.source_type.as_ref())
    }

    /// Everything in it that is a text.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let Filter { queue, stage, kind, tenant, collection, branch, source_type, .. } = self;
        let names = [queue, stage, kind, tenant, collection, branch, source_type];
        let names = names.into_iter().filter_map(|name| name.as_deref());
        names.chain(self.text.as_ref().map(Text::as_str))
    }

    /// Whether only what a producer said, or an error, can tell.
    pub fn needs_body(&self) -> bool {
        let Filter { collection, branch, source_type, text, .. } = self;
        text.is_some() || [collection, branch, source_type].iter().any(|only| only.is_some())
    }
}

fn is(only: Option<&Arc<str>>, name: &Arc<str>) -> bool {
    only.is_none_or(|only| only == name)
}

fn has(only: Option<&Arc<str>>, name: Option<&Arc<str>>) -> bool {
    only.is_none() || only == name
}

/// A part of a list.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Page {
    /// Newest first.
    pub items: Vec<Listed>,
    /// How far the list was looked through: it goes on after this item. None if all was looked at.
    /// With less items than were asked for there may still be more.
    pub next: Option<ItemId>,
}

/// What a list shows of an item.
#[derive(Clone, PartialEq, Debug)]
pub struct Listed {
    pub item: Item,
    /// The one that is shown.
    pub status: Status,
    /// What the producer said, but for the payload and the metadata, which are left out.
    pub body: Body,
    pub error: Option<Fault>,
    pub reason: Option<String>,
    pub progress: Option<Progress>,
    /// When something was last written down about it.
    pub changed_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    pub tally: Option<Tally>,
}

impl From<Inspected> for Listed {
    fn from(seen: Inspected) -> Listed {
        let status = seen.status();
        let changed_at = changed_at(&seen);
        let Inspected { item, mut body, mut trail, tally, .. } = seen;
        body.payload = Payload::default();
        body.metadata = None;
        let error = trail.stages.iter_mut().rev().find_map(|stage| stage.error.take());
        Listed {
            item,
            status,
            body,
            error,
            reason: trail.reason,
            progress: trail.progress,
            changed_at,
            finished_at: trail.finished_at,
            tally,
        }
    }
}

fn changed_at(seen: &Inspected) -> Timestamp {
    let stages = seen.trail.stages.iter();
    let of_stages = stages.flat_map(|stage| [stage.started, stage.completed, stage.renewed]);
    let of_attempts = seen.trail.attempts.iter().map(|attempt| Some(attempt.ended));
    let all = of_stages.chain(of_attempts).chain([seen.trail.finished_at]).flatten();
    all.fold(seen.item.id.created_at(), Timestamp::max)
}

impl Inspected {
    /// Lets the stage of an item in work show the attempt that runs. The trail learns of an attempt
    /// when it ends; until then only the lease knows who is at it, and since when.
    pub fn show_attempt(&mut self, lease: Option<&Lease>) {
        if self.item.lease().is_none() {
            return;
        }
        let (stage, attempts) = (self.item.stage, self.item.attempts);
        let record = self.trail.stage_mut(stage);
        record.status = Status::Processing;
        record.attempts = attempts;
        record.completed = None;
        if let Some(lease) = lease {
            record.worker = Some(Arc::clone(&lease.worker));
            record.started = Some(lease.granted);
            record.renewed = Some(lease.renewed).filter(|renewed| *renewed > lease.granted);
        }
    }

    /// The status that people see.
    pub fn status(&self) -> Status {
        shown(&self.item, self.tally.as_ref())
    }
}

/// The status that people see of an item, given what it knows of its children.
pub fn shown(item: &Item, tally: Option<&Tally>) -> Status {
    match (item.state, tally) {
        (State::Split, Some(tally)) => tally.status(),
        _ => item.status(),
    }
}

/// What operators said about queues.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Configured {
    /// Settings by queue, in order. A queue that is not here is as queues are by default.
    pub settings: Vec<(Arc<str>, Settings)>,
    /// What is paused, in order.
    pub paused: Vec<Scope>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::StoreTag;

    #[test]
    fn a_text_is_found_in_either_case_and_nothing_else_is_alike() {
        let found = |text: &str, other: &str| Text::new(text).is_in(other);
        assert!(found("Abc", "xxaBCxx") && found("", "") && found("é", "caf\u{e9}"));
        assert!(!found("abc", "ab") && !found("abd", "abc") && !found("É", "é"));
    }

    #[test]
    fn only_the_beginning_of_an_id_is_looked_for() {
        let id = ItemId::from_serial(0x0123_4567_89ab_cdef, StoreTag::new(7));
        let begins = |text: &str| Text::new(text).begins(id);
        let text = id.to_string();
        assert!(begins(&text) && begins(&text[..8]) && begins(&text.to_uppercase()));
        assert!(!begins(&text[..7]) && !begins(&text[1..]) && !begins(&text[24..]));
    }
}
