//! Forecast: whether a verb would be done to items, by the rules that would do it.
//!
//! Sees what the verb sees, and lets go of what the verb would write.

use crate::command::Command;
use crate::id::ItemId;
use crate::ledger::Ledger;
use crate::refusal::Refusal;
use crate::rules::{Decision, cancel, check, guarded, prioritise, retry, sweep};
use crate::time::Timestamp;

/// Why a command would be refused that names what an operator does to items.
pub fn forecast<L: Ledger>(ledger: &L, command: &Command, now: Timestamp) -> Result<(), Refusal> {
    check(command)?;
    match command {
        Command::Cancel { items } => of_each(items, |id| cancel::cancel(ledger, id, now)),
        Command::Delete { items } => {
            of_each(items, |id| sweep::may_delete(ledger, id).map(undecided))
        }
        Command::Prioritise { items, priority } => {
            of_each(items, |id| prioritise(ledger, id, *priority))
        }
        Command::Retry { items, mode, from_stage } => of_each(items, |id| {
            retry::may_retry(ledger, id, *mode, from_stage.as_deref(), now).map(undecided)
        }),
        _ => Err(Refusal::invalid("verb", "is not one of retry, cancel, delete and prioritise")),
    }
}

fn undecided((): ()) -> ((), crate::change::Changes) {
    Default::default()
}

fn of_each<T>(items: &[ItemId], rule: impl Fn(ItemId) -> Decision<T>) -> Result<(), Refusal> {
    items.iter().try_for_each(|id| guarded(|| rule(*id)).map(drop))
}
