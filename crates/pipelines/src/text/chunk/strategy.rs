//! Strategies: how a text is cut, by what it is.

use serde::{Deserialize, Serialize};

use super::Limits;
use super::class::{Class, DocumentType, words};
use crate::text::markdown::Kind;

words! {
    /// How a text is cut.
    Strategy {
        /// Not at all: it is short and has no headings.
        WholeDocument = "whole_document",
        /// At headings.
        SemanticHeader = "semantic_header",
        /// Between clauses.
        ClausePreserving = "clause_preserving",
        /// At the sections that papers have.
        AcademicStructure = "academic_structure",
        /// At the sections that medical records have.
        MedicalSection = "medical_section",
        /// Between requirements.
        RequirementBased = "requirement_based",
        /// At chapters, lessons and exercises.
        EducationalUnit = "educational_unit",
        /// Between the rows of tables, when it is mostly tables.
        TablePreserving = "table_preserving",
        /// Between paragraphs.
        Paragraph = "paragraph",
    }
}

/// A text of fewer tokens without headings is not cut.
pub(super) const WHOLE_TOKENS: usize = 1_000;
/// How many characters a token is taken for.
pub(super) const TOKEN_CHARS: usize = 4;
/// No limit goes below this, or the header of a table and the fence of code would leave no room.
const MAX_TOKENS_MIN: usize = 64;

/// What decides about the strategy, beside what the document is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Build {
    pub chars: usize,
    pub headings: bool,
    /// How many of the characters are in tables.
    pub table_chars: usize,
}

/// The sizes of a strategy, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    /// A chunk is full here.
    pub target: usize,
    /// No chunk is larger, what it repeats included.
    pub max: usize,
    /// No row of a table is cut that is not larger, its header included.
    pub row_max: usize,
    /// How much of the chunk before is repeated at most.
    pub overlap: usize,
    /// A smaller chunk is joined to its neighbour where both fit.
    pub least: usize,
}

impl Strategy {
    pub(super) fn choose(class: Class, build: Build, limits: &Limits) -> Strategy {
        use DocumentType as T;
        let short = build.chars < WHOLE_TOKENS * TOKEN_CHARS;
        if short && !build.headings && build.chars <= limits.max_chars() {
            return Strategy::WholeDocument;
        }
        if build.table_chars * 2 >= build.chars {
            return Strategy::TablePreserving;
        }
        match class.document_type {
            T::Contract | T::Law | T::Policy => Strategy::ClausePreserving,
            T::Paper => Strategy::AcademicStructure,
            T::MedicalRecord => Strategy::MedicalSection,
            T::Requirements => Strategy::RequirementBased,
            T::Lesson => Strategy::EducationalUnit,
            T::Spreadsheet => Strategy::TablePreserving,
            _ if build.headings => Strategy::SemanticHeader,
            _ => Strategy::Paragraph,
        }
    }

    /// The tokens that a chunk should have, and how many per cent of them it repeats.
    const fn figures(self) -> (usize, usize) {
        match self {
            Strategy::WholeDocument => (WHOLE_TOKENS, 0),
            Strategy::SemanticHeader => (512, 10),
            Strategy::ClausePreserving | Strategy::MedicalSection | Strategy::RequirementBased => {
                (1_024, 5)
            }
            Strategy::AcademicStructure => (768, 15),
            Strategy::EducationalUnit => (768, 10),
            Strategy::TablePreserving => (1_024, 15),
            Strategy::Paragraph => (768, 0),
        }
    }

    pub(super) fn sizes(self, limits: &Limits) -> Sizes {
        let (tokens, percent) = self.figures();
        let max = (2 * tokens * TOKEN_CHARS).min(limits.max_chars());
        let target = (tokens * TOKEN_CHARS).min(max);
        Sizes {
            target,
            max,
            row_max: limits.row_max_chars().max(max),
            overlap: target * percent / 100,
            least: target / 8,
        }
    }

    /// Whether a heading of this level begins a new chunk; `top` is the level of the highest.
    pub(super) fn breaks_at_heading(self, level: u8, top: u8) -> bool {
        match self {
            Strategy::WholeDocument => false,
            Strategy::AcademicStructure | Strategy::EducationalUnit => level <= top + 1,
            _ => true,
        }
    }

