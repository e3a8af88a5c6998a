//! What a worker holds, decided without waiting: which item is worked on next, how many may be
//! claimed, which lease is renewed when, and which outcomes go into the next settle.
//!
//! Time is an argument. Asks nothing of the queue; `mod.rs` has the lock around it and wakes
//! whoever waits for what changed here.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use windrow_core::command::Outcome;
use windrow_core::limits::COMMAND_ITEMS_MAX;
use windrow_core::queue::Work;
use windrow_core::trail::{Ending, Progress};
use windrow_core::{ItemId, LeaseId};

use super::super::events::Endings;
use super::super::outcome::{SETTLE_BYTES_MAX, Told};
use super::super::token::Token;

/// How often one lease's progress is told at most.
const PROGRESS: Duration = Duration::from_millis(200);
/// A handler that takes less is quick: its outcome goes along with those that end right after it.
pub(super) const QUICK: Duration = Duration::from_micros(100);
/// How long it waits for them at most.
const LINGER: Duration = Duration::from_millis(1);

/// How much may be held.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Bounds {
    /// Items in hand, running ones included.
    pub(in super::super) items: usize,
    /// Items that one claim asks for at most.
    pub(in super::super) batch: usize,
    pub(in super::super) lease: Duration,
    /// Whether it is over when there is nothing left.
    pub(in super::super) drains: bool,
}

/// Which item of which lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Place {
    pub(in super::super) lease: LeaseId,
    at: usize,
}

/// An item to work on.
#[derive(Debug)]
pub(in super::super) struct Claimed {
    pub(in super::super) place: Place,
    pub(in super::super) work: Work,
    pub(in super::super) token: Arc<Token>,
}

/// An item whose handler has ended.
#[derive(Debug)]
pub(in super::super) struct Ended {
    pub(in super::super) place: Place,
    pub(in super::super) told: Told,
    /// How long the handler took.
    pub(in super::super) took: Duration,
}

/// An outcome on its way to the queue.
#[derive(Debug)]
pub(in super::super) struct Letter {
    pub(in super::super) place: Place,
    pub(in super::super) id: ItemId,
    pub(in super::super) told: Told,
    /// The first one was refused.
    pub(in super::super) is_second: bool,
}

/// A claim that may be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Ask {
    pub(in super::super) max: usize,
    /// Whether it waits for work to arrive: one at a time does.
    pub(in super::super) waits: bool,
    /// Nothing was in hand when it was made: if it gets nothing, there is nothing left.
    is_last: bool,
}

/// What to do about leases now.
#[derive(Debug, Default)]
pub(in super::super) struct Beat {
    pub(in super::super) renew: Vec<LeaseId>,
    pub(in super::super) progress: Vec<(LeaseId, Vec<(ItemId, Progress)>)>,
    /// When to look again.
    pub(in super::super) until: Option<Instant>,
}

/// What a settler does next.
#[derive(Debug)]
pub(super) enum Post {
    Send(LeaseId, Vec<Letter>),
    Wait { until: Option<Instant> },
    Over,
}

#[derive(Debug)]
pub(super) struct Held {
    bounds: Bounds,
    line: VecDeque<Claimed>,
    leases: HashMap<LeaseId, Lease>,
    /// Leases with outcomes to send, and leases with outcomes that may wait for others.
    ready: VecDeque<LeaseId>,
    lingering: VecDeque<(Instant, LeaseId)>,
    waiting: usize,
    running: usize,
    /// Handlers at work, also on what is lost: they keep their place until they end.
    busy: usize,
    settling: usize,
    /// Items that claims under way may bring.
    asked: usize,
    /// The last claim got as much as it asked for: there is more.
    has_backlog: bool,
    /// The last claim got nothing.
    is_dry: bool,
    /// About how long a handler takes; none has ended yet if there is nothing.
    took: Option<Duration>,
    /// Nothing is left to claim, and nothing in hand.
    pub(super) is_drained: bool,
    pub(super) is_closed: bool,
    pub(super) endings: Endings,
}

#[derive(Debug)]
struct Lease {
    items: Vec<Item>,
    /// Those that wait or run, and those that are not over.
    unended: usize,
    left: usize,
    renew_at: Instant,
    is_renewing: bool,
    /// When it has certainly run out, if nobody renews it.
    lost_at: Instant,
    progress: Vec<(usize, Progress)>,
    progress_at: Instant,
    gathered: VecDeque<Letter>,
    is_ready: bool,
}

