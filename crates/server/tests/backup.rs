//! Backups of a server under load: what was answered before one began is in it, twenty times over.
#![allow(clippy::unwrap_used, reason = "a test may")]

#[path = "rig/mod.rs"]
mod rig;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use windrow_client::Options;
use windrow_client::http::Client;
use windrow_core::command::{Claim, NewItem, Outcome};
use windrow_core::item::{Body, Payload};
use windrow_core::queue::Queue as _;
use windrow_core::{ItemId, Timestamp};
use windrow_store::embedded::disk::{Disk as _, RealDisk};
use windrow_testkit::servers::process::until;

use rig::{Data, Server};

const ROUNDS: usize = 20;
const PRODUCERS: usize = 3;
const WORKERS: usize = 2;
const BATCH: usize = 20;
/// One payload in so many is kept apart, as a blob.
const BLOB_EVERY: u64 = 200;
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the program; its output, which must be a success.
fn windrow(words: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_windrow")).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "windrow {words:?}: {said}");
    String::from_utf8(out.stdout).unwrap()
}

/// The same for one that must fail; what it said.
fn refused(words: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_windrow")).args(words).output().unwrap();
    assert!(!out.status.success(), "windrow {words:?}");
    String::from_utf8(out.stderr).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Every item in a data directory, by id: its status and its payload.
fn items(dir: &Path) -> HashMap<String, Value> {
    let lines = windrow(&["dump", text(dir)]);
    let items = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    items.map(|item| (item["id"].as_str().unwrap().to_owned(), item)).collect()
}

/// What was answered so far, and when.
#[derive(Clone, Default)]
struct Ledger {
    enqueued: Vec<(ItemId, u64, Timestamp)>,
    completed: Vec<(ItemId, Timestamp)>,
}

fn now() -> Timestamp {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Timestamp(now.as_millis() as u64)
}

fn payload(number: u64) -> String {
    let long = if number.is_multiple_of(BLOB_EVERY) { 20_000 } else { 200 };
    format!("{number} {}", "x".repeat(long))
}

/// Produces and works as fast as it goes until it is told to stop.
struct Load {
    ledger: Arc<Mutex<Ledger>>,
    stop: Arc<AtomicBool>,
    /// Nothing is begun while somebody compares, so that there is not ever more to compare.
    rest: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn begin(address: &str) -> Load {
        let (ledger, stop) = (Arc::<Mutex<Ledger>>::default(), Arc::<AtomicBool>::default());
        let rest = Arc::<AtomicBool>::default();
        let mut threads = Vec::new();
        for part in 0..PRODUCERS + WORKERS {
            let (ledger, stop) = (Arc::clone(&ledger), Arc::clone(&stop));
            let rest = Arc::clone(&rest);
            let client = Client::new(&format!("http://{address}"), Options::default()).unwrap();
            threads.push(std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread();
                let runtime = { runtime }.enable_all().build().unwrap();
                runtime.block_on(async {
                    let mut number = part as u64 + 1;
                    while !stop.load(Ordering::Relaxed) {
                        if rest.load(Ordering::Relaxed) {
                            // Nothing else is on this thread.
                            until(PATIENCE, || !rest.load(Ordering::Relaxed));
                        } else if part < PRODUCERS {
                            produce(&client, &mut number, &ledger).await;
                        } else {
                            work(&client, &ledger).await;
                        }
                    }
                });
            }));
        }
        Load { ledger, stop, rest, threads }
    }

    fn so_far(&self) -> Ledger {
        self.ledger.lock().unwrap().clone()
    }

    fn end(self) {
        self.rest.store(false, Ordering::Relaxed);
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

async fn produce(client: &Client, number: &mut u64, ledger: &Mutex<Ledger>) {
    let mut numbers = Vec::new();
    let batch = (0..BATCH).map(|_| {
        numbers.push(*number);
        let mut new = NewItem::new(Body::new("t", "q"));
        new.body.payload = Payload::Inline(payload(*number).into_bytes());
        *number += PRODUCERS as u64;
        new
    });
    let answers = client.enqueue(batch.collect(), None).await.unwrap();
    let at = now();
    let ids = answers.into_iter().map(|answer| answer.unwrap().id);
    let some = ids.zip(numbers).map(|(id, number)| (id, number, at));
    ledger.lock().unwrap().enqueued.extend(some);
}

async fn work(client: &Client, ledger: &Mutex<Ledger>) {
    let claim = Claim::new("worker", "q", BATCH);
    let Some(granted) = client.claim(claim, 100, None).await.unwrap() else { return };
    let done: Vec<_> = granted.items.iter().map(|item| (item.id, Outcome::complete())).collect();
    let ids: Vec<ItemId> = done.iter().map(|(id, _)| *id).collect();
    for answer in client.settle(granted.lease, done, None).await.unwrap() {
        answer.unwrap();
    }
    let at = now();
    ledger.lock().unwrap().completed.extend(ids.into_iter().map(|id| (id, at)));
}

/// Everything that was answered before is there, as it was.
fn assert_holds(found: &HashMap<String, Value>, known: &Ledger, until: Timestamp) {
    let mut compared = 0;
    for (id, number, at) in &known.enqueued {
        if *at > until {
            continue;
        }
        compared += 1;
        let item = found.get(&id.to_string());
        let item = item.unwrap_or_else(|| panic!("item {id} was acknowledged and is missing"));
        let wanted = payload(*number);
        match wanted.len() {
            ..1_000 => assert_eq!(item["payload"], json!(wanted), "{id}"),
            bytes => assert_eq!(item["payload"]["blob_bytes"], json!(bytes), "{id}"),
        }
    }
    for (id, at) in &known.completed {
        if *at <= until {
            assert_eq!(found[&id.to_string()]["status"], "completed", "{id}");
        }
    }
    assert!(compared > 0, "there was nothing to compare");
}

#[test]
fn what_was_answered_before_a_backup_is_in_it_however_busy_the_server_is() {
    let (data, place) = (Data::new("backup"), Data::new("backup-place"));
    let server = Server::start(&data.place(), &[]);
    // All of them are kept, however many end.
    let keeps = json!({"retention": {"max_per_tenant": 1_000_000}}).to_string();
    let kind = ["content-type: application/json"];
    let reply = server.send("PUT", "/api/v1/queues/q/settings", &kind, &keeps);
    assert!(reply.status < 300, "{}", reply.text);
    let load = Load::begin(&server.address);
    let archive = place.0.join("archive");
    let mut middle = None;
    for round in 0..ROUNDS {
        // Each begins with more than the one before.
        let enough = load.so_far().enqueued.len() + 10 * BATCH;
        let is_enough = || load.so_far().enqueued.len() >= enough;
        assert!(until(PATIENCE, is_enough), "nothing is enqueued any more");
        let known = load.so_far();
        let said = windrow(&[
            "backup",
            text(&archive),
            "--server",
            &format!("http://{}", server.address),
            "--json",
        ]);
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["begins_anew"], json!(round == 0), "the next goes on from the last");
        load.rest.store(true, Ordering::Relaxed);
        let restored = place.0.join(format!("round-{round}"));
        windrow(&["restore", text(&archive), "--data-dir", text(&restored)]);
        assert_holds(&items(&restored), &known, Timestamp::NEVER);
        std::fs::remove_dir_all(&restored).unwrap();
        if round == ROUNDS / 2 {
            middle = Some(now());
        }
        load.rest.store(false, Ordering::Relaxed);
    }
    let last = load.so_far();
    load.end();
    // Any moment between two backups, to the second.
    let at = middle.unwrap();
    let restored = place.0.join("middle");
    let moment = at.to_string();
    windrow(&["restore", text(&archive), "--data-dir", text(&restored), "--at", &moment]);
    let found = items(&restored);
    assert_holds(&found, &last, Timestamp(at.0 - 1_500));
    for item in found.values() {
        let created: Timestamp = item["created_at"].as_str().unwrap().parse().unwrap();
        assert!(created.0 <= at.0 + 1_500, "{created} is later than {at}");
    }
    assert!(found.len() < last.enqueued.len(), "what came later is not there");
    server.stop();
}

