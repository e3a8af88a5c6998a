//! Snapshots: the tables on disk, so that opening need not replay the whole log.
//!
//! A snapshot is written in slices while the store goes on: each slice is what a part of the
//! tables is at that moment, some time after the snapshot's start. Loading it and replaying the
//! log from its start on gives the present, because records are absolute and every change since
//! the start is in the log. It counts only once it is whole, synced, and everything it saw is
//! durable in the log.
//!
//! ```text
//! snapshot-<sequence of its start>.snap
//! block: len u32, crc u32, kind u8, bytes      META, (NAMES, SLOTS)*, HISTORY*, …, END
//! ```

pub(crate) mod load;
mod size;

use std::io;

use windrow_core::Timestamp;

use crate::embedded::codec::{Pack, put_serial, put_varint};
use crate::embedded::disk::{Disk, DiskFile};
use crate::embedded::log::Position;
use crate::embedded::schedule::history::Entry;
use crate::embedded::schedule::slab::SlotNo;
use crate::embedded::shelves::put_note;
use crate::embedded::tables::Tables;

/// The layout of snapshots that this program writes, and the newest it reads.
pub(crate) const SNAPSHOT_FORMAT: u32 = 2;
const MAGIC: [u8; 8] = *b"WINDSNAP";
const HEADER_BYTES: usize = 12;
const FRAME_BYTES: usize = 9;
/// Slots, entries or requests per slice.
const SLICE: usize = 4096;
/// Parents per slice; each brings its children.
const PARENTS: usize = 256;

const META: u8 = 1;
const NAMES: u8 = 2;
const SLOTS: u8 = 3;
const HISTORY: u8 = 4;
const PARENT: u8 = 5;
const LEASES: u8 = 6;
const REQUESTS: u8 = 7;
const REST: u8 = 8;
const END: u8 = 9;
const NOTES: u8 = 10;
const RESOURCES: u8 = 11;

/// Why a snapshot cannot be used. The log before it may be gone, so this stops the opening.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("{file} is damaged at byte {offset}; restore a backup")]
    Damaged { file: String, offset: u64 },
    #[error("{file} has format {found}, and this program reads formats 1 to {SNAPSHOT_FORMAT}")]
    Format { file: String, found: u32 },
    #[error("{file} belongs to another store")]
    Foreign { file: String },
    #[error("{file}: {source}")]
    Io { file: String, source: io::Error },
}

/// Where replay begins after a snapshot was loaded.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) position: Position,
    /// The last group of which the snapshot may have seen something.
    pub(crate) until: u64,
    pub(crate) bytes: u64,
}

/// A snapshot that a log can be taken back to, or to something behind it.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) start: Start,
    /// The store's time when the snapshot was whole: it holds what happened up to then.
    pub(crate) at: Timestamp,
}

pub(crate) fn file_name(sequence: u64) -> String {
    format!("snapshot-{sequence:020}.snap")
}

/// Whether this is the file name of a finished snapshot.
pub(crate) fn is_snapshot(name: &str) -> bool {
    sequence_of(name).is_some()
}

/// What each finished snapshot begins with, the newest first.
pub(crate) fn bases(disk: &dyn Disk) -> Result<Vec<Base>, SnapshotError> {
    let names = names_after(disk, 0).map_err(|source| {
        let file = "the data directory".to_owned();
        SnapshotError::Io { file, source }
    })?;
    names.iter().rev().map(|name| load::base_of(disk, name)).collect()
}

/// The names of snapshots that begin behind a group, in order.
pub(crate) fn names_after(disk: &dyn Disk, sequence: u64) -> io::Result<Vec<String>> {
    let mut names = disk.list()?;
    names.retain(|name| sequence_of(name).is_some_and(|of| of > sequence));
    Ok(names)
}

fn sequence_of(name: &str) -> Option<u64> {
    name.strip_prefix("snapshot-")?.strip_suffix(".snap")?.parse().ok()
}

/// A snapshot that is being written.
#[derive(Debug)]
pub(crate) struct Writing {
    file: Box<dyn DiskFile>,
    name: String,
    start: Position,
    offset: u64,
    unsynced: u64,
    names: usize,
    routes: usize,
    phase: Phase,
    /// The newest group of which a slice saw something.
    seen: u64,
}

#[derive(Debug)]
enum Phase {
    Slots(SlotNo),
    History(u64),
    Parents(Vec<u64>),
    Requests(u64),
    Rest,
    Wait,
}

