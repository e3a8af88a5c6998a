//! Loading a snapshot: one thread reads, checks and decodes, the other builds the tables.

use std::sync::mpsc::{SyncSender, sync_channel};

use windrow_core::command::Scope;
use windrow_core::item::{BlobRef, End};
use windrow_core::resource::Resource;
use windrow_core::settings::Settings;
use windrow_core::tally::Tally;
use windrow_core::{RequestId, Timestamp};

use super::{
    Base, END, FRAME_BYTES, HEADER_BYTES, HISTORY, LEASES, MAGIC, META, NAMES, NOTES, PARENT,
    REQUESTS, RESOURCES, REST, SLICE, SLOTS, SNAPSHOT_FORMAT, SnapshotError, Start, sequence_of,
};
use crate::embedded::codec::record::{Image, ImageState};
use crate::embedded::codec::{Malformed, Reader};
use crate::embedded::disk::{Disk, DiskFile};
use crate::embedded::log::{Loc, Position, StoreId};
use crate::embedded::schedule::history::Entry;
use crate::embedded::tables::Tables;

/// Loads the newest snapshot, if there is one, and says where replay begins.
pub(crate) fn load(disk: &dyn Disk, tables: &mut Tables) -> Result<Option<Start>, SnapshotError> {
    let io = |file: &str| {
        let file = file.to_owned();
        move |source| SnapshotError::Io { file, source }
    };
    let names = disk.list().map_err(io("the data directory"))?;
    let newest = names.iter().filter_map(|name| Some((sequence_of(name)?, name))).max();
    let Some((_, name)) = newest else { return Ok(None) };
    let file = disk.open(name).map_err(io(name))?;
    let len = file.len().map_err(io(name))?;
    let mut loading = Loading { file: &*file, name, len, offset: 0 };
    loading.header()?;
    std::thread::scope(|scope| {
        let (send, blocks) = sync_channel(BLOCKS_AHEAD);
        scope.spawn(move || loading.send_all(&send));
        let mut start = None;
        for block in blocks {
            let Block { offset, end, content } = block?;
            let damaged = || SnapshotError::Damaged { file: name.clone(), offset };
            match load_block(content, tables, &mut start) {
                Err(Malformed) => return Err(damaged()),
                Ok(Loaded::More) => {}
                Ok(Loaded::Foreign) => return Err(SnapshotError::Foreign { file: name.clone() }),
                Ok(Loaded::End { seen }) => {
                    let position = start.ok_or_else(damaged)?;
                    return Ok(Some(Start { position, until: seen, bytes: end }));
                }
            }
        }
        Err(SnapshotError::Damaged { file: name.clone(), offset: len })
    })
}

/// Where a snapshot begins and what it has seen, without what it holds. Every checksum is compared.
pub(super) fn base_of(disk: &dyn Disk, name: &str) -> Result<Base, SnapshotError> {
    let io = |source| SnapshotError::Io { file: name.to_owned(), source };
    let file = disk.open(name).map_err(io)?;
    let len = file.len().map_err(io)?;
    let mut loading = Loading { file: &*file, name, len, offset: 0 };
    loading.header()?;
    let (mut position, mut at) = (None, None);
    loop {
        let offset = loading.offset;
        let damaged = || SnapshotError::Damaged { file: name.to_owned(), offset };
        let (kind, bytes) = loading.block()?;
        let from = &mut Reader::new(&bytes);
        match kind {
            META => {
                from.take(16).map_err(|Malformed| damaged())?;
                position = Some(position_in(from).map_err(|Malformed| damaged())?);
            }
            REST => at = Some(from.get().map_err(|Malformed| damaged())?),
            END => {
                let until = from.serial().map_err(|Malformed| damaged())?;
                let position = position.ok_or_else(damaged)?;
                let start = Start { position, until, bytes: loading.offset };
                return Ok(Base { start, at: at.ok_or_else(damaged)? });
            }
            _ => {}
        }
    }
}

/// Images that are looked at together before each is put in its place.
const SOME: usize = 64;

/// Blocks that are decoded before the tables take them.
const BLOCKS_AHEAD: usize = 8;

/// One block of a snapshot whose checksum was right.
struct Block {
    offset: u64,
    end: u64,
    content: Content,
}

