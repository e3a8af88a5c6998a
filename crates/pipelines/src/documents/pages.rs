//! The first stages: a file is split into its pages, and each page is read.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use windrow_client::worker::{Done, Handled, Job, Unread};
use windrow_core::command::NewChild;
use windrow_core::tally::OnGaps;

use super::child::page_child;
use super::fault::Fault;
use super::read::ReadError;
use super::remove::is_removal;
use super::route::{Gate, PAGES_MAX};
use super::{About, Content, Parts};
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
            ReadError::Ended { why } => Fault::Ended(why),
            ReadError::Bad { why } => Fault::Bad(why),
        }
    }
}

/// How long pages wait for a program that is not installed before one of them looks again.
const MISSING_MS: u64 = 10_000;

/// A copy of a file as it was before it was read.
struct Opened<'a> {
    path: &'a Path,
    /// Its device and number there, if it was there.
    was: Option<(u64, u64)>,
}

impl Opened<'_> {
    fn of(path: &Path) -> Opened<'_> {
        Opened { path, was: place(path) }
    }

    /// Why it was not read. One that is bad and not there any more was removed meanwhile, by
    /// whoever clears such places, and the next one may be good; another page may have made that
    /// already.
    fn unread(&self, error: ReadError) -> Fault {
        match error {
            ReadError::Bad { why } if self.was.is_none() || place(self.path) != self.was => {
                Fault::passing(format!("its copy was removed while it was read: {why}"))
            }
            error => error.into(),
        }
    }
}

fn place(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|about| (about.dev(), about.ino()))
}

/// What an item says about itself.
pub(super) fn about(job: &Job<Unread>) -> Result<About, Fault> {
    let text = job.metadata().unwrap_or_default();
    serde_json::from_str(text).map_err(|_| Fault::bad("the item does not say of which file it is"))
}

/// What came of a page, and what is to be remembered of it.
pub(super) struct Made {
    outcome: PageOutcome,
    remember: Option<(MemoKey, Vec<u8>)>,
}

impl From<PageOutcome> for Made {
    fn from(outcome: PageOutcome) -> Made {
        Made { outcome, remember: None }
    }
}

impl Parts {
    /// What an item says about itself, if the catalog says the same: anybody may enqueue an item.
    pub(super) async fn known(&self, job: &Job<Unread>) -> Result<About, Fault> {
        let about = about(job)?;
        let at = about.generation();
        let known = self.keeping.content(job.tenant(), at).await?;
        let Content { hash, bytes } = known.ok_or_else(|| Fault::Gone(at.to_string()))?;
        if (hash, bytes) != (about.file, about.bytes) {
            return Err(Fault::bad(format!("the file of {at} is another one")));
        }
        Ok(about)
    }

