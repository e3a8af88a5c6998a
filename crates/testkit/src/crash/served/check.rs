//! What the server shows, held against what it acknowledged.

use anyhow::{Context as _, bail, ensure};
use windrow_core::Status;
use windrow_core::queue::Queue;

use super::Summary;
use super::ledger::Ledger;

/// Requests that are repeated at each check.
const REPEATS: usize = 50;
/// Items that are read whole at each check; all are counted.
const READ: usize = 300;

/// An error says what must never be. The load has stopped, and every call of it has its answer.
pub(super) async fn check(
    client: &impl Queue,
    ledger: &Ledger,
    summary: &mut Summary,
) -> anyhow::Result<()> {
    if let Some(wrong) = ledger.first_wrong() {
        bail!("{wrong}");
    }
    let items = ledger.items();
    for (id, was_settled) in items.iter().take(READ) {
        let seen = client.inspect(*id).await?;
        let seen = seen.with_context(|| format!("item {id} was acknowledged and is lost"))?;
        let is_settled = seen.status == Status::Completed;
        ensure!(is_settled == *was_settled, "item {id} is {}, settled: {was_settled}", seen.status);
        ensure!(seen.log.len() <= 1, "item {id} was attempted {} times", seen.log.len());
    }
    for asked in ledger.last_requests(REPEATS) {
        let again = client.enqueue(asked.items, Some(asked.id)).await?;
        let again: Vec<_> = again.into_iter().collect::<Result<_, _>>()?;
        ensure!(again == asked.answer, "request {} got another answer: {again:?}", asked.id);
        summary.repeated += 1;
    }
    let counts = client.counts().await?;
    let ours = counts.iter().filter(|count| *count.queue == *ledger.queue);
    let there: u64 = ours.clone().map(|count| count.items).sum();
    let known = items.len() as u64;
    ensure!(there == known, "{there} items are there, {known} were acknowledged");
    let completed = ours.filter(|count| count.status == Status::Completed);
    let completed: u64 = completed.map(|count| count.items).sum();
    let (_, settled) = ledger.totals();
    ensure!(completed == settled, "{completed} items are completed, {settled} were settled");
    Ok(())
}
