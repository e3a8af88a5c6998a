//! Data directories of every format that ever landed open, and hold what was put there.
//!
//! `crates/store/fixtures/format-N` was written by the program that introduced format N and is
//! never written again. `WINDROW_BLESS=1` writes the directory of the present format, once.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windrow_core::command::{Claim, Command, NewChild, NewItem, Outcome, Scope};
use windrow_core::item::{Body, Payload};
use windrow_core::note::{Expects, WriteNote};
use windrow_core::ports::{Now, Store};
use windrow_core::resource::{Limits, Rate};
use windrow_core::route::Route;
use windrow_core::settings::{Policy, Settings};
use windrow_core::tally::OnGaps;
use windrow_core::trail::Class;
use windrow_core::{Answer, ItemId, Request, RequestId, Timestamp};
use windrow_store::embedded::Options;
use windrow_store::embedded::disk::RealDisk;
use windrow_store::embedded::log::FORMAT;
use windrow_testkit::stepped::Stepped;
use windrow_testkit::suite::block_on;

const START: Timestamp = Timestamp(1_800_000_000_000);

fn fixture(format: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/format-{format}"))
}

fn open(path: &Path) -> Stepped {
    let options = Options {
        segment_bytes: 64 << 10,
        reserve_segments: 1,
        seed: Some(11),
        ..Options::default()
    };
    let disk = RealDisk::open(path).expect("a directory");
    Stepped::open(Arc::new(disk), options).expect("an old directory opens")
}

fn ask(store: &Stepped, command: impl Into<Request>, after_ms: u64) -> Answer<()> {
    let now = Now::Given(START.plus(after_ms));
    let mut answers = block_on(store.submit(vec![command.into()], now)).expect("it is written");
    let answer = answers.remove(0);
    match answer {
        Answer::Claimed(_) => unreachable!("claims have a helper of their own"),
        other => other.map(|_| Err(())).expect("no claim"),
    }
}

fn claim(store: &Stepped, queue: &str, max: usize, after_ms: u64) -> (Command, Vec<ItemId>) {
    let request = Command::Claim(Claim::new("fixture-worker", queue, max)).into();
    let now = Now::Given(START.plus(after_ms));
    let mut answers = block_on(store.submit(vec![request], now)).expect("it is written");
    let Answer::Claimed(Some(grant)) = answers.remove(0) else { panic!("there is work") };
    let ids = grant.items.iter().map(|work| work.item.id).collect();
    (Command::Settle { lease: grant.lease, items: Vec::new() }, ids)
}

fn settle(command: Command, items: Vec<(ItemId, Outcome)>) -> Command {
    let Command::Settle { lease, .. } = command else { panic!("a settle") };
    Command::Settle { lease, items }
}

fn item(queue: &str, key: Option<&str>, payload: &str) -> NewItem {
    let mut body = Body::new("acme", queue);
    body.key = key.map(str::to_owned);
    body.payload = Payload::Inline(payload.as_bytes().to_vec());
    NewItem::new(body)
}

/// A little of everything that a format must keep.
fn fill(store: &Stepped) {
    let slow = Settings {
        defaults: Policy { lease_ms: 60_000, group_limit: Some(2), ..Policy::default() },
        ..Settings::default()
    };
    ask(store, Command::Configure { queue: "slow".into(), settings: Box::new(slow) }, 0);
    let plain = (0..20).map(|n| item("plain", Some(&format!("key-{n}")), &format!("payload {n}")));
    let request = Request { id: Some(RequestId(77)), command: Command::Enqueue(plain.collect()) };
    ask(store, request, 10);
    let (lease, ids) = claim(store, "plain", 4, 20);
    let retry = |message: &str| Outcome::Retry {
        class: Class::Infrastructure,
        message: message.into(),
        delay_ms: None,
    };
    let result = Some(b"a result".to_vec());
    let done = Outcome::Complete { result, output: None, spawn: vec![] };
    let fail = Outcome::Fail { class: Class::BadData, message: "unreadable".into() };
    let outcomes = [done, retry("down"), fail, Outcome::Skip { reason: "nothing to do".into() }];
    ask(store, settle(lease, ids.into_iter().zip(outcomes).collect()), 30);

    let mut document = item("documents", Some("document"), "a document");
    document.body.route = Route::of(&["pages", "publish"]);
    ask(store, Command::Enqueue(vec![document]), 40);
    let (lease, ids) = claim(store, "documents", 1, 50);
    let route = Route::of(&["ocr", "vector"]);
    let children = (0..3).map(|n| NewChild::new(n, "page", route.clone())).collect();
    let split = Outcome::Split { children, more: false, on_gaps: OnGaps::Continue, output: None };
    ask(store, settle(lease, vec![(ids[0], split)]), 60);
    ask(store, note("before"), 65);
    ask(store, limit("before"), 66);
    store.store.begin_snapshot();
    while store.store.is_keeping() {
        store.store.keep_step();
        store.store.sync_step();
    }
    let (lease, ids) = claim(store, "documents", 2, 70);
    let output = Some(b"text of a page".to_vec());
    let done = Outcome::Complete { result: None, output, spawn: vec![] };
    let fail = Outcome::Fail { class: Class::Gone, message: "no such page".into() };
    ask(store, settle(lease, vec![(ids[0], done), (ids[1], fail)]), 80);
    ask(store, note("after"), 85);
    ask(store, limit("after"), 86);
    let (_, _) = claim(store, "plain", 3, 90);
    ask(store, Command::Enqueue(vec![item("plain", Some("key-4"), "a successor")]), 100);
    let scope = Scope { queue: "plain".into(), stage: None, tenant: Some("other".into()) };
    ask(store, Command::Pause(scope), 110);
    let mut grouped = item("slow", None, "grouped");
    grouped.body.group = Some("g".into());
    ask(store, Command::Enqueue(vec![grouped.clone(), grouped]), 120);
}

