//! The model store: what a queue is, without anything that makes it fast.
//!
//! It keeps whole values in ordered maps, decides each request in order with the same rules as
//! every store, and answers at once. Its worth is that it is obviously right: other stores must
//! answer as it does. Every step is checked against the table of transitions, and after each
//! command the counts of every parent that changed are compared with a recount.
//!
//! Leaves out durability, speed and limits of memory.

mod ledger;
mod names;
mod order;
mod ready;
mod state;
mod vitals;

use std::sync::Arc;

use parking_lot::Mutex;
use windrow_core::change::Lease;
use windrow_core::command::{Command, Grant};
use windrow_core::explain::{Explanation, explain};
use windrow_core::find::{Configured, Filter, Page};
use windrow_core::invariants::check_tally;
use windrow_core::item::Marks;
use windrow_core::note::Note;
use windrow_core::ports::{Count, Enough, Inspected, Listener, Now, Store, StoreError, Work};
use windrow_core::resource::Resource;
use windrow_core::rules::forecast::forecast;
use windrow_core::vitals::{Standing, Vitals};
use windrow_core::{
    Answer, Item, ItemId, Ledger, Refusal, Request, State as Doing, Status, Timestamp, decide,
};

use ready::Listening;
pub use state::{Remembered, State};

/// Items that are looked at before a search asks whether that is enough.
const SLICE: usize = 100;

/// The plainest store.
#[derive(Debug)]
pub struct Model {
    inside: Mutex<Inside>,
}

#[derive(Debug)]
struct Inside {
    state: State,
    listening: Option<Listening>,
}

/// A mistake of the model, so that what compares stores can show that it would notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slip {
    /// Hands out the newest item of a tenant instead of the oldest.
    NewestFirst,
    /// Never gives the oldest item its turn.
    AgeForgotten,
    /// Counts a group's leases and never takes one off.
    GroupLeaks,
    /// Hands out what is paused.
    PauseIgnored,
    /// Never notices that a lease ran out.
    ExpiryMissed,
    /// Shows no trail of an item that has ended.
    TrailLost,
    /// Leaves what was cancelled out of lists.
    Unlisted,
}

impl Slip {
    pub const ALL: [Slip; 7] = [
        Slip::NewestFirst,
        Slip::AgeForgotten,
        Slip::GroupLeaks,
        Slip::PauseIgnored,
        Slip::ExpiryMissed,
        Slip::TrailLost,
        Slip::Unlisted,
    ];
}

impl Model {
    /// An empty model whose leases are drawn from `seed`.
    pub fn new(seed: u64) -> Model {
        let inside = Inside { state: State::new(seed), listening: None };
        Model { inside: Mutex::new(inside) }
    }

    /// A model that makes one mistake.
    pub fn slipping(seed: u64, slip: Slip) -> Model {
        let model = Model::new(seed);
        model.inside.lock().state.slip = Some(slip);
        model
    }

    /// A model that follows a store which dies now and then. Which item of a lane is the eighth is
    /// counted in memory, so after a death the store begins to count anew; this model lets it hand
    /// out the next in order or the oldest at any time, and nothing else.
    pub fn uncounted(seed: u64) -> Model {
        let model = Model::new(seed);
        model.inside.lock().state.turns.uncounted = true;
        model
    }

    /// Everything that it holds.
    pub fn state(&self) -> State {
        self.inside.lock().state.clone()
    }

    /// The next claim is to hand out exactly these items, and panics if that is unlawful. With
    /// none it chooses by itself again.
    pub fn follow(&self, items: Option<Vec<ItemId>>) {
        self.inside.lock().state.follow(items);
    }

    /// Decides requests in order, at a time.
    pub fn submit_now(&self, batch: Vec<Request>, now: Timestamp) -> Vec<Answer<Work>> {
        let mut inside = self.inside.lock();
        let now = now.max(inside.state.now);
        inside.state.now = now;
        let answers = batch.into_iter().map(|request| inside.state.answer(request, now)).collect();
        inside.tell(now);
        answers
    }
}

impl State {
    fn answer(&mut self, request: Request, now: Timestamp) -> Answer<Work> {
        self.touched.clear();
        let answer = decide(self, request, now);
        for parent in std::mem::take(&mut self.touched) {
            check_tally(self, parent);
        }
        let shown: Result<Answer<Work>, StoreError> = answer.map(|grant| Ok(self.show(grant)));
        shown.expect("showing what was claimed cannot fail")
    }

    /// What a worker gets.
    fn show(&self, grant: Grant<Item>) -> Grant<Work> {
        let Grant { lease, expires_at, items } = grant;
        let items = items.into_iter().filter_map(|item| self.work(item)).collect();
        Grant { lease, expires_at, items }
    }

    fn work(&self, item: Item) -> Option<Work> {
        let body = self.bodies.get(&item.id)?.clone();
        let input = self.trail(&item).ok()?.input_of(item.stage).map(<[u8]>::to_vec);
        Some(Work { item, body, stage: self.stage_name(&item).clone(), input })
    }

