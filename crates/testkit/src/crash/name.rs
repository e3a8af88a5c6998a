//! Names: two numbers that say everything about an item.
//!
//! Whoever knows the name of an item knows its queue, key, payload and children, so the ledger need
//! not carry them across the pipe and a wrong byte is found wherever an item is read.

use std::sync::Arc;

use windrow_core::command::{Command, NewChild, NewItem, OnDuplicate};
use windrow_core::item::{Body, Payload};
use windrow_core::limits::PRIORITY_MAX;
use windrow_core::route::Route;
use windrow_core::settings::{Backoff, OnExpiry, Policy, Retention, Settings};
use windrow_core::{Request, RequestId};

use crate::random::Splitmix;

/// How long a lease lasts: longer than a child lives, so that only leases of earlier lives expire.
pub const LEASE_MS: u64 = 3_000;

/// The name of an item: of a root, or of something below one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Name {
    /// Producer, life and number of the root.
    pub root: u64,
    /// Zero for the root; otherwise the numbers of the children on the way, four bits each.
    pub path: u32,
}

/// Where an item goes, and so how long it is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Queue {
    /// Nothing is ever removed.
    Kept,
    /// Nothing is kept of what completed.
    Brief,
    /// Ended items beyond a few are swept.
    Swept,
}

impl Queue {
    pub const ALL: [Queue; 3] = [Queue::Kept, Queue::Brief, Queue::Swept];

    pub const fn name(self) -> &'static str {
        match self {
            Queue::Kept => "kept",
            Queue::Brief => "brief",
            Queue::Swept => "swept",
        }
    }

    /// The settings of the queue, with at most so many live items.
    pub fn settings(self, live_max: u64) -> Settings {
        let backoff = Backoff { base_ms: 5, cap_ms: 50, slow_base_ms: 5, slow_cap_ms: 50 };
        let (max_attempts, on_expiry) = match self {
            Queue::Kept => (4, OnExpiry::Retry),
            // Without a limit, so that such an item ends only by a settle that the ledger knows of.
            Queue::Brief | Queue::Swept => (0, OnExpiry::Requeue),
        };
        let defaults =
            Policy { lease_ms: LEASE_MS, max_attempts, backoff, on_expiry, ..Policy::default() };
        let max_per_tenant = if self == Queue::Swept { 20 } else { u32::MAX };
        Settings {
            defaults,
            live_max: Some(live_max),
            retention: Retention { max_age_ms: 366 * 86_400_000, max_per_tenant },
            forget_completed: self == Queue::Brief,
            ..Settings::default()
        }
    }

    /// The command that sets the queue up.
    pub fn configure(self, live_max: u64) -> Request {
        let settings = Box::new(self.settings(live_max));
        Command::Configure { queue: self.name().into(), settings }.into()
    }
}

impl Name {
    /// The name of the `number`-th root that a producer makes in one life.
    pub const fn root(producer: u8, life: u32, number: u32) -> Name {
        let root = (producer as u64) << 56 | (life as u64 & 0xff_ffff) << 32 | number as u64;
        Name { root, path: 0 }
    }

    /// Four roots in a row are a family: they share queue, tenant and key.
    pub const fn family(self) -> u64 {
        self.root >> 2
    }

