//! Holds: which items of a group were in the hands of workers, and when.
//!
//! A hold begins when the worker has its answer, and ends when it sends its settle or when its
//! lease runs out. The store counts the item for longer at both ends, so holds that overlap beyond
//! the limit prove that the limit was passed, whatever the order in which reports came.

use std::collections::{BTreeMap, HashMap};

use windrow_core::{ItemId, LeaseId, Timestamp};

use super::super::ack::Ack;
use super::super::ledger::Finding;

/// Clocks of two servers differ by less.
const MARGIN_MS: u64 = 50;

/// One item of a group in the hands of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Hold {
    from: u64,
    until: u64,
}

/// Everything that was held since the last check.
#[derive(Clone, Debug, Default)]
pub struct Holds {
    groups: BTreeMap<String, HashMap<(LeaseId, ItemId), Hold>>,
    group_of: HashMap<(LeaseId, ItemId), String>,
}

/// What an audit saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Audited {
    pub holds: u64,
    /// Of one group at once.
    pub most: usize,
}

impl Holds {
    /// Takes note of a report, if it is about holds.
    pub fn take(&mut self, ack: &Ack) {
        match ack {
            Ack::Holding { lease, from, until, items } => {
                for (id, group) in items {
                    self.begin(group, (*lease, *id), *from, *until);
                }
            }
            Ack::Leaving { lease, at, items } => {
                items.iter().for_each(|id| self.end((*lease, *id), *at));
            }
            _ => {}
        }
    }

    /// An item is held, until then if nobody ends it sooner.
    pub fn begin(
        &mut self,
        group: &str,
        item: (LeaseId, ItemId),
        from: Timestamp,
        until: Timestamp,
    ) {
        let hold = Hold { from: from.0, until: until.0.saturating_sub(MARGIN_MS) };
        self.groups.entry(group.to_owned()).or_default().entry(item).or_insert(hold);
        self.group_of.insert(item, group.to_owned());
    }

    pub fn end(&mut self, item: (LeaseId, ItemId), at: Timestamp) {
        let group = self.group_of.get(&item).and_then(|group| self.groups.get_mut(group));
        if let Some(hold) = group.and_then(|group| group.get_mut(&item)) {
            hold.until = hold.until.min(at.0);
        }
    }

    /// Looks for a moment at which a group had more than `limit`; then begins anew.
    pub fn audit(&mut self, limit: usize) -> Result<Audited, Finding> {
        self.group_of.clear();
        let mut audited = Audited::default();
        for (group, holds) in std::mem::take(&mut self.groups) {
            audited.holds += holds.len() as u64;
            let (most, at) = most_at_once(holds.values());
            audited.most = audited.most.max(most);
            if most > limit {
                let what = format!("{most} items of group {group} were held at {at}, not {limit}");
                let one = holds.iter().find(|(_, hold)| hold.from <= at && at < hold.until);
                return Err(Finding { item: one.map(|((_, id), _)| *id), what });
            }
        }
        Ok(audited)
    }
}

/// How many holds overlap at most, and when. One that ends as another begins does not overlap it.
fn most_at_once<'a>(holds: impl Iterator<Item = &'a Hold>) -> (usize, u64) {
    let mut changes: Vec<(u64, bool)> = Vec::new();
    for hold in holds.filter(|hold| hold.from < hold.until) {
        changes.extend([(hold.from, true), (hold.until, false)]);
    }
    changes.sort_unstable();
    let (mut held, mut most) = (0, (0, 0));
    for (at, begins) in changes {
        held = if begins { held + 1 } else { held - 1 };
        if held > most.0 {
            most = (held, at);
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: u64 = 10_000;

    fn holding(lease: u128, from: u64, group: &str) -> Ack {
        let items = vec![(ItemId(lease), group.to_owned())];
        let (from, until) = (Timestamp(from), Timestamp(from + LONG));
        Ack::Holding { lease: LeaseId(lease), from, until, items }
    }

    fn leaving(lease: u128, at: u64) -> Ack {
        Ack::Leaving { lease: LeaseId(lease), at: Timestamp(at), items: vec![ItemId(lease)] }
    }

    #[track_caller]
    fn check(reports: &[Ack], limit: usize, want: Result<usize, ()>) {
        let mut holds = Holds::default();
        reports.iter().for_each(|ack| holds.take(ack));
        let audited = holds.audit(limit);
        assert_eq!(audited.clone().map(|audited| audited.most).map_err(drop), want, "{audited:?}");
    }

    #[test]
    fn a_group_that_was_passed_on_was_within_its_limit() {
        let passed_on =
            [holding(1, 100, "g"), leaving(1, 200), holding(2, 200, "g"), holding(3, 150, "h")];
        check(&passed_on, 1, Ok(1));
        // A worker that died held its item until its lease ran out.
        check(&[holding(1, 0, "g"), holding(2, LONG, "g")], 1, Ok(1));
        // A claim that was asked again and answered again is one hold.
        check(&[holding(1, 100, "g"), holding(1, 900, "g")], 1, Ok(1));
    }

    #[test]
    fn a_doctored_log_in_which_a_limit_was_passed_is_found() {
        let passed = [holding(1, 100, "g"), leaving(1, 200), holding(2, 199, "g")];
        check(&passed, 1, Err(()));
        check(&passed, 2, Ok(2));
        let dead = [holding(1, 0, "g"), holding(2, 3_000, "g"), leaving(2, 3_001)];
        check(&dead, 1, Err(()));
        let late = [holding(2, 199, "g"), leaving(2, 300), leaving(1, 200), holding(1, 100, "g")];
        check(&late, 1, Err(()));
    }
}
