//! How attempts ended.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_core::command;
use windrow_core::tally;
use windrow_core::trail;
use windrow_core::{Refusal, Timestamp};

use crate::bounds;
use crate::bytes::{Base64, Json};
use crate::new::{Child, NewItem};
use crate::object::Object;
use crate::time::Time;

#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct Settle {
    pub items: Vec<Object<SettleItem>>,
}

/// An item, and how the attempt at it ended. Which fields there are depends on the outcome.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct SettleItem {
    pub id: String,
    pub outcome: Outcome,
    /// Complete: what stays with the item. For other bytes than JSON use `result_base64`.
    #[serde(default)]
    pub result: Option<Json>,
    #[serde(default)]
    pub result_base64: Option<Base64>,
    /// Complete, split: what goes to the next stage.
    #[serde(default)]
    pub output: Option<Json>,
    #[serde(default)]
    pub output_base64: Option<Base64>,
    /// Complete: items that are enqueued in the same commit, each with its queue.
    #[serde(default)]
    pub spawn: Vec<Object<NewItem>>,
    /// Split: the work is in these.
    #[serde(default)]
    pub children: Vec<Object<Child>>,
    /// Split: more of them follow; until then the lease is kept.
    #[serde(default)]
    pub more: bool,
    /// Split.
    #[serde(default)]
    pub on_gaps: OnGaps,
    /// Retry, fail: what went wrong.
    #[serde(default)]
    pub error: Option<String>,
    /// Retry, fail.
    #[serde(default)]
    pub class: Class,
    /// Skip.
    #[serde(default)]
    pub reason: Option<String>,
    /// Retry, release: how long to wait at least.
    #[serde(default)]
    pub delay_ms: Option<u64>,
    /// Snooze.
    #[serde(default)]
    pub until: Option<Time>,
}

/// How an attempt ended.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The stage is done.
    Complete,
    /// The work is in its children.
    Split,
    /// It went wrong and may be tried again.
    Retry,
    /// It went wrong for good.
    Fail,
    /// There is nothing to do in this stage.
    Skip,
    /// It was not tried. Costs no attempt.
    Release,
    /// It is to be tried later. Costs no attempt.
    Snooze,
}

/// Whether an item goes on when some of its children failed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub enum OnGaps {
    #[default]
    Continue,
    /// The item fails.
    Stop,
}

/// What kind of error it was. Decides whether and when it is tried again.
#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// What the item is about no longer exists. Never tried again.
    Gone,
    /// The item itself is wrong. Never tried again.
    BadData,
    /// Too little memory, disk or time here.
    Resource,
    /// A service that the work needs is down. Waits longer between attempts.
    Infrastructure,
    /// Asked to slow down. Costs no attempt.
    RateLimit,
    #[default]
    Other,
}

/// The bytes in one of two fields.
fn either(
    field: &'static str,
    json: Option<Json>,
    base64: Option<Base64>,
) -> Result<Option<Vec<u8>>, Refusal> {
    match (json, base64) {
        (Some(_), Some(_)) => Err(Refusal::invalid(field, "is given twice, as JSON and as base64")),
        (Some(json), None) => Ok(Some(json.into_bytes())),
        (None, base64) => Ok(base64.map(|bytes| bytes.0)),
    }
}

/// What an outcome cannot do without.
fn needed<T>(field: &'static str, value: Option<T>) -> Result<T, Refusal> {
    value.ok_or_else(|| Refusal::invalid(field, "is missing; this outcome needs it"))
}