#[derive(Debug)]
struct Item {
    id: ItemId,
    state: State,
    token: Arc<Token>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Waiting,
    Running,
    Settling,
    Over,
}

impl Held {
    pub(super) fn new(bounds: Bounds) -> Held {
        Held {
            bounds,
            line: VecDeque::new(),
            leases: HashMap::new(),
            ready: VecDeque::new(),
            lingering: VecDeque::new(),
            waiting: 0,
            running: 0,
            busy: 0,
            settling: 0,
            asked: 0,
            has_backlog: false,
            is_dry: false,
            took: None,
            is_drained: false,
            is_closed: false,
            endings: Endings::default(),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.running > 0
    }

    /// Nothing is in hand.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting + self.running + self.settling == 0
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_closed && self.is_idle()
    }

    // Claiming

    /// A claim that may be made now.
    pub(super) fn ask(&mut self) -> Option<Ask> {
        if !self.may_ask() {
            return None;
        }
        let is_first = self.asked == 0;
        let max = self.room().min(self.bounds.batch).min(COMMAND_ITEMS_MAX);
        let ask = Ask {
            max,
            waits: is_first && !self.bounds.drains,
            is_last: is_first && self.bounds.drains && self.is_idle(),
        };
        self.asked += max;
        Some(ask)
    }

    fn room(&self) -> usize {
        self.bounds.items.saturating_sub(self.waiting + self.busy + self.asked)
    }

    pub(super) fn may_ask(&self) -> bool {
        let (room, Bounds { items, batch, .. }) = (self.room(), self.bounds);
        let is_behind = self.settling > 2 * items.max(COMMAND_ITEMS_MAX);
        if room == 0 || is_behind || self.is_drained {
            return false;
        }
        // More than one claim at a time only if the last one said that there is enough.
        if self.asked > 0 && !(self.has_backlog && room >= batch) {
            return false;
        }
        if self.bounds.drains && self.is_dry && !self.is_idle() {
            return false;
        }
        // With some in reserve it is worth waiting until many fit into one request.
        self.waiting == 0 || room >= batch || room * 2 >= items
    }

    /// A claim was answered with so many items; none if it was not.
    pub(super) fn answered(&mut self, ask: Ask, items: Option<usize>) {
        self.asked -= ask.max;
        if let Some(items) = items {
            (self.has_backlog, self.is_dry) = (items >= ask.max, items == 0);
            self.is_drained |= ask.is_last && items == 0;
        }
    }

    /// Takes what was claimed into the line.
    pub(super) fn add(&mut self, lease: LeaseId, items: Vec<Work>, now: Instant) {
        let mut held = Vec::with_capacity(items.len());
        for (at, work) in items.into_iter().enumerate() {
            let token = Arc::new(Token::default());
            held.push(Item { id: work.id, state: State::Waiting, token: Arc::clone(&token) });
            self.line.push_back(Claimed { place: Place { lease, at }, work, token });
        }
        self.waiting += held.len();
        let lease_of = Lease {
            unended: held.len(),
            left: held.len(),
            gathered: VecDeque::with_capacity(held.len()),
            items: held,
            renew_at: now + self.bounds.lease / 3,
            is_renewing: false,
            lost_at: now + self.bounds.lease,
            progress: Vec::new(),
            progress_at: now,
            is_ready: false,
        };
        self.leases.insert(lease, lease_of);
    }

    // Working

    /// The next item to work on.
    pub(super) fn begin(&mut self) -> Option<Claimed> {
        while let Some(claimed) = self.line.pop_front() {
            if let Some(item) = self.item(claimed.place)
                && item.state == State::Waiting
            {
                item.state = State::Running;
                self.waiting -= 1;
                self.running += 1;
                self.busy += 1;
                return Some(claimed);
            }
        }
        None
    }

    /// A handler came to its end, and has a place for the next item.
    pub(super) fn handled(&mut self, ended: Ended, now: Instant) -> bool {
        self.busy -= 1;
        let took = ended.took;
        self.took = Some(self.took.map_or(took, |before| (before * 7 + took) / 8));
        self.end(ended, now)
    }

