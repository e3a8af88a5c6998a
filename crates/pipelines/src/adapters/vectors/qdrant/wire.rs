//! What Qdrant is told and answers, as its REST API writes it.
//!
//! Fields stand in the order in which they are sent, so that a request is the same bytes each time.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::super::{ChunkId, Filter, Hit, Point};

/// A new collection.
#[derive(Serialize)]
pub(super) struct Create {
    vectors: Size,
}

#[derive(Serialize)]
struct Size {
    size: usize,
    distance: &'static str,
}

impl Create {
    pub(super) fn of(dimension: usize) -> Create {
        Create { vectors: Size { size: dimension, distance: "Cosine" } }
    }
}

/// A new index of a field.
#[derive(Serialize)]
pub(super) struct Index {
    field_name: &'static str,
    field_schema: Field,
}

#[derive(Serialize)]
struct Field {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "is_false")]
    is_tenant: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Index {
    /// Those that filters and removals need.
    pub(super) fn all() -> [Index; 4] {
        [TENANT, COLLECTION, DOCUMENT, AT].map(|field_name| Index {
            field_name,
            field_schema: Field { kind: "keyword", is_tenant: field_name == TENANT },
        })
    }
}

const TENANT: &str = "tenant";
const COLLECTION: &str = "collection";
const DOCUMENT: &str = "document";
/// A document and its generation in one word, so that many of them are one condition.
const AT: &str = "at";

fn at(document: Uuid, generation: u32) -> String {
    format!("{document}/{generation}")
}

/// Points to be put in.
#[derive(Serialize)]
pub(super) struct Upsert<'a> {
    points: Vec<Put<'a>>,
}

#[derive(Serialize)]
struct Put<'a> {
    id: Uuid,
    vector: &'a [f32],
    payload: Payload,
}

/// What stands beside a vector.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Payload {
    pub(super) tenant: String,
    pub(super) collection: String,
    document: Uuid,
    generation: u32,
    page: u32,
    #[serde(default)]
    at: String,
}

impl Upsert<'_> {
    pub(super) fn of<'a>(points: &[&'a (Point, Vec<f32>)]) -> Upsert<'a> {
        let put = |(point, vector): &&'a (Point, Vec<f32>)| Put {
            id: Uuid::from_bytes(point.id),
            vector,
            payload: Payload {
                tenant: point.tenant.to_string(),
                collection: point.collection.to_string(),
                document: point.document,
                generation: point.generation,
                page: point.page,
                at: at(point.document, point.generation),
            },
        };
        Upsert { points: points.iter().map(put).collect() }
    }
}

/// What is to be removed.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Delete {
    Points(Vec<Uuid>),
    Filter(Conditions),
}

impl Delete {
    pub(super) fn generation(document: Uuid, generation: u32) -> Delete {
        Delete::Filter(Conditions { must: vec![Condition::is(AT, at(document, generation))] })
    }

    pub(super) fn document(document: Uuid) -> Delete {
        Delete::Filter(Conditions { must: vec![Condition::is(DOCUMENT, document.to_string())] })
    }

    pub(super) fn chunks(chunks: &[ChunkId]) -> Delete {
        Delete::Points(chunks.iter().copied().map(Uuid::from_bytes).collect())
    }
}

/// What a point must meet, all of it.
#[derive(Serialize)]
pub(super) struct Conditions {
    must: Vec<Condition>,
}

#[derive(Serialize)]
struct Condition {
    key: &'static str,
    #[serde(rename = "match")]
    met: Match,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Match {
    Value(String),
    Any(Vec<String>),
}

impl Condition {
    fn is(key: &'static str, value: impl Into<String>) -> Condition {
        Condition { key, met: Match::Value(value.into()) }
    }
}

impl Conditions {
    /// Nothing if everything is wanted.
    pub(super) fn of(filter: &Filter) -> Option<Conditions> {
        let mut must = Vec::new();
        must.extend(filter.tenant.as_deref().map(|tenant| Condition::is(TENANT, tenant)));
        must.extend(filter.collection.as_deref().map(|one| Condition::is(COLLECTION, one)));
        must.extend(filter.document.map(|one| Condition::is(DOCUMENT, one.to_string())));
        if let Some(live) = &filter.live {
            let mut any: Vec<String> =
                live.iter().map(|(document, generation)| at(*document, *generation)).collect();
            any.sort_unstable();
            must.push(Condition { key: AT, met: Match::Any(any) });
        }
        (!must.is_empty()).then_some(Conditions { must })
    }

    /// What a collection of a tenant has.
    pub(super) fn of_scope(tenant: &str, collection: &str) -> Conditions {
        let must = vec![Condition::is(TENANT, tenant), Condition::is(COLLECTION, collection)];
        Conditions { must }
    }
}

/// The nearest points to a vector.
#[derive(Serialize)]
pub(super) struct Query<'a> {
    pub(super) query: &'a [f32],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) filter: Option<Conditions>,
    pub(super) limit: usize,
    pub(super) with_payload: bool,
}

/// How many points there are.
#[derive(Serialize)]
pub(super) struct Count {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) filter: Option<Conditions>,
    pub(super) exact: bool,
}

/// Some points.
#[derive(Serialize)]
pub(super) struct Scroll {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) filter: Option<Conditions>,
    pub(super) limit: usize,
    pub(super) with_payload: bool,
}

/// What every answer is in.
#[derive(Deserialize)]
pub(super) struct Said<T> {
    pub(super) result: T,
}

#[derive(Deserialize)]
pub(super) struct Collections {
    pub(super) collections: Vec<Named>,
}

#[derive(Deserialize)]
pub(super) struct Named {
    pub(super) name: String,
}

/// How far a write has come.
#[derive(Deserialize)]
pub(super) struct Updated {
    pub(super) status: String,
}

#[derive(Deserialize)]
pub(super) struct Counted {
    pub(super) count: u64,
}

#[derive(Deserialize)]
pub(super) struct Found {
    pub(super) points: Vec<Scored>,
}

#[derive(Deserialize)]
pub(super) struct Scored {
    id: Uuid,
    #[serde(default)]
    score: f32,
    pub(super) payload: Payload,
}

impl From<Scored> for Hit {
    fn from(Scored { id, score, payload }: Scored) -> Hit {
        let Payload { tenant, collection, document, generation, page, at: _ } = payload;
        let (tenant, collection) = (tenant.into(), collection.into());
        let id = id.into_bytes();
        Hit { point: Point { id, document, generation, page, tenant, collection }, score }
    }
}
