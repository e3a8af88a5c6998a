//! Skip: which phases do not apply to a file, a document or a chunk, and why.
//!
//! Decides only what would be work for nothing: reading pictures where there is text, looking for
//! entities in rows of figures, embedding what has no words. What is skipped counts as done.

use serde::{Deserialize, Serialize};

use super::chunk::{DocumentType, words};

words! {
    /// A phase of a document's way.
    Phase {
        /// Reading text off pages.
        Ocr = "ocr",
        /// Embedding chunks.
        Vector = "vector",
        /// Finding entities and relationships.
        Graph = "graphrag",
    }
}

words! {
    /// Why a phase does not apply.
    Reason {
        /// Files of this type have nothing for it.
        FileType = "file_type",
        /// Documents of this type have nothing for it.
        DocumentType = "document_type",
        /// This text has nothing for it.
        ContentPattern = "content_pattern",
        /// Somebody does not want it.
        UserDisabled = "user_disabled",
    }
}

/// What is known when a phase is due.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subject<'a> {
    /// The file's name, with or without its path.
    pub file_name: &'a str,
    /// What the document is, once somebody knows.
    pub document_type: Option<DocumentType>,
    /// The text of the chunk, once there is one.
    pub text: Option<&'a str>,
    /// Whether somebody switched this phase off for the document.
    pub disabled: bool,
}

/// Why a phase does not apply, if it does not.
pub fn skip(phase: Phase, subject: &Subject<'_>) -> Option<Reason> {
    if subject.disabled {
        return Some(Reason::UserDisabled);
    }
    let extension = extension(subject.file_name);
    let file = |types: &[&str]| extension.as_deref().is_some_and(|own| types.contains(&own));
    match phase {
        Phase::Ocr => (file(TEXT) || file(TABULAR)).then_some(Reason::FileType),
        Phase::Vector => subject.text.filter(|text| wordless(text)).map(|_| Reason::ContentPattern),
        Phase::Graph if file(TABULAR) => Some(Reason::FileType),
        Phase::Graph if subject.document_type.is_some_and(is_form) => Some(Reason::DocumentType),
        Phase::Graph => subject.text.filter(|text| no_prose(text)).map(|_| Reason::ContentPattern),
    }
}

/// Files that are text already.
const TEXT: &[&str] = &["md", "markdown", "txt", "text", "html", "htm", "xhtml", "rst"];

/// Files of rows, records and lines, in which nobody tells anything.
const TABULAR: &[&str] = &[
    "xlsx", "xls", "xlsm", "ods", "csv", "tsv", "json", "jsonl", "ndjson", "xml", "yaml", "yml",
    "log", "sql",
];

/// Documents that are filled in rather than written: their entities are already fields.
fn is_form(document_type: DocumentType) -> bool {
    use DocumentType as T;
    matches!(
        document_type,
        T::Invoice
            | T::Receipt
            | T::BankStatement
            | T::PurchaseOrder
            | T::Payslip
            | T::TaxForm
            | T::Spreadsheet
            | T::Data
            | T::Log
    )
}

/// The extension of a file's name, in small letters.
pub(super) fn extension(file_name: &str) -> Option<String> {
    let name = file_name.rsplit(['/', '\\']).next()?;
    let (stem, extension) = name.rsplit_once('.')?;
    (!stem.is_empty() && !extension.is_empty()).then(|| extension.to_lowercase())
}

/// Whether there is nothing to embed: no letter, no figure.
fn wordless(text: &str) -> bool {
    !text.contains(char::is_alphanumeric)
}

/// Whether there is too little to say in a text: hardly a word, mostly figures, rows of a table,
/// entries of a table of contents, or one long run of signs without a space.
fn no_prose(text: &str) -> bool {
    const WORDS_MIN: usize = 5;
    let (mut letters, mut figures, mut signs) = (0, 0, 0);
    for c in text.chars() {
        match c {
            c if c.is_alphabetic() => letters += 1,
            c if c.is_numeric() => figures += 1,
            c if c.is_whitespace() => {}
            _ => signs += 1,
        }
    }
    let is_word =
        |word: &&str| (2..=40).contains(&word.chars().filter(|c| c.is_alphabetic()).count());
    // Where words are not set apart (Chinese, Japanese, Thai), letters are counted instead.
    let alphabet = text.chars().filter(|c| c.is_alphabetic() && *c < '\u{e00}').count();
    let spaced = alphabet * 2 >= letters;
    let words = if spaced { text.split_whitespace().filter(is_word).count() } else { letters / 2 };
    words < WORDS_MIN || figures + signs > letters || is_contents(text)
}