    /// Takes the outcome of an item, unless it is not ours any more or has one already. Says
    /// whether a settler must look at it.
    fn end(&mut self, ended: Ended, now: Instant) -> bool {
        let Ended { place, told, took } = ended;
        let Some(lease) = self.leases.get_mut(&place.lease) else { return false };
        let item = &mut lease.items[place.at];
        match item.state {
            State::Waiting => self.waiting -= 1,
            State::Running => self.running -= 1,
            State::Settling | State::Over => return false,
        }
        (item.state, self.settling) = (State::Settling, self.settling + 1);
        lease.unended -= 1;
        lease.gathered.push_back(Letter { place, id: item.id, told, is_second: false });
        if lease.unended == 0 || self.line.is_empty() || took >= QUICK {
            return self.send(place.lease);
        }
        if lease.gathered.len() > 1 {
            return false;
        }
        self.lingering.push_back((now + LINGER, place.lease));
        // Whoever looks at the first one looks at those behind it too.
        self.lingering.len() == 1
    }

    /// Notes how far an item is. False if it is not ours any more.
    pub(super) fn report(&mut self, place: Place, progress: Progress) -> bool {
        let Some(lease) = self.leases.get_mut(&place.lease) else { return false };
        if lease.items[place.at].state != State::Running {
            return false;
        }
        match lease.progress.iter_mut().find(|(at, _)| *at == place.at) {
            Some(said) => said.1 = progress,
            None => lease.progress.push((place.at, progress)),
        }
        true
    }

    /// Whether handlers are so quick that one thread does what is claimed at once sooner than
    /// others are woken.
    pub(super) fn is_quick(&self) -> bool {
        self.took.is_some_and(|took| took < QUICK / 10)
    }

    pub(super) fn has_work(&self) -> bool {
        !self.line.is_empty()
    }

    fn item(&mut self, place: Place) -> Option<&mut Item> {
        self.leases.get_mut(&place.lease)?.items.get_mut(place.at)
    }

    // Settling

    /// Lets what gathered under a lease go. False if it goes already, or there is nothing.
    fn send(&mut self, id: LeaseId) -> bool {
        let Some(lease) = self.leases.get_mut(&id) else { return false };
        if lease.is_ready || lease.gathered.is_empty() {
            return false;
        }
        lease.is_ready = true;
        self.ready.push_back(id);
        true
    }

    /// Whether a settler that has enough to do leaves something to another.
    pub(super) fn has_letters(&self) -> bool {
        !self.ready.is_empty() || !self.lingering.is_empty()
    }

    /// The outcomes that gathered under one lease.
    pub(super) fn post(&mut self, now: Instant) -> Post {
        while let Some((until, id)) = self.lingering.front().copied()
            && until <= now
        {
            self.lingering.pop_front();
            self.send(id);
        }
        while let Some(id) = self.ready.pop_front() {
            let Some(lease) = self.leases.get_mut(&id) else { continue };
            lease.is_ready = false;
            let letters = some(&mut lease.gathered);
            // Another lease comes first next time.
            self.send(id);
            if !letters.is_empty() {
                return Post::Send(id, letters);
            }
        }
        if self.is_over() {
            return Post::Over;
        }
        Post::Wait { until: self.lingering.front().map(|(until, _)| *until) }
    }

