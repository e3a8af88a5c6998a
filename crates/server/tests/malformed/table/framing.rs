//! Where a body ends: lengths, chunks, and two readings of the same bytes.

use super::Wants::{Accepted, Nothing, Problem};
use super::{Class, Draw, class};

const BAD: super::Wants = Problem(400, "malformed");
const ITEMS: &str = "POST /api/v1/queues/q/items HTTP/1.1";
const JSON: &str = "content-type: application/json";

/// An enqueue that would count if it were believed.
fn hidden(d: &Draw<'_>) -> Vec<u8> {
    d.enqueue(r#"{"key":"smuggled"}"#)
}

fn chunked(d: &Draw<'_>, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut all = vec![JSON];
    all.extend(headers);
    d.raw(ITEMS, &all, body)
}

pub(crate) const CLASSES: &[Class] = &[
    class("two lengths that differ", BAD, "HTTP", |d| {
        let (one, two) = (d.number(0, 9), d.number(10, 99));
        let other = format!("content-length: {two}");
        d.raw(ITEMS, &[JSON, &format!("content-length: {one}"), &other], &hidden(d))
    }),
    // There is only one way to read it, and HTTP allows to read it so.
    class("two lengths that are the same", Accepted(201, 1), "", |d| {
        let body = format!(r#"{{"payload":"{}"}}"#, d.word(1, 9));
        let length = format!("content-length: {}", body.len());
        d.raw(ITEMS, &[JSON, &length, &length], body.as_bytes())
    }),
    class("a length that is no number", BAD, "HTTP", |d| {
        let length = d.pick(&["-1", "+2", "0x2", "2.0", "two", "", "2,2", "2 2", "1e1", "٢"]);
        d.raw(ITEMS, &[JSON, &format!("content-length: {length}")], b"{}")
    }),
    class("a length beyond all numbers", BAD, "HTTP", |d| {
        let length = "9".repeat(d.number(20, 60) as usize);
        d.raw(ITEMS, &[JSON, &format!("content-length: {length}")], b"{}")
    }),
    class("a length that says more than may come", Problem(413, "too_large"), "16777216", |d| {
        let length = d.number(16 * 1024 * 1024 + 1, 1 << 40);
        d.raw(ITEMS, &[JSON, &format!("content-length: {length}")], b"{}")
    }),
    class("a length and chunks, read as chunks", BAD, "", |d| {
        // By its length the body is an item; by its chunks it is not even JSON.
        let (mut body, order) = (b"1\r\n{\r\n0\r\n\r\n".to_vec(), d.number(0, 1));
        body.extend(hidden(d));
        let length = format!("content-length: {}", body.len());
        let both = [length.as_str(), "transfer-encoding: chunked"];
        chunked(d, &if order == 0 { both } else { [both[1], both[0]] }, &body)
    }),
    class("an encoding that is not chunked", BAD, "HTTP", |d| {
        let coding =
            d.pick(&["gzip", "identity", "chunked, gzip", "chunkedd", "x", "", "chunked;q=1"]);
        chunked(d, &[&format!("transfer-encoding: {coding}")], b"2\r\n{}\r\n0\r\n\r\n")
    }),
    class("an encoding before the chunks", BAD, "encoding", |d| {
        let coding =
            d.pick(&["gzip, chunked", "x, chunked", "identity, chunked", "chunked, chunked"]);
        chunked(d, &[&format!("transfer-encoding: {coding}")], b"2\r\n{}\r\n0\r\n\r\n")
    }),
    class("two encodings", BAD, "encoding", |d| {
        let other = d.pick(&["chunked", "gzip", "identity", "x"]);
        let both = [&*format!("transfer-encoding: {other}"), "transfer-encoding: chunked"];
        chunked(d, &both, b"2\r\n{}\r\n0\r\n\r\n")
    }),
    class("chunks in HTTP/1.0", BAD, "HTTP", |d| {
        let line = ITEMS.replace("1.1", "1.0");
        let mut body = b"2\r\n{}\r\n0\r\n\r\n".to_vec();
        body.extend(d.word(0, 5).into_bytes());
        d.raw(&line, &[JSON, "transfer-encoding: chunked"], &body)
    }),
    class("the size of a chunk is no number", BAD, "", |d| {
        let size = d.pick(&["g", "-1", "0x2", "", " ", "2 2", "+2", "\u{b2}", "2.0"]);
        let body = format!("{size}\r\n{{}}\r\n0\r\n\r\n");
        chunked(d, &["transfer-encoding: chunked"], body.as_bytes())
    }),
    class("the size of a chunk is beyond all numbers", BAD, "", |d| {
        let size = "f".repeat(d.number(17, 60) as usize);
        let body = format!("{size}\r\n{{}}\r\n0\r\n\r\n");
        chunked(d, &["transfer-encoding: chunked"], body.as_bytes())
    }),
    class("a chunk that is longer than its size", BAD, "", |d| {
        let body = format!("1\r\n{{}}{}\r\n0\r\n\r\n", d.word(1, 9));
        chunked(d, &["transfer-encoding: chunked"], body.as_bytes())
    }),
    class("a chunk with an endless extension", BAD, "", |d| {
        let more = "x".repeat(d.number(17_000, 40_000) as usize);
        let body = format!("2;{more}\r\n{{}}\r\n0\r\n\r\n");
        chunked(d, &["transfer-encoding: chunked"], body.as_bytes())
    }),
    class("a client that goes away within its body", Nothing, "", |d| {
        let length = d.number(10, 9_000);
        d.raw(ITEMS, &[JSON, &format!("content-length: {length}")], br#"{"key":"#)
    }),
    class("a client that goes away within its chunks", Nothing, "", |d| {
        let body =
            d.pick(&["9\r\n{}", "2\r\n{}\r\n", "2\r\n{}\r\n0\r\n", "2", "2\r\n{}\r\n0\r\nx: y"]);
        chunked(d, &["transfer-encoding: chunked"], body.as_bytes())
    }),
    class("something behind the body that is no request", BAD, "HTTP", |d| {
        let body = format!("\u{1}{}\r\n\r\n", d.word(1, 20));
        let host = format!("host: {}", d.bed.host);
        super::bare("GET /healthz HTTP/1.1", &[&host, "content-length: 0"], body.as_bytes())
    }),
];
