//! Mirror: the same items and leases under the names that two stores gave them.
//!
//! Items are paired by the order of their creation, leases by the claim that granted them. What a
//! store says is turned into one common form, in which an id is the number of its pair and a
//! store's own numbers for names are gone.

use std::collections::BTreeMap;

use windrow_core::command::{Command, Grant, Outcome};
use windrow_core::invariants::sorted;
use windrow_core::item::{Body, GroupNo, KindNo, QueueNo, RouteNo, TenantNo};
use windrow_core::ports::{Inspected, Work};
use windrow_core::{Answer, Item, ItemId, LeaseId, Refusal, Request, State};

/// The names that one store uses, by number.
#[derive(Debug, Default)]
pub(super) struct Side {
    pub(super) items: Vec<ItemId>,
    pub(super) leases: Vec<LeaseId>,
    item_numbers: BTreeMap<ItemId, u128>,
    lease_numbers: BTreeMap<LeaseId, u128>,
}

impl Side {
    pub(super) fn know_item(&mut self, id: ItemId) {
        self.item_numbers.insert(id, self.items.len() as u128);
        self.items.push(id);
    }

    pub(super) fn know_lease(&mut self, id: LeaseId) {
        if !self.lease_numbers.contains_key(&id) {
            self.lease_numbers.insert(id, self.leases.len() as u128);
            self.leases.push(id);
        }
    }

    /// The common name of an item; one that was never seen keeps its own.
    fn id(&self, id: ItemId) -> ItemId {
        ItemId(self.item_numbers.get(&id).copied().unwrap_or(id.0))
    }

    fn lease(&self, lease: LeaseId) -> LeaseId {
        LeaseId(self.lease_numbers.get(&lease).copied().unwrap_or(lease.0))
    }

    pub(super) fn item(&self, item: Item) -> Item {
        let state = match item.state {
            State::Leased { lease } => State::Leased { lease: self.lease(lease) },
            other => other,
        };
        let mut place = item.place;
        if let Some(place) = &mut place {
            place.parent = self.id(place.parent);
        }
        Item {
            id: self.id(item.id),
            queue: QueueNo(0),
            tenant: TenantNo(0),
            kind: KindNo(0),
            group: item.group.map(|_| GroupNo(0)),
            route: RouteNo(0),
            state,
            place,
            ..item
        }
    }

    pub(super) fn inspected(&self, seen: Inspected) -> Inspected {
        let Inspected { item, body, mut trail, tally, successor } = seen;
        let body = self.body(body);
        trail.attempts.iter_mut().for_each(|attempt| attempt.lease = self.lease(attempt.lease));
        let (item, tally) = (self.item(item), tally.map(sorted));
        Inspected { item, body, trail, tally, successor: successor.map(|id| self.id(id)) }
    }

    fn work(&self, work: Work) -> Work {
        Work { item: self.item(work.item), body: self.body(work.body), ..work }
    }

    fn body(&self, mut body: Body) -> Body {
        body.cloned_from = body.cloned_from.map(|id| self.id(id));
        // A delivery names the item that it tells of.
        let told = body.reference.as_deref().and_then(|text| text.parse().ok());
        if let Some(told) = told {
            body.reference = Some(self.id(told).to_string());
        }
        body
    }

    fn refusal(&self, refusal: Refusal) -> Refusal {
        use Refusal::*;
        match refusal {
            NotFound { item } => NotFound { item: self.id(item) },
            LeaseLost { lease } => LeaseLost { lease: self.lease(lease) },
            AlreadyDone { item, status } => AlreadyDone { item: self.id(item), status },
            StillLive { item, status } => StillLive { item: self.id(item), status },
            NotResettable { item, status } => NotResettable { item: self.id(item), status },
            KeyInUse { by } => KeyInUse { by: self.id(by) },
            UnderCancelled { ancestor } => UnderCancelled { ancestor: self.id(ancestor) },
            NotARoot { item } => NotARoot { item: self.id(item) },
            NoSuchStage { item, stage } => NoSuchStage { item: self.id(item), stage },
            other => other,
        }
    }

    pub(super) fn answer(&self, answer: Answer<Work>) -> Answer<Work> {
        let id = |of: &mut ItemId| *of = self.id(*of);
        match answer {
            Answer::Enqueued(each) => Answer::Enqueued(self.each(each, |one| id(&mut one.id))),
            Answer::Settled(each) => Answer::Settled(self.each(each, |one| id(&mut one.id))),
            Answer::Cancelled(each) => Answer::Cancelled(self.each(each, |one| id(&mut one.id))),
            Answer::Retried(each) => Answer::Retried(self.each(each, |one| id(&mut one.id))),
            Answer::Progressed(each) => Answer::Progressed(self.each(each, |_| ())),
            Answer::Deleted(each) => Answer::Deleted(self.each(each, |_| ())),
            Answer::Prioritised(each) => Answer::Prioritised(self.each(each, |_| ())),
            Answer::Claimed(grant) => Answer::Claimed(grant.map(|grant| self.grant(grant))),
            Answer::Renewed(mut renewed) => {
                renewed.held.iter_mut().for_each(id);
                renewed.held.sort();
                Answer::Renewed(renewed)
            }
            Answer::Refused(refusal) => Answer::Refused(self.refusal(refusal)),
            other => other,
        }
    }

    fn grant(&self, grant: Grant<Work>) -> Grant<Work> {
        let items = grant.items.into_iter().map(|work| self.work(work)).collect();
        Grant { lease: self.lease(grant.lease), items, ..grant }
    }

    fn each<T>(
        &self,
        each: Vec<Result<T, Refusal>>,
        rename: impl Fn(&mut T),
    ) -> Vec<Result<T, Refusal>> {
        let one = |mut answer: Result<T, Refusal>| {
            if let Ok(value) = &mut answer {
                rename(value);
            }
            answer.map_err(|refusal| self.refusal(refusal))
        };
        each.into_iter().map(one).collect()
    }

    /// An item of this side by the other's id.
    pub(super) fn in_words_of(&self, other: &Side, id: ItemId) -> ItemId {
        let number = self.item_numbers.get(&id);
        number.map_or(id, |number| other.items[*number as usize])
    }

    /// A request that speaks this side's names, in the names of the other.
    pub(super) fn translate(&self, request: Request, to: &Side) -> Request {
        let id = |of: &mut ItemId| *of = self.in_words_of(to, *of);
        let lease = |of: &mut LeaseId| {
            let number = self.lease_numbers.get(of);
            *of = number.map_or(*of, |number| to.leases[*number as usize]);
        };
        let Request { id: request, mut command } = request;
        match &mut command {
            Command::Renew { lease: of, .. } => lease(of),
            Command::Progress { lease: of, items } => {
                lease(of);
                items.iter_mut().for_each(|(item, _)| id(item));
            }
            Command::Settle { lease: of, items } => {
                lease(of);
                items.iter_mut().for_each(|(item, _): &mut (ItemId, Outcome)| id(item));
            }
            Command::Cancel { items }
            | Command::Retry { items, .. }
            | Command::Delete { items }
            | Command::Prioritise { items, .. } => items.iter_mut().for_each(id),
            _ => {}
        }
        Request { id: request, command }
    }
}
