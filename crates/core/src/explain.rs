//! Explain: why an item is where it is, and what would move it on.
//!
//! Lists all gates that hold now, in fixed order, each with what unblocks it. Only the engine
//! knows which workers are present; it adds that through [`Explanation::without_workers`].

use crate::change::Lease;
use crate::find::shown;
use crate::id::ItemId;
use crate::item::{Item, Marks, State, Status};
use crate::ledger::Ledger;
use crate::refusal::Refusal;
use crate::rules::claim::{Gate, cancelled_above, gates};
use crate::rules::known;
use crate::time::Timestamp;

/// Why an item is where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    pub item: ItemId,
    pub status: Status,
    pub reasons: Vec<Reason>,
}

/// One thing that holds an item now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    Held(Gate),
    /// Its group has as many leases as it may, among others over these items.
    GroupFull {
        load: u32,
        limit: u32,
        held_by: Vec<ItemId>,
    },
    /// A worker has it.
    InHand {
        worker: String,
        until: Timestamp,
    },
    /// A worker had it, and its lease has run out; nobody has taken it back yet.
    Overdue {
        worker: String,
        since: Timestamp,
    },
    /// Nobody who could do it is there, or only those who are drained.
    NoWorker {
        drained: Vec<String>,
    },
    /// Nothing holds it.
    NextInLine,
    Ended,
}

impl Reason {
    /// The stable name of this reason.
    pub fn code(&self) -> &'static str {
        match self {
            Reason::Held(gate) => match gate {
                Gate::NotVisibleUntil(_) => "not_visible",
                Gate::Paused => "paused",
                Gate::Children { .. } => "waits_for_children",
                Gate::EarlierWithKey(_) => "earlier_with_key",
                Gate::GroupFull { .. } => "group_full",
                Gate::GroupOrder { .. } => "group_order",
                Gate::ResourceClosed { .. } => "resource_closed",
                Gate::UnderCancelled(_) => "under_cancelled",
                Gate::TooMuchAhead { .. } => "too_much_ahead",
                Gate::Quarantined => "quarantined",
            },
            Reason::GroupFull { .. } => "group_full",
            Reason::InHand { .. } => "in_hand",
            Reason::Overdue { .. } => "overdue",
            Reason::NoWorker { .. } => "no_worker",
            Reason::NextInLine => "next_in_line",
            Reason::Ended => "ended",
        }
    }

    /// What would move the item on.
    pub fn unblocked_by(&self) -> String {
        match self {
            Reason::Held(gate) => match gate {
                Gate::NotVisibleUntil(at) => {
                    format!("its time, {at}; a retry makes it due at once")
                }
                Gate::Paused => "resuming its queue, stage or tenant".into(),
                Gate::Children { open, cancelled } => {
                    let children = if *open == 1 { "child" } else { "children" };
                    let why = if *cancelled { ", cancelled with it" } else { "" };
                    format!("the end of {open} {children}{why}")
                }
                Gate::EarlierWithKey(id) => format!("the end of item {id}, which has its key"),
                Gate::GroupFull { load, limit } => group_settles(*load, *limit, &[]),
                Gate::GroupOrder { ahead } => format!("the end of item {ahead} of its group"),
                Gate::ResourceClosed { until } if *until >= Timestamp::FOR_EVER => {
                    "somebody opening its resource".into()
                }
                Gate::ResourceClosed { until } => {
                    format!("its resource opening, at the latest {until}")
                }
                Gate::UnderCancelled(id) => {
                    format!("nothing: item {id} above it was cancelled; retry that one")
                }
                Gate::TooMuchAhead { waiting, max } => {
                    format!("the stage further down: {waiting} wait there, at most {max} may")
                }
                Gate::Quarantined => "an operator: a rule failed on it; cancel or delete it".into(),
            },
            Reason::GroupFull { load, limit, held_by } => group_settles(*load, *limit, held_by),
            Reason::InHand { worker, until } => {
                format!("worker {worker} settling it, or its lease ending at {until}")
            }
            Reason::Overdue { worker, since } => {
                format!("the next tick taking it back: the lease of {worker} ended at {since}")
            }
            Reason::NoWorker { drained } => {
                let another = "a worker that claims its queue, stage and kind";
                match &drained[..] {
                    [] => another.into(),
                    [name] => format!("resuming worker {name:?}, which is drained, or {another}"),
                    [name, ..] => {
                        let count = drained.len();
                        format!("resuming worker {name:?}, one of {count} drained, or {another}")
                    }
                }
            }
            Reason::NextInLine => "the next claim".into(),
            Reason::Ended => "a retry".into(),
        }
    }
}

fn group_settles(load: u32, limit: u32, held_by: &[ItemId]) -> String {
    let mut text = format!("a settle in its group, which holds {load} of {limit} leases");
    for (index, id) in held_by.iter().enumerate() {
        text.push_str(if index == 0 { ": item " } else { ", " });
        text.push_str(&id.to_string());
    }
    text
}

