//! Following what was sent until it is done, or waits for what is not at hand.

use std::time::Duration;

use windrow_pipelines::documents::elsewhere::{Elsewhere, Page, Stood};
use windrow_wire::document::{State, Task};

use super::target::{phase, progress};
use crate::bars::Bars;
use crate::cli::counted;
use crate::cli::exit::Stop;
use crate::cli::reach::Target;
use crate::cli::show::say;

/// Between two looks, and documents that are looked at in one.
const EVERY: Duration = Duration::from_millis(200);
const AT_ONCE: usize = 64;
/// Looks in which nothing moves before what may wait is left waiting.
const STILL: u32 = 8;

/// A document that is not done yet.
#[derive(Debug)]
pub(super) struct Open {
    id: String,
    /// Whether something of it has to be brought first.
    may_wait: bool,
    seen: Vec<[u64; 3]>,
    still: u32,
}

impl Open {
    pub(super) fn new(id: String, document: &Elsewhere) -> Open {
        Open { id, may_wait: may_wait(document), seen: Vec::new(), still: 0 }
    }
}

/// Whether a document has something to do and nothing to do it with.
fn may_wait(document: &Elsewhere) -> bool {
    let is_cut =
        |page: &Page| page.chunks.is_some() || page.text.is_some() || page.index != Stood::Pending;
    let waits = |page: &Page| match page.ocr {
        Stood::Pending => true,
        Stood::Failed { .. } => false,
        Stood::Completed | Stood::Skipped { .. } => !is_cut(page),
    };
    let is_open = document.pages.is_empty() && document.stood == Stood::Pending;
    document.original.is_none() && (is_open || document.pages.iter().any(waits))
}

/// Looks at documents until each has ended or waits.
pub(super) async fn follow(
    target: &Target,
    mut open: Vec<Open>,
    bars: &mut Bars,
) -> Result<(), Stop> {
    let (total, mut waiting) = (open.len() as u64, 0);
    while !open.is_empty() {
        let mut left = Vec::new();
        for (at, mut one) in open.into_iter().enumerate() {
            let is_open = at >= AT_ONCE || look(target, &mut one).await?;
            if is_open && one.still >= STILL {
                waiting += 1;
            } else if is_open {
                left.push(one);
            }
        }
        open = left;
        bars.set("done", total - open.len() as u64 - waiting, total);
        bars.tell();
        tokio::time::sleep(EVERY).await;
    }
    if waiting > 0 {
        say(&format!("taken over, and waiting for files: {}", counted(waiting, "document")));
    }
    Ok(())
}

/// Looks at a document; whether it has not ended.
async fn look(target: &Target, one: &mut Open) -> Result<bool, Stop> {
    let Some(progress) = progress(target, &one.id).await? else { return Ok(false) };
    if !matches!(progress.state, State::Building | State::Updating) {
        return Ok(false);
    }
    let is_at_work = progress
        .phases
        .iter()
        .any(|phase| phase.processing > 0 || phase.status == Task::Processing);
    let seen: Vec<[u64; 3]> = progress.phases.iter().map(|one| phase(one).1.0).collect();
    let moves = is_at_work || !one.may_wait || seen != one.seen;
    one.still = if moves { 0 } else { one.still + 1 };
    one.seen = seen;
    Ok(true)
}
