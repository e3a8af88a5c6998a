//! The world: what random requests are about, and how likely each is.
//!
//! It speaks the model's names and remembers just enough to ask sensible things most of the time:
//! which items exist and which leases were granted. Now and then it asks nonsense.

use std::sync::Arc;

use windrow_core::command::{
    Claim, Command, NewChild, NewItem, OnDuplicate, OnSplit, Outcome, RetryMode, Scope,
};
use windrow_core::item::{BlobRef, Body, End, Payload};
use windrow_core::note::{Expects, WriteNote};
use windrow_core::ports::Inspected;
use windrow_core::resource::{Limits, Rate};
use windrow_core::route::{Route, Stage};
use windrow_core::rules::notify::EVERY_QUEUE;
use windrow_core::settings::{Ahead, Notify, OnExpiry, Policy, Settings, StageSettings, Unique};
use windrow_core::tally::OnGaps;
use windrow_core::trail::{Class, Progress};
use windrow_core::{ItemId, LeaseId, Request, RequestId, Timestamp};

use crate::random::Splitmix;

/// A small world that requests are about.
#[derive(Clone, Debug)]
pub struct World {
    pub queues: Vec<&'static str>,
    pub tenants: Vec<&'static str>,
    pub priorities: Vec<u8>,
    pub keys: usize,
    /// How long queues may keep what has ended.
    pub keeps_ms: Vec<u64>,
    /// Claims name exactly one lane, so that there is only one right answer.
    pub exact: bool,
}

impl World {
    /// One tenant and one priority: two stores must answer alike.
    pub fn exact() -> World {
        World { tenants: vec!["t"], priorities: vec![5], exact: true, ..World::general() }
    }

    /// Tenants, priorities and claims over several lanes: two stores must obey the same laws.
    pub fn general() -> World {
        World {
            queues: vec!["q", "r"],
            tenants: vec!["t", "u", "v"],
            priorities: vec![0, 5, 5, 10],
            keys: 6,
            keeps_ms: vec![3_600_000, 86_400_000],
            exact: false,
        }
    }
}

/// Draws requests from a seed.
#[derive(Debug)]
pub(super) struct Dice {
    pub(super) random: Splitmix,
    world: World,
    routes: Vec<Arc<Route>>,
    /// Leases that were granted, with what they may still hold.
    grants: Vec<(LeaseId, Vec<ItemId>)>,
    paused: Vec<Scope>,
    unconfigured: Vec<&'static str>,
    /// Requests that may be sent again.
    sent: Vec<Request>,
    requests: u128,
}

const STAGES: [&str; 9] = ["work", "a", "b", "pages", "publish", "ocr", "chunk", "vector", "graph"];
const RESOURCE: &str = "model";

impl Dice {
    pub(super) fn new(seed: u64, world: World) -> Dice {
        let pages = Stage::splitting("pages", &["ocr", "chunk", "vector", "graph"]);
        let chunk = Stage::splitting("chunk", &["vector", "graph"]);
        let routes = vec![
            Route::single(),
            Route::of(&["a", "b"]),
            Arc::new(Route { stages: vec![pages, Stage::new("publish")] }),
            Arc::new(Route { stages: vec![Stage::new("ocr"), chunk] }),
            Route::of(&["vector", "graph"]),
        ];
        let random = Splitmix(seed);
        let unconfigured = world.queues.clone();
        Dice {
            random,
            world,
            routes,
            grants: Vec::new(),
            paused: Vec::new(),
            unconfigured,
            sent: Vec::new(),
            requests: 0,
        }
    }

    pub(super) fn granted(&mut self, lease: LeaseId, items: Vec<ItemId>) {
        self.grants.push((lease, items));
        if self.grants.len() > 30 {
            self.grants.remove(0);
        }
    }

    /// How much time passes before the next request.
    pub(super) fn pause_ms(&mut self) -> u64 {
        let upto = match self.random.below(100) {
            0..70 => 1_500,
            70..90 => 30_000,
            90..98 => 400_000,
            98 => 4_000_000,
            _ => 100_000_000,
        };
        self.random.below(upto) as u64
    }

