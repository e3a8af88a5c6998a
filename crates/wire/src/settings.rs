//! Settings of a queue. What is left out is as it is by default.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_core::{Refusal, settings};

use crate::bounds;

/// How a queue behaves: for all its items, with exceptions by stage and kind.
#[derive(Clone, PartialEq, Default, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    #[serde(flatten)]
    pub policy: Policy,
    /// Most items that wait or are worked on; enqueues beyond it are refused.
    pub live_max: Option<u64>,
    pub unique: Unique,
    pub retention: Retention,
    /// Nothing is kept of an item that completed.
    pub forget_completed: bool,
    pub stages: Vec<StageSettings>,
    pub kinds: Vec<KindSettings>,
}

/// How the work of a stage is handed out and tried again.
#[derive(Clone, PartialEq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(default)]
pub struct Policy {
    #[schemars(range(min = 1, max = 43_200_000))]
    pub lease_ms: u64,
    /// Attempts in all; 0 for as many as it takes.
    pub max_attempts: u16,
    pub backoff: Backoff,
    pub on_expiry: OnExpiry,
    /// Due retries come before first attempts of the same priority.
    pub retry_first: bool,
    /// Most items of one group that are worked on at once.
    pub group_limit: Option<u32>,
    /// A group is strictly first in, first out.
    pub ordered: bool,
    /// Releases and snoozes before they cost an attempt.
    pub deferrals_max: u16,
    /// The endpoint or model that the work needs.
    pub resource: Option<String>,
    /// Nothing is handed out while too much waits in a later stage.
    pub ahead: Option<Ahead>,
}

#[derive(Clone, PartialEq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct Ahead {
    pub stage: String,
    pub max: u64,
}

/// Exceptions for one stage: a policy of its own.
#[derive(Clone, PartialEq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct StageSettings {
    pub stage: String,
    #[serde(flatten)]
    pub policy: Policy,
}

/// Exceptions for one kind.
#[derive(Clone, PartialEq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct KindSettings {
    pub kind: String,
    pub lease_ms: u64,
}

/// How long a retry waits: doubling up to a cap.
#[derive(Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Backoff {
    pub base_ms: u64,
    pub cap_ms: u64,
    /// The same when a service that the work needs is down.
    pub slow_base_ms: u64,
    pub slow_cap_ms: u64,
}

/// How long ended items are kept. Trees count as one.
#[derive(Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Retention {
    pub max_age_ms: u64,
    pub max_per_tenant: u32,
}

/// What becomes of an item whose lease ran out.
#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub enum OnExpiry {
    /// It waits for its next attempt as after an error.
    #[default]
    Retry,
    /// It can be claimed again at once.
    Requeue,
    /// It fails.
    Fail,
}

/// Which items block their key.
#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Unique {
    /// Those that have not ended.
    #[default]
    Live,
    /// Those, and ended ones as long as they are kept.
    Retained,
}

/// What was said, and not left out.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Said {
    max_attempts: Option<u16>,
    kinds: Option<serde::de::IgnoredAny>,
    stages: Vec<StageSaid>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StageSaid {
    max_attempts: Option<u16>,
}

impl Settings {
    /// These settings, read from a text, with what it left out as a server assumes it of queues
    /// that nobody has configured.
    #[must_use]
    pub fn or_assumed(mut self, text: &[u8], assumed: &settings::Settings) -> Settings {
        // It was read as settings, so that it can be read as some of them.
        let said: Said = serde_json::from_slice(text).unwrap_or_default();
        let attempts = assumed.defaults.max_attempts;
        self.policy.max_attempts = said.max_attempts.unwrap_or(attempts);
        for (stage, said) in self.stages.iter_mut().zip(said.stages) {
            stage.policy.max_attempts = said.max_attempts.unwrap_or(attempts);
        }
        if said.kinds.is_none() {
            self.kinds = Settings::from(assumed.clone()).kinds;
        }
        self
    }

    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<(), Refusal> {
        self.policy.check()?;
        for (at, of) in self.stages.iter().enumerate() {
            bounds::plain("stages", &of.stage)?;
            if self.stages[..at].iter().any(|other| other.stage == of.stage) {
                return Err(Refusal::invalid("stages", format!("{:?} is there twice", of.stage)));
            }
            of.policy.check()?;
        }
        for (at, of) in self.kinds.iter().enumerate() {
            bounds::plain("kinds", &of.kind)?;
            if self.kinds[..at].iter().any(|other| other.kind == of.kind) {
                return Err(Refusal::invalid("kinds", format!("{:?} is there twice", of.kind)));
            }
            bounds::lease(Some(of.lease_ms))?;
        }
        Ok(())
    }
}

