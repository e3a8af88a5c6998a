//! What a worker tells of itself, and what its run came to.

use std::fmt;

use windrow_core::ItemId;
use windrow_core::queue::{Error, Refused};
use windrow_core::trail::Ending;

/// Something that an operator may want to know. Shows ids and codes, and no payloads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The queue does not answer; it is asked again until it does.
    Away(Error),
    /// It answers again.
    Back,
    /// An item is not ours any more: cancelled, or its lease was lost.
    Lost(ItemId),
    /// A handler panicked; its item is tried again.
    Panicked(ItemId, String),
    /// The queue does not take the outcome of an item.
    Refused(ItemId, Refused),
    /// Outcomes that could not be told in time; their items come back when their lease runs out.
    Untold { items: usize, error: Error },
    /// So many items were handed back because the worker stops, and of these so many were begun.
    HandedBack { items: usize, begun: usize },
    /// So many could not be handed back in time; they come back when their lease runs out.
    Left(usize),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Away(error) => {
                write!(f, "the queue does not answer, asking again: {}", error.why())
            }
            Event::Back => f.write_str("the queue answers again"),
            Event::Lost(item) => write!(f, "{item} is not ours any more: lost or cancelled"),
            Event::Panicked(item, text) => write!(f, "the handler of {item} panicked: {text}"),
            Event::Refused(item, why) => write!(f, "the outcome of {item} was refused: {why}"),
            Event::Untold { items, error } => {
                write!(f, "{items} outcomes could not be told: {error}")
            }
            Event::HandedBack { items, begun } => {
                write!(f, "handed back {items} items, {begun} of them begun")
            }
            Event::Left(items) => write!(f, "{items} items come back when their lease runs out"),
        }
    }
}

/// How many items were settled, by what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Endings([u64; Ending::ALL.len()]);

impl Endings {
    pub fn of(&self, ending: Ending) -> u64 {
        Ending::ALL.iter().zip(self.0).filter(|(of, _)| **of == ending).map(|(_, n)| n).sum()
    }

    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(super) fn count(&mut self, ending: Ending) {
        if let Some(at) = Ending::ALL.iter().position(|of| *of == ending) {
            self.0[at] += 1;
        }
    }
}

/// Such as `completed 3, failed 1`.
impl fmt::Display for Endings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (ending, count) in Ending::ALL.iter().zip(self.0) {
            if count > 0 {
                let comma = if first { "" } else { ", " };
                write!(f, "{comma}{} {count}", ending.name())?;
                first = false;
            }
        }
        if first { f.write_str("nothing") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_counted_by_their_names() {
        let mut endings = Endings::default();
        assert_eq!(endings.to_string(), "nothing");
        for ending in [Ending::Completed, Ending::Failed, Ending::Completed] {
            endings.count(ending);
        }
        assert_eq!(endings.to_string(), "completed 2, failed 1");
        assert_eq!((endings.of(Ending::Completed), endings.total()), (2, 3));
    }
}
