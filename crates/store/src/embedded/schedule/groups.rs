//! Groups: what waits of a tenant's group in one stage of one queue, and how many leases it has.
//!
//! A group that has room shows a token for the first item of each of its lines in the seat of its
//! tenant. `lanes.rs` says when; here is where groups and their lines are found.

use std::collections::BTreeSet;

use super::line::{Line, Token};
use super::pieces::Pieces;
use super::slab::NIL;

/// All groups that have something in a stage.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// The first stage that a group is in, by the number of its name; the others follow.
    first: Vec<u32>,
    groups: Pieces<Group>,
    free: Vec<u32>,
}

/// A tenant's group in one stage of one queue.
#[derive(Debug)]
pub(crate) struct Group {
    /// A lane of the stage.
    pub(crate) lane: u32,
    /// The same group in another stage.
    next: u32,
    /// Live leases.
    pub(crate) load: u32,
    pub(crate) lines: Lines,
    /// Live items of an ordered group that are in the stage.
    #[expect(clippy::box_collection, reason = "seldom there, and there are many groups")]
    pub(crate) order: Option<Box<BTreeSet<u64>>>,
}

impl Group {
    const fn new(lane: u32, next: u32) -> Group {
        let lines = Lines::Many(Vec::new());
        Group { lane, next, load: 0, lines, order: None }
    }

    pub(crate) fn first_in_order(&self) -> Option<u64> {
        self.order.as_ref()?.first().copied()
    }

    /// Nothing of it is left in the stage.
    pub(crate) fn is_over(&self) -> bool {
        self.load == 0 && self.lines.all().is_empty() && self.order.is_none()
    }
}

/// The lines of a group. Nearly all groups have one, which then needs no memory of its own.
#[derive(Debug)]
pub(crate) enum Lines {
    One(GroupLine),
    Many(Vec<GroupLine>),
}

/// What waits of a group in one lane with one priority.
#[derive(Debug, Default)]
pub(crate) struct GroupLine {
    pub(crate) line: Line,
    pub(crate) lane: u32,
    /// Slots in the line.
    pub(crate) waiting: u32,
    pub(crate) class: u8,
    /// Whether its first item stands in its tenant's seat.
    pub(crate) shown: bool,
}

impl GroupLine {
    /// What stands in its tenant's seat.
    pub(crate) fn token(&self) -> Option<Token> {
        if self.shown { self.line.first() } else { None }
    }
}

impl Lines {
    pub(crate) fn all(&self) -> &[GroupLine] {
        match self {
            Lines::One(line) => std::slice::from_ref(line),
            Lines::Many(lines) => lines,
        }
    }

    pub(crate) fn all_mut(&mut self) -> &mut [GroupLine] {
        match self {
            Lines::One(line) => std::slice::from_mut(line),
            Lines::Many(lines) => lines,
        }
    }

    /// Slots that wait in one lane.
    pub(crate) fn waiting(&self, lane: u32) -> u32 {
        self.all().iter().filter(|line| line.lane == lane).map(|line| line.waiting).sum()
    }

    pub(crate) fn find(&self, lane: u32, class: u8) -> Option<usize> {
        self.all().iter().position(|line| line.lane == lane && line.class == class)
    }

    pub(crate) fn add(&mut self, lane: u32, class: u8) -> usize {
        let line = GroupLine { line: Line::default(), lane, waiting: 0, class, shown: false };
        let before = std::mem::replace(self, Lines::Many(Vec::new()));
        *self = match before {
            Lines::One(first) => Lines::Many(vec![first, line]),
            Lines::Many(lines) if lines.is_empty() => Lines::One(line),
            Lines::Many(mut lines) => {
                lines.push(line);
                Lines::Many(lines)
            }
        };
        self.all().len() - 1
    }

    pub(crate) fn drop_empty(&mut self) {
        match self {
            Lines::One(line) if line.line.is_empty() => *self = Lines::Many(Vec::new()),
            Lines::One(_) => {}
            Lines::Many(lines) => lines.retain(|line| !line.line.is_empty()),
        }
    }
}

impl Groups {
    pub(crate) fn get(&self, no: u32) -> &Group {
        self.groups.get(no)
    }

    pub(crate) fn get_mut(&mut self, no: u32) -> &mut Group {
        self.groups.get_mut(no)
    }

    /// The group with this name in the stage of which `is` knows the lanes.
    pub(crate) fn find(&self, name: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = *self.first.get(name as usize)?;
        while at != NIL {
            let group = self.get(at);
            if is(group.lane) {
                return Some(at);
            }
            at = group.next;
        }
        None
    }

    /// Adds a group that is not there.
    pub(crate) fn add(&mut self, name: u32, lane: u32) -> u32 {
        if self.first.len() <= name as usize {
            self.first.resize(name as usize + 1, NIL);
        }
        let group = Group::new(lane, self.first[name as usize]);
        let no = match self.free.pop() {
            Some(no) => {
                *self.get_mut(no) = group;
                no
            }
            None => self.groups.push(group, || const { Group::new(NIL, NIL) }),
        };
        self.first[name as usize] = no;
        no
    }

    /// Forgets a group that is over.
    pub(crate) fn remove(&mut self, name: u32, no: u32) {
        let after = self.get(no).next;
        let mut at = self.first[name as usize];
        if at == no {
            self.first[name as usize] = after;
        }
        while at != no && at != NIL {
            let group = self.get_mut(at);
            at = group.next;
            if at == no {
                group.next = after;
            }
        }
        *self.get_mut(no) = Group::new(NIL, NIL);
        self.free.push(no);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_stays_small() {
        assert!(size_of::<Group>() <= 64, "{} bytes", size_of::<Group>());
    }

    #[test]
    fn a_group_is_found_in_each_of_its_stages_until_it_is_over_there() {
        let mut groups = Groups::default();
        let numbers = [5, 6, 7].map(|lane| groups.add(3, lane));
        let find = |groups: &Groups, lane| groups.find(3, |is| is == lane);
        assert_eq!([5, 6, 7].map(|lane| find(&groups, lane)), numbers.map(Some));
        groups.remove(3, numbers[1]);
        assert_eq!([5, 6, 7].map(|lane| find(&groups, lane).is_some()), [true, false, true]);
        assert_eq!(groups.add(9, 6), numbers[1], "its number is used again");
        groups.remove(3, numbers[2]);
        groups.remove(3, numbers[0]);
        assert_eq!(groups.find(3, |_| true), None);
        assert_eq!(groups.find(9, |_| true), Some(numbers[1]));
    }
}
