//! The graph over HTTP: what is around an entity, and where one is mentioned.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use serde::Deserialize;
use windrow_core::Refusal;
use windrow_pipelines::catalog::{
    AROUND_MAX, Around, Catalog, EntityFilter, EntityId, Link, MentionCursor, MentionedIn, Node,
    snippet, words,
};
use windrow_wire::graph as wire;
use windrow_wire::search;

use super::super::App;
use super::super::reply::{Asked, Failed, no_cursor, within};
use super::{TENANT, named, tenant};
use crate::auth::Scoped;

/// Passages of an entity that are shown at a time.
const LISTED: usize = 50;
/// Bytes of a name that is looked for.
const NAME_MAX: usize = 512;

pub(super) const PARAMETERS: &[(&str, &str)] = &[
    ("entity", "the id of the one in the middle; the most mentioned one if left out"),
    ("q", "find entities by a part of their name instead"),
    ("type", "only entities of this type"),
    ("collection", "only of this collection, where nobody is named"),
    ("limit", "how many entities; 150, and at most that"),
    TENANT,
];
pub(super) const MENTIONS: &[(&str, &str)] = &[("cursor", "`next` of the page before"), TENANT];

/// What is to be in the picture.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    entity: Option<String>,
    q: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    collection: Option<String>,
    limit: Option<u64>,
    #[serde(alias = "user_id")]
    tenant: Option<String>,
}

pub(super) async fn picture(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<wire::Picture>, Failed> {
    let most = u64::from(AROUND_MAX);
    let limit = within("limit", wanted.limit.unwrap_or(most), most)? as u32;
    let said = |text: Option<String>| text.filter(|text| !text.is_empty());
    let name = said(wanted.q);
    if name.as_ref().is_some_and(|name| name.len() > NAME_MAX) {
        let wrong = format!("must have at most {NAME_MAX} bytes");
        return Err(Refusal::invalid("q", wrong).into());
    }
    let filter = EntityFilter {
        tenant: tenant(wanted.tenant.as_deref(), &scoped)?.to_string(),
        collection: said(wanted.collection),
        kind: said(wanted.kind),
    };
    let centre = said(wanted.entity).map(|id| EntityId::read(&id).ok_or_else(none)).transpose()?;
    if !app.documents.is_begun().await? {
        return match centre {
            Some(_) => Err(none()),
            None => Ok(Json(empty())),
        };
    }
    let catalog = &*app.documents.opened().await?.catalog;
    let prominent = catalog.prominent(filter.clone()).await?;
    let mut picture = match (&name, centre.or(prominent.most)) {
        (Some(name), _) => candidates(catalog, filter, name, limit).await?,
        (None, Some(of)) => {
            let kind = filter.kind.as_deref();
            match catalog.around(&filter.tenant, of, kind, limit).await? {
                Some(around) => drawn(of, around),
                None if centre.is_some() => return Err(none()),
                // It went between two looks.
                None => empty(),
            }
        }
        (None, None) => empty(),
    };
    let kind = |(kind, entities)| wire::Type { kind, entities };
    picture.types = prominent.kinds.into_iter().map(kind).collect();
    Ok(Json(picture))
}

fn none() -> Failed {
    Failed::not_found("such entity")
}

fn empty() -> wire::Picture {
    let (entities, relationships, types) = (Vec::new(), Vec::new(), Vec::new());
    wire::Picture { centre: None, entities, relationships, types, is_cut: false }
}

/// Entities that a name may mean.
async fn candidates(
    catalog: &dyn Catalog,
    filter: EntityFilter,
    name: &str,
    limit: u32,
) -> Result<wire::Picture, Failed> {
    // One more than is shown says whether there are more.
    let mut found = catalog.entities_named(filter, name, limit + 1).await?;
    let is_cut = found.len() > limit as usize;
    found.truncate(limit as usize);
    let one = |node: Node| wire::Entity { distance: None, ..entity(node) };
    Ok(wire::Picture { entities: found.into_iter().map(one).collect(), is_cut, ..empty() })
}

fn drawn(centre: EntityId, Around { nodes, links, is_cut }: Around) -> wire::Picture {
    wire::Picture {
        centre: Some(centre.to_string()),
        entities: nodes.into_iter().map(entity).collect(),
        relationships: links.into_iter().map(relationship).collect(),
        is_cut,
        ..empty()
    }
}

fn entity(Node { id, kind, name, mentions, distance }: Node) -> wire::Entity {
    wire::Entity { id: id.to_string(), name, kind, mentions, distance: Some(distance) }
}

fn relationship(link: Link) -> wire::Relationship {
    let Link { source, target, kind, description, weight, said_in } = link;
    let place = |said: windrow_pipelines::catalog::SaidIn| wire::Place {
        document: said.document.to_string(),
        name: said.name,
        page: said.page,
        chunk: said.chunk.to_string(),
    };
    wire::Relationship {
        from: source.to_string(),
        to: target.to_string(),
        kind,
        description: Some(description).filter(|description| !description.is_empty()),
        weight: Some(weight),
        chunks: said_in.into_iter().map(place).collect(),
    }
}

/// The id of an entity in the path.
pub(super) struct Named(EntityId);

impl FromRequestParts<Arc<App>> for Named {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Named, Failed> {
        let id = EntityId::read(&named(parts, "id").await?);
        id.map(Named).ok_or_else(none)
    }
}

/// Which mentions of it are meant.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    cursor: Option<String>,
    #[serde(alias = "user_id")]
    tenant: Option<String>,
}