enum Content {
    Slots(Vec<Image>),
    Other { kind: u8, bytes: Vec<u8> },
}

struct Loading<'a> {
    file: &'a dyn DiskFile,
    name: &'a str,
    len: u64,
    offset: u64,
}

impl Loading<'_> {
    /// Sends all blocks, or the first error, unless nobody listens any more.
    fn send_all(mut self, to: &SyncSender<Result<Block, SnapshotError>>) {
        loop {
            let block = self.next();
            let is_last = match &block {
                Ok(block) => matches!(block.content, Content::Other { kind: END, .. }),
                Err(_) => true,
            };
            if to.send(block).is_err() || is_last {
                return;
            }
        }
    }

    fn next(&mut self) -> Result<Block, SnapshotError> {
        let offset = self.offset;
        let (kind, bytes) = self.block()?;
        let content = if kind == SLOTS {
            let damaged = |_| SnapshotError::Damaged { file: self.name.to_owned(), offset };
            Content::Slots(decode_slots(&bytes).map_err(damaged)?)
        } else {
            Content::Other { kind, bytes }
        };
        Ok(Block { offset, end: self.offset, content })
    }

    fn damaged(&self) -> SnapshotError {
        SnapshotError::Damaged { file: self.name.to_owned(), offset: self.offset }
    }

    fn read(&mut self, len: usize) -> Result<Vec<u8>, SnapshotError> {
        if self.offset + len as u64 > self.len {
            return Err(self.damaged());
        }
        let mut bytes = vec![0; len];
        let source = self.file.read_at(&mut bytes, self.offset);
        source.map_err(|source| SnapshotError::Io { file: self.name.to_owned(), source })?;
        self.offset += len as u64;
        Ok(bytes)
    }

    fn header(&mut self) -> Result<(), SnapshotError> {
        let head = self.read(HEADER_BYTES)?;
        let found = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        if head[..8] != MAGIC {
            self.offset = 0;
            return Err(self.damaged());
        }
        if found > SNAPSHOT_FORMAT || found == 0 {
            return Err(SnapshotError::Format { file: self.name.to_owned(), found });
        }
        Ok(())
    }

    fn block(&mut self) -> Result<(u8, Vec<u8>), SnapshotError> {
        let at = self.offset;
        let frame = self.read(FRAME_BYTES)?;
        let word =
            |i: usize| u32::from_le_bytes([frame[i], frame[i + 1], frame[i + 2], frame[i + 3]]);
        let (len, crc, kind) = (word(0) as usize, word(4), frame[8]);
        let bytes = self.read(len)?;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&[kind]);
        hasher.update(&at.to_le_bytes());
        hasher.update(&bytes);
        if hasher.finalize() != crc {
            self.offset = at;
            return Err(self.damaged());
        }
        Ok((kind, bytes))
    }
}

enum Loaded {
    More,
    Foreign,
    End { seen: u64 },
}

fn decode_slots(bytes: &[u8]) -> Result<Vec<Image>, Malformed> {
    let from = &mut Reader::new(bytes);
    let mut images: Vec<Image> = Vec::with_capacity(SLICE);
    while !from.is_empty() {
        let image: Image = from.get()?;
        if matches!(image.state, ImageState::Done { .. }) {
            return Err(Malformed);
        }
        images.push(image);
    }
    Ok(images)
}

fn position_in(from: &mut Reader<'_>) -> Result<Position, Malformed> {
    let sequence = from.serial()?;
    Ok(Position { sequence, segment: from.get()?, offset: from.get()? })
}