    /// An outcome that goes once more, with other words.
    pub(super) fn again(&mut self, letter: Letter) {
        let id = letter.place.lease;
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.gathered.push_back(letter);
            self.send(id);
        }
    }

    /// Items are over, one way or the other.
    pub(super) fn settled(&mut self, over: impl IntoIterator<Item = (Place, Option<Ending>)>) {
        for (place, ending) in over {
            if let Some(ending) = ending {
                self.endings.count(ending);
            }
            let Some(item) = self.item(place) else { continue };
            if item.state == State::Settling {
                item.state = State::Over;
                self.settling -= 1;
                self.leave(place.lease, 1);
            }
        }
    }

    fn leave(&mut self, id: LeaseId, items: usize) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.left -= items;
            if lease.left == 0 {
                self.leases.remove(&id);
            }
        }
    }

    // Renewing

    /// The leases to renew now and the progress to tell. None if it is over.
    pub(super) fn beat(&mut self, now: Instant) -> Option<Beat> {
        if self.is_closed && self.leases.is_empty() {
            return None;
        }
        let mut beat = Beat::default();
        let mut sooner = |at: Instant| {
            beat.until = Some(beat.until.map_or(at, |until| until.min(at)));
        };
        for (id, lease) in &mut self.leases {
            if !lease.is_renewing {
                if lease.renew_at <= now {
                    lease.is_renewing = true;
                    beat.renew.push(*id);
                } else {
                    sooner(lease.renew_at);
                }
            }
            if lease.progress.is_empty() {
                continue;
            }
            if lease.progress_at <= now {
                lease.progress_at = now + PROGRESS;
                let said = lease.progress.drain(..).map(|(at, said)| (lease.items[at].id, said));
                beat.progress.push((*id, said.collect()));
            } else {
                sooner(lease.progress_at);
            }
        }
        Some(beat)
    }

    /// A lease goes on, over what it still holds. Gives what is lost.
    pub(super) fn renewed(
        &mut self,
        id: LeaseId,
        sent: Instant,
        now: Instant,
        held: &[ItemId],
    ) -> Vec<ItemId> {
        let Some(lease) = self.leases.get_mut(&id) else { return Vec::new() };
        lease.is_renewing = false;
        lease.renew_at = now + self.bounds.lease / 3;
        lease.lost_at = sent + self.bounds.lease;
        self.lose(id, |item| !held.contains(&item))
    }

    /// A lease was not renewed: it is lost, or will be. Gives what is.
    pub(super) fn not_renewed(&mut self, id: LeaseId, lost: bool, now: Instant) -> Vec<ItemId> {
        let Some(lease) = self.leases.get_mut(&id) else { return Vec::new() };
        lease.is_renewing = false;
        lease.renew_at = now + (self.bounds.lease / 6).min(Duration::from_secs(1));
        if lost || now >= lease.lost_at { self.lose(id, |_| true) } else { Vec::new() }
    }

    fn lose(&mut self, id: LeaseId, is_lost: impl Fn(ItemId) -> bool) -> Vec<ItemId> {
        let Some(lease) = self.leases.get_mut(&id) else { return Vec::new() };
        let mut lost = Vec::new();
        for item in lease.items.iter_mut().filter(|item| is_lost(item.id)) {
            match item.state {
                State::Waiting => self.waiting -= 1,
                State::Running => self.running -= 1,
                // What is being settled may have been settled already: the queue will say.
                State::Settling | State::Over => continue,
            }
            item.state = State::Over;
            item.token.say();
            lost.push(item.id);
        }
        lease.unended -= lost.len();
        lease.progress.retain(|(at, _)| lease.items[*at].state == State::Running);
        // Whoever waited for those that are lost waits no more.
        self.send(id);
        self.leave(id, lost.len());
        lost
    }

    // Stopping

    /// Hands back what has not begun, or everything. Says how many that were.
    pub(super) fn hand_back(&mut self, also_running: bool, now: Instant) -> usize {
        self.line.clear();
        let mut back = Vec::new();
        for (lease, of) in &self.leases {
            for (at, item) in of.items.iter().enumerate() {
                match item.state {
                    State::Running if also_running => item.token.say(),
                    State::Waiting => {}
                    _ => continue,
                }
                back.push(Place { lease: *lease, at });
            }
        }
        for place in &back {
            let told = Told::of(Outcome::Release { delay_ms: 0 });
            self.end(Ended { place: *place, told, took: QUICK }, now);
        }
        back.len()
    }

    /// Lets go of everything. Says how many items that were.
    pub(super) fn abandon(&mut self) -> usize {
        let mut left = 0;
        for item in self.leases.values().flat_map(|lease| &lease.items) {
            if item.state != State::Over {
                item.token.say();
                left += 1;
            }
        }
        self.leases.clear();
        self.line.clear();
        (self.waiting, self.running, self.settling) = (0, 0, 0);
        left
    }
}

/// As many letters as one settle takes. One of several parts goes alone.
fn some(gathered: &mut VecDeque<Letter>) -> Vec<Letter> {
    let (mut count, mut bytes) = (0, 0);
    for letter in gathered.iter().take(COMMAND_ITEMS_MAX) {
        bytes += letter.told.weight();
        let is_alone = !letter.told.before.is_empty();
        if count > 0 && (bytes > SETTLE_BYTES_MAX || is_alone) {
            break;
        }
        count += 1;
        if is_alone {
            break;
        }
    }
    gathered.drain(..count).collect()
}

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;
