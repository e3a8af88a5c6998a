//! Settings of a queue, and the policy that they resolve to for one lane.
//!
//! Settings are what an operator says: defaults for the queue, exceptions per stage and per kind.
//! A [`Policy`] is the answer for one (queue, stage, kind), resolved once when settings change, so
//! that no rule ever looks up an exception.

use std::sync::Arc;

use crate::item::End;
use crate::planted::{Bug, is_planted};

/// What an operator says about a queue.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Settings {
    pub defaults: Policy,
    /// Most live items; enqueues beyond it are refused. None for no limit.
    pub live_max: Option<u64>,
    pub unique: Unique,
    pub retention: Retention,
    /// Nothing is kept of an item that completed.
    pub forget_completed: bool,
    pub stages: Vec<StageSettings>,
    pub kinds: Vec<KindSettings>,
    /// Who wants to know when items end. Kept when an operator configures the queue.
    pub notify: Vec<Notify>,
}

/// What one webhook wants to know of a queue.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Notify {
    pub webhook: Arc<str>,
    /// Whose items; everybody's if empty.
    pub tenants: Vec<Arc<str>>,
    pub endings: Vec<End>,
}

/// Exceptions for one stage.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StageSettings {
    pub stage: Arc<str>,
    pub policy: Policy,
}

/// Exceptions for one kind: only the lease differs by kind.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct KindSettings {
    pub kind: Arc<str>,
    pub lease_ms: u64,
}

/// The rules of one lane.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Policy {
    pub lease_ms: u64,
    /// Total runs of a stage; 0 for no limit.
    pub max_attempts: u16,
    pub backoff: Backoff,
    pub on_expiry: OnExpiry,
    /// Due retries come before first attempts of the same priority.
    pub retry_first: bool,
    /// Most live leases per group.
    pub group_limit: Option<u32>,
    /// A group is strictly first in, first out.
    pub ordered: bool,
    /// Releases and snoozes of one stage before they cost an attempt.
    pub deferrals_max: u16,
    /// The endpoint or model that the work needs.
    pub resource: Option<Arc<str>>,
    pub ahead: Option<Ahead>,
}

/// No claims while too much waits further down.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Ahead {
    pub stage: Arc<str>,
    pub max: u64,
}

/// How long a retry waits: doubling from `base_ms` up to `cap_ms`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Backoff {
    pub base_ms: u64,
    pub cap_ms: u64,
    /// The same for errors of class infrastructure, which pass more slowly.
    pub slow_base_ms: u64,
    pub slow_cap_ms: u64,
}

/// What becomes of an item whose lease ran out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OnExpiry {
    /// It waits for its next attempt as after an error.
    #[default]
    Retry,
    /// It is visible again at once (seed 002).
    Requeue,
    /// It fails (seed 004).
    Fail,
}

/// Which items block their key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Unique {
    /// Those that have not ended.
    #[default]
    Live,
    /// Those, and ended ones as long as they are kept.
    Retained,
}

/// How long ended items are kept. Trees count as one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Retention {
    pub max_age_ms: u64,
    pub max_per_tenant: u32,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            lease_ms: 300_000,
            max_attempts: 3,
            backoff: Backoff::default(),
            on_expiry: OnExpiry::Retry,
            retry_first: false,
            group_limit: None,
            ordered: false,
            deferrals_max: 100,
            resource: None,
            ahead: None,
        }
    }
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { base_ms: 10_000, cap_ms: 300_000, slow_base_ms: 60_000, slow_cap_ms: 3_600_000 }
    }
}

impl Default for Retention {
    fn default() -> Retention {
        Retention { max_age_ms: 7 * 86_400_000, max_per_tenant: 5_000 }
    }
}

impl Retention {
    /// What is kept of a queue, given what is said for every queue: that holds for each of the two
    /// of which the queue says no more than queues do by themselves.
    #[must_use]
    pub fn or(self, every: Retention) -> Retention {
        let plain = Retention::default();
        let every = if is_planted(Bug::KeepingUnheard) { plain } else { every };
        let (mut keep, own) = (every, self);
        if own.max_age_ms != plain.max_age_ms {
            keep.max_age_ms = own.max_age_ms;
        }
        if own.max_per_tenant != plain.max_per_tenant {
            keep.max_per_tenant = own.max_per_tenant;
        }
        keep
    }
}

