//! Rows of seed 001: documents, their pages and chunks, each with how it stands in three phases.
//!
//! What is below an item is read child by child, because only children know when a phase began and
//! what went wrong in it; a slice at a time, and each page of an answer only for so long.

use schemars::JsonSchema;
use serde::Serialize;
use windrow_core::ItemId;
use windrow_core::item::Marks;
use windrow_wire::time::Time;

use super::fact::{Around, Fact, cut};
use super::phases::{Below, Own, PHASES, Task, Whole};
use crate::auth::Denied;

/// Children that are read together.
pub(super) const SLICE: usize = 200;
/// Letters in the columns of the seed.
const WORKER_MAX: usize = 100;
const PATH_MAX: usize = 1_000;
const CHUNK_ID_MAX: usize = 64;

/// A document.
#[derive(Serialize, JsonSchema, Debug)]
#[schemars(rename = "DocumentRow")]
pub(super) struct Document {
    id: String,
    filename: Option<String>,
    ocr_status: Task,
    vector_index_status: Task,
    graphrag_index_status: Task,
    ocr_started_at: Option<Time>,
    ocr_completed_at: Option<Time>,
    ocr_error: Option<String>,
    vector_started_at: Option<Time>,
    vector_completed_at: Option<Time>,
    vector_error: Option<String>,
    graphrag_started_at: Option<Time>,
    graphrag_completed_at: Option<Time>,
    graphrag_error: Option<String>,
    current_worker_id: Option<String>,
    last_heartbeat: Option<Time>,
    /// The same as `vector_index_status`.
    vector_status: Task,
    /// The same as `graphrag_index_status`.
    graphrag_status: Task,
    status: Task,
    created_at: Time,
    updated_at: Time,
    serial: u64,
}

impl Document {
    /// A document with all that is below it.
    pub(super) async fn of(around: &Around<'_>, fact: &Fact) -> Result<Document, Denied> {
        let mut below: [Below; PHASES] = Default::default();
        let mut pages = Children::of(fact);
        while let Some(pages) = pages.next(around).await? {
            for page in &pages {
                let branch = Branch::of(around, page).await?;
                below.iter_mut().zip(&branch.whole).for_each(|(below, page)| below.add_whole(page));
            }
        }
        let [ocr, vector, graph] = whole(fact, &Own::of(fact), &below);
        let body = &fact.seen.body;
        let called = [&body.source_info, &body.reference, &body.key].into_iter().flatten().next();
        Ok(Document {
            id: fact.id().to_string(),
            filename: fact.says("filename").or_else(|| called.cloned()),
            ocr_status: ocr.stand.into(),
            vector_index_status: vector.stand.into(),
            graphrag_index_status: graph.stand.into(),
            ocr_started_at: ocr.started.map(Time),
            ocr_completed_at: ocr.completed.map(Time),
            ocr_error: ocr.error,
            vector_started_at: vector.started.map(Time),
            vector_completed_at: vector.completed.map(Time),
            vector_error: vector.error,
            graphrag_started_at: graph.started.map(Time),
            graphrag_completed_at: graph.completed.map(Time),
            graphrag_error: graph.error,
            current_worker_id: fact.lease.as_ref().map(|lease| cut(&lease.worker, WORKER_MAX)),
            last_heartbeat: fact.lease.as_ref().map(|lease| lease.renewed.into()),
            vector_status: vector.stand.into(),
            graphrag_status: graph.stand.into(),
            status: fact.seen.item.status().into(),
            created_at: fact.created().into(),
            updated_at: fact.updated().into(),
            serial: fact.id().serial(),
        })
    }
}

