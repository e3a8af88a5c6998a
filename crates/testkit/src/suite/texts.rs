//! Texts: what may stand in names and descriptions, and what becomes of a worker's own words.
//!
//! One text that a store cannot hold must not cost those who are in the same batch their answer.

use std::sync::Arc;

use windrow_core::command::{
    Claim, Command, EnqueueOutcome, NewChild, NewItem, Outcome, RetryMode, Scope,
};
use windrow_core::item::Payload;
use windrow_core::limits::{ERROR_MAX, KEY_MAX, NAME_MAX, STAGES_MAX, TEXT_MAX};
use windrow_core::ports::Work;
use windrow_core::route::{Route, Stage};
use windrow_core::settings::{Ahead, KindSettings, Policy, Settings, StageSettings, Unique};
use windrow_core::trail::{Class, Progress};
use windrow_core::{Answer, Refusal, Status, Timestamp};

use super::*;
use crate::random::Splitmix;

const BAD: &str = "a\0b";

/// A text of so many letters that no compression makes shorter.
fn noise(seed: u64, len: usize) -> String {
    let mut random = Splitmix(seed);
    (0..len).map(|_| char::from(b'!' + random.below(90) as u8)).collect()
}

/// Everything that an item may say, with a NUL in it.
fn unfit_items() -> Vec<(&'static str, NewItem)> {
    let bad = || Some(Arc::<str>::from(BAD));
    let announcing = Route { stages: vec![Stage::splitting("a", &[BAD])] };
    vec![
        ("tenant", item().tenant(BAD)),
        ("queue", item().queue(BAD)),
        ("kind", item().kind(BAD)),
        ("op", item().op(BAD)),
        ("key", item().key(BAD)),
        ("key", item().key(BAD).replacing()),
        ("group", item().group(BAD)),
        ("route", routed(&[BAD])),
        ("route", item().route(Arc::new(announcing))),
        ("collection", item().draft(|new| new.body.collection = bad())),
        ("branch", item().draft(|new| new.body.branch = bad())),
        ("source_type", item().draft(|new| new.body.source_type = bad())),
        ("content_type", item().draft(|new| new.body.content_type = bad())),
        ("source_info", item().draft(|new| new.body.source_info = Some(BAD.into()))),
        ("ref", item().draft(|new| new.body.reference = Some(BAD.into()))),
        ("metadata", item().draft(|new| new.body.metadata = Some(BAD.into()))),
    ]
}

fn unfit_children() -> Vec<(&'static str, NewChild)> {
    vec![
        ("kind", NewChild { kind: BAD.into(), ..child(0) }),
        ("op", NewChild { op: BAD.into(), ..child(0) }),
        ("group", NewChild { group: Some(BAD.into()), ..child(0) }),
        ("route", routed_child(0, &[BAD])),
        ("content_type", NewChild { content_type: Some(BAD.into()), ..child(0) }),
        ("metadata", NewChild { metadata: Some(BAD.into()), ..child(0) }),
        ("ref", NewChild { reference: Some(BAD.into()), ..child(0) }),
    ]
}

/// Everything else that workers and operators may name, with `bad` as the name.
fn unfit_commands(bad: &str) -> Vec<(&'static str, Command)> {
    let claim = || Claim::new("w", QUEUE, 1);
    let list = || vec![Arc::<str>::from(QUEUE), bad.into()];
    let scope = || Scope { queue: QUEUE.into(), stage: None, tenant: None };
    let configure = |settings: Settings| Command::Configure {
        queue: QUEUE.into(),
        settings: Box::new(settings),
    };
    let using = || Policy { resource: Some(bad.into()), ..Policy::default() };
    let ahead = Policy { ahead: Some(Ahead { stage: bad.into(), max: 1 }), ..Policy::default() };
    let stage = |stage: &str, policy| Settings {
        stages: vec![StageSettings { stage: stage.into(), policy }],
        ..Settings::default()
    };
    let kind = KindSettings { kind: bad.into(), lease_ms: 1_000 };
    vec![
        ("worker", Command::Claim(Claim { worker: bad.into(), ..claim() })),
        ("queue", Command::Claim(Claim { queues: list(), ..claim() })),
        ("stage", Command::Claim(Claim { stages: list(), ..claim() })),
        ("kind", Command::Claim(Claim { kinds: list(), ..claim() })),
        ("tenant", Command::Claim(Claim { tenants: list(), ..claim() })),
        ("queue", Command::Pause(Scope { queue: bad.into(), ..scope() })),
        ("stage", Command::Pause(Scope { stage: Some(bad.into()), ..scope() })),
        ("tenant", Command::Resume(Scope { tenant: Some(bad.into()), ..scope() })),
        ("queue", Command::Configure { queue: bad.into(), settings: Box::default() }),
        ("stage", configure(stage(bad, Policy::default()))),
        ("kind", configure(Settings { kinds: vec![kind], ..Settings::default() })),
        ("resource", configure(Settings { defaults: using(), ..Settings::default() })),
        ("resource", configure(stage("a", using()))),
        ("ahead", configure(Settings { defaults: ahead, ..Settings::default() })),
        ("resource", Command::Gate { resource: bad.into(), closed_until: Timestamp::ZERO }),
        ("tenant", Command::Blob { tenant: bad.into(), blob: blob(1, 9) }),
    ]
}

