//! Search over HTTP.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use uuid::Uuid;
use windrow_core::Refusal;
use windrow_pipelines::catalog::{Catalog, ChunkId, Mention, Neighbour};
use windrow_pipelines::search::hybrid::{LIMIT_MAX, Passage, Query};
use windrow_wire::search as wire;

use super::super::App;
use super::super::reply::{Asked, Failed, within};
use super::{TENANT, is_yes, tenant};
use crate::auth::Scoped;

/// Passages that are shown, if nobody says how many.
const SHOWN: u64 = 10;
/// Bytes of a question.
const QUESTION_MAX: usize = 4_096;
/// Entities of a passage, and neighbours of each, that are shown.
const ENTITIES: usize = 8;
const NEIGHBOURS: u32 = 5;

pub(super) const PARAMETERS: &[(&str, &str)] = &[
    ("q", "what is looked for, in words"),
    ("collection", "only in this collection"),
    ("document", "only in this document"),
    ("limit", "how many passages; 10, at most 200"),
    ("graph", "true to be told what each passage mentions, and what that has to do with"),
    TENANT,
];

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    q: Option<String>,
    collection: Option<String>,
    document: Option<String>,
    limit: Option<u64>,
    graph: Option<String>,
    #[serde(alias = "user_id")]
    tenant: Option<String>,
}

pub(super) async fn search(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Asked(question): Asked<Question>,
) -> Result<Json<wire::Found>, Failed> {
    let text = question.q.as_deref().unwrap_or_default().trim();
    if text.is_empty() || text.len() > QUESTION_MAX {
        let wrong = format!("must have 1 to {QUESTION_MAX} bytes");
        return Err(Refusal::invalid("q", wrong).into());
    }
    let with_graph = is_yes("graph", question.graph.as_deref())?;
    let limit = within("limit", question.limit.unwrap_or(SHOWN), u64::from(LIMIT_MAX))?;
    let said = |text: Option<String>| text.filter(|text| !text.is_empty());
    let wrong = |_| Refusal::invalid("document", "is not the id of one");
    let document = said(question.document).map(|id| id.parse::<Uuid>().map_err(wrong));
    let query = Query {
        text: text.to_owned(),
        tenant: tenant(question.tenant.as_deref(), &scoped)?.to_string(),
        collection: said(question.collection),
        document: document.transpose()?,
        limit: limit as u32,
    };
    if !app.documents.is_begun().await? {
        return Ok(Json(wire::Found { hits: Vec::new(), missing: None }));
    }
    let opened = app.documents.opened().await?;
    let found = opened.search.find(&query).await?;
    let ids: Vec<ChunkId> = found.hits.iter().map(|hit| hit.chunk.id).collect();
    let mut hits: Vec<wire::Hit> = found.hits.into_iter().map(hit).collect();
    if with_graph {
        let mut around = Around::of(&*opened.catalog, &query.tenant, ids.clone()).await?;
        for (hit, id) in hits.iter_mut().zip(ids) {
            hit.graph = Some(around.entities(id).await?);
        }
    }
    Ok(Json(wire::Found { hits, missing: found.missing }))
}

fn hit(Passage { chunk, snippet, score, parts }: Passage) -> wire::Hit {
    let part = |part: windrow_pipelines::search::fuse::Part| wire::Part {
        list: part.list.to_owned(),
        rank: part.rank,
        score: part.score,
        worth: part.worth,
    };
    let mark = |mark: &std::ops::Range<usize>| (mark.start as u32, mark.end as u32);
    wire::Hit {
        document: chunk.page.document.to_string(),
        name: chunk.name,
        source: chunk.source,
        collection: chunk.collection,
        page: chunk.page.number,
        chunk: chunk.id.to_string(),
        score,
        parts: parts.into_iter().map(part).collect(),
        snippet: wire::Snippet {
            marks: snippet.marks.iter().map(mark).collect(),
            text: snippet.text,
            is_cut_before: snippet.is_cut_before,
            is_cut_after: snippet.is_cut_after,
        },
        text: chunk.text,
        graph: None,
    }
}

/// What passages mention, each entity looked up once.
struct Around<'a> {
    catalog: &'a dyn Catalog,
    tenant: &'a str,
    mentions: HashMap<ChunkId, Vec<Mention>>,
    known: HashMap<String, Vec<wire::Neighbour>>,
}

impl<'a> Around<'a> {
    async fn of(
        catalog: &'a dyn Catalog,
        tenant: &'a str,
        chunks: Vec<ChunkId>,
    ) -> Result<Around<'a>, Failed> {
        let mut mentions: HashMap<ChunkId, Vec<Mention>> = HashMap::new();
        for mention in catalog.mentions(tenant, chunks).await? {
            mentions.entry(mention.chunk).or_default().push(mention);
        }
        Ok(Around { catalog, tenant, mentions, known: HashMap::new() })
    }

    async fn entities(&mut self, chunk: ChunkId) -> Result<Vec<wire::Entity>, Failed> {
        let mut mentions = self.mentions.remove(&chunk).unwrap_or_default();
        mentions.sort_by(|one, other| other.score.total_cmp(&one.score));
        mentions.truncate(ENTITIES);
        let mut all = Vec::with_capacity(mentions.len());
        for mention in mentions {
            let id = mention.entity.to_string();
            let neighbours = match self.known.get(&id) {
                Some(known) => known.clone(),
                None => {
                    let found = self.catalog.neighbours(self.tenant, mention.entity, NEIGHBOURS);
                    let found: Vec<_> = found.await?.into_iter().map(neighbour).collect();
                    self.known.insert(id.clone(), found.clone());
                    found
                }
            };
            let Mention { kind, name, description, .. } = mention;
            all.push(wire::Entity { id, kind, name, description, neighbours });
        }
        Ok(all)
    }
}

fn neighbour(found: Neighbour) -> wire::Neighbour {
    let Neighbour { entity, by, weight } = found;
    let relation = by.first().map(|relation| match relation.description.as_str() {
        "" => relation.kind.clone(),
        said => said.to_owned(),
    });
    wire::Neighbour {
        id: entity.id.to_string(),
        kind: entity.kind,
        name: entity.name,
        relation: relation.unwrap_or_default(),
        weight,
    }
}
