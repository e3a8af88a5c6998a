//! The load: producers that enqueue, workers that claim and settle, and a keeper's commands.
//!
//! Each is a machine with a `step` that asks the store one or a few things and reports what was
//! answered. A child runs many of them at once; a simulation runs one step at a time.

use windrow_core::command::{Claim, Command, Grant, NewChild, Outcome, Settled};
use windrow_core::ports::{Now, Store, StoreError, Work};
use windrow_core::tally::OnGaps;
use windrow_core::trail::{Class, Ending};
use windrow_core::{Answer, End, ItemId, LeaseId, Refusal, Request, Timestamp};

use super::ack::{Ack, Ended, Slice, Taken};
use super::name::{Name, Queue, enqueue};
use crate::random::Splitmix;

/// Who is told what the store answered.
pub trait Told {
    fn tell(&self, ack: Ack);
}

impl<F: Fn(Ack)> Told for F {
    fn tell(&self, ack: Ack) {
        self(ack);
    }
}

/// Whether a step found something to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Did {
    Something,
    Nothing,
}

/// Enqueues batches under names that it alone gives.
#[derive(Clone, Debug)]
pub struct Producer {
    next: Name,
    batch_max: usize,
    dice: Splitmix,
    /// Reports batches as durable before it even asks: the bug that the control plants.
    pub pretends: bool,
}

impl Producer {
    pub fn new(number: u8, life: u32, batch_max: usize, seed: u64) -> Producer {
        let dice = Splitmix(seed ^ u64::from(number) << 32);
        Producer { next: Name::root(number, life, 0), batch_max, dice, pretends: false }
    }

    pub async fn step<S: Store>(
        &mut self,
        store: &S,
        now: Timestamp,
        told: &impl Told,
    ) -> Result<Did, StoreError> {
        let len = 1 + self.dice.below(self.batch_max);
        let first = self.next;
        let names = first.batch(len);
        self.next.root += len as u64;
        let by_request = self.dice.percent(30);
        if self.pretends {
            told.tell(Ack::Pretended { first, len });
        } else if by_request {
            told.tell(Ack::Asked { first, len });
        }
        let id = by_request.then(|| first.request());
        let request = Request { id, command: enqueue(&names) };
        let answer = only(store.submit(vec![request], Now::Given(now)).await?);
        let Answer::Enqueued(each) = answer else {
            if !matches!(answer, Answer::Refused(Refusal::StoreFull { .. })) {
                told.tell(Ack::Wrong(format!("an enqueue was answered {answer:?}")));
            }
            return Ok(Did::Nothing);
        };
        let full = each.iter().any(Result::is_err);
        let items = each.iter().map(|one| match one {
            Ok(enqueued) => Some((enqueued.id, enqueued.outcome)),
            Err(Refusal::QueueFull { .. } | Refusal::StoreFull { .. }) => None,
            Err(refusal) => {
                told.tell(Ack::Wrong(format!("an enqueue was refused: {refusal}")));
                None
            }
        });
        let items = items.collect();
        if !self.pretends {
            told.tell(Ack::Enqueued { first, by_request, items });
        }
        Ok(if full { Did::Nothing } else { Did::Something })
    }
}

/// Claims, renews now and then, and settles in every way there is.
#[derive(Clone, Debug)]
pub struct Worker {
    claim: Claim,
    batch_max: usize,
    dice: Splitmix,
}

impl Worker {
    pub fn new(number: u8, batch_max: usize, seed: u64) -> Worker {
        let mut claim = Claim::new(format!("worker-{number}"), Queue::Kept.name(), 1);
        claim.queues.clear();
        let dice = Splitmix(seed ^ 0xfeed << 16 ^ u64::from(number) << 32);
        Worker { claim, batch_max, dice }
    }

