//! Facts: what is certain of one item, one lease and one draft, and how certainty ends.

use std::sync::Arc;

use windrow_core::item::Body;
use windrow_core::trail::Ending;
use windrow_core::{End, Item, ItemId, LeaseId, Timestamp};

use super::{Finding, Ledger, What};
use crate::sim::payload::number_in;

/// What a client drafted: whoever carries its number must be like it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Draft {
    pub tenant: Arc<str>,
    pub queue: Arc<str>,
    pub key: Option<String>,
    /// The item that was to be split.
    pub parent: Option<ItemId>,
}

/// What is certain of an item.
#[derive(Clone, Debug)]
pub struct Fact {
    pub root: ItemId,
    pub parent: Option<ItemId>,
    pub tenant: Arc<str>,
    pub queue: Arc<str>,
    pub key: Option<String>,
    pub group: Option<Arc<str>>,
    /// The draft that was last acknowledged as its body; zero if that is not known.
    pub number: u64,
    /// Drafts that may have replaced it since.
    pub others: Vec<u64>,
    /// Who certainly holds it, if its lease has not run out.
    pub holder: Option<Holder>,
    /// Attempts that its stage has behind it at least.
    pub floor: u16,
    /// It is certainly not handed out before.
    pub earliest: Timestamp,
    /// How it certainly ended.
    pub end: Option<Ended>,
    /// Since when it may have ended; none if it certainly has not.
    pub may_end: Option<Timestamp>,
    /// Somebody asked to delete its tree.
    pub doomed: bool,
    /// It was cancelled, and its children may still have to be ended.
    pub cancelled: bool,
    /// Settles that were acknowledged; none if one was not answered.
    pub endings: Vec<(LeaseId, Option<Ending>)>,
}

/// Who holds an item.
#[derive(Clone, Debug)]
pub struct Holder {
    pub lease: LeaseId,
    pub attempt: u16,
    pub stage: Arc<str>,
    pub is_last_stage: bool,
}

/// An item ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    As(End),
    Somehow,
}

/// What is certain of a lease.
#[derive(Clone, Debug)]
pub struct Lease {
    /// It lasts at least until then, and at most.
    pub least: Timestamp,
    pub most: Timestamp,
    /// Its length when it is renewed: at least and at most.
    pub length_ms: (u64, u64),
    pub items: Vec<ItemId>,
}

impl Holder {
    pub(super) fn of(lease: LeaseId, item: &Item, body: &Body) -> Holder {
        Holder {
            lease,
            attempt: item.attempts,
            stage: Arc::clone(&body.route.stage(item.stage).name),
            is_last_stage: usize::from(item.stage) + 1 == body.route.len(),
        }
    }
}

impl Lease {
    /// Whether somebody was told of it when it was granted.
    pub(super) fn is_told(&self) -> bool {
        self.most < Timestamp::NEVER
    }
}

impl Fact {
    /// Its lease is over, or may be.
    fn let_go(&mut self, now: Timestamp) {
        self.holder = None;
        self.floor = 0;
        self.may_end.get_or_insert(now);
    }
}

fn key_of(tenant: &str, queue: &str, key: &str) -> String {
    [tenant, queue, key].join("/")
}

impl Ledger {
    /// The fact about an item that is seen in the store; made if it is new.
    pub(super) fn learn(&mut self, item: &Item, body: &Body) -> Result<&mut Fact, Finding> {
        let id = item.id;
        if self.graves.contains(&id) {
            return Err(Finding::of(id, "it was gone for good and is there again"));
        }
        let Some(number) = number_in(&body.payload) else {
            return Err(Finding::of(id, "its payload is not what anybody wrote"));
        };
        let parent = item.place.map(|place| place.parent);
        self.check_draft(id, number, body, parent)?;
        if !self.facts.contains_key(&id) {
            self.tell(Some(id), What::Learned { number });
            self.add(id, number, body, parent);
            if let Some(fact) = self.facts.get_mut(&id) {
                // Whatever happened to it before is not known.
                fact.may_end = Some(Timestamp::ZERO);
            }
        }
        let fact = self.facts.get_mut(&id).expect("it was added");
        if fact.number != 0 && fact.number != number && !fact.others.contains(&number) {
            let what = format!("it has payload {number}, not {}", fact.number);
            return Err(Finding::of(id, what));
        }
        fact.number = number;
        fact.others.clear();
        fact.group.clone_from(&body.group);
        Ok(fact)
    }