/// A page of a document.
#[derive(Serialize, JsonSchema, Debug)]
#[schemars(rename = "PageRow")]
pub(super) struct Page {
    id: String,
    document_id: String,
    page_number: u32,
    page_file_path: Option<String>,
    ocr_status: Task,
    ocr_worker_id: Option<String>,
    ocr_started_at: Option<Time>,
    ocr_completed_at: Option<Time>,
    ocr_error: Option<String>,
    ocr_retry_count: u32,
    ocr_last_heartbeat: Option<Time>,
    vector_status: Task,
    vector_worker_id: Option<String>,
    vector_started_at: Option<Time>,
    vector_completed_at: Option<Time>,
    vector_error: Option<String>,
    vector_retry_count: u32,
    vector_last_heartbeat: Option<Time>,
    graphrag_status: Task,
    graphrag_worker_id: Option<String>,
    graphrag_started_at: Option<Time>,
    graphrag_completed_at: Option<Time>,
    graphrag_error: Option<String>,
    graphrag_retry_count: u32,
    graphrag_last_heartbeat: Option<Time>,
    chunk_count: u32,
    /// Attempts in all that its queue allows; 2147483647 if there is no limit.
    max_retries: u32,
    created_at: Time,
    updated_at: Time,
    serial: u64,
}

impl Page {
    /// A page with all that is below it; nothing if it is below nothing.
    pub(super) async fn of(around: &Around<'_>, fact: &Fact) -> Result<Option<Page>, Denied> {
        let Some(place) = fact.seen.item.place else { return Ok(None) };
        let branch = Branch::of(around, fact).await?;
        let ([ocr, vector, graph], children) = (branch.whole, branch.children);
        let [in_ocr, in_vector, in_graph] = branch.own;
        let path = fact.says("page_file_path");
        Ok(Some(Page {
            id: fact.id().to_string(),
            document_id: place.parent.to_string(),
            page_number: place.number(),
            page_file_path: path.map(|path| cut(&path, PATH_MAX)),
            ocr_status: ocr.stand.into(),
            ocr_worker_id: worker(&in_ocr),
            ocr_started_at: ocr.started.map(Time),
            ocr_completed_at: ocr.completed.map(Time),
            ocr_error: ocr.error,
            ocr_retry_count: in_ocr.retries,
            ocr_last_heartbeat: in_ocr.heartbeat.map(Time),
            vector_status: vector.stand.into(),
            vector_worker_id: worker(&in_vector),
            vector_started_at: vector.started.map(Time),
            vector_completed_at: vector.completed.map(Time),
            vector_error: vector.error,
            vector_retry_count: in_vector.retries,
            vector_last_heartbeat: in_vector.heartbeat.map(Time),
            graphrag_status: graph.stand.into(),
            graphrag_worker_id: worker(&in_graph),
            graphrag_started_at: graph.started.map(Time),
            graphrag_completed_at: graph.completed.map(Time),
            graphrag_error: graph.error,
            graphrag_retry_count: in_graph.retries,
            graphrag_last_heartbeat: in_graph.heartbeat.map(Time),
            chunk_count: children,
            max_retries: fact.attempts_allowed(),
            created_at: fact.created().into(),
            updated_at: fact.updated().into(),
            serial: fact.id().serial(),
        }))
    }
}

/// A chunk of a page.
#[derive(Serialize, JsonSchema, Debug)]
#[schemars(rename = "ChunkRow")]
pub(super) struct Chunk {
    id: String,
    page_id: String,
    document_id: String,
    chunk_id: String,
    chunk_index: u32,
    chunk_content_hash: Option<String>,
    vector_status: Task,
    vector_worker_id: Option<String>,
    vector_started_at: Option<Time>,
    vector_completed_at: Option<Time>,
    vector_error: Option<String>,
    vector_retry_count: u32,
    vector_last_heartbeat: Option<Time>,
    graphrag_status: Task,
    graphrag_worker_id: Option<String>,
    graphrag_started_at: Option<Time>,
    graphrag_completed_at: Option<Time>,
    graphrag_error: Option<String>,
    graphrag_retry_count: u32,
    graphrag_last_heartbeat: Option<Time>,
    entities_extracted: u32,
    relationships_extracted: u32,
    /// Attempts in all that its queue allows; 2147483647 if there is no limit.
    max_retries: u32,
    created_at: Time,
    updated_at: Time,
    serial: u64,
}

