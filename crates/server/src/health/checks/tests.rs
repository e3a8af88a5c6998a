//! One table per check, from situations that happen.

use std::sync::Arc;

use windrow_core::change::Lease;
use windrow_core::command::Claim;
use windrow_core::vitals::{Closed, DiskSpace};
use windrow_core::{LeaseId, Timestamp};
use windrow_engine::Pulse;
use windrow_engine::presence::Worker;
use windrow_engine::window::{Commits, Flow};

use super::super::facts::{QueueFlow, StoreFacts};
use super::*;

const NOW: Timestamp = Timestamp(1_000_000_000);
const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

fn ago(ms: u64) -> Timestamp {
    Timestamp(NOW.0 - ms)
}

/// A server that has run for a day and has nothing to do.
fn quiet() -> Facts {
    Facts {
        now: NOW,
        started: ago(24 * HOUR),
        serving: Serving::Yes,
        store: Ok(StoreFacts { vitals: Vitals { at: NOW, ..Vitals::default() }, ..<_>::default() }),
        flows: Default::default(),
        worked: Default::default(),
        workers: Vec::new(),
        pulse: Pulse { last: Some(ago(300)), lead: Some(Lead::Alone), failing_since: None },
        commits: Commits::default(),
    }
}

fn vitals(facts: &mut Facts) -> &mut Vitals {
    &mut facts.store.as_mut().expect("it answers").vitals
}

/// What waits in a queue, in the stage `ocr`: open, and held back.
fn waits(facts: &mut Facts, queue: &str, open: Option<u64>, held: Option<u64>) {
    let waiting = Waiting {
        queue: queue.into(),
        open: open.map(|ms| ("ocr".into(), ago(ms))).into_iter().collect(),
        held_since: held.map(ago),
    };
    vitals(facts).waiting.push(waiting);
}

fn flows(facts: &mut Facts, queue: &str, went_well: u64, failed: u64, worked: u64) {
    let flow = Flow { went_well, failed, ..Flow::default() };
    facts.flows.insert(queue.into(), QueueFlow { flow, worked: Some(ago(worked)) });
    facts.worked.insert((queue.into(), "ocr".into()), ago(worked));
}

fn worker(facts: &mut Facts, name: &str, queue: &str, waiting: usize) {
    let offers = vec![Arc::new(Claim::new(name, queue, 1))];
    facts.workers.push(Worker {
        name: name.into(),
        last_seen: NOW,
        waiting,
        leases: 0,
        offers,
        is_drained: false,
    });
}

fn lease(facts: &mut Facts, worker: &str) {
    let store = facts.store.as_mut().expect("it answers");
    store.leases.push(Lease {
        id: LeaseId(7),
        worker: worker.into(),
        granted: ago(HOUR),
        renewed: ago(1_000),
        expires: NOW.plus(MINUTE),
        lease_ms: 5 * MINUTE,
        items: 1,
    });
}

/// What a check says of a situation: its colour, and words that must be in it.
#[track_caller]
fn is(check: &str, status: Status, words: &str, situation: impl FnOnce(&mut Facts)) {
    let mut facts = quiet();
    situation(&mut facts);
    let lines = all(&facts, Thresholds::new(3_600, 60));
    let lines: Vec<&Check> = lines.iter().filter(|line| line.check == check).collect();
    let worst = lines.iter().max_by_key(|line| line.status).expect("every check has a line");
    assert_eq!(worst.status, status, "{lines:?}");
    let shown = format!("{} {}", worst.of.as_deref().unwrap_or_default(), worst.says);
    assert!(shown.contains(words), "{shown:?} lacks {words:?}");
    assert_eq!(worst.remedy.is_some(), status != Status::Green, "{worst:?}");
}

use Status::{Green, Red, Yellow};