/// It was refused as if the backup were damaged, and nothing of the moment could be had.
#[test]
fn a_moment_with_a_payload_that_no_backup_has_is_restored_without_it_by_who_says_so() {
    let (data, place, archive) = archive_of("came-and-went", 1);
    let server = Server::start(&data.place(), &[]);
    let url = format!("http://{}", server.address);
    let large = place.0.join("large");
    std::fs::write(&large, "x".repeat(20_000)).unwrap();
    let id = windrow(&["enqueue", "q", &format!("@{}", text(&large)), "--server", &url]);
    let id = id.trim();
    let wait = |ms| until(Duration::from_millis(ms), || false);
    // The log says what time it is once a second.
    wait(1_600);
    let moment = now().to_string();
    wait(1_600);
    for verb in ["cancel", "delete"] {
        windrow(&[verb, id, "--server", &url]);
    }
    let blobs = data.0.join("blobs");
    assert!(until(PATIENCE, || std::fs::read_dir(&blobs).unwrap().next().is_none()));
    let said = windrow(&["backup", text(&archive), "--server", &url]);
    assert!(said.contains("but for payloads above 16 KiB"), "{said}");
    let said = windrow(&["restore", text(&archive), "--list"]);
    assert!(said.contains("but for payloads above 16 KiB"), "{said}");

    let to = place.0.join("to");
    let then = ["restore", text(&archive), "--data-dir", text(&to), "--at", &moment];
    let said = refused(&then);
    for part in [id, "came and went between two backups", "--without-lost-blobs", "--list"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!to.exists(), "nothing is left of it");
    let said = windrow(&[&then[..], &["--without-lost-blobs"]].concat());
    assert!(said.contains(&format!("1 item without the payload, which is lost: {id}")), "{said}");
    let found = items(&to);
    assert_eq!((found.len(), &found[id]["payload"]["blob_bytes"]), (2, &json!(20_000)));
    // What was made of it is a store like any other, and so is what is made of its backup.
    let again = place.0.join("again");
    windrow(&["backup", text(&again), "--data-dir", text(&to)]);
    let last = place.0.join("last");
    let said = refused(&["restore", text(&again), "--data-dir", text(&last)]);
    assert!(said.contains("--without-lost-blobs"), "{said}");
    let words = ["restore", text(&again), "--data-dir", text(&last), "--without-lost-blobs"];
    let said = windrow(&[&words[..], &["--json"]].concat());
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["without_payload"], json!([id]));
    server.stop();
}

