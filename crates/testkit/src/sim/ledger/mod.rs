//! The ledger: what the store was asked and what it acknowledged, kept outside of it.
//!
//! Requests are entered in the order in which they were decided, answers when they came. Facts are
//! drawn in the order of deciding, and only what is certain counts: a request that was not answered
//! may have happened or not, and makes everything uncertain that it could have changed. Whatever
//! the store says later must agree with the facts. The ledger knows the laws of the queue in its
//! own words and shares no rule with the store.

mod audit;
mod fact;
mod handing;
mod story;
mod verbs;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use windrow_core::command::{Command, Scope};
use windrow_core::limits::REQUEST_KEPT_MS;
use windrow_core::ports::{StoreError, Work};
use windrow_core::settings::Settings;
use windrow_core::{Answer, ItemId, LeaseId, Request, RequestId, Timestamp};

pub use fact::{Draft, Ended, Fact, Holder, Lease};
pub use story::{Line, What};

use super::sometimes::Sometimes;

/// What must never be, and about which item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    pub item: Option<ItemId>,
    pub what: String,
}

impl Finding {
    pub fn of(item: ItemId, what: impl Into<String>) -> Finding {
        Finding { item: Some(item), what: what.into() }
    }

    pub fn general(what: impl Into<String>) -> Finding {
        Finding { item: None, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.item {
            Some(item) => write!(f, "item {item}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// A law held, or what broke it.
pub type Lawful = Result<(), Finding>;

/// Where an entry stands in the order of deciding.
pub type Ticket = u64;

/// One request, and what is known of its answer.
#[derive(Debug)]
struct Entry {
    now: Timestamp,
    request: Request,
    verdict: Verdict,
}

#[derive(Debug)]
enum Verdict {
    Waiting,
    Answered(Box<Answer<Work>>),
    /// Nobody knows whether it happened.
    Lost,
    /// The store said that it did not happen.
    Void,
}

/// What the retention of a queue allowed at any time so far.
#[derive(Clone, Copy, Debug)]
struct Keeping {
    age_ms: u64,
    /// Ended roots may go before their age is reached.
    early: bool,
}

/// Everything that was asked and acknowledged.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The operation of the simulation that is under way, for stories.
    pub op: u64,
    pub sometimes: Sometimes,
    /// The first law that did not hold.
    pub finding: Option<Finding>,
    /// Memory may run out, which refuses single items of a batch.
    pub cramped: bool,
    /// The latest time that the store was told.
    now: Timestamp,
    entries: VecDeque<Entry>,
    /// Entries that were drawn facts from.
    done: Ticket,
    facts: BTreeMap<ItemId, Fact>,
    /// Items that are gone for good.
    graves: HashSet<ItemId>,
    /// Known items of each tree, by its root.
    members: HashMap<ItemId, Vec<ItemId>>,
    /// Known items of each key.
    keys: HashMap<String, Vec<ItemId>>,
    leases: HashMap<LeaseId, Lease>,
    /// Leases that hold nothing any more.
    spent: HashSet<LeaseId>,
    /// There may be leases that nobody was told of.
    strays: bool,
    /// What was drafted, by number.
    drafts: Vec<Draft>,
    answers: HashMap<RequestId, (Timestamp, Answer<Work>)>,
    /// Requests of which at least one answer was lost.
    lost: HashSet<RequestId>,
    /// Requests that were not answered and may be sent again.
    unanswered: Vec<Request>,
    crashing: bool,
    /// Numbers of batches that happened wholly or not at all.
    batches: Vec<Vec<u64>>,
    paused: BTreeMap<Scope, Option<bool>>,
    settings: BTreeMap<Arc<str>, Option<Settings>>,
    gate: Option<Timestamp>,
    keeping: BTreeMap<Arc<str>, Keeping>,
    /// How often each worker claimed.
    claims: HashMap<Arc<str>, u64>,
    story: Vec<Line>,
}

impl Ledger {
    pub fn new() -> Ledger {
        Ledger { gate: Some(Timestamp::ZERO), ..Ledger::default() }
    }

    /// Enters requests at the moment in which they are decided; says the first ticket.
    pub fn asked(&mut self, batch: &[Request], now: Timestamp) -> Ticket {
        self.told_time(now);
        let first = self.done + self.entries.len() as u64;
        for request in batch {
            if let Command::Claim(claim) = &request.command {
                *self.claims.entry(claim.worker.clone()).or_default() += 1;
            }
            let (request, verdict) = (request.clone(), Verdict::Waiting);
            self.entries.push_back(Entry { now: self.now, request, verdict });
        }
        first
    }

    /// The store learned the time.
    pub fn told_time(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Enters what the store answered to requests from a ticket on.
    pub fn answered(&mut self, first: Ticket, result: &Result<Vec<Answer<Work>>, StoreError>) {
        match result {
            Ok(answers) => {
                for (ticket, answer) in (first..).zip(answers) {
                    self.close(ticket, Verdict::Answered(Box::new(answer.clone())));
                }
            }
            Err(StoreError::NotApplied(_)) => self.close(first, Verdict::Void),
            Err(_) => self.close(first, Verdict::Lost),
        }
        self.draw();
    }

    /// Nobody will learn what became of a batch.
    pub fn lost(&mut self, first: Ticket, count: usize) {
        (first..).take(count).for_each(|ticket| self.close(ticket, Verdict::Lost));
        self.draw();
    }

    /// The store was opened again and its clock stands at `now`, earlier than before perhaps.
    pub fn opened(&mut self, now: Timestamp) {
        self.now = now;
        self.tell(None, What::Opened);
    }

    /// The process dies: what its clients lose from now on was under way at its end.
    pub fn dies(&mut self) {
        self.crashing = true;
    }

    /// The process is gone: what was not answered never will be.
    pub fn crashed(&mut self) {
        for entry in &mut self.entries {
            if matches!(entry.verdict, Verdict::Waiting) {
                entry.verdict = Verdict::Lost;
            }
        }
        self.draw();
        self.crashing = false;
        self.tell(None, What::Crash);
    }

    fn close(&mut self, ticket: Ticket, verdict: Verdict) {
        let at = ticket.checked_sub(self.done);
        if let Some(entry) = at.and_then(|at| self.entries.get_mut(at as usize)) {
            entry.verdict = verdict;
        }
    }

    /// Draws facts from every entry before the first that still waits.
    fn draw(&mut self) {
        while let Some(entry) = self.entries.pop_front() {
            if matches!(entry.verdict, Verdict::Waiting) {
                self.entries.push_front(entry);
                return;
            }
            self.done += 1;
            if let Err(finding) = self.take(entry) {
                self.finding.get_or_insert(finding);
            }
        }
    }

    fn take(&mut self, entry: Entry) -> Lawful {
        let Entry { now, request, verdict } = entry;
        let Some(id) = request.id else {
            return match verdict {
                Verdict::Answered(answer) => self.happened(request.command, *answer, now, true),
                Verdict::Lost => self.may_have_happened(&request.command, now),
                Verdict::Waiting | Verdict::Void => Ok(()),
            };
        };
        match verdict {
            Verdict::Answered(answer) => self.repeated(id, request, *answer, now),
            Verdict::Lost => {
                self.lost.insert(id);
                self.unanswered.push(request.clone());
                self.may_have_happened(&request.command, now)
            }
            Verdict::Waiting | Verdict::Void => Ok(()),
        }
    }

    /// An answer under a request id: the first one, or one that must equal it.
    fn repeated(
        &mut self,
        id: RequestId,
        request: Request,
        answer: Answer<Work>,
        now: Timestamp,
    ) -> Lawful {
        if matches!(answer, Answer::Refused(_) | Answer::Claimed(None)) {
            return self.happened(request.command, answer, now, true);
        }
        let young = |(at, _): &&(Timestamp, Answer<Work>)| now.since(*at) <= REQUEST_KEPT_MS;
        if let Some((_, first)) = self.answers.get(&id).filter(young) {
            self.sometimes.requests_repeated += 1;
            return same_answer(first, &answer);
        }
        let certain = !self.lost.contains(&id);
        self.answers.insert(id, (now, answer.clone()));
        self.happened(request.command, answer, now, certain)
    }

    /// A request of an earlier life that was never answered, to be sent again.
    pub fn take_unanswered(&mut self) -> Option<Request> {
        self.unanswered.pop()
    }

    /// Gives a draft its number.
    pub fn draft(&mut self, draft: Draft) -> u64 {
        self.drafts.push(draft);
        self.drafts.len() as u64
    }

    /// How often a worker claimed so far.
    pub fn claims_of(&self, worker: &str) -> u64 {
        self.claims.get(worker).copied().unwrap_or(0)
    }

    /// Items that are known and not gone.
    pub fn known(&self) -> impl DoubleEndedIterator<Item = (&ItemId, &Fact)> {
        self.facts.iter()
    }

    /// Leases that may hold something.
    pub fn leases(&self) -> impl Iterator<Item = (&LeaseId, &Lease)> {
        self.leases.iter()
    }

    /// Scopes that are, or may be, paused.
    pub fn paused(&self) -> Vec<Scope> {
        let paused = self.paused.iter().filter(|(_, paused)| **paused != Some(false));
        paused.map(|(scope, _)| scope.clone()).collect()
    }
}

/// Whether a repeated answer is the first one. Of a claim, what ended since is left out.
fn same_answer(first: &Answer<Work>, again: &Answer<Work>) -> Lawful {
    let same = match (first, again) {
        (Answer::Claimed(Some(first)), Answer::Claimed(Some(again))) => {
            let known = |id| first.items.iter().any(|work| work.item.id == id);
            first.lease == again.lease && again.items.iter().all(|work| known(work.item.id))
        }
        _ => first == again,
    };
    if same {
        return Ok(());
    }
    let what = format!("a repeated request was answered {again:?}, but first {first:?}");
    Err(Finding::general(what))
}