cases! {
    fn a_nul_in_what_an_item_says_is_refused_and_its_neighbours_are_taken(bed) {
        // PostgreSQL cannot store it, and failed the whole batch of everybody.
        let mut taken = 0;
        for (field, unfit) in unfit_items() {
            let asked = Command::Enqueue(vec![item(), unfit, item()]);
            let mut answers = bed.ask_all(vec![
                Command::Enqueue(vec![item()]).into(),
                asked.into(),
                Command::Enqueue(vec![item()]).into(),
            ]);
            let Answer::Enqueued(each) = answers.remove(1) else { panic!("{field}") };
            match &each[..] {
                [Ok(_), Err(Refusal::Invalid { field: said, .. }), Ok(_)] => {
                    assert_eq!(*said, field);
                }
                other => panic!("{field}: {other:?}"),
            }
            for answer in answers {
                assert!(matches!(&answer, Answer::Enqueued(each) if each[0].is_ok()), "{answer:?}");
            }
            taken += 4;
        }
        assert_eq!(bed.everything().len(), taken);
    }

    fn a_nul_or_too_long_a_name_in_a_command_is_refused_and_others_are_answered(bed) {
        let long = noise(1, 4_000);
        for bad in [BAD, &long] {
            for (field, unfit) in unfit_commands(bad) {
                let verb = unfit.verb();
                let good = || Command::Enqueue(vec![item()]).into();
                let answers = bed.ask_all(vec![good(), unfit.into(), good()]);
                match &answers[1] {
                    Answer::Refused(Refusal::Invalid { field: said, .. }) => {
                        assert_eq!(*said, field, "{verb}");
                    }
                    other => panic!("{verb} {field}: {other:?}"),
                }
                let added = |answer: &Answer<Work>| {
                    matches!(answer, Answer::Enqueued(each) if each[0].is_ok())
                };
                assert!(added(&answers[0]) && added(&answers[2]), "{verb} {field}");
            }
        }
        bed.take();
    }

    fn too_long_a_name_of_an_item_is_refused_and_its_neighbours_are_taken(bed) {
        let long = noise(2, 4_000);
        for unfit in [
            item().tenant(&long),
            item().queue(&long),
            item().kind(&long),
            item().key(&long),
            item().group(&long),
            routed(&[&long]),
        ] {
            let answer = bed.ask(Command::Enqueue(vec![item(), unfit, item()]));
            let Answer::Enqueued(each) = answer else { panic!("{answer:?}") };
            assert!(matches!(each[..], [Ok(_), Err(Refusal::Invalid { .. }), Ok(_)]), "{each:?}");
        }
    }

    fn a_retry_from_a_stage_that_cannot_be_is_refused(bed) {
        let id = bed.add(item());
        bed.settle(&bed.take(), fail());
        let (mode, from_stage) = (RetryMode::Reset, Some(BAD.into()));
        let answer = bed.ask(Command::Retry { items: vec![id], mode, from_stage });
        let refused = Refusal::invalid("from_stage", "must not have a NUL character (U+0000)");
        assert_eq!(answer, Answer::Refused(refused));
        bed.is(id, Status::Failed);
    }

    fn an_unfit_child_or_spawned_item_is_refused_and_the_lease_is_kept(bed) {
        let id = bed.add(item());
        let held = bed.take();
        let check = |field: &str, outcome: Outcome| match bed.try_settle(&held, outcome) {
            Err(Refusal::Invalid { field: said, .. }) => assert_eq!(said, field),
            other => panic!("{field}: {other:?}"),
        };
        for (field, unfit) in unfit_children() {
            check(field, split(vec![unfit]));
        }
        for (field, unfit) in unfit_items() {
            check(field, complete_and(vec![unfit]));
        }
        assert_eq!(bed.item(id).lease(), Some(held.lease));
        bed.complete(&held);
        assert_eq!(bed.everything().len(), 1);
    }

    fn what_a_worker_says_is_kept_and_a_nul_in_it_is_replaced(bed) {
        let (class, message) = (Class::Other, || BAD.to_owned());
        let mended = "a\u{fffd}b";
        let error = |id| bed.trail(id).last_error().map(|fault| fault.message.clone());
        let failed = bed.add(item());
        bed.settle(&bed.take(), Outcome::Fail { class, message: message() });
        assert_eq!(error(failed).as_deref(), Some(mended));
        let skipped = bed.add(item());
        bed.settle(&bed.take(), Outcome::Skip { reason: message() });
        assert_eq!(bed.trail(skipped).reason.as_deref(), Some(mended));
        let retried = bed.add(item());
        let held = bed.take();
        let progress = Progress { current: 1, total: 2, message: message() };
        let items = vec![(retried, progress)];
        let answer = bed.ask(Command::Progress { lease: held.lease, items });
        assert_eq!(answer, Answer::Progressed(vec![Ok(())]));
        assert_eq!(bed.trail(retried).progress.expect("it was said").message, mended);
        bed.settle(&held, Outcome::Retry { class, message: message(), delay_ms: None });
        assert_eq!(error(retried).as_deref(), Some(mended));
    }

    fn a_message_of_nuls_stays_within_its_limit(bed) {
        let id = bed.add(item());
        let held = bed.take();
        let progress = Progress { current: 1, total: 2, message: "\0".repeat(TEXT_MAX) };
        bed.ask(Command::Progress { lease: held.lease, items: vec![(id, progress)] });
        let said = bed.trail(id).progress.expect("it was said").message;
        assert_eq!(said, "\u{fffd}".repeat(TEXT_MAX / 3));
        let (class, message) = (Class::Other, "\0".repeat(ERROR_MAX));
        bed.settle(&held, Outcome::Fail { class, message });
        let said = bed.trail(id).last_error().expect("it failed").message.clone();
        assert_eq!(said, "\u{fffd}".repeat(ERROR_MAX / 3));
    }

    fn bytes_may_hold_anything(bed) {
        let bytes = b"a\0b\xff\0".as_slice();
        let text = b"a\0b".as_slice();
        for said in [bytes, text] {
            let id = bed.add(routed(&["a", "b"]).payload(said));
            let held = bed.take_in("a");
            assert_eq!(held.work.body.payload, Payload::Inline(said.to_vec()));
            bed.settle(&held, complete_with(said));
            let held = bed.take_in("b");
            assert_eq!(held.work.input.as_deref(), Some(said));
            let (result, output) = (Some(said.to_vec()), None);
            bed.settle(&held, Outcome::Complete { result, output, spawn: Vec::new() });
            assert_eq!(bed.trail(id).result.as_deref(), Some(said));
        }
    }

    fn the_longest_names_fit_together(bed) {
        // What a store looks up by, it may keep in an index, which takes only so much.
        let name = |seed| noise(seed, NAME_MAX);
        let stages: Vec<String> = (0..STAGES_MAX as u64).map(|n| name(10 + n)).collect();
        let stages: Vec<&str> = stages.iter().map(String::as_str).collect();
        let queue = name(1);
        bed.configure_queue(&queue, |settings| settings.unique = Unique::Retained);
        let key = noise(2, KEY_MAX);
        let longest = || {
            let named = item().queue(&queue).tenant(&name(3)).kind(&name(4)).group(&name(5));
            named.key(&key).route(Route::of(&stages))
        };
        let id = bed.add(longest());
        let (stage, tenant) = (Some(stages[0].into()), Some(name(3).into()));
        let scope = Scope { queue: queue.as_str().into(), stage, tenant };
        bed.pause(scope.clone());
        bed.resume(scope);
        bed.close(&name(6), bed.later(1));
        let held = bed.take_from(&queue);
        assert_eq!(held.id, id);
        bed.settle(&held, fail());
        let again = bed.enqueue(longest());
        assert_eq!((again.id, again.outcome), (id, EnqueueOutcome::Duplicate));
    }

    fn a_route_whose_names_are_too_long_together_is_refused_and_its_neighbours_are_taken(bed) {
        let below: Vec<String> = (0..8).map(|n| noise(50 + n, NAME_MAX)).collect();
        let below: Vec<&str> = below.iter().map(String::as_str).collect();
        let route = |count: usize| {
            let stages = (0..count).map(|n| Stage::splitting(format!("s{n}"), &below)).collect();
            item().route(Arc::new(Route { stages }))
        };
        bed.add(route(2));
        let answer = bed.ask(Command::Enqueue(vec![item(), route(3), item()]));
        let Answer::Enqueued(each) = answer else { panic!("{answer:?}") };
        assert!(
            matches!(each[..], [Ok(_), Err(Refusal::Invalid { field: "route", .. }), Ok(_)]),
            "{each:?}"
        );
    }
}