const TEMPORARY: &str = "snapshot.tmp";
/// How much may wait for a sync, so that the log's own syncs never queue behind a big flush.
const UNSYNCED_MAX: u64 = 4 << 20;

impl Writing {
    /// Begins a snapshot at the log's present end.
    pub(crate) fn begin(disk: &dyn Disk, tables: &Tables) -> io::Result<Writing> {
        let _absent_is_fine = disk.remove(TEMPORARY);
        let file = disk.create(TEMPORARY)?;
        let start = tables.writer().position();
        let mut writing = Writing {
            file,
            name: file_name(start.sequence),
            start,
            offset: 0,
            unsynced: 0,
            names: 0,
            routes: 0,
            phase: Phase::Slots(0),
            seen: 0,
        };
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&SNAPSHOT_FORMAT.to_le_bytes());
        writing.append(&head)?;
        let mut meta = Vec::new();
        meta.extend_from_slice(&tables.segments.store_id().0);
        put_serial(&mut meta, start.sequence);
        start.segment.put(&mut meta);
        start.offset.put(&mut meta);
        writing.block(META, &meta)?;
        Ok(writing)
    }

    /// The next slice, encoded under the lock: blocks to be written without it.
    pub(crate) fn slice(&mut self, tables: &Tables) -> Vec<(u8, Vec<u8>)> {
        self.seen = tables.observed();
        let mut blocks = Vec::new();
        self.new_names(tables, &mut blocks);
        match &mut self.phase {
            Phase::Slots(from) => {
                let to = from.saturating_add(SLICE as SlotNo);
                let images: Vec<u8> = encode_slots(tables, *from..to);
                blocks.push((SLOTS, images));
                let last = to >= tables.slab.reach();
                self.phase = if last { Phase::History(0) } else { Phase::Slots(to) };
            }
            Phase::History(after) => match tables.history.chunk_after(*after) {
                Some((number, entries)) => {
                    blocks.push((HISTORY, encode_history(tables, &entries)));
                    self.phase = Phase::History(number);
                }
                None => self.phase = Phase::Parents(tables.trees.parents().collect()),
            },
            Phase::Parents(left) => {
                let from = left.len().saturating_sub(PARENTS);
                let mut out = Vec::new();
                for serial in left.drain(from..) {
                    encode_parent(tables, serial, &mut out);
                }
                blocks.push((PARENT, out));
                if left.is_empty() {
                    self.phase = Phase::Requests(0);
                }
            }
            Phase::Requests(from) => {
                let (next, found) = tables.requests.range(*from, SLICE);
                let mut out = Vec::new();
                put_varint(&mut out, found.len() as u64);
                for (at, request, loc) in &found {
                    at.put(&mut out);
                    request.put(&mut out);
                    loc.put(&mut out);
                }
                blocks.push((REQUESTS, out));
                let last = found.len() < SLICE;
                self.phase = if last { Phase::Rest } else { Phase::Requests(next) };
            }
            Phase::Rest => {
                blocks.push((LEASES, encode_leases(tables)));
                blocks.push((REST, encode_rest(tables)));
                blocks.push((NOTES, encode_notes(tables)));
                blocks.push((RESOURCES, encode_resources(tables)));
                let mut end = Vec::new();
                put_serial(&mut end, self.seen);
                blocks.push((END, end));
                self.phase = Phase::Wait;
            }
            Phase::Wait => {}
        }
        blocks
    }

    fn new_names(&mut self, tables: &Tables, blocks: &mut Vec<(u8, Vec<u8>)>) {
        let texts = &tables.names.texts()[self.names..];
        let routes: Vec<_> = tables.names.routes().skip(self.routes).cloned().collect();
        if texts.is_empty() && routes.is_empty() {
            return;
        }
        let mut out = Vec::new();
        put_varint(&mut out, texts.len() as u64);
        texts.iter().for_each(|text| text.put(&mut out));
        put_varint(&mut out, routes.len() as u64);
        routes.iter().for_each(|route| route.put(&mut out));
        self.names += texts.len();
        self.routes += routes.len();
        blocks.push((NAMES, out));
    }

    /// How far it is, with what could not be written.
    pub(crate) fn bytes(&self) -> u64 {
        self.offset
    }

    /// Writes blocks; syncs now and then.
    pub(crate) fn write(&mut self, blocks: &[(u8, Vec<u8>)]) -> io::Result<()> {
        blocks.iter().try_for_each(|(kind, bytes)| self.block(*kind, bytes))?;
        if self.unsynced > UNSYNCED_MAX {
            self.unsynced = 0;
            self.file.sync()?;
        }
        Ok(())
    }

    /// Whether everything is written and only the log has to catch up.
    pub(crate) fn waits_for(&self) -> Option<u64> {
        matches!(self.phase, Phase::Wait).then_some(self.seen)
    }

    /// Makes the snapshot count, and removes the one before it.
    pub(crate) fn publish(self, disk: &dyn Disk) -> io::Result<Start> {
        self.file.sync()?;
        disk.rename(TEMPORARY, &self.name)?;
        disk.sync_dir()?;
        for name in disk.list()? {
            if sequence_of(&name).is_some_and(|sequence| sequence < self.start.sequence) {
                disk.remove(&name)?;
            }
        }
        Ok(Start { position: self.start, until: self.seen, bytes: self.offset })
    }

    fn block(&mut self, kind: u8, bytes: &[u8]) -> io::Result<()> {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&[kind]);
        hasher.update(&self.offset.to_le_bytes());
        hasher.update(bytes);
        let mut frame = Vec::with_capacity(FRAME_BYTES + bytes.len());
        frame.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        frame.extend_from_slice(&hasher.finalize().to_le_bytes());
        frame.push(kind);
        frame.extend_from_slice(bytes);
        self.append(&frame)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let at = self.offset;
        self.offset += bytes.len() as u64;
        self.unsynced += bytes.len() as u64;
        self.file.write_at(bytes, at)
    }
}

