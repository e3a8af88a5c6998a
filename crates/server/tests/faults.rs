//! What happens to machines: the disk fills up, a process is stopped for a minute, the clock is
//! moved by a day. The server behaves as docs/promises.md says.
#![allow(clippy::unwrap_used, reason = "a test may")]

#[path = "rig/mod.rs"]
mod rig;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use windrow_testkit::crash::volume::Volume;
use windrow_testkit::servers::process::until;

use rig::{Data, Server};

const MINUTE: Duration = Duration::from_secs(60);

fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
    assert!(sent.success(), "kill {name} {pid}");
}

/// Takes one item of a queue with a lease of this length.
fn claim(server: &Server, queue: &str, lease_ms: u64) -> Value {
    let claim = json!({"queues": [queue], "worker": "w", "lease_ms": lease_ms});
    server.post("/api/v1/claims", &claim).json()
}

fn complete(server: &Server, granted: &Value) -> Value {
    let lease = granted["lease"].as_str().unwrap();
    let items = json!({"items": [{"id": granted["items"][0]["id"], "outcome": "complete"}]});
    server.post(&format!("/api/v1/leases/{lease}/settle"), &items).json()
}

fn shown(server: &Server, granted: &Value) -> Value {
    let id = granted["items"][0]["id"].as_str().unwrap();
    server.get(&format!("/api/v1/queue/{id}")).json()
}

fn eventually(what: &str, look: impl FnMut() -> bool) {
    assert!(until(MINUTE, look), "{what}");
}

/// Lets time pass: how a server takes that is what is tested.
fn passes(time: Duration) {
    assert!(!until(time, || false));
}

#[test]
fn a_full_disk_refuses_what_is_new_and_lets_what_is_there_end() {
    if let Some(missing) = Volume::missing() {
        eprintln!("SKIPPED: a disk cannot be filled here, {missing}");
        return;
    }
    let place = Data::new("full");
    let volume = Volume::create(&place.0, 400 << 20).unwrap();
    let data = volume.path().join("data");
    let server = Server::start(&["--data-dir", data.to_str().unwrap()], &[]);
    // A moment for the reserve to be written, then somebody else fills the disk.
    let reserve = || std::fs::read_dir(&data).unwrap().filter(is_spare).count() >= 2;
    eventually("the reserve is written", reserve);
    let ballast = volume.path().join("ballast");
    fill(&ballast);
    let payload = "x".repeat(15_000);
    let batch = json!(vec![json!({ "payload": payload }); 100]);
    let (mut kept, mut is_full) = (0, false);
    while !is_full {
        let answers = server.post("/api/v1/queues/q/items", &batch).json();
        let taken = answers.as_array().unwrap().iter().filter(|answer| answer["id"].is_string());
        let taken = taken.count();
        (kept, is_full) = (kept + taken, taken < 100);
        assert!(kept < 100_000, "the disk does not fill up");
    }
    let refused = server.post("/api/v1/queues/q/items", &json!({ "payload": payload }));
    assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("store_full")));
    assert!(refused.json()["retry_after_ms"].as_u64().is_some(), "{}", refused.text);
    assert_eq!(server.until("space", "red")["status"], "red");
    // What is there can be worked on to its end.
    let mut ended = 0;
    while ended < 200 {
        let (lease, ids) = server.claim("q", 50);
        server.settle(&lease, &ids, &json!({"outcome": "complete"}));
        ended += ids.len();
    }
    // And as soon as there is room again, new items are taken in.
    std::fs::remove_file(&ballast).unwrap();
    eventually("new items are taken in again", || {
        server.post("/api/v1/queues/q/items", &json!({"payload": 1})).status == 201
    });
    server.stop();
    let server = Server::start(&["--data-dir", data.to_str().unwrap()], &[]);
    let stats = server.get("/api/v1/queue/stats").json();
    assert_eq!((&stats["pending"], &stats["completed"]), (&json!(kept + 1 - ended), &json!(ended)));
    server.stop();
}

fn is_spare(entry: &std::io::Result<std::fs::DirEntry>) -> bool {
    entry.as_ref().is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("spare-"))
}

/// Writes a file until nothing more fits.
fn fill(path: &Path) {
    use std::io::Write as _;
    let mut file = std::fs::File::create(path).unwrap();
    let piece = vec![7; 1 << 20];
    while file.write_all(&piece).is_ok() {}
    // The last corner too.
    while file.write_all(&[7; 512]).is_ok() {}
}

