//! Resources: what stages share, such as an endpoint or a model, and when it is left alone.
//!
//! Decides, from what workers report, whether work that needs a resource is handed out. A breaker
//! closes it to everybody when it is down or asks for a rest, lets single items through to probe
//! it, and opens it gently; a bucket lets so much through in so much time. Sees no item: who was
//! held up was never handed out, so nothing of this costs an attempt. Time is an argument, and the
//! state is written by the commit that changes it, so that all servers see the same.
//!
//! ```text
//!            failures, or "too many requests"          time passes: one probe
//!   Calm ──────────────────────────────────▶ Resting ◀────────────────▶ Probing
//!    ▲                                          ▲        it failed         │
//!    │ enough went well                         │ a failure                │ it went well
//!    └──────────────────────────────────────── Ramping ◀───────────────────┘
//! ```

use std::sync::Arc;

use crate::change::Change;
use crate::command::Outcome;
use crate::id::{ItemId, LeaseId};
use crate::item::Item;
use crate::ledger::Ledger;
use crate::limits::{DELAY_MAX_MS, RATE_MAX, REST_MAX_MS};
use crate::refusal::Refusal;
use crate::time::Timestamp;
use crate::trail::Class;

/// Steps of opening gently: two items, then four, and so on.
const RAMP_STEPS: u8 = 5;

/// What is known of a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Resource {
    pub limits: Limits,
    /// Nothing that needs it is handed out before.
    pub closed_until: Timestamp,
    pub breaker: Breaker,
    pub bucket: Bucket,
}

/// What an operator says of a resource.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Limits {
    /// So much in so much time; none for as much as there is.
    pub rate: Option<Rate>,
    /// So many failures within the window close it; 0 for never.
    pub failures: u32,
    pub window_ms: u64,
    /// How long it rests the first time, if nobody says for how long. Doubles each time.
    pub rest_ms: u64,
    pub rest_max_ms: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { rate: None, failures: 5, window_ms: 60_000, rest_ms: 10_000, rest_max_ms: 600_000 }
    }
}

/// So many in so much time, and at most so many at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rate {
    pub count: u32,
    pub per_ms: u64,
    pub burst: u32,
}

/// Whether a resource can be relied on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Breaker {
    /// It works; so many failures since then.
    Calm { failures: u32, since: Timestamp },
    /// It is left alone until the resource opens, for the so manyth time.
    Resting { times: u32 },
    /// One item was let through to see. If nobody reports, another is when the resource opens.
    Probing { times: u32 },
    /// It works again; so many more items may be handed out before one is seen to go well.
    Ramping { times: u32, step: u8, left: u32 },
}

impl Default for Breaker {
    fn default() -> Breaker {
        Breaker::Calm { failures: 0, since: Timestamp::ZERO }
    }
}

/// How many may be handed out at once, as of then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bucket {
    pub tokens: u32,
    pub at: Timestamp,
}

/// What a worker reports of a resource by how its attempt ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// It answered.
    Works,
    /// It asks to be left alone, perhaps for so long.
    Busy { for_ms: Option<u64> },
    /// It did not answer.
    Down,
}

impl Report {
    fn of(outcome: &Outcome) -> Option<Report> {
        match outcome {
            Outcome::Complete { .. } | Outcome::Split { .. } => Some(Report::Works),
            Outcome::Retry { class: Class::RateLimit, delay_ms, .. } => {
                Some(Report::Busy { for_ms: *delay_ms })
            }
            Outcome::Retry { class: Class::Infrastructure, .. }
            | Outcome::Fail { class: Class::Infrastructure, .. } => Some(Report::Down),
            // Nothing follows from these: the resource may not even have been asked.
            Outcome::Retry { .. }
            | Outcome::Fail { .. }
            | Outcome::Skip { .. }
            | Outcome::Release { .. }
            | Outcome::Snooze { .. } => None,
        }
    }
}

impl Resource {
    /// Closed by an operator until then, or opened by a time that has passed.
    #[must_use]
    pub fn closed_by_hand(&self, until: Timestamp, now: Timestamp) -> Resource {
        let mut next = Resource { breaker: Breaker::default(), ..*self };
        next.refill(now);
        next.closed_until = if until > now { until } else { Timestamp::ZERO };
        next.wait_for_token(now);
        next
    }

