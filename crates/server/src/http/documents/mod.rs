//! Documents: added, shown page by page, done again, let go, and searched.
//!
//! A document belongs to a tenant. Whoever names one by its id is told of it only if that tenant is
//! theirs to see.

mod add;
mod change;
mod graph;
mod live;
mod manifest;
mod progress;
mod search;
mod show;
mod stages;

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::Method;
use axum::http::request::Parts;
use axum::routing::{delete, get, post};
use uuid::Uuid;
use windrow_core::{Refusal, text};
use windrow_pipelines::catalog::{CatalogError, Document, Generation, GenerationKey};
use windrow_pipelines::documents::{NotAdded, ReadError};
use windrow_wire::document as wire;
use windrow_wire::graph::{Mentioned, Picture};
use windrow_wire::problem::{Code, Problem};
use windrow_wire::search::Found;
use windrow_wire::stage::{StageAnswer, StageCall, StagesHere};

pub(super) use live::socket;

use super::App;
use super::reply::Failed;
use super::table::{Operation, Role};
use crate::auth::Scoped;
use crate::documents::Opened;

const TENANT: (&str, &str) = ("tenant", "whose it is (also user_id); `default` if left out");

/// What can be asked of documents.
pub(super) fn operations() -> Vec<Operation> {
    let mut all = of_all();
    all.extend(of_graph());
    all.extend(of_one());
    all.extend(of_stages());
    all
}

fn of_stages() -> Vec<Operation> {
    let of = Operation::new;
    vec![
        of(
            Method::GET,
            "/documents/stages",
            Role::Worker,
            "What whoever does stages of documents elsewhere must know: which this server does \
             itself, and whose vectors it searches.",
            get(stages::here),
        )
        .gives::<StagesHere>(200),
        of(
            Method::POST,
            "/documents/stage-calls",
            Role::Worker,
            "Something that a stage which is done elsewhere reads or writes, for `windrow worker \
             --stages`. It changes with the version, which is said.",
            post(stages::call),
        )
        .asks(stages::PARAMETERS)
        .needs::<StageCall>()
        .gives::<StageAnswer>(200),
    ]
}

fn of_all() -> Vec<Operation> {
    let of = Operation::new;
    vec![
        of(
            Method::POST,
            "/documents",
            Role::Producer,
            "Add a document: the file itself as the body, a form with a part `file`, or JSON that \
             names a blob which was uploaded before, in pieces if need be. The same file again is \
             no work; another one from the same source is a new version.",
            post(add::add),
        )
        .asks(add::PARAMETERS)
        .needs::<wire::NewDocument>()
        .also_takes::<add::Form>("multipart/form-data")
        .also_takes::<add::Bytes>("application/octet-stream")
        .gives::<wire::Added>(201)
        .also_gives::<wire::Added>(200),
        of(
            Method::GET,
            "/documents",
            Role::Viewer,
            "Documents, the latest first, page by page.",
            get(show::list),
        )
        .asks(show::PARAMETERS)
        .gives::<wire::Documents>(200),
        of(
            Method::GET,
            "/documents/counts",
            Role::Viewer,
            "How many documents are in each state.",
            get(show::counts),
        )
        .asks(progress::OF_TENANT)
        .gives::<Vec<wire::StateCount>>(200),
        of(
            Method::GET,
            "/documents/stats",
            Role::Viewer,
            "How many pages and chunks of the newest versions of documents stand where: \
             ocr_pages, vector_chunks and graphrag_chunks by status.",
            get(progress::stats),
        )
        .asks(progress::OF_TENANT)
        .gives::<Vec<wire::Stat>>(200),
        of(
            Method::GET,
            "/documents/memo",
            Role::Viewer,
            "What is remembered of pages and chunks, by phase, and how often that saved work.",
            get(show::memo),
        )
        .asks(progress::OF_TENANT)
        .gives::<Vec<wire::Memo>>(200),
        of(
            Method::GET,
            "/documents/ready",
            Role::Viewer,
            "Documents that completed a phase and wait for the next one.",
            get(progress::ready),
        )
        .asks(progress::READY)
        .gives::<Vec<wire::Ready>>(200),
        of(
            Method::GET,
            "/search",
            Role::Viewer,
            "Find passages by words and by meaning at once, with the page that each is from and \
             why it was found.",
            get(search::search),
        )
        .asks(search::PARAMETERS)
        .gives::<Found>(200),
    ]
}