fn load_block(
    content: Content,
    tables: &mut Tables,
    start: &mut Option<Position>,
) -> Result<Loaded, Malformed> {
    let (kind, bytes) = match content {
        Content::Slots(images) => {
            for some in images.chunks(SOME) {
                tables.warm_groups(some);
                for image in some {
                    tables.ids.seen(image.serial);
                    tables.put_slot(image);
                }
            }
            return Ok(Loaded::More);
        }
        Content::Other { kind, bytes } => (kind, bytes),
    };
    let from = &mut Reader::new(&bytes);
    match kind {
        META => {
            let id = from.take(16)?.try_into().map_err(|_| Malformed)?;
            if StoreId(id) != tables.segments.store_id() {
                return Ok(Loaded::Foreign);
            }
            *start = Some(position_in(from)?);
        }
        NAMES => load_names(from, tables)?,
        HISTORY => {
            while !from.is_empty() {
                load_entry(from, tables)?;
            }
        }
        NOTES => {
            while !from.is_empty() {
                let (shelf, name) = (from.get()?, from.get()?);
                tables.notes.put(shelf, name, from.get()?, from.get()?);
            }
        }
        RESOURCES => {
            while !from.is_empty() {
                let (name, state) = (from.get()?, from.get()?);
                tables.gates.insert(name, state);
            }
        }
        PARENT => {
            while !from.is_empty() {
                load_parent(from, tables)?;
            }
        }
        LEASES => {
            while !from.is_empty() {
                tables.leases.put(from.get()?);
            }
        }
        REQUESTS => {
            for _ in 0..from.varint()? {
                let (at, request, loc): (Timestamp, RequestId, Loc) =
                    (from.get()?, from.get()?, from.get()?);
                tables.requests.put(request, loc, at);
            }
        }
        REST => load_rest(from, tables)?,
        END => return Ok(Loaded::End { seen: from.serial()? }),
        _ => return Err(Malformed),
    }
    Ok(Loaded::More)
}

fn load_names(from: &mut Reader<'_>, tables: &mut Tables) -> Result<(), Malformed> {
    let mut shared = tables.shared_names.write();
    for _ in 0..from.varint()? {
        let text = from.get()?;
        shared.number(&text);
        tables.names.number(&text);
    }
    for _ in 0..from.varint()? {
        let route = from.get()?;
        shared.add_route(&route);
        tables.names.add_route(&route);
    }
    Ok(())
}

fn load_entry(from: &mut Reader<'_>, tables: &mut Tables) -> Result<(), Malformed> {
    let serial = from.serial()?;
    let at: Loc = from.get()?;
    let (queue, tenant): (u32, u32) = (from.get()?, from.get()?);
    let (end, root, ended_s): (End, bool, u64) = (from.get()?, from.get()?, from.get()?);
    let owner = tables.owners.number(queue, tenant);
    tables.ids.seen(serial);
    // An item that ended between two slices is in both; it is where it ended.
    if tables.slab.find(serial).is_none() {
        tables.history.push(Entry { serial, at, owner, end, root, ended_s });
    }
    Ok(())
}

fn load_parent(from: &mut Reader<'_>, tables: &mut Tables) -> Result<(), Malformed> {
    let serial = from.serial()?;
    let folded: bool = from.get()?;
    if from.byte()? == 1 {
        let tally: Tally = from.get()?;
        tables.trees.set_tally(serial, Box::new(tally));
        tables.trees.clean(serial);
    }
    for _ in 0..from.varint()? {
        let (generation, ordinal) = (from.get()?, from.get()?);
        let child = from.serial()?;
        tables.trees.add_child(serial, generation, ordinal, child);
    }
    if folded {
        tables.trees.fold(serial);
    }
    Ok(())
}

fn load_rest(from: &mut Reader<'_>, tables: &mut Tables) -> Result<(), Malformed> {
    tables.now = from.get()?;
    tables.ids.seen(from.serial()?);
    for _ in 0..from.varint()? {
        tables.successors.insert(from.serial()?, from.serial()?);
    }
    for _ in 0..from.varint()? {
        let (parent, generation) = from.get()?;
        tables.trees.orphan(parent, generation, false);
    }
    for _ in 0..from.varint()? {
        let scope: Scope = from.get()?;
        tables.pauses.scopes.insert(scope);
    }
    for _ in 0..from.varint()? {
        let (queue, settings): (u32, Settings) = (from.get()?, from.get()?);
        let name = tables.names.texts().get(queue as usize).cloned().ok_or(Malformed)?;
        tables.settings.say(queue, &name, settings.into());
    }
    for _ in 0..from.varint()? {
        let (name, closed_until) = (from.get()?, from.get()?);
        tables.gates.insert(name, Resource { closed_until, ..Resource::default() });
    }
    for _ in 0..from.varint()? {
        let (tenant, blob, references): (u32, BlobRef, u32) =
            (from.get()?, from.get()?, from.get()?);
        tables.blobs.insert((tenant, blob), references);
    }
    Ok(())
}
