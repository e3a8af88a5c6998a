//! The first stages: a file is split into its pages, and each page is read.

use std::path::PathBuf;

use windrow_client::worker::{Done, Handled, Job, Unread};
use windrow_core::command::NewChild;
use windrow_core::tally::OnGaps;

use super::child::page_child;
use super::fault::Fault;
use super::read::ReadError;
use super::remove::is_removal;
use super::route::{Gate, PAGES_MAX};
use super::{About, Parts};
use crate::catalog::{MemoKey, MemoOf, PageOutcome, content_hash};

/// The phase that pages which were read are remembered under.
const PHASE: &str = "ocr";

impl From<ReadError> for Fault {
    fn from(error: ReadError) -> Fault {
        match error {
            // Somebody may install it meanwhile.
            ReadError::Missing { .. } => {
                Fault::Passing { why: error.to_string(), retry_after_ms: Some(MISSING_MS) }
            }
            ReadError::Transient { why, retry_after_ms } => Fault::Passing { why, retry_after_ms },
            ReadError::Bad { why } => Fault::Bad(why),
        }
    }
}

/// How long pages wait for a program that is not installed before one of them looks again.
const MISSING_MS: u64 = 10_000;

/// What an item says about itself.
pub(super) fn about(job: &Job<Unread>) -> Result<About, Fault> {
    let text = job.metadata().unwrap_or_default();
    serde_json::from_str(text).map_err(|_| Fault::bad("the item does not say of which file it is"))
}

impl Parts {
    /// Splits a document into its pages.
    pub(super) async fn pages(&self, job: &Job<Unread>) -> Handled<Done> {
        let about = about(job).map_err(Fault::undone)?;
        if is_removal(job) {
            return self.remove_document(&about).await;
        }
        let gate = Gate::of_document(&job.work().body.route);
        match self.split(job.tenant(), &about, gate).await {
            Ok(Some(children)) => Ok(Done::split(children).on_gaps(OnGaps::Continue)),
            Ok(None) => Ok(Done::complete()),
            Err(fault) => {
                if let Fault::Bad(why) = &fault {
                    // What is bad now will be; if this is not heard, the item says it all the same.
                    let failure = Some(why.clone());
                    let _noted = self.catalog.fail_generation(about.generation(), failure).await;
                }
                Err(fault.undone())
            }
        }
    }

    /// The pages of a document; None if it was done elsewhere and nobody knows of any.
    async fn split(
        &self,
        tenant: &str,
        about: &About,
        gate: Gate,
    ) -> Result<Option<Vec<NewChild>>, Fault> {
        let pages = match self.elsewhere(tenant, about).await? {
            Some(entry) => match self.pages_elsewhere(tenant, about, &entry).await? {
                Some(pages) => pages,
                None => return Ok(None),
            },
            None => {
                let file = self.files.open(tenant, about.file()).await.map_err(Fault::passing)?;
                self.reader.pages(&file, &about.media_type).await?
            }
        };
        if pages == 0 {
            return Err(Fault::bad("there is no page in it"));
        }
        if gate == Gate::Document && pages > PAGES_MAX {
            let why = format!("it has {pages} pages, and no more than {PAGES_MAX} can wait for ");
            return Err(Fault::bad(why + "each other; add it with gate = item"));
        }
        self.catalog.begin_pages(about.generation(), pages).await?;
        let route = gate.page();
        Ok(Some((1..=pages).map(|number| page_child(about, number, &route)).collect()))
    }

    /// Reads a page.
    pub(super) async fn read_page(&self, job: &Job<Unread>) -> Handled<Done> {
        let about = about(job).map_err(Fault::undone)?;
        match self.read(job.tenant(), &about).await {
            Ok(()) => Ok(Done::complete()),
            Err(fault) => {
                if let (Fault::Bad(why), Some(number)) = (&fault, about.page) {
                    let outcome = PageOutcome::Without { reason: why.clone() };
                    let _noted = self.catalog.put_page(about.page(number), outcome).await;
                }
                Err(fault.undone())
            }
        }
    }

    async fn read(&self, tenant: &str, about: &About) -> Result<(), Fault> {
        let number = about.page.ok_or_else(|| Fault::bad("the item does not say which page"))?;
        let outcome = match self.elsewhere(tenant, about).await? {
            Some(entry) => self.read_elsewhere(tenant, about, &entry, number).await?,
            None => self.read_from(tenant, about, number, None).await?,
        };
        Ok(self.catalog.put_page(about.page(number), outcome).await?)
    }

    /// What a page of a file says, read now or remembered: of the document's own file, or of the
    /// one in it and what that is.
    pub(super) async fn read_from(
        &self,
        tenant: &str,
        about: &About,
        number: u32,
        within: Option<(PathBuf, String)>,
    ) -> Result<PageOutcome, Fault> {
        let (of, now) = (MemoOf::new(tenant, PHASE), self.clock.now());
        let version = self.reader.version();
        let media_type = within.as_ref().map_or(&about.media_type, |(_, media_type)| media_type);
        let parameters = format!("{media_type} page {number}");
        let key = MemoKey::of(&about.file, PHASE, "reader", &version, &parameters);
        let known = self.catalog.memo_get(&of, vec![key], now).await?.pop().flatten();
        let known = known.and_then(|bytes| serde_json::from_slice::<(String, String)>(&bytes).ok());
        let (how, markdown) = match known {
            Some(known) => known,
            None => {
                let file = match &within {
                    Some((file, _)) => file.clone(),
                    None => self.files.open(tenant, about.file()).await.map_err(Fault::passing)?,
                };
                let read = self.reader.read(&file, media_type, number).await?;
                let made = (read.how.to_owned(), read.markdown);
                let bytes = serde_json::to_vec(&made).map_err(Fault::bad)?;
                self.catalog.memo_put(&of, vec![(key, bytes)], now).await?;
                made
            }
        };
        let hash = content_hash(&markdown);
        Ok(PageOutcome::Read { markdown, how, hash })
    }
}
