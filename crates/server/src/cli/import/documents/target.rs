//! The target: documents that are here, asked over the API wherever they are.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};
use windrow_pipelines::documents::elsewhere::MEDIA_TYPE;
use windrow_store::blobs::Hex;
use windrow_wire::document::{Added, Document, Documents, Progress, State};

use super::expected::{Counts, Is};
use crate::cli::exit::{Exit, Stop};
use crate::cli::reach::{Ask, Target};

/// The collection of what is imported without naming one.
const COLLECTION: &str = "default";
/// Documents on a page of the list.
const LISTED: &str = "200";

/// Where documents go.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) collection: Option<String>,
    pub(super) tenant: Option<String>,
    /// What the sources of all of them begin with.
    pub(super) prefix: String,
}

/// A document that is here.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) id: String,
    pub(super) sha256: String,
    pub(super) state: State,
}

impl Way {
    /// Where rows of a database go.
    pub(super) fn of(database: &str, collection: Option<&str>, tenant: Option<&str>) -> Way {
        Way {
            collection: collection.map(str::to_owned),
            tenant: tenant.map(str::to_owned),
            prefix: format!("postgres:{database}/documents/"),
        }
    }

    /// What a row is found by again.
    pub(super) fn source(&self, id: &str) -> String {
        format!("{}{id}", self.prefix)
    }

    /// What came here before, by its source.
    pub(super) async fn known(&self, target: &Target) -> Result<HashMap<String, Known>, Stop> {
        let (mut all, mut cursor) = (HashMap::new(), None::<String>);
        loop {
            let ask = Ask::get(&["documents"])
                .with("collection", Some(self.collection.as_deref().unwrap_or(COLLECTION)))
                .with("tenant", self.tenant.as_ref())
                .with("limit", Some(LISTED))
                .with("cursor", cursor.as_ref());
            let page: Documents = target.read(ask).await?;
            let ours = |document: &Document| document.source.starts_with(&self.prefix);
            all.extend(page.documents.into_iter().filter(ours).map(|document| {
                let Document { id, source, sha256, state, .. } = document;
                (source, Known { id, sha256: sha256.unwrap_or_default(), state })
            }));
            cursor = page.next;
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }

    /// Sends a document.
    pub(super) async fn send(
        &self,
        target: &Target,
        (source, name): (&str, &str),
        file: Vec<u8>,
    ) -> Result<Added, Stop> {
        let ask = Ask::post(&["documents"])
            .with("name", Some(name))
            .with("source", Some(source))
            .with("collection", self.collection.as_ref())
            .with("tenant", self.tenant.as_ref());
        target.read(ask.of_type(MEDIA_TYPE, file.into()).once()).await
    }
}

/// How far a document is; None if it is not there any more.
pub(super) async fn progress(target: &Target, id: &str) -> Result<Option<Progress>, Stop> {
    match target.read(Ask::get(&["documents", id, "progress"])).await {
        Err(stop) if stop.exit == Exit::NotFound => Ok(None),
        progress => progress.map(Some),
    }
}

/// How a phase stands here as a whole, and how many where.
pub(super) fn phase(of: &windrow_wire::document::Phase) -> (Is, Counts) {
    use windrow_wire::document::Task;
    let is = match of.status {
        Task::Completed | Task::Skipped => Is::Completed,
        Task::Pending | Task::Processing => Is::Pending,
        Task::Failed | Task::Cancelled => Is::Failed,
    };
    let mut counts = Counts::default();
    counts.add(Is::Completed, u64::from(of.completed + of.skipped));
    counts.add(Is::Pending, u64::from(of.pending + of.processing));
    counts.add(Is::Failed, u64::from(of.failed + of.cancelled));
    (is, counts)
}

/// The hash of a file, as documents show it.
pub(super) fn sha256(file: &[u8]) -> String {
    Hex(&Sha256::digest(file)).to_string()
}
