//! Trees: what parents know of their children, and where the children are.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use windrow_core::tally::Tally;

/// All parents, live or ended, until they are folded or removed.
#[derive(Debug, Default)]
pub(crate) struct Trees {
    parents: HashMap<u64, Parent>,
    /// Subtrees whose live items are to be cancelled: orphaned generations of parents.
    orphans: BTreeSet<(u64, u16)>,
    children: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Parent {
    pub(crate) tally: Option<Box<Tally>>,
    /// Serials of children by generation and ordinal.
    children: BTreeMap<(u16, u32), u64>,
    /// The tally changed since it was last written.
    pub(crate) dirty: bool,
    /// Its children are gone and only the counts are left.
    pub(crate) folded: bool,
}

impl Trees {
    pub(crate) fn tally(&self, serial: u64) -> Option<&Tally> {
        self.parents.get(&serial)?.tally.as_deref()
    }

    /// Sets the counts of a parent; true if they were written since they last changed.
    pub(crate) fn set_tally(&mut self, serial: u64, tally: Box<Tally>) -> bool {
        let parent = self.parents.entry(serial).or_default();
        parent.tally = Some(tally);
        !std::mem::replace(&mut parent.dirty, true)
    }

    /// Forgets the counts of an item whose children were left behind.
    pub(crate) fn drop_tally(&mut self, serial: u64) {
        if let Some(parent) = self.parents.get_mut(&serial) {
            parent.tally = None;
        }
    }

    /// The counts of a parent that are to be written.
    pub(crate) fn clean(&mut self, serial: u64) -> Option<&Tally> {
        let parent = self.parents.get_mut(&serial)?;
        parent.dirty = false;
        parent.tally.as_deref()
    }

    pub(crate) fn add_child(&mut self, parent: u64, generation: u16, ordinal: u32, child: u64) {
        let parent = self.parents.entry(parent).or_default();
        let known = parent.children.insert((generation, ordinal), child);
        self.children += usize::from(known.is_none());
    }

    pub(crate) fn remove_child(&mut self, parent: u64, generation: u16, ordinal: u32) {
        if let Some(parent) = self.parents.get_mut(&parent) {
            let known = parent.children.remove(&(generation, ordinal));
            self.children -= usize::from(known.is_some());
        }
    }

    pub(crate) fn child(&self, parent: u64, generation: u16, ordinal: u32) -> Option<u64> {
        self.parents.get(&parent)?.children.get(&(generation, ordinal)).copied()
    }

    /// Children of one generation from an ordinal on, in order.
    pub(crate) fn children(
        &self,
        parent: u64,
        generation: u16,
        from: u32,
    ) -> impl Iterator<Item = u64> {
        let parent = self.parents.get(&parent).into_iter();
        let range = (generation, from)..=(generation, u32::MAX);
        parent.flat_map(move |parent| parent.children.range(range.clone())).map(|(_, id)| *id)
    }

    /// Children of all generations.
    pub(crate) fn all_children(&self, parent: u64) -> impl Iterator<Item = (u16, u32, u64)> {
        let parent = self.parents.get(&parent).into_iter();
        parent.flat_map(|parent| &parent.children).map(|((g, o), id)| (*g, *o, *id))
    }

    pub(crate) fn fold(&mut self, parent: u64) {
        if let Some(parent) = self.parents.get_mut(&parent) {
            parent.folded = true;
        }
    }

    pub(crate) fn parent(&self, serial: u64) -> Option<&Parent> {
        self.parents.get(&serial)
    }

    pub(crate) fn remove(&mut self, parent: u64) {
        if let Some(gone) = self.parents.remove(&parent) {
            self.children -= gone.children.len();
            self.orphans.retain(|(known, _)| *known != parent);
        }
    }

    pub(crate) fn orphan(&mut self, parent: u64, generation: u16, over: bool) {
        if over {
            self.orphans.remove(&(parent, generation));
        } else {
            self.orphans.insert((parent, generation));
        }
    }

    pub(crate) fn orphans(&self) -> impl DoubleEndedIterator<Item = (u64, u16)> {
        self.orphans.iter().copied()
    }

    /// How many parents there are, and how many children they have.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.parents.len(), self.children)
    }

    /// Serials of all parents.
    pub(crate) fn parents(&self) -> impl Iterator<Item = u64> {
        self.parents.keys().copied()
    }

    /// How many children all parents have.
    pub(crate) fn len(&self) -> usize {
        self.children
    }
}
