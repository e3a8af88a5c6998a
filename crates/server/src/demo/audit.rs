//! The audit: the parent's ledger of acknowledgements against what the store says.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use windrow_core::ItemId;
use windrow_core::item::{End, State};
use windrow_core::ports::Store;
use windrow_core::trail::Ending;
use windrow_store::embedded::disk::{Disk, RealDisk};
use windrow_store::embedded::overlay::Overlay;
use windrow_store::embedded::{Embedded, Options, check};
use windrow_store::postgres::{self, Postgres};

use crate::cli::counted;
use crate::cli::data_dir::not_opened;

/// Everything that was acknowledged.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    enqueued: HashSet<ItemId>,
    /// How often each item and stage was acknowledged as settled.
    settled: HashMap<(ItemId, String), u32>,
    claimed: HashMap<(ItemId, String), u32>,
    late: u64,
    pub(super) deaths: u32,
    pub(super) restarts: u32,
}

impl Ledger {
    /// Notes one line of the child.
    pub(super) fn note(&mut self, words: &[&str]) -> anyhow::Result<()> {
        match words {
            ["enqueued", id] => {
                self.enqueued.insert(id.parse()?);
            }
            ["claimed", id, stage, _] => {
                *self.claimed.entry((id.parse()?, (*stage).to_owned())).or_default() += 1;
            }
            ["settled", id, stage] => {
                *self.settled.entry((id.parse()?, (*stage).to_owned())).or_default() += 1;
            }
            ["refused", ..] => self.late += 1,
            // The last line of a killed process may be cut short.
            _ => {}
        }
        Ok(())
    }
}

/// Compares the ledger with what is in a directory; a summary if they agree.
pub(super) async fn audit(path: &Path, ledger: &Ledger) -> anyhow::Result<String> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open_to_read(path)?);
    let checked = check(&disk, Options::default()).map_err(|error| not_opened(path, &error))?;
    ensure!(checked.faults.is_empty(), "the store has faults: {:?}", checked.faults);
    let store = Embedded::open(Arc::new(Overlay::over(disk)), Options::default())?;
    compare(&store, checked.live + checked.ended, ledger).await
}

/// The same for a database.
pub(super) async fn audit_database(
    options: postgres::Options,
    ledger: &Ledger,
) -> anyhow::Result<String> {
    let store = Postgres::open_to_move(options).await?;
    let checked = store.check().await?;
    ensure!(checked.faults.is_empty(), "the store has faults: {:?}", checked.faults);
    compare(&store, checked.live + checked.ended, ledger).await
}

async fn compare<S: Store>(store: &S, items: u64, ledger: &Ledger) -> anyhow::Result<String> {
    for id in &ledger.enqueued {
        let seen = store.inspect(*id).await?;
        let seen = seen.with_context(|| format!("LOST: {id} was acknowledged and is gone"))?;
        let state = seen.item.state;
        ensure!(state == State::Done(End::Completed), "{id} did not complete: {state:?}");
    }
    let mut twice = 0;
    for ((id, stage), times) in &ledger.settled {
        let seen = store.inspect(*id).await?;
        let seen = seen.with_context(|| format!("LOST: {id} was acknowledged and is gone"))?;
        let index = seen.body.route.find(stage).context("a stage that its route does not have")?;
        let ended = |attempt: &&windrow_core::trail::Attempt| {
            attempt.stage == index && matches!(attempt.ending, Ending::Completed | Ending::Split)
        };
        let completions = seen.trail.attempts.iter().filter(ended).count();
        ensure!(completions > 0, "LOST: {id} was settled in {stage} and the store forgot");
        twice += usize::from(completions > 1 || *times > 1);
    }
    ensure!(twice == 0, "{twice} pieces of work were settled twice");
    let claimed: u32 = ledger.claimed.values().sum();
    let again = ledger.claimed.values().filter(|times| **times > 1).count();
    let late = ledger.late;
    let settled = ledger.settled.len();
    Ok(format!(
        "{items} items in {}, {settled} pieces of work acknowledged\n\
         lost: 0   settled twice: 0   counts equal a recount: yes\n\
         {claimed} hand-outs, {again} pieces of work handed out again after a crash, \
         {late} late settles refused\n\
         dead workers: {}   killed processes: {}",
        counted(ledger.enqueued.len() as u64, "document"),
        ledger.deaths,
        ledger.restarts,
    ))
}