#[test]
fn a_quiet_server_is_green_in_every_line() {
    let lines = all(&quiet(), Thresholds::new(3_600, 60));
    assert!(lines.iter().all(|line| line.status == Green && line.remedy.is_none()), "{lines:#?}");
    assert_eq!(lines.len(), 12);
}

#[test]
fn a_server_that_stops_says_so() {
    is("serving", Yellow, "stopping", |facts| facts.serving = Serving::Stopping);
}

#[test]
fn where_no_server_is_asked_nothing_is_said_to_serve_or_to_happen_by_itself() {
    is("serving", Red, "no server runs", |facts| facts.serving = Serving::Nobody);
    is("serving", Yellow, "not known", |facts| facts.serving = Serving::Unknown);
    let led = |is_led| {
        move |facts: &mut Facts| {
            facts.serving = Serving::Unknown;
            vitals(facts).is_led = Some(is_led);
        }
    };
    is("serving", Red, "nobody is at work on this database", led(false));
    is("serving", Green, "somebody does what happens by itself", led(true));
    let lines = all(&Facts { serving: Serving::Nobody, ..quiet() }, Thresholds::new(3_600, 60));
    assert!(lines.iter().all(|line| line.check != "tick"), "{lines:#?}");
}

#[test]
fn the_store_answers_or_it_is_said_why_not() {
    let failed = |trouble| move |facts: &mut Facts| facts.store = Err(trouble);
    is("store", Green, "answers", |_| {});
    is("store", Red, "failed write: disk gone", failed(Trouble::Poisoned("disk gone".into())));
    is("store", Red, "2 s", failed(Trouble::Silent));
    is("store", Red, "no route", failed(Trouble::Failed("no route".into())));
}

#[test]
fn a_slow_store_is_told_from_a_fast_one_by_its_average() {
    let took = |count, ms| {
        move |facts: &mut Facts| {
            facts.commits = Commits { count, micros: count * ms * 1_000 };
        }
    };
    is("store_speed", Green, "4 ms", took(1_000, 4));
    is("store_speed", Green, "3000 ms", took(2, 3_000)); // Two say nothing.
    is("store_speed", Yellow, "300 ms", took(50, 300));
    is("store_speed", Red, "2500 ms", took(3, 2_500));
}

#[test]
fn a_full_disk_is_red_and_one_that_fills_up_yellow() {
    let free = |free_bytes, total_bytes| {
        move |facts: &mut Facts| {
            vitals(facts).disk = Some(DiskSpace { free_bytes, total_bytes });
        }
    };
    is("space", Green, "50.0 GiB of 100.0 GiB", free(50 << 30, 100 << 30));
    is("space", Yellow, "4.0 GiB", free(4 << 30, 100 << 30));
    is("space", Yellow, "512 MiB", free(512 << 20, 1 << 30));
    is("space", Red, "refused", |facts| vitals(facts).room = Room::Reserve);
    is("space", Red, "refused", |facts| vitals(facts).room = Room::None);
    is("space", Green, "refused nothing", |_| {});
}

#[test]
fn an_item_that_is_set_aside_is_red() {
    is("quarantined", Red, "1 item set aside", |facts| vitals(facts).quarantined = 1);
}

#[test]
fn what_the_store_warns_of_is_passed_on() {
    let says = "session 7 holds back vacuum";
    is("store_warning", Yellow, says, |facts| vitals(facts).warnings.push(says.into()));
}

#[test]
fn ticks_that_fail_or_stay_away_are_noticed() {
    is("tick", Yellow, "tried again", |facts| facts.pulse.failing_since = Some(ago(2_000)));
    is("tick", Red, "for 30 s", |facts| facts.pulse.last = Some(ago(30_000)));
    is("tick", Red, "for 24 h", |facts| facts.pulse.last = None);
    is("tick", Green, "another server", |facts| facts.pulse.lead = Some(Lead::Follows));
    let leads = Some(Lead::Leads { idle_ms: 0 });
    is("tick", Green, "this server", |facts| facts.pulse.lead = leads);
}

