//! The plan: what one row of the older table becomes here.
//!
//! Decides how many pages there are, how each and its chunks stood, and which text goes with them.
//! What contradicts itself or is not understood is a problem and is told; what is only not there
//! (a text, a number of pages) is a note. Reads nothing but the folder of `--files`.

use windrow_pipelines::catalog::{BATCH_MAX, CHUNK_BYTES_MAX, PAGES_MAX};
use windrow_pipelines::documents::elsewhere::{Chunk, Elsewhere, Page, Stood};
use windrow_pipelines::documents::media_type;

use super::details::{Details, SaidChunk, SaidPage, key_number};
use super::folder::Folder;
use super::source::Row;
use super::words::{Whole, whole};

/// Bytes of a file that goes along, so that all of it fits into a blob.
const ORIGINAL_MAX: u64 = 48 << 20;

/// What a row becomes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    pub(super) document: Elsewhere,
    /// What was not understood, and is not taken over.
    pub(super) problems: Vec<String>,
    /// What is not there and would be good to have.
    pub(super) notes: Vec<String>,
}

/// What a row says as a whole.
struct Said<'a> {
    row: &'a Row,
    folder: &'a Folder,
    convert: Whole,
    index: Whole,
    /// What is added to their page numbers to get ours.
    base: u32,
}

/// Plans a row; why it cannot be taken over at all, if so.
pub(super) fn plan(row: &Row, folder: &Folder) -> Result<Plan, String> {
    let status = |word: &Option<String>, column: &str, error: &Option<String>| {
        let known = whole(word.as_deref(), column, error.as_deref());
        let word = word.as_deref().unwrap_or_default();
        known.ok_or_else(|| format!("its {column} {word:?} is not known"))
    };
    if row.id.is_empty() || row.filename.is_empty() {
        return Err("it has no id or no filename".to_owned());
    }
    let convert = status(&row.convert_status, "convert_status", &row.ocr_error)?;
    let index = status(&row.index_status, "index_status", &row.vector_error)?;
    let details = Details::read(row.ocr_details.as_deref(), row.indexing_details.as_deref());
    let mut plan = Plan {
        document: Elsewhere { stood: convert.each(), ..Elsewhere::default() },
        problems: details.problems.clone(),
        notes: Vec::new(),
    };
    let numbers = details.pages.iter().map(|page| page.number);
    let of_chunks = details.chunks.iter().filter_map(page_of);
    let base = u32::from(numbers.chain(of_chunks).any(|number| number == 0));
    let mut said = Said { row, folder, convert, index, base };
    said.pages(&details, &mut plan)?;
    said.chunks(details.chunks, &mut plan);
    said.original(&mut plan);
    Ok(plan)
}

/// The page that a chunk names, by itself or by its file.
fn page_of(chunk: &SaidChunk) -> Option<u32> {
    chunk.page.or_else(|| chunk.path.as_deref().and_then(key_number))
}