    /// The next request. `known` are items that exist, in the model's words.
    pub(super) fn request(&mut self, known: &[Inspected], now: Timestamp) -> Request {
        if self.random.percent(3)
            && let Some(again) = self.random.pick(&self.sent)
        {
            return again.clone();
        }
        let command = self.command(known, now);
        if !self.random.percent(20) {
            return command.into();
        }
        self.requests += 1;
        let request = Request { id: Some(RequestId(self.requests)), command };
        self.sent.push(request.clone());
        if self.sent.len() > 20 {
            self.sent.remove(0);
        }
        request
    }

    fn command(&mut self, known: &[Inspected], now: Timestamp) -> Command {
        if let Some(queue) = self.unconfigured.pop() {
            return self.configure(queue.into());
        }
        match self.random.below(1_000) {
            0..230 => Command::Enqueue(self.some(4, |dice| dice.new_item(now))),
            230..480 => Command::Claim(self.claim(known)),
            480..760 => self.settle(now),
            760..790 => self.renew(),
            790..805 => self.progress(),
            805..830 => Command::Cancel { items: self.ids(known, 2) },
            830..870 => self.retry(known),
            870..880 => Command::Delete { items: self.ids(known, 3) },
            880..890 if !self.world.exact => {
                let priority = self.one(&[0, 5, 10]);
                Command::Prioritise { items: self.ids(known, 2), priority }
            }
            880..900 => self.resume(),
            900..907 => self.pause(),
            907..911 => self.limit(),
            911..917 => Command::Gate { resource: RESOURCE.into(), closed_until: self.soon(now) },
            917..920 => self.note(),
            920..928 => Command::Blob { tenant: self.tenant(), blob: self.blob() },
            928..930 => Command::ForgetBlob { tenant: self.tenant(), blob: self.blob() },
            930..935 => {
                let queue = self.queue();
                self.configure(queue)
            }
            935 => self.notify(),
            936..940 => Command::Grace { until: self.soon(now) },
            940..975 => Command::Reclaim { limit: 1_000 },
            _ => Command::Sweep { limit: 1_000 },
        }
    }

    fn limit(&mut self) -> Command {
        let rate = Rate { count: 3, per_ms: 1_000, burst: 2 };
        let limits = Limits {
            rate: self.random.percent(30).then_some(rate),
            failures: self.one(&[0, 1, 3]),
            rest_ms: self.one(&[100, 2_000]),
            ..Limits::default()
        };
        let limits = self.random.percent(80).then_some(limits);
        Command::Limit { resource: RESOURCE.into(), limits }
    }

    fn note(&mut self) -> Command {
        let (shelf, name) = (self.one(&["tokens", "schedules"]), self.one(&["a", "b"]));
        let expects = self.one(&[Expects::Anything, Expects::Nothing, Expects::Version(1)]);
        let body = self.one(&[Some(&b"first"[..]), Some(b"second"), None]);
        let (shelf, name) = (shelf.into(), name.into());
        Command::Note(WriteNote { shelf, name, expects, body: body.map(Into::into) })
    }

    fn notify(&mut self) -> Command {
        let queue = if self.random.percent(20) { EVERY_QUEUE.into() } else { self.queue() };
        let webhook: Arc<str> = self.one(&["first", "second"]).into();
        let tenants = self.some(1, Dice::tenant);
        // Roots are skipped only by a settle, in the order that it names. What ends by itself ends
        // in an order that a store may choose, and so would the deliveries be created.
        let endings = vec![End::Skipped];
        let wanted = Notify { webhook: Arc::clone(&webhook), tenants, endings };
        let wanted = self.random.percent(70).then_some(wanted);
        Command::Notify { queue, webhook, wanted }
    }

