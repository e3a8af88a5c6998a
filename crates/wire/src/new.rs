//! Items to enqueue, and children of a split.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_core::command::{self, NewChild};
use windrow_core::item::{Body, Payload};
use windrow_core::route::{self, Route};
use windrow_core::{Refusal, Timestamp};

use crate::bounds;
use crate::bytes::{Base64, Json};
use crate::item::BlobRef;
use crate::time::Time;

/// What is said of payloads when nobody says otherwise.
const JSON_TYPE: &str = "application/json";
const BYTES_TYPE: &str = "application/octet-stream";

/// An item to enqueue. Only the queue must be known, and it is named by the path.
#[derive(Clone, Default, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct NewItem {
    /// Needed where no path names it.
    pub queue: Option<String>,
    /// Identity of the work: while an item with this key waits, another is not created.
    pub key: Option<String>,
    /// Any JSON. For other bytes use `payload_base64`.
    pub payload: Option<Json>,
    pub payload_base64: Option<Base64>,
    /// A payload that was uploaded as a blob.
    pub payload_ref: Option<BlobRef>,
    pub content_type: Option<String>,
    /// From 0, the lowest, to 10; 5 by default.
    #[schemars(range(max = 10))]
    pub priority: Option<u8>,
    /// When it may be claimed at the earliest: RFC 3339, or milliseconds since 1970. Not with
    /// `delay_ms`.
    pub not_before: Option<Time>,
    /// The same, as milliseconds from now on.
    pub delay_ms: Option<u64>,
    #[serde(alias = "user_id")]
    pub tenant: Option<String>,
    #[serde(alias = "item_type")]
    pub kind: Option<String>,
    pub op: Option<String>,
    /// Items of one group are limited or ordered together, if the queue's settings say so.
    pub group: Option<String>,
    pub collection: Option<String>,
    pub branch: Option<String>,
    pub source_type: Option<String>,
    pub source_info: Option<String>,
    /// Link to what it is about: an order, a document, a record.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// The stages that it passes, in order.
    pub route: Option<Vec<Stage>>,
    /// Any JSON about it that is not the work itself.
    pub metadata: Option<Json>,
    pub on_duplicate: OnDuplicate,
    pub on_split: OnSplit,
}

/// A stage by its name, or with the phases that items below it will pass.
#[derive(Clone, PartialEq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(untagged, deny_unknown_fields)]
pub enum Stage {
    Name(String),
    Splitting { name: String, below: Vec<String> },
}

/// What becomes of an item that waits when its key is enqueued again.
#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub enum OnDuplicate {
    /// It stays as it is.
    #[default]
    Keep,
    /// It takes the newer op and payload.
    Replace,
}

/// What becomes of an item that waits for its children when its key is enqueued again.
#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub enum OnSplit {
    /// It ends first.
    #[default]
    After,
    /// It is cancelled.
    Supersede,
}

/// A child to create when an item is split. Its tenant and queue are its parent's.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct Child {
    /// Its number among its siblings. One that an earlier slice had is ignored; twice in one slice
    /// it is refused.
    pub ordinal: u32,
    pub kind: String,
    #[serde(default)]
    pub op: Option<String>,
    #[serde(default)]
    pub group: Option<String>,
    #[serde(default)]
    pub route: Option<Vec<Stage>>,
    #[serde(default)]
    #[schemars(range(max = 10))]
    pub priority: Option<u8>,
    #[serde(default)]
    pub payload: Option<Json>,
    #[serde(default)]
    pub payload_base64: Option<Base64>,
    #[serde(default)]
    pub payload_ref: Option<BlobRef>,
    #[serde(default)]
    pub content_type: Option<String>,
    #[serde(default)]
    pub metadata: Option<Json>,
    #[serde(default, rename = "ref")]
    pub reference: Option<String>,
}