/// The lease of pages and chunks when nobody says otherwise: their workers renew every 30 s.
const PAGE_LEASE_MS: u64 = 120_000;
/// Kinds that have it.
const PAGES: [&str; 2] = ["page", "chunk"];

impl Settings {
    /// The policy for one stage and kind.
    pub fn policy(&self, stage: &str, kind: &str) -> Policy {
        let of_stage = self.stages.iter().find(|s| &*s.stage == stage).map(|s| &s.policy);
        let mut policy = of_stage.unwrap_or(&self.defaults).clone();
        let is_page = PAGES.contains(&kind);
        let of_kind = self.kinds.iter().find(|k| &*k.kind == kind).map(|of| of.lease_ms);
        // Whoever repeats what holds anyway says nothing new about a stage.
        let is_said = |lease_ms: &u64| of_stage.is_none() || !is_page || *lease_ms != PAGE_LEASE_MS;
        if let Some(lease_ms) = of_kind.filter(is_said) {
            policy.lease_ms = lease_ms;
        } else if of_stage.is_none() && is_page && self.has_plain_lease() {
            policy.lease_ms = PAGE_LEASE_MS;
        }
        policy
    }

    fn has_plain_lease(&self) -> bool {
        self.defaults.lease_ms == Policy::default().lease_ms
    }

    /// The same settings with what holds without being said. They have the same policies.
    #[must_use]
    pub fn in_force(mut self) -> Settings {
        if self.has_plain_lease() {
            for kind in PAGES {
                if !self.kinds.iter().any(|of| &*of.kind == kind) {
                    self.kinds.push(KindSettings { kind: kind.into(), lease_ms: PAGE_LEASE_MS });
                }
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_the_stage_exception_with_the_lease_of_the_kind() {
        let settings = Settings {
            stages: vec![StageSettings {
                stage: "ocr".into(),
                policy: Policy { max_attempts: 9, ..Policy::default() },
            }],
            kinds: vec![KindSettings { kind: "page".into(), lease_ms: 7_000 }],
            ..Settings::default()
        };
        assert_eq!(settings.policy("ocr", "x").max_attempts, 9);
        assert_eq!(settings.policy("ocr", "page").lease_ms, 7_000);
        assert_eq!(settings.policy("other", "x"), Policy::default());
    }

    #[test]
    fn a_queue_keeps_what_every_queue_does_unless_it_says_otherwise() {
        let plain = Retention::default();
        let every = Retention { max_age_ms: 1, max_per_tenant: 2 };
        assert_eq!(plain.or(every), every);
        assert_eq!(plain.or(plain), plain);
        let own = Retention { max_age_ms: 3, ..plain };
        assert_eq!(own.or(every), Retention { max_age_ms: 3, max_per_tenant: 2 });
        let own = Retention { max_per_tenant: 0, ..plain };
        assert_eq!(own.or(every), Retention { max_age_ms: 1, max_per_tenant: 0 });
    }

    #[test]
    fn what_holds_without_being_said_can_be_said_and_changes_nothing() {
        let staged = |lease_ms| StageSettings {
            stage: "ocr".into(),
            policy: Policy { lease_ms, ..Policy::default() },
        };
        let kind = |lease_ms| KindSettings { kind: "page".into(), lease_ms };
        let plain = Settings::default;
        let longer = Policy { lease_ms: 600_000, ..Policy::default() };
        for settings in [
            plain(),
            Settings { stages: vec![staged(7_000)], ..plain() },
            Settings { kinds: vec![kind(9_000)], stages: vec![staged(7_000)], ..plain() },
            Settings { defaults: longer, ..plain() },
        ] {
            let in_force = settings.clone().in_force();
            for (stage, kind) in [("ocr", "page"), ("ocr", "x"), ("other", "chunk"), ("o", "page")]
            {
                let (want, got) = (settings.policy(stage, kind), in_force.policy(stage, kind));
                assert_eq!(got, want, "{stage} {kind} of {settings:?}");
            }
        }
        let shown = plain().in_force().kinds;
        assert_eq!(shown.iter().map(|of| of.lease_ms).collect::<Vec<_>>(), [120_000; 2]);
    }

    #[test]
    fn pages_and_chunks_have_a_shorter_lease_by_default() {
        assert_eq!(Settings::default().policy("ocr", "page").lease_ms, 120_000);
        assert_eq!(Settings::default().policy("work", "item").lease_ms, 300_000);
    }
}