    /// With other limits. What it knows of failures stays.
    #[must_use]
    pub fn limited(&self, limits: Limits, now: Timestamp) -> Resource {
        let mut next = *self;
        next.refill(now);
        next.limits = limits;
        if self.limits.rate != limits.rate {
            // Who waited for a token of the old bucket gets one of the new one.
            let waited = self.limits.rate.is_some() && self.bucket_is_empty(now);
            next.bucket = Bucket { tokens: limits.rate.map_or(0, |rate| rate.burst), at: now };
            if waited && matches!(self.breaker, Breaker::Calm { .. }) {
                next.closed_until = Timestamp::ZERO;
            }
        }
        next
    }

    /// Whether handing out, and whatever goes well, leaves it as it is.
    pub fn is_calm(&self) -> bool {
        self.limits.rate.is_none() && matches!(self.breaker, Breaker::Calm { .. })
    }

    /// After something was handed out that needs it.
    #[must_use]
    pub fn taken(&self, now: Timestamp) -> Resource {
        let mut next = *self;
        let rest = now.plus(self.limits.rest_ms.max(1));
        match self.breaker {
            Breaker::Calm { .. } => {}
            Breaker::Resting { times } | Breaker::Probing { times } => {
                next.breaker = Breaker::Probing { times };
                next.closed_until = rest;
            }
            Breaker::Ramping { times, step, left } => {
                let left = left.saturating_sub(1);
                next.breaker = Breaker::Ramping { times, step, left };
                if left == 0 {
                    next.closed_until = rest;
                }
            }
        }
        next.refill(now);
        next.bucket.tokens = next.bucket.tokens.saturating_sub(1);
        next.wait_for_token(now);
        next
    }

    /// After a worker reported.
    #[must_use]
    pub fn told(&self, report: Report, now: Timestamp) -> Resource {
        let mut next = *self;
        match report {
            Report::Works => next.works(now),
            Report::Busy { for_ms } => next.busy(for_ms, now),
            Report::Down => next.down(now),
        }
        next
    }

    fn works(&mut self, now: Timestamp) {
        let (times, step) = match self.breaker {
            Breaker::Probing { times } => (times, 1),
            Breaker::Ramping { times, step, .. } => (times, step + 1),
            // Calm needs no more, and what went well before it closed says nothing.
            Breaker::Calm { .. } | Breaker::Resting { .. } => return,
        };
        self.breaker = match step {
            RAMP_STEPS.. => Breaker::Calm { failures: 0, since: now },
            _ => Breaker::Ramping { times, step, left: 1 << step },
        };
        self.closed_until = Timestamp::ZERO;
        self.refill(now);
        self.wait_for_token(now);
    }

    fn busy(&mut self, for_ms: Option<u64>, now: Timestamp) {
        let known = match self.breaker {
            Breaker::Calm { .. } => 0,
            Breaker::Resting { times } => times,
            Breaker::Probing { times } | Breaker::Ramping { times, .. } => times,
        };
        let is_echo = matches!(self.breaker, Breaker::Resting { .. }) && self.closed_until > now;
        let times = if is_echo { known } else { known.saturating_add(1) };
        let rest_ms = for_ms.unwrap_or(self.rest_ms(times)).min(DELAY_MAX_MS);
        self.rest(times, now.plus(rest_ms));
    }

    fn down(&mut self, now: Timestamp) {
        let times = match self.breaker {
            Breaker::Calm { failures, since } => {
                let is_old = now.since(since) > self.limits.window_ms;
                let is_first = is_old || failures == 0;
                let (failures, since) = if is_first { (0, now) } else { (failures, since) };
                let failures = failures.saturating_add(1);
                if self.limits.failures == 0 || failures < self.limits.failures {
                    self.breaker = Breaker::Calm { failures, since };
                    return;
                }
                1
            }
            // It was handed out before it closed.
            Breaker::Resting { .. } => return,
            Breaker::Probing { times } | Breaker::Ramping { times, .. } => times.saturating_add(1),
        };
        self.rest(times, now.plus(self.rest_ms(times)));
    }

    /// Rests until then. Who waits for a probe waits no longer; what an operator closed, or what
    /// rests already, opens no sooner.
    fn rest(&mut self, times: u32, until: Timestamp) {
        let is_firm = matches!(self.breaker, Breaker::Calm { .. } | Breaker::Resting { .. });
        self.closed_until = if is_firm { until.max(self.closed_until) } else { until };
        self.breaker = Breaker::Resting { times };
    }

    /// How long it rests for the so manyth time.
    fn rest_ms(&self, times: u32) -> u64 {
        let doubled = self.limits.rest_ms.saturating_mul(1 << times.saturating_sub(1).min(20));
        doubled.min(self.limits.rest_max_ms)
    }

