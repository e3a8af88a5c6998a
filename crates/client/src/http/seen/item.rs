//! Everything about an item.

use serde::Deserialize;
use serde_json::Result;
use serde_json::value::RawValue;
use windrow_core::queue::{Attempt, Children, Page, Place, Seen, Stage};
use windrow_core::tally::{Bucket, Counts};
use windrow_core::trail::{Class, Ending, Fault, Progress};
use windrow_core::{ItemId, LeaseId, Status};
use windrow_wire::time::Time;

use super::text::{Names, Parsed, Text, bytes, named, present};
use super::work::Said;

/// What is known of an item beyond what the producer said.
#[derive(Deserialize)]
struct Became<'a> {
    #[serde(borrow)]
    status: Text<'a>,
    attempts: u16,
    generation: u16,
    not_before: Option<Time>,
    finished_at: Option<Time>,
    lease: Option<Parsed<LeaseId>>,
    place: Option<PlaceSeen>,
    successor: Option<Parsed<ItemId>>,
    #[serde(default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    result_base64: Option<Text<'a>>,
    progress: Option<ProgressSeen>,
    reason: Option<String>,
    stages: Vec<StageSeen<'a>>,
    log: Vec<AttemptSeen<'a>>,
    children: Option<ChildrenSeen<'a>>,
}

#[derive(Deserialize)]
struct PlaceSeen {
    parent: Parsed<ItemId>,
    level: u8,
    ordinal: u32,
    generation: u16,
}

#[derive(Deserialize)]
struct ProgressSeen {
    current: u64,
    total: u64,
    message: String,
}

#[derive(Deserialize)]
struct FaultSeen<'a> {
    #[serde(borrow)]
    class: Text<'a>,
    message: String,
}

#[derive(Deserialize)]
struct StageSeen<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    status: Text<'a>,
    attempts: u16,
    worker: Option<Text<'a>>,
    started_at: Option<Time>,
    completed_at: Option<Time>,
    renewed_at: Option<Time>,
    error: Option<FaultSeen<'a>>,
}

#[derive(Deserialize)]
struct AttemptSeen<'a> {
    #[serde(borrow)]
    stage: Text<'a>,
    number: u16,
    worker: Text<'a>,
    started_at: Time,
    ended_at: Time,
    ending: Text<'a>,
    error: Option<FaultSeen<'a>>,
}

#[derive(Deserialize)]
struct ChildrenSeen<'a> {
    #[serde(flatten)]
    all: Buckets,
    #[serde(borrow)]
    phases: Vec<PhaseSeen<'a>>,
    more: bool,
}

#[derive(Deserialize)]
struct PhaseSeen<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(flatten)]
    counts: Buckets,
}

#[derive(Deserialize)]
struct Buckets {
    pending: u32,
    processing: u32,
    completed: u32,
    failed: u32,
    cancelled: u32,
    skipped: u32,
    unreached: u32,
}

impl Buckets {
    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (bucket, count) in [
            (Bucket::Pending, self.pending),
            (Bucket::Processing, self.processing),
            (Bucket::Completed, self.completed),
            (Bucket::Failed, self.failed),
            (Bucket::Cancelled, self.cancelled),
            (Bucket::Skipped, self.skipped),
            (Bucket::Unreached, self.unreached),
        ] {
            counts.0[bucket as usize] = count;
        }
        counts
    }
}

impl FaultSeen<'_> {
    fn fault(self) -> Result<Fault> {
        let class = named("class", &self.class.0, Class::parse)?;
        Ok(Fault { class, message: self.message })
    }
}

impl StageSeen<'_> {
    fn stage(self, names: &mut Names) -> Result<Stage> {
        Ok(Stage {
            name: names.of(&self.name.0),
            status: named("status", &self.status.0, Status::parse)?,
            attempts: self.attempts,
            worker: names.maybe(self.worker),
            started: self.started_at.map(|Time(at)| at),
            completed: self.completed_at.map(|Time(at)| at),
            renewed: self.renewed_at.map(|Time(at)| at),
            error: self.error.map(FaultSeen::fault).transpose()?,
        })
    }
}

impl AttemptSeen<'_> {
    fn attempt(self, names: &mut Names) -> Result<Attempt> {
        Ok(Attempt {
            stage: names.of(&self.stage.0),
            number: self.number,
            worker: names.of(&self.worker.0),
            started: self.started_at.0,
            ended: self.ended_at.0,
            ending: named("ending", &self.ending.0, Ending::parse)?,
            error: self.error.map(FaultSeen::fault).transpose()?,
        })
    }
}

impl ChildrenSeen<'_> {
    fn children(self, names: &mut Names) -> Children {
        let phase = |phase: PhaseSeen<'_>| (names.of(&phase.name.0), phase.counts.counts());
        let phases = self.phases.into_iter().map(phase).collect();
        Children { all: self.all.counts(), phases, more: self.more }
    }
}

/// Read twice, as what was said and as what became of it: one type for both would need a copy of
/// everything to tell them apart.
fn seen(text: &str, names: &mut Names) -> Result<Seen> {
    let (said, became): (Said<'_>, Became<'_>) =
        (serde_json::from_str(text)?, serde_json::from_str(text)?);
    Ok(Seen {
        id: said.id.0,
        status: named("status", &became.status.0, Status::parse)?,
        stage: names.of(&said.stage.0),
        priority: said.priority,
        attempts: became.attempts,
        generation: became.generation,
        not_before: became.not_before.map(|Time(at)| at),
        finished_at: became.finished_at.map(|Time(at)| at),
        lease: became.lease.map(|Parsed(id)| id),
        place: became.place.map(|place| Place {
            parent: place.parent.0,
            level: place.level,
            number: place.ordinal,
            generation: place.generation,
        }),
        successor: became.successor.map(|Parsed(id)| id),
        result: bytes(became.result, became.result_base64.as_ref())?,
        progress: became.progress.map(|progress| Progress {
            current: progress.current,
            total: progress.total,
            message: progress.message,
        }),
        reason: became.reason,
        stages: became.stages.into_iter().map(|stage| stage.stage(names)).collect::<Result<_>>()?,
        log: became.log.into_iter().map(|one| one.attempt(names)).collect::<Result<_>>()?,
        children: became.children.map(|children| children.children(names)),
        body: said.body(names)?,
    })
}

pub(in crate::http) fn item(body: &[u8]) -> Result<Seen> {
    let text: &RawValue = serde_json::from_slice(body)?;
    seen(text.get(), &mut Names::default())
}

pub(in crate::http) fn page(body: &[u8]) -> Result<Page> {
    #[derive(Deserialize)]
    struct Tree<'a> {
        #[serde(borrow)]
        children: Vec<&'a RawValue>,
        next: Option<u32>,
    }
    let tree: Tree<'_> = serde_json::from_slice(body)?;
    let mut names = Names::default();
    let items = tree.children.iter().map(|text| seen(text.get(), &mut names));
    Ok(Page { items: items.collect::<Result<_>>()?, next: tree.next })
}