pub(super) async fn mentioned(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Named(id): Named,
    Asked(which): Asked<Which>,
) -> Result<Json<wire::Mentioned>, Failed> {
    let tenant = tenant(which.tenant.as_deref(), &scoped)?;
    let after = match which.cursor.as_deref() {
        None | Some("") => MentionCursor::default(),
        Some(cursor) => read_cursor(cursor).ok_or_else(no_cursor)?,
    };
    if !app.documents.is_begun().await? {
        return Err(none());
    }
    let catalog = &app.documents.opened().await?.catalog;
    let entity = catalog.entity(&tenant, id).await?.ok_or_else(none)?;
    let mut found = catalog.mentioned_in(&tenant, id, after, LISTED as u32 + 1).await?;
    let has_more = found.len() > LISTED;
    found.truncate(LISTED);
    let next = found.last().filter(|_| has_more).map(|last| cursor(last.cursor()));
    Ok(Json(wire::Mentioned {
        id: id.to_string(),
        name: entity.name,
        kind: entity.kind,
        collection: entity.scope.collection,
        description: entity.description,
        mentions: entity.mentions,
        chunks: found.into_iter().map(passage).collect(),
        next,
    }))
}

fn passage(found: MentionedIn) -> wire::Passage {
    let shown = snippet(&found.text, &words(&found.called));
    let mark = |mark: &std::ops::Range<usize>| (mark.start as u32, mark.end as u32);
    wire::Passage {
        document: found.page.document.to_string(),
        name: found.document,
        page: found.page.number,
        chunk: found.chunk.to_string(),
        called: found.called,
        snippet: search::Snippet {
            marks: shown.marks.iter().map(mark).collect(),
            text: shown.text,
            is_cut_before: shown.is_cut_before,
            is_cut_after: shown.is_cut_after,
        },
    }
}

/// A cursor as it is given out.
fn cursor(at: MentionCursor) -> String {
    format!("{}.{}.{}", at.document.simple(), at.page, at.index)
}

fn read_cursor(text: &str) -> Option<MentionCursor> {
    let mut parts = text.split('.');
    let (document, page, index) = (parts.next()?, parts.next()?, parts.next()?);
    let (page, index) = (page.parse().ok()?, index.parse().ok()?);
    let at = MentionCursor { document: document.parse().ok()?, page, index };
    parts.next().is_none().then_some(at)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_given_out() {
        let at = MentionCursor { document: Uuid::from_u128(7), page: 3, index: 0 };
        assert_eq!(read_cursor(&cursor(at)), Some(at));
        for wrong in ["", "1.2.3", "00000000000000000000000000000007.1", ".1.1"] {
            assert_eq!(read_cursor(wrong), None, "{wrong}");
        }
    }
}