    /// Adds the tokens that came since.
    fn refill(&mut self, now: Timestamp) {
        let Some(rate) = self.limits.rate else { return };
        let (count, per_ms) = (u64::from(rate.count), rate.per_ms);
        let came = now.since(self.bucket.at).saturating_mul(count) / per_ms;
        let room = u64::from(rate.burst.saturating_sub(self.bucket.tokens));
        if came >= room {
            self.bucket = Bucket { tokens: rate.burst.max(self.bucket.tokens), at: now };
        } else if came > 0 {
            self.bucket.tokens += came as u32;
            // Rounded up, so that no token comes early.
            self.bucket.at = self.bucket.at.plus((came * per_ms).div_ceil(count));
        }
    }

    fn bucket_is_empty(&self, now: Timestamp) -> bool {
        let mut bucket = *self;
        bucket.refill(now);
        bucket.bucket.tokens == 0
    }

    /// An empty bucket closes the resource until the next token comes.
    fn wait_for_token(&mut self, now: Timestamp) {
        if let Some(rate) = self.limits.rate
            && self.bucket.tokens == 0
        {
            let next = self.bucket.at.plus(rate.per_ms.div_ceil(u64::from(rate.count)));
            self.closed_until = self.closed_until.max(next.max(now.plus(1)));
        }
    }
}

impl Limits {
    /// Refuses what cannot be meant.
    pub fn check(&self) -> Result<(), Refusal> {
        let wrong = |field, why: &str| Err(Refusal::invalid(field, why));
        if let Some(rate) = self.rate {
            if !(1..=RATE_MAX).contains(&rate.count) || !(1..=RATE_MAX).contains(&rate.burst) {
                return wrong("rate", "count and burst must lie between 1 and 1000000");
            }
            if !(1..=REST_MAX_MS).contains(&rate.per_ms) {
                return wrong("rate", "per_ms must lie between 1 and a day");
            }
        }
        if !(1..=REST_MAX_MS).contains(&self.rest_ms) || self.rest_max_ms > REST_MAX_MS {
            return wrong("rest_ms", "must lie between 1 and a day");
        }
        if self.rest_max_ms < self.rest_ms {
            return wrong("rest_max_ms", "is shorter than rest_ms");
        }
        if self.window_ms > REST_MAX_MS {
            return wrong("window_ms", "is longer than a day");
        }
        Ok(())
    }
}

/// An item was handed out: what its stage needs is used once more.
pub(crate) fn taken<L: Ledger>(ledger: &mut L, item: &Item, now: Timestamp) {
    let Some(name) = ledger.policy(item).resource.clone() else { return };
    let known = ledger.resource(&name, false);
    if !known.is_calm() {
        let state = known.taken(now);
        put(ledger, name, &known, state, now);
    }
}

/// What the holder of a lease is about to report, and of which resource.
pub(crate) fn reported<L: Ledger>(
    ledger: &L,
    lease: LeaseId,
    id: ItemId,
    outcome: &Outcome,
) -> Option<(Arc<str>, Report)> {
    let report = Report::of(outcome)?;
    // Only what is held has a policy for certain: a store may have forgotten the lane of the rest.
    let item = ledger.item(id).ok()?.filter(|item| item.lease() == Some(lease))?;
    Some((ledger.policy(&item).resource.clone()?, report))
}

/// A report that was accepted has its effect on everybody.
pub(crate) fn hear<L: Ledger>(ledger: &mut L, name: Arc<str>, report: Report, now: Timestamp) {
    let known = ledger.resource(&name, report != Report::Works);
    let state = known.told(report, now);
    put(ledger, name, &known, state, now);
}