/// Why an item is where it is, as far as the store knows.
pub fn explain<L: Ledger>(ledger: &L, id: ItemId, now: Timestamp) -> Result<Explanation, Refusal> {
    let item = known(ledger, id)?;
    let tally = ledger.tally(id);
    let status = shown(&item, tally);
    Ok(Explanation { item: id, status, reasons: reasons(ledger, &item, now) })
}

fn reasons<L: Ledger>(ledger: &L, item: &Item, now: Timestamp) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = match item.state {
        State::Done(_) => vec![Reason::Ended],
        State::Leased { lease } => {
            ledger.lease(lease).map(|lease| in_hand(&lease, now)).into_iter().collect()
        }
        State::Split => {
            let open = ledger.tally(item.id).map_or(0, |tally| tally.open());
            let above = cancelled_above(ledger, item).map(Gate::UnderCancelled);
            let cancelled = item.has(Marks::CANCELLING);
            let children = Gate::Children { open, cancelled };
            [children].into_iter().chain(above).map(Reason::Held).collect()
        }
        State::Held { .. } | State::Pending { .. } => {
            gates(ledger, item, now).map(|gate| held(ledger, item, gate)).collect()
        }
    };
    if reasons.is_empty() {
        reasons.push(Reason::NextInLine);
    }
    reasons
}

/// The reason that a gate gives, with whatever a person wants to know beyond it.
fn held<L: Ledger>(ledger: &L, item: &Item, gate: Gate) -> Reason {
    match gate {
        Gate::GroupFull { load, limit } => {
            Reason::GroupFull { load, limit, held_by: ledger.group_holders(item) }
        }
        gate => Reason::Held(gate),
    }
}

fn in_hand(lease: &Lease, now: Timestamp) -> Reason {
    let (worker, ends) = (lease.worker.to_string(), lease.expires);
    if ends <= now {
        return Reason::Overdue { worker, since: ends };
    }
    Reason::InHand { worker, until: ends }
}

impl Explanation {
    /// The same, knowing that no worker who is present offers to do the item, but for those who are
    /// drained.
    #[must_use]
    pub fn without_workers(mut self, drained: Vec<String>) -> Explanation {
        let waits = !self.reasons.iter().any(|reason| {
            matches!(reason, Reason::Ended | Reason::InHand { .. } | Reason::Overdue { .. })
                || matches!(reason, Reason::Held(Gate::Children { .. }))
        });
        if waits {
            self.reasons.retain(|reason| *reason != Reason::NextInLine);
            let limits = |reason: &Reason| {
                matches!(reason, Reason::Held(Gate::TooMuchAhead { .. } | Gate::Quarantined))
            };
            let at = self.reasons.iter().position(limits).unwrap_or(self.reasons.len());
            self.reasons.insert(at, Reason::NoWorker { drained });
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::LeaseId;

    fn reason(now: u64) -> Reason {
        let lease = Lease {
            id: LeaseId(1),
            worker: "w".into(),
            granted: Timestamp(1_000),
            renewed: Timestamp(1_000),
            expires: Timestamp(31_000),
            lease_ms: 30_000,
            items: 1,
        };
        in_hand(&lease, Timestamp(now))
    }

    #[test]
    fn an_item_whose_lease_has_run_out_waits_for_the_tick_and_not_for_a_moment_that_is_past() {
        let (worker, ends) = ("w".to_owned(), Timestamp(31_000));
        assert_eq!(reason(30_999), Reason::InHand { worker: worker.clone(), until: ends });
        let overdue = reason(31_000);
        assert_eq!(overdue, Reason::Overdue { worker, since: ends });
        assert_eq!(overdue.code(), "overdue");
        let want = format!("the next tick taking it back: the lease of w ended at {ends}");
        assert_eq!(overdue.unblocked_by(), want);
    }

    #[test]
    fn an_overdue_item_does_not_want_another_worker() {
        let reasons = vec![reason(40_000)];
        let said = Explanation { item: ItemId(1), status: Status::Processing, reasons };
        assert_eq!(said.clone().without_workers(Vec::new()), said);
    }

    #[test]
    fn workers_that_are_drained_are_named() {
        let waits_for = |names: &[&str]| {
            let drained = names.iter().map(|name| name.to_string()).collect();
            Reason::NoWorker { drained }.unblocked_by()
        };
        let another = "a worker that claims its queue, stage and kind";
        assert_eq!(waits_for(&[]), another);
        let one = format!("resuming worker \"a\", which is drained, or {another}");
        assert_eq!(waits_for(&["a"]), one);
        let two = format!("resuming worker \"a\", one of 2 drained, or {another}");
        assert_eq!(waits_for(&["a", "b"]), two);
    }
}