fn of_graph() -> Vec<Operation> {
    let of = Operation::new;
    vec![
        of(
            Method::GET,
            "/documents/graph",
            Role::Viewer,
            "What is around an entity: others, layer by layer, and what relates them; or the \
             entities that a name may mean.",
            get(graph::picture),
        )
        .asks(graph::PARAMETERS)
        .gives::<Picture>(200),
        of(
            Method::GET,
            "/documents/graph/entities/{id}",
            Role::Viewer,
            "An entity, with the passages that mention it, fifty at a time.",
            get(graph::mentioned),
        )
        .asks(graph::MENTIONS)
        .gives::<Mentioned>(200),
    ]
}

fn of_one() -> Vec<Operation> {
    let of = Operation::new;
    vec![
        of(Method::GET, "/documents/{id}", Role::Viewer, "A document.", get(show::one))
            .gives::<wire::Document>(200),
        of(
            Method::DELETE,
            "/documents/{id}",
            Role::Operator,
            "Let a document go: search does not find it from now on, and an item removes it from \
             everywhere.",
            delete(change::remove),
        )
        .gives::<change::Begun>(202),
        of(
            Method::GET,
            "/documents/{id}/pages/{number}",
            Role::Viewer,
            "A page: its Markdown, its chunks, how it was read or why it was not.",
            get(show::page),
        )
        .asks(show::GENERATION)
        .gives::<wire::Page>(200),
        of(
            Method::GET,
            "/documents/{id}/pages/{number}/image",
            Role::Viewer,
            "A picture of a page, in PNG.",
            get(show::image),
        )
        .gives_bytes(),
        of(
            Method::GET,
            "/documents/{id}/file",
            Role::Viewer,
            "The file of a document, or a range of it.",
            get(show::file),
        )
        .gives_bytes(),
        of(
            Method::GET,
            "/documents/{id}/manifest",
            Role::Viewer,
            "What came of every page, how far its chunks are, and which item reads it.",
            get(manifest::manifest),
        )
        .asks(manifest::PAGES)
        .gives::<wire::Manifest>(200),
        of(
            Method::GET,
            "/documents/{id}/progress",
            Role::Viewer,
            "How far a document is in each phase, how fast, how long it will take, and what \
             failed. With Accept: text/event-stream, as it goes on.",
            get(live::progress),
        )
        .gives::<wire::Progress>(200)
        .streams(),
        of(
            Method::POST,
            "/documents/{id}/recover-failed",
            Role::Operator,
            "Do again what failed of a document, and nothing else.",
            post(progress::recover),
        )
        .gives::<change::Begun>(202),
        of(
            Method::POST,
            "/documents/{id}/reindex",
            Role::Operator,
            "Do a document again from its file, as a new version; the old one is found until then. \
             What was paid for is remembered.",
            post(change::reindex),
        )
        .gives::<wire::Added>(202),
    ]
}

/// The tenant that was named, or the caller's.
fn tenant(said: Option<&str>, scoped: &Scoped) -> Result<Arc<str>, Failed> {
    let tenant = match said {
        None | Some("") => scoped.tenant(),
        Some(said) => said.into(),
    };
    text::name("tenant", &tenant, true)?;
    scoped.own(&tenant)?;
    Ok(tenant)
}

