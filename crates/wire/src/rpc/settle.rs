//! How attempts ended, and how far work is.

use capnp::struct_list;
use windrow_core::command::Outcome;
use windrow_core::{ItemId, Refusal, Timestamp, tally, trail};

use super::new::{self, Defaults};
use super::{Wrong, bytes, item_id};
use crate::queue_capnp::{Class, OnGaps, progress, settle};

/// An item and how the attempt at it ended. `tenant` is whom spawned items are for.
pub fn settled(
    item: settle::Reader<'_>,
    tenant: &str,
    now: Timestamp,
) -> Result<(ItemId, Outcome), Wrong> {
    let id = item_id(item.get_id()?)?;
    let outcome = match item.which()? {
        settle::Complete(complete) => Outcome::Complete {
            result: bytes!(complete, has_result, get_result),
            output: bytes!(complete, has_output, get_output),
            spawn: new::items(complete.get_spawn()?, &Defaults { queue: None, tenant }, now)?,
        },
        settle::Split(split) => Outcome::Split {
            children: new::children(split.get_children()?)?,
            more: split.get_more(),
            on_gaps: match split.get_on_gaps()? {
                OnGaps::Continue => tally::OnGaps::Continue,
                OnGaps::Stop => tally::OnGaps::Stop,
            },
            output: bytes!(split, has_output, get_output),
        },
        settle::Retry(retry) => Outcome::Retry {
            class: class(retry.get_class()?)?,
            message: retry.get_error()?.to_string()?,
            delay_ms: retry.get_delay_ms().try_into().ok(),
        },
        settle::Fail(fail) => Outcome::Fail {
            class: class(fail.get_class()?)?,
            message: fail.get_error()?.to_string()?,
        },
        settle::Skip(skip) => Outcome::Skip { reason: skip.get_reason()?.to_string()? },
        settle::Release(release) => Outcome::Release { delay_ms: release.get_delay_ms() },
        settle::Snooze(snooze) => Outcome::Snooze { until: Timestamp(snooze.get_until()) },
    };
    Ok((id, outcome))
}

/// An item and how far the work on it is.
pub fn progressed(item: progress::Reader<'_>) -> Result<(ItemId, trail::Progress), Wrong> {
    let message = item.get_message()?.to_string()?;
    let (current, total) = (item.get_current(), item.get_total());
    Ok((item_id(item.get_id()?)?, trail::Progress { current, total, message }))
}

/// A kind of error that a worker may name.
fn class(class: Class) -> Result<trail::Class, Refusal> {
    Ok(match class {
        Class::Gone => trail::Class::Gone,
        Class::BadData => trail::Class::BadData,
        Class::Resource => trail::Class::Resource,
        Class::Infrastructure => trail::Class::Infrastructure,
        Class::RateLimit => trail::Class::RateLimit,
        Class::Other => trail::Class::Other,
        Class::LeaseExpired | Class::Children | Class::Internal => {
            return Err(Refusal::invalid("class", "is one that only the queue itself may say"));
        }
    })
}

/// Answers in the order of the questions: some could not be read, the others are asked.
#[derive(Debug)]
pub struct Answers<T> {
    asked: Vec<T>,
    refused: Vec<Option<Wrong>>,
}

impl<T> Answers<T> {
    pub fn new<'a, Q>(
        list: struct_list::Reader<'a, Q>,
        read: impl Fn(Q::Reader<'a>) -> Result<T, Wrong>,
    ) -> Answers<T>
    where
        Q: capnp::traits::OwnedStruct,
    {
        let len = list.len() as usize;
        let (mut asked, mut refused) = (Vec::with_capacity(len), Vec::with_capacity(len));
        for question in list {
            refused.push(match read(question) {
                Ok(one) => {
                    asked.push(one);
                    None
                }
                Err(wrong) => Some(wrong),
            });
        }
        Answers { asked, refused }
    }

    pub fn take(&mut self) -> Vec<T> {
        std::mem::take(&mut self.asked)
    }

    /// How many there are to be.
    pub fn len(&self) -> u32 {
        self.refused.len() as u32
    }

    pub fn is_empty(&self) -> bool {
        self.refused.is_empty()
    }

    /// All of them, given those that were asked.
    pub fn with<C>(
        self,
        answers: Vec<Result<C, Refusal>>,
    ) -> impl Iterator<Item = Result<C, Wrong>> {
        let mut answers = answers.into_iter();
        self.refused.into_iter().map(move |refused| match refused {
            Some(wrong) => Err(wrong),
            None => answers.next().unwrap_or(Err(Refusal::Internal)).map_err(Wrong::from),
        })
    }
}
