//! What seeds 003 and 004 let admins do: what is kept of ended items, how the queue is, and a job
//! that is cancelled or run again.
//!
//! Nothing here walks over everything: lists are short, and what is looked for is looked for only
//! for so long.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::{HeaderMap, Method};
use axum::routing::{get, patch, post};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use windrow_core::command::RetryMode;
use windrow_core::find::Filter;
use windrow_core::item::Status;
use windrow_core::ports::Store as _;
use windrow_core::rules::notify::EVERY_QUEUE;
use windrow_core::settings::{Retention, Settings};
use windrow_core::{ItemId, Refusal};
use windrow_engine::{Clock as _, Failure};
use windrow_wire::problem::Code;
use windrow_wire::time::Time;

use super::items::one;
use super::reply::{Asked, Failed, Read, item_id, request_id, within};
use super::status::Counts;
use super::table::{Operation, Role};
use super::views::{self, Around, Job};
use crate::auth::{Denied, Scoped, Targets};

const DAY_MS: u64 = 86_400_000;
/// What may be said of what is kept: a day to a hundred years, and a number that fits on a disk.
const AGE_MAX_DAYS: u64 = 36_500;
const KEPT_MAX: u32 = 100_000_000;

/// Jobs in each list.
const SHOWN: usize = 20;
/// Completed jobs of which the average is made.
const MEASURED: usize = 200;
/// How long each of the lists is looked for.
const SEARCH: Duration = Duration::from_millis(50);

/// What admins can ask for.
pub(super) fn operations() -> Vec<Operation> {
    let of = Operation::new;
    const JOB: &[(&str, &str)] = &[("jobId", "the job, if no body says so")];
    vec![
        of(
            Method::GET,
            "/admin/settings/queue",
            Role::Operator,
            "How long ended items are kept, and how many of each tenant, in queues that do not say \
             so themselves.",
            get(keeping),
        )
        .gives::<Keeping>(200),
        of(
            Method::PATCH,
            "/admin/settings/queue",
            Role::Admin,
            "Say one or both of them. What is left out stays as it is.",
            patch(keep),
        )
        .takes::<Keep>()
        .gives::<Keeping>(200),
        of(
            Method::GET,
            "/admin/queue/stats",
            Role::Operator,
            "How the queue is: figures, the newest jobs, those that failed, the one that waits \
             longest, and how long jobs take.",
            get(stats),
        )
        .gives::<QueueStats>(200),
        of(
            Method::POST,
            "/admin/queue/retry",
            Role::Operator,
            "Run a failed job again, the same one, with its attempts at zero.",
            post(retry),
        )
        .asks(JOB)
        .takes::<Which>()
        .gives::<Acted>(200),
        of(
            Method::POST,
            "/admin/queue/cancel",
            Role::Operator,
            "End a job that waits or is worked on.",
            post(cancel),
        )
        .asks(JOB)
        .takes::<Which>()
        .gives::<Acted>(200),
    ]
}

/// What is kept of queues that do not say so themselves.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct Keeping {
    /// Ended items go after so many days.
    max_age_days: u64,
    /// So many of them are kept for each tenant of a queue.
    max_per_user: u32,
}

impl From<Retention> for Keeping {
    fn from(of: Retention) -> Keeping {
        let max_age_days = of.max_age_ms.div_ceil(DAY_MS);
        Keeping { max_age_days, max_per_user: of.max_per_tenant }
    }
}

/// What is to be kept. What is left out stays as it is.
#[derive(Deserialize, JsonSchema, Default, Debug)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Keep {
    #[schemars(range(min = 1, max = 36_500))]
    max_age_days: Option<u64>,
    #[serde(alias = "max_per_tenant")]
    #[schemars(range(min = 1, max = 100_000_000))]
    max_per_user: Option<u32>,
}

impl Keep {
    fn over(self, mut kept: Retention) -> Result<Retention, Refusal> {
        if let Some(days) = self.max_age_days {
            within("max_age_days", days, AGE_MAX_DAYS)?;
            kept.max_age_ms = days * DAY_MS;
        }
        if let Some(max) = self.max_per_user {
            within("max_per_user", max.into(), KEPT_MAX.into())?;
            kept.max_per_tenant = max;
        }
        Ok(kept)
    }
}

