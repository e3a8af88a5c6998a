//! Acks: what a child reports of the store's answers, one line each, after they came.
//!
//! A line is written with one call, and lines are shorter than what a pipe takes at once, so a
//! child that dies leaves whole lines and at most one that is cut, which does not count.

use std::fmt::Write as _;

use windrow_core::command::EnqueueOutcome;
use windrow_core::trail::Ending;
use windrow_core::{End, ItemId, LeaseId, Timestamp};

use super::name::Name;

/// One report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ack {
    /// The store is open, after so many milliseconds.
    Opened {
        took_ms: u64,
    },
    /// A batch is about to be enqueued under a request id. Not an ack: it may or may not happen.
    Asked {
        first: Name,
        len: usize,
    },
    /// A batch was enqueued; what was refused is none.
    Enqueued {
        first: Name,
        by_request: bool,
        items: Vec<Option<(ItemId, EnqueueOutcome)>>,
    },
    /// A batch is durable, says a child that does not wait for the answer: the control.
    Pretended {
        first: Name,
        len: usize,
    },
    Claimed {
        lease: LeaseId,
        items: Vec<Taken>,
    },
    Renewed {
        lease: LeaseId,
    },
    Settled {
        lease: LeaseId,
        items: Vec<Ended>,
    },
    /// A batch was not enqueued, says the store; so nothing of it exists.
    Declined {
        first: Name,
        len: usize,
    },
    /// The store does not know what became of a command, which can be asked again or not.
    Unknown {
        by_request: bool,
    },
    /// Items of limited groups are in the hands of a worker, from then until then at the latest.
    Holding {
        lease: LeaseId,
        from: Timestamp,
        until: Timestamp,
        items: Vec<(ItemId, String)>,
    },
    /// Items are about to be settled: from now on their groups may have room.
    Leaving {
        lease: LeaseId,
        at: Timestamp,
        items: Vec<ItemId>,
    },
    /// Nothing is under way, until the parent says so.
    Halted,
    /// The store stopped. Expected only when it lost its disk.
    Stopped(String),
    /// Something that must never be.
    Wrong(String),
}

/// An item that was handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    pub id: ItemId,
    pub name: Name,
    pub attempt: u16,
}

/// An attempt that was settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    pub id: ItemId,
    pub ending: Ending,
    /// How the item ended, if this was its last attempt.
    pub end: Option<End>,
    pub slice: Slice,
}

/// What a settle did to the children of its item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slice {
    /// It was about something else.
    None,
    /// It created some, and the lease goes on for the others.
    More,
    /// Now all of them exist.
    All,
}

const OUTCOMES: [(EnqueueOutcome, &str); 4] = [
    (EnqueueOutcome::Created, "c"),
    (EnqueueOutcome::Duplicate, "d"),
    (EnqueueOutcome::Replaced, "r"),
    (EnqueueOutcome::Successor, "s"),
];

const ENDINGS: [(Ending, &str); 7] = [
    (Ending::Completed, "c"),
    (Ending::Split, "p"),
    (Ending::Retried, "r"),
    (Ending::Failed, "f"),
    (Ending::Skipped, "k"),
    (Ending::Released, "l"),
    (Ending::Snoozed, "z"),
];

const ENDS: [(Option<End>, &str); 5] = [
    (None, "-"),
    (Some(End::Completed), "c"),
    (Some(End::Failed), "f"),
    (Some(End::Cancelled), "x"),
    (Some(End::Skipped), "k"),
];

const SLICES: [(Slice, &str); 3] = [(Slice::None, "-"), (Slice::More, "m"), (Slice::All, "a")];