/// An archive with one backup of a server that has this many items.
fn archive_of(test: &str, count: usize) -> (Data, Data, PathBuf) {
    let (data, place) = (Data::new(test), Data::new(&format!("{test}-place")));
    let server = Server::start(&data.place(), &[]);
    server.enqueue("q", &json!(vec![json!({"payload": {"a": 1}}); count]));
    let archive = place.0.join("archive");
    windrow(&["backup", text(&archive), data.place()[0], data.place()[1]]);
    server.stop();
    (data, place, archive)
}

#[test]
fn a_backup_that_was_interrupted_does_not_count_and_the_next_one_mends_it() {
    let (data, place, archive) = archive_of("interrupted", 20);
    let list = std::fs::read_to_string(archive.join("backup.json")).unwrap();
    let server = Server::start(&data.place(), &[]);
    let more = "y".repeat(10_000);
    for _ in 0..40 {
        server.enqueue("q", &json!(vec![json!({ "payload": more }); 20]));
    }
    // Killed at some moment, several times, and at least once in the middle.
    let mut halves = 0;
    for wait_ms in [5, 10, 15, 20, 25, 30, 40, 50, 60, 80] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_windrow"))
            .args(["backup", text(&archive), data.place()[0], data.place()[1]])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until(Duration::from_millis(wait_ms), || false);
        child.kill().unwrap();
        child.wait().unwrap();
        let is_same = std::fs::read_to_string(archive.join("backup.json")).unwrap() == list;
        halves += usize::from(is_same);
        if !is_same {
            break;
        }
    }
    assert!(halves > 0, "none was interrupted");
    let before = place.0.join("before");
    if std::fs::read_to_string(archive.join("backup.json")).unwrap() == list {
        windrow(&["restore", text(&archive), "--data-dir", text(&before)]);
        assert_eq!(items(&before).len(), 20, "only what counts is restored");
    }
    windrow(&["backup", text(&archive), data.place()[0], data.place()[1]]);
    let after = place.0.join("after");
    windrow(&["restore", text(&archive), "--data-dir", text(&after)]);
    assert_eq!(items(&after).len(), 820);
    server.stop();
}

