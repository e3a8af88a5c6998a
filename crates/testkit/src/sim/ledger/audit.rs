//! Audits: the facts against everything that the store holds, while nothing is under way.

use std::collections::{BTreeMap, HashMap, HashSet};

use windrow_core::change;
use windrow_core::item::Marks;
use windrow_core::limits::FOLD_AFTER_MS;
use windrow_core::ports::Inspected;
use windrow_core::{ItemId, LeaseId, State, Timestamp};

use super::fact::{Ended, Holder};
use super::{Fact, Finding, Keeping, Lawful, Lease, Ledger, What};

/// Retention reckons in whole seconds and the facts in milliseconds.
const ROUNDED_MS: u64 = 2_000;

impl Ledger {
    /// Compares every fact with what is there, and draws new ones from it.
    pub fn audit(&mut self, all: &[Inspected], leases: &[change::Lease]) -> Lawful {
        debug_assert!(self.entries.is_empty(), "nothing is under way");
        let seen: BTreeMap<ItemId, &Inspected> = all.iter().map(|i| (i.item.id, i)).collect();
        let until: HashMap<LeaseId, Timestamp> =
            leases.iter().map(|lease| (lease.id, lease.expires)).collect();
        let granted: HashSet<LeaseId> = until.keys().copied().collect();
        self.check_numbers(all)?;
        self.strays = until.keys().any(|id| !self.leases.get(id).is_some_and(Lease::is_told));
        let sight = Sight::new(all, &seen, until);
        for one in all {
            self.look_at(one, &sight)?;
        }
        let spent: Vec<LeaseId> =
            self.leases.keys().copied().filter(|id| !granted.contains(id)).collect();
        for id in spent {
            self.leases.remove(&id);
            self.spent.insert(id);
        }
        let known: Vec<ItemId> = self.facts.keys().copied().collect();
        for id in known.into_iter().filter(|id| !seen.contains_key(id)) {
            self.may_be_missing(id)?;
            self.tell(Some(id), What::Gone);
            self.bury(id);
        }
        Ok(())
    }

    /// No draft became two items, and no unanswered batch became part of its items.
    fn check_numbers(&mut self, all: &[Inspected]) -> Lawful {
        let mut numbers: HashMap<u64, ItemId> = HashMap::new();
        for one in all.iter().filter(|one| one.body.cloned_from.is_none()) {
            let Some(number) = crate::sim::payload::number_in(&one.body.payload) else {
                return Err(Finding::of(one.item.id, "its payload is not what anybody wrote"));
            };
            if let Some(twin) = numbers.insert(number, one.item.id) {
                return Err(Finding::of(one.item.id, format!("draft {number} is also {twin}")));
            }
        }
        for batch in std::mem::take(&mut self.batches) {
            let there = batch.iter().filter(|number| numbers.contains_key(number)).count();
            if there != 0 && there != batch.len() {
                let what = format!("{there} of the items {batch:?} of one command are there");
                return Err(Finding::general(what));
            }
            self.sometimes.batches_lost += u64::from(there == 0);
            self.sometimes.batches_kept += u64::from(there > 0);
        }
        Ok(())
    }

