//! Records: what the log consists of.
//!
//! All of them are absolute, so replaying one twice, or one that a snapshot already contains, is
//! harmless. An item has at most two places on disk: its body (`CREATE` or a later `BODY`) and its
//! trail (`TRAIL`, or `FINISH` once it has ended).

use std::sync::Arc;

use windrow_core::change::Lease;
use windrow_core::command::Scope;
use windrow_core::item::{BlobRef, End, Marks};
use windrow_core::resource::Resource;
use windrow_core::route::Route;
use windrow_core::settings::Settings;
use windrow_core::tally::Tally;
use windrow_core::{LeaseId, RequestId, Timestamp};

use super::{Malformed, Pack, Reader, put_serial, put_varint};
use crate::embedded::log::Loc;

/// The tags of records. A number is never used for something else.
pub(crate) mod tag {
    pub(crate) const TEXT: u8 = 1;
    pub(crate) const ROUTE: u8 = 2;
    pub(crate) const CREATE: u8 = 3;
    pub(crate) const BODY: u8 = 4;
    pub(crate) const STATE: u8 = 5;
    pub(crate) const GRANT: u8 = 6;
    pub(crate) const LEASE: u8 = 7;
    pub(crate) const TRAIL: u8 = 8;
    pub(crate) const FINISH: u8 = 9;
    pub(crate) const REMOVE: u8 = 10;
    pub(crate) const TALLY: u8 = 11;
    pub(crate) const SUCCESSOR: u8 = 12;
    pub(crate) const ORPHAN: u8 = 13;
    pub(crate) const FOLDED: u8 = 14;
    pub(crate) const PAUSED: u8 = 15;
    pub(crate) const SETTINGS: u8 = 16;
    pub(crate) const GATE: u8 = 17;
    pub(crate) const BLOB: u8 = 18;
    pub(crate) const ANSWERED: u8 = 19;
    pub(crate) const CLOCK: u8 = 20;
    pub(crate) const NOTE: u8 = 21;
    pub(crate) const RESOURCE: u8 = 22;
}

/// The names of tags, for `dump`.
pub(crate) fn tag_name(tag: u8) -> &'static str {
    const NAMES: [&str; 23] = [
        "?",
        "text",
        "route",
        "create",
        "body",
        "state",
        "grant",
        "lease",
        "trail",
        "finish",
        "remove",
        "tally",
        "successor",
        "orphan",
        "folded",
        "paused",
        "settings",
        "gate",
        "blob",
        "answered",
        "clock",
        "note",
        "resource",
    ];
    NAMES.get(usize::from(tag)).copied().unwrap_or("?")
}

/// An item's state as it stands in records and snapshots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Image {
    pub(crate) serial: u64,
    pub(crate) queue: u32,
    pub(crate) kind: u32,
    pub(crate) tenant: u32,
    pub(crate) route: u32,
    pub(crate) group: Option<Arc<str>>,
    pub(crate) stage: u8,
    pub(crate) priority: u8,
    pub(crate) state: ImageState,
    pub(crate) attempts: u16,
    pub(crate) deferrals: u16,
    pub(crate) generation: u16,
    pub(crate) skipped: u16,
    pub(crate) marks: Marks,
    pub(crate) key: u64,
    pub(crate) place: Option<PlaceImage>,
    /// Where its body lies; none in the record that is its body.
    pub(crate) body: Option<Loc>,
    pub(crate) trail: Option<Loc>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ImageState {
    Pending { not_before: u64 },
    Held { not_before: u64 },
    Leased { lease: LeaseId },
    Split,
    Done { end: End, at: Timestamp },
}

super::pack_enum! {
    ImageState {
        0 = Pending { not_before }, 1 = Held { not_before }, 2 = Leased { lease }, 3 = Split,
        4 = Done { end, at },
    }
}

/// Where an item stands in a tree, with its parent's serial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PlaceImage {
    pub(crate) parent: u64,
    pub(crate) generation: u16,
    pub(crate) ordinal: u32,
    pub(crate) level: u8,
}

super::pack_struct!(PlaceImage { parent, generation, ordinal, level });

impl Pack for Loc {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.segment()));
        put_varint(out, u64::from(self.offset()));
    }
    fn get(from: &mut Reader<'_>) -> Result<Loc, Malformed> {
        let (segment, offset) = (from.get()?, from.get()?);
        Loc::new(segment, offset).ok_or(Malformed)
    }
}