impl Policy {
    fn check(&self) -> Result<(), Refusal> {
        bounds::lease(Some(self.lease_ms))?;
        let Backoff { base_ms, cap_ms, slow_base_ms, slow_cap_ms } = self.backoff;
        if cap_ms < base_ms || slow_cap_ms < slow_base_ms {
            return Err(Refusal::invalid("backoff", "a cap must not be below its base"));
        }
        bounds::delay("backoff", Some(cap_ms.max(slow_cap_ms)))?;
        if self.group_limit == Some(0) {
            let why = "must be at least 1; pause the queue if nothing is to be handed out";
            return Err(Refusal::invalid("group_limit", why));
        }
        bounds::plain_if("resource", self.resource.as_deref())
    }
}

impl From<settings::Settings> for Settings {
    fn from(of: settings::Settings) -> Settings {
        let stage = |of: settings::StageSettings| StageSettings {
            stage: of.stage.to_string(),
            policy: of.policy.into(),
        };
        let kind = |of: settings::KindSettings| KindSettings {
            kind: of.kind.to_string(),
            lease_ms: of.lease_ms,
        };
        Settings {
            policy: of.defaults.into(),
            live_max: of.live_max,
            unique: match of.unique {
                settings::Unique::Live => Unique::Live,
                settings::Unique::Retained => Unique::Retained,
            },
            retention: Retention {
                max_age_ms: of.retention.max_age_ms,
                max_per_tenant: of.retention.max_per_tenant,
            },
            forget_completed: of.forget_completed,
            stages: of.stages.into_iter().map(stage).collect(),
            kinds: of.kinds.into_iter().map(kind).collect(),
        }
    }
}

impl From<Settings> for settings::Settings {
    fn from(of: Settings) -> settings::Settings {
        let stage = |of: StageSettings| settings::StageSettings {
            stage: of.stage.into(),
            policy: of.policy.into(),
        };
        let kind = |of: KindSettings| settings::KindSettings {
            kind: of.kind.into(),
            lease_ms: of.lease_ms,
        };
        settings::Settings {
            defaults: of.policy.into(),
            live_max: of.live_max,
            unique: match of.unique {
                Unique::Live => settings::Unique::Live,
                Unique::Retained => settings::Unique::Retained,
            },
            retention: settings::Retention {
                max_age_ms: of.retention.max_age_ms,
                max_per_tenant: of.retention.max_per_tenant,
            },
            forget_completed: of.forget_completed,
            stages: of.stages.into_iter().map(stage).collect(),
            kinds: of.kinds.into_iter().map(kind).collect(),
            // Said by whoever writes a webhook; what the queue has, it keeps.
            notify: Vec::new(),
        }
    }
}

impl From<settings::Policy> for Policy {
    fn from(of: settings::Policy) -> Policy {
        let settings::Backoff { base_ms, cap_ms, slow_base_ms, slow_cap_ms } = of.backoff;
        Policy {
            lease_ms: of.lease_ms,
            max_attempts: of.max_attempts,
            backoff: Backoff { base_ms, cap_ms, slow_base_ms, slow_cap_ms },
            on_expiry: match of.on_expiry {
                settings::OnExpiry::Retry => OnExpiry::Retry,
                settings::OnExpiry::Requeue => OnExpiry::Requeue,
                settings::OnExpiry::Fail => OnExpiry::Fail,
            },
            retry_first: of.retry_first,
            group_limit: of.group_limit,
            ordered: of.ordered,
            deferrals_max: of.deferrals_max,
            resource: of.resource.map(|name| name.to_string()),
            ahead: of.ahead.map(|ahead| Ahead { stage: ahead.stage.to_string(), max: ahead.max }),
        }
    }
}

