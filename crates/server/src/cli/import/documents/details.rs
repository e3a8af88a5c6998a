//! Details: what `ocr_details` and `indexing_details` say of pages and chunks.
//!
//! Nobody ever wrote down how these two look, and they look different from one version to the next.
//! Decides what is understood: lists and objects by name, the names of fields that are in use, page
//! numbers from 0 or from 1. What is not understood becomes a problem with its place, and the rest
//! is taken. docs/reference/import.md has the same in words.

use serde_json::{Map, Value};
use windrow_pipelines::documents::elsewhere::Stood;

use super::words::stood;

/// What is said of a page. Its number is theirs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SaidPage {
    pub(super) number: u32,
    pub(super) stood: Option<Stood>,
    pub(super) text: Option<String>,
    pub(super) path: Option<String>,
}

/// What is said of a chunk.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct SaidChunk {
    pub(super) id: Option<String>,
    pub(super) page: Option<u32>,
    pub(super) path: Option<String>,
    pub(super) index: Option<u64>,
    pub(super) text: Option<String>,
    pub(super) vector: Option<Stood>,
    pub(super) graph: Option<Stood>,
}

/// What was understood.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Details {
    pub(super) pages: Vec<SaidPage>,
    pub(super) chunks: Vec<SaidChunk>,
    /// How many pages there are said to be.
    pub(super) total: Option<u32>,
    /// What was not understood, with its place.
    pub(super) problems: Vec<String>,
}

const NUMBER: [&str; 4] = ["page_number", "page", "page_no", "number"];
const STATUS: [&str; 3] = ["status", "ocr_status", "state"];
const ERROR: [&str; 3] = ["error", "ocr_error", "reason"];
const TEXT: [&str; 4] = ["markdown", "text", "content", "page_content"];
const PATH: [&str; 4] = ["page_file_path", "file_path", "markdown_path", "path"];
const CHUNK_ID: [&str; 2] = ["chunk_id", "id"];
const CHUNK_INDEX: [&str; 2] = ["chunk_index", "index"];
const VECTOR: [&str; 3] = ["vector_status", "status", "state"];
const VECTOR_ERROR: [&str; 2] = ["vector_error", "error"];
const GRAPH: [&str; 2] = ["graphrag_status", "graph_status"];
const GRAPH_ERROR: [&str; 2] = ["graphrag_error", "graph_error"];

impl Details {
    /// What both columns say.
    pub(super) fn read(ocr: Option<&str>, indexing: Option<&str>) -> Details {
        let mut details = Details::default();
        if let Some(value) = details.value("ocr_details", ocr) {
            details.ocr(&value);
        }
        if let Some(value) = details.value("indexing_details", indexing) {
            details.indexing(&value);
        }
        details
    }

    fn value(&mut self, column: &str, text: Option<&str>) -> Option<Value> {
        match serde_json::from_str(text?) {
            Ok(Value::Null) => None,
            // A column of JSON may hold JSON in a text.
            Ok(Value::String(text)) => match serde_json::from_str(&text) {
                Ok(value) => Some(value),
                Err(error) => self.problem(column, &format!("is no JSON: {error}")),
            },
            Ok(value) => Some(value),
            Err(error) => self.problem(column, &format!("is no JSON: {error}")),
        }
    }

    fn problem<T>(&mut self, place: &str, what: &str) -> Option<T> {
        self.problems.push(format!("{place}: {what}"));
        None
    }

    fn ocr(&mut self, value: &Value) {
        let within = value.get("page_ocr").unwrap_or(value);
        let total = number(within.get("total_pages")).or_else(|| number(value.get("total_pages")));
        self.total = total.filter(|total| *total > 0);
        let pages = within.get("pages").unwrap_or(within);
        let is_plain = std::ptr::eq(pages, within);
        let Some(entries) = entries(pages, |key| !is_plain || key_number(key).is_some()) else {
            let _none: Option<()> = self.problem("ocr_details", "there are no pages in it");
            return;
        };
        for (place, key, entry) in entries {
            let place = format!("ocr_details, {place}");
            if let Some(page) = self.page(&place, key, entry) {
                self.pages.push(page);
            }
        }
        self.pages.sort_by_key(|page| page.number);
        let twice: Vec<u32> = self
            .pages
            .windows(2)
            .filter(|two| two[0].number == two[1].number)
            .map(|two| two[0].number)
            .collect();
        for number in twice {
            let _none: Option<()> =
                self.problem("ocr_details", &format!("page {number} is there twice"));
        }
        self.pages.dedup_by_key(|page| page.number);
    }

    fn page(&mut self, place: &str, key: Option<&str>, entry: &Value) -> Option<SaidPage> {
        let Value::Object(entry) = entry else {
            return self.problem(place, "is no object");
        };
        let said = field(entry, &NUMBER).and_then(|said| number(Some(said)));
        let Some(number) = said.or_else(|| key.and_then(key_number)) else {
            return self.problem(place, "does not say which page it is");
        };
        let stood = self.status(place, entry, &STATUS, &ERROR);
        let text = text(entry, &TEXT);
        // Beside chunks of its own a page has its text under another name.
        for (at, chunk) in
            entry.get("chunks").and_then(Value::as_array).into_iter().flatten().enumerate()
        {
            let place = format!("{place}, chunk {at}");
            if let Some(chunk) = self.chunk(&place, None, chunk) {
                self.chunks.push(SaidChunk { page: Some(number), ..chunk });
            }
        }
        Some(SaidPage { number, stood, text, path: text_of(entry, &PATH) })
    }

