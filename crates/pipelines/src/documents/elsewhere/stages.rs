//! What the stages do with a document that was read elsewhere.
//!
//! What was completed there is taken as it is, as far as there is text; vectors and the graph are
//! made here from that. What was pending is done here, from the file that was read there if that is
//! at hand, and else it waits for it. What failed fails once with the reason that was given there,
//! so that it is seen; when somebody has it done again, it is done.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::json;
use windrow_client::worker::{Job, Undone, Unread};
use windrow_core::trail::Class;

use super::super::fault::Fault;
use super::super::pages::Made;
use super::super::{About, Parts};
use super::pieces::pieces;
use super::{Chunk, MEDIA_TYPE, Opened, Page, Stood};
use crate::catalog::{MemoKey, MemoOf, NewChunk, PageKey, PageOutcome, content_hash};

/// The phase under which it is remembered what was said already.
pub const SAID: &str = "elsewhere";
/// How a page was read whose text is from elsewhere, and one that was read there without its text.
const HOW: &str = "elsewhere";
const HOW_WITHOUT: &str = "elsewhere_without_text";
/// Why a chunk is skipped that was done there and has no text here.
pub(in super::super) const NO_TEXT: &str = "text_not_at_hand: it was done elsewhere";
/// Why something fails again that failed there.
const NO_ORIGINAL: &str = "its file is not at hand; import it again with --files";
/// How long something waits before somebody looks again. To import it again wakes it.
const WAIT_MS: u64 = 30 * 24 * 3_600_000;
/// Letters for which a token is reckoned.
const TOKEN_LETTERS: usize = 4;

/// How a chunk stood there, as its item says it.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub(in super::super) struct Below {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chunk_id: Option<String>,
    #[serde(default, skip_serializing_if = "Stood::is_completed")]
    pub(in super::super) vector: Stood,
    #[serde(default, skip_serializing_if = "Stood::is_completed")]
    pub(in super::super) graph: Stood,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(in super::super) has_no_text: bool,
}

/// How the chunk of an item stood elsewhere, if it is from there.
pub(in super::super) fn below_of(job: &Job<Unread>) -> Option<Below> {
    #[derive(Deserialize)]
    struct Said {
        elsewhere: Option<Below>,
    }
    let metadata = job.metadata().filter(|metadata| metadata.contains("\"elsewhere\""))?;
    serde_json::from_str::<Said>(metadata).ok()?.elsewhere
}

/// The file of a document that was read elsewhere, and the page that was read last.
#[derive(Debug)]
pub(in super::super) struct Entry {
    opened: Opened,
    last: Option<(u32, Option<Page>)>,
}

impl Entry {
    async fn page(&self, number: u32) -> Result<Option<Page>, Fault> {
        let opened = self.opened.clone();
        apart(move || Ok(opened.page(number)?)).await
    }

    /// How a chunk stood, if it was known.
    pub(in super::super) async fn below(
        &mut self,
        page: u32,
        index: u32,
    ) -> Result<Option<Below>, Fault> {
        if self.last.as_ref().is_none_or(|(number, _)| *number != page) {
            self.last = Some((page, self.page(page).await?));
        }
        let page = self.last.as_ref().and_then(|(_, page)| page.as_ref());
        let chunk = page.and_then(|page| page.chunks.as_ref()?.get(index as usize));
        let may_be_read = self.opened.head.original.is_some();
        let has_page = may_be_read || page.is_some_and(|page| page.text.is_some());
        Ok(chunk.map(|chunk| below(chunk, chunk.text.is_none() && !has_page)))
    }
}

fn below(chunk: &Chunk, has_no_text: bool) -> Below {
    let Chunk { id, vector, graph, .. } = chunk.clone();
    Below { chunk_id: id, vector, graph, has_no_text }
}

/// Does something with a file where nobody waits for a thread.
async fn apart<T: Send + 'static>(
    what: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    tokio::task::spawn_blocking(what).await.map_err(Fault::passing)?
}

impl Parts {
    /// The file of a document that was read elsewhere; None of any other.
    pub(in super::super) async fn elsewhere(
        &self,
        tenant: &str,
        about: &About,
    ) -> Result<Option<Entry>, Fault> {
        if about.media_type != MEDIA_TYPE {
            return Ok(None);
        }
        let path = self.files.open(tenant, about.file()).await.map_err(Fault::passing)?;
        let opened = apart(move || Ok(Opened::open(&path)?)).await?;
        Ok(Some(Entry { opened, last: None }))
    }

    /// How many pages it has; None if it was done and nobody knows of any.
    pub(in super::super) async fn pages_elsewhere(
        &self,
        tenant: &str,
        about: &About,
        entry: &Entry,
    ) -> Result<Option<u32>, Fault> {
        if entry.opened.count() > 0 {
            return Ok(Some(entry.opened.count()));
        }
        let stood = &entry.opened.head.stood;
        if let Stood::Failed { why } = stood {
            self.say_once(tenant, &about.generation().to_string(), "pages", why).await?;
        }
        let Some((file, media_type)) = self.original(entry).await? else {
            return match stood {
                Stood::Completed | Stood::Skipped { .. } => Ok(None),
                Stood::Failed { .. } => Err(Fault::bad(NO_ORIGINAL)),
                Stood::Pending => Err(self.waits()),
            };
        };
        Ok(Some(self.reader.pages(&file, &media_type).await?))
    }

