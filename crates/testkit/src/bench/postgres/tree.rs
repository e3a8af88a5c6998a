//! Sixteen workers on the chunks of one tree, one at a time, beside as many on unrelated items.

use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use windrow_core::command::{Claim, NewChild, NewItem, Outcome as Ending};
use windrow_core::item::{Body, Payload, Status};
use windrow_core::ports::Store;
use windrow_core::route::Route;
use windrow_core::tally::OnGaps;
use windrow_core::{Answer, Command};

use super::contender::{Contender, Job, Outcome, SINGLE, Side, alternate};
use super::ground::Ground;
use super::ours::{Ours, QUEUE};
use super::pairs::row;
use crate::bench::clients::{Maker, ask};
use crate::bench::measure::Round;
use crate::bench::report::Row;

pub(super) const NAME: &str = "claim+settle 1x16, chunks of one tree";

const CHUNKS: u64 = 10_000;
/// Children that one command creates.
const SLICE: u32 = 1_000;

pub(super) fn run(ground: &Ground) -> anyhow::Result<Vec<Row>> {
    let rounds = ground.rounds() as u64;
    let chunks = CHUNKS;
    let mut sides = [
        Side::new(Ours::named("unrelated", 1)),
        Side::new(Tree { ours: Ours::named("tree", 1), chunks }),
    ];
    for side in &mut sides {
        side.prepare(ground, chunks)?;
        // A tree is only planted once.
        side.fill_no_more();
    }
    // A few more than the rounds, so that the last of them is no fuller than the first.
    let each = chunks / (rounds + 1);
    let job = Job::Rate { load: SINGLE, seconds: 2.0 * ground.seconds(), items: Some(each) };
    alternate(ground, &mut sides, &job, rounds as usize)?;
    let ratio = Round::ratio(&sides[1].rounds, &sides[0].rounds);
    let row = row(ground, NAME, &sides, ratio);
    if !ground.quick {
        // The root is over with its last chunk, and not before.
        let rest = sides[1].waiting;
        sides[1].run(ground, &Job::Life { load: SINGLE, items: rest })?;
        let ended = sides[1].contender.finished(ground)?;
        ensure!(ended == Some(chunks), "{ended:?} of {chunks} chunks ended");
    }
    Ok(vec![row])
}

/// Windrow with one tree.
struct Tree {
    ours: Ours,
    chunks: u64,
}

impl Contender for Tree {
    fn name(&self) -> &'static str {
        self.ours.name()
    }

    fn reset(&mut self, ground: &Ground) -> anyhow::Result<()> {
        self.ours.reset(ground)
    }

    fn fill(&mut self, ground: &Ground, items: u64) -> anyhow::Result<()> {
        ensure!(items == self.chunks, "the tree has {} chunks, not {items}", self.chunks);
        let plant = plant(&**self.ours.server()?, &self.ours.maker, items as u32);
        ground.runtime.block_on(plant)
    }

    fn run(&mut self, ground: &Ground, job: &Job) -> anyhow::Result<Outcome> {
        self.ours.run(ground, job)
    }

    /// The root is under way as long as a chunk waits.
    fn waiting(&mut self, ground: &Ground) -> anyhow::Result<u64> {
        let server = self.ours.server()?;
        let count = |status| ground.runtime.block_on(server.count(status));
        let (waiting, under_way) = (count(Status::Pending)?, count(Status::Processing)?);
        let roots = u64::from(waiting > 0);
        ensure!(under_way == roots, "{under_way} items are under way with {waiting} waiting");
        Ok(waiting)
    }

    /// Without the root, which ends by itself.
    fn finished(&mut self, ground: &Ground) -> anyhow::Result<Option<u64>> {
        let ended = self.ours.finished(ground)?.unwrap_or(0);
        Ok(Some(ended.min(self.chunks)))
    }

    fn close(&mut self) {
        self.ours.close();
    }
}

/// A root that was split into so many chunks.
async fn plant<S: Store>(store: &S, maker: &Maker, chunks: u32) -> anyhow::Result<()> {
    let mut body = Body::new("tenant-0", QUEUE);
    body.kind = "document".into();
    body.key = Some("document".into());
    body.route = Route::of(&["split"]);
    let enqueued = ask(store, Command::Enqueue(vec![NewItem::new(body)])).await?;
    ensure!(matches!(enqueued, Answer::Enqueued(_)), "the root was answered {enqueued:?}");
    let claimed = ask(store, Command::Claim(Claim::new("splitter", QUEUE, 1))).await?;
    let Answer::Claimed(grant) = claimed else { bail!("a claim was answered {claimed:?}") };
    let grant = grant.context("the root does not wait")?;
    let (kind, route): (Arc<str>, _) = ("chunk".into(), Route::of(&["embed"]));
    let child = |number: u32| {
        let payload = Payload::Inline(maker.payload(u64::from(number)));
        NewChild { payload, ..NewChild::new(number, Arc::clone(&kind), Arc::clone(&route)) }
    };
    for from in (0..chunks).step_by(SLICE as usize) {
        let to = chunks.min(from + SLICE);
        let children = (from..to).map(child).collect();
        let (more, on_gaps) = (to < chunks, OnGaps::Continue);
        let split = Ending::Split { children, more, on_gaps, output: None };
        let items = vec![(grant.items[0].item.id, split)];
        let answer = ask(store, Command::Settle { lease: grant.lease, items }).await?;
        let Answer::Settled(each) = answer else { bail!("a split was answered {answer:?}") };
        if let Some(refusal) = each.into_iter().find_map(Result::err) {
            bail!("a split was refused: {refusal}");
        }
    }
    Ok(())
}
