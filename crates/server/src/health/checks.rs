//! The checks: facts in, lines out. Every bound and every word about health is here.

use std::sync::Arc;

use windrow_core::Timestamp;
use windrow_core::ports::Lead;
use windrow_core::vitals::{Room, Vitals, Waiting};

use super::facts::{Facts, Serving, Trouble, WINDOW_MINUTES};
use super::words::{bytes, counted, time};
use super::{Check, Status, Thresholds};

/// How much longer work waits before it is not only late but lost sight of.
const OLDEST_RED: u64 = 12;
/// Attempts that must have failed before a queue is said to fail.
const FAILED_MIN: u64 = 5;
/// The store is slow if a commit takes so long on average, and too slow.
const SLOW_MS: u64 = 250;
const TOO_SLOW_MS: u64 = 2_000;
/// Commits of which an average says something.
const COMMITS_MIN: u64 = 3;
/// The disk is nearly full with less than this, or with less than a twentieth.
const FREE_MIN_BYTES: u64 = 1 << 30;
const FREE_MIN_PART: u64 = 20;
/// A step is taken at least once a second.
const TICK_LATE_MS: u64 = 10_000;
/// Lines about single queues or resources, at most, of each kind.
const LINES_MAX: usize = 50;

/// All lines. A check that finds nothing has one green line.
pub(super) fn all(facts: &Facts, thresholds: Thresholds) -> Vec<Check> {
    let mut checks = vec![ready(facts), store(facts), speed(facts)];
    checks.extend(tick(facts));
    if let Ok(store) = &facts.store {
        let vitals = &store.vitals;
        checks.push(space(vitals));
        checks.push(quarantined(vitals));
        checks.extend(warnings(vitals));
        checks.extend(resources(vitals));
        checks.extend(oldest(vitals, thresholds));
        checks.extend(paused(vitals));
        checks.extend(stalled(facts, vitals, thresholds));
    }
    checks.extend(failing(facts));
    checks
}

fn green(check: &'static str, says: impl Into<String>) -> Check {
    Check { check, status: Status::Green, of: None, says: says.into(), remedy: None }
}

fn line(check: &'static str, status: Status, says: String, remedy: &'static str) -> Check {
    Check { check, status, of: None, says, remedy: Some(remedy) }
}

fn about(of: &str, check: Check) -> Check {
    Check { of: Some(of.to_owned()), ..check }
}

/// The lines that were found, or that there is nothing to say.
fn or_green(lines: impl Iterator<Item = Check>, otherwise: Check) -> Vec<Check> {
    let mut lines: Vec<Check> = lines.collect();
    if lines.is_empty() {
        return vec![otherwise];
    }
    // The worst first, so that they are not the ones left out.
    lines.sort_by_key(|line| std::cmp::Reverse(line.status));
    lines.truncate(LINES_MAX);
    lines
}

fn ready(facts: &Facts) -> Check {
    let (status, says, remedy) = match facts.serving {
        Serving::Yes => return green("serving", "requests are taken"),
        Serving::Stopping => (
            Status::Yellow,
            "the server is stopping: what is under way ends, nothing new begins",
            "send requests to another server, or start it again",
        ),
        Serving::Nobody => (
            Status::Red,
            "no server runs here: nobody takes requests, and nothing happens by itself",
            "start one with `windrow serve`",
        ),
        Serving::Unknown => match facts.store.as_ref().map(|store| store.vitals.is_led) {
            Ok(Some(true)) => {
                return green("serving", "somebody does what happens by itself on this database");
            }
            Ok(Some(false)) => (
                Status::Red,
                "nobody is at work on this database: nothing happens by itself",
                "start one with `windrow serve --store`",
            ),
            Ok(None) | Err(_) => (
                Status::Yellow,
                "the database was asked, and no server: whether one runs is not known",
                "ask a server, with --server URL",
            ),
        },
    };
    line("serving", status, says.to_owned(), remedy)
}

fn store(facts: &Facts) -> Check {
    let red = |says, remedy| line("store", Status::Red, says, remedy);
    match &facts.store {
        Ok(_) => green("store", "the store answers"),
        Err(Trouble::Poisoned(why)) => red(
            format!("the store stopped after a failed write: {why}"),
            "see that the disk is sound and has room, then start the server again; nothing that \
             was acknowledged is lost",
        ),
        Err(Trouble::Silent) => red(
            "the store has not answered for 2 s".to_owned(),
            "look whether the disk or the database hangs; requests wait until it answers",
        ),
        Err(Trouble::Failed(why)) => red(
            format!("the store cannot be asked: {why}"),
            "see that the database runs and can be reached from here",
        ),
    }
}