#[test]
fn a_closed_resource_is_named_with_when_it_opens() {
    is("resource", Yellow, "llm closed for another 5 min", |facts| {
        let closed = Closed { resource: "llm".into(), until: NOW.plus(5 * MINUTE) };
        vitals(facts).closed.push(closed);
    });
    is("resource", Yellow, "llm closed until somebody opens it", |facts| {
        let closed = Closed { resource: "llm".into(), until: Timestamp::FOR_EVER };
        vitals(facts).closed.push(closed);
    });
}

#[test]
fn work_that_waits_for_an_hour_is_late_and_for_half_a_day_forgotten() {
    is("oldest", Green, "59 min", |facts| waits(facts, "q", Some(59 * MINUTE), None));
    is("oldest", Yellow, "q the first in line has waited for 61 min", |facts| {
        waits(facts, "p", Some(MINUTE), None);
        waits(facts, "q", Some(61 * MINUTE), None);
    });
    is("oldest", Red, "13 h", |facts| waits(facts, "q", Some(13 * HOUR), None));
    // What is paused waits because somebody wants it to.
    is("oldest", Green, "nothing waits", |facts| waits(facts, "q", None, Some(13 * HOUR)));
    is("held", Yellow, "q work waits behind a pause", |facts| {
        waits(facts, "q", None, Some(MINUTE));
    });
}

#[test]
fn a_queue_stalls_when_work_waits_and_nothing_happens() {
    let waiting = |ms| move |facts: &mut Facts| waits(facts, "q", Some(ms), None);
    is("stalled", Green, "work is done", waiting(59_000));
    let said = "q work waits in stage ocr and nothing has happened for 5 min: no worker asks";
    is("stalled", Red, said, |facts| {
        waits(facts, "q", Some(5 * MINUTE), None);
        worker(facts, "w", "another", 1);
    });
    is("stalled", Red, "workers wait and get nothing", |facts| {
        waits(facts, "q", Some(5 * MINUTE), None);
        worker(facts, "w", "q", 1);
    });
    is("stalled", Red, "its workers are drained", |facts| {
        waits(facts, "q", Some(5 * MINUTE), None);
        worker(facts, "w", "q", 1);
        facts.workers[0].is_drained = true;
    });
    is("stalled", Red, "ask for nothing any more", |facts| {
        waits(facts, "q", Some(5 * MINUTE), None);
        worker(facts, "w", "q", 0);
    });
    is("stalled", Red, "for 2 min", |facts| {
        waits(facts, "q", Some(5 * MINUTE), None);
        flows(facts, "q", 3, 0, 2 * MINUTE);
    });
    is("stalled", Green, "work is done", |facts| {
        waits(facts, "q", Some(5 * MINUTE), None);
        flows(facts, "q", 3, 0, 10_000);
    });
}

fn of_stage(facts: &mut Facts, name: &str, stage: &str) {
    let offers = Claim { stages: vec![stage.into()], ..Claim::new(name, "q", 1) };
    worker(facts, name, "q", 1);
    facts.workers.last_mut().expect("it is there").offers = vec![Arc::new(offers)];
}

/// Workers of the other stages were said to wait and get nothing.
#[test]
fn a_worker_of_another_stage_is_none_that_waits_for_this_one() {
    is("stalled", Red, "none of them takes this stage", |facts| {
        waits(facts, "q", Some(5 * MINUTE), None);
        of_stage(facts, "w", "fetch");
    });
    is("stalled", Red, "workers wait and get nothing", |facts| {
        waits(facts, "q", Some(5 * MINUTE), None);
        of_stage(facts, "w", "fetch");
        of_stage(facts, "v", "ocr");
    });
    is("stalled", Red, "its workers are drained", |facts| {
        waits(facts, "q", Some(5 * MINUTE), None);
        of_stage(facts, "w", "fetch");
        of_stage(facts, "v", "ocr");
        facts.workers[1].is_drained = true;
    });
}