    fn look_at(&mut self, one: &Inspected, sight: &Sight) -> Lawful {
        let (item, id) = (&one.item, one.item.id);
        let broken = |what: String| Err(Finding::of(id, what));
        self.learn(item, &one.body)?;
        let Some(fact) = self.facts.get(&id) else { return Ok(()) };
        match (fact.end, item.state) {
            (Some(Ended::As(end)), state) if state != State::Done(end) => {
                return broken(format!("it had ended {end:?} and is {state:?}"));
            }
            (Some(Ended::Somehow), state) if !item.is_done() => {
                return broken(format!("it had ended and is {state:?}"));
            }
            _ => {}
        }
        if item.is_done() && fact.may_end.is_none() {
            return broken(format!("it is {:?}, and nobody ended it", item.state));
        }
        if let Some(holder) = &fact.holder {
            if item.lease() != Some(holder.lease) || item.attempts != holder.attempt {
                let (lease, attempt) = (holder.lease, holder.attempt);
                return broken(format!("{lease} holds it in attempt {attempt}, not {item:?}"));
            }
            let least = self.leases.get(&holder.lease).map(|lease| lease.least);
            let until = sight.until.get(&holder.lease).copied();
            if until < least {
                return broken(format!("its lease lasted until {least:?}, now {until:?}"));
            }
        }
        check_trail(fact, one)?;
        let endangered = sight.endangered.contains(&id);
        let ended = one.trail.finished_at.unwrap_or(self.now);
        let told = |lease: &LeaseId| self.leases.get(lease).is_some_and(Lease::is_told);
        let holder = item.lease().filter(told).map(|lease| Holder::of(lease, item, &one.body));
        let Some(fact) = self.facts.get_mut(&id) else { return Ok(()) };
        fact.holder = holder.filter(|_| !endangered);
        match item.state {
            State::Done(end) => {
                fact.end = Some(Ended::As(end));
                fact.may_end = Some(ended);
            }
            _ if endangered || sight.threatened.contains(&id) => {
                fact.may_end.get_or_insert(ended);
            }
            _ => fact.may_end = None,
        }
        Ok(())
    }

    /// Whether an item may be gone that was there.
    fn may_be_missing(&self, id: ItemId) -> Lawful {
        let Some(fact) = self.facts.get(&id) else { return Ok(()) };
        let Some(since) = fact.may_end else {
            return Err(Finding::of(id, "Q3: it is lost; nothing had ended it"));
        };
        let keeping = self.keeping.get(&fact.queue).copied();
        let keeping = keeping.unwrap_or(Keeping { age_ms: FOLD_AFTER_MS, early: false });
        let old = self.now.plus(ROUNDED_MS) > since.plus(keeping.age_ms);
        if !(fact.doomed || keeping.early || old) {
            let what = format!("Q3: it is lost; it may have ended at {since:?} and was to be kept");
            return Err(Finding::of(id, what));
        }
        Ok(())
    }
}

/// What can be seen of the store as a whole.
struct Sight {
    /// When each lease expires.
    until: HashMap<LeaseId, Timestamp>,
    /// Live items that a sweep may end at any time.
    endangered: HashSet<ItemId>,
    /// What is above them, and may end with them.
    threatened: HashSet<ItemId>,
}

impl Sight {
    fn new(
        all: &[Inspected],
        seen: &BTreeMap<ItemId, &Inspected>,
        until: HashMap<LeaseId, Timestamp>,
    ) -> Sight {
        let mut sight = Sight { until, endangered: HashSet::new(), threatened: HashSet::new() };
        for one in all.iter().filter(|one| !one.item.is_done() && is_endangered(one, seen)) {
            sight.endangered.insert(one.item.id);
            let mut place = one.item.place;
            while let Some(at) = place {
                sight.threatened.insert(at.parent);
                place = seen.get(&at.parent).and_then(|above| above.item.place);
            }
        }
        sight
    }
}

/// What was acknowledged of an attempt is what its record says.
fn check_trail(fact: &Fact, one: &Inspected) -> Lawful {
    for attempt in &one.trail.attempts {
        let known = fact.endings.iter().find(|(lease, _)| *lease == attempt.lease);
        if let Some((lease, Some(ending))) = known
            && *ending != attempt.ending
        {
            let what = format!("{lease} settled it {ending:?}, recorded as {:?}", attempt.ending);
            return Err(Finding::of(one.item.id, what));
        }
    }
    Ok(())
}

/// Whether a sweep may end it at any time, because something above it is over.
fn is_endangered(one: &Inspected, seen: &BTreeMap<ItemId, &Inspected>) -> bool {
    let mut place = one.item.place;
    while let Some(at) = place {
        let Some(parent) = seen.get(&at.parent).map(|above| &above.item) else { return true };
        let left_behind = parent.generation != at.generation;
        if left_behind || parent.is_done() || parent.has(Marks::CANCELLING) {
            return true;
        }
        place = parent.place;
    }
    one.item.has(Marks::CANCELLING)
}
