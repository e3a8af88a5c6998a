//! How the system is, as seed 003 shows it: workers, what runs by the clock, and figures.

use axum::Json;
use axum::http::Method;
use axum::routing::get;
use schemars::JsonSchema;
use serde::Serialize;
use windrow_core::Timestamp;
use windrow_engine::{self as engine, Clock as _};
use windrow_wire::time::Time;

use super::reply::Failed;
use super::schedules;
use super::status::{Counts, WorkerShown};
use super::table::{Operation, Role};
use crate::auth::Scoped;
use crate::named::Name;
use crate::schedules::kept::Kept;

/// What can be asked of the system.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            Method::GET,
            "/system/status",
            Role::Viewer,
            "How the system is: workers, what runs by the clock with its last and next runs, and \
             how many items have each status.",
            get(status),
        )
        .gives::<SystemStatus>(200),
    ]
}

/// How the system is.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct SystemStatus {
    queue_worker: QueueWorker,
    /// Workers that ask this server for work or hold a lease.
    workers: Vec<WorkerShown>,
    /// What runs by the clock: what Windrow does by itself, then schedules.
    scheduled_jobs: Vec<ScheduledJob>,
    queue_stats: Figures,
    timestamp: Time,
}

/// All workers together.
#[derive(Serialize, JsonSchema, Debug)]
struct QueueWorker {
    /// `running` if something is worked on, `idle` if somebody waits for work, `absent` if nobody
    /// is there.
    status: &'static str,
    /// When one was seen last.
    last_run: Option<Time>,
}

#[derive(Serialize, JsonSchema, Debug)]
struct Figures {
    /// The same as `pending`.
    queued: u64,
    #[serde(flatten)]
    counts: Counts,
}

/// Something that runs by the clock.
#[derive(Serialize, JsonSchema, Debug)]
struct ScheduledJob {
    /// `reclaim` takes back what lost workers held, `retention` removes what is past its keeping;
    /// anything else is a schedule's name.
    name: String,
    kind: Kind,
    /// Whose schedule it is.
    tenant: Option<String>,
    /// `running`, `disabled`, or `elsewhere` if another server does it.
    status: &'static str,
    /// How often it runs; a schedule says so by its cron.
    every_ms: Option<u64>,
    cron: Option<String>,
    last_run: Option<Time>,
    next_run: Option<Time>,
    /// Items that the last run took back or removed.
    handled: Option<u64>,
}

#[derive(Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Own,
    Schedule,
}

async fn status(scoped: Scoped) -> Result<Json<SystemStatus>, Failed> {
    let workers = scoped.workers().await?;
    let mut counts = Counts::default();
    scoped.counts().await?.iter().for_each(|count| counts.add(count));
    let (jobs, leads) = scoped.jobs();
    let own = jobs.iter().map(|job| ScheduledJob::own(job, leads, scoped.sees_all()));
    let schedules = schedules::own(&scoped, None).await?;
    let scheduled = schedules.into_iter().map(|(name, kept)| ScheduledJob::schedule(name, kept));
    let is_busy = workers.iter().any(|worker| worker.leases > 0);
    Ok(Json(SystemStatus {
        queue_worker: QueueWorker {
            status: match workers.is_empty() {
                true => "absent",
                false if is_busy => "running",
                false => "idle",
            },
            last_run: workers.iter().map(|worker| worker.last_seen).max().map(Time),
        },
        scheduled_jobs: own.chain(scheduled).collect(),
        workers: workers.into_iter().map(Into::into).collect(),
        queue_stats: Figures { queued: counts.pending, counts },
        timestamp: scoped.clock().now().into(),
    }))
}

impl ScheduledJob {
    /// What the engine does. How much of it there was is about all tenants.
    fn own(job: &engine::Job, leads: bool, shows_all: bool) -> ScheduledJob {
        ScheduledJob {
            name: if job.name == "sweep" { "retention" } else { job.name }.to_owned(),
            kind: Kind::Own,
            tenant: None,
            status: if leads { "running" } else { "elsewhere" },
            every_ms: Some(job.every_ms),
            cron: None,
            last_run: job.last.map(Time),
            next_run: Some(job.next).filter(|next| leads && *next > Timestamp::ZERO).map(Time),
            handled: job.last.filter(|_| shows_all).map(|_| job.handled),
        }
    }

    fn schedule(name: Name, kept: Kept) -> ScheduledJob {
        let Kept { says, next, last, .. } = kept;
        ScheduledJob {
            name: name.name,
            kind: Kind::Schedule,
            tenant: Some(name.tenant),
            status: if says.enabled { "running" } else { "disabled" },
            every_ms: None,
            cron: Some(says.cron),
            last_run: last.map(|last| last.run_at),
            next_run: next.filter(|_| says.enabled),
            handled: None,
        }
    }
}
