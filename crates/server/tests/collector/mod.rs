//! A collector of traces: an HTTP server that takes OTLP as JSON.
#![allow(dead_code, reason = "no test uses all of it")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

pub(crate) struct Collector {
    address: String,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    pub(crate) fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests: Arc<Mutex<Vec<Value>>> = Arc::default();
        std::thread::spawn({
            let requests = Arc::clone(&requests);
            move || {
                for stream in listener.incoming().map_while(Result::ok) {
                    let request = take(stream);
                    requests.lock().unwrap().push(request);
                }
            }
        });
        Collector { address, requests }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything that came, as it came.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(&*self.requests.lock().unwrap()).unwrap()
    }

    /// Every span that came, of a request as OTLP has it.
    pub(crate) fn spans(&self) -> Vec<Value> {
        let mut spans = Vec::new();
        for request in &*self.requests.lock().unwrap() {
            for of_resource in request["resourceSpans"].as_array().unwrap() {
                let service = &of_resource["resource"]["attributes"][0];
                assert_eq!(service["key"], "service.name");
                assert_eq!(service["value"]["stringValue"], "windrow");
                for of_scope in of_resource["scopeSpans"].as_array().unwrap() {
                    spans.extend(of_scope["spans"].as_array().unwrap().iter().cloned());
                }
            }
        }
        spans
    }
}

/// One request.
fn take(stream: TcpStream) -> Value {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "it ended within the head: {head}");
    }
    let head = head.to_ascii_lowercase();
    assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    let length = head.split("content-length: ").nth(1).unwrap().split('\r').next().unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    reader.get_mut().write_all(answer.as_bytes()).unwrap();
    serde_json::from_slice(&body).unwrap()
}
