//! Items as they are shown, and why they are where they are.

use capnp::struct_list;
use windrow_core::explain::Explanation;
use windrow_core::item::{self, State};
use windrow_core::ports::Inspected;
use windrow_core::route::Route;
use windrow_core::tally::{self, Bucket, Tally};
use windrow_core::trail::{self, Trail};

use super::{set, work};
use crate::queue_capnp::{
    Class, Ending, Status, attempt, buckets, children, counts, fault, item as wire, reason,
    stage_record,
};

/// Writes everything about an item.
pub fn inspected(mut into: wire::Builder<'_>, seen: &Inspected) {
    let Inspected { item, body, trail, tally, successor } = seen;
    let stage = &body.route.stage(item.stage).name;
    work::written(into.reborrow().init_work(), item, body, stage);
    let of_children = tally.as_ref().filter(|_| matches!(item.state, State::Split));
    into.set_status(status(of_children.map_or_else(|| item.status(), Tally::status)));
    into.set_generation(item.generation);
    into.set_created_at(item.id.created_at().0);
    into.set_finished_at(trail.finished_at.map_or(0, |at| at.0));
    if let State::Pending { not_before } | State::Held { not_before } = item.state {
        into.set_not_before(not_before.0);
    }
    if let Some(lease) = item.lease() {
        into.set_lease(&lease.0.to_be_bytes());
    }
    if let Some(id) = body.cloned_from {
        into.set_cloned_from(&id.0.to_be_bytes());
    }
    if let Some(id) = successor {
        into.set_successor(&id.0.to_be_bytes());
    }
    if let Some(place) = item.place {
        into.set_level(place.level);
        into.set_ordinal(place.number());
        into.set_place_generation(place.generation);
    }
    set!(into, set_result, trail.result);
    set!(into, set_reason, trail.reason);
    if let Some(progress) = &trail.progress {
        let mut into = into.reborrow().init_progress();
        into.set_id(&item.id.0.to_be_bytes());
        into.set_current(progress.current);
        into.set_total(progress.total);
        into.set_message(&*progress.message);
    }
    write_trail(into.reborrow(), &body.route, trail);
    if let Some(tally) = tally {
        write_children(into.init_children(), tally);
    }
}

fn write_trail(mut into: wire::Builder<'_>, route: &Route, trail: &Trail) {
    let mut stages = into.reborrow().init_stages(route.len() as u32);
    for (at, stage) in route.stages.iter().enumerate() {
        let record = trail.stages.get(at).unwrap_or(&trail::StageRecord::PENDING);
        let mut into: stage_record::Builder<'_> = stages.reborrow().get(at as u32);
        into.set_name(&*stage.name);
        into.set_status(status(record.status));
        into.set_attempts(record.attempts);
        set!(into, set_worker, record.worker);
        into.set_started_at(record.started.map_or(0, |at| at.0));
        into.set_completed_at(record.completed.map_or(0, |at| at.0));
        into.set_renewed_at(record.renewed.map_or(0, |at| at.0));
        set!(into, set_output, record.output);
        if let Some(error) = &record.error {
            write_fault(into.init_error(), error);
        }
    }
    let mut attempts = into.init_attempts(trail.attempts.len() as u32);
    for (at, one) in (0..).zip(&trail.attempts) {
        let mut into: attempt::Builder<'_> = attempts.reborrow().get(at);
        into.set_stage(&*route.stage(one.stage).name);
        into.set_number(one.number);
        into.set_worker(&*one.worker);
        into.set_started_at(one.started.0);
        into.set_ended_at(one.ended.0);
        into.set_ending(ending(one.ending));
        if let Some(error) = &one.error {
            write_fault(into.init_error(), error);
        }
    }
}

fn write_fault(mut into: fault::Builder<'_>, fault: &trail::Fault) {
    into.set_message(&*fault.message);
    into.set_class(class(fault.class));
}

/// A kind of error, as it is shown and as a worker names it.
pub fn class(class: trail::Class) -> Class {
    match class {
        trail::Class::Gone => Class::Gone,
        trail::Class::BadData => Class::BadData,
        trail::Class::Resource => Class::Resource,
        trail::Class::Infrastructure => Class::Infrastructure,
        trail::Class::RateLimit => Class::RateLimit,
        trail::Class::Other => Class::Other,
        trail::Class::LeaseExpired => Class::LeaseExpired,
        trail::Class::Children => Class::Children,
        trail::Class::Internal => Class::Internal,
    }
}

fn write_children(mut into: children::Builder<'_>, tally: &Tally) {
    into.set_more(tally.more);
    write_buckets(into.reborrow().init_all(), &tally.children);
    let mut phases = into.init_phases(tally.phases.len() as u32);
    for (at, (name, counts)) in (0..).zip(&tally.phases) {
        let mut into = phases.reborrow().get(at);
        into.set_name(&**name);
        write_buckets(into.init_counts(), counts);
    }
}

fn write_buckets(mut into: buckets::Builder<'_>, counts: &tally::Counts) {
    into.set_pending(counts.of(Bucket::Pending));
    into.set_processing(counts.of(Bucket::Processing));
    into.set_completed(counts.of(Bucket::Completed));
    into.set_failed(counts.of(Bucket::Failed));
    into.set_cancelled(counts.of(Bucket::Cancelled));
    into.set_skipped(counts.of(Bucket::Skipped));
    into.set_unreached(counts.of(Bucket::Unreached));
    into.set_percent(counts.percent());
}

pub fn status(status: item::Status) -> Status {
    match status {
        item::Status::Pending => Status::Pending,
        item::Status::Processing => Status::Processing,
        item::Status::Completed => Status::Completed,
        item::Status::Failed => Status::Failed,
        item::Status::Cancelled => Status::Cancelled,
        item::Status::Skipped => Status::Skipped,
    }
}

pub fn ending(ending: trail::Ending) -> Ending {
    match ending {
        trail::Ending::Completed => Ending::Completed,
        trail::Ending::Split => Ending::Split,
        trail::Ending::Retried => Ending::Retried,
        trail::Ending::Failed => Ending::Failed,
        trail::Ending::Skipped => Ending::Skipped,
        trail::Ending::Released => Ending::Released,
        trail::Ending::Snoozed => Ending::Snoozed,
        trail::Ending::Expired => Ending::Expired,
        trail::Ending::Cancelled => Ending::Cancelled,
    }
}

/// Writes why an item is where it is.
pub fn reasons(mut into: struct_list::Builder<'_, reason::Owned>, explained: &Explanation) {
    for (at, why) in (0..).zip(&explained.reasons) {
        let mut into = into.reborrow().get(at);
        into.set_code(why.code());
        into.set_unblocked_by(&*why.unblocked_by());
    }
}

/// Items by status, in the order of [`item::Status::ALL`].
pub type ByStatus = [u64; item::Status::ALL.len()];

pub fn write_counts(mut into: counts::Builder<'_>, items: &ByStatus) {
    let [pending, processing, completed, failed, cancelled, skipped] = *items;
    into.set_pending(pending);
    into.set_processing(processing);
    into.set_completed(completed);
    into.set_failed(failed);
    into.set_cancelled(cancelled);
    into.set_skipped(skipped);
}
