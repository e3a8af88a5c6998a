//! The table of what clients get wrong, or send to do harm: the input, the status, the problem's
//! code, and what becomes of the state. It was written before the code that it holds to account.
//!
//! A class is a generator: every variant of it draws from a seed. Unless a class says otherwise,
//! the counts of the queue are afterwards what they were before.

mod body;
mod enqueue;
mod framing;
mod head;
mod queues;
mod sources;
mod stages;
mod target;
mod work;

use std::cell::RefCell;

use windrow_testkit::random::Splitmix;

/// One kind of mistake.
pub(crate) struct Class {
    pub(crate) name: &'static str,
    pub(crate) wants: Wants,
    /// What the problem's detail must say, so that a person can mend the request.
    pub(crate) says: &'static str,
    pub(crate) make: fn(&Draw<'_>) -> Vec<u8>,
}

/// What must come back.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Wants {
    /// A problem with this status and code.
    Problem(u16, &'static str),
    /// An answer in which every entry was refused with this code.
    Each(&'static str),
    /// It is fine after all. So many items are added by each variant.
    Accepted(u16, u64),
    /// The client closes its side in the middle: nothing is answered, or that it was malformed.
    Nothing,
}

pub(crate) const fn class(
    name: &'static str,
    wants: Wants,
    says: &'static str,
    make: fn(&Draw<'_>) -> Vec<u8>,
) -> Class {
    Class { name, wants, says, make }
}

/// The whole table.
pub(crate) fn all() -> impl Iterator<Item = &'static Class> {
    [
        head::CLASSES,
        framing::CLASSES,
        target::CLASSES,
        body::CLASSES,
        enqueue::CLASSES,
        work::CLASSES,
        queues::CLASSES,
        sources::CLASSES,
        stages::CLASSES,
    ]
    .into_iter()
    .flatten()
}

/// What there is in the server that a request may be about.
pub(crate) struct Bed {
    pub(crate) host: String,
    /// An item that waits.
    pub(crate) waiting: String,
    /// One that is held by a lease.
    pub(crate) held: String,
    pub(crate) lease: String,
    /// One that has failed.
    pub(crate) failed: String,
}

/// Chance, and what there is.
pub(crate) struct Draw<'a> {
    pub(crate) random: RefCell<Splitmix>,
    pub(crate) bed: &'a Bed,
}

impl Draw<'_> {
    pub(crate) fn new(seed: u64, bed: &Bed) -> Draw<'_> {
        Draw { random: RefCell::new(Splitmix(seed)), bed }
    }

    pub(crate) fn pick<T: Copy>(&self, from: &[T]) -> T {
        from[self.random.borrow_mut().below(from.len())]
    }

    pub(crate) fn number(&self, from: u64, to: u64) -> u64 {
        from + self.random.borrow_mut().below((to - from + 1) as usize) as u64
    }

    /// Letters.
    pub(crate) fn word(&self, from: u64, to: u64) -> String {
        let length = self.number(from, to);
        (0..length).map(|_| char::from(b'a' + self.number(0, 25) as u8)).collect()
    }

    /// A request as a client should write it, but for what it is given.
    pub(crate) fn request(&self, line: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
        let length = format!("content-length: {}", body.len());
        let mut all = vec![length.as_str()];
        all.extend(headers);
        self.raw(line, &all, body)
    }

    /// Without a length.
    pub(crate) fn raw(&self, line: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
        let host = format!("host: {}", self.bed.host);
        let mut all = vec![host.as_str(), "connection: close"];
        all.extend(headers);
        bare(line, &all, body)
    }

    pub(crate) fn json(&self, line: &str, body: &str) -> Vec<u8> {
        self.request(line, &["content-type: application/json"], body.as_bytes())
    }

    /// An enqueue of this body.
    pub(crate) fn enqueue(&self, body: &str) -> Vec<u8> {
        self.json("POST /api/v1/queues/q/items HTTP/1.1", body)
    }

    pub(crate) fn claim(&self, body: &str) -> Vec<u8> {
        self.json("POST /api/v1/claims HTTP/1.1", body)
    }

    /// A settle of the held item with these fields beside its id.
    pub(crate) fn settle(&self, fields: &str) -> Vec<u8> {
        let body = format!(r#"{{"items":[{{"id":"{}",{fields}}}]}}"#, self.bed.held);
        self.json(&self.lease("settle"), &body)
    }

    pub(crate) fn lease(&self, verb: &str) -> String {
        format!("POST /api/v1/leases/{}/{verb} HTTP/1.1", self.bed.lease)
    }

    pub(crate) fn settings(&self, body: &str) -> Vec<u8> {
        self.json("PUT /api/v1/queues/unused/settings HTTP/1.1", body)
    }
}

/// Exactly these lines and this body.
pub(crate) fn bare(line: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{line}\r\n").into_bytes();
    for header in headers {
        bytes.extend(header.as_bytes());
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"\r\n");
    bytes.extend(body);
    bytes
}