fn speed(facts: &Facts) -> Check {
    let commits = facts.commits;
    let mean_ms = commits.micros.checked_div(commits.count).unwrap_or(0) / 1_000;
    let status = match mean_ms {
        _ if commits.count < COMMITS_MIN => Status::Green,
        TOO_SLOW_MS.. => Status::Red,
        SLOW_MS.. => Status::Yellow,
        _ => Status::Green,
    };
    let says = format!(
        "a commit took {mean_ms} ms on average, of {} in the last {WINDOW_MINUTES} minutes",
        commits.count
    );
    if status == Status::Green {
        return green("store_speed", says);
    }
    let remedy = "look what else uses the disk or the database, and how long a sync takes there; \
                  larger batches need fewer commits";
    line("store_speed", status, says, remedy)
}

/// Of a server: where none is asked, nothing is to be said.
fn tick(facts: &Facts) -> Option<Check> {
    let is_asked = !matches!(facts.serving, Serving::Nobody | Serving::Unknown);
    is_asked.then(|| ticks(facts))
}

fn ticks(facts: &Facts) -> Check {
    let pulse = facts.pulse;
    let quiet_ms = facts.now.since(pulse.last.unwrap_or(facts.started));
    let remedy = "look at the log for why steps fail; if there is nothing, start the server again";
    if quiet_ms >= TICK_LATE_MS {
        let says = format!(
            "nothing happens by itself for {}: leases that ran out are not taken back, delays do \
             not end",
            time(quiet_ms)
        );
        return line("tick", Status::Red, says, remedy);
    }
    if pulse.failing_since.is_some() {
        let says = "the last step of what happens by itself failed and is tried again".to_owned();
        return line("tick", Status::Yellow, says, remedy);
    }
    green(
        "tick",
        match pulse.lead {
            Some(Lead::Follows) => "another server does what happens by itself; this one stands by",
            Some(Lead::Leads { .. }) => "this server does what happens by itself, for all",
            Some(Lead::Alone) | None => "what happens by itself happens",
        },
    )
}

fn space(vitals: &Vitals) -> Check {
    let red = |says: &str| {
        let remedy = "free some space on the disk, or let ended items go sooner (retention); \
                      settling still works";
        line("space", Status::Red, says.to_owned(), remedy)
    };
    match vitals.room {
        Room::None => return red("the disk is full: new items are refused"),
        Room::Reserve => {
            return red("the disk is full: new items are refused, what is there can still end");
        }
        Room::Plenty => {}
    }
    let Some(disk) = vitals.disk else {
        return green("space", "the store has refused nothing for want of room");
    };
    let says = format!("{} of {} are free", bytes(disk.free_bytes), bytes(disk.total_bytes));
    if disk.free_bytes < FREE_MIN_BYTES || disk.free_bytes < disk.total_bytes / FREE_MIN_PART {
        let remedy = "free some space on the disk before it is full; then new items are refused";
        return line("space", Status::Yellow, says, remedy);
    }
    green("space", says)
}

fn quarantined(vitals: &Vitals) -> Check {
    match vitals.quarantined {
        0 => green("quarantined", "no item is set aside"),
        count => line(
            "quarantined",
            Status::Red,
            format!("{} set aside: a rule failed, or a record is damaged", counted(count, "item")),
            "the log and `explain` name what happened; run `windrow check` on the stopped store, \
             cancel or delete the item, and report a rule that failed",
        ),
    }
}

fn warnings(vitals: &Vitals) -> Vec<Check> {
    let remedy = "what it says names what to change; none of it stops the queue";
    let lines = vitals
        .warnings
        .iter()
        .map(|warning| line("store_warning", Status::Yellow, warning.clone(), remedy));
    or_green(lines, green("store_warning", "the store warns of nothing"))
}

fn resources(vitals: &Vitals) -> Vec<Check> {
    let lines = vitals.closed.iter().map(|closed| {
        let for_ms = closed.until.since(vitals.at);
        let (how_long, remedy) = if closed.until >= Timestamp::FOR_EVER {
            ("until somebody opens it".to_owned(), "see why it was closed, and open it")
        } else {
            let remedy = "see why it was closed; it opens by itself at the latest then";
            (format!("for another {}", time(for_ms)), remedy)
        };
        let says = format!("closed {how_long}: what needs it waits, costs no attempt");
        about(&closed.resource, line("resource", Status::Yellow, says, remedy))
    });
    or_green(lines, green("resource", "no resource is closed"))
}

