//! Events: what happens is told as it happens, and whoever missed something is told that.

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use windrow_testkit::servers::postgres::{Durability, Postgres, Version};

use crate::running::{Data, Server};

/// A stream of events, as a client reads it.
struct Stream {
    lines: BufReader<TcpStream>,
    /// The last id that it saw.
    last: String,
}

impl Stream {
    fn open(server: &Server, path: &str, headers: &str) -> Stream {
        let accept = format!("accept: text/event-stream\r\n{headers}");
        let mut lines = BufReader::new(server.open("GET", path, &accept, ""));
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(lines.read_line(&mut head).unwrap() > 0, "{head}");
        }
        assert!(head.contains("200 OK") && head.contains("text/event-stream"), "{head}");
        let mut stream = Stream { lines, last: String::new() };
        // Where it begins is said at once.
        stream.block();
        assert!(stream.last.contains(':'), "it begins somewhere");
        stream
    }

    /// The fields of the next block; none at the end.
    fn block(&mut self) -> Option<(String, String)> {
        let (mut event, mut data, mut has_any) = (String::new(), String::new(), false);
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            let line = line.trim_end();
            match line.split_once(": ") {
                Some(("event", name)) => event = name.into(),
                Some(("data", said)) => data = said.into(),
                Some(("id", id)) => {
                    self.last = id.into();
                    has_any = true;
                }
                _ if line.is_empty() && has_any => return Some((event, data)),
                _ => {}
            }
        }
    }

    /// The next event, without what only says that the server is there.
    fn next(&mut self) -> Option<(String, Value)> {
        loop {
            let (event, data) = self.block()?;
            if !event.is_empty() {
                return Some((event, serde_json::from_str(&data).unwrap()));
            }
        }
    }

    /// What happened to the next item.
    fn item(&mut self) -> (String, String) {
        let (event, data) = self.next().unwrap();
        assert_eq!(event, "item", "{data}");
        let text = |name: &str| data[name].as_str().unwrap().to_owned();
        assert!(!text("queue").is_empty() && !text("tenant").is_empty() && !text("at").is_empty());
        (text("id"), text("event"))
    }
}

fn of(id: &str, event: &str) -> (String, String) {
    (id.to_owned(), event.to_owned())
}

#[test]
fn what_happens_is_told_and_resumed_and_a_place_that_is_gone_is_said() {
    let data = Data::new("events");
    let mut server = Server::start(&data.place());
    let mut stream = Stream::open(&server, "/events?queue=q", "");
    server.enqueue("other", &json!({}));
    let id = server.enqueue("q", &json!({}));
    server.complete("q");
    assert_eq!(stream.item(), of(&id, "create"));
    let claimed_at = {
        assert_eq!(stream.item(), of(&id, "claim"));
        stream.last.clone()
    };
    assert_eq!(stream.item(), of(&id, "complete"));

    let resumed = format!("last-event-id: {claimed_at}\r\n");
    let mut again = Stream::open(&server, "/events", &resumed);
    assert_eq!(again.item(), of(&id, "complete"));
    let path = format!("/events?last_event_id={claimed_at}&status=done");
    assert_eq!(Stream::open(&server, &path, "").item(), of(&id, "complete"));
    // From before this server's time, or from a time to come.
    for gone in ["1:1", "1:99999999"] {
        let mut lost = Stream::open(&server, &format!("/events?last_event_id={gone}"), "");
        assert_eq!(lost.next().unwrap().0, "reset");
        let other = server.enqueue("q", &json!({}));
        assert_eq!(lost.item(), of(&other, "create"), "it goes on from there");
    }
    assert_eq!(server.refused("GET", "/events?last_event_id=x", "", &json!({})), "malformed");
    assert_eq!(server.refused("GET", "/events?status=odd", "", &json!({})), "malformed");
    server.stop();
    while stream.next().is_some() {}
}