fn encode_slots(tables: &Tables, range: std::ops::Range<SlotNo>) -> Vec<u8> {
    let mut out = Vec::with_capacity(SLICE * 48);
    for (_, slot) in tables.slab.range(range) {
        tables.image(slot).put(&mut out);
    }
    out
}

fn encode_history(tables: &Tables, entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() * 24);
    for entry in entries {
        let owner = tables.owners.get(entry.owner);
        put_serial(&mut out, entry.serial);
        entry.at.put(&mut out);
        owner.queue.put(&mut out);
        owner.tenant.put(&mut out);
        entry.end.put(&mut out);
        entry.root.put(&mut out);
        entry.ended_s.put(&mut out);
    }
    out
}

fn encode_parent(tables: &Tables, serial: u64, out: &mut Vec<u8>) {
    let Some(parent) = tables.trees.parent(serial) else { return };
    put_serial(out, serial);
    parent.folded.put(out);
    out.push(u8::from(parent.tally.is_some()));
    if let Some(tally) = &parent.tally {
        tally.put(out);
    }
    let children: Vec<(u16, u32, u64)> = tables.trees.all_children(serial).collect();
    put_varint(out, children.len() as u64);
    for (generation, ordinal, child) in children {
        generation.put(out);
        ordinal.put(out);
        put_serial(out, child);
    }
}

fn encode_leases(tables: &Tables) -> Vec<u8> {
    let mut out = Vec::new();
    tables.leases.iter().for_each(|lease| lease.put(&mut out));
    out
}

fn encode_notes(tables: &Tables) -> Vec<u8> {
    let mut out = Vec::new();
    for (shelf, note) in tables.notes.all() {
        put_note(&mut out, shelf, &note.name, note.version, Some(&note.body));
    }
    out
}

fn encode_resources(tables: &Tables) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, state) in &tables.gates {
        name.put(&mut out);
        state.put(&mut out);
    }
    out
}

fn encode_rest(tables: &Tables) -> Vec<u8> {
    let mut out = Vec::new();
    tables.now.put(&mut out);
    put_serial(&mut out, tables.ids.last());
    put_varint(&mut out, tables.successors.len() as u64);
    for (of, is) in &tables.successors {
        put_serial(&mut out, *of);
        put_serial(&mut out, *is);
    }
    let orphans: Vec<(u64, u16)> = tables.trees.orphans().collect();
    put_varint(&mut out, orphans.len() as u64);
    orphans.iter().for_each(|orphan| orphan.put(&mut out));
    put_varint(&mut out, tables.pauses.scopes.len() as u64);
    tables.pauses.scopes.iter().for_each(|scope| scope.put(&mut out));
    put_varint(&mut out, tables.settings.len() as u64);
    for (queue, settings) in tables.settings.iter() {
        queue.put(&mut out);
        settings.put(&mut out);
    }
    // Where format 1 has until when resources are closed. They have a block of their own now.
    put_varint(&mut out, 0);
    put_varint(&mut out, tables.blobs.len() as u64);
    for ((tenant, blob), references) in &tables.blobs {
        tenant.put(&mut out);
        blob.put(&mut out);
        references.put(&mut out);
    }
    out
}