impl From<Policy> for settings::Policy {
    fn from(of: Policy) -> settings::Policy {
        let Backoff { base_ms, cap_ms, slow_base_ms, slow_cap_ms } = of.backoff;
        settings::Policy {
            lease_ms: of.lease_ms,
            max_attempts: of.max_attempts,
            backoff: settings::Backoff { base_ms, cap_ms, slow_base_ms, slow_cap_ms },
            on_expiry: match of.on_expiry {
                OnExpiry::Retry => settings::OnExpiry::Retry,
                OnExpiry::Requeue => settings::OnExpiry::Requeue,
                OnExpiry::Fail => settings::OnExpiry::Fail,
            },
            retry_first: of.retry_first,
            group_limit: of.group_limit,
            ordered: of.ordered,
            deferrals_max: of.deferrals_max,
            resource: of.resource.map(Into::into),
            ahead: of.ahead.map(|a| settings::Ahead { stage: a.stage.into(), max: a.max }),
        }
    }
}

impl Default for Policy {
    fn default() -> Policy {
        settings::Policy::default().into()
    }
}

impl Default for Backoff {
    fn default() -> Backoff {
        Policy::default().backoff
    }
}

impl Default for Retention {
    fn default() -> Retention {
        let settings::Retention { max_age_ms, max_per_tenant } = settings::Retention::default();
        Retention { max_age_ms, max_per_tenant }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_as_it_is_by_default() {
        let read: Settings = serde_json::from_str("{}").expect("it is read");
        assert_eq!(settings::Settings::from(read), settings::Settings::default());
        let read: Settings =
            serde_json::from_str(r#"{"max_attempts":7,"stages":[{"stage":"ocr","lease_ms":9}]}"#)
                .expect("it is read");
        let read = settings::Settings::from(read);
        assert_eq!(read.defaults, settings::Policy { max_attempts: 7, ..Default::default() });
        let ocr = settings::Policy { lease_ms: 9, ..Default::default() };
        assert_eq!(read.stages, [settings::StageSettings { stage: "ocr".into(), policy: ocr }]);
    }

    #[test]
    fn what_is_left_out_is_as_the_server_assumes_it() {
        let kinds = vec![settings::KindSettings { kind: "page".into(), lease_ms: 5 }];
        let defaults = settings::Policy { max_attempts: 7, ..Default::default() };
        let assumed = settings::Settings { defaults, kinds, ..Default::default() };
        let read = |text: &str| {
            let read: Settings = serde_json::from_str(text).expect("it is read");
            settings::Settings::from(read.or_assumed(text.as_bytes(), &assumed))
        };
        assert_eq!(read("{}"), assumed);
        let stages = r#"[{"stage":"a"},{"stage":"b","max_attempts":0}]"#;
        let said = read(&format!(r#"{{"max_attempts":3,"kinds":[],"stages":{stages}}}"#));
        assert_eq!((said.defaults.max_attempts, said.kinds.len()), (3, 0));
        let of_stages = said.stages.iter().map(|of| of.policy.max_attempts);
        assert_eq!(of_stages.collect::<Vec<_>>(), [7, 0]);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut rich = settings::Settings { live_max: Some(9), ..Default::default() };
        rich.unique = settings::Unique::Retained;
        rich.defaults.on_expiry = settings::OnExpiry::Requeue;
        rich.defaults.ahead = Some(settings::Ahead { stage: "vector".into(), max: 3 });
        rich.kinds = vec![settings::KindSettings { kind: "page".into(), lease_ms: 5 }];
        let json = serde_json::to_string(&Settings::from(rich.clone())).expect("it is written");
        let read: Settings = serde_json::from_str(&json).expect("it is read");
        assert_eq!(settings::Settings::from(read), rich);
    }
}
