//! Request lines and headers.

use super::Wants::{Accepted, Nothing, Problem};
use super::{Class, bare, class};

const BAD: super::Wants = Problem(400, "malformed");
const LARGE: super::Wants = Problem(431, "headers_too_large");

pub(crate) const CLASSES: &[Class] = &[
    class("a version of HTTP that there is not", BAD, "HTTP", |d| {
        let version =
            d.pick(&["HTTP/9.9", "HTTP/3.0", "HTTP/1.2", "HTTP/0.9", "HTTP/1", "HTPP/1.1"]);
        d.request(&format!("GET /healthz {version}"), &[], b"")
    }),
    class("HTTP/2 without asking", BAD, "HTTP", |d| {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend((0..d.number(9, 60)).map(|_| d.number(0, 255) as u8).collect::<Vec<_>>());
        bytes
    }),
    class("a method with letters that methods do not have", BAD, "HTTP", |d| {
        let method = d.pick(&["G(T", "GE\u{1}T", "\"GET\"", "G{}", "@", "GET,POST", "G;T"]);
        d.request(&format!("{method} /healthz HTTP/1.1"), &[], b"")
    }),
    class("a request line with a part missing", BAD, "HTTP", |d| {
        let line =
            d.pick(&["GET /healthz", "GET", "/healthz HTTP/1.1", "GET  HTTP/1.1", "HTTP/1.1"]);
        d.request(line, &[], b"")
    }),
    class("a request line with too many parts", BAD, "HTTP", |d| {
        let word = d.word(1, 9);
        d.request(&format!("GET /healthz {word} HTTP/1.1"), &[], b"")
    }),
    class("control characters in the request line", BAD, "HTTP", |d| {
        let byte = char::from(d.pick(&[0_u8, 1, 2, 7, 8, 11, 12, 14, 27, 31, 127]));
        let word = d.word(0, 5);
        d.request(&format!("GET /healthz/{word}{byte} HTTP/1.1"), &[], b"")
    }),
    class("a target that is longer than all headers may be", LARGE, "32768", |d| {
        let word = "x".repeat(d.number(33_000, 60_000) as usize);
        d.request(&format!("GET /{word} HTTP/1.1"), &[], b"")
    }),
    class("a header name with letters that names do not have", BAD, "HTTP", |d| {
        let name =
            d.pick(&["x y", "x(y", "x\u{1}", "x\"y", "x{y", "x@y", "x[y", "x,y", "x;y", "x/y"]);
        d.request("GET /healthz HTTP/1.1", &[&format!("{name}: 1")], b"")
    }),
    class("a space before the colon of a header", BAD, "HTTP", |d| {
        let name = d.pick(&["content-length", "transfer-encoding", "host", "x-one"]);
        let space = d.pick(&[" ", "\t", "  "]);
        d.request("GET /healthz HTTP/1.1", &[&format!("{name}{space}: 5")], b"")
    }),
    class("a header without a colon", BAD, "HTTP", |d| {
        let word = d.word(1, 30);
        d.request("GET /healthz HTTP/1.1", &[&word], b"")
    }),
    class("a header without a name", BAD, "HTTP", |d| {
        let word = d.word(0, 30);
        d.request("GET /healthz HTTP/1.1", &[&format!(": {word}")], b"")
    }),
    class("a header that goes on in the next line", BAD, "HTTP", |d| {
        let (one, two) = (d.word(1, 9), d.word(1, 9));
        let space = d.pick(&[" ", "\t"]);
        d.request("GET /healthz HTTP/1.1", &[&format!("x-one: {one}\r\n{space}{two}")], b"")
    }),
    class("control characters in the value of a header", BAD, "HTTP", |d| {
        let byte = char::from(d.pick(&[0_u8, 1, 8, 11, 12, 14, 27, 31, 127]));
        let word = d.word(1, 9);
        d.request("GET /healthz HTTP/1.1", &[&format!("x-one: {word}{byte}{word}")], b"")
    }),
    class("a carriage return in the value of a header", BAD, "HTTP", |d| {
        let word = d.word(1, 9);
        d.request("GET /healthz HTTP/1.1", &[&format!("x-one: {word}\rx-two: {word}")], b"")
    }),
    class("one header that is too long", LARGE, "32768", |d| {
        let value = "x".repeat(d.number(33_000, 90_000) as usize);
        d.request("GET /healthz HTTP/1.1", &[&format!("x-one: {value}")], b"")
    }),
    class("headers that are too long together", LARGE, "32768", |d| {
        let header = format!("x-one: {}", "x".repeat(d.number(1_200, 2_000) as usize));
        d.request("GET /healthz HTTP/1.1", &[header.as_str(); 40], b"")
    }),
    class("too many headers", LARGE, "100", |d| {
        let header = format!("x-{}: 1", d.word(1, 5));
        let many = vec![header.as_str(); d.number(101, 900) as usize];
        d.request("GET /healthz HTTP/1.1", &many, b"")
    }),
    class("another protocol altogether", BAD, "HTTP", |d| {
        let hello: &[u8] = d.pick(&[
            &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03aaaaaaaa"[..],
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"*1\r\n$4\r\nPING\r\n",
            b"EHLO example.com\r\n",
            b"\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00",
            b"{\"jsonrpc\":\"2.0\"}\r\n\r\n",
        ]);
        let mut bytes = hello.to_vec();
        bytes.extend(d.word(0, 20).into_bytes());
        bytes.extend(b"\r\n\r\n");
        bytes
    }),
    class("a client that goes away within its headers", Nothing, "", |d| {
        let bytes = d.request("GET /api/v1/queue/stats HTTP/1.1", &[], b"");
        bytes[..d.number(1, bytes.len() as u64 - 3) as usize].to_vec()
    }),
    class("lines that end with a line feed only", Accepted(200, 0), "", |d| {
        let line = d.pick(&["GET /healthz HTTP/1.1", "GET /docs HTTP/1.1"]);
        let bytes = String::from_utf8(d.request(line, &[], b"")).unwrap();
        bytes.replace('\r', "").into_bytes()
    }),
    class("empty lines before the request", Accepted(200, 0), "", |d| {
        let mut bytes = b"\r\n".repeat(d.number(1, 5) as usize);
        bytes.extend(d.request("GET /healthz HTTP/1.1", &[], b""));
        bytes
    }),
    class("no Host", BAD, "Host", |d| {
        let line =
            d.pick(&["GET /healthz HTTP/1.1", "GET /healthz HTTP/1.0", "GET /docs HTTP/1.1"]);
        bare(line, &["connection: close", &format!("x-{}: 1", d.word(1, 5))], b"")
    }),
    class("two Hosts", BAD, "Host", |d| {
        let other = d.pick(&["localhost", "example.com", "127.0.0.1", ""]);
        d.request("GET /healthz HTTP/1.1", &[&format!("host: {other}")], b"")
    }),
    class("a Host that is another machine", Problem(421, "misdirected_host"), "localhost", |d| {
        let host = d.pick(&[
            "example.com",
            "localhost.example.com",
            "10.0.0.1",
            "0.0.0.0",
            "[::2]",
            "a@b",
        ]);
        let port = d.pick(&["", ":80", ":7117"]);
        bare("GET /healthz HTTP/1.1", &[&format!("host: {host}{port}"), "connection: close"], b"")
    }),
    class("a target with another machine", Problem(421, "misdirected_host"), "localhost", |d| {
        let host = d.word(1, 9);
        d.request(&format!("GET http://{host}.example/healthz HTTP/1.1"), &[], b"")
    }),
    class("a page of another site", Problem(421, "misdirected_host"), "Origin", |d| {
        let origin = d.pick(&["https://example.com", "null", "http://localhost:1", "file://", "x"]);
        d.request("GET /healthz HTTP/1.1", &[&format!("origin: {origin}")], b"")
    }),
    class("an expectation that nobody knows", Problem(417, "expectation_failed"), "Expect", |d| {
        let word = d.word(1, 12);
        d.request("GET /healthz HTTP/1.1", &[&format!("expect: {word}")], b"")
    }),
    class("an upgrade that is not offered", Accepted(200, 0), "", |d| {
        let to = d.pick(&["websocket", "h2c", "TLS/1.0", "foo/2"]);
        d.request("GET /healthz HTTP/1.1", &[&format!("upgrade: {to}")], b"")
    }),
    class("two Idempotency-Keys", BAD, "idempotency-key", |d| {
        let (one, two) = (d.word(1, 9), d.word(1, 9));
        let one = format!("idempotency-key: {one}");
        let two = format!("Idempotency-Key: {two}");
        d.request("POST /api/v1/queues/q/items HTTP/1.1", &[&one, &two], b"{}")
    }),
    class("an Idempotency-Key that is too long", BAD, "255", |d| {
        let key = "k".repeat(d.number(256, 2_000) as usize);
        let path = d.pick(&["queues/q/items", "claims"]);
        let line = format!("POST /api/v1/{path} HTTP/1.1");
        d.request(&line, &[&format!("idempotency-key: {key}")], b"{}")
    }),
    class("an Idempotency-Key that is empty or not ASCII", BAD, "idempotency-key", |d| {
        let key = d.pick(&["", "   ", "é", "\u{4e2d}", "a\tb"]);
        let header = format!("idempotency-key: {key}");
        d.request("POST /api/v1/queues/q/items HTTP/1.1", &[&header], b"{}")
    }),
];
