//! A thousand clients that are slow or do nothing, and the others, which must not notice.
//!
//! The proof is a ratio: what a normal request takes at a server with the crowd against what it
//! takes at one without, asked in turn, so that a busy machine is busy for both.
#![allow(clippy::unwrap_used, reason = "a test may")]

#[path = "running/mod.rs"]
mod running;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;

use running::{HANGS_AFTER, Server};

const CROWD: usize = 1_000;
const ROUNDS: usize = 5;
const REQUESTS: usize = 1_000;
/// A slow client sends a byte as often as a normal one asks this many times.
const TURNS: usize = 100;

/// One way to be a burden.
fn burden(address: &str, kind: usize) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let host = format!("host: {address}\r\n");
    let text = match kind % 6 {
        // Connects and says nothing.
        0 => String::new(),
        // Begins its headers.
        1 => format!("GET /healthz HTTP/1.1\r\n{host}x-slow: "),
        // Begins its body.
        2 => format!("POST /api/v1/queues/q/items HTTP/1.1\r\n{host}content-length: 900\r\n\r\n{{"),
        // Was answered, and keeps the connection.
        3 => format!("GET /healthz HTTP/1.1\r\n{host}\r\n"),
        // Closes its side in the middle.
        4 => format!("GET /docs HTTP/1.1\r\n{host}x: "),
        // Asks and asks, and never reads.
        _ => format!("GET /docs HTTP/1.1\r\n{host}\r\n").repeat(50),
    };
    stream.write_all(text.as_bytes()).unwrap();
    match kind % 6 {
        3 => drop(stream.read(&mut [0; 4096]).unwrap()),
        4 => stream.shutdown(Shutdown::Write).unwrap(),
        _ => {}
    }
    stream
}

/// Slow clients are slow each in its own time, so one byte comes from here and the next from
/// there: `at` says whose turn it is. All of them have sent one byte more after `TURNS`.
fn drip(crowd: &mut [TcpStream], at: usize) {
    for (kind, stream) in crowd.iter_mut().enumerate() {
        if kind / 6 % TURNS == at % TURNS && matches!(kind % 6, 1 | 2) {
            // The server may have lost its patience.
            let _gone = stream.write(b"x");
        }
    }
}

/// A client that nothing is wrong with, on a connection of its own.
struct Normal {
    stream: TcpStream,
    request: String,
    took: Vec<Duration>,
}

impl Normal {
    fn new(server: &Server) -> Normal {
        let stream = TcpStream::connect(&server.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(HANGS_AFTER)).unwrap();
        let body = json!({"queues": ["none"], "worker": "w"}).to_string();
        let request = format!(
            "POST /api/v1/claims HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n\r\n{body}",
            server.address,
            body.len()
        );
        Normal { stream, request, took: Vec::new() }
    }

    fn ask(&mut self) {
        let begun = Instant::now();
        self.stream.write_all(self.request.as_bytes()).unwrap();
        let mut answer = [0; 4096];
        let read = self.stream.read(&mut answer).unwrap();
        assert!(answer[..read].starts_with(b"HTTP/1.1 200"), "a normal request was refused");
        self.took.push(begun.elapsed());
    }

    /// What the slowest hundredth took.
    fn p99(mut self) -> Duration {
        self.took.sort_unstable();
        self.took[self.took.len() - self.took.len() / 100]
    }
}

#[test]
fn a_thousand_slow_and_idle_connections_do_not_slow_the_others() {
    // The crowd is in this process, and a shell often allows it no more than 1,024 files.
    rlimit::increase_nofile_limit(4_096).unwrap();
    let (mut crowded, calm) = (Server::start("slow"), Server::start("calm"));
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let mut crowd: Vec<_> = (0..CROWD).map(|kind| burden(&crowded.address, kind)).collect();
        let (mut with, mut without) = (Normal::new(&crowded), Normal::new(&calm));
        for at in 0..REQUESTS {
            drip(&mut crowd, at);
            with.ask();
            without.ask();
        }
        let (with, without) = (with.p99(), without.p99());
        ratios.push((with.as_secs_f64() / without.as_secs_f64(), with, without));
        // Whoever comes new is served too.
        assert_eq!(crowded.get("/healthz").status, 200);
    }
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    eprintln!("p99 with {CROWD} slow and idle connections, and without: {ratios:.2?}");
    assert!(ratios[ROUNDS / 2].0 < 2.0, "{ratios:?}");
    assert!(crowded.is_running());
}

#[test]
fn a_full_house_makes_room_by_sending_away_those_who_ask_for_nothing() {
    let limit = [("WINDROW_SERVER__CONNECTIONS_MAX", "100")];
    let server = Server::with("crowd", &limit);
    let mut crowd = Vec::new();
    for kind in 0..400 {
        crowd.push(burden(&server.address, kind % 5));
        // Before the idle ones are many and while they are.
        if kind % 50 == 0 {
            assert_eq!(server.get("/healthz").status, 200, "{kind}");
        }
    }
    // The oldest of them was told that it may go.
    let first = &mut crowd[0];
    first.set_read_timeout(Some(HANGS_AFTER)).unwrap();
    assert_eq!(first.read(&mut [0; 16]).unwrap_or(0), 0);
}

#[test]
fn a_house_full_of_work_refuses_the_next_with_a_problem() {
    let limit = [("WINDROW_SERVER__CONNECTIONS_MAX", "3")];
    let server = Server::with("work", &limit);
    let claim = json!({"queues": ["none"], "worker": "w", "wait_ms": 60_000}).to_string();
    let waiting: Vec<TcpStream> = (0..3)
        .map(|_| {
            let mut stream = TcpStream::connect(&server.address).unwrap();
            let request = format!(
                "POST /api/v1/claims HTTP/1.1\r\nhost: {}\r\nexpect: 100-continue\r\n\
                 content-length: {}\r\n\r\n{claim}",
                server.address,
                claim.len()
            );
            stream.write_all(request.as_bytes()).unwrap();
            // It is being worked on once its body was asked for.
            assert!(stream.read(&mut [0; 64]).unwrap() > 0);
            stream
        })
        .collect();
    let refused = loop {
        let request = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", server.address);
        let replies = running::exchange(&server.address, request.as_bytes(), true);
        // Until all three wait, one of them may have made room.
        if let Some(reply) = replies.into_iter().find(|reply| reply.status != 200) {
            break reply;
        }
    };
    assert_eq!((refused.status, &refused.json()["code"]), (429, &json!("overloaded")));
    assert_eq!(refused.header("retry-after"), Some("1"));
    drop(waiting);
}

/// Each deadline, with one connection that runs into it; they run side by side.
#[test]
fn whoever_is_too_slow_is_told_so_or_let_go() {
    let server = Server::start("deadlines");
    let host = format!("host: {}\r\n", server.address);
    let open = |text: &str| {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    };
    let mut silent = open("");
    let mut head = open(&format!("GET /healthz HTTP/1.1\r\n{host}"));
    let line = "POST /api/v1/queues/q/items HTTP/1.1\r\n";
    let mut body = open(&format!("{line}{host}content-length: 9\r\n\r\n{{"));
    let read = |stream: &mut TcpStream| {
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        all
    };
    assert_eq!(read(&mut silent), "", "who asked nothing is told nothing");
    let late = read(&mut head);
    assert!(late.starts_with("HTTP/1.1 408") && late.contains("\"timeout\""), "{late}");
    let late = read(&mut body);
    assert!(late.starts_with("HTTP/1.1 408") && late.contains("\"timeout\""), "{late}");
}
