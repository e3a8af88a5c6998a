//! Overlay: a disk that passes reads through and keeps every write in memory.
//!
//! For looking at a data directory without changing it. Opening a store writes: it cuts a torn
//! tail, syncs the last group once more and clears leftovers. Through an overlay all that happens
//! to the picture, and the files stay as they are. Leaves out durability, since nothing here
//! outlives the process; what is written takes memory, so this is not for a store at work.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::disk::{Disk, DiskFile, DiskLock, LockError};

/// A picture of another disk that can be written on.
#[derive(Debug)]
pub struct Overlay {
    below: Arc<dyn Disk>,
    /// What names mean here; those that are absent mean what they mean below. None is removed.
    names: Mutex<BTreeMap<String, Option<Arc<Painted>>>>,
}

impl Overlay {
    /// A picture of this disk as it is now.
    pub fn over(below: Arc<dyn Disk>) -> Overlay {
        Overlay { below, names: Mutex::default() }
    }

    fn find(&self, name: &str) -> io::Result<Arc<Painted>> {
        let mut names = self.names.lock();
        if let Some(known) = names.get(name) {
            return known.clone().ok_or_else(|| io::ErrorKind::NotFound.into());
        }
        let below = self.below.open(name)?;
        let bytes = below.len()?;
        let file = Arc::new(Painted {
            paint: Mutex::new(Paint { bytes, shown: bytes, strokes: Vec::new() }),
            below: Some(below),
        });
        names.insert(name.to_owned(), Some(Arc::clone(&file)));
        Ok(file)
    }
}

impl Disk for Overlay {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        match self.find(name) {
            Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) => {}
        }
        let file = Arc::new(Painted::default());
        self.names.lock().insert(name.to_owned(), Some(Arc::clone(&file)));
        Ok(Box::new(file))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(self.find(name)?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let names = self.names.lock();
        let mut list = self.below.list()?;
        list.retain(|name| !names.contains_key(name));
        list.extend(names.iter().filter(|(_, file)| file.is_some()).map(|(name, _)| name.clone()));
        list.sort();
        Ok(list)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let file = self.find(from)?;
        let mut names = self.names.lock();
        names.insert(from.to_owned(), None);
        names.insert(to.to_owned(), Some(file));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.find(name)?;
        self.names.lock().insert(name.to_owned(), None);
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self) -> Result<DiskLock, LockError> {
        self.below.lock()
    }
}

/// A file, and what was written on it here.
#[derive(Debug, Default)]
struct Painted {
    below: Option<Box<dyn DiskFile>>,
    paint: Mutex<Paint>,
}

#[derive(Debug, Default)]
struct Paint {
    /// The length of the file here.
    bytes: u64,
    /// So much of the file below shows through; behind it are zeros.
    shown: u64,
    /// What was written where, in order.
    strokes: Vec<(u64, Vec<u8>)>,
}

impl DiskFile for Arc<Painted> {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let paint = self.paint.lock();
        let end = offset + bytes.len() as u64;
        if end > paint.bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let shown = paint.shown.saturating_sub(offset).min(bytes.len() as u64);
        let (through, zeros) = bytes.split_at_mut(shown as usize);
        if let Some(below) = self.below.as_ref().filter(|_| shown > 0) {
            below.read_at(through, offset)?;
        }
        zeros.fill(0);
        for (at, stroke) in &paint.strokes {
            let (from, to) = (offset.max(*at), end.min(at + stroke.len() as u64));
            if from < to {
                let seen = &stroke[(from - at) as usize..(to - at) as usize];
                bytes[(from - offset) as usize..(to - offset) as usize].copy_from_slice(seen);
            }
        }
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut paint = self.paint.lock();
        paint.bytes = paint.bytes.max(offset + bytes.len() as u64);
        paint.strokes.push((offset, bytes.to_vec()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.paint.lock().bytes)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut paint = self.paint.lock();
        paint.bytes = bytes;
        paint.shown = paint.shown.min(bytes);
        for (at, stroke) in &mut paint.strokes {
            stroke.truncate(bytes.saturating_sub(*at) as usize);
        }
        Ok(())
    }
}