fn limit(resource: &str) -> Command {
    let rate = Some(Rate { count: 3, per_ms: 1_000, burst: 7 });
    let limits = Some(Limits { rate, ..Limits::default() });
    Command::Limit { resource: resource.into(), limits }
}

fn note(name: &str) -> Command {
    let (shelf, name) = ("fixture".into(), name.into());
    let body = Some(b"a note".as_slice().into());
    Command::Note(WriteNote { shelf, name, expects: Expects::Nothing, body })
}

/// What is in a store, in words that do not change with its code.
fn describe(store: &Stepped) -> String {
    let mut text = String::new();
    for item in block_on(store.items(None, usize::MAX)).expect("items are listed") {
        let seen = block_on(store.inspect(item.id)).expect("read").expect("listed");
        let payload = match &seen.body.payload {
            Payload::Inline(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Payload::Blob(_) => "a blob".into(),
        };
        let error = seen.trail.last_error().map(|e| format!("{}: {}", e.class.name(), e.message));
        let _ = writeln!(
            text,
            "{} {}/{} key={:?} group={:?} {} stage={} attempts={} priority={} payload={payload:?} \
             error={error:?} result={:?} children={:?} successor={}",
            item.id,
            seen.body.tenant,
            seen.body.queue,
            seen.body.key,
            seen.body.group,
            item.status(),
            seen.body.route.stage(item.stage).name,
            item.attempts,
            item.priority,
            seen.trail.result.map(|result| String::from_utf8_lossy(&result).into_owned()),
            seen.tally.map(|tally| tally.children.0),
            seen.successor.is_some(),
        );
    }
    for note in block_on(store.notes("fixture")).expect("notes are read") {
        let _ = writeln!(text, "note {} {}", note.name, String::from_utf8_lossy(&note.body));
    }
    for (name, state) in block_on(store.resources()).expect("resources are read") {
        let (burst, tokens) = (state.limits.rate.map(|rate| rate.burst), state.bucket.tokens);
        let _ = writeln!(text, "resource {name}: {tokens} of {burst:?}");
    }
    for count in block_on(store.counts()).expect("items are counted") {
        let _ =
            writeln!(text, "{}/{} {}: {}", count.tenant, count.queue, count.status, count.items);
    }
    text
}

/// A copy to open, because opening writes.
fn copy(from: &Path) -> PathBuf {
    let name = format!("windrow-format-{}-{:p}", std::process::id(), from);
    let to = std::env::temp_dir().join(name);
    let _absent_is_fine = std::fs::remove_dir_all(&to);
    std::fs::create_dir_all(&to).expect("a temporary directory");
    for file in std::fs::read_dir(from).expect("a fixture") {
        let file = file.expect("a file");
        std::fs::copy(file.path(), to.join(file.file_name())).expect("it is copied");
    }
    to
}

fn bless(path: &Path) {
    std::fs::create_dir_all(path).expect("a directory");
    let store = open(path);
    fill(&store);
    let expected = describe(&store);
    drop(store);
    for file in std::fs::read_dir(path).expect("a fixture") {
        let file = file.expect("a file");
        let name = file.file_name().to_string_lossy().into_owned();
        if !name.starts_with("segment-") && !name.starts_with("snapshot-") {
            std::fs::remove_file(file.path()).expect("it is removed");
        }
    }
    std::fs::write(path.join("expected.txt"), expected).expect("it is written");
}

#[test]
fn every_format_that_ever_landed_opens_with_all_that_was_put_there() {
    let newest = fixture(FORMAT);
    if std::env::var_os("WINDROW_BLESS").is_some() && !newest.exists() {
        bless(&newest);
    }
    for format in 1..=FORMAT {
        let fixture = fixture(format);
        let expected = std::fs::read_to_string(fixture.join("expected.txt"));
        let expected =
            expected.unwrap_or_else(|_| panic!("there is no fixture of format {format}"));
        let path = copy(&fixture);
        let store = open(&path);
        assert_eq!(describe(&store), expected, "format {format}");
        // And it goes on from there: the first answer to a request, a new item, a second opening.
        let again = Request { id: Some(RequestId(77)), command: Command::Enqueue(vec![]) };
        assert!(matches!(ask(&store, again, 500), Answer::Refused(_)), "the request is known");
        ask(&store, Command::Enqueue(vec![item("plain", Some("new"), "new")]), 510);
        let after = describe(&store);
        drop(store);
        assert_eq!(describe(&open(&path)), after, "format {format}, opened again");
        std::fs::remove_dir_all(&path).expect("it is removed");
    }
}