impl NewItem {
    /// Refuses what a name may not have.
    fn check(&self, queue: &str) -> Result<(), Refusal> {
        bounds::plain("queue", queue)?;
        for (field, name) in [
            ("tenant", &self.tenant),
            ("kind", &self.kind),
            ("op", &self.op),
            ("group", &self.group),
            ("collection", &self.collection),
            ("branch", &self.branch),
            ("source_type", &self.source_type),
            ("content_type", &self.content_type),
        ] {
            bounds::plain_if(field, name.as_deref())?;
        }
        bounds::delay("delay_ms", self.delay_ms)?;
        plain_route(self.route.as_deref())
    }

    /// As the core takes it. Who does not say for which tenant it is, means `tenant`.
    pub fn into_core(
        self,
        queue: &Arc<str>,
        tenant: &Arc<str>,
        now: Timestamp,
    ) -> Result<command::NewItem, Refusal> {
        self.check(queue)?;
        if self.queue.as_deref().is_some_and(|said| *said != **queue) {
            let why = format!("is not {queue:?}, in which it is enqueued");
            return Err(Refusal::invalid("queue", why));
        }
        let said = self.tenant.map_or_else(|| Arc::clone(tenant), Into::into);
        let plain = Body::new(said, Arc::clone(queue));
        let (payload, content_type) =
            payload(self.payload, self.payload_base64, self.payload_ref, self.content_type)?;
        let not_before = match (self.not_before, self.delay_ms) {
            (Some(_), Some(_)) => {
                return Err(Refusal::invalid("delay_ms", "cannot be given with not_before"));
            }
            (Some(Time(at)), None) => at,
            (None, Some(ms)) => now.plus(ms),
            (None, None) => Timestamp::ZERO,
        };
        let body = Body {
            kind: self.kind.map_or(plain.kind, Into::into),
            op: self.op.map_or(plain.op, Into::into),
            key: self.key,
            group: self.group.map(Into::into),
            collection: self.collection.map(Into::into),
            branch: self.branch.map(Into::into),
            source_type: self.source_type.map(Into::into),
            source_info: self.source_info,
            reference: self.reference,
            route: self.route.map_or(plain.route, into_route),
            content_type,
            payload,
            metadata: self.metadata.map(|json| json.text().to_owned()),
            ..plain
        };
        let new = command::NewItem::new(body);
        Ok(command::NewItem {
            priority: self.priority.unwrap_or(new.priority),
            not_before,
            on_duplicate: match self.on_duplicate {
                OnDuplicate::Keep => command::OnDuplicate::Keep,
                OnDuplicate::Replace => command::OnDuplicate::Replace,
            },
            on_split: match self.on_split {
                OnSplit::After => command::OnSplit::After,
                OnSplit::Supersede => command::OnSplit::Supersede,
            },
            ..new
        })
    }
}

impl Child {
    pub fn into_core(self) -> Result<NewChild, Refusal> {
        bounds::plain("kind", &self.kind)?;
        for (field, name) in
            [("op", &self.op), ("group", &self.group), ("content_type", &self.content_type)]
        {
            bounds::plain_if(field, name.as_deref())?;
        }
        plain_route(self.route.as_deref())?;
        let (payload, content_type) =
            payload(self.payload, self.payload_base64, self.payload_ref, self.content_type)?;
        let route = self.route.map_or_else(Route::single, into_route);
        let plain = NewChild::new(self.ordinal, self.kind, route);
        Ok(NewChild {
            op: self.op.map_or(plain.op, Into::into),
            group: self.group.map(Into::into),
            priority: self.priority,
            content_type,
            payload,
            metadata: self.metadata.map(|json| json.text().to_owned()),
            reference: self.reference,
            ..plain
        })
    }
}

fn plain_route(route: Option<&[Stage]>) -> Result<(), Refusal> {
    route.unwrap_or_default().iter().try_for_each(|stage| match stage {
        Stage::Name(name) => bounds::plain("route", name),
        Stage::Splitting { name, below } => {
            bounds::plain("route", name)?;
            below.iter().try_for_each(|name| bounds::plain("route", name))
        }
    })
}