impl Said<'_> {
    fn pages(&mut self, details: &Details, plan: &mut Plan) -> Result<(), String> {
        let of_pages = details.pages.iter().map(|page| page.number).max();
        let of_chunks = || details.chunks.iter().filter_map(page_of).max();
        let known = of_pages.or_else(of_chunks).map(|last| last.saturating_add(self.base));
        let column = self.row.total_pages.as_deref().and_then(|total| total.parse().ok());
        let total = details.total.or(column.filter(|total| *total > 0));
        let is_begun =
            known.is_some() || self.convert.is_completed() || self.convert == Whole::Partial;
        let mut count = known.max(total.filter(|_| is_begun)).unwrap_or(0);
        if count == 0 && is_begun {
            count = self.pages_by_name(plan);
        }
        if count > PAGES_MAX {
            return Err(format!("it has {count} pages, and at most {PAGES_MAX} are taken"));
        }
        if count == 0 && self.convert.is_completed() && !self.index.is_completed() {
            plan.notes.push("nothing says how many pages it has: it is taken as one".to_owned());
            count = 1;
        }
        let mut all = vec![None; count as usize];
        for page in &details.pages {
            all[(page.number + self.base - 1) as usize] = Some(page);
        }
        for (number, said) in (1..).zip(all) {
            let page = self.page(number, said, plan);
            plan.document.pages.push(page);
        }
        Ok(())
    }

    /// How many pages lie in the folder, where the table says nothing of them.
    fn pages_by_name(&mut self, plan: &mut Plan) -> u32 {
        let numbers = self.folder.numbers(&self.row.filename);
        match (numbers.first(), numbers.last()) {
            (Some(first), Some(last)) => {
                self.base = u32::from(*first == 0);
                last + self.base
            }
            _ => {
                let is_whole = self.folder.whole(&self.row.filename).is_some();
                if is_whole {
                    plan.notes.push("its text is one file, and taken as one page".to_owned());
                }
                u32::from(is_whole)
            }
        }
    }

    fn page(&self, number: u32, said: Option<&SaidPage>, plan: &mut Plan) -> Page {
        let ocr = said.and_then(|page| page.stood.clone()).unwrap_or_else(|| self.convert.each());
        let index = match &self.index {
            // What is not known one by one is done here.
            Whole::Partial => Stood::Pending,
            Whole::Stood(stood) => stood.clone(),
        };
        let mut page = Page { ocr, text: None, index, chunks: None };
        if page.ocr != Stood::Completed {
            return page;
        }
        let theirs = number - self.base;
        let name = &self.row.filename;
        let inline = said.and_then(|page| page.text.clone()).map(Ok);
        let by_path = || said.and_then(|page| self.folder.text(page.path.as_deref()?));
        let whole = || (number == 1).then(|| self.folder.whole(name)).flatten();
        let found = inline.or_else(by_path).or_else(|| self.folder.page(name, theirs));
        match found.or_else(whole) {
            Some(Ok(text)) => page.text = Some(text),
            Some(Err(why)) => plan.problems.push(format!("page {number}: {why}")),
            None => {}
        }
        page
    }

    fn chunks(&self, said: Vec<SaidChunk>, plan: &mut Plan) {
        let count = plan.document.pages.len() as u32;
        let mut by_page = vec![Vec::new(); count as usize];
        for (at, chunk) in said.into_iter().enumerate() {
            let number = match page_of(&chunk) {
                Some(number) => number.checked_add(self.base).filter(|number| *number > 0),
                None => (count == 1).then_some(1),
            };
            let called = chunk.id.clone().unwrap_or_else(|| format!("{at}"));
            match number.filter(|number| *number <= count) {
                Some(number) => by_page[(number - 1) as usize].push(chunk),
                None => plan.problems.push(format!("chunk {called} names no page of the document")),
            }
        }
        for (number, mut chunks) in (1..).zip(by_page) {
            if chunks.is_empty() {
                continue;
            }
            if chunks.len() > BATCH_MAX {
                let most = format!("page {number} has {} chunks, and at most ", chunks.len());
                plan.problems.push(most + &format!("{BATCH_MAX} are taken; it is cut anew"));
                continue;
            }
            chunks.sort_by(|one, other| (one.index, &one.id).cmp(&(other.index, &other.id)));
            let page = &mut plan.document.pages[number - 1];
            let chunks: Vec<Chunk> = chunks.into_iter().map(|chunk| self.chunk(chunk)).collect();
            let texts: Option<Vec<&str>> = chunks.iter().map(|one| one.text.as_deref()).collect();
            if let Some(texts) = texts.filter(|_| page.text.is_none()) {
                page.text = Some(texts.join("\n\n"));
            }
            page.chunks = Some(chunks);
        }
        let without = plan
            .document
            .pages
            .iter()
            .filter(|page| page.ocr == Stood::Completed && page.text.is_none());
        let without = without.count();
        if without > 0 {
            plan.notes.push(format!("the text of {without} of {count} pages is not at hand"));
        }
    }

    fn chunk(&self, said: SaidChunk) -> Chunk {
        let vector = said.vector.unwrap_or_else(|| self.index.each());
        let graph = said.graph.unwrap_or(match (&vector, self.index.is_completed()) {
            (Stood::Completed | Stood::Skipped { .. }, true) => Stood::Completed,
            _ => Stood::Pending,
        });
        let text = said.text.filter(|text| text.len() <= CHUNK_BYTES_MAX);
        Chunk { id: said.id, text, vector, graph }
    }

    /// Takes the file along if something is still to be read from it.
    fn original(&self, plan: &mut Plan) {
        let document = &plan.document;
        let is_read = |page: &Page| page.ocr == Stood::Completed && page.text.is_some();
        if !document.pages.is_empty() && document.pages.iter().all(is_read) {
            return;
        }
        let row = self.row;
        let names = [row.file_path.as_ref(), Some(&row.filename), row.original_filename.as_ref()];
        let found = names.into_iter().flatten().find_map(|name| self.folder.find(name));
        let Some(found) = found else {
            if document.pages.is_empty() && document.stood == Stood::Completed {
                plan.notes.push("nothing is known of its pages, so that it has no text".to_owned());
                return;
            }
            let waits = |page: &Page| page.ocr == Stood::Pending;
            let is_open = document.pages.is_empty() && document.stood == Stood::Pending;
            if is_open || document.pages.iter().any(waits) {
                plan.notes.push("its file is not at hand, so that it waits".to_owned());
            }
            return;
        };
        let size = std::fs::metadata(&found).map(|about| about.len()).unwrap_or(0);
        if size > ORIGINAL_MAX {
            let why = format!("its file has {size} bytes, and at most {ORIGINAL_MAX} go along");
            plan.notes.push(why);
            return;
        }
        match std::fs::read(&found) {
            Ok(bytes) => {
                plan.document.original = Some((media_type(&row.filename).to_owned(), bytes));
            }
            Err(error) => plan.problems.push(format!("its file cannot be read: {error}")),
        }
    }
}
