//! Webhooks: a real receiver is told when items end, signed, and again until it takes it.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::running::{Data, Server, until};

/// One request, as a receiver reads it.
#[derive(Debug)]
struct Received {
    head: String,
    body: String,
}

impl Received {
    fn header(&self, name: &str) -> &str {
        let line = self
            .head
            .lines()
            .find_map(|line| line.split_once(": ").filter(|(is, _)| is.eq_ignore_ascii_case(name)));
        line.unwrap_or_else(|| panic!("no {name} in {}", self.head)).1
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Works out the signature as any receiver would.
    fn is_signed_with(&self, secret: &str) -> bool {
        let (time, signature) = self.header("windrow-signature").split_once(',').unwrap();
        let time = time.strip_prefix("t=").unwrap();
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(format!("{time}.{}", self.body).as_bytes());
        let expected: String =
            mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        signature == format!("v1={expected}")
    }
}

/// A receiver that answers with these statuses in turn, and then with 200.
struct Receiver {
    url: String,
    received: mpsc::Receiver<Received>,
}

impl Receiver {
    fn answering(statuses: &[&str]) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook?from=windrow", listener.local_addr().unwrap());
        let (send, received) = mpsc::channel();
        let mut answers: VecDeque<String> = statuses.iter().map(ToString::to_string).collect();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(one) = read(&mut stream) else { continue };
                let status = answers.pop_front().unwrap_or_else(|| "200 OK".into());
                if send.send(one).is_err() {
                    return;
                }
                if status == "nothing" {
                    // Its sender dies meanwhile, or loses its patience.
                    continue;
                }
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                let _its_sender_may_be_gone = stream.write_all(answer.as_bytes());
            }
        });
        Receiver { url, received }
    }

    fn next(&self) -> Received {
        self.received.recv_timeout(Duration::from_secs(60)).expect("it is told")
    }
}

fn read(stream: &mut TcpStream) -> Option<Received> {
    let mut lines = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if lines.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let mut one = Received { head, body: String::new() };
    let len: usize = one.header("content-length").parse().unwrap();
    let mut body = vec![0; len];
    lines.read_exact(&mut body).ok()?;
    one.body = String::from_utf8(body).unwrap();
    Some(one)
}

/// Deliveries that are tried again soon.
fn impatient(server: &Server) {
    let backoff = json!({"base_ms": 50, "cap_ms": 200});
    let settings = json!({"max_attempts": 20, "lease_ms": 4_000, "backoff": backoff});
    server.done("PUT", "/queues/windrow.webhooks/settings", &settings);
}

fn delivered(server: &Server, status: &str) -> u64 {
    server.get("/queue/stats?queue=windrow.webhooks")[status].as_u64().unwrap()
}

#[test]
fn an_item_that_ends_is_told_signed_and_again_after_an_error() {
    let data = Data::new("told");
    let server = Server::start(&data.place());
    let receiver = Receiver::answering(&["500 No", "302 Found\r\nlocation: /else", "nothing"]);
    let says = json!({"url": receiver.url, "queues": ["q"], "endings": ["completed"]});
    let made = server.done("PUT", "/webhooks/crm", &says);
    let secret = made["secret"].as_str().unwrap().to_owned();
    assert!(secret.len() > 40, "{made}");
    impatient(&server);

    let cancelled = server.enqueue("q", &json!({}));
    server.done("POST", &format!("/queue/{cancelled}/cancel"), &json!({}));
    server.enqueue("other", &json!({}));
    server.complete("other");
    server.enqueue("q", &json!({"tenant": "acme"}));
    let id = server.complete("q");
    let all: Vec<Received> = (0..4).map(|_| receiver.next()).collect();
    for one in &all {
        assert!(one.head.starts_with("POST /hook?from=windrow HTTP/1.1"), "{}", one.head);
        assert!(one.is_signed_with(&secret) && !one.is_signed_with("whsec_wrong"));
        assert_eq!(one.header("windrow-event"), "item.completed");
        assert_eq!(one.header("windrow-delivery"), all[0].header("windrow-delivery"));
        let told = one.json();
        let item = json!({"id": id, "queue": "q", "tenant": "acme", "status": "completed"});
        assert_eq!((&told["item"], &told["webhook"]), (&item, &json!("crm")));
    }
    until("it is delivered", || (delivered(&server, "completed") == 1).then_some(()));
    let life = server.get(&format!("/queue/{}/events", all[0].header("windrow-delivery")));
    let text = life.to_string();
    assert!(text.contains("the receiver says 500") && text.contains("redirects are not"), "{text}");
    let stats = server.get("/queue/stats?queue=windrow.webhooks");
    assert_eq!((&stats["pending"], &stats["processing"]), (&json!(0), &json!(0)));
}

