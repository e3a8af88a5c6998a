//! The ledger: everything that was acknowledged, kept outside of the process that dies.
//!
//! Takes acks in the order in which they were reported. Within one worker that is the order in
//! which things happened; between two workers it need not be, so nothing is concluded from it that
//! a late report could refute. Finds by itself what no store can explain: an item settled twice, or
//! handed out after it ended.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use windrow_core::command::EnqueueOutcome;
use windrow_core::trail::Ending;
use windrow_core::{End, ItemId, LeaseId};

use super::ack::{Ack, Ended, Slice, Taken};
use super::name::{Name, Queue};

/// What the harness found that must never be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The item that it is about, for its story.
    pub item: Option<ItemId>,
    pub what: String,
}

impl Finding {
    pub fn of(item: ItemId, what: impl Into<String>) -> Finding {
        Finding { item: Some(item), what: what.into() }
    }

    pub fn general(what: impl Into<String>) -> Finding {
        Finding { item: None, what: what.into() }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.item {
            Some(id) => write!(f, "item {id}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// What was acknowledged about one item.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The newest name that it was given.
    pub name: Name,
    /// Its waiting body was replaced, which makes it forget its attempts.
    pub replaced: bool,
    /// Claims of the last life in which it was claimed.
    pub claims: Vec<Claim>,
    /// The settle that ended it.
    pub terminal: Option<(LeaseId, End)>,
    /// It was split, and all of its children were created.
    pub split: bool,
}

/// One acknowledged claim of one item.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    pub life: u32,
    pub lease: LeaseId,
    pub attempt: u16,
    /// How it was settled, if that was acknowledged.
    pub ending: Option<Ending>,
}

impl Entry {
    fn new(name: Name) -> Entry {
        let (claims, terminal) = (Vec::new(), None);
        Entry { name, replaced: false, claims, terminal, split: false }
    }

    /// Whether it may be gone: its queue forgets it, and it ended or somebody may have ended it.
    pub fn may_be_gone(&self) -> bool {
        let open = self.claims.iter().any(|claim| claim.ending.is_none());
        match self.name.queue() {
            Queue::Kept => false,
            Queue::Brief => open || self.terminal.is_some_and(|(_, end)| end == End::Completed),
            Queue::Swept => open || self.terminal.is_some(),
        }
    }
}

/// A batch that was enqueued under a request id, and what was answered.
#[derive(Clone, Debug)]
pub struct Answered {
    pub first: Name,
    pub items: Vec<Option<(ItemId, EnqueueOutcome)>>,
}

/// Everything that was acknowledged by one data directory.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub items: BTreeMap<ItemId, Entry>,
    pub by_name: HashMap<Name, ItemId>,
    pub answered: Vec<Answered>,
    /// Batches that were asked for and not answered: their outcome is unknown.
    pub unanswered: Vec<(Name, usize)>,
    /// Names of which the store said that it wrote nothing.
    pub declined: HashSet<Name>,
    /// Some answers got lost, so an item may be known to the store and not to the ledger.
    pub answers_get_lost: bool,
    /// Names whose enqueue was claimed to be durable before it was.
    pub pretended: Vec<Name>,
    /// Items that were acknowledged in any way since the last check.
    pub touched: BTreeSet<ItemId>,
    pub acks: u64,
    life: u32,
}

impl Ledger {
    /// Another child begins.
    pub fn begin_life(&mut self) {
        self.life += 1;
    }

    /// Takes one report.
    pub fn take(&mut self, ack: Ack) -> Result<(), Finding> {
        self.acks += ack.weight();
        match ack {
            Ack::Asked { first, len } => self.unanswered.push((first, len)),
            Ack::Enqueued { first, by_request, items } => {
                if by_request {
                    self.unanswered.retain(|(asked, _)| *asked != first);
                    // A request of which nothing was done may be asked anew.
                    if items.iter().any(Option::is_some) {
                        self.answered.push(Answered { first, items: items.clone() });
                    }
                }
                for (name, item) in first.batch(items.len()).into_iter().zip(items) {
                    if let Some((id, outcome)) = item {
                        self.enqueued(name, id, outcome)?;
                    }
                }
            }
            Ack::Pretended { first, len } => self.pretended.extend(first.batch(len)),
            Ack::Claimed { lease, items } => {
                items.into_iter().try_for_each(|taken| self.claimed(lease, taken))?;
            }
            Ack::Settled { lease, items } => {
                items.into_iter().try_for_each(|ended| self.settled(lease, ended))?;
            }
            Ack::Wrong(what) => return Err(Finding::general(what)),
            Ack::Declined { first, len } => {
                self.unanswered.retain(|(asked, _)| *asked != first);
                self.declined.extend(first.batch(len));
                let known = |name: &Name| self.by_name.get(name).map(|id| (*name, *id));
                if let Some((name, id)) = first.batch(len).iter().find_map(known) {
                    return Err(unwanted(id, name));
                }
            }
            Ack::Opened { .. } | Ack::Renewed { .. } | Ack::Stopped(_) => {}
            // These are about what is under way, which others audit.
            Ack::Unknown { .. } | Ack::Holding { .. } | Ack::Leaving { .. } | Ack::Halted => {}
        }
        Ok(())
    }

    /// Takes note of an item that exists, under this name.
    pub fn exists(&mut self, id: ItemId, name: Name) -> Result<(), Finding> {
        if self.declined.contains(&name) {
            return Err(unwanted(id, name));
        }
        self.items.entry(id).or_insert_with(|| Entry::new(name));
        match self.by_name.insert(name, id) {
            Some(twin) if twin != id => {
                Err(Finding::of(id, format!("{name:?} exists twice, also as {twin}")))
            }
            _ => Ok(()),
        }
    }

