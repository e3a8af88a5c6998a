//! Events: what happened lately, in a ring.
//!
//! An event has an id `epoch:seq`. The epoch changes with every start, so whoever resumes from
//! before, or from further back than the ring reaches, is told to read everything again. Nothing
//! that must happen hangs on this.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use parking_lot::Mutex;
use tokio::sync::watch;
use windrow_core::ports::Happened;

/// The name of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventId {
    pub epoch: u64,
    pub seq: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.epoch, self.seq)
    }
}

/// The text was not an event id.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not an event id: expected epoch:seq")]
pub struct NotAnEventId;

impl FromStr for EventId {
    type Err = NotAnEventId;

    fn from_str(text: &str) -> Result<EventId, NotAnEventId> {
        let (epoch, seq) = text.split_once(':').ok_or(NotAnEventId)?;
        let number = |text: &str| text.parse().map_err(|_| NotAnEventId);
        Ok(EventId { epoch: number(epoch)?, seq: number(seq)? })
    }
}

/// One thing that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    pub id: EventId,
    pub happened: Happened,
}

/// What a resume gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resumed {
    Events(Vec<Event>),
    /// The ring does not reach back that far: read everything again, and go on from here.
    Reset {
        now: EventId,
    },
}

/// The last events.
#[derive(Debug)]
pub struct Ring {
    epoch: u64,
    size: usize,
    events: Mutex<VecDeque<Event>>,
    latest: watch::Sender<u64>,
}

impl Ring {
    /// An empty ring; `epoch` differs with every start.
    pub fn new(epoch: u64, size: usize) -> Ring {
        let events = Mutex::new(VecDeque::with_capacity(size.min(1_024)));
        Ring { epoch, size: size.max(1), events, latest: watch::Sender::new(0) }
    }

    pub(crate) fn push(&self, happened: &[Happened]) {
        let mut events = self.events.lock();
        let mut seq = *self.latest.borrow();
        for happened in happened {
            seq += 1;
            if events.len() == self.size {
                events.pop_front();
            }
            let id = EventId { epoch: self.epoch, seq };
            events.push_back(Event { id, happened: happened.clone() });
        }
        self.latest.send_replace(seq);
    }

    /// Something happened that nobody can tell: whoever resumes from before reads again.
    pub(crate) fn miss(&self) {
        let mut events = self.events.lock();
        events.clear();
        self.latest.send_modify(|seq| *seq += 1);
    }

    /// The newest event's id; sequence zero if there is none.
    pub fn latest(&self) -> EventId {
        EventId { epoch: self.epoch, seq: *self.latest.borrow() }
    }

    /// What happened after an event, or from the oldest that is known.
    pub fn after(&self, id: Option<EventId>) -> Resumed {
        match id {
            Some(id) => self.page(id, usize::MAX),
            None => Resumed::Events(self.events.lock().iter().cloned().collect()),
        }
    }

    /// What happened after an event, at most so much of it.
    pub fn page(&self, id: EventId, max: usize) -> Resumed {
        let events = self.events.lock();
        let latest = EventId { epoch: self.epoch, seq: *self.latest.borrow() };
        let oldest = events.front().map_or(latest.seq + 1, |event| event.id.seq);
        if id.epoch != self.epoch || id.seq.saturating_add(1) < oldest || id.seq > latest.seq {
            return Resumed::Reset { now: latest };
        }
        let skip = (id.seq + 1 - oldest) as usize;
        Resumed::Events(events.iter().skip(skip).take(max).cloned().collect())
    }

    /// Waits until something happened after this sequence number.
    pub async fn beyond(&self, seq: u64) {
        let mut latest = self.latest.subscribe();
        // The sender lives as long as the ring, so this ends only with news.
        let _news = latest.wait_for(|newest| *newest > seq).await;
    }
}

#[cfg(test)]
mod tests {
    use windrow_core::id::StoreTag;
    use windrow_core::{ItemId, Status, Timestamp};

    use super::*;

    fn happened(serial: u64) -> Happened {
        Happened {
            id: ItemId::from_serial(serial, StoreTag::default()),
            at: Timestamp(serial),
            queue: "q".into(),
            tenant: "t".into(),
            stage: 0,
            status: Status::Pending,
            event: None,
            in_stage: "work".into(),
            since: None,
        }
    }

    #[test]
    fn a_resume_gets_what_came_after_or_is_told_to_read_again() {
        let ring = Ring::new(7, 3);
        ring.push(&[happened(1), happened(2), happened(3), happened(4)]);
        let seqs = |resumed| match resumed {
            Resumed::Events(events) => events.iter().map(|event| event.id.seq).collect(),
            Resumed::Reset { .. } => vec![],
        };
        let id = |epoch, seq| Some(EventId { epoch, seq });
        assert_eq!(seqs(ring.after(None)), [2, 3, 4]);
        assert_eq!(seqs(ring.after(id(7, 2))), [3, 4]);
        assert_eq!(seqs(ring.after(id(7, 1))), [2, 3, 4]);
        assert_eq!(ring.after(id(7, 4)), Resumed::Events(vec![]));
        let now = EventId { epoch: 7, seq: 4 };
        for lost in [id(7, 0), id(6, 3), id(7, 9)] {
            assert_eq!(ring.after(lost), Resumed::Reset { now });
        }
        assert_eq!(seqs(ring.page(EventId { epoch: 7, seq: 1 }, 2)), [2, 3]);
        assert_eq!(ring.after(id(7, u64::MAX)), Resumed::Reset { now });
        ring.miss();
        let now = EventId { epoch: 7, seq: 5 };
        for lost in [id(7, 3), id(7, 4)] {
            assert_eq!(ring.after(lost), Resumed::Reset { now });
        }
        assert_eq!(ring.after(Some(now)), Resumed::Events(vec![]));
        ring.push(&[happened(6)]);
        assert_eq!(seqs(ring.after(Some(now))), [6]);
        let now = EventId { epoch: 7, seq: 4 };
        assert_eq!("7:4".parse(), Ok(now));
        assert_eq!("7-4".parse::<EventId>(), Err(NotAnEventId));
    }
}
