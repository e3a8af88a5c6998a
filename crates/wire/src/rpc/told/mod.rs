//! Answers as a caller reads them, into what the `Queue` port gives.

mod item;
mod work;

use std::borrow::Cow;
use std::sync::Arc;

use capnp::struct_list;
use windrow_core::command::{self, EnqueueOutcome, Renewed, Retried};
use windrow_core::ports::Count;
use windrow_core::queue::{Each, Explained, Refused, Why};
use windrow_core::{ItemId, Status, Timestamp, trail};

use super::{Wrong, item_id};
use crate::queue_capnp::{self as wire, cancelled, deleted, done, refused, retried, windrow};

pub use self::item::{item, page};
pub use self::work::granted;

/// A refusal.
pub fn refused(from: refused::Reader<'_>) -> Result<Refused, Wrong> {
    Ok(Refused {
        code: Cow::Owned(from.get_code()?.to_string()?),
        message: from.get_detail()?.to_string()?,
        retry_after_ms: Some(from.get_retry_after_ms()).filter(|ms| *ms > 0),
    })
}

/// One answer: why it was not done, if there is a reason, else what it says.
macro_rules! one {
    ($from:expr, $done:expr) => {
        if $from.has_refused() { Err(refused($from.get_refused()?)?) } else { Ok($done) }
    };
}

/// Answers in the order of the questions.
fn each<'a, Q: capnp::traits::OwnedStruct, T>(
    list: struct_list::Reader<'a, Q>,
    read: impl Fn(Q::Reader<'a>) -> Result<Each<T>, Wrong>,
) -> Result<Vec<Each<T>>, Wrong> {
    list.iter().map(read).collect()
}

pub fn enqueued(
    list: struct_list::Reader<'_, wire::enqueued::Owned>,
) -> Result<Vec<Each<command::Enqueued>>, Wrong> {
    each(list, |one| {
        Ok(one!(one, {
            let outcome = match one.get_outcome()? {
                wire::EnqueueOutcome::Created => EnqueueOutcome::Created,
                wire::EnqueueOutcome::Duplicate => EnqueueOutcome::Duplicate,
                wire::EnqueueOutcome::Replaced => EnqueueOutcome::Replaced,
                wire::EnqueueOutcome::Successor => EnqueueOutcome::Successor,
            };
            command::Enqueued { id: item_id(one.get_id()?)?, outcome }
        }))
    })
}

pub fn settled(
    list: struct_list::Reader<'_, wire::settled::Owned>,
) -> Result<Vec<Each<command::Settled>>, Wrong> {
    each(list, |one| {
        Ok(one!(one, {
            let (id, ending) = (item_id(one.get_id()?)?, ending(one.get_ending()?));
            command::Settled { id, ending }
        }))
    })
}

/// Whether each was done.
pub fn done(list: struct_list::Reader<'_, done::Owned>) -> Result<Vec<Each<()>>, Wrong> {
    each(list, |one| Ok(one!(one, ())))
}

pub fn cancelled(
    list: struct_list::Reader<'_, cancelled::Owned>,
) -> Result<Vec<Each<command::Cancelled>>, Wrong> {
    each(list, |one| {
        Ok(one!(one, {
            command::Cancelled { id: item_id(one.get_id()?)?, ongoing: one.get_ongoing() }
        }))
    })
}

pub fn retried(list: struct_list::Reader<'_, retried::Owned>) -> Result<Vec<Each<Retried>>, Wrong> {
    each(list, |one| {
        Ok(one!(one, {
            Retried { id: item_id(one.get_id()?)?, reset: one.get_reset(), more: false }
        }))
    })
}

/// How many each removed.
pub fn deleted(list: struct_list::Reader<'_, deleted::Owned>) -> Result<Vec<Each<u32>>, Wrong> {
    each(list, |one| Ok(one!(one, one.get_removed())))
}

pub fn renewed(from: windrow::renew_results::Reader<'_>) -> Result<Renewed, Wrong> {
    let held = super::item_ids(from.get_held()?)?;
    Ok(Renewed { expires_at: Timestamp(from.get_expires_at()), held })
}

pub fn explained(
    from: windrow::explain_results::Reader<'_>,
    item: ItemId,
) -> Result<Explained, Wrong> {
    let why = |reason: wire::reason::Reader<'_>| -> Result<Why, Wrong> {
        let code = Cow::Owned(reason.get_code()?.to_string()?);
        Ok(Why { code, unblocked_by: reason.get_unblocked_by()?.to_string()? })
    };
    let reasons = from.get_reasons()?.iter().map(why).collect::<Result<_, _>>()?;
    Ok(Explained { id: item, status: status(from.get_status()?), reasons })
}

/// Items by queue, tenant and status; what nobody has is left out.
pub fn counts(
    places: struct_list::Reader<'_, wire::place_counts::Owned>,
) -> Result<Vec<Count>, Wrong> {
    let mut counts = Vec::new();
    for place in places {
        let queue: Arc<str> = place.get_queue()?.to_str()?.into();
        let tenant: Arc<str> = place.get_tenant()?.to_str()?.into();
        let items = place.get_counts()?;
        let by_status = [
            (Status::Pending, items.get_pending()),
            (Status::Processing, items.get_processing()),
            (Status::Completed, items.get_completed()),
            (Status::Failed, items.get_failed()),
            (Status::Cancelled, items.get_cancelled()),
            (Status::Skipped, items.get_skipped()),
        ];
        let of = |(status, items)| {
            let (queue, tenant) = (Arc::clone(&queue), Arc::clone(&tenant));
            Count { queue, tenant, status, items }
        };
        counts.extend(by_status.into_iter().filter(|(_, items)| *items > 0).map(of));
    }
    Ok(counts)
}

fn status(status: wire::Status) -> Status {
    match status {
        wire::Status::Pending => Status::Pending,
        wire::Status::Processing => Status::Processing,
        wire::Status::Completed => Status::Completed,
        wire::Status::Failed => Status::Failed,
        wire::Status::Cancelled => Status::Cancelled,
        wire::Status::Skipped => Status::Skipped,
    }
}

fn ending(ending: wire::Ending) -> trail::Ending {
    match ending {
        wire::Ending::Completed => trail::Ending::Completed,
        wire::Ending::Split => trail::Ending::Split,
        wire::Ending::Retried => trail::Ending::Retried,
        wire::Ending::Failed => trail::Ending::Failed,
        wire::Ending::Skipped => trail::Ending::Skipped,
        wire::Ending::Released => trail::Ending::Released,
        wire::Ending::Snoozed => trail::Ending::Snoozed,
        wire::Ending::Expired => trail::Ending::Expired,
        wire::Ending::Cancelled => trail::Ending::Cancelled,
    }
}
