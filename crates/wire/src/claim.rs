//! Claims, renewals and progress.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_core::Refusal;
use windrow_core::command;
use windrow_core::ports::Work as CoreWork;
use windrow_core::trail;

use crate::bounds;
use crate::bytes::{Base64, Json, shown};
use crate::item::{Payload, routed};
use crate::object::Object;
use crate::time::Time;

/// A worker asks for work.
#[derive(Clone, Default, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Claim {
    /// Queues to take from; all but `windrow.webhooks` and `documents` if none is named. Of stages,
    /// kinds and tenants all, if none is named.
    pub queues: Vec<String>,
    pub stages: Vec<String>,
    pub kinds: Vec<String>,
    pub tenants: Vec<String>,
    /// How many items at most, up to 1,000; one by default.
    #[schemars(range(min = 1, max = 1000))]
    pub max: Option<u32>,
    /// How long the lease lasts, up to twelve hours; by default as the queue's settings say.
    #[schemars(range(min = 1, max = 43_200_000))]
    pub lease_ms: Option<u64>,
    /// How long to wait for work if there is none, up to a minute.
    #[schemars(range(max = 60_000))]
    pub wait_ms: u64,
    /// Who asks, as others see it; `unnamed` if nothing is said.
    pub worker: String,
}

/// A lease over what was claimed; none if there was nothing.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Granted {
    pub lease: Option<String>,
    pub expires_at: Option<Time>,
    pub items: Vec<Work>,
}

impl Granted {
    pub fn nothing() -> Granted {
        Granted { lease: None, expires_at: None, items: Vec::new() }
    }
}

/// What a worker gets.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Work {
    pub id: String,
    pub tenant: String,
    pub queue: String,
    pub kind: String,
    pub op: String,
    /// The stage that is to be done.
    pub stage: String,
    pub route: Vec<String>,
    /// Which attempt of this stage it is.
    pub attempt: u16,
    pub priority: u8,
    #[serde(flatten)]
    pub payload: Payload,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_info: Option<String>,
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
    /// The output of the stage before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_base64: Option<Base64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Of a child: its number among its siblings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<u32>,
    pub created_at: Time,
}

/// More time for a lease.
#[derive(Clone, Default, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Renew {
    /// How long from now on, up to twelve hours; by default as long as it was granted for.
    #[schemars(range(min = 1, max = 43_200_000))]
    pub lease_ms: Option<u64>,
}

#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Renewed {
    pub expires_at: Time,
    /// What the lease still holds. What is missing was settled, cancelled or lost.
    pub held: Vec<String>,
}

/// How far work is.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    pub id: String,
    pub current: u64,
    pub total: u64,
    #[serde(default)]
    pub message: String,
}

#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct ProgressOf {
    pub items: Vec<Object<Progress>>,
}

impl Claim {
    /// Refuses what would be cut down without a word.
    pub fn check(&self) -> Result<(), Refusal> {
        bounds::claimed(self.max)?;
        bounds::lease(self.lease_ms)?;
        bounds::wait(self.wait_ms)?;
        bounds::plain("worker", &self.worker)?;
        for (field, names) in [
            ("queues", &self.queues),
            ("stages", &self.stages),
            ("kinds", &self.kinds),
            ("tenants", &self.tenants),
        ] {
            names.iter().try_for_each(|name| bounds::plain(field, name))?;
        }
        Ok(())
    }

    pub fn into_core(self) -> command::Claim {
        let names = |names: Vec<String>| names.into_iter().map(Arc::from).collect();
        command::Claim {
            worker: self.worker.into(),
            queues: names(self.queues),
            stages: names(self.stages),
            kinds: names(self.kinds),
            tenants: names(self.tenants),
            max: self.max.unwrap_or(1) as usize,
            lease_ms: self.lease_ms,
        }
    }
}

impl Renew {
    /// Refuses what would be cut down without a word.
    pub fn check(&self) -> Result<(), Refusal> {
        bounds::lease(self.lease_ms)
    }
}

impl Progress {
    pub fn into_core(self) -> trail::Progress {
        let Progress { current, total, message, .. } = self;
        trail::Progress { current, total, message }
    }
}

impl From<command::Grant<CoreWork>> for Granted {
    fn from(grant: command::Grant<CoreWork>) -> Granted {
        Granted {
            lease: Some(grant.lease.to_string()),
            expires_at: Some(grant.expires_at.into()),
            items: grant.items.into_iter().map(Work::from).collect(),
        }
    }
}

impl From<CoreWork> for Work {
    fn from(work: CoreWork) -> Work {
        let CoreWork { item, body, stage, input } = work;
        let (input, input_base64) = input.map_or((None, None), shown);
        let text = |text: Option<Arc<str>>| text.map(|text| text.to_string());
        Work {
            id: item.id.to_string(),
            tenant: body.tenant.to_string(),
            queue: body.queue.to_string(),
            kind: body.kind.to_string(),
            op: body.op.to_string(),
            stage: stage.to_string(),
            route: routed(&body.route),
            attempt: item.attempts,
            priority: item.priority,
            payload: Payload::new(body.payload, body.content_type),
            key: body.key,
            group: text(body.group),
            collection: text(body.collection),
            branch: text(body.branch),
            source_type: text(body.source_type),
            source_info: body.source_info,
            reference: body.reference,
            metadata: body.metadata.as_deref().and_then(Json::of),
            input,
            input_base64,
            parent: item.place.map(|place| place.parent.to_string()),
            ordinal: item.place.map(|place| place.number()),
            created_at: item.id.created_at().into(),
        }
    }
}

impl From<command::Renewed> for Renewed {
    fn from(renewed: command::Renewed) -> Renewed {
        let held = renewed.held.iter().map(ToString::to_string).collect();
        Renewed { expires_at: renewed.expires_at.into(), held }
    }
}