impl Chunk {
    /// A chunk below a page, which is below the document, if it is below anything.
    pub(super) fn of(fact: &Fact, document: Option<ItemId>) -> Option<Chunk> {
        let (place, body) = (fact.seen.item.place?, &fact.seen.body);
        let [_, vector, graph] = Own::of(fact);
        let called = fact.says("chunk_id").or_else(|| body.reference.clone());
        Some(Chunk {
            id: fact.id().to_string(),
            page_id: place.parent.to_string(),
            document_id: document.unwrap_or(place.parent).to_string(),
            chunk_id: cut(&called.unwrap_or_else(|| fact.id().to_string()), CHUNK_ID_MAX),
            chunk_index: place.number(),
            chunk_content_hash: fact.says("chunk_content_hash").map(|h| cut(&h, CHUNK_ID_MAX)),
            vector_status: vector.stand(fact).into(),
            vector_worker_id: worker(&vector),
            vector_started_at: vector.started.map(Time),
            vector_completed_at: vector.completed.map(Time),
            vector_error: vector.error,
            vector_retry_count: vector.retries,
            vector_last_heartbeat: vector.heartbeat.map(Time),
            graphrag_status: graph.stand(fact).into(),
            graphrag_worker_id: worker(&graph),
            graphrag_started_at: graph.started.map(Time),
            graphrag_completed_at: graph.completed.map(Time),
            graphrag_error: graph.error,
            graphrag_retry_count: graph.retries,
            graphrag_last_heartbeat: graph.heartbeat.map(Time),
            entities_extracted: fact.number("entities_extracted"),
            relationships_extracted: fact.number("relationships_extracted"),
            max_retries: fact.attempts_allowed(),
            created_at: fact.created().into(),
            updated_at: fact.updated().into(),
            serial: fact.id().serial(),
        })
    }
}

/// An item with its children, which are taken as if they had none.
struct Branch {
    own: [Own; PHASES],
    whole: [Whole; PHASES],
    children: u32,
}

impl Branch {
    async fn of(around: &Around<'_>, fact: &Fact) -> Result<Branch, Denied> {
        let (mut below, mut count): ([Below; PHASES], u32) = Default::default();
        let mut children = Children::of(fact);
        while let Some(children) = children.next(around).await? {
            for child in &children {
                let own = Own::of(child);
                below.iter_mut().zip(&own).for_each(|(below, own)| below.add_own(own));
                count += 1;
            }
        }
        let own = Own::of(fact);
        let whole = whole(fact, &own, &below);
        Ok(Branch { own, whole, children: count })
    }
}

/// Who works on a phase of an item.
fn worker(own: &Own) -> Option<String> {
    own.worker.as_ref().map(|worker| cut(worker, WORKER_MAX))
}

fn whole(fact: &Fact, own: &[Own; PHASES], below: &[Below; PHASES]) -> [Whole; PHASES] {
    std::array::from_fn(|phase| Whole::of(fact, &own[phase], &below[phase]))
}

/// The children of an item's current generation, slice by slice.
struct Children {
    of: ItemId,
    /// The next ordinal; none after the last.
    from: Option<u32>,
}

impl Children {
    fn of(fact: &Fact) -> Children {
        let has_some = fact.seen.item.has(Marks::PARENT);
        Children { of: fact.id(), from: has_some.then_some(0) }
    }

    async fn next(&mut self, around: &Around<'_>) -> Result<Option<Vec<Fact>>, Denied> {
        let Some(from) = self.from else { return Ok(None) };
        let ids = around.scoped().children(self.of, from, SLICE).await?;
        let facts = around.facts(&ids).await?;
        let last = facts.iter().filter_map(|fact| fact.seen.item.place).next_back();
        self.from = last.filter(|_| ids.len() == SLICE).map(|place| place.ordinal + 1);
        Ok(Some(facts))
    }
}
