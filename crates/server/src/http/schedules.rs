//! Schedules: written, shown, run, taken away.
//!
//! A schedule belongs to a tenant, which is named after the question mark; what it enqueues is that
//! tenant's.

use axum::Json;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::{ETAG, IF_MATCH};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_core::note::{Expects, WriteNote};
use windrow_core::{ItemId, Refusal, Timestamp};
use windrow_engine::{Clock as _, Failure};
use windrow_wire::problem::Code;
use windrow_wire::schedule::{LastRun, NewSchedule, Ran, Schedule};
use windrow_wire::time::Time;

use super::reply::{Asked, Done, Failed, Named, read, request_id, whole, within};
use crate::auth::{Denied, Scoped};
use crate::named::Name;
use crate::schedules::kept::{Kept, SHELF, When, item};
use crate::schedules::{find, run_now, write};
use crate::store::Queue;

/// Runs that an answer shows.
const SHOWN: usize = 5;
/// Runs in a preview, and at most.
const PREVIEWED: u64 = 10;
const PREVIEWED_MAX: u64 = 1_000;

/// Whose schedule is meant.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Whose {
    #[serde(alias = "user_id")]
    tenant: Option<String>,
}

impl Whose {
    /// The schedule, and the queue for it.
    fn named<'a>(&self, name: &str, scoped: &'a Scoped) -> Result<(Name, &'a Queue), Failed> {
        let own = scoped.tenant();
        let tenant = self.tenant.as_deref().unwrap_or(&own);
        Ok((Name::new(tenant, name)?, scoped.of(tenant)?))
    }
}

pub(super) async fn list(
    scoped: Scoped,
    Asked(whose): Asked<Whose>,
) -> Result<Json<Vec<Schedule>>, Failed> {
    let now = scoped.clock().now();
    let mut all = Vec::new();
    for (name, kept) in own(&scoped, whose.tenant.as_deref()).await? {
        all.push(shown(&scoped, name, kept, now).await?);
    }
    Ok(Json(all))
}

/// The schedules that a caller may know of, or those of a tenant among them.
pub(super) async fn own(
    scoped: &Scoped,
    tenant: Option<&str>,
) -> Result<Vec<(Name, Kept)>, Denied> {
    let is_meant = |name: &Name| {
        scoped.sees(&name.tenant) && tenant.is_none_or(|tenant| *tenant == *name.tenant)
    };
    let notes = scoped.notes(SHELF).await?;
    let read = notes.iter().filter_map(|note| {
        Name::parse(&note.name).zip(Kept::read(&note.body)).filter(|(name, _)| is_meant(name))
    });
    Ok(read.collect())
}

pub(super) async fn show(
    scoped: Scoped,
    Named(name): Named,
    Asked(whose): Asked<Whose>,
) -> Result<Response, Failed> {
    let (name, queue) = whose.named(&name, &scoped)?;
    let (kept, _) = known(queue, &name).await?;
    with_tag(shown(&scoped, name, kept, scoped.clock().now()).await?)
}

pub(super) async fn put(
    scoped: Scoped,
    Named(name): Named,
    Asked(whose): Asked<Whose>,
    request: Request,
) -> Result<Response, Failed> {
    let (name, queue) = whose.named(&name, &scoped)?;
    let matches = if_match(request.headers())?;
    let says: NewSchedule = read(&whole(request, &()).await?)?;
    let now = scoped.clock().now();
    let when = When::new(&says, now)?;
    item(&name, &says, now, "now")?;
    loop {
        let found = find(queue, &name).await?;
        let (was, version) = found.unzip();
        must_match(matches, was.as_ref())?;
        let kept = Kept {
            says: says.clone(),
            revision: was.as_ref().map_or(0, |was| was.revision + 1).max(now.0),
            next: when.after(now).map(Time),
            made_up: 0,
            tries: 0,
            last: was.and_then(|was| was.last),
        };
        let expects = version.map_or(Expects::Nothing, Expects::Version);
        match write(queue, &name, expects, &kept).await {
            // It ran meanwhile, or somebody else wrote it: then whoever names a revision is told.
            Err(Failure::Refused(Refusal::Changed { .. })) => {}
            written => {
                written?;
                return with_tag(shown(&scoped, name, kept, now).await?);
            }
        }
    }
}