fn oldest(vitals: &Vitals, thresholds: Thresholds) -> Vec<Check> {
    let late = |waiting: &Waiting| {
        let waits_ms = vitals.at.since(waiting.open_since()?);
        let status = match thresholds.oldest_ms {
            bound if waits_ms >= bound.saturating_mul(OLDEST_RED) => Status::Red,
            bound if waits_ms >= bound => Status::Yellow,
            _ => return None,
        };
        let says = format!("the first in line has waited for {}", time(waits_ms));
        let remedy = "start more workers for this queue, or see what holds up those that there are";
        Some(about(&waiting.queue, line("oldest", status, says, remedy)))
    };
    let first = vitals.waiting.iter().filter_map(Waiting::open_since).min();
    let says = first.map_or_else(
        || "nothing waits that could be claimed".to_owned(),
        |since| format!("the first in line has waited for {}", time(vitals.at.since(since))),
    );
    or_green(vitals.waiting.iter().filter_map(late), green("oldest", says))
}

fn paused(vitals: &Vitals) -> Vec<Check> {
    let held = |waiting: &Waiting| {
        let since = waiting.held_since?;
        let says = format!(
            "work waits behind a pause or a closed resource, the first of it for {}",
            time(vitals.at.since(since))
        );
        let remedy = "resume the queue, stage or tenant if it was forgotten";
        Some(about(&waiting.queue, line("held", Status::Yellow, says, remedy)))
    };
    let lines = vitals.waiting.iter().filter_map(held);
    or_green(lines, green("held", "nothing waits behind a pause or a closed resource"))
}

fn stalled(facts: &Facts, vitals: &Vitals, thresholds: Thresholds) -> Vec<Check> {
    let stands = |queue: &Arc<str>, stage: &Arc<str>, since: Timestamp| {
        let waits_ms = vitals.at.since(since);
        let worked = facts.worked(queue, stage);
        let quiet_ms = worked.map_or(waits_ms, |worked| waits_ms.min(vitals.at.since(worked)));
        if quiet_ms < thresholds.stalled_ms || facts.is_busy(queue, stage) {
            return None;
        }
        let (why, remedy) = match facts.workers_of(queue, Some(stage)) {
            (0, _) if facts.has_drained(queue, stage) => (
                "its workers are drained",
                "resume them with `windrow drain WORKER --resume`, or start others, here",
            ),
            (0, _) if facts.workers_of(queue, None).0 > 0 => (
                "workers are here, and none of them takes this stage",
                "start a worker that claims from this queue in that stage, here",
            ),
            (0, _) => ("no worker asks for it", "start a worker that claims from this queue, here"),
            (_, 0) => (
                "workers were here and ask for nothing any more",
                "see what the workers do: they hang, or wait between claims for too long",
            ),
            _ => (
                "workers wait and get nothing",
                "see that they ask for the kinds and tenants that wait; `explain` says what an \
                 item waits for",
            ),
        };
        let quiet = time(quiet_ms);
        let says =
            format!("work waits in stage {stage} and nothing has happened for {quiet}: {why}");
        Some(about(queue, line("stalled", Status::Red, says, remedy)))
    };
    let lines = vitals.waiting.iter().flat_map(|Waiting { queue, open, .. }| {
        open.iter().filter_map(|(stage, since)| stands(queue, stage, *since))
    });
    or_green(lines, green("stalled", "wherever work waits, work is done"))
}

fn failing(facts: &Facts) -> Vec<Check> {
    let fails = |(queue, flow): (&Arc<str>, &super::facts::QueueFlow)| {
        let (well, failed) = (flow.flow.went_well, flow.flow.failed);
        if failed < FAILED_MIN || failed <= well {
            return None;
        }
        let status = if well == 0 { Status::Red } else { Status::Yellow };
        let which = if well == 0 { "all".to_owned() } else { format!("{failed}") };
        let says = format!(
            "{which} of {} in the last {WINDOW_MINUTES} minutes failed",
            counted(well + failed, "attempt")
        );
        let remedy = "look at the errors of its failed items; pause the queue until the cause is \
                      mended, then retry them";
        Some(about(queue, line("failing", status, says, remedy)))
    };
    let lines = facts.flows.iter().filter_map(fails);
    let otherwise = format!("attempts of the last {WINDOW_MINUTES} minutes went well, or most did");
    or_green(lines, green("failing", otherwise))
}

#[cfg(test)]
mod tests;