/// What is said for every queue.
async fn of_every(scoped: &Scoped) -> Result<Settings, Denied> {
    let configured = scoped.whole()?.store().configured().await?;
    let every = configured.settings.into_iter().find(|(queue, _)| **queue == *EVERY_QUEUE);
    Ok(every.map(|(_, settings)| settings).unwrap_or_default())
}

async fn keeping(scoped: Scoped) -> Result<Json<Keeping>, Failed> {
    Ok(Json(of_every(&scoped).await?.retention.into()))
}

async fn keep(scoped: Scoped, Read(keep): Read<Keep>) -> Result<Json<Keeping>, Failed> {
    // Whoever says one of the two keeps the other as it is then, also if it is being said.
    static SAYING: Mutex<()> = Mutex::const_new(());
    let queues = scoped.whole()?;
    let _one_at_a_time = SAYING.lock().await;
    let mut settings = of_every(&scoped).await?;
    settings.retention = keep.over(settings.retention)?;
    let kept = settings.retention.into();
    queues.configure(EVERY_QUEUE, settings).await?;
    Ok(Json(kept))
}

/// How the queue is, as seed 004 has it.
#[derive(Serialize, JsonSchema, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct QueueStats {
    queue_stats: Counts,
    /// The newest, newest first.
    recent_jobs: Vec<Job>,
    /// Of those that wait, also for their time or their next attempt, the one that was created
    /// first.
    oldest_pending_job: Option<Job>,
    /// The newest that failed, newest first.
    failed_jobs: Vec<Job>,
    performance_metrics: Performance,
    timestamp: Time,
    /// Something was not found in time: `failedJobs` or `oldestPendingJob` may lack some.
    partial: bool,
}

/// How long jobs took that completed within a day.
#[derive(Serialize, JsonSchema, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct Performance {
    types: Vec<Average>,
    /// More completed than were looked at; these are the newest.
    partial: bool,
}

#[derive(Serialize, JsonSchema, Debug)]
#[serde(rename_all = "camelCase")]
struct Average {
    job_type: String,
    count: u64,
    avg_duration_ms: u64,
}

async fn stats(scoped: Scoped) -> Result<Json<QueueStats>, Failed> {
    let (now, around) = (scoped.clock().now(), Around::of(&scoped).await?);
    let mut queue_stats = Counts::default();
    scoped.counts().await?.iter().for_each(|count| queue_stats.add(count));
    let with = |status| Filter { statuses: vec![status], ..Filter::default() };
    let recent = scoped.search(Filter::default(), None, SHOWN, SEARCH).await?;
    let failed = scoped.search(with(Status::Failed), None, SHOWN, SEARCH).await?;
    let (oldest, unseen) = scoped.oldest_pending(SEARCH).await?;
    let completed = scoped.search(with(Status::Completed), None, MEASURED, SEARCH).await?;
    let measured = views::jobs(&around, &completed.items).await?;
    let partial = failed.items.len() < SHOWN && failed.next.is_some() || unseen.is_some();
    Ok(Json(QueueStats {
        queue_stats,
        recent_jobs: views::jobs(&around, &recent.items).await?,
        oldest_pending_job: oldest.map(|seen| views::job(&around, seen)),
        failed_jobs: views::jobs(&around, &failed.items).await?,
        performance_metrics: Performance::of(&measured, now, completed.next.is_some()),
        timestamp: now.into(),
        partial,
    }))
}

impl Performance {
    fn of(jobs: &[Job], now: windrow_core::Timestamp, partial: bool) -> Performance {
        let mut types: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for job in jobs {
            let Some((Time(started), Time(ended))) = job.started_at.zip(job.completed_at) else {
                continue;
            };
            if now.since(ended) < DAY_MS {
                let (count, sum) = types.entry(&job.job_type).or_default();
                (*count, *sum) = (*count + 1, *sum + ended.since(started));
            }
        }
        let average = |(job_type, (count, sum)): (&str, (u64, u64))| Average {
            job_type: job_type.to_owned(),
            count,
            avg_duration_ms: sum / count,
        };
        Performance { types: types.into_iter().map(average).collect(), partial }
    }
}