    /// Whether what follows a clause, up to the next, is kept with it.
    pub(super) fn keeps_clauses(self) -> bool {
        matches!(self, Strategy::ClausePreserving | Strategy::RequirementBased)
    }

    /// How many bytes of its first line name the section that a block begins, if it is no heading
    /// and yet begins one.
    pub(super) fn section_name(self, kind: &Kind, line: &str) -> Option<usize> {
        let title = line[..line.floor_char_boundary(TITLE_BYTES)].len();
        let named = match (self, kind) {
            (Strategy::ClausePreserving, Kind::Clause { named }) => *named,
            (Strategy::AcademicStructure, Kind::Paragraph) => is_title(line, ACADEMIC),
            (Strategy::EducationalUnit, Kind::Paragraph) => is_unit(line),
            (Strategy::MedicalSection, Kind::Paragraph) => {
                let name = line.split_once(':').map_or(line, |(name, _)| name);
                return is_title(name, MEDICAL).then_some(name.len());
            }
            _ => false,
        };
        named.then_some(title)
    }
}

impl Limits {
    pub(super) fn max_chars(&self) -> usize {
        (self.max_tokens as usize).max(MAX_TOKENS_MIN).saturating_mul(TOKEN_CHARS)
    }

    fn row_max_chars(&self) -> usize {
        (self.row_max_tokens as usize).saturating_mul(TOKEN_CHARS)
    }
}

/// A longer line is no title.
const TITLE_BYTES: usize = 80;

/// Whether a line is one of these titles, with or without a number before it.
fn is_title(line: &str, titles: &[&str]) -> bool {
    if line.len() > TITLE_BYTES {
        return false;
    }
    let number = |c: char| c.is_ascii_digit() || "IVX.)".contains(c);
    let bare = line.trim().trim_matches(['*', '_', ':']).trim();
    let is = |text: &str| titles.iter().any(|title| title.eq_ignore_ascii_case(text));
    let numbered = bare.split_once(' ').filter(|(first, _)| first.chars().all(number));
    is(bare) || numbered.is_some_and(|(_, title)| is(title.trim_start()))
}

#[rustfmt::skip]
const ACADEMIC: &[&str] = &[
    "abstract", "introduction", "background", "related work", "method", "methods", "methodology",
    "materials and methods", "experiments", "evaluation", "results", "discussion", "limitations",
    "conclusion", "conclusions", "future work", "acknowledgements", "acknowledgments",
    "references", "bibliography", "appendix",
];

#[rustfmt::skip]
const MEDICAL: &[&str] = &[
    "chief complaint", "history of present illness", "past medical history", "family history",
    "social history", "medications", "current medications", "allergies", "review of systems",
    "vital signs", "physical examination", "physical exam", "laboratory results", "laboratory data",
    "imaging", "assessment", "diagnosis", "diagnoses", "impression", "plan", "assessment and plan",
    "treatment", "hospital course", "discharge instructions", "follow-up", "prognosis",
];

/// `Chapter 3`, `Exercise 4.1: …`, `Learning objectives`
fn is_unit(line: &str) -> bool {
    #[rustfmt::skip]
    const NUMBERED: &[&str] =
        &["chapter", "lesson", "unit", "module", "lecture", "part", "week", "exercise", "example"];
    const ALONE: &[&str] = &["learning objectives", "exercises", "summary", "key terms", "quiz"];
    if is_title(line, ALONE) {
        return true;
    }
    let line = line.trim_start_matches(['*', '_', ' ']);
    let Some((word, rest)) = line.split_once(' ') else { return false };
    let numbered = rest.starts_with(|c: char| c.is_ascii_digit());
    line.len() <= TITLE_BYTES
        && numbered
        && NUMBERED.iter().any(|known| known.eq_ignore_ascii_case(word))
        && word.starts_with(char::is_uppercase)
}

#[cfg(test)]
mod tests {
    use super::super::class::Domain;
    use super::*;

