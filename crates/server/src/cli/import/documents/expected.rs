//! Expected: what must be found here of a document once it is taken over, phase by phase.

use windrow_pipelines::documents::elsewhere::{Chunk, Elsewhere, Page, Stood};

/// How a phase stands as a whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Is {
    Completed,
    Pending,
    Failed,
}

impl Is {
    pub(super) const ALL: [Is; 3] = [Is::Completed, Is::Pending, Is::Failed];

    pub(super) fn word(self) -> &'static str {
        match self {
            Is::Completed => "completed",
            Is::Pending => "pending",
            Is::Failed => "failed",
        }
    }

    fn of(stood: &Stood) -> Is {
        match stood {
            Stood::Completed | Stood::Skipped { .. } => Is::Completed,
            Stood::Pending => Is::Pending,
            Stood::Failed { .. } => Is::Failed,
        }
    }
}

/// How many pages or chunks stand where. What was skipped counts as completed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Counts(pub(super) [u64; 3]);

impl Counts {
    pub(super) fn of(&self, is: Is) -> u64 {
        self.0[is as usize]
    }

    pub(super) fn add(&mut self, is: Is, count: u64) {
        self.0[is as usize] += count;
    }

    pub(super) fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// One phase of a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Phase {
    pub(super) is: Is,
    /// Pages, or chunks of pages that were read, as far as they were known there.
    pub(super) counts: Counts,
    /// Whether any was known.
    pub(super) is_known: bool,
    /// Whether every one was. Else there may be more here.
    pub(super) is_exact: bool,
}

/// The phases of a document: ocr of pages, vector and graph of chunks.
pub(super) fn phases(document: &Elsewhere) -> [Phase; 3] {
    if document.pages.is_empty() {
        let is = Is::of(&document.stood);
        // What failed as a whole never came as far as the later phases.
        let later = if is == Is::Completed { is } else { Is::Pending };
        let none = Phase { is, counts: Counts::default(), is_known: false, is_exact: false };
        return [is, later, later].map(|is| Phase { is, ..none });
    }
    let pages = document.pages.iter();
    let ocr = pages.clone().map(|page| Is::of(&page.ocr)).collect::<Vec<_>>();
    let is_cut = |page: &Page| Is::of(&page.ocr) == Is::Completed && page.chunks.is_some();
    let (is_exact, is_known) = (pages.clone().all(is_cut), pages.clone().any(is_cut));
    let of = |chunk: fn(&Chunk) -> (Is, Is)| {
        let (mut all, mut counts) = (Vec::new(), Counts::default());
        for page in &document.pages {
            match (Is::of(&page.ocr), &page.chunks) {
                // It does not come as far.
                (is @ (Is::Failed | Is::Pending), _) => all.push(is),
                (Is::Completed, None) => all.push(Is::of(&page.index)),
                (Is::Completed, Some(chunks)) => {
                    for (is, counted) in chunks.iter().map(chunk) {
                        all.push(is);
                        counts.add(counted, 1);
                    }
                }
            }
        }
        Phase { is: whole(&all), counts, is_known, is_exact }
    };
    let mut counts = Counts::default();
    ocr.iter().for_each(|is| counts.add(*is, 1));
    [
        Phase { is: whole(&ocr), counts, is_known: true, is_exact: true },
        of(|chunk| (Is::of(&chunk.vector), Is::of(&chunk.vector))),
        // A chunk without a vector does not come as far as the graph.
        of(|chunk| match Is::of(&chunk.vector) {
            Is::Failed => (Is::Failed, Is::Pending),
            Is::Pending => (Is::Pending, Is::Pending),
            Is::Completed => (Is::of(&chunk.graph), Is::of(&chunk.graph)),
        }),
    ]
}

/// The rule of seed 001, without anybody at work.
fn whole(all: &[Is]) -> Is {
    [Is::Pending, Is::Failed].into_iter().find(|is| all.contains(is)).unwrap_or(Is::Completed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed() -> Stood {
        Stood::Failed { why: "slow".into() }
    }

    #[test]
    fn phases_follow_from_pages_and_chunks_by_the_rule_of_the_seed() {
        let chunk = |vector: Stood, graph: Stood| Chunk { vector, graph, ..Chunk::default() };
        let chunks = vec![
            chunk(Stood::Completed, Stood::Completed),
            chunk(failed(), Stood::Pending),
            chunk(Stood::Completed, Stood::Skipped { why: "a table".into() }),
        ];
        let read = Page { text: Some("t".into()), chunks: Some(chunks), ..Page::default() };
        let document = Elsewhere { pages: vec![read.clone()], ..Elsewhere::default() };
        let [ocr, vector, graph] = phases(&document);
        assert_eq!((ocr.is, ocr.counts.0), (Is::Completed, [1, 0, 0]));
        assert_eq!((vector.is, vector.counts.0, vector.is_exact), (Is::Failed, [2, 0, 1], true));
        assert_eq!((graph.is, graph.counts.0), (Is::Failed, [2, 1, 0]), "one never got there");
        let waits = Page { ocr: Stood::Pending, ..Page::default() };
        let [ocr, vector, _] = phases(&Elsewhere { pages: vec![read, waits], ..document });
        assert_eq!((ocr.is, ocr.counts.0), (Is::Pending, [1, 1, 0]));
        assert_eq!((vector.is, vector.is_known, vector.is_exact), (Is::Pending, true, false));
        assert_eq!(vector.counts.0, [2, 0, 1], "what was not read has no chunks");
    }

    #[test]
    fn a_document_without_pages_is_what_it_was_as_a_whole() {
        let is = |stood: Stood| {
            phases(&Elsewhere { stood, ..Elsewhere::default() }).map(|phase| phase.is)
        };
        assert_eq!(is(Stood::Completed), [Is::Completed; 3]);
        assert_eq!(is(Stood::Pending), [Is::Pending; 3]);
        assert_eq!(is(failed()), [Is::Failed, Is::Pending, Is::Pending]);
    }
}
