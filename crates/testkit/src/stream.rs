//! Random command streams: a store and the model get the same requests at the same simulated times
//! and must say the same.
//!
//! In [`World::exact`] (one tenant, one priority, claims of one lane) both decide by themselves. In
//! [`World::general`] the order laws leave a choice: the store chooses, and the model follows it
//! item by item, panicking where a choice is unlawful. Either way every answer must be equal, and
//! at each checkpoint everything that exists: no item is lost, doubled or handed out twice.
//!
//! The same seed gives the same stream. A failure names its seed and the request that showed it.

mod mirror;
mod world;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use windrow_core::command::Command;
use windrow_core::explain::Reason;
use windrow_core::ports::{Count, Inspected, Now, Store, Work};
use windrow_core::{Answer, ItemId, Refusal, Request, Status, Timestamp};

use crate::clock::SimClock;
use crate::model::Model;
use crate::suite::{block_on, check_everything, everything};
use mirror::Side;
use world::Dice;
pub use world::World;

/// Requests between two comparisons of everything.
const CHECK_EVERY: usize = 50;

/// What a clean run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub requests: usize,
    pub created: usize,
    pub handed_out: usize,
}

/// Where two stores differ.
#[derive(Clone, Debug)]
pub struct Difference {
    pub seed: u64,
    /// How many requests had been answered alike.
    pub after: usize,
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { seed, after, what } = self;
        write!(f, "seed {seed}, after {after} requests: {what}")
    }
}

impl std::error::Error for Difference {}

/// Sends `requests` random requests to both; says where they first differ.
pub fn run<S: Store>(
    seed: u64,
    requests: usize,
    world: World,
    model: &Model,
    store: &S,
) -> Result<Report, Difference> {
    let exact = world.exact;
    let mut twins = Twins {
        model,
        store,
        exact,
        clock: SimClock::default(),
        ours: Side::default(),
        theirs: Side::default(),
        report: Report::default(),
    };
    let mut dice = Dice::new(seed, world);
    let done = catch_unwind(AssertUnwindSafe(|| twins.play(&mut dice, requests)));
    let what = match done {
        Ok(Ok(())) => return Ok(twins.report),
        Ok(Err(what)) => what,
        Err(panic) => said(panic.as_ref()),
    };
    Err(Difference { seed, after: twins.report.requests, what })
}

/// Sends random requests to one store, for whoever wants it full of everything. Says what time it
/// is afterwards.
pub fn alone<S: Store>(seed: u64, requests: usize, world: World, store: &S) -> Timestamp {
    let mut dice = Dice::new(seed, world);
    let clock = SimClock::default();
    let mut items: Vec<ItemId> = Vec::new();
    let mut now = Timestamp::ZERO;
    for _ in 0..requests {
        now = clock.advance(dice.pause_ms());
        block_on(store.advance(now)).expect("time passes");
        let newest = &items[items.len().saturating_sub(60)..];
        let known: Vec<Inspected> = (0..8)
            .filter_map(|_| dice.random.pick(newest).and_then(|id| read(store, *id)))
            .collect();
        let request = dice.request(&known, now);
        let answers = block_on(store.submit(vec![request], Now::Given(now)));
        if let Answer::Claimed(Some(grant)) = answers.expect("it answers").remove(0) {
            dice.granted(grant.lease, grant.items.iter().map(|work| work.item.id).collect());
        }
        items.extend(new_items(store, items.last().copied()));
    }
    now
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "a panic without words".into())
}

/// The model and a store, side by side.
struct Twins<'a, S> {
    model: &'a Model,
    store: &'a S,
    exact: bool,
    clock: SimClock,
    ours: Side,
    theirs: Side,
    report: Report,
}