/// Whether most lines are those of a table of contents: a title, dots, a page.
fn is_contents(text: &str) -> bool {
    let entry = |line: &&str| {
        let line = line.trim_end();
        line.ends_with(|c: char| c.is_ascii_digit())
            && (line.contains("....") || line.contains(". . .") || line.contains("……"))
    };
    let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
    let entries = text.lines().filter(entry).count();
    lines >= 4 && entries * 2 > lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(phase: Phase, subject: &Subject<'_>, want: Option<Reason>) {
        assert_eq!(skip(phase, subject), want, "{phase}: {subject:?}");
    }

    const PROSE: &str = "Marie Curie discovered radium together with her husband in Paris.";

    #[test]
    fn what_is_text_already_is_not_read_off_pictures() {
        for (file_name, want) in [
            ("a.md", Some(Reason::FileType)),
            ("dir.d/NOTES.TXT", Some(Reason::FileType)),
            ("page.html", Some(Reason::FileType)),
            ("table.csv", Some(Reason::FileType)),
            ("scan.pdf", None),
            ("photo.jpeg", None),
            ("md", None),
            (".md", None),
            ("dir.md/scan", None),
            ("", None),
        ] {
            check(Phase::Ocr, &Subject { file_name, ..Subject::default() }, want);
        }
    }

    #[test]
    fn no_entities_are_sought_in_rows_and_records() {
        for file_name in
            "a.xlsx a.xls a.csv a.tsv a.json a.xml a.yaml a.yml a.log a.sql A.CSV".split(' ')
        {
            let subject = Subject { file_name, text: Some(PROSE), ..Subject::default() };
            check(Phase::Graph, &subject, Some(Reason::FileType));
            check(Phase::Vector, &subject, None);
        }
        for file_name in ["a.pdf", "a.md", "csv", "a.csv.pdf"] {
            let subject = Subject { file_name, text: Some(PROSE), ..Subject::default() };
            check(Phase::Graph, &subject, None);
        }
    }

    #[test]
    fn no_entities_are_sought_in_forms() {
        for &document_type in DocumentType::ALL {
            let form = matches!(
                document_type.name(),
                "invoice"
                    | "receipt"
                    | "bank_statement"
                    | "purchase_order"
                    | "payslip"
                    | "tax_form"
                    | "spreadsheet"
                    | "data"
                    | "log"
            );
            let subject = Subject { document_type: Some(document_type), ..Subject::default() };
            check(Phase::Graph, &subject, form.then_some(Reason::DocumentType));
            check(Phase::Vector, &subject, None);
            check(Phase::Ocr, &subject, None);
        }
    }

    #[test]
    fn a_text_without_prose_has_no_entities_and_one_without_words_no_meaning() {
        let table = [
            (PROSE, None, None),
            ("玛丽·居里与丈夫在巴黎共同发现了镭元素并获得诺贝尔奖", None, None),
            ("| 2024 | 17.5 | 12 % |\n| 2025 | 18.1 | 14 % | sum total", Some(()), None),
            ("Page 4", Some(()), None),
            ("aGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8gd29ybGQ", Some(()), None),
            (
                "Introduction ...... 1\nFirst steps ..... 2\nA long way . . . . 9\nThe end …… 12",
                Some(()),
                None,
            ),
            ("--- * * * ---", Some(()), Some(())),
            ("", Some(()), Some(())),
        ];
        for (text, graph, vector) in table {
            let subject = Subject { file_name: "a.pdf", text: Some(text), ..Subject::default() };
            check(Phase::Graph, &subject, graph.map(|()| Reason::ContentPattern));
            check(Phase::Vector, &subject, vector.map(|()| Reason::ContentPattern));
        }
    }

    #[test]
    fn what_somebody_switched_off_is_off() {
        for &phase in Phase::ALL {
            let subject = Subject { file_name: "a.csv", disabled: true, ..Subject::default() };
            check(phase, &subject, Some(Reason::UserDisabled));
        }
    }

    #[test]
    fn the_words_are_those_of_the_seed() {
        let words: Vec<&str> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(words, ["file_type", "document_type", "content_pattern", "user_disabled"]);
        let json = serde_json::to_string(&Reason::ContentPattern).expect("a word");
        assert_eq!(json, "\"content_pattern\"");
    }
}