    fn indexing(&mut self, value: &Value) {
        if value.as_object().is_some_and(Map::is_empty) {
            return;
        }
        let vector = value.get("vector_indexing");
        let within = vector.unwrap_or(value);
        if let Some(pages) = within.get("pages").filter(|_| vector.is_none()) {
            for (place, key, page) in entries(pages, |_| true).unwrap_or_default() {
                self.chunks_of_page(&format!("indexing_details, {place}"), key, page);
            }
        }
        let chunks = within.get("chunks").or_else(|| value.is_array().then_some(value));
        if let Some(chunks) = chunks {
            match entries(chunks, |_| true) {
                Some(entries) => {
                    for (place, key, entry) in entries {
                        let place = format!("indexing_details, chunk {place}");
                        if let Some(chunk) = self.chunk(&place, key, entry) {
                            self.chunks.push(chunk);
                        }
                    }
                }
                None => self.problem("indexing_details", "its chunks are no list").unwrap_or(()),
            }
        } else if within.get("pages").is_none() {
            let _none: Option<()> = self.problem("indexing_details", "there are no chunks in it");
        }
        if let Some(graph) = value.get("graphrag_indexing") {
            self.graph(graph);
        }
    }

    fn chunks_of_page(&mut self, place: &str, key: Option<&str>, page: &Value) {
        let Value::Object(entry) = page else { return };
        let said = field(entry, &NUMBER).and_then(|said| number(Some(said)));
        let number = said.or_else(|| key.and_then(key_number));
        let Some(chunks) = entry.get("chunks") else { return };
        for (at, key, chunk) in entries(chunks, |_| true).unwrap_or_default() {
            if let Some(chunk) = self.chunk(&format!("{place}, chunk {at}"), key, chunk) {
                self.chunks.push(SaidChunk { page: chunk.page.or(number), ..chunk });
            }
        }
    }

    fn chunk(&mut self, place: &str, key: Option<&str>, entry: &Value) -> Option<SaidChunk> {
        let Value::Object(entry) = entry else {
            return self.problem(place, "is no object");
        };
        let vector = self.status(place, entry, &VECTOR, &VECTOR_ERROR);
        let graph = self.status(place, entry, &GRAPH, &GRAPH_ERROR);
        Some(SaidChunk {
            id: text_of(entry, &CHUNK_ID).or_else(|| key.map(str::to_owned)),
            page: field(entry, &NUMBER).and_then(|said| number(Some(said))),
            path: text_of(entry, &PATH),
            index: field(entry, &CHUNK_INDEX).and_then(Value::as_u64),
            text: text(entry, &TEXT),
            vector,
            graph,
        })
    }

    /// How chunks stood in the graph, which is said beside them.
    fn graph(&mut self, value: &Value) {
        if value.get("status").and_then(Value::as_str) == Some("disabled") {
            for chunk in self.chunks.iter_mut().filter(|chunk| chunk.graph.is_none()) {
                chunk.graph = stood("disabled", Some("user_disabled elsewhere"));
            }
        }
        let Some(chunks) = value.get("chunks") else { return };
        for (place, key, entry) in entries(chunks, |_| true).unwrap_or_default() {
            let place = format!("indexing_details, graphrag chunk {place}");
            let Value::Object(entry) = entry else {
                let _none: Option<()> = self.problem(&place, "is no object");
                continue;
            };
            let Some(stood) = self.status(&place, entry, &STATUS, &ERROR) else { continue };
            let id = text_of(entry, &CHUNK_ID).or_else(|| key.map(str::to_owned));
            match self.chunks.iter_mut().find(|chunk| chunk.id == id) {
                Some(chunk) => chunk.graph = Some(stood),
                None => self.problem(&place, "names a chunk that has no vector").unwrap_or(()),
            }
        }
    }

    fn status(
        &mut self,
        place: &str,
        entry: &Map<String, Value>,
        names: &[&str],
        errors: &[&str],
    ) -> Option<Stood> {
        let word = text_of(entry, names)?;
        let found = stood(&word, text_of(entry, errors).as_deref());
        if found.is_none() {
            let _none: Option<()> =
                self.problem(place, &format!("its status {word:?} is not known"));
        }
        found
    }
}

/// The entries of a list, or of an object whose keys are such: where each is, its key, and itself.
fn entries(
    of: &Value,
    is_key: impl Fn(&str) -> bool,
) -> Option<Vec<(String, Option<&str>, &Value)>> {
    match of {
        Value::Array(list) => Some(
            list.iter().enumerate().map(|(at, one)| (format!("entry {at}"), None, one)).collect(),
        ),
        Value::Object(map) if map.keys().all(|key| is_key(key)) => {
            Some(map.iter().map(|(key, one)| (key.clone(), Some(key.as_str()), one)).collect())
        }
        _ => None,
    }
}