    /// Splits a document into its pages.
    pub(super) async fn pages(&self, job: &Job<Unread>) -> Handled<Done> {
        let about = about(job).map_err(Fault::undone)?;
        if is_removal(job) {
            return match self.remove_document(job.tenant(), about.document).await {
                // What is not there any more was removed before.
                Ok(true) | Err(Fault::Gone(_)) => Ok(Done::complete()),
                Ok(false) => {
                    Err(Fault::bad("nobody asked for its document to be deleted").undone())
                }
                Err(fault) => Err(fault.undone()),
            };
        }
        let about = match self.known(job).await {
            // It may have been added and deleted at once, and the item be the one for adding it.
            Err(Fault::Gone(what)) => {
                let removed = self.remove_document(job.tenant(), about.document).await;
                let gone = || Fault::Gone(what).undone();
                return removed.map_err(Fault::undone)?.then(Done::complete).ok_or_else(gone);
            }
            known => known.map_err(Fault::undone)?,
        };
        let gate = Gate::of_document(&job.work().body.route);
        match self.split(job.tenant(), &about, gate).await {
            Ok(Some(children)) => Ok(Done::split(children).on_gaps(OnGaps::Continue)),
            Ok(None) => Ok(Done::complete()),
            Err(fault) => {
                if let Fault::Bad(why) = &fault {
                    // What is bad now will be; if this is not heard, the item says it all the same.
                    let (tenant, at) = (job.tenant(), about.generation());
                    let _noted = self.keeping.fail_generation(tenant, at, why.clone()).await;
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
                let opened = Opened::of(&file);
                let counted = self.reader.pages(&file, &about.media_type).await;
                counted.map_err(|error| opened.unread(error))?
            }
        };
        if pages == 0 {
            return Err(Fault::bad("there is no page in it"));
        }
        if gate == Gate::Document && pages > PAGES_MAX {
            let why = format!("it has {pages} pages, and no more than {PAGES_MAX} can wait for ");
            return Err(Fault::bad(why + "each other; add it with gate = item"));
        }
        self.keeping.begin_pages(tenant, about.generation(), pages).await?;
        let route = gate.page();
        Ok(Some((1..=pages).map(|number| page_child(about, number, &route)).collect()))
    }

    /// Reads a page.
    pub(super) async fn read_page(&self, job: &Job<Unread>) -> Handled<Done> {
        let about = self.known(job).await.map_err(Fault::undone)?;
        match self.read(job.tenant(), &about).await {
            Ok(()) => Ok(Done::complete()),
            Err(fault) => {
                if let (Fault::Bad(why), Some(number)) = (&fault, about.page) {
                    let outcome = PageOutcome::Without { reason: why.clone() };
                    let page = about.page(number);
                    let _noted = self.keeping.put_page(job.tenant(), page, outcome).await;
                }
                Err(fault.undone())
            }
        }
    }

    async fn read(&self, tenant: &str, about: &About) -> Result<(), Fault> {
        let number = about.page.ok_or_else(|| Fault::bad("the item does not say which page"))?;
        let Made { outcome, remember } = match self.elsewhere(tenant, about).await? {
            Some(entry) => self.read_elsewhere(tenant, about, &entry, number).await?,
            None => self.read_from(tenant, about, number, None).await?,
        };
        self.keeping.put_page(tenant, about.page(number), outcome).await?;
        // Only what was kept is worth remembering.
        if let Some(value) = remember {
            self.keeping.remember(&MemoOf::new(tenant, PHASE), vec![value]).await?;
        }
        Ok(())
    }

    /// What a page of a file says, read now or remembered: of the document's own file, or of the
    /// one in it and what that is.
    pub(super) async fn read_from(
        &self,
        tenant: &str,
        about: &About,
        number: u32,
        within: Option<(PathBuf, String)>,
    ) -> Result<Made, Fault> {
        let of = MemoOf::new(tenant, PHASE);
        let version = self.reader.version();
        let media_type = within.as_ref().map_or(&about.media_type, |(_, media_type)| media_type);
        let parameters = format!("{media_type} page {number}");
        let key = MemoKey::of(&about.file, PHASE, "reader", &version, &parameters);
        let known = self.keeping.remembered(&of, vec![key]).await?.pop().flatten();
        let known = known.and_then(|bytes| serde_json::from_slice::<(String, String)>(&bytes).ok());
        let is_known = known.is_some();
        let (how, markdown) = match known {
            Some(known) => known,
            None => {
                let file = match &within {
                    Some((file, _)) => file.clone(),
                    None => self.files.open(tenant, about.file()).await.map_err(Fault::passing)?,
                };
                let opened = Opened::of(&file);
                let read = self.reader.read(&file, media_type, number).await;
                let read = read.map_err(|error| opened.unread(error))?;
                (read.how.to_owned(), read.markdown)
            }
        };
        let hash = content_hash(&markdown);
        // To read a text costs less than to remember it.
        let remember = if is_known || how == "text" {
            None
        } else {
            Some((key, serde_json::to_vec(&(&how, &markdown)).map_err(Fault::bad)?))
        };
        Ok(Made { outcome: PageOutcome::Read { markdown, how, hash }, remember })
    }
}