#[test]
fn a_server_that_was_stopped_for_a_minute_takes_nothing_away_from_its_workers() {
    let data = Data::new("stopped");
    let server = Server::start(&data.place(), &[]);
    server.enqueue("q", &json!([{"payload": 1}, {"payload": 2}]));
    let (renewed, settled) = (claim(&server, "q", 20_000), claim(&server, "q", 20_000));
    signal(server.pid(), "-STOP");
    passes(MINUTE);
    // Both wait at the door when it goes on, long after their leases ran out.
    let renew = format!("/api/v1/leases/{}/renew", renewed["lease"].as_str().unwrap());
    std::thread::scope(|scope| {
        let renew = scope.spawn(|| server.post(&renew, &json!({})));
        let settle = scope.spawn(|| complete(&server, &settled));
        passes(Duration::from_millis(500));
        signal(server.pid(), "-CONT");
        let renewed = renew.join().unwrap();
        assert_eq!(renewed.status, 200, "{}", renewed.text);
        let settled = settle.join().unwrap();
        assert_eq!(settled[0]["ending"], "completed", "{settled}");
    });
    assert_eq!(complete(&server, &renewed)[0]["ending"], "completed");
    for granted in [&renewed, &settled] {
        let item = shown(&server, granted);
        assert_eq!((&item["status"], &item["attempts"]), (&json!("completed"), &json!(1)));
    }
    server.stop();
}

