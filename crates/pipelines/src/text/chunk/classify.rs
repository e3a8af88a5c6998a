//! Classify: what a document is, by rules.
//!
//! Looks at the file's name, the words near the beginning and how the text is built, and adds up
//! what speaks for each type. What is not clearly one type is `other`: a wrong type cuts a text
//! worse than none. The caller may know better, or ask somebody who does; then these rules are not
//! asked.

use std::collections::HashSet;

use super::class::{Class, DocumentType, Domain};
use super::evidence::{DOMAINS, EVIDENCE, NAMES};
use crate::text::markdown::{Block, Kind};
use crate::text::skip::extension;

/// How much of a text is looked at. What a document is, it says early.
const SAMPLE_BYTES: usize = 24 * 1024;
/// Words so near the beginning count twice.
const TOP_BYTES: usize = 400;
/// What speaks for a type must weigh this much.
const ENOUGH: u32 = 6;
/// What a word in the file's name weighs.
const NAME_WEIGHT: u32 = 4;
/// How many words of a domain make a text one about it.
const DOMAIN_WORDS: usize = 3;

/// What a document is, from its file's name and the blocks of its text, or of its first page.
pub(super) fn classify(text: &str, blocks: &[Block], file_name: &str) -> Class {
    let words = words(&text[..text.floor_char_boundary(SAMPLE_BYTES)]);
    let sample = Sample::of(&words);
    let document_type = by_extension(file_name)
        .or_else(|| by_evidence(&sample, blocks, file_name))
        .unwrap_or(DocumentType::Other);
    let domain = of_type(document_type).unwrap_or_else(|| by_words(&sample));
    Class { document_type, domain }
}

fn by_extension(file_name: &str) -> Option<DocumentType> {
    Some(match extension(file_name)?.as_str() {
        "csv" | "tsv" | "xls" | "xlsx" | "xlsm" | "ods" => DocumentType::Spreadsheet,
        "json" | "jsonl" | "ndjson" | "xml" | "yaml" | "yml" => DocumentType::Data,
        "log" => DocumentType::Log,
        "sql" | "rs" | "py" | "js" | "ts" | "go" | "java" | "c" | "h" | "cpp" | "cs" | "rb"
        | "sh" | "php" | "swift" | "kt" => DocumentType::Source,
        _ => return None,
    })
}

/// The type that most speaks for, if enough does. Of two with as much, the one named first.
fn by_evidence(sample: &Sample<'_>, blocks: &[Block], file_name: &str) -> Option<DocumentType> {
    let top = &sample.words[..sample.words.floor_char_boundary(TOP_BYTES)];
    let name = words(file_name.rsplit(['/', '\\']).next().unwrap_or_default());
    let clauses = blocks.iter().filter(|block| matches!(block.kind, Kind::Clause { .. })).count();
    let mut best = (ENOUGH - 1, None);
    for &(document_type, phrases) in EVIDENCE {
        let mut weight: u32 = 0;
        for &(phrase, heavy) in phrases {
            if sample.says(phrase) {
                weight += heavy * if says(top, phrase) { 2 } else { 1 };
            }
        }
        let named = |&&(kind, word): &&(_, &str)| kind == document_type && says(&name, word);
        weight += NAME_WEIGHT * u32::from(NAMES.iter().find(named).is_some());
        if weight > 0 && clauses >= 5 {
            weight += by_clauses(document_type);
        }
        if weight > best.0 {
            best = (weight, Some(document_type));
        }
    }
    best.1
}

/// What many numbered clauses weigh.
fn by_clauses(document_type: DocumentType) -> u32 {
    match document_type {
        DocumentType::Contract => 3,
        DocumentType::Law | DocumentType::Requirements => 2,
        DocumentType::Policy => 1,
        _ => 0,
    }
}

/// What documents of a type are about, whatever they say.
fn of_type(document_type: DocumentType) -> Option<Domain> {
    use DocumentType as T;
    Some(match document_type {
        T::Contract | T::Law | T::Policy => Domain::Legal,
        T::Paper => Domain::Academic,
        T::MedicalRecord => Domain::Medical,
        T::Requirements | T::Data | T::Log | T::Source => Domain::Technical,
        T::Lesson => Domain::Education,
        T::Invoice | T::Receipt | T::BankStatement | T::Payslip | T::TaxForm => Domain::Finance,
        T::PurchaseOrder | T::Minutes | T::Resume => Domain::Business,
        T::Manual | T::Report | T::Letter | T::Spreadsheet | T::Other => return None,
    })
}

fn by_words(sample: &Sample<'_>) -> Domain {
    let mut best = (DOMAIN_WORDS - 1, Domain::General);
    for &(domain, known) in DOMAINS {
        let said = known.iter().filter(|word| sample.says(word)).count();
        if said > best.0 {
            best = (said, domain);
        }
    }
    best.1
}