#[test]
fn a_delivery_survives_a_kill_of_the_server_that_sends_it() {
    let data = Data::new("killed");
    let server = Server::start(&data.place());
    let receiver = Receiver::answering(&["nothing"]);
    let secret = "a secret of our own";
    let says = json!({"url": receiver.url, "queues": ["*"], "secret": secret});
    let made = server.done("PUT", "/webhooks/all", &says);
    assert_eq!(made["secret"], Value::Null, "whoever brings one knows it");
    impatient(&server);
    server.enqueue("q", &json!({}));
    server.complete("q");
    let first = receiver.next();
    server.kill();
    let server = Server::start(&data.place());
    let again = receiver.next();
    assert_eq!(again.header("windrow-delivery"), first.header("windrow-delivery"));
    assert_eq!(again.body, first.body);
    assert!(again.is_signed_with(secret));
    until("it is delivered", || (delivered(&server, "completed") == 1).then_some(()));
}

#[test]
fn a_webhook_is_written_shown_tested_and_taken_away() {
    let data = Data::new("hooks");
    let server = Server::start(&data.place());
    let receiver = Receiver::answering(&["204 Good", "503 Away"]);
    let says = json!({"url": receiver.url, "queues": ["a", "b"], "tenants": ["t"]});
    let made = server.done("PUT", "/webhooks/one", &says);
    let secret = made["secret"].as_str().unwrap().to_owned();
    let shown = server.get("/webhooks/one");
    assert_eq!((&shown["secret"], &shown["fingerprint"]), (&Value::Null, &made["fingerprint"]));
    assert!(!server.get("/webhooks").to_string().contains(&secret), "it is shown once");
    let tested = server.done("POST", "/webhooks/one/test", &json!({}));
    assert_eq!((&tested["delivered"], &tested["status"]), (&json!(true), &json!(204)));
    let one = receiver.next();
    assert!(one.is_signed_with(&secret) && one.header("windrow-event") == "test");
    let tested = server.done("POST", "/webhooks/one/test", &json!({}));
    assert_eq!((&tested["delivered"], &tested["status"]), (&json!(false), &json!(503)));
    receiver.next();

    // What it names no longer is told no longer; its secret stays.
    let fewer = json!({"url": receiver.url, "queues": ["b"], "tenants": ["t"]});
    let tag = format!("if-match: \"{}\"\r\n", made["revision"]);
    let (status, now) = server.send("PUT", "/webhooks/one", &tag, &fewer.to_string());
    assert_eq!((status, &now["fingerprint"]), (200, &made["fingerprint"]), "{now}");
    assert_eq!(server.refused("PUT", "/webhooks/one", &tag, &fewer), "changed");
    for (queue, tenant) in [("a", "t"), ("b", "other"), ("b", "t")] {
        server.enqueue(queue, &json!({"tenant": tenant}));
        server.complete(queue);
    }
    assert_eq!(receiver.next().json()["item"]["queue"], "b");
    until("it is delivered", || (delivered(&server, "completed") == 1).then_some(()));

    server.done("DELETE", "/webhooks/one", &json!({}));
    assert_eq!(server.refused("GET", "/webhooks/one", "", &json!({})), "not_found");
    server.enqueue("b", &json!({"tenant": "t"}));
    server.complete("b");
    assert_eq!(delivered(&server, "pending") + delivered(&server, "completed"), 1);
}

#[test]
fn a_webhook_that_leads_inside_is_refused() {
    let data = Data::new("inside");
    let server = Server::start(&data.place());
    for url in [
        "http://169.254.169.254/latest/meta-data",
        "https://10.0.0.1/",
        "https://[::1]/",
        "http://127.0.0.2/",
        "http://1.1.1.1/",
        "https://user:pass@example.com/",
        "file:///etc/passwd",
    ] {
        let says = json!({"url": url, "queues": ["q"]});
        assert_eq!(server.refused("PUT", "/webhooks/w", "", &says), "invalid", "{url}");
    }
    // A name is looked up when it is called, and what it leads to is checked then.
    let says = json!({"url": "https://localhost:9/", "queues": ["q"]});
    server.done("PUT", "/webhooks/w", &says);
    let tested = server.done("POST", "/webhooks/w/test", &json!({}));
    assert_eq!(tested["delivered"], false);
    let says = json!({"url": "https://127.0.0.1/", "queues": []});
    assert_eq!(server.refused("PUT", "/webhooks/w", "", &says), "invalid");
    assert_eq!(server.refused("POST", "/webhooks/absent/test", "", &json!({})), "not_found");
}
