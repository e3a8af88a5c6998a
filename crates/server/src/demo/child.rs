//! The demo's child process: the queue and its workers.
//!
//! Reports on standard output, one line each, after it was acknowledged: `enqueued ID`,
//! `claimed ID STAGE ATTEMPT`, `settled ID STAGE`, `phase NAME DONE TOTAL`, `died NAME`, then
//! `finished`.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::task::JoinSet;
use windrow_core::command::Claim;
use windrow_core::item::{End, State};
use windrow_core::ports::{Store, Work};
use windrow_core::tally::Bucket;
use windrow_core::{ItemId, LeaseId, Timestamp};
use windrow_engine::{Engine, Limits, SystemClock};
use windrow_store::embedded::disk::RealDisk;
use windrow_store::embedded::{Embedded, Options};
use windrow_store::postgres::Postgres;

use super::Args;
use super::world::{LEASE_MS, PHASES, QUEUE, death_at, document, effort, outcome, settings};
use crate::cli::data_dir::not_opened;
use crate::cli::place::database;

type Queue<S> = Engine<S, SystemClock>;

fn say(line: std::fmt::Arguments<'_>) {
    // If the parent is gone there is nobody to tell.
    let _parent_may_be_gone = writeln!(std::io::stdout().lock(), "{line}");
}

pub(super) async fn run(args: &Args, doomed: bool) -> anyhow::Result<()> {
    if let Some(url) = &args.store {
        let options = database(url)?;
        let width = options.connections;
        let store = Postgres::open(options).await?;
        let clock = SystemClock::new(Timestamp::ZERO);
        return serve(args, doomed, Engine::new(store, clock, Limits::default(), width)).await;
    }
    let path = args.data_dir.as_ref().context("a child needs a data directory")?;
    let options = Options { segment_bytes: 4 << 20, ..Options::default() };
    let disk = RealDisk::open(path).with_context(|| path.display().to_string())?;
    let opened = Embedded::open(Arc::new(disk), options);
    let running = opened.map_err(|error| not_opened(path, &error))?.run()?;
    let clock = SystemClock::new(running.latest());
    let queue = Engine::new((*running).clone(), clock, Limits::default(), usize::MAX);
    serve(args, doomed, queue).await
}

async fn serve<S: Store>(args: &Args, doomed: bool, queue: Queue<S>) -> anyhow::Result<()> {
    let queue = Arc::new(queue);
    queue.configure(QUEUE, settings()).await?;
    let documents = enqueue(&queue, args.documents).await?;
    let mut tasks = JoinSet::new();
    let ticking = Arc::clone(&queue);
    tasks.spawn(async move { bail!("the queue stopped: {}", ticking.run().await) });
    let death_at = if doomed { death_at(args.documents, args.seed) } else { u32::MAX };
    let reaper = Arc::new(Reaper { death_at, handed_out: AtomicU32::new(0) });
    for number in 0..args.workers {
        let (queue, reaper) = (Arc::clone(&queue), Arc::clone(&reaper));
        tasks.spawn(async move { work(&queue, &format!("worker-{number}"), &reaper).await });
    }
    let watched = watch(&queue, &documents);
    tokio::select! {
        done = watched => done?,
        Some(stopped) = tasks.join_next() => stopped??,
    }
    tasks.shutdown().await;
    say(format_args!("finished"));
    Ok(())
}

/// Enqueues all documents. Those that were enqueued before a restart are found by their key while
/// they live, and known as ended afterwards, because the queue's keys stay unique while kept.
async fn enqueue<S: Store>(queue: &Queue<S>, documents: u32) -> anyhow::Result<Vec<ItemId>> {
    let mut known: Vec<ItemId> = Vec::new();
    let mut after = None;
    loop {
        let page = queue.store().items(after, 1_000).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        known.extend(page.iter().filter(|item| item.is_root()).map(|item| item.id));
    }
    for number in known.len() as u32..documents {
        let answers = queue.enqueue(vec![document(number)], None).await?;
        for answer in answers {
            let id = answer?.id;
            say(format_args!("enqueued {id}"));
            known.push(id);
        }
    }
    Ok(known)
}

/// Counts what is handed out, and takes whoever gets a certain piece of work: somebody always does,
/// however many workers share however little.
struct Reaper {
    death_at: u32,
    handed_out: AtomicU32,
}

impl Reaper {
    fn takes(&self, claimed: usize) -> bool {
        let before = self.handed_out.fetch_add(claimed as u32, Ordering::Relaxed);
        before < self.death_at && before + claimed as u32 >= self.death_at
    }
}

/// Claims, works and settles, for ever. Whom the reaper takes stops with work in its hands, as a
/// crashed worker would.
async fn work<S: Store>(queue: &Queue<S>, name: &str, reaper: &Reaper) -> anyhow::Result<()> {
    let claim = Claim::new(name, QUEUE, 4);
    loop {
        let Some(grant) = queue.claim(claim.clone(), 500, None).await? else { continue };
        for work in &grant.items {
            let (id, stage, attempt) = (work.item.id, &work.stage, work.item.attempts);
            say(format_args!("claimed {id} {stage} {attempt}"));
        }
        if reaper.takes(grant.items.len()) {
            say(format_args!("died {name}"));
            std::future::pending::<()>().await;
        }
        for work in grant.items {
            do_one(queue, grant.lease, &work).await?;
        }
    }
}

async fn do_one<S: Store>(queue: &Queue<S>, lease: LeaseId, work: &Work) -> anyhow::Result<()> {
    tokio::time::sleep(effort(work)).await;
    let _late_is_told_by_settle = queue.renew(lease, Some(LEASE_MS)).await;
    for settled in queue.settle(lease, vec![(work.item.id, outcome(work))]).await? {
        match settled {
            Ok(settled) => say(format_args!("settled {} {}", settled.id, work.stage)),
            Err(refusal) => say(format_args!("refused {} {}", work.item.id, refusal.code())),
        }
    }
    Ok(())
}

/// Reports progress until every document has ended.
async fn watch<S: Store>(queue: &Queue<S>, documents: &[ItemId]) -> anyhow::Result<()> {
    loop {
        let mut ended = 0;
        let mut phases = [(0u32, 0u32); PHASES.len()];
        for id in documents {
            let seen = queue.store().inspect(*id).await?.context("a document is gone")?;
            ended += usize::from(seen.item.is_done());
            let at = usize::from(seen.item.stage);
            let done = seen.item.state == State::Done(End::Completed);
            let own = [at > 0 || seen.item.state == State::Split, done];
            for (phase, done) in [0, PHASES.len() - 1].into_iter().zip(own) {
                phases[phase].0 += u32::from(done);
                phases[phase].1 += 1;
            }
            for level in seen.tally.iter().flat_map(|tally| &tally.levels) {
                if let Some(phase) = PHASES.iter().position(|name| **name == *level.phase) {
                    phases[phase].0 += level.counts.of(Bucket::Completed);
                    phases[phase].1 += level.counts.total();
                }
            }
        }
        for (name, (done, total)) in PHASES.iter().zip(phases) {
            say(format_args!("phase {name} {done} {total}"));
        }
        if ended == documents.len() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