impl<S: Store> Twins<'_, S> {
    fn play(&mut self, dice: &mut Dice, requests: usize) -> Result<(), String> {
        for number in 1..=requests {
            let now = self.clock.advance(dice.pause_ms());
            block_on(self.model.advance(now)).expect("time passes");
            block_on(self.store.advance(now)).expect("time passes");
            let known = self.known(dice);
            let request = dice.request(&known, now);
            let answer = self.ask(request, now)?;
            if let Answer::Claimed(Some(grant)) = answer {
                let items: Vec<ItemId> = grant.items.iter().map(|work| work.item.id).collect();
                self.report.handed_out += items.len();
                dice.granted(grant.lease, items);
            }
            self.report.requests += 1;
            if number % CHECK_EVERY == 0 || number == requests {
                self.check(now)?;
            }
        }
        Ok(())
    }

    /// A few of the items that exist, in the model's words.
    fn known(&self, dice: &mut Dice) -> Vec<Inspected> {
        let newest = &self.ours.items[self.ours.items.len().saturating_sub(60)..];
        let mut some = Vec::new();
        for _ in 0..8 {
            let picked = dice.random.pick(newest);
            some.extend(picked.and_then(|id| read(self.model, *id)));
        }
        some
    }

    /// Asks both, and says what the model answered.
    fn ask(&mut self, request: Request, now: Timestamp) -> Result<Answer<Work>, String> {
        let shown = format!("{request:?}");
        let claim = matches!(request.command, Command::Claim(_));
        let asked = self.ours.translate(request.clone(), &self.theirs);
        let theirs = block_on(self.store.submit(vec![asked], Now::Given(now)));
        let theirs = theirs.map_err(|error| error.to_string())?.remove(0);
        if claim && !self.exact {
            self.model.follow(Some(self.in_our_words(&theirs)));
        }
        let ours = self.model.submit_now(vec![request], now).remove(0);
        self.model.follow(None);
        self.pair(&ours, &theirs).map_err(|what| format!("{shown}\n  {what}"))?;
        let (a, b) = (self.ours.answer(ours.clone()), self.theirs.answer(theirs));
        if a != b {
            return Err(format!("{shown}\n  model: {a:?}\n  store: {b:?}"));
        }
        if refusals(&a).contains(&&Refusal::Internal) {
            return Err(format!("{shown}\n  a rule failed: {a:?}"));
        }
        Ok(ours)
    }

    /// What a claim handed out, by the model's ids.
    fn in_our_words(&self, answer: &Answer<Work>) -> Vec<ItemId> {
        let Answer::Claimed(Some(grant)) = answer else {
            return Vec::new();
        };
        grant.items.iter().map(|work| self.theirs.in_words_of(&self.ours, work.item.id)).collect()
    }

    /// Takes note of new items and leases on both sides.
    fn pair(&mut self, ours: &Answer<Work>, theirs: &Answer<Work>) -> Result<(), String> {
        let new_ours = new_items(self.model, self.ours.items.last().copied());
        let new_theirs = new_items(self.store, self.theirs.items.last().copied());
        if new_ours.len() != new_theirs.len() {
            let (a, b) = (new_ours.len(), new_theirs.len());
            return Err(format!("{a} items were created in the model, {b} in the store"));
        }
        self.report.created += new_ours.len();
        new_ours.into_iter().for_each(|id| self.ours.know_item(id));
        new_theirs.into_iter().for_each(|id| self.theirs.know_item(id));
        if let (Answer::Claimed(Some(a)), Answer::Claimed(Some(b))) = (ours, theirs) {
            self.ours.know_lease(a.lease);
            self.theirs.know_lease(b.lease);
        }
        Ok(())
    }

    /// Compares everything that exists, and counts it again.
    fn check(&self, now: Timestamp) -> Result<(), String> {
        let ours = everything(self.model).into_iter().map(|seen| self.ours.inspected(seen));
        let theirs = everything(self.store).into_iter().map(|seen| self.theirs.inspected(seen));
        let (ours, theirs): (Vec<Inspected>, Vec<Inspected>) = (ours.collect(), theirs.collect());
        for (a, b) in ours.iter().zip(&theirs) {
            same(a, b)?;
        }
        same(&ours.len(), &theirs.len())?;
        check_everything(self.store);
        same(&counts(self.model), &counts(self.store))?;
        for (a, b) in self.ours.items.iter().zip(&self.theirs.items) {
            same(&why(self.model, *a, now), &why(self.store, *b, now))?;
        }
        Ok(())
    }
}

/// Every refusal in an answer.
fn refusals<W>(answer: &Answer<W>) -> Vec<&Refusal> {
    fn of<T>(each: &[Result<T, Refusal>]) -> Vec<&Refusal> {
        each.iter().filter_map(|one| one.as_ref().err()).collect()
    }
    match answer {
        Answer::Enqueued(each) => of(each),
        Answer::Progressed(each) | Answer::Prioritised(each) => of(each),
        Answer::Settled(each) => of(each),
        Answer::Cancelled(each) => of(each),
        Answer::Retried(each) => of(each),
        Answer::Deleted(each) => of(each),
        Answer::Refused(refusal) => vec![refusal],
        _ => Vec::new(),
    }
}

fn same<T: PartialEq + fmt::Debug>(ours: &T, theirs: &T) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    Err(format!("they differ\n  model: {ours:?}\n  store: {theirs:?}"))
}

fn read<S: Store>(store: &S, id: ItemId) -> Option<Inspected> {
    block_on(store.inspect(id)).expect("it can be read")
}

fn new_items<S: Store>(store: &S, after: Option<ItemId>) -> Vec<ItemId> {
    let new = block_on(store.items(after, usize::MAX)).expect("items can be listed");
    new.into_iter().map(|item| item.id).collect()
}

fn counts<S: Store>(store: &S) -> Vec<Count> {
    let mut counts = block_on(store.counts()).expect("items can be counted");
    counts.retain(|count| count.items > 0);
    counts.sort();
    counts
}

/// Why an item is where it is: its status and the codes of all reasons; none if it is gone.
fn why<S: Store>(store: &S, id: ItemId, now: Timestamp) -> Option<(Status, Vec<&'static str>)> {
    let said = block_on(store.explain(id, now)).expect("it can be explained")?;
    Some((said.status, said.reasons.iter().map(Reason::code).collect()))
}
