//! How far pages and chunks are, since this command began.

use windrow_wire::document::{Stat, Task};

use super::sources::TENANT;
use crate::cli::exit::Stop;
use crate::cli::reach::{Ask, Target};

/// What is counted, and what its bar is called.
const PHASES: [(&str, &str); 3] =
    [("ocr_pages", "pages"), ("vector_chunks", "vectors"), ("graphrag_chunks", "graph")];

/// What there was when it began, by phase: all, and those that had ended.
#[derive(Debug)]
pub(super) struct Phases {
    before: [Counts; 3],
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Counts {
    ended: u64,
    open: u64,
}

impl Phases {
    /// Begins to count.
    pub(super) async fn begin(target: &Target) -> Result<Phases, Stop> {
        let mut before = counts(&stats(target).await?);
        // Where nothing is under way, what is open will not be reached: it is behind a failure.
        let is_idle = super::live(target, TENANT).await?[..2].iter().sum::<u64>() == 0;
        if !is_idle {
            before.iter_mut().for_each(|counts| counts.open = 0);
        }
        Ok(Phases { before })
    }

    /// How many are done in each phase, and how many there are.
    pub(super) async fn look(
        &self,
        target: &Target,
    ) -> Result<[(&'static str, u64, u64); 3], Stop> {
        Ok(self.since(counts(&stats(target).await?)))
    }

    fn since(&self, now: [Counts; 3]) -> [(&'static str, u64, u64); 3] {
        std::array::from_fn(|at| {
            let (before, now) = (self.before[at], now[at]);
            let done = now.ended.saturating_sub(before.ended);
            (PHASES[at].1, done, done + now.open.saturating_sub(before.open))
        })
    }
}

async fn stats(target: &Target) -> Result<Vec<Stat>, Stop> {
    target.read(Ask::get(&["documents", "stats"]).with("tenant", Some(TENANT))).await
}

fn counts(stats: &[Stat]) -> [Counts; 3] {
    let mut all = [Counts::default(); 3];
    for stat in stats {
        let Some(at) = PHASES.iter().position(|(name, _)| *name == stat.task_type) else {
            continue;
        };
        match stat.status {
            Task::Pending | Task::Processing => all[at].open += stat.count,
            Task::Completed | Task::Failed | Task::Skipped | Task::Cancelled => {
                all[at].ended += stat.count;
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(task_type: &str, status: Task, count: u64) -> Stat {
        Stat { task_type: task_type.into(), status, count }
    }

    #[test]
    fn only_what_came_since_the_beginning_is_counted() {
        let before = counts(&[
            stat("ocr_pages", Task::Completed, 20),
            stat("ocr_pages", Task::Failed, 1),
            stat("vector_chunks", Task::Pending, 2),
        ]);
        let phases = Phases { before };
        let now = counts(&[
            stat("ocr_pages", Task::Completed, 23),
            stat("ocr_pages", Task::Failed, 2),
            stat("ocr_pages", Task::Processing, 1),
            stat("ocr_pages", Task::Pending, 5),
            stat("vector_chunks", Task::Pending, 9),
            stat("vector_chunks", Task::Skipped, 3),
        ]);
        assert_eq!(phases.since(now), [("pages", 4, 10), ("vectors", 3, 10), ("graph", 0, 0)]);
    }
}
