//! The bodies of answers, read into what the port gives. What a newer server adds is not minded.

mod item;
mod text;
mod work;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Result;
use windrow_core::command::{Cancelled, EnqueueOutcome, Enqueued, Renewed, Retried, Settled};
use windrow_core::ports::Count;
use windrow_core::queue::{Each, Explained, Refused, Why};
use windrow_core::trail::Ending;
use windrow_core::{ItemId, Status};
use windrow_wire::time::Time;

use self::text::{Parsed, Text, named};

pub(super) use self::item::{item, page};
pub(super) use self::work::granted;

/// One answer of many: what it is if it was done, or why it was not.
#[derive(Deserialize)]
struct One<'a> {
    #[serde(borrow)]
    error: Option<Text<'a>>,
    detail: Option<Text<'a>>,
    retry_after_ms: Option<u64>,
    id: Option<Parsed<ItemId>>,
    outcome: Option<Text<'a>>,
    ending: Option<Text<'a>>,
}

/// Answers in the order of the questions.
fn each<'a, T>(body: &'a [u8], done: impl Fn(&One<'a>) -> Result<T>) -> Result<Vec<Each<T>>> {
    let answers: Vec<One<'a>> = serde_json::from_slice(body)?;
    let answers = answers.into_iter().map(|one| match &one.error {
        Some(code) => Ok(Err(Refused {
            code: Cow::Owned(code.0.to_string()),
            message: one.detail.map(|detail| detail.0.into_owned()).unwrap_or_default(),
            retry_after_ms: one.retry_after_ms,
        })),
        None => done(&one).map(Ok),
    });
    answers.collect()
}

fn missing<T>(field: &str) -> Result<T> {
    Err(serde::de::Error::custom(format!("{field} is missing")))
}

pub(super) fn enqueued(body: &[u8]) -> Result<Vec<Each<Enqueued>>> {
    each(body, |one| {
        let (Some(id), Some(outcome)) = (&one.id, &one.outcome) else { return missing("id") };
        let outcome = match &*outcome.0 {
            "created" => EnqueueOutcome::Created,
            "duplicate" => EnqueueOutcome::Duplicate,
            "replaced" => EnqueueOutcome::Replaced,
            "successor" => EnqueueOutcome::Successor,
            _ => return missing("a known outcome"),
        };
        Ok(Enqueued { id: id.0, outcome })
    })
}

pub(super) fn settled(body: &[u8]) -> Result<Vec<Each<Settled>>> {
    each(body, |one| {
        let (Some(id), Some(ending)) = (&one.id, &one.ending) else { return missing("id") };
        Ok(Settled { id: id.0, ending: named("ending", &ending.0, Ending::parse)? })
    })
}

pub(super) fn progressed(body: &[u8]) -> Result<Vec<Each<()>>> {
    each(body, |_| Ok(()))
}

pub(super) fn renewed(body: &[u8]) -> Result<Renewed> {
    #[derive(Deserialize)]
    struct Body {
        expires_at: Time,
        held: Vec<Parsed<ItemId>>,
    }
    let Body { expires_at, held } = serde_json::from_slice(body)?;
    let held = held.into_iter().map(|Parsed(id)| id).collect();
    Ok(Renewed { expires_at: expires_at.0, held })
}

pub(super) fn cancelled(body: &[u8]) -> Result<Cancelled> {
    #[derive(Deserialize)]
    struct Body {
        id: Parsed<ItemId>,
        ongoing: bool,
    }
    let Body { id, ongoing } = serde_json::from_slice(body)?;
    Ok(Cancelled { id: id.0, ongoing })
}

pub(super) fn retried(body: &[u8]) -> Result<Retried> {
    #[derive(Deserialize)]
    struct Body {
        id: Parsed<ItemId>,
        reset: u32,
        #[serde(default)]
        cloned: bool,
    }
    let Body { id, reset, cloned } = serde_json::from_slice(body)?;
    Ok(Retried { id: id.0, reset: reset.max(u32::from(cloned)), more: false })
}

pub(super) fn removed(body: &[u8]) -> Result<u32> {
    #[derive(Deserialize)]
    struct Body {
        removed: u32,
    }
    serde_json::from_slice(body).map(|Body { removed }| removed)
}

pub(super) fn explained(body: &[u8]) -> Result<Explained> {
    #[derive(Deserialize)]
    struct Body<'a> {
        id: Parsed<ItemId>,
        #[serde(borrow)]
        status: Text<'a>,
        reasons: Vec<Reason>,
    }
    #[derive(Deserialize)]
    struct Reason {
        code: String,
        unblocked_by: String,
    }
    let body: Body<'_> = serde_json::from_slice(body)?;
    let status = named("status", &body.status.0, Status::parse)?;
    let why =
        |reason: Reason| Why { code: Cow::Owned(reason.code), unblocked_by: reason.unblocked_by };
    let reasons = body.reasons.into_iter().map(why).collect();
    Ok(Explained { id: body.id.0, status, reasons })
}

pub(super) fn counts(body: &[u8]) -> Result<Vec<Count>> {
    #[derive(Deserialize)]
    struct Body {
        queues: Vec<Place>,
    }
    #[derive(Deserialize)]
    struct Place {
        queue: String,
        tenant: String,
        pending: u64,
        processing: u64,
        completed: u64,
        failed: u64,
        cancelled: u64,
        skipped: u64,
    }
    let body: Body = serde_json::from_slice(body)?;
    let mut counts = Vec::new();
    for place in body.queues {
        let (queue, tenant) = (place.queue.into(), place.tenant.into());
        let items = [
            (Status::Pending, place.pending),
            (Status::Processing, place.processing),
            (Status::Completed, place.completed),
            (Status::Failed, place.failed),
            (Status::Cancelled, place.cancelled),
            (Status::Skipped, place.skipped),
        ];
        let of = |(status, items)| Count {
            queue: std::sync::Arc::clone(&queue),
            tenant: std::sync::Arc::clone(&tenant),
            status,
            items,
        };
        counts.extend(items.into_iter().filter(|(_, items)| *items > 0).map(of));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_one_stands_beside_the_answers_of_others() {
        let id = "019a1e54-ab99-70c0-8368-704973772be1";
        let body = format!(
            r#"[{{"id":"{id}","outcome":"created","since":7}},
                {{"error":"queue_full","detail":"full","retry_after_ms":9}}]"#
        );
        let each = enqueued(body.as_bytes()).expect("it is read");
        assert_eq!(each[0].as_ref().map(|one| one.id.to_string()), Ok(id.to_owned()));
        let refused = each[1].as_ref().expect_err("the second");
        assert_eq!((&*refused.code, refused.retry_after_ms), ("queue_full", Some(9)));
        assert!(enqueued(br#"[{"outcome":"created"}]"#).is_err());
    }
}
