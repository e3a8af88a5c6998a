//! Stages by name: those of documents that somebody may choose to do, or to leave to others.
//!
//! `cut`, `embed` and `link`, in which a document is split anew, are light and go with `pages`.

use std::fmt;

use super::stage;

/// The stages that can be chosen, in the order in which a document passes them.
pub const CHOICES: [&str; 6] =
    [stage::PAGES, stage::OCR, stage::CHUNK, stage::VECTOR, stage::GRAPH, stage::PUBLISH];

/// All stages, in the order in which a document passes them.
const ORDER: [&str; 9] = [
    stage::PAGES,
    stage::OCR,
    stage::CUT,
    stage::CHUNK,
    stage::EMBED,
    stage::VECTOR,
    stage::LINK,
    stage::GRAPH,
    stage::PUBLISH,
];

/// Some of the stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stages([bool; CHOICES.len()]);

/// A word that is no stage of documents.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is no stage of documents; these are: {all}", all = CHOICES.join(", "))]
pub struct NotAStage(String);

impl Stages {
    pub const ALL: Stages = Stages([true; CHOICES.len()]);
    pub const NONE: Stages = Stages([false; CHOICES.len()]);

    /// The stages of these names.
    pub fn named<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Result<Stages, NotAStage> {
        let mut stages = Stages::NONE;
        for name in names {
            let name = name.as_ref();
            let at = CHOICES.iter().position(|choice| *choice == name);
            stages.0[at.ok_or_else(|| NotAStage(name.to_owned()))?] = true;
        }
        Ok(stages)
    }

    pub fn has(self, stage: &str) -> bool {
        self.names().any(|name| name == stage)
    }

    pub fn is_empty(self) -> bool {
        self == Stages::NONE
    }

    /// Their names, in order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        CHOICES.into_iter().zip(self.0).filter_map(|(name, is_in)| is_in.then_some(name))
    }

    /// Every stage from which something may still come to these, and these themselves.
    pub fn and_before(self) -> &'static [&'static str] {
        let last = ORDER.iter().rposition(|name| self.has(name));
        last.map_or(&[], |last| &ORDER[..=last])
    }
}

/// Such as `ocr, vector`.
impl fmt::Display for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_chosen_by_name_and_shown_in_their_order() {
        let some = Stages::named(["vector", "ocr"]).unwrap();
        assert_eq!(some.to_string(), "ocr, vector");
        assert!(some.has("ocr") && !some.has("graph") && !some.is_empty());
        assert_eq!(Stages::named(CHOICES), Ok(Stages::ALL));
        let wrong = Stages::named(["ocr", "embed"]).unwrap_err().to_string();
        assert!(wrong.contains("\"embed\" is no stage") && wrong.contains("pages, ocr"), "{wrong}");
    }

    #[test]
    fn what_may_still_come_is_in_a_stage_before() {
        let before = |names: &[&str]| Stages::named(names).unwrap().and_before();
        assert_eq!(before(&["ocr"]), ["pages", "ocr"]);
        assert_eq!(before(&["ocr", "vector"]).last(), Some(&"vector"));
        assert_eq!(before(&["publish"]).len(), ORDER.len());
        assert!(before(&[]).is_empty());
    }
}