/// A choice after the question mark: `true` or `false`, and what is empty is no.
fn is_yes(field: &'static str, said: Option<&str>) -> Result<bool, Refusal> {
    match said {
        None | Some("" | "false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Refusal::invalid(field, "must be true or false")),
    }
}

/// A document that the caller may know of, by the id in the path.
pub(super) struct Known {
    app: Arc<App>,
    document: Document,
}

impl Known {
    async fn opened(&self) -> Result<&Opened, Failed> {
        Ok(self.app.documents.opened().await?)
    }

    /// Its newest version.
    fn newest(&self) -> Result<&Generation, Failed> {
        let gone = || Failed::not_found("such document any more");
        self.document.newest.as_ref().ok_or_else(gone)
    }

    /// One of its versions, if it is there.
    async fn version(&self, number: u32) -> Result<Option<Generation>, Failed> {
        if let Some(newest) = self.document.newest.as_ref().filter(|one| one.number == number) {
            return Ok(Some(newest.clone()));
        }
        let at = GenerationKey { document: self.document.id, generation: number };
        let catalog = &self.opened().await?.catalog;
        Ok(catalog.generation(&self.document.scope.tenant, at).await?)
    }

    async fn find(app: Arc<App>, scoped: &Scoped, id: &str) -> Result<Known, Failed> {
        let none = || Failed::not_found("such document");
        let id: Uuid = id.parse().map_err(|_| none())?;
        if !app.documents.is_begun().await? {
            return Err(none());
        }
        let catalog = &app.documents.opened().await?.catalog;
        let owner = catalog.owner(id).await?.filter(|owner| scoped.sees(owner));
        let owner = owner.ok_or_else(none)?;
        let document = catalog.document(&owner, id).await?.ok_or_else(none)?;
        Ok(Known { app, document })
    }
}

impl FromRequestParts<Arc<App>> for Known {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Known, Failed> {
        let id = named(parts, "id").await?;
        let scoped = Scoped::from_request_parts(parts, app).await?;
        Known::find(Arc::clone(app), &scoped, &id).await
    }
}

/// The number of a page in the path, from 1.
pub(super) struct Number(u32);

impl FromRequestParts<Arc<App>> for Number {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Number, Failed> {
        let number = named(parts, "number").await?.parse().ok().filter(|number| *number > 0);
        number.map(Number).ok_or_else(|| Failed::not_found("such page"))
    }
}

/// What a parameter of the path says.
async fn named(parts: &mut Parts, name: &str) -> Result<String, Failed> {
    let said = RawPathParams::from_request_parts(parts, &()).await;
    let said = said.map_err(|refused| Failed::malformed(refused.body_text()))?;
    let found = said.iter().find(|(named, _)| *named == name).map(|(_, said)| said.to_owned());
    found.ok_or_else(|| Failed::not_found("such path"))
}

impl From<CatalogError> for Failed {
    fn from(error: CatalogError) -> Failed {
        let said = error.to_string();
        match error {
            CatalogError::Transient { retry_after_ms, .. } => {
                let problem = Problem::new(Code::StoreFailed, said);
                Failed(problem.retry_after(retry_after_ms.unwrap_or(1_000)))
            }
            CatalogError::Bad { .. } => Failed::new(Code::Invalid, said),
            CatalogError::Gone { .. } => Failed::new(Code::NotFound, said),
        }
    }
}

impl From<ReadError> for Failed {
    fn from(error: ReadError) -> Failed {
        let said = error.to_string();
        match error {
            ReadError::Bad { .. } => Failed::new(Code::NotFound, said),
            ReadError::Missing { .. } | ReadError::Transient { .. } | ReadError::Ended { .. } => {
                Failed(Problem::new(Code::StoreFailed, said).retry_after(1_000))
            }
        }
    }
}

impl From<NotAdded> for Failed {
    fn from(error: NotAdded) -> Failed {
        match error {
            NotAdded::Catalog(error) => error.into(),
            NotAdded::Queue(error) => error.into(),
        }
    }
}