#[test]
fn a_store_that_was_itself_restored_begins_a_history_of_its_own() {
    let (_data, place, archive) = archive_of("anew", 3);
    let (one, two) = (place.0.join("one"), place.0.join("two"));
    windrow(&["restore", text(&archive), "--data-dir", text(&one)]);
    windrow(&["restore", text(&archive), "--data-dir", text(&two)]);
    for (dir, payload, anew) in [(&one, "1", false), (&two, "2", true)] {
        windrow(&["enqueue", "q", payload, "--data-dir", text(dir)]);
        let said = windrow(&["backup", text(&archive), "--data-dir", text(dir), "--json"]);
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["begins_anew"], json!(anew), "{payload}");
    }
    let last = place.0.join("last");
    windrow(&["restore", text(&archive), "--data-dir", text(&last)]);
    assert!(items(&last).values().any(|item| item["payload"] == "2"));
    assert!(items(&last).values().all(|item| item["payload"] != "1"));
}

#[test]
fn what_cannot_be_restored_is_refused_and_leaves_nothing_behind() {
    let (data, place, archive) = archive_of("refused", 3);
    let to = place.0.join("to");
    let early = refused(&[
        "restore",
        text(&archive),
        "--data-dir",
        text(&to),
        "--at",
        "2020-01-01T00:00:00Z",
    ]);
    assert!(early.contains("the backup reaches back to 20"), "{early}");
    assert!(!to.exists(), "nothing is left of it");
    let late = refused(&[
        "restore",
        text(&archive),
        "--data-dir",
        text(&to),
        "--at",
        "2120-01-01T00:00:00Z",
    ]);
    assert!(late.contains("leave --at out"), "{late}");
    let full = refused(&["restore", text(&archive), "--data-dir", data.place()[1]]);
    assert!(full.contains("holds a store already"), "{full}");
    let none = refused(&["restore", text(&place.0), "--data-dir", text(&to)]);
    assert!(none.contains("holds no backup"), "{none}");
    let foreign = Data::new("refused-foreign");
    windrow(&["enqueue", "--create", "q", "1", foreign.place()[0], foreign.place()[1]]);
    let other = refused(&["backup", text(&archive), foreign.place()[0], foreign.place()[1]]);
    assert!(other.contains("backups of another store"), "{other}");
    let used = refused(&["backup", text(&foreign.0), data.place()[0], data.place()[1]]);
    assert!(used.contains("which holds a store"), "{used}");
    let odd = Data::new("refused-odd");
    std::fs::write(odd.0.join("notes.txt"), "something else").unwrap();
    let used = refused(&["backup", text(&odd.0), data.place()[0], data.place()[1]]);
    assert!(used.contains("holds other files and no backup"), "{used}");
}

#[test]
fn a_flipped_bit_in_a_backup_is_found_before_anybody_relies_on_it() {
    let (_data, place, archive) = archive_of("flipped", 3);
    let segment = archive.join("0001/segment-0000000001.log");
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[4_096 + 60] ^= 4;
    std::fs::write(&segment, bytes).unwrap();
    let to = place.0.join("to");
    let said = refused(&["restore", text(&archive), "--data-dir", text(&to)]);
    assert!(said.contains("segment-0000000001.log"), "{said}");
    let said = refused(&["log", "check", text(&archive.join("0001"))]);
    assert!(said.contains("segment-0000000001.log"), "{said}");
}

#[test]
fn a_restore_that_was_interrupted_is_no_store_and_can_be_done_again() {
    let (_data, place, archive) = archive_of("half", 3);
    let to = place.0.join("to");
    windrow(&["restore", text(&archive), "--data-dir", text(&to)]);
    std::fs::write(to.join("RESTORING"), "").unwrap();
    let said = refused(&["stats", "--data-dir", text(&to)]);
    assert!(said.contains("run the same `windrow restore` again"), "{said}");
    windrow(&["restore", text(&archive), "--data-dir", text(&to)]);
    assert_eq!(items(&to).len(), 3);
}