fn put<L: Ledger>(
    ledger: &mut L,
    resource: Arc<str>,
    known: &Resource,
    state: Resource,
    now: Timestamp,
) {
    if state != *known {
        ledger.apply(Change::Gate { resource, state: Some(state) }, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp(1_000_000);

    fn with(limits: Limits) -> Resource {
        Resource::default().limited(limits, AT)
    }

    fn at(ms: u64) -> Timestamp {
        AT.plus(ms)
    }

    /// What happens when, and until when it is closed then, from the beginning on.
    fn check(limits: Limits, story: &[(u64, &str, u64)]) {
        let mut resource = with(limits);
        for (ms, what, closed) in story {
            let now = at(*ms);
            resource = match *what {
                "take" => {
                    assert!(resource.closed_until <= now, "{ms}: {resource:?}");
                    resource.taken(now)
                }
                "works" => resource.told(Report::Works, now),
                "down" => resource.told(Report::Down, now),
                "busy" => resource.told(Report::Busy { for_ms: None }, now),
                "busy 3s" => resource.told(Report::Busy { for_ms: Some(3_000) }, now),
                other => unreachable!("{other}"),
            };
            let until = resource.closed_until.since(AT);
            let shown = if resource.closed_until <= now { 0 } else { until };
            assert_eq!(shown, *closed, "{ms} {what}: {resource:?}");
        }
    }

    #[test]
    fn a_few_failures_within_the_window_close_it_and_others_do_not() {
        let limits = Limits { failures: 3, ..Limits::default() };
        check(limits, &[(0, "down", 0), (1, "down", 0), (2, "down", 10_002)]);
        check(limits, &[(0, "down", 0), (1, "down", 0), (60_001, "down", 0), (60_002, "down", 0)]);
        let never = Limits { failures: 0, ..Limits::default() };
        check(never, &[(0, "down", 0); 9]);
    }

    #[test]
    fn one_probe_at_a_time_and_longer_rests_while_it_is_down() {
        let limits = Limits { failures: 1, rest_max_ms: 25_000, ..Limits::default() };
        check(
            limits,
            &[
                (0, "down", 10_000),
                (5, "down", 10_000),
                (10_000, "take", 20_000),
                (10_100, "down", 30_100),
                (30_100, "take", 40_100),
                (30_200, "down", 55_200),
                // Its probe was never heard of again: another one is let through.
                (55_200, "take", 65_200),
                (65_200, "take", 75_200),
            ],
        );
    }

    #[test]
    fn it_opens_gently() {
        let limits = Limits { failures: 1, ..Limits::default() };
        let mut story = vec![(0, "down", 10_000), (10_000, "take", 20_000), (10_001, "works", 0)];
        story.extend([(10_002, "take", 0), (10_003, "take", 20_003), (10_004, "works", 0)]);
        story.extend([(10_005, "take", 0); 3]);
        story.extend([(10_006, "take", 20_006), (10_007, "works", 0), (10_008, "works", 0)]);
        // Enough went well: as many as there are.
        story.extend([(10_009, "works", 0)]);
        story.extend([(10_010, "take", 0); 99]);
        check(limits, &story);
        // A failure on the way up sends it back, for longer.
        let back = [(0, "down", 10_000), (10_000, "take", 20_000), (10_001, "works", 0)];
        check(limits, &[&back[..], &[(10_002, "take", 0), (10_003, "down", 30_003)]].concat());
    }

    #[test]
    fn who_asks_for_a_rest_gets_it_at_once() {
        check(
            Limits::default(),
            &[
                (0, "busy 3s", 3_000),
                (10, "busy 3s", 3_010),
                (3_010, "take", 13_010),
                (3_020, "works", 0),
            ],
        );
        check(
            Limits::default(),
            &[(0, "busy", 10_000), (10_000, "take", 20_000), (10_001, "busy", 30_001)],
        );
    }

    #[test]
    fn a_bucket_lets_so_much_through_in_so_much_time() {
        let rate = Rate { count: 2, per_ms: 1_000, burst: 3 };
        let limits = Limits { rate: Some(rate), ..Limits::default() };
        check(
            limits,
            &[
                (0, "take", 0),
                (0, "take", 0),
                (0, "take", 500),
                (500, "take", 1_000),
                (1_200, "take", 1_500),
                (9_000, "take", 0),
                (9_000, "take", 0),
                (9_000, "take", 9_500),
            ],
        );
        // Over a long time no more than the rate, however the takes fall.
        let mut resource = with(Limits { rate: Some(Rate { count: 7, ..rate }), ..limits });
        let mut taken = 0;
        for ms in 0..60_000 {
            while resource.closed_until <= at(ms) {
                resource = resource.taken(at(ms));
                taken += 1;
            }
        }
        assert!((415..=7 * 60 + 3).contains(&taken), "{taken}");
    }

    #[test]
    fn an_operator_opens_and_closes_it_but_the_bucket_stays_empty() {
        let down = with(Limits { failures: 1, ..Limits::default() }).told(Report::Down, AT);
        assert_eq!(down.closed_by_hand(Timestamp::ZERO, AT).closed_until, Timestamp::ZERO);
        assert_eq!(down.closed_by_hand(at(99), AT).closed_until, at(99));
        let rate = Rate { count: 1, per_ms: 1_000, burst: 1 };
        let empty = with(Limits { rate: Some(rate), ..Limits::default() }).taken(AT);
        assert_eq!(empty.closed_by_hand(Timestamp::ZERO, AT).closed_until, at(1_000));
        assert_eq!(empty.limited(Limits::default(), AT).closed_until, Timestamp::ZERO);
    }
}
