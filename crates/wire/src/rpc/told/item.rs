//! Everything about an item.

use std::sync::Arc;

use windrow_core::queue::{Attempt, Children, Page, Place, Seen, Stage};
use windrow_core::tally::{Bucket, Counts};
use windrow_core::trail::{Class, Fault, Progress};
use windrow_core::{ItemId, Timestamp};

use super::work::{Names, parent};
use super::{ending, status};
use crate::queue_capnp::{
    self as wire, attempt, buckets, children, fault, item as seen, stage_record, windrow,
};
use crate::rpc::{Wrong, bytes, item_id, lease_id, optional};

pub fn item(from: seen::Reader<'_>) -> Result<Seen, Wrong> {
    read(from, &mut Names::default())
}

/// Children of an item.
pub fn page(from: windrow::children_results::Reader<'_>) -> Result<Page, Wrong> {
    let mut names = Names::default();
    let items = from.get_items()?.iter().map(|child| read(child, &mut names));
    let items = items.collect::<Result<_, _>>()?;
    Ok(Page { items, next: Some(from.get_next()).filter(|next| *next > 0) })
}

fn read(from: seen::Reader<'_>, names: &mut Names) -> Result<Seen, Wrong> {
    let work = from.get_work()?;
    let id = |bytes: &[u8]| -> Result<Option<ItemId>, Wrong> {
        if bytes.is_empty() { Ok(None) } else { Ok(Some(item_id(bytes)?)) }
    };
    let progress = from.has_progress().then(|| from.get_progress()).transpose()?;
    let progress = progress.map(|progress| -> Result<Progress, Wrong> {
        let message = progress.get_message()?.to_string()?;
        Ok(Progress { current: progress.get_current(), total: progress.get_total(), message })
    });
    let place = parent(work)?.map(|parent| Place {
        parent,
        level: from.get_level(),
        number: from.get_ordinal(),
        generation: from.get_place_generation(),
    });
    let children = from.has_children().then(|| from.get_children()).transpose()?;
    Ok(Seen {
        id: item_id(work.get_id()?)?,
        status: status(from.get_status()?),
        body: names.body(work, id(from.get_cloned_from()?)?)?,
        stage: names.stage.get(work.get_stage()?.to_str()?),
        priority: work.get_priority(),
        attempts: work.get_attempt(),
        generation: from.get_generation(),
        not_before: time(from.get_not_before()),
        finished_at: time(from.get_finished_at()),
        lease: if from.has_lease() { Some(lease_id(from.get_lease()?)?) } else { None },
        place,
        successor: id(from.get_successor()?)?,
        result: bytes!(from, has_result, get_result),
        progress: progress.transpose()?,
        reason: optional!(from, has_reason, get_reason).map(str::to_owned),
        stages: from.get_stages()?.iter().map(stage).collect::<Result<_, _>>()?,
        log: from.get_attempts()?.iter().map(attempted).collect::<Result<_, _>>()?,
        children: children.map(counted).transpose()?,
    })
}

/// A moment, if there is one.
fn time(ms: u64) -> Option<Timestamp> {
    Some(Timestamp(ms)).filter(|at| *at > Timestamp::ZERO)
}

fn stage(from: stage_record::Reader<'_>) -> Result<Stage, Wrong> {
    Ok(Stage {
        name: from.get_name()?.to_str()?.into(),
        status: status(from.get_status()?),
        attempts: from.get_attempts(),
        worker: optional!(from, has_worker, get_worker).map(Arc::from),
        started: time(from.get_started_at()),
        completed: time(from.get_completed_at()),
        renewed: time(from.get_renewed_at()),
        error: error(from.has_error().then(|| from.get_error()))?,
    })
}

fn attempted(from: attempt::Reader<'_>) -> Result<Attempt, Wrong> {
    Ok(Attempt {
        stage: from.get_stage()?.to_str()?.into(),
        number: from.get_number(),
        worker: from.get_worker()?.to_str()?.into(),
        started: Timestamp(from.get_started_at()),
        ended: Timestamp(from.get_ended_at()),
        ending: ending(from.get_ending()?),
        error: error(from.has_error().then(|| from.get_error()))?,
    })
}

fn error(from: Option<capnp::Result<fault::Reader<'_>>>) -> Result<Option<Fault>, Wrong> {
    let Some(from) = from.transpose()? else { return Ok(None) };
    let class = match from.get_class()? {
        wire::Class::Gone => Class::Gone,
        wire::Class::BadData => Class::BadData,
        wire::Class::Resource => Class::Resource,
        wire::Class::Infrastructure => Class::Infrastructure,
        wire::Class::RateLimit => Class::RateLimit,
        wire::Class::Other => Class::Other,
        wire::Class::LeaseExpired => Class::LeaseExpired,
        wire::Class::Children => Class::Children,
        wire::Class::Internal => Class::Internal,
    };
    Ok(Some(Fault { class, message: from.get_message()?.to_string()? }))
}

fn counted(from: children::Reader<'_>) -> Result<Children, Wrong> {
    let phase = |phase: children::phase::Reader<'_>| -> Result<(Arc<str>, Counts), Wrong> {
        Ok((phase.get_name()?.to_str()?.into(), counts(phase.get_counts()?)))
    };
    let phases = from.get_phases()?.iter().map(phase).collect::<Result<_, _>>()?;
    Ok(Children { all: counts(from.get_all()?), phases, more: from.get_more() })
}

fn counts(from: buckets::Reader<'_>) -> Counts {
    let mut counts = Counts::default();
    for (bucket, count) in [
        (Bucket::Pending, from.get_pending()),
        (Bucket::Processing, from.get_processing()),
        (Bucket::Completed, from.get_completed()),
        (Bucket::Failed, from.get_failed()),
        (Bucket::Cancelled, from.get_cancelled()),
        (Bucket::Skipped, from.get_skipped()),
        (Bucket::Unreached, from.get_unreached()),
    ] {
        counts.0[bucket as usize] = count;
    }
    counts
}