    fn one<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.below(from.len())]
    }

    fn some<T>(&mut self, most: usize, mut each: impl FnMut(&mut Dice) -> T) -> Vec<T> {
        let count = 1 + self.random.below(most);
        (0..count).map(|_| each(self)).collect()
    }

    fn tenant(&mut self) -> Arc<str> {
        let tenants = self.world.tenants.clone();
        self.one(&tenants).into()
    }

    fn queue(&mut self) -> Arc<str> {
        let queues = self.world.queues.clone();
        self.one(&queues).into()
    }

    fn soon(&mut self, now: Timestamp) -> Timestamp {
        now.plus(self.random.below(60_000) as u64)
    }

    fn blob(&mut self) -> BlobRef {
        BlobRef { hash: [self.random.below(3) as u8; 32], len: 100_000 }
    }

    fn payload(&mut self) -> Payload {
        if self.random.percent(10) {
            return Payload::Blob(self.blob());
        }
        Payload::Inline(self.random.draw().to_le_bytes()[..self.random.below(8)].to_vec())
    }

    fn group(&mut self) -> Option<Arc<str>> {
        self.random.percent(30).then(|| self.one(&["g", "h"]).into())
    }

    fn new_item(&mut self, now: Timestamp) -> NewItem {
        let priorities = self.world.priorities.clone();
        let route = self.random.below(3);
        let mut body = Body::new(self.tenant(), self.queue());
        body.kind = ["item", "row", "document"][route].into();
        body.route = self.routes[route].clone();
        body.op = self.one(&["ingest", "update", "delete"]).into();
        body.key =
            self.random.percent(50).then(|| format!("k{}", self.random.below(self.world.keys)));
        body.group = self.group();
        body.payload = self.payload();
        NewItem {
            body,
            priority: self.one(&priorities),
            not_before: if self.random.percent(15) { self.soon(now) } else { Timestamp::ZERO },
            on_duplicate: self.one(&[OnDuplicate::Keep, OnDuplicate::Replace]),
            on_split: self.one(&[OnSplit::After, OnSplit::After, OnSplit::Supersede]),
        }
    }

    fn new_child(&mut self, ordinal: u32) -> NewChild {
        let route = 1 + self.random.below(4);
        let kind = ["", "row", "document", "page", "chunk"][route];
        let mut child = NewChild::new(ordinal, kind, self.routes[route].clone());
        child.group = self.group();
        child.payload = self.payload();
        child
    }

    fn claim(&mut self, known: &[Inspected]) -> Claim {
        let mut claim =
            Claim::new(self.one(&["ann", "bob"]), self.queue(), 1 + self.random.below(6));
        if self.world.exact {
            self.aim(&mut claim, known);
            return claim;
        }
        match self.random.below(10) {
            0..5 => {}
            5..7 => claim.queues = Vec::new(),
            7 => claim.tenants = vec![self.tenant()],
            8 => claim.stages = vec![self.one(&STAGES).into(), self.one(&STAGES).into()],
            _ => claim.kinds = vec![self.one(&["row", "page", "chunk"]).into()],
        }
        claim.lease_ms = self.random.percent(20).then(|| self.random.below(60_000) as u64);
        claim
    }

    /// Names one lane: that of an item that exists, most of the time.
    fn aim(&mut self, claim: &mut Claim, known: &[Inspected]) {
        let Some(seen) = self.random.pick(known) else {
            (claim.stages, claim.kinds) = (vec!["work".into()], vec!["item".into()]);
            return;
        };
        claim.queues = vec![seen.body.queue.clone()];
        claim.stages = vec![seen.body.route.stage(seen.item.stage).name.clone()];
        claim.kinds = vec![seen.body.kind.clone()];
    }

    fn settle(&mut self, now: Timestamp) -> Command {
        let Some(at) = (!self.grants.is_empty()).then(|| self.random.below(self.grants.len()))
        else {
            return Command::Reclaim { limit: 1_000 };
        };
        let (lease, held) = self.grants[at].clone();
        let mut items = Vec::new();
        for id in held {
            if self.random.percent(70) {
                let outcome = self.outcome(now);
                let goes_on = matches!(outcome, Outcome::Split { more: true, .. });
                if !goes_on && self.random.percent(90) {
                    self.grants[at].1.retain(|other| *other != id);
                }
                items.push((id, outcome));
            }
        }
        if self.grants[at].1.is_empty() {
            self.grants.remove(at);
        }
        Command::Settle { lease, items }
    }

    fn outcome(&mut self, now: Timestamp) -> Outcome {
        let message = "by chance".to_owned();
        match self.random.below(100) {
            0..45 => self.complete(now),
            45..65 => self.split(),
            65..75 => {
                let class = self.one(&Class::ALL);
                let delay_ms = self.random.percent(30).then(|| self.random.below(5_000) as u64);
                Outcome::Retry { class, message, delay_ms }
            }
            75..83 => Outcome::Fail { class: Class::Other, message },
            83..90 => Outcome::Skip { reason: message },
            90..96 => Outcome::Release { delay_ms: self.random.below(3_000) as u64 },
            _ => Outcome::Snooze { until: self.soon(now) },
        }
    }

    fn complete(&mut self, now: Timestamp) -> Outcome {
        let mut bytes =
            |chance| self.random.percent(chance).then(|| vec![self.random.draw() as u8]);
        let (result, output) = (bytes(20), bytes(40));
        let spawn = if self.random.percent(5) { vec![self.new_item(now)] } else { Vec::new() };
        Outcome::Complete { result, output, spawn }
    }

    fn split(&mut self) -> Outcome {
        let (count, first) = (self.random.below(4) as u32, self.random.below(4) as u32);
        let children = (0..count).map(|at| {
            // Now and then two of them are alike, which is refused.
            let ordinal = if self.random.percent(5) { first } else { first + at };
            self.new_child(ordinal)
        });
        Outcome::Split {
            children: children.collect(),
            more: self.random.percent(30),
            on_gaps: self.one(&[OnGaps::Continue, OnGaps::Continue, OnGaps::Stop]),
            output: self.random.percent(30).then(|| vec![7]),
        }
    }

    fn grant(&mut self) -> (LeaseId, Vec<ItemId>) {
        let nobody = (LeaseId(self.random.draw().into()), Vec::new());
        self.random.pick(&self.grants).cloned().unwrap_or(nobody)
    }

    fn renew(&mut self) -> Command {
        let lease_ms = self.random.percent(30).then(|| self.random.below(600_000) as u64);
        Command::Renew { lease: self.grant().0, lease_ms }
    }

    fn progress(&mut self) -> Command {
        let (lease, held) = self.grant();
        let one = |id| {
            let current = self.random.below(10) as u64;
            (id, Progress { current, total: 10, message: String::new() })
        };
        Command::Progress { lease, items: held.into_iter().map(one).collect() }
    }

    fn ids(&mut self, known: &[Inspected], most: usize) -> Vec<ItemId> {
        self.some(most, |dice| match dice.random.pick(known) {
            Some(seen) if !dice.random.percent(2) => seen.item.id,
            _ => ItemId(dice.random.draw().into()),
        })
    }

    fn retry(&mut self, known: &[Inspected]) -> Command {
        Command::Retry {
            items: self.ids(known, 2),
            mode: self.one(&[RetryMode::Reset, RetryMode::Reset, RetryMode::Clone]),
            from_stage: self.random.percent(30).then(|| self.one(&STAGES).into()),
        }
    }

    fn scope(&mut self) -> Scope {
        let stage = self.random.percent(30).then(|| self.one(&STAGES).into());
        let tenant = self.random.percent(30).then(|| self.tenant());
        Scope { queue: self.queue(), stage, tenant }
    }

    fn pause(&mut self) -> Command {
        let scope = self.scope();
        self.paused.push(scope.clone());
        Command::Pause(scope)
    }

    fn resume(&mut self) -> Command {
        Command::Resume(self.paused.pop().unwrap_or_else(|| self.scope()))
    }

    fn configure(&mut self, queue: Arc<str>) -> Command {
        let keeps_ms = self.world.keeps_ms.clone();
        // Which keys are unique does not change in a queue's life: a store may index only those
        // items that end while it matters.
        let retained = self.world.queues.last().is_some_and(|last| **last == *queue);
        let mut settings = Settings {
            defaults: self.policy(),
            unique: if retained { Unique::Retained } else { Unique::Live },
            forget_completed: self.random.percent(20),
            ..Settings::default()
        };
        settings.retention.max_age_ms = self.one(&keeps_ms);
        settings.live_max = self.random.percent(10).then_some(60);
        if self.random.percent(50) {
            let (stage, policy) = (self.one(&STAGES).into(), self.policy());
            settings.stages.push(StageSettings { stage, policy });
        }
        let settings = Box::new(settings);
        if self.random.percent(20) {
            return Command::Introduce { queue, settings };
        }
        Command::Configure { queue, settings }
    }

    fn policy(&mut self) -> Policy {
        Policy {
            max_attempts: self.one(&[0, 1, 2, 3, 3]),
            on_expiry: self.one(&[OnExpiry::Retry, OnExpiry::Requeue, OnExpiry::Fail]),
            retry_first: self.random.percent(50),
            group_limit: self.random.percent(40).then(|| 1 + self.random.below(2) as u32),
            ordered: self.random.percent(20),
            deferrals_max: self.one(&[1, 100]),
            resource: self.random.percent(20).then(|| RESOURCE.into()),
            ahead: self
                .random
                .percent(10)
                .then(|| Ahead { stage: self.one(&STAGES).into(), max: 3 }),
            ..Policy::default()
        }
    }
}
