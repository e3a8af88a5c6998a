//! Trees: documents that become pages that become chunks, and what a settle costs its ancestors.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use windrow_core::command::{Claim, Grant, NewChild, NewItem, Outcome};
use windrow_core::item::{Body, Payload, Status};
use windrow_core::ports::{Store, StoreError, Work};
use windrow_core::route::{Route, Stage as RouteStage};
use windrow_core::tally::OnGaps;
use windrow_core::{Answer, Command, ItemId};

use crate::bench::clients::{Done, Maker, PLAIN, ask, run_all};
use crate::bench::measure::cpu_us;
use crate::bench::report::Row;
use crate::bench::rig::Rig;
use crate::bench::scenario::Stage;

/// The highest cost of all numbers of children, times that of ten.
pub(super) const FLAT: &str = "roll-up per settle, the highest of all";

const DOCUMENTS: u64 = 100;
const PAGES: u32 = 100;
const CHUNKS: u32 = 50;
const WORKERS: usize = 4;
const BATCH: usize = 100;
/// Children that one command may create.
const SLICE: usize = 1_000;
const CHILDREN: [u32; 4] = [10, 100, 1_000, 10_000];
/// Children that are settled for each number of children.
const SETTLES: u32 = 10_000;
const QUEUE: &str = "trees";

pub(super) fn run(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let rig = Rig::fresh(stage.dir.join("trees"))?;
    let mut rows = vec![documents(stage, &rig)?];
    let costs = roll_up(stage, &rig)?;
    for (children, us) in CHILDREN.into_iter().zip(&costs) {
        stage.say(&format!("{children} children: {us:.2} us per settle"));
        let name = format!("roll-up per settle, {children} children");
        rows.push(Row::new(name).with("cpu_us_per_item", *us));
    }
    let highest = costs.iter().copied().fold(0.0, f64::max);
    rows.push(Row::new(FLAT).with("ratio", highest / costs[0]));
    rig.remove()?;
    Ok(rows)
}

fn documents(stage: &Stage, rig: &Rig) -> anyhow::Result<Row> {
    let documents = stage.items(DOCUMENTS * 20) / 20;
    let each = 1 + u64::from(PAGES) + u64::from(PAGES * CHUNKS);
    let total = documents * each;
    let route = Arc::new(Route {
        stages: vec![RouteStage::splitting("split", &["ocr", "embed"]), RouteStage::new("close")],
    });
    let maker = Maker::new(QUEUE, PLAIN);
    let enqueue = Command::Enqueue(roots(&maker, &route, "document", documents));
    let (cpu, written, begun) = (cpu_us()?, rig.written(), Instant::now());
    stage.runtime.block_on(ask(&*rig.store, enqueue))?;
    let over = Arc::new(AtomicBool::new(false));
    let kin = Kin::new(maker);
    let workers = (0..WORKERS).map(|number| {
        let (store, over, kin) = (Arc::clone(&rig.store), Arc::clone(&over), kin.clone());
        async move { grow(store, kin, number, over).await }
    });
    let watch = {
        let (store, over) = (Arc::clone(&rig.store), Arc::clone(&over));
        stage.runtime.spawn(async move {
            let watched = until_completed(&*store, total).await;
            over.store(true, Ordering::Release);
            watched
        })
    };
    let done = run_all(&stage.runtime, workers)?;
    stage.runtime.block_on(watch)??;
    let seconds = begun.elapsed().as_secs_f64();
    rig.quiet()?;
    let (cpu, items) = (cpu_us()? - cpu, total as f64);
    stage.say(&format!("{documents} documents, {total} items: {:.0}/s", items / seconds));
    Ok(Row::new("trees, 100 documents of 100 pages and 5,000 chunks")
        .with("items_per_s", items / seconds)
        .with("cpu_us_per_item", cpu / items)
        .with("bytes_per_item", rig.written().since(&written).total() as f64 / items)
        .with("settles", done.settled as f64))
}

fn roots(maker: &Maker, route: &Arc<Route>, kind: &str, count: u64) -> Vec<NewItem> {
    let root = |number: u64| {
        let mut body = Body::new("tenant-0", QUEUE);
        body.kind = kind.into();
        body.key = Some(format!("{kind}-{number}"));
        body.route = Arc::clone(route);
        body.payload = Payload::Inline(maker.payload(number));
        NewItem::new(body)
    };
    (0..count).map(root).collect()
}

