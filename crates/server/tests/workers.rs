//! Declared workers: called over HTTP, and at work by themselves.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod rig;

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use rig::{Data, Reply, Server};
use serde_json::{Value, json};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A server whose worker `load` runs a line of shell for every item of queue `q`.
fn server(data: &Data, line: &str, more: &[(&str, &str)]) -> Server {
    let mut settings =
        vec![("WINDROW_WORKERS__LOAD__COMMAND", line), ("WINDROW_WORKERS__LOAD__QUEUES", "q")];
    settings.extend(more);
    Server::start(&data.place(), &settings)
}

fn call(server: &Server, method: &str, name: &str, secret: &str) -> Reply {
    let secret = format!("authorization: Bearer {secret}");
    server.send(method, &format!("/api/workers/{name}"), &[&secret], "")
}

/// Waits until an item is so, and gives it.
#[track_caller]
fn until(server: &Server, id: &str, is: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let item = server.get(&format!("/api/v1/queue/{id}")).json();
        if is(&item) {
            return item;
        }
        assert!(Instant::now() < end, "{item}");
        // A claim where nothing ever comes is a clock that the server has anyway.
        server.post("/api/v1/claims", &json!({"queues": ["none"], "worker": "c", "wait_ms": 50}));
    }
}

fn enqueue(server: &Server, payload: &str) -> String {
    server.enqueue("q", &json!({"payload": payload}))["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_worker_that_is_called_does_a_few_items_and_says_what_became_of_them() {
    let data = Data::new("called");
    // The payload, which is a JSON text, says how the command ends.
    let line = "code=$(tr -d '\"'); printf %s \"$WINDROW_QUEUE-$code\"; \
                echo because >&2; exit $code";
    let server = server(&data, line, &[("WINDROW_WORKERS__LOAD__MAX_JOBS", "4")]);
    let ids: Vec<String> = ["0", "65", "75", "99", "0"].map(|code| enqueue(&server, code)).into();
    let called = call(&server, "GET", "load", "").json();
    let jobs = called["jobs"].as_array().unwrap();
    let outcomes: Vec<&str> = jobs.iter().map(|job| job["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["completed", "failed", "retried", "skipped"], "{called}");
    assert_eq!((&called["ended"], &called["completed"]), (&json!("max_jobs"), &json!(1)));
    assert_eq!(jobs[1]["error"], "the command ended with 65: because");
    let shown = |id: &String| server.get(&format!("/api/v1/queue/{id}")).json();
    assert_eq!(shown(&ids[0])["result"], "q-0", "{}", shown(&ids[0]));
    assert_eq!(shown(&ids[1])["status"], "failed");
    assert_eq!(shown(&ids[2])["status"], "pending");
    assert_eq!(shown(&ids[3])["status"], "skipped");
    let rest = call(&server, "POST", "load", "").json();
    assert_eq!((rest["jobs"].as_array().unwrap().len(), &rest["ended"]), (1, &json!("empty")));
}

#[test]
fn the_secret_opens_the_workers_and_nothing_else() {
    let data = Data::new("secret");
    let server = server(&data, "true", &[("CRON_SECRET", SECRET)]);
    for wrong in ["", "0123456789abcdef0123456789abcdee", "x"] {
        assert_eq!(call(&server, "GET", "load", wrong).status, 401, "{wrong}");
        assert_eq!(call(&server, "GET", "nobody", wrong).status, 401, "{wrong}");
    }
    assert_eq!(server.get("/api/workers/load").status, 401);
    assert_eq!(call(&server, "GET", "load", SECRET).status, 200);
    assert_eq!(call(&server, "POST", "load", SECRET).status, 200);
    assert_eq!(call(&server, "GET", "nobody", SECRET).status, 404);
    assert_eq!(call(&server, "GET", "cleanup", SECRET).json()["ended"], "empty");
    // Once there are tokens, the secret is none.
    let admin = server.post("/api/v1/tokens", &json!({"role": "admin"})).json();
    let admin = admin["token"].as_str().unwrap();
    let with = |path, secret: &str| {
        let secret = format!("authorization: Bearer {secret}");
        server.send("GET", path, &[&secret], "").status
    };
    assert_eq!(with("/api/v1/queue/stats", SECRET), 401);
    assert_eq!(with("/api/v1/queue/stats", admin), 200);
    assert_eq!(with("/api/v1/workers/load", SECRET), 200);
    assert_eq!(with("/api/v1/workers/load", admin), 200);
    let said = server.stop();
    assert!(said.contains("CRON_SECRET") && !said.contains(SECRET), "{said}");
}

#[test]
fn a_page_of_another_site_runs_no_worker() {
    let data = Data::new("page");
    let server = server(&data, "true", &[]);
    let from = |site: &str| {
        let site = format!("sec-fetch-site: {site}");
        server.send("GET", "/api/workers/load", &[&site], "").status
    };
    assert_eq!((from("cross-site"), from("same-site")), (403, 403));
    assert_eq!((from("same-origin"), from("none")), (200, 200));
}

#[test]
fn a_budget_ends_what_takes_too_long_and_costs_an_attempt() {
    let data = Data::new("budget");
    let server = server(&data, "sleep 600", &[("WINDROW_WORKERS__LOAD__BUDGET_S", "1")]);
    let id = enqueue(&server, "x");
    let called = call(&server, "GET", "load", "").json();
    assert_eq!(called["jobs"][0]["outcome"], "retried", "{called}");
    assert_eq!(called["jobs"][0]["error"], "it took longer than 1s");
    assert_eq!(called["ended"], "budget", "{called}");
    let item = server.get(&format!("/api/v1/queue/{id}")).json();
    assert_eq!((&item["status"], &item["attempts"]), (&json!("pending"), &json!(1)), "{item}");
}

#[test]
fn a_command_that_is_not_there_costs_nobody_an_attempt() {
    let data = Data::new("missing");
    let server = server(&data, r#"["/no/such/program"]"#, &[]);
    let ids = ["a", "b"].map(|payload| enqueue(&server, payload));
    let called = call(&server, "GET", "load", "").json();
    assert_eq!((&called["ended"], called["jobs"].as_array().unwrap().len()), (&json!("failed"), 1));
    assert!(called["error"].as_str().unwrap().contains("/no/such/program"), "{called}");
    for id in ids {
        let item = server.get(&format!("/api/v1/queue/{id}")).json();
        assert_eq!((&item["status"], &item["attempts"]), (&json!("pending"), &json!(0)), "{item}");
    }
}

#[test]
fn enabled_workers_work_by_themselves_and_get_large_payloads() {
    let data = Data::new("enabled");
    let server = server(&data, "wc -c", &[("TASK_QUEUE_ENABLED", "true")]);
    let small = enqueue(&server, "x");
    let large = enqueue(&server, &"x".repeat(100_000));
    let result = |id| until(&server, id, |item| item["status"] == "completed")["result"].clone();
    assert_eq!((result(&small), result(&large)), (json!(3), json!(100_002)));
    let said = server.stop();
    assert!(said.contains("TASK_QUEUE_ENABLED") && said.contains("worked"), "{said}");
}

#[test]
fn a_server_that_stops_hands_back_what_its_workers_hold() {
    let data = Data::new("stops");
    let more = [("TASK_QUEUE_ENABLED", "true"), ("WINDROW_SERVER__DRAIN_MS", "100")];
    let first = server(&data, "sleep 600", &more);
    let id = enqueue(&first, "x");
    until(&first, &id, |item| item["status"] == "processing");
    first.stop();
    let second = server(&data, "true", &[]);
    let item = second.get(&format!("/api/v1/queue/{id}")).json();
    assert_eq!((&item["status"], &item["attempts"]), (&json!("pending"), &json!(0)), "{item}");
}

#[test]
fn a_cancelled_item_stops_its_command() {
    let data = Data::new("cancelled");
    let mark = data.0.join("ended");
    let line = format!("trap 'touch {}; exit 0' TERM; sleep 600 & wait", mark.display());
    let more = [("TASK_QUEUE_ENABLED", "true"), ("HEARTBEAT_INTERVAL", "1")];
    let server = server(&data, &line, &more);
    let id = enqueue(&server, "x");
    until(&server, &id, |item| item["status"] == "processing");
    let cancelled = server.post(&format!("/api/v1/queue/{id}/cancel"), &json!({}));
    assert_eq!(cancelled.status, 200, "{}", cancelled.text);
    until(&server, &id, |_| mark.exists());
    until(&server, &id, |item| item["status"] == "cancelled");
}

/// `windrow work` on a server that goes and comes.
struct Work {
    child: Child,
    words: Lines<BufReader<ChildStderr>>,
}

impl Work {
    fn start(server: &Server, command: &[&str]) -> Work {
        Work::start_for(&["--server", &format!("http://{}", server.address)], command)
    }

    /// The same, with the queue found otherwise.
    fn start_for(place: &[&str], command: &[&str]) -> Work {
        let mut child = Command::new(env!("CARGO_BIN_EXE_windrow"))
            .args(["work", "--queue", "q"])
            .args(place)
            .arg("--")
            .args(command)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let words = BufReader::new(child.stderr.take().unwrap()).lines();
        Work { child, words }
    }

    /// The next thing that it says.
    #[track_caller]
    fn says(&mut self, text: &str) {
        let line = self.words.next().unwrap().unwrap();
        assert!(line.contains(text), "{line}");
    }

    fn stop(&mut self) -> Duration {
        let (begun, pid) = (Instant::now(), self.child.id().to_string());
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap();
        begun.elapsed()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // It may have ended.
        let _ended = self.child.kill();
    }
}

#[test]
fn who_works_says_once_that_the_server_is_away_and_that_it_is_back_and_stops_soon_without_it() {
    let data = Data::new("away");
    let server = Server::start(&data.place(), &[]);
    let id = enqueue(&server, "first");
    let (address, mut work) = (server.address.clone(), Work::start(&server, &["true"]));
    until(&server, &id, |item| item["status"] == "completed");
    server.kill();
    work.says("the queue does not answer, asking again: ");
    // The port after its own may be somebody else's by now.
    let [flag, dir] = data.place();
    let server = Server::start_at(&address, &[flag, dir, "--rpc-listen", "off"], &[]);
    work.says("the queue answers again");
    let id = enqueue(&server, "second");
    until(&server, &id, |item| item["status"] == "completed");
    server.kill();
    work.says("the queue does not answer");
    let took = work.stop();
    assert!(took < Duration::from_secs(8), "it took {took:?} to stop");
}

/// It went on to its end, beside whoever had the item by then.
#[test]
fn a_command_whose_lease_runs_out_while_the_server_is_away_is_ended() {
    let data = Data::new("cut-off");
    let server = Server::start(&data.place(), &[]);
    let [begun, ended] = ["begun", "ended"].map(|name| data.0.join(name));
    let line = format!(
        "trap 'touch {}; exit' TERM; touch {}; sleep 600 & wait",
        ended.display(),
        begun.display()
    );
    let url = format!("http://{}", server.address);
    let place = ["--server", &url, "--lease", "2s"];
    let mut work = Work::start_for(&place, &["sh", "-c", &line]);
    let id = enqueue(&server, "slow");
    until(&server, &id, |_| begun.exists());
    server.kill();
    let since = Instant::now();
    while !ended.exists() {
        assert!(since.elapsed() < Duration::from_secs(30), "it goes on");
        std::thread::yield_now();
    }
    work.stop();
}

/// Whoever found it through its data directory went on to ask where it was before.
#[test]
fn who_works_for_a_data_directory_finds_its_server_wherever_that_comes_back() {
    let data = Data::new("moved");
    let server = Server::start(&data.place(), &[]);
    let id = enqueue(&server, "first");
    let mut work = Work::start_for(&data.place(), &["true"]);
    until(&server, &id, |item| item["status"] == "completed");
    server.kill();
    work.says("the queue does not answer, asking again: ");
    // At another port, as good as always.
    let server = Server::start(&data.place(), &[]);
    work.says("the queue answers again");
    let id = enqueue(&server, "second");
    until(&server, &id, |item| item["status"] == "completed");
    work.stop();
}

/// Whoever had an item in hand tried for minutes to say how it ended, and nobody was told why.
#[test]
fn who_works_says_that_the_server_is_away_also_with_an_item_in_hand() {
    let data = Data::new("in-hand");
    let server = Server::start(&data.place(), &[]);
    let [begun, may_end] = ["begun", "may-end"].map(|name| data.0.join(name));
    let (begins, ends) = (begun.display(), may_end.display());
    let line = format!("touch {begins}; until [ -e {ends} ]; do sleep 0.1; done");
    let id = enqueue(&server, "slow");
    let (address, mut work) = (server.address.clone(), Work::start(&server, &["sh", "-c", &line]));
    until(&server, &id, |_| begun.exists());
    server.kill();
    std::fs::write(&may_end, "").unwrap();
    work.says("the queue does not answer, asking again: ");
    let [flag, dir] = data.place();
    let server = Server::start_at(&address, &[flag, dir, "--rpc-listen", "off"], &[]);
    work.says("the queue answers again");
    until(&server, &id, |item| item["status"] == "completed");
}

#[test]
fn who_works_and_is_told_to_stop_while_the_server_is_away_leaves_its_item_to_the_lease() {
    let data = Data::new("gone");
    let server = Server::start(&data.place(), &[]);
    let mut work = Work::start(&server, &["sleep", "600"]);
    let id = enqueue(&server, "slow");
    until(&server, &id, |item| item["status"] == "processing");
    server.kill();
    let took = work.stop();
    assert!(took < Duration::from_secs(9), "it took {took:?} to stop");
    let server = Server::start(&data.place(), &[]);
    assert_eq!(server.get(&format!("/api/v1/queue/{id}")).json()["status"], "processing");
}