fn into_route(stages: Vec<Stage>) -> Arc<Route> {
    let stage = |stage| match stage {
        Stage::Name(name) => route::Stage::new(name),
        Stage::Splitting { name, below } => {
            route::Stage { name: name.into(), below: below.into_iter().map(Into::into).collect() }
        }
    };
    Arc::new(Route { stages: stages.into_iter().map(stage).collect() })
}

/// The payload and its type, from the three fields that it may be in.
fn payload(
    json: Option<Json>,
    base64: Option<Base64>,
    apart: Option<BlobRef>,
    content_type: Option<String>,
) -> Result<(Payload, Option<Arc<str>>), Refusal> {
    let (payload, known) = match (json, base64, apart) {
        (Some(json), None, None) => (Payload::Inline(json.into_bytes()), Some(JSON_TYPE)),
        (None, Some(Base64(bytes)), None) => (Payload::Inline(bytes), Some(BYTES_TYPE)),
        (None, None, Some(blob)) => (Payload::Blob(blob.into_core()?), Some(BYTES_TYPE)),
        (None, None, None) => (Payload::Inline(Vec::new()), None),
        (json, base64, _) => {
            let field = if base64.is_some() { "payload_base64" } else { "payload_ref" };
            let other = if json.is_some() { "payload" } else { "payload_ref" };
            return Err(Refusal::invalid(field, format!("cannot be given with {other}")));
        }
    };
    let content_type = content_type.as_deref().or(known).map(Arc::from);
    Ok((payload, content_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<command::NewItem, String> {
        let new: NewItem = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let now = Timestamp(1_000_000);
        new.into_core(&"q".into(), &"t".into(), now).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn an_empty_body_is_an_item() {
        let new = read("{}").expect("it is an item");
        assert_eq!(new, command::NewItem::new(Body::new("t", "q")));
    }

    #[test]
    fn every_field_arrives() {
        let new = read(
            r#"{"key":"k","payload":{"n":12345678901234567890},"priority":9,"delay_ms":500,
                "user_id":"u","item_type":"pdf","op":"delete","group":"g","collection":"c",
                "branch":"b","source_type":"s","source_info":"i","ref":"r","metadata":[1],
                "route":["ocr",{"name":"split","below":["vector"]}],"on_duplicate":"replace",
                "on_split":"supersede"}"#,
        );
        let new = new.expect("it is an item");
        let body = &new.body;
        assert_eq!((&*body.tenant, &*body.kind, &*body.op), ("u", "pdf", "delete"));
        assert_eq!(body.payload, Payload::Inline(br#"{"n":12345678901234567890}"#.to_vec()));
        assert_eq!(body.content_type.as_deref(), Some("application/json"));
        assert_eq!((new.priority, new.not_before), (9, Timestamp(1_000_500)));
        assert_eq!(body.metadata.as_deref(), Some("[1]"));
        let stages = vec![route::Stage::new("ocr"), route::Stage::splitting("split", &["vector"])];
        assert_eq!(body.route.stages, stages);
        assert_eq!(new.on_duplicate, command::OnDuplicate::Replace);
        assert_eq!(new.on_split, command::OnSplit::Supersede);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (json, why) in [
            (r#"{"payload":1,"payload_base64":"AA=="}"#, "cannot be given with payload"),
            (r#"{"not_before":"2026-11-16T00:00:00Z","delay_ms":1}"#, "cannot be given with"),
            (r#"{"payload":1,"payload_ref":{"sha256":"","length":1}}"#, "payload_ref: cannot be"),
            (r#"{"payload_ref":{"sha256":"zz","length":1}}"#, "64 hexadecimal digits"),
            (r#"{"paylod":1}"#, "unknown field `paylod`"),
            (r#"{"priority":256}"#, "invalid value"),
            (r#"{"route":[7]}"#, "did not match any variant"),
            (r#"{"route":[{"name":"a","below":[],"bellow":[]}]}"#, "did not match any variant"),
        ] {
            let said = read(json).expect_err(json);
            assert!(said.contains(why), "{json}: {said}");
        }
    }
}
