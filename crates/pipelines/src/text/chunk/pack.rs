//! Pack: which atoms are one chunk.
//!
//! Atoms are taken in order until a chunk is full or a section begins. What belongs together (a
//! title and what it is over, a clause and what is under it) stays together if it fits at all.

use std::ops::Range;

use super::atoms::{Atom, Frame, Role};
use super::cut;
use super::strategy::{Sizes, Strategy};

/// What one chunk is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pack {
    pub atoms: Range<usize>,
    /// Where what it repeats of the text before it begins; its own start, if it repeats nothing.
    pub start: usize,
    /// How many characters that are.
    overlap: usize,
}

#[derive(Debug)]
pub(super) struct Packer<'a> {
    pub text: &'a str,
    pub atoms: &'a [Atom],
    /// The frame of each block.
    pub frames: &'a [Option<Frame>],
    pub strategy: Strategy,
    pub sizes: Sizes,
}

impl Packer<'_> {
    pub(super) fn pack(&self) -> Vec<Pack> {
        let mut packs: Vec<Pack> = Vec::new();
        for unit in self.units() {
            match packs.last_mut().filter(|pack| self.takes(pack, &unit)) {
                Some(pack) => pack.atoms.end = unit.end,
                None => packs.push(self.open(unit)),
            }
        }
        self.join_last(&mut packs);
        packs
    }

    /// One chunk of everything, if it fits.
    pub(super) fn whole(&self) -> Vec<Pack> {
        let Some(first) = self.atoms.first() else { return Vec::new() };
        let atoms = 0..self.atoms.len();
        if self.chars(&atoms) > self.sizes.max {
            return self.pack();
        }
        vec![Pack { atoms, start: first.range.start, overlap: 0 }]
    }

    /// What stands before and after the atoms of a chunk so that they can be read alone.
    pub(super) fn frame(&self, atoms: &Range<usize>) -> (&str, &str) {
        let (before, after) = self.frames_of(atoms);
        (before.map_or("", |frame| &frame.before), after.map_or("", |frame| &frame.after))
    }

    fn frames_of(&self, atoms: &Range<usize>) -> (Option<&Frame>, Option<&Frame>) {
        let (first, last) = (&self.atoms[atoms.start], &self.atoms[atoms.end - 1]);
        let frame = |atom: &Atom| self.frames[atom.block].as_ref();
        (frame(first).filter(|_| first.resumes), frame(last).filter(|_| last.stops))
    }

    /// How many characters a chunk of these atoms has, but for what it repeats of the text before.
    fn chars(&self, atoms: &Range<usize>) -> usize {
        let (before, after) = self.frames_of(atoms);
        self.atoms[atoms.end - 1].to - self.atoms[atoms.start].from
            + before.map_or(0, |frame| frame.before_chars)
            + after.map_or(0, |frame| frame.after_chars)
    }

    fn is_small(&self, atoms: &Range<usize>) -> bool {
        self.chars(atoms) < self.sizes.least
    }

    /// Whether a chunk goes on with a unit: there is room, and no section begins with it. A chunk
    /// that would be too small otherwise goes on for longer.
    fn takes(&self, pack: &Pack, unit: &Range<usize>) -> bool {
        let small = self.is_small(&pack.atoms);
        if self.atoms[unit.start].breaks && !small {
            return false;
        }
        let chars = self.chars(&(pack.atoms.start..unit.end));
        let full = if small { self.sizes.max } else { self.sizes.target };
        chars <= full && chars + pack.overlap <= self.sizes.max
    }

    fn open(&self, unit: Range<usize>) -> Pack {
        let room = self.sizes.max.saturating_sub(self.chars(&unit));
        let start = self.overlap(unit.start, self.sizes.overlap.min(room));
        let own = self.atoms[unit.start].range.start;
        let overlap = self.text[start..own].chars().count();
        Pack { atoms: unit, start, overlap }
    }

    /// The last chunk joins the one before it if it is small and nothing keeps them apart.
    fn join_last(&self, packs: &mut Vec<Pack>) {
        let [.., before, last] = packs.as_mut_slice() else { return };
        let joined = before.atoms.start..last.atoms.end;
        let apart = self.atoms[last.atoms.start].breaks || !self.is_small(&last.atoms);
        if !apart && self.chars(&joined) + before.overlap <= self.sizes.max {
            before.atoms = joined;
            packs.pop();
        }
    }

    /// Where the text begins that a chunk repeats: sentences just before it, in the same section;
    /// or, where text is mostly tables, rows just before it in the same table.
    fn overlap(&self, first: usize, room: usize) -> usize {
        let own = &self.atoms[first];
        let mut start = own.range.start;
        if own.breaks {
            return start;
        }
        let mut next = own;
        for before in self.atoms[..first].iter().rev() {
            let rows = self.strategy == Strategy::TablePreserving
                && before.role == Role::Row
                && before.block == own.block
                && own.resumes;
            let prose = matches!(before.role, Role::Prose | Role::Clause) && !own.resumes;
            if !prose && !rows || next.breaks {
                break;
            }
            if own.from - before.from > room {
                // The white space between the two would be repeated as well.
                let left = room.saturating_sub(own.from - before.to);
                if prose {
                    start = cut::tail(self.text, before.range.clone(), left).unwrap_or(start);
                }
                break;
            }
            start = before.range.start;
            next = before;
        }
        start
    }

    /// The atoms in groups that are not cut: the largest of what belongs together that fits.
    fn units(&self) -> Vec<Range<usize>> {
        let led = self.led();
        let mut units = Vec::with_capacity(led.len());
        for group in self.groups(&led) {
            let whole = led[group.start].start..led[group.end - 1].end;
            if self.chars(&whole) <= self.sizes.max {
                units.push(whole);
                continue;
            }
            for unit in &led[group] {
                if self.chars(unit) <= self.sizes.max {
                    units.push(unit.clone());
                } else {
                    units.extend(unit.clone().map(|atom| atom..atom + 1));
                }
            }
        }
        units
    }

    /// Titles with the atom that follows them.
    fn led(&self) -> Vec<Range<usize>> {
        let mut led = Vec::new();
        let mut start = 0;
        for (number, atom) in self.atoms.iter().enumerate() {
            if !atom.leads || number + 1 == self.atoms.len() {
                led.push(start..number + 1);
                start = number + 1;
            }
        }
        led
    }

    /// Ranges of what [`Packer::led`] gave: a clause with what follows it up to the next one, and
    /// the words before a table with the table.
    fn groups(&self, led: &[Range<usize>]) -> Vec<Range<usize>> {
        let mut groups: Vec<Range<usize>> = Vec::with_capacity(led.len());
        for (number, unit) in led.iter().enumerate() {
            let joins = groups.last().is_some_and(|group| self.joins(&led[group.clone()], unit));
            match groups.last_mut() {
                Some(group) if joins => group.end = number + 1,
                _ => groups.push(number..number + 1),
            }
        }
        groups
    }

    fn joins(&self, group: &[Range<usize>], unit: &Range<usize>) -> bool {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { return false };
        let atoms = &self.atoms[unit.clone()];
        if atoms[0].breaks {
            return false;
        }
        if self.strategy.keeps_clauses() {
            let is_clause = |range: &Range<usize>| self.atoms[range.end - 1].role == Role::Clause;
            return is_clause(first) && !is_clause(unit);
        }
        let words = self.atoms[last.end - 1].role == Role::Prose && self.is_small(last);
        self.strategy == Strategy::TablePreserving
            && words
            && group.len() == 1
            && atoms[0].role == Role::Table
    }
}
