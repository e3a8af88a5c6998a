//! Verifying: what is there is compared with what is here, document by document.
//!
//! A document must have been taken over as its row is now, and stand as far as it did there. What
//! was pending or failed there may have been done here since; that is told, and is no difference.

use std::io::Write as _;

use serde::Serialize;
use windrow_pipelines::documents::elsewhere::written;

use super::Args;
use super::expected::{Counts, Is, Phase, phases};
use super::folder::Folder;
use super::plan::{Plan, plan};
use super::source::{Row, Source};
use super::target::{Known, Way, phase, progress, sha256};
use crate::cli::counted;
use crate::cli::exit::{Exit, Stop};
use crate::cli::reach::Target;
use crate::cli::show::{Table, say};

/// What is counted: documents by phase, and what they are made of.
const DOCUMENTS: [&str; 3] = ["documents, ocr", "documents, vector", "documents, graphrag"];
const PARTS: [&str; 3] = ["pages, ocr", "chunks, vector", "chunks, graphrag"];

/// Counts on both sides.
#[derive(Clone, Copy, Default, Debug)]
struct Sides {
    there: Counts,
    here: Counts,
}

#[derive(Default, Debug)]
struct Verified {
    documents: [Sides; 3],
    parts: [Sides; 3],
    /// Documents that differ, and how.
    differences: Vec<String>,
    /// Documents of which more is done here than there.
    went_on: u64,
    /// Documents here that have no row there.
    others: u64,
}

/// A row of counts, as JSON.
#[derive(Serialize)]
struct Line<'a> {
    what: &'a str,
    status: &'a str,
    there: u64,
    here: u64,
}

/// Compares all of it, and fails if something differs.
pub(super) async fn verify(
    args: &Args,
    source: &Source,
    target: &Target,
    folder: &Folder,
) -> anyhow::Result<()> {
    let way = Way::of(&source.name, args.collection.as_deref(), args.tenant.as_deref());
    let mut known = way.known(target).await?;
    let mut verified = Verified::default();
    loop {
        let rows = source.next().await?;
        if rows.is_empty() {
            break;
        }
        for row in rows {
            let here = known.remove(&way.source(&row.id));
            if let Err(why) = verified.row(target, &row, here, folder).await? {
                verified.differences.push(format!("{} ({}): {why}", row.filename, row.id));
            }
        }
    }
    verified.others = known.len() as u64;
    verified.show(args.reach.json)?;
    if verified.differences.is_empty() {
        return Ok(());
    }
    let differ = counted(verified.differences.len() as u64, "document");
    let said = format!("{differ} not the same there and here; nothing was written");
    Err(Stop::new(Exit::Failed, said).into())
}

impl Verified {
    /// Compares a row; how it differs, if it does.
    async fn row(
        &mut self,
        target: &Target,
        row: &Row,
        here: Option<Known>,
        folder: &Folder,
    ) -> anyhow::Result<Result<(), String>> {
        let Plan { document, .. } = match plan(row, folder) {
            Ok(plan) => plan,
            Err(why) => return Ok(Err(format!("it cannot be taken over: {why}"))),
        };
        let there = phases(&document);
        for (at, phase) in there.iter().enumerate() {
            self.documents[at].there.add(phase.is, 1);
            // Of chunks that are cut anew nothing was known there.
            if phase.is_known {
                Is::ALL.iter().for_each(|is| self.parts[at].there.add(*is, phase.counts.of(*is)));
            }
        }
        let Some(here) = here else { return Ok(Err("it is not here".to_owned())) };
        let Some(progress) = progress(target, &here.id).await? else {
            return Ok(Err("it is not here any more".to_owned()));
        };
        let (mut why, mut went_on) = (Vec::new(), false);
        if here.sha256 != sha256(&written(&document)?) {
            why.push(
                "it is not as it was when it was imported: its row was changed, or --files has \
                 something else"
                    .to_owned(),
            );
        }
        for (at, (there, shown)) in there.iter().zip(&progress.phases).enumerate() {
            let (is, counts) = phase(shown);
            self.documents[at].here.add(is, 1);
            if there.is_known {
                Is::ALL.iter().for_each(|is| self.parts[at].here.add(*is, counts.of(*is)));
            }
            match compare(there, is, &counts) {
                Ok(further) => went_on |= further,
                Err(how) => why.push(format!("{}: {how}", shown.name)),
            }
        }
        self.went_on += u64::from(went_on);
        Ok(if why.is_empty() { Ok(()) } else { Err(why.join("; ")) })
    }