pub(super) async fn remove(
    scoped: Scoped,
    Named(name): Named,
    Asked(whose): Asked<Whose>,
    headers: HeaderMap,
) -> Result<Json<Done>, Failed> {
    let ((name, queue), matches) = (whose.named(&name, &scoped)?, if_match(&headers)?);
    loop {
        let (kept, version) = known(queue, &name).await?;
        must_match(matches, Some(&kept))?;
        let (shelf, expects) = (SHELF.into(), Expects::Version(version));
        let gone = WriteNote { shelf, name: name.of_note().into(), expects, body: None };
        match queue.note(gone).await {
            Err(Failure::Refused(Refusal::Changed { .. })) => {}
            written => {
                written?;
                return Ok(Done::YES);
            }
        }
    }
}

/// Runs it now; its next run comes as it would have.
pub(super) async fn run(
    scoped: Scoped,
    Named(name): Named,
    Asked(whose): Asked<Whose>,
    headers: HeaderMap,
) -> Result<Json<Ran>, Failed> {
    let (name, queue) = whose.named(&name, &scoped)?;
    let request = scoped.request(request_id(&headers)?);
    let last = run_now(queue, &name, request).await?;
    let last = last.ok_or_else(|| Failed::not_found("such schedule"))?;
    Ok(Json(Ran { outcome: last.outcome, item: last.item, reason: last.reason }))
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct HowMany {
    #[serde(alias = "user_id")]
    tenant: Option<String>,
    count: Option<u64>,
}

/// The runs that are to come, enabled or not.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct Preview {
    next_runs: Vec<Time>,
}

pub(super) async fn preview(
    scoped: Scoped,
    Named(name): Named,
    Asked(asked): Asked<HowMany>,
) -> Result<Json<Preview>, Failed> {
    let (name, queue) = Whose { tenant: asked.tenant }.named(&name, &scoped)?;
    let (kept, _) = known(queue, &name).await?;
    let count = within("count", asked.count.unwrap_or(PREVIEWED), PREVIEWED_MAX)? as usize;
    let runs = When::read(&kept.says)?.upcoming(scoped.clock().now(), count);
    Ok(Json(Preview { next_runs: runs.into_iter().map(Time).collect() }))
}

async fn known(queue: &Queue, name: &Name) -> Result<(Kept, u64), Failed> {
    find(queue, name).await?.ok_or_else(|| Failed::not_found("such schedule"))
}

/// As it is shown, with what its last item is now.
async fn shown(
    scoped: &Scoped,
    name: Name,
    kept: Kept,
    now: Timestamp,
) -> Result<Schedule, Failed> {
    let Kept { says, revision, next, last, .. } = kept;
    let mut next_runs: Vec<Time> = Vec::new();
    if says.enabled {
        let from = next.map_or(now, |Time(next)| next);
        next_runs.extend(next);
        let more = When::read(&says)?.upcoming(from, SHOWN - next_runs.len());
        next_runs.extend(more.into_iter().map(Time));
    }
    let last_run = match last {
        None => None,
        Some(last) => {
            let id = last.item.as_deref().and_then(|item| item.parse::<ItemId>().ok());
            let seen = match id {
                Some(id) => scoped.inspect(id).await?,
                None => None,
            };
            let status = seen.map(|seen| seen.item.status().name());
            let (outcome, reason) = (last.outcome, last.reason);
            Some(LastRun { run_at: last.run_at, outcome, item: last.item, status, reason })
        }
    };
    let NewSchedule { cron, time_zone, item, overlap, missed, enabled } = says;
    let Name { tenant, name } = name;
    Ok(Schedule {
        name,
        tenant,
        revision,
        cron,
        time_zone,
        item,
        overlap,
        missed,
        enabled,
        next_runs,
        last_run,
    })
}

fn with_tag(schedule: Schedule) -> Result<Response, Failed> {
    let tag = format!("\"{}\"", schedule.revision);
    Ok(([(ETAG, tag)], Json(schedule)).into_response())
}

/// The revision that whoever writes has read, if they say so.
pub(super) fn if_match(headers: &HeaderMap) -> Result<Option<u64>, Failed> {
    let Some(value) = headers.get(IF_MATCH) else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.trim_matches('"').parse().ok());
    let why = "if-match: expected the revision that was read, such as \"1794700799999\"";
    number.map(Some).ok_or_else(|| Failed::new(Code::Malformed, why))
}

fn must_match(matches: Option<u64>, was: Option<&Kept>) -> Result<(), Failed> {
    let revision = was.map_or(0, |was| was.revision);
    match matches {
        Some(read) if read != revision => Err(Refusal::Changed { version: revision }.into()),
        _ => Ok(()),
    }
}