/// Words that are asked for many phrases: those with a word that is not there are not looked for.
struct Sample<'a> {
    words: &'a str,
    each: HashSet<&'a str>,
}

impl<'a> Sample<'a> {
    fn of(words: &'a str) -> Sample<'a> {
        Sample { words, each: words.split(' ').collect() }
    }

    fn says(&self, phrase: &str) -> bool {
        phrase.split(' ').all(|word| self.each.contains(word))
            && (!phrase.contains(' ') || says(self.words, phrase))
    }
}

/// The words of a text, small, with one space before and after each.
pub(super) fn words(text: &str) -> String {
    let mut words = String::with_capacity(text.len() + 2);
    words.push(' ');
    for c in text.chars() {
        if c.is_alphanumeric() {
            words.extend(c.to_lowercase());
        } else if !words.ends_with(' ') {
            words.push(' ');
        }
    }
    if !words.ends_with(' ') {
        words.push(' ');
    }
    words
}

/// Whether words, as [`words`] writes them, have a phrase in them.
pub(super) fn says(words: &str, phrase: &str) -> bool {
    words.match_indices(phrase).any(|(at, _)| {
        let after = &words[at + phrase.len()..];
        words[..at].ends_with(' ') && (after.is_empty() || after.starts_with(' '))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::markdown::read;

    #[track_caller]
    fn check(file_name: &str, text: &str, want: (DocumentType, Domain)) {
        let got = classify(text, &read(text), file_name);
        assert_eq!((got.document_type, got.domain), want, "{file_name}: {text:?}");
    }

    #[test]
    fn a_document_is_known_by_what_it_says() {
        use DocumentType as T;
        check("", "", (T::Other, Domain::General));
        check(
            "a.pdf",
            "This Agreement is made between the parties. Governing law: Norway.",
            (T::Contract, Domain::Legal),
        );
        check(
            "a.pdf",
            "# Attention\n\n## Abstract\n\nIn this paper we propose … (Vaswani et al.)",
            (T::Paper, Domain::Academic),
        );
        check(
            "a.pdf",
            "Discharge summary\n\nPatient: 54 y. Chief complaint: cough",
            (T::MedicalRecord, Domain::Medical),
        );
        check("a.md", "REQ-1: The system shall log in.", (T::Requirements, Domain::Technical));
        check("a.md", "In this lesson: learning objectives", (T::Lesson, Domain::Education));
        check("a.pdf", "INVOICE\n\nBill to: us. Amount due: 5", (T::Invoice, Domain::Finance));
        check(
            "scan.pdf",
            "Opening balance 1, closing balance 2",
            (T::BankStatement, Domain::Finance),
        );
        check(
            "a.txt",
            "Dear Anna,\n\nall is well.\n\nYours sincerely",
            (T::Letter, Domain::General),
        );
    }

    #[test]
    fn a_file_name_speaks_but_not_alone() {
        use DocumentType as T;
        check("letters/invoice_17.pdf", "Total 5, VAT 1", (T::Invoice, Domain::Finance));
        check("invoice_17.pdf", "A poem about the sea", (T::Other, Domain::General));
        check("C:\\x\\sales.XLSX", "Dear, yours sincerely", (T::Spreadsheet, Domain::General));
        check("a.json", "{}", (T::Data, Domain::Technical));
        check("syslog.log", "", (T::Log, Domain::Technical));
    }

    #[test]
    fn a_word_within_a_word_says_nothing() {
        for (words_of, phrase, want) in [
            ("The invoice.", "invoice", true),
            ("invoiced", "invoice", false),
            ("reinvoice, invoice", "invoice", true),
            ("Bill, to", "bill to", true),
            ("To a bill", "bill to", false),
            ("", "x", false),
        ] {
            let words = words(words_of);
            assert_eq!(says(&words, phrase), want, "{words_of:?}");
            assert_eq!(Sample::of(&words).says(phrase), want, "{words_of:?}");
        }
    }

    #[test]
    fn what_a_general_document_is_about_is_told_by_its_words() {
        let text = "This report: the server, its database and the API under load";
        check("report.pdf", text, (DocumentType::Report, Domain::Technical));
    }

    #[test]
    fn every_type_can_be_found_by_what_speaks_for_it() {
        for &(document_type, phrases) in EVIDENCE {
            let total: u32 = phrases.iter().map(|phrase| phrase.1).sum();
            assert!(total >= ENOUGH * 2, "{document_type}");
            for (phrase, _) in phrases {
                assert_eq!(words(phrase).trim(), *phrase, "{document_type}");
            }
        }
    }
}