    fn of_family(self) -> Splitmix {
        Splitmix(self.family().wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    fn own(self) -> Splitmix {
        let path = u64::from(self.path).wrapping_mul(0xd134_2543_de82_ef95);
        Splitmix(self.root.wrapping_mul(31) ^ path)
    }

    pub fn queue(self) -> Queue {
        match self.of_family().draw() % 10 {
            0..6 => Queue::Kept,
            6..9 => Queue::Brief,
            _ => Queue::Swept,
        }
    }

    fn tenant(self) -> &'static str {
        ["north", "east", "south", "west"][(self.of_family().draw() >> 8) as usize % 4]
    }

    /// Half of the families have a key.
    pub fn key(self) -> Option<String> {
        let keyed = self.of_family().draw() >> 16 & 1 == 1;
        (keyed && self.path == 0).then(|| format!("key-{:x}", self.family()))
    }

    /// Whether it takes the place of a waiting item of its key.
    pub fn replaces(self) -> bool {
        self.own().draw() & 1 == 1
    }

    /// How many children it is split into; none for most.
    pub fn children(self) -> u32 {
        let draw = self.own().draw() >> 8;
        match self.path {
            0 if self.queue() == Queue::Kept && self.key().is_none() && draw.is_multiple_of(4) => {
                2 + (draw >> 8) as u32 % 4
            }
            0 => 0,
            1..16 if draw.is_multiple_of(5) => 2,
            _ => 0,
        }
    }

    /// Its child with this number, counted from one.
    #[must_use]
    pub const fn child(self, number: u32) -> Name {
        Name { root: self.root, path: self.path << 4 | number }
    }

    /// Whether this name may have taken the place of an older one of its family.
    pub fn may_have_replaced(self, older: Name) -> bool {
        self.family() == older.family() && self.root > older.root && self.replaces()
    }

    pub fn route(self) -> Arc<Route> {
        match self.own().draw() >> 32 & 3 {
            0 if self.children() == 0 => Route::of(&["first", "second"]),
            _ => Route::single(),
        }
    }

    /// What is enqueued under this name.
    pub fn item(self) -> NewItem {
        let mut body = Body::new(self.tenant(), self.queue().name());
        body.key = self.key();
        body.group = self.group();
        body.route = self.route();
        body.payload = Payload::Inline(self.payload());
        let mut item = NewItem::new(body);
        item.priority = (self.own().draw() >> 40) as u8 % (PRIORITY_MAX + 1);
        if self.replaces() {
            item.on_duplicate = OnDuplicate::Replace;
        }
        item
    }

    /// What is created under this name when its parent is split.
    pub fn new_child(self) -> NewChild {
        let mut child = NewChild::new(self.path & 0xf, "part", self.route());
        child.group = self.group();
        child.payload = Payload::Inline(self.payload());
        child
    }

    fn group(self) -> Option<Arc<str>> {
        let draw = self.own().draw() >> 48;
        draw.is_multiple_of(5).then(|| format!("group-{}", draw % 50).into())
    }

    /// The name itself, then bytes that follow from it.
    pub fn payload(self) -> Vec<u8> {
        let mut dice = self.own();
        let len = 8 + dice.below(500);
        let mut bytes = self.root.to_le_bytes().to_vec();
        bytes.extend(self.path.to_le_bytes());
        let from = bytes.len();
        while bytes.len() < from + len {
            bytes.extend(dice.draw().to_le_bytes());
        }
        bytes.truncate(from + len);
        bytes
    }

    /// The name in a payload; an error if a byte of it is wrong.
    pub fn read(payload: &Payload) -> Result<Name, String> {
        let Payload::Inline(bytes) = payload else {
            return Err("the payload is a blob".to_owned());
        };
        let name = match (bytes.first_chunk::<8>(), bytes.get(8..12)) {
            (Some(root), Some(&[a, b, c, d])) => {
                Name { root: u64::from_le_bytes(*root), path: u32::from_le_bytes([a, b, c, d]) }
            }
            _ => return Err(format!("a payload of {} bytes carries no name", bytes.len())),
        };
        if *bytes != name.payload() {
            return Err(format!("the payload of {name:?} has other bytes than it was given"));
        }
        Ok(name)
    }

    /// Checks everything that a producer said; the name in the payload is its own witness.
    pub fn check(body: &Body) -> Result<Name, String> {
        let name = Name::read(&body.payload)?;
        let want = name.item().body;
        let same = (&*body.tenant, &*body.queue, &body.group, &body.key, &body.route)
            == (&*want.tenant, &*want.queue, &want.group, &name.key(), &want.route);
        // What replaces an item takes its place in line: group and route stay as they were.
        let replaced = name.key().is_some() && *body.queue == *want.queue;
        if same || replaced { Ok(name) } else { Err(format!("{name:?} came back as {body:?}")) }
    }

    /// The id of the request that enqueues a batch beginning with this name.
    pub const fn request(self) -> RequestId {
        RequestId((self.root as u128) << 64 | 0xc4a5)
    }

    /// This name and those after it, as one batch.
    pub fn batch(self, len: usize) -> Vec<Name> {
        (0..len as u64).map(|at| Name { root: self.root + at, path: 0 }).collect()
    }
}

/// The command that enqueues these names.
pub fn enqueue(names: &[Name]) -> Command {
    Command::Enqueue(names.iter().map(|name| name.item()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_back_from_its_payload_and_no_wrong_byte_does() {
        for number in 0..200 {
            let name = Name::root(3, 9, number).child(number % 3);
            let bytes = name.payload();
            assert_eq!(Name::read(&Payload::Inline(bytes.clone())), Ok(name));
            let mut wrong = bytes.clone();
            wrong[number as usize % bytes.len()] ^= 4;
            assert!(Name::read(&Payload::Inline(wrong)).is_err(), "{name:?}");
        }
        assert!(Name::read(&Payload::Inline(vec![1; 11])).is_err());
    }

    #[test]
    fn names_are_of_every_sort() {
        let names: Vec<Name> = (0..400).map(|number| Name::root(1, 1, number)).collect();
        let count = |is: &dyn Fn(&Name) -> bool| names.iter().filter(|name| is(name)).count();
        for queue in Queue::ALL {
            assert!(count(&|name| name.queue() == queue) > 10, "{queue:?}");
        }
        assert!((150..250).contains(&count(&|name| name.key().is_some())));
        assert!(count(&|name| name.children() > 0) > 10);
        assert!(count(&|name| name.route().len() == 2) > 40);
        assert!(count(&|name| name.replaces()) > 100);
    }
}