    fn check_draft(
        &self,
        id: ItemId,
        number: u64,
        body: &Body,
        parent: Option<ItemId>,
    ) -> Result<(), Finding> {
        let draft = number.checked_sub(1).and_then(|at| self.drafts.get(at as usize));
        let Some(draft) = draft else {
            return Err(Finding::of(id, format!("nobody drafted number {number}")));
        };
        let (tenant, queue, key) = (body.tenant.clone(), body.queue.clone(), body.key.clone());
        if *draft != (Draft { tenant, queue, key, parent }) {
            return Err(Finding::of(
                id,
                format!("it is not what was drafted: {draft:?}, {body:?}"),
            ));
        }
        Ok(())
    }

    /// A new item, about which nothing bad is known.
    pub(super) fn add(&mut self, id: ItemId, number: u64, body: &Body, parent: Option<ItemId>) {
        let above = parent.and_then(|parent| self.facts.get(&parent));
        let root = above.map_or(parent.unwrap_or(id), |above| above.root);
        let fact = Fact {
            root,
            parent,
            tenant: body.tenant.clone(),
            queue: body.queue.clone(),
            key: body.key.clone(),
            group: body.group.clone(),
            number,
            others: Vec::new(),
            holder: None,
            floor: 0,
            earliest: Timestamp::ZERO,
            end: None,
            may_end: None,
            doomed: false,
            cancelled: false,
            endings: Vec::new(),
        };
        self.members.entry(root).or_default().push(id);
        if let Some(key) = &body.key {
            self.keys.entry(key_of(&body.tenant, &body.queue, key)).or_default().push(id);
        }
        self.facts.insert(id, fact);
    }

    /// An item is gone for good.
    pub(super) fn bury(&mut self, id: ItemId) {
        let Some(fact) = self.facts.remove(&id) else { return };
        self.graves.insert(id);
        if let Some(members) = self.members.get_mut(&fact.root) {
            members.retain(|member| *member != id);
        }
        if let Some(key) = &fact.key {
            let key = key_of(&fact.tenant, &fact.queue, key);
            if let Some(same) = self.keys.get_mut(&key) {
                same.retain(|other| *other != id);
            }
        }
    }

    /// Known items with the same key.
    pub(super) fn with_key(&self, tenant: &str, queue: &str, key: &str) -> Vec<ItemId> {
        self.keys.get(&key_of(tenant, queue, key)).cloned().unwrap_or_default()
    }

    pub(super) fn tree_of(&self, id: ItemId) -> Vec<ItemId> {
        let root = self.facts.get(&id).map_or(id, |fact| fact.root);
        self.members.get(&root).cloned().unwrap_or_default()
    }

    pub(super) fn is_below(&self, id: ItemId, above: ItemId) -> bool {
        self.ancestors(id).contains(&above)
    }

    /// Everything above an item, the nearest first.
    pub(super) fn ancestors(&self, id: ItemId) -> Vec<ItemId> {
        let mut above = Vec::new();
        let mut at = id;
        while let Some(parent) = self.facts.get(&at).and_then(|fact| fact.parent) {
            above.push(parent);
            at = parent;
        }
        above
    }

    /// An item and all below it may be taken from their holders and ended; those above may end.
    pub(super) fn unsettle(&mut self, id: ItemId, now: Timestamp) {
        for member in self.tree_of(id) {
            let taken = member == id || self.is_below(member, id);
            let above = self.is_below(id, member);
            if let Some(fact) = self.facts.get_mut(&member) {
                if taken {
                    fact.let_go(now);
                } else if above {
                    fact.may_end.get_or_insert(now);
                }
            }
        }
    }

    /// A whole tree may run again: nothing is certain of it any more but that it exists.
    pub(super) fn rerun(&mut self, id: ItemId, now: Timestamp) {
        for member in self.tree_of(id) {
            if let Some(fact) = self.facts.get_mut(&member) {
                fact.let_go(now);
                fact.end = None;
                fact.cancelled = false;
                fact.earliest = Timestamp::ZERO;
            }
        }
    }

    /// The lease that certainly holds an item, run out or not: nobody took it back.
    pub(super) fn holder(&self, id: ItemId) -> Option<&Holder> {
        self.facts.get(&id)?.holder.as_ref()
    }

    /// The same, if it certainly lasts beyond a time.
    pub(super) fn holds(&self, id: ItemId, now: Timestamp) -> Option<&Holder> {
        let holder = self.holder(id)?;
        (self.leases.get(&holder.lease)?.least > now).then_some(holder)
    }
}