    /// What came of a page.
    pub(in super::super) async fn read_elsewhere(
        &self,
        tenant: &str,
        about: &About,
        entry: &Entry,
        number: u32,
    ) -> Result<Made, Fault> {
        let page = entry.page(number).await?;
        let page = page.unwrap_or(Page { ocr: Stood::Pending, ..Page::default() });
        let is_done = matches!(page.ocr, Stood::Completed | Stood::Skipped { .. });
        if let Some(markdown) = page.text.filter(|_| is_done) {
            let hash = content_hash(&markdown);
            return Ok(PageOutcome::Read { markdown, how: HOW.to_owned(), hash }.into());
        }
        if let Stood::Failed { why } = &page.ocr {
            self.say_once(tenant, &about.page(number).to_string(), "ocr", why).await?;
        }
        match (self.original(entry).await?, page.ocr) {
            (Some(original), _) => self.read_from(tenant, about, number, Some(original)).await,
            (None, Stood::Completed | Stood::Skipped { .. }) => {
                let (markdown, how) = (String::new(), HOW_WITHOUT.to_owned());
                let hash = content_hash(&markdown);
                Ok(PageOutcome::Read { hash, markdown, how }.into())
            }
            (None, Stood::Failed { .. }) => Err(Fault::bad(NO_ORIGINAL)),
            (None, Stood::Pending) => Err(self.waits()),
        }
    }

    /// What a page is cut into, and how that stood; None if it is cut as any other page is.
    pub(in super::super) async fn cut_elsewhere(
        &self,
        tenant: &str,
        entry: &Entry,
        key: PageKey,
        markdown: &str,
    ) -> Result<Option<Vec<(NewChunk, Below)>>, Fault> {
        let Some(page) = entry.page(key.number).await? else { return Ok(None) };
        if let Some(chunks) = &page.chunks {
            let cut = pieces(markdown, chunks.len());
            let all = (0..).zip(chunks).zip(cut);
            return Ok(Some(
                all.map(|((at, chunk), cut)| taken(at, chunk, markdown, cut)).collect(),
            ));
        }
        match &page.index {
            Stood::Failed { why } => {
                self.say_once(tenant, &key.to_string(), "chunk", why).await?;
            }
            Stood::Pending if markdown.is_empty() && page.text.is_none() => {
                return Err(self.waits());
            }
            _ => {}
        }
        Ok(None)
    }

    /// Lets a chunk end as it did elsewhere: failed for the first time, or skipped.
    pub(in super::super) async fn chunk_elsewhere(
        &self,
        job: &Job<Unread>,
        stood: &Stood,
    ) -> Result<(), Undone> {
        match stood {
            Stood::Completed | Stood::Pending => Ok(()),
            Stood::Skipped { why } => Err(Undone::skip(why)),
            Stood::Failed { why } => {
                let of = job.work().body.reference.clone().unwrap_or_default();
                let said = self.say_once(job.tenant(), &of, job.stage(), why).await;
                said.map_err(|fault| match fault {
                    // Whoever has it done again may well succeed.
                    Fault::Bad(why) => Undone::fail(why).class(Class::Other),
                    fault => fault.undone(),
                })
            }
        }
    }

    /// Says why something failed elsewhere, unless that was said before.
    async fn say_once(&self, tenant: &str, of: &str, stage: &str, why: &str) -> Result<(), Fault> {
        let key = MemoKey::of(&content_hash(of), SAID, stage, "", "");
        let phase = MemoOf::new(tenant, SAID);
        let said = self.keeping.remembered(&phase, vec![key]).await?.pop().flatten();
        if said.is_some() {
            return Ok(());
        }
        self.keeping.remember(&phase, vec![(key, Vec::new())]).await?;
        Err(Fault::bad(format!("it failed elsewhere: {why}")))
    }

    /// The file that was read there, and what it is, if it is at hand.
    async fn original(&self, entry: &Entry) -> Result<Option<(PathBuf, String)>, Fault> {
        let opened = entry.opened.clone();
        apart(move || Ok(opened.original()?)).await
    }

    fn waits(&self) -> Fault {
        Fault::Waits { until: self.clock.now().plus(WAIT_MS) }
    }
}

/// A chunk as it is kept here: with its own text, or with a piece of its page's.
fn taken(
    index: u32,
    chunk: &Chunk,
    markdown: &str,
    piece: std::ops::Range<usize>,
) -> (NewChunk, Below) {
    let (text, range) = match &chunk.text {
        Some(text) => {
            let at = markdown.find(&**text).filter(|_| !text.is_empty());
            (text.clone(), at.map_or(0..0, |at| at..at + text.len()))
        }
        None => (markdown[piece.clone()].to_owned(), piece),
    };
    let has_no_text = chunk.text.is_none() && markdown.is_empty();
    let new = NewChunk {
        index,
        kind: "text".to_owned(),
        tokens: text.chars().count().div_ceil(TOKEN_LETTERS) as u32,
        begins: range.start as u32,
        ends: range.end as u32,
        metadata: json!({"elsewhere": chunk.id}),
        text,
    };
    (new, below(chunk, has_no_text))
}