fn word<T: PartialEq>(table: &[(T, &'static str)], value: &T) -> &'static str {
    table.iter().find(|(known, _)| known == value).map_or("?", |(_, word)| word)
}

fn value<T: Copy>(table: &[(T, &str)], word: &str) -> Option<T> {
    table.iter().find(|(_, known)| *known == word).map(|(value, _)| *value)
}

impl Ack {
    /// The line, with its end.
    pub fn line(&self) -> String {
        let mut line = String::new();
        let _strings_take_everything = self.write(&mut line);
        line.push('\n');
        line
    }

    fn write(&self, to: &mut String) -> std::fmt::Result {
        match self {
            Ack::Opened { took_ms } => write!(to, "O {took_ms}"),
            Ack::Asked { first, len } => write!(to, "A {:x} {len}", first.root),
            Ack::Pretended { first, len } => write!(to, "P {:x} {len}", first.root),
            Ack::Enqueued { first, by_request, items } => {
                write!(to, "E {} {:x}", if *by_request { "q" } else { "-" }, first.root)?;
                items.iter().try_for_each(|item| match item {
                    Some((id, outcome)) => write!(to, " {}:{:x}", word(&OUTCOMES, outcome), id.0),
                    None => write!(to, " !"),
                })
            }
            Ack::Claimed { lease, items } => {
                write!(to, "C {:x}", lease.0)?;
                items.iter().try_for_each(|Taken { id, name, attempt }| {
                    write!(to, " {:x}:{:x}:{:x}:{attempt}", id.0, name.root, name.path)
                })
            }
            Ack::Renewed { lease } => write!(to, "R {:x}", lease.0),
            Ack::Settled { lease, items } => {
                write!(to, "S {:x}", lease.0)?;
                items.iter().try_for_each(|Ended { id, ending, end, slice }| {
                    let (ending, end) = (word(&ENDINGS, ending), word(&ENDS, end));
                    write!(to, " {:x}:{ending}:{end}:{}", id.0, word(&SLICES, slice))
                })
            }
            Ack::Declined { first, len } => write!(to, "D {:x} {len}", first.root),
            Ack::Unknown { by_request } => write!(to, "U {}", if *by_request { "q" } else { "-" }),
            Ack::Holding { lease, from, until, items } => {
                write!(to, "H {:x} {} {}", lease.0, from.0, until.0)?;
                items.iter().try_for_each(|(id, place)| write!(to, " {:x}:{place}", id.0))
            }
            Ack::Leaving { lease, at, items } => {
                write!(to, "L {:x} {}", lease.0, at.0)?;
                items.iter().try_for_each(|id| write!(to, " {:x}", id.0))
            }
            Ack::Halted => write!(to, "T -"),
            Ack::Stopped(why) => write!(to, "Z {}", why.replace('\n', " ")),
            Ack::Wrong(what) => write!(to, "X {}", what.replace('\n', " ")),
        }
    }

    /// Reads a line without its end.
    pub fn parse(line: &str) -> Option<Ack> {
        let (kind, rest) = line.split_once(' ')?;
        let mut words = rest.split(' ');
        Some(match kind {
            "O" => Ack::Opened { took_ms: words.next()?.parse().ok()? },
            "A" => Ack::Asked { first: root(words.next()?)?, len: words.next()?.parse().ok()? },
            "P" => Ack::Pretended { first: root(words.next()?)?, len: words.next()?.parse().ok()? },
            "E" => {
                let by_request = words.next()? == "q";
                let first = root(words.next()?)?;
                let items = words.map(enqueued).collect::<Option<_>>()?;
                Ack::Enqueued { first, by_request, items }
            }
            "C" => Ack::Claimed {
                lease: LeaseId(hex(words.next()?)?),
                items: words.map(taken).collect::<Option<_>>()?,
            },
            "R" => Ack::Renewed { lease: LeaseId(hex(words.next()?)?) },
            "S" => Ack::Settled {
                lease: LeaseId(hex(words.next()?)?),
                items: words.map(ended).collect::<Option<_>>()?,
            },
            "D" => Ack::Declined { first: root(words.next()?)?, len: words.next()?.parse().ok()? },
            "U" => Ack::Unknown { by_request: words.next()? == "q" },
            "H" => Ack::Holding {
                lease: LeaseId(hex(words.next()?)?),
                from: Timestamp(words.next()?.parse().ok()?),
                until: Timestamp(words.next()?.parse().ok()?),
                items: words.map(placed).collect::<Option<_>>()?,
            },
            "L" => Ack::Leaving {
                lease: LeaseId(hex(words.next()?)?),
                at: Timestamp(words.next()?.parse().ok()?),
                items: words.map(|word| hex(word).map(ItemId)).collect::<Option<_>>()?,
            },
            "T" => Ack::Halted,
            "Z" => Ack::Stopped(rest.to_owned()),
            "X" => Ack::Wrong(rest.to_owned()),
            _ => return None,
        })
    }

    /// How many answers of the store this line vouches for.
    pub fn weight(&self) -> u64 {
        match self {
            Ack::Enqueued { items, .. } => items.iter().flatten().count() as u64,
            Ack::Claimed { items, .. } => items.len() as u64,
            Ack::Settled { items, .. } => items.len() as u64,
            Ack::Pretended { len, .. } => *len as u64,
            Ack::Renewed { .. } => 1,
            _ => 0,
        }
    }
}

fn hex(word: &str) -> Option<u128> {
    u128::from_str_radix(word, 16).ok()
}

fn root(word: &str) -> Option<Name> {
    u64::from_str_radix(word, 16).ok().map(|root| Name { root, path: 0 })
}

#[expect(clippy::option_option, reason = "none is a malformed word, some none a refused item")]
fn enqueued(word: &str) -> Option<Option<(ItemId, EnqueueOutcome)>> {
    if word == "!" {
        return Some(None);
    }
    let (outcome, id) = word.split_once(':')?;
    Some(Some((ItemId(hex(id)?), value(&OUTCOMES, outcome)?)))
}

fn taken(word: &str) -> Option<Taken> {
    let mut parts = word.split(':');
    let id = ItemId(hex(parts.next()?)?);
    let root = u64::from_str_radix(parts.next()?, 16).ok()?;
    let path = u32::from_str_radix(parts.next()?, 16).ok()?;
    let attempt = parts.next()?.parse().ok()?;
    Some(Taken { id, name: Name { root, path }, attempt })
}

fn placed(word: &str) -> Option<(ItemId, String)> {
    let (id, place) = word.split_once(':')?;
    Some((ItemId(hex(id)?), place.to_owned()))
}

fn ended(word: &str) -> Option<Ended> {
    let mut parts = word.split(':');
    Some(Ended {
        id: ItemId(hex(parts.next()?)?),
        ending: value(&ENDINGS, parts.next()?)?,
        end: value(&ENDS, parts.next()?)?,
        slice: value(&SLICES, parts.next()?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_was_acknowledged() {
        let (id, lease) = (ItemId(77), LeaseId(u128::MAX));
        let name = Name::root(255, 9, 12);
        let all = [
            Ack::Opened { took_ms: 12 },
            Ack::Asked { first: name, len: 20 },
            Ack::Pretended { first: name, len: 1 },
            Ack::Enqueued {
                first: name,
                by_request: true,
                items: vec![Some((id, EnqueueOutcome::Replaced)), None],
            },
            Ack::Claimed { lease, items: vec![Taken { id, name: name.child(3), attempt: 4 }] },
            Ack::Renewed { lease },
            Ack::Settled {
                lease,
                items: vec![
                    Ended { id, ending: Ending::Split, end: None, slice: Slice::More },
                    Ended {
                        id,
                        ending: Ending::Failed,
                        end: Some(End::Failed),
                        slice: Slice::None,
                    },
                ],
            },
            Ack::Declined { first: name, len: 3 },
            Ack::Unknown { by_request: true },
            Ack::Holding {
                lease,
                from: Timestamp(5),
                until: Timestamp(9),
                items: vec![(id, "q/s/t/g".to_owned())],
            },
            Ack::Leaving { lease, at: Timestamp(7), items: vec![id] },
            Ack::Halted,
            Ack::Stopped("no disk".to_owned()),
            Ack::Wrong("two lines".to_owned()),
        ];
        for ack in all {
            let line = ack.line();
            let line = line.strip_suffix('\n').expect("a line ends");
            assert_eq!(Ack::parse(line), Some(ack), "{line}");
        }
        for cut in ["", "E", "C zz", "S 1 2:c", "E - 1f q:2", "Q 1"] {
            assert_eq!(Ack::parse(cut), None, "{cut}");
        }
    }
}