/// A process that does not outlive its test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        // It may have ended already.
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[test]
fn a_directory_is_nobody_elses_while_something_is_restored_into_it() {
    let (_data, place, archive) = archive_of("under-way", 3);
    let to = place.0.join("to");
    // A file that nobody writes yet holds the restore up, in the middle.
    let blob = archive.join(format!("blobs/{}-{}.blob", "0".repeat(16), "0".repeat(64)));
    std::fs::create_dir_all(archive.join("blobs")).unwrap();
    assert!(Command::new("mkfifo").arg(&blob).status().unwrap().success());
    let restore = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["restore", text(&archive), "--data-dir", text(&to)])
        .stdout(Stdio::null())
        .spawn();
    let mut restore = Ends(restore.unwrap());
    assert!(until(PATIENCE, || to.join("segment-0000000001.log").exists()));
    let holder = format!("{} is in use by pid {}", to.display(), restore.0.id());
    let others = [
        vec!["restore", text(&archive), "--data-dir", text(&to)],
        vec!["serve", "--listen", "127.0.0.1:0", "--data-dir", text(&to)],
        vec!["stats", "--data-dir", text(&to)],
        vec!["check", text(&to)],
    ];
    for other in &others {
        let said = refused(other);
        assert!(said.contains(&holder), "windrow {other:?}: {said}");
    }
    drop(std::fs::OpenOptions::new().write(true).open(&blob).unwrap());
    assert!(restore.0.wait().unwrap().success(), "nobody came in between");
    assert_eq!(items(&to).len(), 3);
}

#[test]
fn a_server_waits_for_a_command_that_has_its_directory_for_a_moment() {
    let (data, _place, _archive) = archive_of("moment", 3);
    let held = RealDisk::open(&data.0).unwrap().lock().unwrap();
    let command = std::thread::spawn(move || {
        until(Duration::from_millis(500), || false);
        drop(held);
    });
    let server = Server::start(&data.place(), &[]);
    command.join().unwrap();
    assert_eq!(server.get("/api/v1/queue/stats").json()["pending"], json!(3));
    // Nobody waits for a server, which stays: it is asked instead.
    assert!(windrow(&["stats", data.place()[0], data.place()[1]]).contains('3'));
    server.stop();
}

#[test]
fn a_backup_whose_end_is_missing_is_not_taken_for_one_that_ended_earlier() {
    let (_data, place, archive) = archive_of("ends", 3);
    let segment = archive.join("0001/segment-0000000001.log");
    let whole = std::fs::read(&segment).unwrap();
    let list = std::fs::read_to_string(archive.join("backup.json")).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let counts = list["chains"][0]["points"][0]["bytes"].as_u64().unwrap() as usize;
    let mut short = whole;
    short[counts - 40..counts].fill(0);
    std::fs::write(&segment, short).unwrap();
    let to = place.0.join("to");
    let said = refused(&["restore", text(&archive), "--data-dir", text(&to)]);
    assert!(said.contains("the log ends"), "{said}");
    std::fs::remove_file(&segment).unwrap();
    let said = refused(&["restore", text(&archive), "--data-dir", text(&to)]);
    assert!(said.contains("segment-0000000001.log is missing"), "{said}");
}

#[test]
fn what_an_interrupted_first_backup_left_behind_is_not_restored() {
    let (data, place, archive) = archive_of("left", 3);
    std::fs::remove_file(archive.join("backup.json")).unwrap();
    // As if it had been of a store whose older segments are gone by now, and of another one.
    let odd = archive.join("0001/segment-0000000000.log");
    std::fs::copy(archive.join("0001/segment-0000000001.log"), &odd).unwrap();
    windrow(&["backup", text(&archive), data.place()[0], data.place()[1]]);
    assert!(!odd.exists(), "only what belongs to the new backup is there");
    let to = place.0.join("to");
    windrow(&["restore", text(&archive), "--data-dir", text(&to)]);
    assert_eq!(items(&to).len(), 3);
}