fn field<'a>(entry: &'a Map<String, Value>, names: &[&str]) -> Option<&'a Value> {
    names.iter().filter_map(|name| entry.get(*name)).find(|value| !value.is_null())
}

fn text_of(entry: &Map<String, Value>, names: &[&str]) -> Option<String> {
    let text = match field(entry, names)? {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}

/// A text without what no database keeps. An empty one is a text too.
fn text(entry: &Map<String, Value>, names: &[&str]) -> Option<String> {
    field(entry, names)?.as_str().map(|text| text.replace('\0', ""))
}

fn number(value: Option<&Value>) -> Option<u32> {
    match value? {
        Value::Number(number) => u32::try_from(number.as_u64()?).ok(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// The number in a key: `page_3`, `3`, or the name of a page's file.
pub(super) fn key_number(key: &str) -> Option<u32> {
    let name = key.rsplit('/').next()?;
    let name = name.strip_suffix(".md").unwrap_or(name);
    let name = name.strip_suffix("_nohf").unwrap_or(name);
    let number = name.rfind("page_").map_or(name, |at| &name[at + "page_".len()..]);
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(details: &str) -> Vec<(u32, Option<Stood>)> {
        let read = Details::read(Some(details), None);
        assert_eq!(read.problems, Vec::<String>::new(), "{details}");
        read.pages.into_iter().map(|page| (page.number, page.stood)).collect()
    }

    #[test]
    fn pages_are_found_in_every_shape_that_is_in_use() {
        let (done, failed) = (Stood::Completed, Stood::Failed { why: "slow".into() });
        let want = vec![(0, Some(done)), (1, Some(failed))];
        for details in [
            r#"{"page_ocr": {"pages": {"page_0": {"status": "success"},
                "page_1": {"status": "failed", "error": "slow"}}}}"#,
            r#"{"pages": [{"page_number": 1, "status": "failed", "error": "slow"},
                {"page_number": 0, "status": "completed"}]}"#,
            r#"[{"page": 0, "status": "completed"},
                {"page": "1", "status": "error", "error": "slow"}]"#,
            r#"{"0": {"status": "completed"}, "1": {"status": "failed", "reason": "slow"}}"#,
        ] {
            assert_eq!(pages(details), want, "{details}");
        }
        assert_eq!(pages(r#"{"page_ocr": {"total_pages": 3, "pages": {}}}"#), Vec::new());
    }

    #[test]
    fn what_is_not_understood_is_said_with_its_place_and_the_rest_is_taken() {
        let check = |details: &str, taken: usize, problem: &str| {
            let read = Details::read(Some(details), None);
            assert_eq!(read.pages.len(), taken, "{details}");
            assert_eq!(read.problems, vec![problem.to_owned()]);
        };
        check("{", 0, "ocr_details: is no JSON: EOF while parsing an object at line 1 column 1");
        check("7", 0, "ocr_details: there are no pages in it");
        check(r#"[{"page": 1}, 7]"#, 1, "ocr_details, entry 1: is no object");
        check(r#"[{"status": "ok"}]"#, 0, "ocr_details, entry 0: does not say which page it is");
        check(
            r#"[{"page": 1, "status": "x"}]"#,
            1,
            "ocr_details, entry 0: its status \"x\" is not known",
        );
        check(r#"[{"page": 1}, {"page": 1}]"#, 1, "ocr_details: page 1 is there twice");
    }

    #[test]
    fn chunks_have_their_page_their_text_and_how_they_stood_in_both_phases() {
        let details = r#"{"vector_indexing": {"chunks": {
                "a": {"status": "success", "page": 2, "content": "words"},
                "b": {"status": "failed", "error": "slow", "file_path": "out/x_page_3_nohf.md"}}},
            "graphrag_indexing": {"chunks": {"a": {"status": "skipped"},
                "z": {"status": "success"}}}}"#;
        let read = Details::read(None, Some(details));
        let [a, b] = &read.chunks[..] else { panic!("{read:?}") };
        assert_eq!(
            (a.page, a.text.as_deref(), &a.vector),
            (Some(2), Some("words"), &Some(Stood::Completed))
        );
        assert!(matches!(a.graph, Some(Stood::Skipped { .. })));
        assert_eq!(b.vector, Some(Stood::Failed { why: "slow".into() }));
        assert_eq!(b.path.as_deref().and_then(key_number), Some(3));
        let problem = "indexing_details, graphrag chunk z: names a chunk that has no vector";
        assert_eq!(read.problems, vec![problem.to_owned()]);
        let plain = r#"{"chunks": [{"chunk_id": "a", "chunk_index": 1, "vector_status": "pending",
            "graphrag_status": "pending", "page_number": 1}]}"#;
        let read = Details::read(None, Some(plain));
        assert_eq!((read.chunks[0].index, &read.chunks[0].graph), (Some(1), &Some(Stood::Pending)));
    }
}