    fn inspect(&self, id: ItemId) -> Option<Inspected> {
        let item = *self.items.get(&id)?;
        let lost = self.slip == Some(Slip::TrailLost) && item.is_done();
        Some(Inspected {
            item,
            body: self.bodies.get(&id)?.clone(),
            trail: self.trails.get(&id).filter(|_| !lost).cloned().unwrap_or_default(),
            tally: self.tallies.get(&id).filter(|_| item.has(Marks::PARENT)).cloned(),
            successor: self.successors.get(&id).copied(),
        })
    }
}

impl Store for Model {
    async fn submit(&self, batch: Vec<Request>, now: Now) -> Result<Vec<Answer<Work>>, StoreError> {
        match now {
            Now::Given(now) => Ok(self.submit_now(batch, now)),
            Now::Database => Err(StoreError::NotApplied("the model has no clock".into())),
        }
    }

    async fn inspect(&self, id: ItemId) -> Result<Option<Inspected>, StoreError> {
        Ok(self.inside.lock().state.inspect(id))
    }

    async fn explain(&self, id: ItemId, now: Timestamp) -> Result<Option<Explanation>, StoreError> {
        Ok(explain(&self.inside.lock().state, id, now).ok())
    }

    async fn forecast(
        &self,
        command: &Command,
        now: Timestamp,
    ) -> Result<Result<(), Refusal>, StoreError> {
        Ok(forecast(&self.inside.lock().state, command, now))
    }

    async fn children(
        &self,
        id: ItemId,
        from: u32,
        limit: usize,
    ) -> Result<Vec<ItemId>, StoreError> {
        let state = &self.inside.lock().state;
        let Some(item) = state.items.get(&id) else {
            return Ok(Vec::new());
        };
        Ok(state.children(id, item.generation, from, limit))
    }

    async fn items(&self, after: Option<ItemId>, limit: usize) -> Result<Vec<Item>, StoreError> {
        let state = &self.inside.lock().state;
        let all = state.items.values();
        Ok(all.filter(|item| Some(item.id) > after).take(limit).copied().collect())
    }

    async fn find(
        &self,
        filter: &Filter,
        after: Option<ItemId>,
        limit: usize,
        enough: Enough<'_>,
    ) -> Result<Page, StoreError> {
        let state = &self.inside.lock().state;
        let mut page = Page::default();
        let older = state.items.keys().rev().filter(|id| after.is_none_or(|after| **id < after));
        for (looked_at, id) in older.enumerate() {
            if page.items.len() >= limit || looked_at > 0 && looked_at % SLICE == 0 && enough() {
                return Ok(page);
            }
            page.next = Some(*id);
            let unlisted = |seen: &Inspected| {
                state.slip == Some(Slip::Unlisted) && seen.item.status() == Status::Cancelled
            };
            let seen = state.inspect(*id).filter(|seen| !unlisted(seen));
            page.items.extend(seen.filter(|seen| filter.admits(seen)).map(Into::into));
        }
        Ok(Page { next: None, ..page })
    }

    async fn configured(&self) -> Result<Configured, StoreError> {
        let state = &self.inside.lock().state;
        let settings = state.settings.iter().map(|(queue, set)| (queue.clone(), set.clone()));
        let settings = settings.collect();
        Ok(Configured { settings, paused: state.paused.iter().cloned().collect() })
    }

    async fn counts(&self) -> Result<Vec<Count>, StoreError> {
        Ok(self.inside.lock().state.counts())
    }

    async fn leases(&self) -> Result<Vec<Lease>, StoreError> {
        Ok(self.inside.lock().state.leases.values().cloned().collect())
    }

    async fn notes(&self, shelf: &str) -> Result<Vec<Note>, StoreError> {
        let state = &self.inside.lock().state;
        let on = state.notes.iter().filter(|((of, _), _)| &**of == shelf);
        Ok(on.map(|(_, note)| note.clone()).collect())
    }

    async fn resources(&self) -> Result<Vec<(Arc<str>, Resource)>, StoreError> {
        let state = &self.inside.lock().state;
        Ok(state.gates.iter().map(|(name, state)| (Arc::clone(name), *state)).collect())
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        let state = &self.inside.lock().state;
        let visible = state.items.values().filter_map(|item| match item.state {
            Doing::Pending { not_before } if not_before > state.now => Some(not_before),
            _ => None,
        });
        Ok(visible.chain(state.leases.values().map(|lease| lease.expires)).min())
    }

    async fn vitals(&self, now: Timestamp) -> Result<Vitals, StoreError> {
        Ok(self.inside.lock().state.vitals(now))
    }

    async fn stages(&self, now: Timestamp, _most: u64) -> Result<Vec<Standing>, StoreError> {
        Ok(self.inside.lock().state.standings(now))
    }

    async fn advance(&self, now: Timestamp) -> Result<(), StoreError> {
        let mut inside = self.inside.lock();
        let now = now.max(inside.state.now);
        inside.state.now = now;
        inside.tell(now);
        Ok(())
    }

    fn listen(&self, listener: Arc<dyn Listener>) {
        self.inside.lock().listening = Some(Listening::new(listener));
    }
}