    pub async fn step<S: Store>(
        &mut self,
        store: &S,
        now: Timestamp,
        told: &impl Told,
    ) -> Result<Did, StoreError> {
        self.claim.max = 1 + self.dice.below(self.batch_max);
        let command = Command::Claim(self.claim.clone());
        let answer = only(store.submit(vec![command.into()], Now::Given(now)).await?);
        let Answer::Claimed(Some(grant)) = answer else {
            if !matches!(answer, Answer::Claimed(None) | Answer::Refused(_)) {
                told.tell(Ack::Wrong(format!("a claim was answered {answer:?}")));
            }
            return Ok(Did::Nothing);
        };
        let names = self.taken(&grant, told);
        if self.dice.percent(20) {
            self.renew(store, grant.lease, now, told).await?;
        }
        self.settle(store, &grant, &names, now, told).await?;
        Ok(Did::Something)
    }

    /// Reports what was handed out, and checks every byte of it.
    fn taken(&self, grant: &Grant<Work>, told: &impl Told) -> Vec<Name> {
        let name = |work: &Work| {
            let read = Name::check(&work.body);
            read.unwrap_or_else(|wrong| {
                told.tell(Ack::Wrong(format!("item {}: {wrong}", work.item.id)));
                Name::root(0, 0, 0)
            })
        };
        let names: Vec<Name> = grant.items.iter().map(name).collect();
        let items = grant.items.iter().zip(&names).map(|(work, name)| Taken {
            id: work.item.id,
            name: *name,
            attempt: work.item.attempts,
        });
        told.tell(Ack::Claimed { lease: grant.lease, items: items.collect() });
        names
    }

    async fn renew<S: Store>(
        &mut self,
        store: &S,
        lease: LeaseId,
        now: Timestamp,
        told: &impl Told,
    ) -> Result<(), StoreError> {
        let command = Command::Renew { lease, lease_ms: None };
        match only(store.submit(vec![command.into()], Now::Given(now)).await?) {
            Answer::Renewed(_) => told.tell(Ack::Renewed { lease }),
            Answer::Refused(Refusal::LeaseLost { .. } | Refusal::StoreFull { .. }) => {}
            answer => told.tell(Ack::Wrong(format!("a renewal was answered {answer:?}"))),
        }
        Ok(())
    }

    /// Settles what it holds, in one command or in two, and leaves a little unsettled.
    async fn settle<S: Store>(
        &mut self,
        store: &S,
        grant: &Grant<Work>,
        names: &[Name],
        now: Timestamp,
        told: &impl Told,
    ) -> Result<(), StoreError> {
        let mut plans = Vec::new();
        for (work, name) in grant.items.iter().zip(names) {
            if !self.dice.percent(2) {
                plans.push(self.plan(work, *name));
            }
        }
        let cut = if self.dice.percent(30) { self.dice.below(plans.len() + 1) } else { 0 };
        let later = plans.split_off(cut);
        for plans in [plans, later] {
            let again = self.ask(store, grant.lease, plans, now, told).await?;
            self.ask(store, grant.lease, again, now, told).await?;
        }
        Ok(())
    }

    /// Asks to settle and reports; gives back what is to be split further.
    async fn ask<S: Store>(
        &self,
        store: &S,
        lease: LeaseId,
        plans: Vec<Plan>,
        now: Timestamp,
        told: &impl Told,
    ) -> Result<Vec<Plan>, StoreError> {
        if plans.is_empty() {
            return Ok(Vec::new());
        }
        let items = plans.iter().map(|plan| (plan.id, plan.outcome.clone())).collect();
        let command = Command::Settle { lease, items };
        let answer = only(store.submit(vec![command.into()], Now::Given(now)).await?);
        let Answer::Settled(each) = answer else {
            if !matches!(answer, Answer::Refused(Refusal::StoreFull { .. })) {
                told.tell(Ack::Wrong(format!("a settle was answered {answer:?}")));
            }
            return Ok(Vec::new());
        };
        let mut ended = Vec::new();
        let mut again = Vec::new();
        for (plan, one) in plans.into_iter().zip(each) {
            match one {
                Ok(settled) => {
                    ended.push(plan.ended(settled));
                    again.extend(plan.rest);
                }
                Err(Refusal::LeaseLost { .. }) => {}
                Err(refusal) => {
                    told.tell(Ack::Wrong(format!("a settle of {} was refused: {refusal}", plan.id)))
                }
            }
        }
        told.tell(Ack::Settled { lease, items: ended });
        Ok(again.into_iter().map(|plan| *plan).collect())
    }