/// Which job is meant.
#[derive(Deserialize, JsonSchema, Default, Debug)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(super) struct Which {
    #[serde(alias = "job_id", alias = "id")]
    job_id: Option<String>,
}

impl Which {
    fn or(self, asked: Which) -> Result<ItemId, Failed> {
        let twice = || Refusal::invalid("jobId", "is one in the body and another outside");
        let id = one(self.job_id, asked.job_id).ok_or_else(twice)?;
        let missing = || Refusal::invalid("jobId", "is missing, in the body and as a parameter");
        item_id(&id.ok_or_else(missing)?)
    }
}

/// What became of a job.
#[derive(Serialize, JsonSchema, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct Acted {
    success: bool,
    job_id: String,
    /// The job as it is now, in the shape of `GET /views/job_queue`.
    job: Option<Job>,
}

type Answered = (Extension<Targets>, Json<Acted>);

async fn retry(
    scoped: Scoped,
    headers: HeaderMap,
    Asked(asked): Asked<Which>,
    Read(which): Read<Which>,
) -> Result<Answered, Failed> {
    let (id, request) = (which.or(asked)?, request_id(&headers)?);
    let why = "only a failed job is run again";
    let seen = scoped.inspect(id).await?.ok_or(Refusal::NotFound { item: id })?;
    // A request that is repeated finds the job as it left it; the rules know it again.
    let may_be_a_repeat = request.is_some() && seen.item.status() != Status::Cancelled;
    if seen.item.status() != Status::Failed && !may_be_a_repeat {
        return Err(wrong(seen.item.status(), why));
    }
    let retried = scoped.retry(id, RetryMode::Reset, None, request).await;
    retried.map_err(|denied| match denied {
        // To this API a job that was split is worked on, whatever its children are.
        Denied::Failed(Failure::Refused(Refusal::StillLive { .. })) => {
            wrong(seen.item.status(), why)
        }
        denied => unfit(denied, why),
    })?;
    Ok(acted(&scoped, id).await)
}

async fn cancel(
    scoped: Scoped,
    headers: HeaderMap,
    Asked(asked): Asked<Which>,
    Read(which): Read<Which>,
) -> Result<Answered, Failed> {
    let (id, request) = (which.or(asked)?, request_id(&headers)?);
    let why = "only a job that waits or is worked on can be cancelled";
    scoped.cancel(id, request).await.map_err(|denied| unfit(denied, why))?;
    Ok(acted(&scoped, id).await)
}

fn wrong(status: Status, why: &str) -> Failed {
    Failed::new(Code::WrongStatus, format!("{why}, and this one is {status}"))
}

/// What the rules refuse for a job's status, as seed 004 has it.
fn unfit(denied: Denied, why: &str) -> Failed {
    match denied {
        Denied::Failed(Failure::Refused(
            Refusal::AlreadyDone { status, .. }
            | Refusal::NotResettable { status, .. }
            | Refusal::StillLive { status, .. },
        )) => wrong(status, why),
        denied => denied.into(),
    }
}

/// What was done is done, also if the job cannot be shown.
async fn acted(scoped: &Scoped, id: ItemId) -> Answered {
    let shown = async {
        let around = Around::of(scoped).await?;
        let seen = scoped.inspect(id).await?;
        Ok::<_, Denied>(seen.map(|seen| views::job(&around, seen)))
    };
    let job = shown.await.ok().flatten();
    let targets = Extension(Targets(vec![id.to_string()]));
    (targets, Json(Acted { success: true, job_id: id.to_string(), job }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_stays_and_what_makes_no_sense_is_refused() {
        let plain = Retention::default();
        let over = |days, most| Keep { max_age_days: days, max_per_user: most }.over(plain);
        assert_eq!(over(None, None), Ok(plain));
        assert_eq!(over(Some(1), None), Ok(Retention { max_age_ms: DAY_MS, ..plain }));
        assert_eq!(over(None, Some(9)), Ok(Retention { max_per_tenant: 9, ..plain }));
        for (days, most) in [(Some(0), None), (Some(36_501), None), (None, Some(0))] {
            assert!(over(days, most).is_err(), "{days:?} {most:?}");
        }
    }
}
