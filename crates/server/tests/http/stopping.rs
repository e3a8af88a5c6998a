//! While a server stops: what is under way ends, whoever has work reports on it, nothing begins.

use super::*;

/// A request whose body does not end, so that something is under way.
fn held_up(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = "POST /api/v1/queues/q/items HTTP/1.1\r\ncontent-length: 2\r\n\
                content-type: application/json\r\nexpect: 100-continue\r\n";
    write!(stream, "{head}host: {}\r\n\r\n", server.address).unwrap();
    // The server works on it once it asks for the body.
    let mut said = [0; 25];
    stream.read_exact(&mut said).unwrap();
    assert!(said.starts_with(b"HTTP/1.1 100"), "{}", String::from_utf8_lossy(&said));
    stream
}

/// Asks on a connection that stays open, and reads one answer.
fn ask(stream: &mut TcpStream, host: &str, path: &str, body: &Value) -> (u16, String) {
    let body = body.to_string();
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n");
    write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut all = Vec::new();
    loop {
        let mut more = [0; 4096];
        let read = stream.read(&mut more).unwrap();
        all.extend_from_slice(&more[..read]);
        let text = String::from_utf8_lossy(&all).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        if read == 0 || Some(body.len()) == length.and_then(|length| length.parse().ok()) {
            return (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_owned());
        }
    }
}

#[test]
fn whoever_has_work_is_answered_while_the_server_stops_and_nothing_new_begins() {
    let data = Data::new("draining");
    let mut server = Server::start(&data.0);
    let (one, other) = (server.enqueue(json!({})), server.enqueue(json!({})));
    let grant = server.claim(json!({"queues": ["q"], "worker": "w", "max": 2}));
    let lease = grant["lease"].as_str().unwrap().to_owned();
    let path = |verb: &str| format!("/api/v1/leases/{lease}/{verb}");
    let done = |id: &str| json!({"items": [{"id": id, "outcome": "complete"}]});
    let mut idle = TcpStream::connect(&server.address).unwrap();
    assert_eq!(ask(&mut idle, &server.address, &path("renew"), &json!({})).0, 200);
    let mut busy = held_up(&server);
    server.signal("-TERM");
    while server.get("/readyz").status != 503 {}

    // On a connection from before, for the last time.
    let (status, head) = ask(&mut idle, &server.address, &path("settle"), &done(&one));
    assert!(status == 200 && head.contains("connection: close"), "{head}");
    // On new ones.
    assert_eq!(server.post(&path("renew"), &json!({})).status, 200);
    let half = json!({"items": [{"id": other, "current": 1, "total": 2}]});
    assert_eq!(server.post(&path("progress"), &half).status, 200);
    let settled = server.post(&path("settle"), &done(&other));
    assert_eq!((settled.status, &settled.json()[0]["ending"]), (200, &json!("completed")));
    let claim = json!({"queues": ["q"], "worker": "w", "wait_ms": 30_000});
    for refused in [
        server.post("/api/v1/queues/q/items", &json!({})),
        server.post("/api/v1/items", &json!([{"queue": "q"}])),
        server.post("/api/v1/claims", &claim),
    ] {
        refused.is(503, "stopping");
        assert!(refused.headers.contains("retry-after: 1"), "{}", refused.headers);
    }
    assert!(server.process.child.try_wait().unwrap().is_none(), "it waits for what is under way");
    busy.write_all(b"{}").unwrap();
    Reply::read(&mut busy).is(503, "stopping");
    assert!(server.process.child.wait().unwrap().success());
    let server = Server::start(&data.0);
    assert_eq!(server.get("/api/v1/queue/stats").json()["completed"], 2);
}

#[test]
fn idle_connections_do_not_hold_a_stop_up_and_a_second_signal_ends_what_does() {
    let data = Data::new("idle");
    let mut server = Server::start(&data.0);
    let mut idle: Vec<TcpStream> =
        (0..20).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    for stream in &mut idle[..10] {
        let (status, _) = ask(stream, &server.address, "/api/v1/claims", &json!({"worker": "w"}));
        assert_eq!(status, 200);
    }
    // One has said half of its head.
    idle[19].write_all(b"GET /healthz HTTP/1.1\r\n").unwrap();
    let begun = std::time::Instant::now();
    server.signal("-TERM");
    assert!(server.process.child.wait().unwrap().success());
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let read = idle[0].read(&mut [0; 16]);
    assert!(matches!(read, Ok(0)), "it is closed, not reset: {read:?}");

    let mut server = Server::start(&data.0);
    let _busy = held_up(&server);
    // Twice at once, as GNU `timeout` does, is once. Two that nobody has noticed are one already.
    let told = std::time::Instant::now();
    server.signal("-TERM");
    while server.get("/readyz").status != 503 {}
    server.signal("-TERM");
    // Here it might be so slow that the second one is no echo.
    if told.elapsed() < Duration::from_millis(150) {
        (0..20).for_each(|_| assert_eq!(server.get("/readyz").status, 503));
    }
    server.signal("-INT");
    assert!(server.process.child.wait().unwrap().success());
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}
