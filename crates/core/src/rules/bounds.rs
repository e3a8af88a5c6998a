//! Bounds: what a command may name and create, beyond the items that it brings.
//!
//! Looks only at the command. Items are checked one by one where they are added, so that one that
//! is unsound does not undo the others.

use crate::command::{Command, Outcome, Scope};
use crate::id::ItemId;
use crate::limits::BLOB_MAX;
use crate::refusal::Refusal;
use crate::rules::enqueue::name;

/// How many items a settle creates.
pub(super) fn created(items: &[(ItemId, Outcome)]) -> usize {
    let of = |outcome: &Outcome| match outcome {
        Outcome::Complete { spawn, .. } => spawn.len(),
        Outcome::Split { children, .. } => children.len(),
        _ => 0,
    };
    items.iter().map(|(_, outcome)| of(outcome)).sum()
}

/// Refuses names that are empty or too long to keep.
pub(super) fn check_names(command: &Command) -> Result<(), Refusal> {
    match command {
        Command::Claim(claim) => name("worker", &claim.worker, false),
        Command::Pause(scope) | Command::Resume(scope) => check_scope(scope),
        Command::Configure { queue, settings } => {
            name("queue", queue, true)?;
            settings.stages.iter().try_for_each(|of| name("stage", &of.stage, true))?;
            settings.kinds.iter().try_for_each(|of| name("kind", &of.kind, true))
        }
        Command::Gate { resource, .. } => name("resource", resource, true),
        Command::Blob { tenant, blob } => {
            name("tenant", tenant, true)?;
            if blob.len > BLOB_MAX {
                let why = format!("has {} bytes; at most {BLOB_MAX}", blob.len);
                return Err(Refusal::invalid("blob", why));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn check_scope(scope: &Scope) -> Result<(), Refusal> {
    name("queue", &scope.queue, true)?;
    scope.stage.as_deref().map_or(Ok(()), |stage| name("stage", stage, true))?;
    scope.tenant.as_deref().map_or(Ok(()), |tenant| name("tenant", tenant, true))
}
