//! Requests: which were answered, and where their answers lie.

use std::collections::VecDeque;

use hashbrown::HashMap;
use windrow_core::limits::{REQUEST_KEPT_MS, REQUESTS_KEPT};
use windrow_core::{RequestId, Timestamp};

use crate::embedded::log::Loc;

/// Answered requests, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    known: HashMap<RequestId, (Loc, Timestamp)>,
    order: VecDeque<(Timestamp, RequestId)>,
    /// How many were forgotten; the number of the oldest.
    forgotten: u64,
}

impl Requests {
    /// Where the answer lies.
    pub(crate) fn find(&self, request: RequestId) -> Option<Loc> {
        self.known.get(&request).map(|(at, _)| *at)
    }

    /// Where the answer lies, if it is young enough to count.
    pub(crate) fn recall(&self, request: RequestId, now: Timestamp) -> Option<Loc> {
        let (at, when) = self.known.get(&request)?;
        (now.since(*when) <= REQUEST_KEPT_MS).then_some(*at)
    }

    /// Remembers an answer, and forgets those that are too old or too many.
    pub(crate) fn put(&mut self, request: RequestId, at: Loc, now: Timestamp) {
        self.known.insert(request, (at, now));
        self.order.push_back((now, request));
        while let Some((when, oldest)) = self.order.front()
            && (self.order.len() > REQUESTS_KEPT || now.since(*when) > REQUEST_KEPT_MS)
        {
            // It may have been answered anew since, after the first answer had lost its force.
            if self.known.get(oldest).is_some_and(|(_, answered)| answered == when) {
                self.known.remove(oldest);
            }
            self.order.pop_front();
            self.forgotten += 1;
        }
    }

    /// Says where a moved answer is now.
    pub(crate) fn relocate(&mut self, request: RequestId, at: Loc) {
        if let Some(known) = self.known.get_mut(&request) {
            known.0 = at;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Answers from a number on, at most `limit`, and the number after them.
    pub(crate) fn range(&self, from: u64, limit: usize) -> (u64, Vec<(Timestamp, RequestId, Loc)>) {
        let skip = from.saturating_sub(self.forgotten) as usize;
        let range = self.order.iter().skip(skip).take(limit);
        let found: Vec<_> =
            range.filter_map(|(at, id)| Some((*at, *id, self.known.get(id)?.0))).collect();
        (self.forgotten.max(from) + found.len() as u64, found)
    }
}
