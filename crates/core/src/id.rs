//! Identities: items, leases, requests.
//!
//! An item id is a UUIDv7 made by the store: the millisecond of its creation, a counter within it,
//! and the store's own tag. Ids of one store therefore sort by creation, and a store may keep just
//! the 64 bits that differ ([`ItemId::serial`]).

use std::fmt;
use std::str::FromStr;

use crate::time::Timestamp;

/// Identity of an item; sorts by creation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemId(pub u128);

const VERSION: u128 = 0x7 << 76;
const VARIANT: u128 = 0b10 << 62;
const TAG_BITS: u32 = 58;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;

impl ItemId {
    /// The id with this serial (48 bits of milliseconds, 16 of counter) in the store with this tag.
    pub const fn from_serial(serial: u64, tag: StoreTag) -> ItemId {
        let serial = serial as u128;
        let (ms, counter) = (serial >> 16, serial & 0xffff);
        ItemId(
            ms << 80
                | VERSION
                | (counter >> 4) << 64
                | VARIANT
                | (counter & 0xf) << TAG_BITS
                | tag.0 as u128,
        )
    }

    /// The part that differs between the items of one store. Sorts as the ids do.
    pub const fn serial(self) -> u64 {
        let (ms, high) = ((self.0 >> 80) as u64, (self.0 >> 64) as u64 & 0xfff);
        let low = (self.0 as u64 >> TAG_BITS) & 0xf;
        ms << 16 | high << 4 | low
    }

    /// The part that names the store which made it.
    pub const fn tag(self) -> StoreTag {
        StoreTag(self.0 as u64 & TAG_MASK)
    }

    /// When the item was created.
    pub const fn created_at(self) -> Timestamp {
        Timestamp((self.0 >> 80) as u64)
    }
}

/// What is common to all ids that one store makes: 58 random bits, kept for the store's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreTag(u64);

impl StoreTag {
    /// A tag from random bits; the six highest are dropped.
    pub const fn new(random: u64) -> StoreTag {
        StoreTag(random & TAG_MASK)
    }

    /// The bits of the tag.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// Makes item ids, each greater than the one before, even if time stands still or runs back.
#[derive(Clone, Copy, Debug)]
pub struct IdSource {
    tag: StoreTag,
    last: u64,
    /// Which of the servers that share a store makes them.
    server: Option<u8>,
}

/// Servers that may share a store without meeting the same id: six bits of the counter.
pub const SERVERS: u8 = 64;
/// The last of them is no server: its ids are made by SQL in an application's transaction.
pub const SQL_SERVER: u8 = SERVERS - 1;
const SERVER_SHIFT: u32 = 10;

impl IdSource {
    /// A source that goes on after `last`, the highest serial given out so far.
    pub const fn new(tag: StoreTag, last: u64) -> IdSource {
        IdSource { tag, last, server: None }
    }

    /// The same for one of several servers; each has a part of every millisecond's counter.
    pub const fn for_server(tag: StoreTag, last: u64, server: u8) -> IdSource {
        IdSource { tag, last, server: Some(server % SERVERS) }
    }

    /// The next id.
    pub fn next(&mut self, now: Timestamp) -> ItemId {
        self.last = match self.server {
            None => (now.0 << 16).max(self.last + 1),
            Some(server) => {
                let first_in = |ms: u64| ms << 16 | u64::from(server) << SERVER_SHIFT;
                let next = first_in(now.0).max(self.last + 1);
                let is_ours = next >> SERVER_SHIFT & u64::from(SERVERS - 1) == u64::from(server);
                // Out of its own part, or at the end of it: the next millisecond has another.
                if is_ours { next } else { first_in((self.last >> 16) + 1).max(first_in(now.0)) }
            }
        };
        ItemId::from_serial(self.last, self.tag)
    }

    /// Takes back a serial that nobody used, if it is the last that was given out.
    pub fn take_back(&mut self, serial: u64) {
        if self.last == serial {
            self.last = serial - 1;
        }
    }