    /// How it will settle an item.
    fn plan(&mut self, work: &Work, name: Name) -> Plan {
        let id = work.item.id;
        let stages = work.body.route.len();
        let last = usize::from(work.item.stage) + 1 == stages;
        let all_skipped = work.item.skipped.count_ones() as usize + 1 == stages;
        let outcome = match self.dice.below(100) {
            0..6 => {
                let delay_ms = Some(self.dice.below(50) as u64);
                Outcome::Retry { class: Class::Other, message: "again".into(), delay_ms }
            }
            6..9 => Outcome::Fail { class: Class::BadData, message: "no good".into() },
            9..11 => Outcome::Skip { reason: "nothing to do".into() },
            11..13 => Outcome::Release { delay_ms: 5 },
            _ if name.children() > 0 => return self.split(id, name),
            draw => Outcome::Complete {
                result: (draw % 2 == 0).then(|| name.payload()),
                output: (!last).then(|| name.root.to_le_bytes().to_vec()),
                spawn: Vec::new(),
            },
        };
        Plan { id, outcome, last, all_skipped, rest: None }
    }

    /// Splits an item into its children, at once or in two slices.
    fn split(&mut self, id: ItemId, name: Name) -> Plan {
        let child = |number| name.child(number).new_child();
        let mut children: Vec<NewChild> = (1..=name.children()).map(child).collect();
        let slice = |children, more| {
            let outcome =
                Outcome::Split { children, more, on_gaps: OnGaps::Continue, output: None };
            Plan { id, outcome, last: false, all_skipped: false, rest: None }
        };
        if self.dice.percent(50) {
            return slice(children, false);
        }
        // The second slice repeats a child of the first, which must change nothing.
        let rest = children.split_off(1);
        let mut first = slice(children.clone(), true);
        let second = children.into_iter().chain(rest).collect();
        first.rest = Some(Box::new(slice(second, false)));
        first
    }
}

/// How one item is to be settled.
#[derive(Clone, Debug)]
struct Plan {
    id: ItemId,
    outcome: Outcome,
    /// It is in the last stage of its route.
    last: bool,
    /// All other stages were skipped.
    all_skipped: bool,
    rest: Option<Box<Plan>>,
}

impl Plan {
    /// What the answer to it means.
    fn ended(&self, settled: Settled) -> Ended {
        let Settled { id, ending } = settled;
        let end = match ending {
            Ending::Failed => Some(End::Failed),
            Ending::Completed if self.last => Some(End::Completed),
            Ending::Skipped if self.last && self.all_skipped => Some(End::Skipped),
            Ending::Skipped if self.last => Some(End::Completed),
            _ => None,
        };
        let slice = match self.outcome {
            Outcome::Split { more: true, .. } => Slice::More,
            Outcome::Split { .. } => Slice::All,
            _ => Slice::None,
        };
        Ended { id, ending, end, slice }
    }
}

/// Sets the queues up.
pub async fn configure<S: Store>(
    store: &S,
    live_max: u64,
    now: Timestamp,
) -> Result<(), StoreError> {
    let batch = Queue::ALL.map(|queue| queue.configure(live_max)).to_vec();
    store.submit(batch, Now::Given(now)).await.map(drop)
}

/// One round of what an engine does on its own: expired leases, and what is past its keeping.
pub async fn tick<S: Store>(store: &S, now: Timestamp) -> Result<(), StoreError> {
    let batch = vec![Command::Reclaim { limit: 50 }.into(), Command::Sweep { limit: 100 }.into()];
    store.submit(batch, Now::Given(now)).await.map(drop)
}

/// The answer to a batch of one.
fn only(mut answers: Vec<Answer<Work>>) -> Answer<Work> {
    assert_eq!(answers.len(), 1, "one answer for one request");
    answers.remove(0)
}