    #[test]
    fn each_strategy_has_the_sizes_that_are_promised() {
        let check = |strategy: Strategy, target, max, overlap| {
            let sizes = strategy.sizes(&Limits::default());
            let tokens = (sizes.target / 4, sizes.max / 4, sizes.overlap / 4);
            assert_eq!(tokens, (target, max, overlap), "{strategy}");
        };
        check(Strategy::WholeDocument, 1_000, 2_000, 0);
        check(Strategy::SemanticHeader, 512, 1_024, 51);
        check(Strategy::ClausePreserving, 1_024, 2_048, 51);
        check(Strategy::AcademicStructure, 768, 1_536, 115);
        check(Strategy::MedicalSection, 1_024, 2_048, 51);
        check(Strategy::RequirementBased, 1_024, 2_048, 51);
        check(Strategy::EducationalUnit, 768, 1_536, 76);
        check(Strategy::TablePreserving, 1_024, 2_048, 153);
        check(Strategy::Paragraph, 768, 1_536, 0);
    }

    #[test]
    fn limits_bind_every_strategy() {
        for &strategy in Strategy::ALL {
            let sizes = strategy.sizes(&Limits { max_tokens: 256, row_max_tokens: 0 });
            assert_eq!((sizes.target, sizes.max, sizes.row_max), (1_024, 1_024, 1_024));
            let sizes = strategy.sizes(&Limits { max_tokens: 0, row_max_tokens: u32::MAX });
            assert_eq!(sizes.max, 256);
        }
    }

    #[test]
    fn a_strategy_follows_from_what_a_document_is_and_how_it_is_built() {
        use DocumentType as T;
        let check = |document_type, chars, headings, table_chars, want| {
            let class = Class { document_type, domain: Domain::General };
            let build = Build { chars, headings, table_chars };
            assert_eq!(Strategy::choose(class, build, &Limits::default()), want, "{build:?}");
        };
        check(T::Contract, 3_999, false, 0, Strategy::WholeDocument);
        check(T::Contract, 4_000, false, 0, Strategy::ClausePreserving);
        check(T::Contract, 500, true, 0, Strategy::ClausePreserving);
        check(T::Law, 9_000, false, 4_499, Strategy::ClausePreserving);
        check(T::Law, 9_000, false, 4_500, Strategy::TablePreserving);
        check(T::Policy, 9_000, false, 0, Strategy::ClausePreserving);
        check(T::Paper, 9_000, false, 0, Strategy::AcademicStructure);
        check(T::MedicalRecord, 9_000, false, 0, Strategy::MedicalSection);
        check(T::Requirements, 9_000, true, 0, Strategy::RequirementBased);
        check(T::Lesson, 9_000, true, 0, Strategy::EducationalUnit);
        check(T::Spreadsheet, 9_000, true, 0, Strategy::TablePreserving);
        check(T::Report, 9_000, true, 0, Strategy::SemanticHeader);
        check(T::Report, 9_000, false, 0, Strategy::Paragraph);
        let small = Limits { max_tokens: 100, ..Limits::default() };
        let class = Class { document_type: T::Other, domain: Domain::General };
        let build = Build { chars: 500, headings: false, table_chars: 0 };
        assert_eq!(Strategy::choose(class, build, &small), Strategy::Paragraph);
    }

    #[test]
    fn sections_are_known_by_name_where_they_have_no_heading() {
        let check = |strategy: Strategy, line, want| {
            assert_eq!(strategy.section_name(&Kind::Paragraph, line).is_some(), want, "{line:?}");
        };
        for (line, want) in [
            ("Abstract", true),
            ("**4. Results**", true),
            ("IV. CONCLUSION", true),
            ("Results were poor", false),
            ("", false),
        ] {
            check(Strategy::AcademicStructure, line, want);
            check(Strategy::Paragraph, line, false);
        }
        check(Strategy::MedicalSection, "Allergies: none known", true);
        check(Strategy::MedicalSection, "Patient: allergies", false);
        check(Strategy::EducationalUnit, "Chapter 3 The sea", true);
        check(Strategy::EducationalUnit, "Exercise 4.1:", true);
        check(Strategy::EducationalUnit, "Summary", true);
        check(Strategy::EducationalUnit, "part 3 of it", false);
        let article = Kind::Clause { named: true };
        assert_eq!(Strategy::ClausePreserving.section_name(&article, "Article 5"), Some(9));
        assert_eq!(Strategy::RequirementBased.section_name(&article, "Article 5"), None);
        let record = Strategy::MedicalSection.section_name(&Kind::Paragraph, "Plan: rest");
        assert_eq!(record, Some(4));
    }
}