    fn show(&self, json: bool) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        let mut table = Table::new(&["WHAT", "STATUS", "THERE", "HERE"]);
        let documents = DOCUMENTS.iter().zip(&self.documents);
        for (what, sides) in documents.chain(PARTS.iter().zip(&self.parts)) {
            for is in Is::ALL {
                let (there, here) = (sides.there.of(is), sides.here.of(is));
                let status = is.word();
                if json {
                    let line = Line { what, status, there, here };
                    writeln!(out, "{}", serde_json::to_string(&line)?)?;
                } else if there + here > 0 {
                    table.row([
                        (*what).into(),
                        status.into(),
                        there.to_string().into(),
                        here.to_string().into(),
                    ]);
                }
            }
        }
        if !json {
            table.print(&mut out)?;
        }
        self.differences.iter().for_each(|difference| say(difference));
        if self.went_on > 0 {
            let documents = counted(self.went_on, "document");
            say(&format!("of {documents} more is done here than there; that is no difference"));
        }
        if self.others > 0 {
            let documents = counted(self.others, "document");
            say(&format!("{documents} came from rows that are not there any more"));
        }
        Ok(())
    }
}

/// Whether a phase is further here than there, or how it differs.
fn compare(there: &Phase, is: Is, here: &Counts) -> Result<bool, String> {
    if there.is == Is::Completed && is != Is::Completed {
        return Err(format!("completed there, {} here", is.word()));
    }
    let (completed, ours) = (there.counts.of(Is::Completed), here.of(Is::Completed));
    if there.is_exact && there.counts.total() != here.total() {
        return Err(format!("{} there, {} here", there.counts.total(), here.total()));
    }
    if there.is_known && ours < completed {
        return Err(format!("{completed} completed there, {ours} here"));
    }
    let (failed, open) = (there.counts.of(Is::Failed), there.counts.of(Is::Pending));
    if there.is_exact && here.of(Is::Failed) > failed + open {
        return Err(format!("{failed} failed there, {} here", here.of(Is::Failed)));
    }
    Ok(there.is != is || there.is_known && ours > completed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(there: (Is, [u64; 3]), here: (Is, [u64; 3]), want: Result<bool, &str>) {
        let counts = Counts(there.1);
        let there = Phase { is: there.0, counts, is_known: true, is_exact: true };
        let is = compare(&there, here.0, &Counts(here.1));
        assert_eq!(is, want.map_err(str::to_owned));
    }

    #[test]
    fn what_was_pending_may_be_done_and_what_was_done_must_be() {
        use Is::{Completed, Failed, Pending};
        check((Completed, [3, 0, 0]), (Completed, [3, 0, 0]), Ok(false));
        check((Pending, [2, 1, 0]), (Pending, [2, 1, 0]), Ok(false));
        check((Pending, [2, 1, 0]), (Completed, [3, 0, 0]), Ok(true));
        check((Failed, [2, 0, 1]), (Failed, [2, 0, 1]), Ok(false));
        check((Failed, [2, 0, 1]), (Completed, [3, 0, 0]), Ok(true));
        check((Completed, [3, 0, 0]), (Failed, [2, 0, 1]), Err("completed there, failed here"));
        check((Failed, [2, 0, 1]), (Failed, [1, 0, 2]), Err("2 completed there, 1 here"));
        check((Pending, [2, 1, 0]), (Pending, [2, 2, 0]), Err("3 there, 4 here"));
        check((Failed, [2, 0, 1]), (Failed, [2, 0, 1]), Ok(false));
    }
}