    /// Takes note of an id that exists already.
    pub fn seen(&mut self, serial: u64) {
        self.last = self.last.max(serial);
    }

    /// The tag that all ids of this source carry.
    pub const fn tag(&self) -> StoreTag {
        self.tag
    }

    /// The highest serial given out.
    pub const fn last(&self) -> u64 {
        self.last
    }
}

/// The fence of a claim: sixteen random bytes that every write of its holder carries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u128);

/// What a caller names a request by, so that sending it again is harmless.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u128);

/// The text was not a UUID.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not an id: expected 32 hexadecimal digits, with or without dashes")]
pub struct NotAnId;

fn parse_hex(text: &str) -> Result<u128, NotAnId> {
    let mut value: u128 = 0;
    let mut digits = 0;
    for c in text.chars().filter(|c| *c != '-') {
        value = value << 4 | u128::from(c.to_digit(16).ok_or(NotAnId)?);
        digits += 1;
    }
    if digits == 32 { Ok(value) } else { Err(NotAnId) }
}

fn write_hex(value: u128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (a, b, c) = ((value >> 96) as u32, (value >> 80) as u16, (value >> 64) as u16);
    let (d, e) = ((value >> 48) as u16, value as u64 & 0xffff_ffff_ffff);
    write!(f, "{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
}

macro_rules! shown_as_uuid {
    ($($id:ident)*) => {$(
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(self.0, f)
            }
        }
        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(self.0, f)
            }
        }
        impl FromStr for $id {
            type Err = NotAnId;
            fn from_str(text: &str) -> Result<$id, NotAnId> {
                parse_hex(text).map($id)
            }
        }
    )*};
}

shown_as_uuid!(ItemId LeaseId RequestId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_version_7_uuid_that_gives_its_parts_back() {
        let tag = StoreTag::new(0x1234_5678_9abc_def0);
        let id = ItemId::from_serial(0x0123_4567_89ab_cdef, tag);
        assert_eq!(id.serial(), 0x0123_4567_89ab_cdef);
        assert_eq!(id.tag(), tag);
        assert_eq!(id.created_at(), Timestamp(0x0123_4567_89ab));
        let text = id.to_string();
        assert_eq!((&text[14..15], &text[19..20] >= "8", text.len()), ("7", true, 36));
        assert_eq!(text.parse(), Ok(id));
    }

    #[test]
    fn ids_rise_even_when_time_stands_still_or_runs_back() {
        let mut source = IdSource::new(StoreTag::new(7), 0);
        let mut last = source.next(Timestamp(1_000));
        for now in [1_000, 1_000, 999, 1, 1_001, 1_000] {
            let next = source.next(Timestamp(now));
            assert!(next > last);
            last = next;
        }
        assert_eq!(last.created_at(), Timestamp(1_001));
    }

    #[test]
    fn servers_that_share_a_store_never_make_the_same_id() {
        let sources = [0, 1, 63].map(|no| IdSource::for_server(StoreTag::new(7), 5 << 16, no));
        let mut seen = std::collections::BTreeSet::new();
        for mut source in sources {
            let mut last = ItemId(0);
            for now in [4, 5, 5, 6].into_iter().flat_map(|ms| [ms; 900]) {
                let next = source.next(Timestamp(now));
                assert!(next > last && seen.insert(next), "{next}");
                last = next;
            }
        }
    }

    #[test]
    fn an_id_that_somebody_else_got_since_is_not_given_out_again() {
        let mut source = IdSource::new(StoreTag::new(7), 0);
        let [mine, theirs, also_mine] = [(); 3].map(|()| source.next(Timestamp(9)));
        [also_mine, mine].iter().for_each(|id| source.take_back(id.serial()));
        let next = source.next(Timestamp(9));
        assert_eq!((next, next > theirs), (also_mine, true));
    }

    #[test]
    fn text_that_is_no_id_is_refused() {
        for text in ["", "12", "zz000000-0000-7000-8000-000000000000", "é"] {
            assert_eq!(text.parse::<ItemId>(), Err(NotAnId), "{text}");
        }
    }
}
