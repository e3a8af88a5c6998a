//! Lists of items: pages, and what a row shows.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_core::Refusal;
use windrow_core::find::{self, Text};
use windrow_core::item::{State, Status};
use windrow_core::limits::{NAME_MAX, TEXT_MAX};
use windrow_core::text::fits;

use crate::item::{Children, Error, Progress};
use crate::time::Time;

/// What a list is narrowed by, as it was said.
#[derive(Clone, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Filter {
    /// Statuses, separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(alias = "user_id", skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_type: Option<String>,
    /// A text in key, kind, source_info or error, or the beginning of an id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
}

impl Filter {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    /// The filter. What is empty is as if it was not given, as forms send it.
    pub fn to_core(&self) -> Result<find::Filter, Refusal> {
        let name = |field, name: &Option<String>| match name.as_deref() {
            None | Some("") => Ok(None),
            Some(name) => fits(field, name, NAME_MAX).map(|()| Some(Arc::from(name))),
        };
        let text = self.q.as_deref().filter(|text| !text.is_empty());
        text.map_or(Ok(()), |text| fits("q", text, TEXT_MAX))?;
        Ok(find::Filter {
            statuses: statuses(self.status.as_deref().unwrap_or_default())?,
            split_is_processing: false,
            queue: name("queue", &self.queue)?,
            stage: name("stage", &self.stage)?,
            kind: name("kind", &self.kind)?,
            tenant: name("tenant", &self.tenant)?,
            collection: name("collection", &self.collection)?,
            branch: name("branch", &self.branch)?,
            source_type: name("source_type", &self.source_type)?,
            text: text.map(Text::new),
        })
    }
}

/// Statuses, separated by commas, each by our word or a seed's.
fn statuses(said: &str) -> Result<Vec<Status>, Refusal> {
    let words = said.split(',').map(str::trim).filter(|word| !word.is_empty());
    let read = |word: &str| {
        let known = Status::ALL.map(Status::name).join(", ");
        let why = format!("it is no status; the statuses are {known}");
        Status::parse(word).ok_or_else(|| Refusal::invalid("status", why))
    };
    words.map(read).collect()
}

/// A page of a list, newest first.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Page {
    pub items: Vec<Row>,
    /// The cursor with which the list goes on; null at its end.
    pub next: Option<String>,
    /// The time for a search was over before the page was full: there may be more after `next`.
    pub partial: bool,
}

/// An item in a list. Payload, metadata, result, stages and attempts are shown by the item itself.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Row {
    pub id: String,
    pub tenant: String,
    pub queue: String,
    pub kind: String,
    pub op: String,
    /// One of pending, processing, completed, failed, cancelled, skipped.
    pub status: &'static str,
    pub stage: String,
    pub priority: u8,
    /// Attempts of the stage it is in, the running one included.
    pub attempts: u16,
    pub created_at: Time,
    /// When something was last written down about it.
    pub updated_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// When it may be claimed at the earliest, if that lies ahead or lay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
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
    pub cloned_from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Distance from the root of its tree.
    pub level: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Why it ended as it did, if no stage's error says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    /// What it knows of its children.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub children: Option<Children>,
}

impl From<find::Listed> for Row {
    fn from(listed: find::Listed) -> Row {
        let find::Listed { item, status, body, error, reason, progress, tally, .. } = listed;
        let text = |text: Option<Arc<str>>| text.map(|text| text.to_string());
        let not_before = match item.state {
            State::Pending { not_before } | State::Held { not_before } => Some(not_before),
            _ => None,
        };
        Row {
            id: item.id.to_string(),
            tenant: body.tenant.to_string(),
            queue: body.queue.to_string(),
            kind: body.kind.to_string(),
            op: body.op.to_string(),
            status: status.name(),
            stage: body.route.stage(item.stage).name.to_string(),
            priority: item.priority,
            attempts: item.attempts,
            created_at: item.id.created_at().into(),
            updated_at: listed.changed_at.into(),
            finished_at: listed.finished_at.map(Time),
            not_before: not_before.filter(|at| at.0 > 0).map(Time),
            lease: item.lease().map(|lease| lease.to_string()),
            key: body.key,
            group: text(body.group),
            collection: text(body.collection),
            branch: text(body.branch),
            source_type: text(body.source_type),
            source_info: body.source_info,
            reference: body.reference,
            cloned_from: body.cloned_from.map(|id| id.to_string()),
            parent: item.place.map(|place| place.parent.to_string()),
            level: item.level(),
            progress: progress.map(Progress::from),
            reason,
            error: error.as_ref().map(Error::from),
            children: tally.as_ref().map(Children::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_read_in_the_words_of_the_seeds_and_in_any_case() {
        use Status::{Completed, Pending, Processing};
        let read = |said: &str| statuses(said).map_err(|refusal| refusal.to_string());
        assert_eq!(read("queued, in_progress,DONE"), Ok(vec![Pending, Processing, Completed]));
        assert_eq!(read("PENDING"), Ok(vec![Pending]));
        assert_eq!(read(""), Ok(vec![]));
        assert!(read("failed,broken").is_err_and(|why| why.contains("is no status")));
    }
}
