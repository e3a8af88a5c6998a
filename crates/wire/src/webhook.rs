//! Webhooks: who is told when items end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// Where to tell what.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct NewWebhook {
    /// An https address; http only where the server's configuration allows it.
    pub url: String,
    /// The queues whose items are meant; `*` for all.
    pub queues: Vec<String>,
    /// Whose items; everybody's if left out.
    #[serde(default)]
    pub tenants: Vec<String>,
    /// Which endings; all if left out.
    #[serde(default = "all")]
    pub endings: Vec<Ending>,
    #[serde(default = "yes")]
    pub enabled: bool,
    /// What deliveries are signed with, at least 16 characters. Left out, one is made for a new
    /// webhook and the one that an old webhook has is kept.
    #[serde(default, skip_serializing)]
    pub secret: Option<String>,
}

fn all() -> Vec<Ending> {
    vec![Ending::Completed, Ending::Failed, Ending::Cancelled, Ending::Skipped]
}

fn yes() -> bool {
    true
}

/// How an item ends.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    Completed,
    Failed,
    Cancelled,
    Skipped,
}

/// A webhook as it is shown.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Webhook {
    pub name: String,
    /// Rises whenever the webhook is written; for `If-Match`.
    pub revision: u64,
    pub url: String,
    pub queues: Vec<String>,
    pub tenants: Vec<String>,
    pub endings: Vec<Ending>,
    pub enabled: bool,
    /// The first digits of the SHA-256 of its secret.
    pub fingerprint: String,
    /// The secret itself, once: when the server made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// What is sent.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Told {
    /// `item.completed` and so on, or `test`.
    pub event: String,
    /// The item of this delivery: the same however often it is sent.
    pub delivery: String,
    pub webhook: String,
    /// When the item ended.
    pub at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<ToldItem>,
}

/// The item that ended.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct ToldItem {
    pub id: String,
    pub queue: String,
    pub tenant: String,
    pub status: String,
}

/// How a test went.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Tested {
    /// Whether the receiver took it.
    pub delivered: bool,
    /// What it answered.
    pub status: Option<u16>,
    /// What went wrong.
    pub error: Option<String>,
}