/// The command ended with its server, while `work`, `top` and the Python client come back.
#[test]
fn the_command_that_follows_goes_on_when_its_server_is_back() {
    let data = Data::new("followed");
    let mut server = Server::start(&data.place());
    let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
    command.args(["events", "--follow", "-v", "--queue", "q", "--max", "2"]).args(data.place());
    let mut following = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(following.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut said = BufReader::new(following.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("following")));
    let id = server.enqueue("q", &json!({}));
    assert_eq!(told.next(), Some(format!("{id} q create pending")));
    server.stop();
    assert!(
        said.any(|line| line.contains("the server is away, asking again: it ended the stream"))
    );
    // It listens on another port, which the data directory knows.
    let server = Server::start(&data.place());
    assert!(said.any(|line| line.contains("the server answers again")));
    let id = server.enqueue("q", &json!({}));
    assert_eq!(told.next(), Some(format!("{id} q create pending")));
    assert!(following.wait().unwrap().success());
    let rest: Vec<String> = said.collect();
    assert_eq!(rest, ["windrow: something was missed; look at everything again"]);
}

#[test]
fn a_command_that_follows_ends_when_its_server_says_no() {
    let data = Data::new("followed-no");
    let server = Server::start(&data.place());
    let url = format!("http://{}", server.address());
    let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
    command.args(["events", "--follow", "-v", "--server", &url]);
    let mut following = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(following.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("following")));
    // From the first token on nobody comes in without one.
    server.done("POST", "/tokens", &json!({"name": "first", "role": "admin"}));
    assert!(said.any(|line| line.contains("the server is away")));
    assert!(said.any(|line| line.contains("this server wants a token")));
    assert_eq!(following.wait().unwrap().code(), Some(4));
}

#[test]
fn a_client_that_is_too_slow_is_told_to_read_again() {
    let data = Data::new("slow");
    let server = Server::start(&data.place());
    let mut slow = Stream::open(&server, "/events", "");
    // More than the ring and all buffers on the way hold, while it does not read.
    let tenant = "t".repeat(120);
    let items: Vec<Value> = (0..1_000).map(|_| json!({"tenant": tenant})).collect();
    let mut added = 0;
    for _ in 0..50 {
        server.done("POST", "/queues/q/items", &json!(items));
        added += items.len();
    }
    let mut read = 0;
    while slow.next().unwrap().0 != "reset" {
        read += 1;
        assert!(read < added, "all of them were kept for it");
    }
    let last = server.enqueue("q", &json!({}));
    while slow.item().0 != last {}
}

#[test]
fn the_life_of_an_item_is_shown_and_followed() {
    let data = Data::new("life");
    let server = Server::start(&data.place());
    let id = server.enqueue("q", &json!({"route": ["ocr", "index"]}));
    let mut follows = Stream::open(&server, &format!("/queue/{id}/events"), "");
    server.enqueue("q", &json!({}));
    server.complete("q");
    assert_eq!(follows.item(), of(&id, "claim"));
    assert_eq!(follows.item(), of(&id, "advance"));
    let life = server.get(&format!("/queue/{id}/events"));
    let words = |field: &str| -> Vec<String> {
        let all = life.as_array().unwrap().iter();
        all.map(|moment| moment[field].as_str().unwrap_or("-").to_owned()).collect()
    };
    assert_eq!(words("event"), ["create", "claim", "completed"]);
    assert_eq!(words("stage"), ["-", "ocr", "ocr"]);
    assert_eq!(words("worker"), ["-", "w", "w"]);
    let absent = "01a1e554-9c99-7001-b210-29840971dd42";
    let path = format!("/queue/{absent}/events");
    assert_eq!(server.refused("GET", &path, "", &json!({})), "not_found");
}

#[test]
fn what_another_server_does_is_told_too() {
    let database = Postgres::start(Version::V15, Durability::Real).unwrap();
    database.create_database("queue").unwrap();
    let url = format!("postgres://postgres@127.0.0.1:{}/queue", database.port());
    let (a, b) = (Server::start(&["--store", &url]), Server::start(&["--store", &url]));
    let mut stream = Stream::open(&a, "/events?queue=q", "");
    let heard = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The other server hears a moment later that somebody watches.
        let added = scope.spawn(|| {
            let mut added = Vec::new();
            while !heard.load(Ordering::Relaxed) {
                added.push(b.enqueue("q", &json!({})));
            }
            added
        });
        let (first, event) = stream.item();
        heard.store(true, Ordering::Relaxed);
        assert_eq!(event, "create");
        let added = added.join().unwrap();
        let at = added.iter().position(|id| *id == first).unwrap();
        for id in &added[at + 1..] {
            assert_eq!(stream.item(), of(id, "create"), "nothing is left out from then on");
        }
    });
}
