//! Bounds: what a command may name and create, beyond the items that it brings.
//!
//! Looks only at the command. Items are checked one by one where they are added, so that one that
//! is unsound does not undo the others.

use crate::command::{Claim, Command, Outcome, Scope};
use crate::id::ItemId;
use crate::limits::BLOB_MAX;
use crate::note;
use crate::refusal::Refusal;
use crate::rules::notify;
use crate::settings::{Policy, Settings};
use crate::text::name;

/// How many items a settle creates.
pub(super) fn created(items: &[(ItemId, Outcome)]) -> usize {
    let of = |outcome: &Outcome| match outcome {
        Outcome::Complete { spawn, .. } => spawn.len(),
        Outcome::Split { children, .. } => children.len(),
        _ => 0,
    };
    items.iter().map(|(_, outcome)| of(outcome)).sum()
}

/// Refuses names that are empty, too long to keep or unfit.
pub(super) fn check_names(command: &Command) -> Result<(), Refusal> {
    match command {
        Command::Claim(claim) => check_claim(claim),
        Command::Retry { from_stage, .. } => optional("from_stage", from_stage.as_deref()),
        Command::Pause(scope) | Command::Resume(scope) => check_scope(scope),
        Command::Configure { queue, settings } | Command::Introduce { queue, settings } => {
            name("queue", queue, true)?;
            check_settings(settings)
        }
        Command::Notify { queue, webhook, wanted } => {
            notify::check(queue, webhook, wanted.as_ref())
        }
        Command::Note(write) => note::check(write),
        Command::Gate { resource, .. } => name("resource", resource, true),
        Command::Limit { resource, limits } => {
            name("resource", resource, true)?;
            limits.as_ref().map_or(Ok(()), |limits| limits.check())
        }
        Command::Blob { tenant, blob } | Command::ForgetBlob { tenant, blob } => {
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

/// Names that a claim asks for get numbers and index entries in some stores, as others do.
fn check_claim(claim: &Claim) -> Result<(), Refusal> {
    name("worker", &claim.worker, false)?;
    for (field, asked) in [
        ("queue", &claim.queues),
        ("stage", &claim.stages),
        ("kind", &claim.kinds),
        ("tenant", &claim.tenants),
    ] {
        asked.iter().try_for_each(|text| name(field, text, false))?;
    }
    Ok(())
}

fn check_settings(settings: &Settings) -> Result<(), Refusal> {
    settings.stages.iter().try_for_each(|of| name("stage", &of.stage, true))?;
    settings.kinds.iter().try_for_each(|of| name("kind", &of.kind, true))?;
    check_policy(&settings.defaults)?;
    settings.stages.iter().try_for_each(|of| check_policy(&of.policy))
}

fn check_policy(policy: &Policy) -> Result<(), Refusal> {
    optional("resource", policy.resource.as_deref())?;
    optional("ahead", policy.ahead.as_ref().map(|ahead| &*ahead.stage))
}

fn optional(field: &'static str, text: Option<&str>) -> Result<(), Refusal> {
    text.map_or(Ok(()), |text| name(field, text, false))
}

fn check_scope(scope: &Scope) -> Result<(), Refusal> {
    name("queue", &scope.queue, true)?;
    scope.stage.as_deref().map_or(Ok(()), |stage| name("stage", stage, true))?;
    scope.tenant.as_deref().map_or(Ok(()), |tenant| name("tenant", tenant, true))
}
