//! Filling: a store with items in every state, as many as are wanted.
//!
//! First a random stream leaves its odd corners: successors, orphans, kept keys, pauses, gates,
//! blobs, remembered requests. Then work in bulk leaves trees with children in all states.

use std::sync::Arc;

use windrow_core::command::{Claim, Command, NewChild, NewItem, Outcome, RetryMode, Scope};
use windrow_core::id::StoreTag;
use windrow_core::item::{Body, Payload};
use windrow_core::limits::FOLD_AFTER_MS;
use windrow_core::note::{Expects, WriteNote};
use windrow_core::ports::{Now, Store, Work};
use windrow_core::route::{Route, Stage};
use windrow_core::settings::{Policy, Retention, Settings};
use windrow_core::tally::OnGaps;
use windrow_core::trail::Class;
use windrow_core::{Answer, ItemId, Timestamp};

use crate::random::Splitmix;
use crate::stream::{World, alone};
use crate::suite::block_on;

/// Requests of the random stream.
const STREAM: usize = 1_500;
const QUEUE: &str = "bulk";
const BATCH: usize = 200;
const TENANTS: usize = 7;

/// Fills a store with at least so many items. Says what time it is then.
pub fn fill<S: Store>(seed: u64, items: usize, store: &S) -> Timestamp {
    let now = alone(seed, STREAM, World::general(), store);
    let first = block_on(store.items(None, 1)).expect("items can be listed");
    let tag = first.first().map(|item| item.id.tag()).unwrap_or_default();
    let mut filling = Filling { store, random: Splitmix(seed), now, tag, made: 0 };
    let retention = Retention { max_per_tenant: u32::MAX, ..Retention::default() };
    let defaults = Policy { group_limit: Some(3), ..Policy::default() };
    let settings = Box::new(Settings { retention, defaults, ..Settings::default() });
    filling.ask(Command::Configure { queue: QUEUE.into(), settings });
    let mut folded = false;
    while filling.there() < items {
        filling.enqueue();
        (0..3).for_each(|_| filling.work());
        filling.meddle();
        if !folded && filling.there() * 4 > items {
            folded = true;
            filling.now = filling.now.plus(2 * FOLD_AFTER_MS);
            filling.ask(Command::Reclaim { limit: BATCH });
            filling.ask(Command::Sweep { limit: BATCH });
        }
    }
    // Something is paused, noted and in somebody's hands at the end, whatever the dice said.
    let scope = Scope { queue: QUEUE.into(), stage: None, tenant: Some("nobody".into()) };
    filling.ask(Command::Pause(scope));
    let (shelf, name, body) = ("filling".into(), "note".into(), Some(b"kept".as_slice().into()));
    filling.ask(Command::Note(WriteNote { shelf, name, expects: Expects::Anything, body }));
    filling.ask(Command::Claim(Claim::new("holder", QUEUE, 5)));
    filling.now
}

struct Filling<'a, S> {
    store: &'a S,
    random: Splitmix,
    now: Timestamp,
    tag: StoreTag,
    /// How many were asked for.
    made: usize,
}

impl<S: Store> Filling<'_, S> {
    fn ask(&mut self, command: Command) -> Answer<Work> {
        self.now = self.now.plus(7);
        block_on(self.store.advance(self.now)).expect("time passes");
        let answers = block_on(self.store.submit(vec![command.into()], Now::Given(self.now)));
        answers.expect("it answers").remove(0)
    }

    fn enqueue(&mut self) {
        let items: Vec<NewItem> = (0..BATCH).map(|number| self.new_item(number)).collect();
        self.ask(Command::Enqueue(items));
        self.made += BATCH;
    }

    /// How many there are; a sweep takes some away.
    fn there(&self) -> usize {
        let counts = block_on(self.store.counts()).expect("items are counted");
        counts.iter().map(|count| count.items as usize).sum()
    }

    fn new_item(&mut self, number: usize) -> NewItem {
        let tenant = format!("tenant-{}", self.random.below(TENANTS));
        let mut body = Body::new(tenant, QUEUE);
        let pages = Stage::splitting("pages", &["ocr"]);
        let tree = Arc::new(Route { stages: vec![pages, Stage::new("publish")] });
        body.route = if self.random.percent(30) { tree } else { Route::of(&["a", "b"]) };
        // Few enough that one stands behind another now and then.
        let keys = self.made + number + 50;
        body.key = self.random.percent(40).then(|| format!("key-{}", self.random.below(keys)));
        body.group =
            self.random.percent(20).then(|| format!("group-{}", self.random.below(20)).into());
        body.metadata = self.random.percent(10).then(|| "{\"a\":1}".to_owned());
        body.payload = Payload::Inline(vec![self.random.draw() as u8; self.random.below(300)]);
        let mut item = NewItem::new(body);
        item.priority = self.random.below(11) as u8;
        if self.random.percent(10) {
            item.not_before = self.now.plus(self.random.below(100_000_000) as u64);
        }
        item
    }

    /// A worker takes some, settles most of them and keeps the rest.
    fn work(&mut self) {
        let claim = Claim::new("worker", QUEUE, BATCH / 3);
        let Answer::Claimed(Some(grant)) = self.ask(Command::Claim(claim)) else { return };
        let kept = if self.random.percent(5) { 2 } else { 0 };
        let done: Vec<&Work> = grant.items.iter().skip(kept).collect();
        let items = done.iter().map(|work| (work.item.id, self.outcome(work))).collect();
        self.ask(Command::Settle { lease: grant.lease, items });
    }

    fn outcome(&mut self, work: &Work) -> Outcome {
        let message = "it was not to be".to_owned();
        if *work.stage == *"pages" {
            let count = 1 + self.random.below(4) as u32;
            let child = |number| NewChild::new(number, "page", Route::of(&["ocr"]));
            let children = (0..count).map(child).collect();
            return Outcome::Split {
                children,
                more: false,
                on_gaps: OnGaps::Continue,
                output: None,
            };
        }
        match self.random.below(100) {
            0..60 => {
                let output = self.random.percent(30).then(|| b"output".to_vec());
                Outcome::Complete { result: Some(b"done".to_vec()), output, spawn: Vec::new() }
            }
            60..70 => Outcome::Retry { class: Class::Other, message, delay_ms: None },
            70..80 => Outcome::Fail { class: Class::Other, message },
            80..90 => Outcome::Skip { reason: message },
            90..95 => Outcome::Release { delay_ms: 5_000 },
            _ => Outcome::Snooze { until: self.now.plus(60_000) },
        }
    }

    /// An operator cancels some and runs others again.
    fn meddle(&mut self) {
        let after = ItemId::from_serial((self.now.0 - 1_000) << 16, self.tag);
        let some = block_on(self.store.items(Some(after), 30)).expect("items can be listed");
        let ids: Vec<ItemId> = some.iter().map(|item| item.id).collect();
        let (cancelled, again) = ids.split_at(ids.len() / 2);
        self.ask(Command::Cancel { items: cancelled.to_vec() });
        let again = again.iter().copied().filter(|_| self.random.percent(50)).collect();
        self.ask(Command::Retry { items: again, mode: RetryMode::Reset, from_stage: None });
    }
}