impl SettleItem {
    /// Refuses what does not belong together, and times that cannot be meant.
    fn check(&self, now: Timestamp) -> Result<(), Refusal> {
        use Outcome::{Complete, Fail, Release, Retry, Skip, Snooze, Split};
        let given: [(&'static str, bool, &[Outcome]); 13] = [
            ("result", self.result.is_some(), &[Complete]),
            ("result_base64", self.result_base64.is_some(), &[Complete]),
            ("output", self.output.is_some(), &[Complete, Split]),
            ("output_base64", self.output_base64.is_some(), &[Complete, Split]),
            ("spawn", !self.spawn.is_empty(), &[Complete]),
            ("children", !self.children.is_empty(), &[Split]),
            ("more", self.more, &[Split]),
            ("on_gaps", self.on_gaps != OnGaps::default(), &[Split]),
            ("error", self.error.is_some(), &[Retry, Fail]),
            ("class", self.class != Class::default(), &[Retry, Fail]),
            ("reason", self.reason.is_some(), &[Skip]),
            ("delay_ms", self.delay_ms.is_some(), &[Retry, Release]),
            ("until", self.until.is_some(), &[Snooze]),
        ];
        for (field, is_given, outcomes) in given {
            if is_given && !outcomes.contains(&self.outcome) {
                return Err(Refusal::invalid(field, "does not belong to this outcome"));
            }
        }
        bounds::delay("delay_ms", self.delay_ms)?;
        match self.until {
            Some(Time(until)) if until <= now => {
                Err(Refusal::invalid("until", format!("{until} has passed")))
            }
            Some(Time(until)) => bounds::delay("until", Some(until.since(now)))
                .map_err(|_| Refusal::invalid("until", "is more than ten years away")),
            None => Ok(()),
        }
    }

    /// The outcome as the core takes it. What is spawned without a tenant is for `tenant`.
    pub fn into_core(self, tenant: &Arc<str>, now: Timestamp) -> Result<command::Outcome, Refusal> {
        self.check(now)?;
        let output = either("output", self.output, self.output_base64)?;
        Ok(match self.outcome {
            Outcome::Complete => command::Outcome::Complete {
                result: either("result", self.result, self.result_base64)?,
                output,
                spawn: self
                    .spawn
                    .into_iter()
                    .map(|Object(new)| {
                        let queue = needed("spawn.queue", new.queue.clone())?;
                        new.into_core(&queue.into(), tenant, now)
                    })
                    .collect::<Result<_, _>>()?,
            },
            Outcome::Split => command::Outcome::Split {
                children: self
                    .children
                    .into_iter()
                    .map(|Object(child)| child.into_core())
                    .collect::<Result<_, _>>()?,
                more: self.more,
                on_gaps: match self.on_gaps {
                    OnGaps::Continue => tally::OnGaps::Continue,
                    OnGaps::Stop => tally::OnGaps::Stop,
                },
                output,
            },
            Outcome::Retry => {
                let (class, message) = (self.class.into(), needed("error", self.error)?);
                command::Outcome::Retry { class, message, delay_ms: self.delay_ms }
            }
            Outcome::Fail => {
                let (class, message) = (self.class.into(), needed("error", self.error)?);
                command::Outcome::Fail { class, message }
            }
            Outcome::Skip => command::Outcome::Skip { reason: needed("reason", self.reason)? },
            Outcome::Release => {
                command::Outcome::Release { delay_ms: self.delay_ms.unwrap_or_default() }
            }
            Outcome::Snooze => command::Outcome::Snooze { until: needed("until", self.until)?.0 },
        })
    }
}

impl From<Class> for trail::Class {
    fn from(class: Class) -> trail::Class {
        match class {
            Class::Gone => trail::Class::Gone,
            Class::BadData => trail::Class::BadData,
            Class::Resource => trail::Class::Resource,
            Class::Infrastructure => trail::Class::Infrastructure,
            Class::RateLimit => trail::Class::RateLimit,
            Class::Other => trail::Class::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<command::Outcome, String> {
        let item: SettleItem = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let read = item.into_core(&"t".into(), Timestamp(7));
        read.map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn outcomes_are_named() {
        let complete = read(r#"{"id":"x","outcome":"complete"}"#);
        assert_eq!(complete, Ok(command::Outcome::complete()));
        let retry = read(r#"{"id":"x","outcome":"retry","error":"timeout","class":"resource"}"#);
        let class = trail::Class::Resource;
        let message = "timeout".to_owned();
        assert_eq!(retry, Ok(command::Outcome::Retry { class, message, delay_ms: None }));
        let spawn = r#"{"id":"x","outcome":"complete","result":{"n":1},
                        "spawn":[{"queue":"mail","payload":1}]}"#;
        let Ok(command::Outcome::Complete { result, spawn, .. }) = read(spawn) else {
            panic!("it is read")
        };
        assert_eq!(result.as_deref(), Some(&br#"{"n":1}"#[..]));
        assert_eq!((&*spawn[0].body.queue, &*spawn[0].body.tenant), ("mail", "t"));
    }

    #[test]
    fn what_is_no_outcome_is_refused() {
        for (json, why) in [
            (r#"{"id":"x"}"#, "missing field `outcome`"),
            (r#"{"id":"x","outcome":"done"}"#, "unknown variant `done`"),
            (r#"{"id":"x","outcome":"fail"}"#, "error: is missing"),
            (r#"{"id":"x","outcome":"fail","error":"e","class":"internal"}"#, "unknown variant"),
            (r#"{"id":"x","outcome":"complete","result":1,"result_base64":""}"#, "given twice"),
        ] {
            let said = read(json).expect_err(json);
            assert!(said.contains(why), "{json}: {said}");
        }
    }
}