/// As long as one stage of a queue was worked on, nobody heard of another that nobody took.
#[test]
fn a_stage_that_nobody_takes_stalls_however_busy_the_others_are() {
    let busy = |facts: &mut Facts| {
        of_stage(facts, "w", "fetch");
        lease(facts, "w");
        flows(facts, "q", 3, 0, 10_000);
        let fetched = facts.worked.remove(&("q".into(), "ocr".into())).expect("it worked");
        facts.worked.insert(("q".into(), "fetch".into()), fetched);
    };
    let said = "q work waits in stage ocr and nothing has happened for 5 min: workers are here";
    is("stalled", Red, said, |facts| {
        waits(facts, "q", Some(5 * MINUTE), None);
        busy(facts);
    });
    // Also behind a stage whose first has waited for longer, and is about to be taken.
    is("stalled", Red, said, |facts| {
        waits(facts, "q", Some(5 * MINUTE), None);
        vitals(facts).waiting[0].open.insert("fetch".into(), ago(HOUR));
        busy(facts);
    });
    // Whoever takes all stages comes to this one too.
    is("stalled", Green, "work is done", |facts| {
        waits(facts, "q", Some(5 * MINUTE), None);
        busy(facts);
        worker(facts, "v", "q", 0);
    });
    // Its worker went a moment ago, and may only have been started again.
    is("stalled", Green, "work is done", |facts| {
        waits(facts, "q", Some(5 * MINUTE), None);
        busy(facts);
        facts.worked.insert(("q".into(), "ocr".into()), ago(10_000));
    });
}

#[test]
fn a_queue_whose_workers_are_busy_for_long_is_not_stalled() {
    is("stalled", Green, "work is done", |facts| {
        waits(facts, "q", Some(5 * MINUTE), None);
        worker(facts, "w", "q", 0);
        lease(facts, "w");
    });
    // At another server, so that nobody here knows what it works on.
    let elsewhere = |queue: &'static str, status| {
        move |facts: &mut Facts| {
            waits(facts, "q", Some(5 * MINUTE), None);
            worker(facts, "elsewhere", "", 0);
            facts.workers[0].offers.clear();
            lease(facts, "elsewhere");
            let counts = &mut facts.store.as_mut().expect("it answers").counts;
            counts.insert((queue.into(), status), 1);
        }
    };
    let processing = windrow_core::item::Status::Processing;
    is("stalled", Green, "work is done", elsewhere("q", processing));
    is("stalled", Green, "work is done", elsewhere("other", processing));
    // Nothing of this queue is in work, so that it is on something else.
    is("stalled", Red, "no worker", elsewhere("another", processing));
    is("stalled", Red, "no worker", elsewhere("q", windrow_core::item::Status::Pending));
    is("stalled", Red, "no worker", |facts| {
        waits(facts, "q", Some(5 * MINUTE), None);
        worker(facts, "w", "another", 0);
        lease(facts, "w");
    });
}

#[test]
fn everything_failing_is_red_and_most_of_it_yellow() {
    let flow = |well, failed| move |facts: &mut Facts| flows(facts, "q", well, failed, 0);
    is("failing", Green, "went well", flow(0, 4));
    is("failing", Red, "q all of 5 attempts in the last 5 minutes failed", flow(0, 5));
    is("failing", Yellow, "60 of 70 attempts", flow(10, 60));
    is("failing", Green, "went well", flow(60, 10));
}

#[test]
fn a_thousand_queues_that_stall_do_not_make_a_thousand_lines() {
    let mut facts = quiet();
    for number in 0..1_000 {
        waits(&mut facts, &format!("q{number}"), Some(13 * HOUR), None);
    }
    let lines = all(&facts, Thresholds::new(3_600, 60));
    assert_eq!(lines.iter().filter(|line| line.check == "stalled").count(), LINES_MAX);
}