impl Pack for Image {
    fn put(&self, out: &mut Vec<u8>) {
        put_serial(out, self.serial);
        self.queue.put(out);
        self.kind.put(out);
        self.tenant.put(out);
        self.route.put(out);
        self.group.put(out);
        out.push(self.stage);
        out.push(self.priority);
        self.state.put(out);
        self.attempts.put(out);
        self.deferrals.put(out);
        self.generation.put(out);
        self.skipped.put(out);
        self.marks.put(out);
        if self.marks.has(Marks::KEYED) {
            put_serial(out, self.key);
        }
        self.place.put(out);
        self.body.put(out);
        self.trail.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Image, Malformed> {
        let serial = from.serial()?;
        let (queue, kind, tenant, route) = (from.get()?, from.get()?, from.get()?, from.get()?);
        let group = from.get()?;
        let (stage, priority) = (from.byte()?, from.byte()?);
        let state = from.get()?;
        let (attempts, deferrals) = (from.get()?, from.get()?);
        let (generation, skipped) = (from.get()?, from.get()?);
        let marks: Marks = from.get()?;
        let key = if marks.has(Marks::KEYED) { from.serial()? } else { 0 };
        let (place, body, trail) = (from.get()?, from.get()?, from.get()?);
        Ok(Image {
            serial,
            queue,
            kind,
            tenant,
            route,
            group,
            stage,
            priority,
            state,
            attempts,
            deferrals,
            generation,
            skipped,
            marks,
            key,
            place,
            body,
            trail,
        })
    }
}

/// A record, as replay needs it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Record {
    Text(Arc<str>),
    Route(Arc<Route>),
    Create(Image),
    Body { serial: u64 },
    State(Image),
    Grant { lease: Lease, items: Vec<(u64, u16)> },
    Lease(Lease),
    Trail { serial: u64 },
    Finish(Image),
    Remove(Vec<Removed>),
    Tally { serial: u64, tally: Box<Tally> },
    Successor { of: u64, is: Option<u64> },
    Orphan { parent: u64, generation: u16, over: bool },
    Folded { root: u64 },
    Paused { scope: Scope, paused: bool },
    Settings { queue: Arc<str>, settings: Box<Settings> },
    Resource { name: Arc<str>, state: Option<Resource> },
    Blob { tenant: Arc<str>, blob: BlobRef, references: Option<u32> },
    Answered { request: RequestId, at: Timestamp },
    Clock(Timestamp),
    Note { shelf: Arc<str>, name: Arc<str>, version: u64, body: Option<Arc<[u8]>> },
}

/// An item that is gone, and where it stood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Removed {
    pub(crate) serial: u64,
    pub(crate) place: Option<PlaceImage>,
}

super::pack_struct!(Removed { serial, place });
super::pack_lists!(Removed, (u64, u16));

impl Record {
    /// Reads a record. Bodies and trails are not read here, only whose they are.
    pub(crate) fn get(tag: u8, bytes: &[u8]) -> Result<Record, Malformed> {
        let from = &mut Reader::new(bytes);
        Ok(match tag {
            tag::TEXT => Record::Text(from.get()?),
            tag::ROUTE => Record::Route(from.get()?),
            tag::CREATE => Record::Create(from.get()?),
            tag::BODY => Record::Body { serial: from.serial()? },
            tag::STATE => Record::State(from.get()?),
            tag::GRANT => Record::Grant { lease: from.get()?, items: from.get()? },
            tag::LEASE => Record::Lease(from.get()?),
            tag::TRAIL => Record::Trail { serial: from.serial()? },
            tag::FINISH => Record::Finish(from.get()?),
            tag::REMOVE => Record::Remove(from.get()?),
            tag::TALLY => Record::Tally { serial: from.serial()?, tally: Box::new(from.get()?) },
            tag::SUCCESSOR => Record::Successor { of: from.serial()?, is: from.get()? },
            tag::ORPHAN => Record::Orphan {
                parent: from.serial()?,
                generation: from.get()?,
                over: from.get()?,
            },
            tag::FOLDED => Record::Folded { root: from.serial()? },
            tag::PAUSED => Record::Paused { scope: from.get()?, paused: from.get()? },
            tag::SETTINGS => {
                Record::Settings { queue: from.get()?, settings: Box::new(from.get()?) }
            }
            // As format 1 has it.
            tag::GATE => Record::Resource {
                name: from.get()?,
                state: Some(Resource { closed_until: from.get()?, ..Resource::default() }),
            },
            tag::RESOURCE => Record::Resource { name: from.get()?, state: from.get()? },
            tag::BLOB => {
                Record::Blob { tenant: from.get()?, blob: from.get()?, references: from.get()? }
            }
            tag::ANSWERED => Record::Answered { request: from.get()?, at: from.get()? },
            tag::CLOCK => Record::Clock(from.get()?),
            tag::NOTE => Record::Note {
                shelf: from.get()?,
                name: from.get()?,
                version: from.get()?,
                body: from.get()?,
            },
            _ => return Err(Malformed),
        })
    }
}
