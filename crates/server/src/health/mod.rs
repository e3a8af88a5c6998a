//! Health: whether work gets done, and if not, why and what to do.
//!
//! [`facts`] are gathered from the engine and the store; [`checks`] turns them into lines, each
//! green, yellow or red. All words and bounds are there, and none of them reads anything itself.

mod checks;
mod facts;
mod words;

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

pub(crate) use facts::{Facts, Serving, Watch};
pub(crate) use words::bytes;

/// From when on something is not as it should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Thresholds {
    /// Work has waited for too long.
    pub(crate) oldest_ms: u64,
    /// Nothing has happened for too long where work waits.
    pub(crate) stalled_ms: u64,
}

impl Thresholds {
    pub(crate) fn new(oldest_s: u64, stalled_s: u64) -> Thresholds {
        let ms = |s: u64| s.saturating_mul(1_000);
        Thresholds { oldest_ms: ms(oldest_s), stalled_ms: ms(stalled_s) }
    }
}

/// How it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Green,
    Yellow,
    Red,
}

impl Status {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Status::Green => "green",
            Status::Yellow => "yellow",
            Status::Red => "red",
        }
    }
}

/// One line.
#[derive(Clone, PartialEq, Eq, Serialize, JsonSchema, Debug)]
pub(crate) struct Check {
    pub(crate) check: &'static str,
    pub(crate) status: Status,
    /// The queue or resource that it is about, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) of: Option<String>,
    /// What is so.
    pub(crate) says: String,
    /// What to do, if something is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remedy: Option<&'static str>,
}

/// Everything, and the worst of it.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub(crate) struct Health {
    pub(crate) status: Status,
    pub(crate) checks: Vec<Check>,
}

impl Health {
    pub(crate) fn of(facts: &Facts, thresholds: Thresholds) -> Health {
        let checks = checks::all(facts, thresholds);
        let status = checks.iter().map(|check| check.status).max().unwrap_or(Status::Green);
        Health { status, checks }
    }

    /// The worst of each kind of check.
    pub(crate) fn by_check(&self) -> Vec<(&'static str, Status)> {
        let mut worst: Vec<(&'static str, Status)> = Vec::new();
        for check in &self.checks {
            match worst.iter_mut().find(|(name, _)| *name == check.check) {
                Some((_, status)) => *status = (*status).max(check.status),
                None => worst.push((check.check, check.status)),
            }
        }
        worst
    }
}

/// How often health is looked at by itself, so that the log says when it changes.
const LOOK_EVERY: Duration = Duration::from_secs(15);

/// Looks at health from time to time for as long as the server runs, and logs what changed.
pub(crate) async fn watch(watch: Arc<Watch>) {
    let mut before = Vec::new();
    loop {
        let health = watch.health().await;
        for line in health.changed(&before) {
            crate::logs::health_changed(line.check, line.of.as_deref(), line.status, &line.says);
        }
        before = health.by_check();
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

impl Health {
    /// The first line of each check that has another colour than before; at first all are green.
    fn changed(&self, before: &[(&'static str, Status)]) -> Vec<&Check> {
        let was = |check: &str| {
            let was = before.iter().find(|(name, _)| *name == check);
            was.map_or(Status::Green, |(_, status)| *status)
        };
        let now = self.by_check();
        let changed = now.iter().filter(|(check, status)| was(check) != *status);
        let line = |(check, status): &(&'static str, Status)| {
            self.checks.iter().find(|line| line.check == *check && line.status == *status)
        };
        changed.filter_map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_colour_is_said_once_and_when_it_is_over() {
        let line = |check, status, says: &str| Check {
            check,
            status,
            of: None,
            says: says.to_owned(),
            remedy: None,
        };
        let health = |checks| Health { status: Status::Green, checks };
        let said = |health: &Health, before: &Health| -> Vec<String> {
            health.changed(&before.by_check()).iter().map(|line| line.says.clone()).collect()
        };
        let well = health(vec![line("a", Status::Green, "a is well")]);
        let ill = health(vec![
            line("a", Status::Yellow, "a is not well"),
            line("a", Status::Red, "a is ill"),
        ]);
        let none: [&str; 0] = [];
        assert_eq!(said(&well, &health(vec![])), none);
        assert_eq!(said(&ill, &well), ["a is ill"]);
        assert_eq!(said(&ill, &ill), none);
        assert_eq!(said(&well, &ill), ["a is well"]);
    }
}
