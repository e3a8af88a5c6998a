//! Schedules: items that are enqueued by the clock.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::new::NewItem;
use crate::time::Time;

/// What is to be enqueued, and when.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct NewSchedule {
    /// Five fields (minute, hour, day, month, weekday), six with seconds first, or `@daily` and the
    /// like.
    pub cron: String,
    /// Where the clock hangs by which it goes, such as Europe/Berlin.
    #[serde(default = "utc")]
    pub time_zone: String,
    /// What is enqueued at every run. It names its queue.
    pub item: NewItem,
    #[serde(default)]
    pub overlap: Overlap,
    #[serde(default)]
    pub missed: Missed,
    #[serde(default = "yes")]
    pub enabled: bool,
}

fn utc() -> String {
    "UTC".into()
}

fn yes() -> bool {
    true
}

/// What becomes of a run while the item of the last one has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Both are worked on.
    #[default]
    Allow,
    /// The new run is left out.
    Skip,
    /// The old item is cancelled.
    Replace,
}

/// What becomes of runs that came while no server was there.
#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// They are left out.
    #[default]
    Skip,
    /// One makes up for all of them.
    One,
    /// Each is made up for, up to a hundred.
    All,
}

/// A schedule, with what became of it so far.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Schedule {
    pub name: String,
    pub tenant: String,
    /// Rises whenever the schedule is written; for `If-Match`.
    pub revision: u64,
    pub cron: String,
    pub time_zone: String,
    pub item: NewItem,
    pub overlap: Overlap,
    pub missed: Missed,
    pub enabled: bool,
    /// The next runs; none while it is not enabled.
    pub next_runs: Vec<Time>,
    pub last_run: Option<LastRun>,
}

/// The last run.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct LastRun {
    /// When it was to come.
    pub run_at: Time,
    pub outcome: RunOutcome,
    /// The item that it enqueued.
    pub item: Option<String>,
    /// What that item is now; nothing once it is no longer kept.
    pub status: Option<&'static str>,
    /// Why it enqueued nothing.
    pub reason: Option<String>,
}

/// What a run came to.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// An item was enqueued.
    Enqueued,
    /// An item with its key waited already.
    Duplicate,
    /// The last run's item had not ended.
    Skipped,
    /// The queue would not take it.
    Refused,
}

/// What a run that was asked for came to.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Ran {
    pub outcome: RunOutcome,
    pub item: Option<String>,
    pub reason: Option<String>,
}