/// It hung for minutes without a word, `windrow health` included.
#[test]
fn a_server_that_hangs_is_told_of_soon_by_whoever_looks_and_whoever_works() {
    let data = Data::new("hangs");
    let server = Server::start(&data.place(), &[]);
    let url = format!("http://{}", server.address);
    let windrow = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
        command.args(words).args(["--server", &url]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    server.enqueue("q", &json!([{"payload": 1}]));
    let mut idle = windrow(&["work", "--queue", "q"]).args(["--", "true"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(idle.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("completed"), "{line}");
    signal(server.pid(), "-STOP");
    let looked = windrow(&["health"]).output().unwrap();
    let said = String::from_utf8_lossy(&looked.stderr);
    assert_eq!(looked.status.code(), Some(5), "{said}");
    assert!(
        said.contains("takes its time to answer") && said.contains("does not answer"),
        "{said}"
    );
    line.clear();
    BufReader::new(idle.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("the queue does not answer, asking again: no answer within"), "{line}");
    signal(idle.id(), "-KILL");
    idle.wait().unwrap();
    signal(server.pid(), "-CONT");
    server.stop();
}

/// `windrow work` on a queue, with a command that writes down that it began and then that it ended.
fn worker(server: &Server, queue: &str, lease: &str, script: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["work", "--queue", queue, "--lease", lease, "--server"])
        .arg(format!("http://{}", server.address))
        .args(["--", "sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_worker_that_was_stopped_for_a_minute_is_told_that_its_item_is_anothers() {
    let (data, place) = (Data::new("held"), Data::new("held-place"));
    let server = Server::start(&data.place(), &[]);
    let settings = json!({"on_expiry": "requeue"});
    let reply = server.send(
        "PUT",
        "/api/v1/queues/q/settings",
        &["content-type: application/json"],
        &settings.to_string(),
    );
    assert!(reply.status < 300, "{}", reply.text);
    server.enqueue("q", &json!({"payload": 1}));
    let begun = place.0.join("begun");
    let script = format!("touch {}; sleep 3; echo stopped", begun.display());
    let mut stopped = worker(&server, "q", "10s", &script);
    eventually("it begins", || begun.exists());
    signal(stopped.id(), "-STOP");
    passes(MINUTE);
    let granted = claim(&server, "q", 60_000);
    assert_eq!(granted["items"].as_array().unwrap().len(), 1, "it went back into line");
    signal(stopped.id(), "-CONT");
    // What the stopped one brings comes too late, and changes nothing.
    let mut said = String::new();
    BufReader::new(stopped.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("lost"), "it says what happened: {said}");
    let item = shown(&server, &granted);
    assert_eq!((&item["status"], &item["attempts"]), (&json!("processing"), &json!(2)), "{item}");
    assert_eq!(complete(&server, &granted)[0]["ending"], "completed");
    signal(stopped.id(), "-TERM");
    stopped.wait().unwrap();
    server.stop();
}

/// Where the library is that shows a process another time.
fn faketime() -> PathBuf {
    let known = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib"];
    let paths = known.map(|dir| Path::new(dir).join("faketime/libfaketime.so.1"));
    let found = paths.into_iter().find(|path| path.exists());
    found.expect("the Debian package `faketime` is missing; `cargo xtask test` installs it")
}

/// A clock that a test sets, and the environment that shows it to a server.
struct Clock {
    place: Data,
    library: String,
    file: String,
}

impl Clock {
    fn new(test: &str) -> Clock {
        let place = Data::new(test);
        let file = place.0.join("offset").to_str().unwrap().to_owned();
        let clock = Clock { place, library: faketime().to_str().unwrap().to_owned(), file };
        clock.set("+0");
        clock
    }

    fn set(&self, offset: &str) {
        let new = self.place.0.join("new");
        std::fs::write(&new, format!("{offset}\n")).unwrap();
        std::fs::rename(&new, &self.file).unwrap();
    }

    fn start(&self, data: &Data) -> Server {
        let settings = [
            ("LD_PRELOAD", self.library.as_str()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.as_str()),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ];
        Server::start(&data.place(), &settings)
    }
}

/// The time that a server says it is, by what it stamps on a new item.
fn said(server: &Server) -> jiff::Timestamp {
    let id = server.enqueue("said", &json!({"payload": 1}))["id"].as_str().unwrap().to_owned();
    let item = server.get(&format!("/api/v1/queue/{id}")).json();
    item["created_at"].as_str().unwrap().parse().unwrap()
}

/// Leases and delays of a server go on as if nothing had happened, whatever its clock says.
fn goes_on(server: &Server, queue: &str) {
    server.enqueue(queue, &json!({"payload": 1}));
    let granted = claim(server, queue, 1_500);
    assert!(granted["items"].as_array().is_some_and(|items| items.len() == 1), "{granted}");
    assert!(claim(server, queue, 1_500)["items"].as_array().is_none_or(Vec::is_empty));
    // Its worker is gone, and it comes back when its lease and the pause after it are over.
    eventually("it is reclaimed", || shown(server, &granted)["status"] == "pending");
}

#[test]
fn a_clock_that_is_moved_by_a_day_moves_no_lease_and_no_delay() {
    let (clock, data) = (Clock::new("clock"), Data::new("clock-data"));
    let server = clock.start(&data);
    let begun = said(&server);
    server.enqueue("held", &json!({"payload": 1}));
    let held = claim(&server, "held", 60_000);
    server.enqueue("later", &json!({"payload": 1, "delay_ms": 3_600_000}));
    for (offset, queue) in [("+1d", "ahead"), ("-1d", "behind"), ("+0", "back")] {
        clock.set(offset);
        goes_on(&server, queue);
        assert!(said(&server).duration_since(begun) < jiff::SignedDuration::from_mins(5));
        assert!(claim(&server, "later", 1_000)["items"].as_array().is_none_or(Vec::is_empty));
    }
    assert_eq!(complete(&server, &held)[0]["ending"], "completed", "it was held all the time");
    server.stop();
}

#[test]
fn a_server_that_starts_with_its_clock_a_day_off_loses_nothing_and_never_goes_back() {
    let (clock, data) = (Clock::new("start"), Data::new("start-data"));
    let server = clock.start(&data);
    let begun = said(&server);
    server.enqueue("held", &json!({"payload": 1}));
    let held = claim(&server, "held", 60_000);
    server.kill();
    // A day later nobody could renew, so the worker has its grace.
    clock.set("+1d");
    let server = clock.start(&data);
    assert_eq!(complete(&server, &held)[0]["ending"], "completed");
    let ahead = said(&server);
    assert!(ahead.duration_since(begun) > jiff::SignedDuration::from_hours(23));
    goes_on(&server, "ahead");
    server.stop();
    // And when it is set right again, time goes on from where it was.
    clock.set("+0");
    let server = clock.start(&data);
    assert!(said(&server) > ahead, "times of items never go back");
    goes_on(&server, "right");
    server.stop();
}

#[test]
fn a_server_whose_directory_was_removed_stops_instead_of_acknowledging_what_is_lost() {
    let data = Data::new("vanished");
    let server = Server::start(&data.place(), &[]);
    server.enqueue("q", &json!({"key": "a"}));
    std::fs::remove_dir_all(&data.0).unwrap();
    server.says("somebody removed or replaced the data directory");
    let is_gone = || std::net::TcpStream::connect(&server.address).is_err();
    assert!(until(Duration::from_secs(30), is_gone), "it stops");
}
