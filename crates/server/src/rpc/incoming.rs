//! Messages out of a stream of bytes.
//!
//! A message that is too large is refused when its head has been read, before anybody makes room
//! for it.

use capnp::message::ReaderOptions;
use capnp::serialize;
use windrow_wire::rpc::{MESSAGE_MAX, frame};

use super::vat::{End, Heard};

/// How often a message may be read as a whole: pointers may lead to the same place many times.
const TRAVERSALS: u64 = 2;
/// How deep the structs of a message may lie in each other.
const NESTING_MAX: i32 = 32;
/// Room that stays for a message that arrives in parts.
const KEPT: usize = 64 * 1024;

/// What arrived of a message that is not whole yet.
#[derive(Debug)]
pub(super) struct Incoming {
    part: Vec<u8>,
    options: ReaderOptions,
}

impl Incoming {
    pub(super) fn new() -> Incoming {
        let mut options = ReaderOptions::new();
        options.traversal_limit_in_words(Some((MESSAGE_MAX / 8 * TRAVERSALS) as usize));
        options.nesting_limit(NESTING_MAX);
        Incoming { part: Vec::new(), options }
    }

    pub(super) fn is_between(&self) -> bool {
        self.part.is_empty()
    }

    /// Takes bytes that arrived, and gives the messages that they complete.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        mut hear: impl FnMut(Heard) -> Result<(), End>,
    ) -> Result<(), End> {
        if self.part.is_empty() {
            let taken = self.whole(bytes, &mut hear)?;
            self.part.extend_from_slice(&bytes[taken..]);
            return Ok(());
        }
        self.part.extend_from_slice(bytes);
        let part = std::mem::take(&mut self.part);
        let taken = self.whole(&part, &mut hear)?;
        self.part = part;
        self.part.drain(..taken);
        if self.part.is_empty() {
            self.part.shrink_to(KEPT);
        }
        Ok(())
    }

    /// Gives the messages that are whole; says how many bytes they took.
    fn whole(
        &self,
        bytes: &[u8],
        hear: &mut impl FnMut(Heard) -> Result<(), End>,
    ) -> Result<usize, End> {
        let mut rest = bytes;
        while let Some(length) = frame::length(rest, MESSAGE_MAX).map_err(End::Ours)? {
            let Some(mut message) = rest.get(..length) else { break };
            rest = &rest[length..];
            hear(serialize::read_message(&mut message, self.options)?)?;
        }
        Ok(bytes.len() - rest.len())
    }
}