/// Waits until so many items are completed.
async fn until_completed<S: Store>(store: &S, total: u64) -> Result<(), StoreError> {
    while completed(store).await? < total {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

async fn completed<S: Store>(store: &S) -> Result<u64, StoreError> {
    let counts = store.counts().await?.into_iter();
    Ok(counts.filter(|count| count.status == Status::Completed).map(|count| count.items).sum())
}

/// What children are made of.
#[derive(Clone, Debug)]
struct Kin {
    maker: Arc<Maker>,
    page: (Arc<str>, Arc<Route>),
    chunk: (Arc<str>, Arc<Route>),
}

impl Kin {
    fn new(maker: Arc<Maker>) -> Kin {
        let page = ("page".into(), Route::of(&["ocr"]));
        let chunk = ("chunk".into(), Route::of(&["embed"]));
        Kin { maker, page, chunk }
    }

    fn children(
        &self,
        of: &(Arc<str>, Arc<Route>),
        numbers: std::ops::Range<u32>,
    ) -> Vec<NewChild> {
        let child = |number: u32| {
            let payload = Payload::Inline(self.maker.payload(u64::from(number)));
            NewChild { payload, ..NewChild::new(number, Arc::clone(&of.0), Arc::clone(&of.1)) }
        };
        numbers.map(child).collect()
    }

    /// How the work on an item ends, and how many children that makes.
    fn outcome(&self, work: &Work) -> (Outcome, usize) {
        let (of, count) = match (&*work.body.kind, &*work.stage) {
            ("document", "split") => (&self.page, PAGES),
            ("page", _) => (&self.chunk, CHUNKS),
            _ => return (Outcome::complete(), 0),
        };
        let children = self.children(of, 0..count);
        (split(children, false), count as usize)
    }
}

fn split(children: Vec<NewChild>, more: bool) -> Outcome {
    Outcome::Split { children, more, on_gaps: OnGaps::Continue, output: None }
}

/// Works on whatever stage of a tree is ready.
async fn grow<S: Store>(
    store: Arc<S>,
    kin: Kin,
    number: usize,
    over: Arc<AtomicBool>,
) -> anyhow::Result<Done> {
    let claim = Claim::new(format!("worker-{number}"), QUEUE, BATCH);
    let mut done = Done::default();
    while !over.load(Ordering::Acquire) {
        let Some(grant) = claimed(&*store, &claim).await? else {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        };
        let (mut items, mut made) = (Vec::new(), 0);
        for work in &grant.items {
            let (outcome, children) = kin.outcome(work);
            if made + children > SLICE {
                done.settled += settle(&*store, &grant, std::mem::take(&mut items)).await?;
                made = 0;
            }
            made += children;
            items.push((work.item.id, outcome));
        }
        done.settled += settle(&*store, &grant, items).await?;
    }
    Ok(done)
}

async fn claimed<S: Store>(store: &S, claim: &Claim) -> anyhow::Result<Option<Grant<Work>>> {
    match ask(store, Command::Claim(claim.clone())).await? {
        Answer::Claimed(grant) => Ok(grant),
        answer => bail!("a claim was answered {answer:?}"),
    }
}

async fn settle<S: Store>(
    store: &S,
    grant: &Grant<Work>,
    items: Vec<(ItemId, Outcome)>,
) -> anyhow::Result<u64> {
    let answer = ask(store, Command::Settle { lease: grant.lease, items }).await?;
    let Answer::Settled(each) = answer else { bail!("a settle was answered {answer:?}") };
    let settled = each.len() as u64;
    match each.into_iter().find_map(Result::err) {
        Some(refusal) => bail!("a settle was refused: {refusal}"),
        None => Ok(settled),
    }
}

/// Processor time per settle of a child, for each number of children: the least of some rounds.
fn roll_up(stage: &Stage, rig: &Rig) -> anyhow::Result<Vec<f64>> {
    let kin = Kin::new(Maker::new(QUEUE, PLAIN));
    let mut least = vec![f64::INFINITY; CHILDREN.len()];
    for round in 0..stage.rounds() {
        for (children, least) in CHILDREN.into_iter().zip(&mut least) {
            let kind = format!("parent-{round}-{children}");
            let cost = roll_up_of(&*rig.store, &kin, &kind, children);
            *least = least.min(stage.runtime.block_on(cost)?);
        }
    }
    Ok(least)
}

/// Makes parents with so many children each, claims all children, and measures their settling.
async fn roll_up_of<S: Store>(
    store: &S,
    kin: &Kin,
    kind: &str,
    children: u32,
) -> anyhow::Result<f64> {
    let parents = SETTLES / children;
    let roots = roots(&kin.maker, &Route::of(&["split"]), kind, u64::from(parents));
    ask(store, Command::Enqueue(roots)).await?;
    let claim = Claim { kinds: vec![kind.into()], ..Claim::new("splitter", QUEUE, 1) };
    for _ in 0..parents {
        let Some(grant) = claimed(store, &claim).await? else { bail!("no parent waits") };
        for from in (0..children).step_by(SLICE) {
            let to = children.min(from + SLICE as u32);
            let slice = split(kin.children(&kin.chunk, from..to), to < children);
            settle(store, &grant, vec![(grant.items[0].item.id, slice)]).await?;
        }
    }
    let claim = Claim::new("worker", QUEUE, BATCH);
    let mut grants = Vec::new();
    while let Some(grant) = claimed(store, &claim).await? {
        grants.push(grant);
    }
    let held: usize = grants.iter().map(|grant| grant.items.len()).sum();
    ensure!(held == SETTLES as usize, "{held} children wait, {SETTLES} were made");
    let cpu = cpu_us()?;
    for grant in &grants {
        let items = grant.items.iter().map(|work| (work.item.id, Outcome::complete())).collect();
        settle(store, grant, items).await?;
    }
    Ok((cpu_us()? - cpu) / f64::from(SETTLES))
}