    fn enqueued(&mut self, name: Name, id: ItemId, outcome: EnqueueOutcome) -> Result<(), Finding> {
        self.touched.insert(id);
        match outcome {
            EnqueueOutcome::Created | EnqueueOutcome::Successor => self.exists(id, name),
            EnqueueOutcome::Duplicate => {
                match self.items.contains_key(&id) || self.answers_get_lost {
                    true => Ok(()),
                    false => Err(Finding::of(id, "a duplicate of an item that nobody made")),
                }
            }
            EnqueueOutcome::Replaced => {
                self.exists(id, name)?;
                let Some(entry) = self.items.get_mut(&id) else { return Ok(()) };
                entry.replaced = true;
                entry.name = entry.name.max(name);
                Ok(())
            }
        }
    }

    fn claimed(&mut self, lease: LeaseId, taken: Taken) -> Result<(), Finding> {
        let Taken { id, name, attempt } = taken;
        self.touched.insert(id);
        let life = self.life;
        let entry = self.items.entry(id).or_insert_with(|| Entry::new(name));
        if (entry.name.family(), entry.name.path) != (name.family(), name.path) {
            let what = format!("it was enqueued as {:?} and handed out as {name:?}", entry.name);
            return Err(Finding::of(id, what));
        }
        if let Some((by, end)) = entry.terminal {
            let what = format!("handed out under {lease} although {by} had ended it: {end:?}");
            return Err(Finding::of(id, what));
        }
        // Whoever held it in an earlier life is dead and settles no more.
        entry.claims.retain(|claim| claim.life == life);
        entry.claims.push(Claim { life, lease, attempt, ending: None });
        Ok(())
    }

    fn settled(&mut self, lease: LeaseId, ended: Ended) -> Result<(), Finding> {
        let Ended { id, ending, end, slice } = ended;
        self.touched.insert(id);
        let Some(entry) = self.items.get_mut(&id) else {
            return Err(Finding::of(id, format!("settled under {lease}, never handed out")));
        };
        entry.split |= slice == Slice::All;
        let claim = entry.claims.iter_mut().find(|claim| claim.lease == lease);
        if let Some(claim) = claim.filter(|_| slice != Slice::More) {
            claim.ending = Some(ending);
        }
        let Some(end) = end else { return Ok(()) };
        if let Some((by, first)) = entry.terminal.replace((lease, end)) {
            let what = format!("settled twice: {first:?} under {by}, then {end:?} under {lease}");
            return Err(Finding::of(id, what));
        }
        Ok(())
    }
}

fn unwanted(id: ItemId, name: Name) -> Finding {
    Finding::of(id, format!("the store said that nothing of {name:?} was written, and it exists"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ItemId = ItemId(9);

    fn enqueued(name: Name) -> Ack {
        let items = vec![Some((ID, EnqueueOutcome::Created))];
        Ack::Enqueued { first: name, by_request: false, items }
    }

    fn claimed(name: Name, lease: u128) -> Ack {
        let items = vec![Taken { id: ID, name, attempt: 1 }];
        Ack::Claimed { lease: LeaseId(lease), items }
    }

    fn settled(lease: u128, end: Option<End>) -> Ack {
        let ending = if end.is_some() { Ending::Completed } else { Ending::Retried };
        let items = vec![Ended { id: ID, ending, end, slice: Slice::None }];
        Ack::Settled { lease: LeaseId(lease), items }
    }

    fn name() -> Name {
        Name::root(1, 1, 1)
    }

    #[track_caller]
    fn check(acks: Vec<Ack>, want: Option<&str>) {
        let mut ledger = Ledger::default();
        ledger.begin_life();
        let found = acks.into_iter().try_for_each(|ack| ledger.take(ack)).err();
        match want {
            Some(want) => {
                assert!(found.clone().is_some_and(|f| f.what.contains(want)), "{found:?}")
            }
            None => assert_eq!(found, None),
        }
    }

    #[test]
    fn a_plain_life_of_an_item_is_fine_in_either_order_of_reports() {
        let done = || settled(1, Some(End::Completed));
        check(vec![enqueued(name()), claimed(name(), 1), done()], None);
        check(vec![claimed(name(), 1), done(), enqueued(name())], None);
        check(vec![claimed(name(), 2), claimed(name(), 1), done(), settled(2, None)], None);
    }

    #[test]
    fn an_item_that_ended_twice_or_was_handed_out_again_is_found() {
        let done = |lease| settled(lease, Some(End::Completed));
        let twice = vec![claimed(name(), 1), claimed(name(), 2), done(1), done(2)];
        check(twice, Some("settled twice"));
        check(vec![claimed(name(), 1), done(1), claimed(name(), 2)], Some("handed out under"));
    }

    #[test]
    fn an_item_of_which_nothing_was_written_must_not_exist() {
        let declined = || Ack::Declined { first: name(), len: 2 };
        check(vec![declined(), enqueued(name())], Some("nothing of"));
        check(vec![claimed(name(), 1), enqueued(name()), declined()], Some("nothing of"));
    }

    #[test]
    fn an_item_that_was_swapped_or_doubled_is_found() {
        let other = Name::root(1, 1, 77);
        check(vec![enqueued(name()), claimed(other, 1)], Some("handed out as"));
        let twin = Ack::Enqueued {
            first: name(),
            by_request: false,
            items: vec![Some((ItemId(10), EnqueueOutcome::Created))],
        };
        check(vec![enqueued(name()), twin], Some("exists twice"));
    }
}
