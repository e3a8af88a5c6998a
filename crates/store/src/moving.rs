//! Moving: what a store holds, as records that any other store can take.
//!
//! A store that can be moved out of implements [`Export`], one that can be moved into [`Import`];
//! each lies beside its store. What is here puts the two together: it copies, and then reads both
//! sides again and compares them record by record. Ids stay as they are, and so does the tag that
//! is part of them. Leases are moved too, so that both sides can be compared; only then are they
//! released, by the rules, in the new store.

use std::fmt::{self, Write as _};
use std::hash::Hasher as _;
use std::sync::Arc;

use futures_util::future::join;
use siphasher::sip::SipHasher13;
use windrow_core::change::Lease;
use windrow_core::command::{Answer, Command, Outcome, Request, Scope};
use windrow_core::id::StoreTag;
use windrow_core::item::{BlobRef, GroupNo, KindNo, Marks, QueueNo, RouteNo, TenantNo};
use windrow_core::limits::{COMMAND_ITEMS_MAX, GRACE_MS};
use windrow_core::note::Note;
use windrow_core::ports::{Now, Store, StoreError};
use windrow_core::resource::Resource;
use windrow_core::settings::Settings;
use windrow_core::tally::Tally;
use windrow_core::trail::Trail;
use windrow_core::{Body, Item, ItemId, RequestId, Timestamp};

/// Items or answers that are moved together.
pub const PAGE: usize = 1_000;

/// One thing that a store holds.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// The latest moment that the store has seen.
    Clock(Timestamp),
    Settings {
        queue: Arc<str>,
        settings: Box<Settings>,
    },
    Paused(Scope),
    Gate {
        resource: Arc<str>,
        state: Resource,
    },
    Blob {
        tenant: Arc<str>,
        blob: BlobRef,
        references: u32,
    },
    Note {
        shelf: Arc<str>,
        note: Note,
    },
    /// Children of this generation are being cancelled.
    Orphan {
        parent: ItemId,
        generation: u16,
    },
    Lease {
        lease: Lease,
        holds: Vec<ItemId>,
    },
    Item(Box<Moved>),
    Answered(Box<Answered>),
}

/// An item with everything that belongs to it.
#[derive(Clone, PartialEq, Debug)]
pub struct Moved {
    /// Its names have no numbers; the body has their texts.
    pub item: Item,
    pub body: Body,
    pub trail: Option<Trail>,
    pub tally: Option<Tally>,
    pub successor: Option<ItemId>,
    /// It is the root of a tree of which only the counts are left.
    pub folded: bool,
}

/// What a request was answered.
#[derive(Clone, PartialEq, Debug)]
pub struct Answered {
    pub request: RequestId,
    pub at: Timestamp,
    pub fingerprint: u64,
    pub answer: Answer,
}

impl Moved {
    /// Without what is true of one store alone.
    pub(crate) fn new(
        item: Item,
        body: Body,
        trail: Option<Trail>,
        tally: Option<Tally>,
        successor: Option<ItemId>,
        folded: bool,
    ) -> Moved {
        let item = Item {
            queue: QueueNo(0),
            tenant: TenantNo(0),
            kind: KindNo(0),
            route: RouteNo(0),
            group: item.group.map(|_| GroupNo(0)),
            ..item
        };
        let mut trail = Trail { progress: None, ..trail.unwrap_or_default() };
        // Where a clock was set back, something seems to end before it began. Not every store keeps
        // that.
        for attempt in &mut trail.attempts {
            attempt.ended = attempt.ended.max(attempt.started);
        }
        for stage in &mut trail.stages {
            stage.completed = stage.completed.map(|at| at.max(stage.started.unwrap_or(at)));
        }
        // One that is marked has a trail, even if there is nothing in it any more.
        let trail = (item.has(Marks::TRAIL) || trail != Trail::default()).then_some(trail);
        Moved { item, body, trail, tally, successor, folded }
    }
}

impl Answered {
    /// Whether it is worth remembering in another store. A hand-out is not: its lease is released.
    pub(crate) fn moves(&self) -> bool {
        !matches!(self.answer, Answer::Claimed(_))
    }
}

/// A store that is moved out of. Nobody else has it open.
pub trait Export: Send + Sync {
    /// The part that all its ids have in common.
    fn tag(&self) -> StoreTag;
    /// How many items there are, roughly.
    fn size(&self) -> impl Future<Output = Result<u64, StoreError>> + Send;
    /// Everything but items and answers, in any order.
    fn around(&self) -> impl Future<Output = Result<Vec<Record>, StoreError>> + Send;
    /// Items by id, after a given one.
    fn moved(
        &self,
        after: Option<ItemId>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Moved>, StoreError>> + Send;
    /// Remembered answers by request, after a given one.
    fn answered(
        &self,
        after: Option<RequestId>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Answered>, StoreError>> + Send;
}

/// A store that is moved into.
pub trait Import: Send + Sync {
    /// The last item that an interrupted move left here whole, with all before it, and how many.
    fn reached(&self) -> impl Future<Output = Result<Option<(ItemId, u64)>, StoreError>> + Send;
    /// Takes records, all or none of them. Taking them twice is harmless, except for items that
    /// were reached.
    fn put(&self, records: Vec<Record>) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// What a move came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    pub items: u64,
    /// Settings, pauses, gates, blobs, leases and remembered answers.
    pub others: u64,
    /// Over everything, in order.
    pub checksum: u64,
    /// Items whose leases were released.
    pub released: u64,
}

/// How far a move is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    Copied { items: u64, of: u64 },
    Compared { items: u64, of: u64 },
}

/// Why a move did not come to its end. The source is as it was.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{place} is not empty, it holds {holds}; give a new one, or empty it yourself")]
    NotEmpty { place: String, holds: String },
    #[error("{place} holds an unfinished move of another store; finish that one, or empty it")]
    OtherMove { place: String },
    #[error("{0}")]
    Place(String),
    #[error("the catalog was not moved: {0}")]
    Beside(String),
    #[error(
        "what arrived is not what was sent: {what}; did the source run since the move began? \
         Empty the target and begin again"
    )]
    Differs { what: String },
}

/// Copies everything that the target does not have yet.
pub async fn copy<S: Export, T: Import>(
    source: &S,
    target: &T,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<(), MoveError> {
    let of = source.size().await?;
    let reached = target.reached().await?;
    if let Some((id, _)) = reached {
        ensure_known(source, id).await?;
    }
    target.put(source.around().await?).await?;
    let (after, mut items) = reached.map_or((None, 0), |(id, n)| (Some(id), n));
    let mut page = source.moved(after, PAGE).await?;
    while let Some(last) = page.last() {
        let after = Some(last.item.id);
        items += page.len() as u64;
        let records = page.into_iter().map(|item| Record::Item(Box::new(item))).collect();
        // While one side writes, the other reads ahead.
        let (next, put) = join(source.moved(after, PAGE), target.put(records)).await;
        put?;
        page = next?;
        progress(Progress::Copied { items, of });
    }
    let mut after = None;
    loop {
        let page = source.answered(after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.request);
        target.put(page.into_iter().map(|one| Record::Answered(Box::new(one))).collect()).await?;
    }
}

/// Refuses to go on behind an item that was never in the source: whoever put it there, all that
/// lies before it would be passed over.
async fn ensure_known<S: Export>(source: &S, last: ItemId) -> Result<(), MoveError> {
    let before = last.serial().checked_sub(1).map(|serial| ItemId::from_serial(serial, last.tag()));
    let found = source.moved(before, 1).await?;
    if found.first().is_none_or(|found| found.item.id != last) {
        return Err(MoveError::Differs { what: format!("item {last} is too many") });
    }
    Ok(())
}

/// Reads both sides and compares them record by record.
pub async fn compare<S: Export, T: Export>(
    source: &S,
    target: &T,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Report, MoveError> {
    let of = source.size().await?;
    let mut report = Report::default();
    let (ours, theirs) = (sorted(source.around().await?), sorted(target.around().await?));
    report.others += report.same(&ours, &theirs, |record| format!("{record:?}"))?;
    let mut after = None;
    loop {
        let (ours, theirs) = join(source.moved(after, PAGE), target.moved(after, PAGE)).await;
        let (ours, theirs) = (ours?, theirs?);
        report.items += report.same(&ours, &theirs, |item| format!("item {}", item.item.id))?;
        let Some(last) = ours.last() else { break };
        after = Some(last.item.id);
        progress(Progress::Compared { items: report.items, of });
    }
    let mut after = None;
    loop {
        let ours = source.answered(after, PAGE).await?;
        let theirs = target.answered(after, PAGE).await?;
        let named = |one: &Answered| format!("the answer to request {}", one.request);
        report.others += report.same(&ours, &theirs, named)?;
        let Some(last) = ours.last() else { return Ok(report) };
        after = Some(last.request);
    }
}

impl Report {
    /// Compares two pages by the checksums of what is in them.
    fn same<T: fmt::Debug>(
        &mut self,
        ours: &[T],
        theirs: &[T],
        name: impl Fn(&T) -> String,
    ) -> Result<u64, MoveError> {
        for (ours, theirs) in ours.iter().zip(theirs) {
            let sum = checksum(ours);
            if sum != checksum(theirs) {
                return Err(MoveError::Differs { what: format!("{} differs", name(ours)) });
            }
            self.checksum = self.checksum.rotate_left(1) ^ sum;
        }
        let both = ours.len().min(theirs.len());
        let extra = ours.get(both).map(|one| (one, "missing"));
        let extra = extra.or_else(|| theirs.get(both).map(|one| (one, "too many")));
        match extra {
            Some((one, how)) => Err(MoveError::Differs { what: format!("{} is {how}", name(one)) }),
            None => Ok(both as u64),
        }
    }
}

/// What is compared: the clock goes on, and order means nothing.
fn sorted(records: Vec<Record>) -> Vec<Record> {
    let mut records: Vec<(String, Record)> = records
        .into_iter()
        .filter(|record| !matches!(record, Record::Clock(_)))
        .map(|record| (format!("{record:?}"), record))
        .collect();
    records.sort_by(|a, b| a.0.cmp(&b.0));
    records.into_iter().map(|(_, record)| record).collect()
}

/// A checksum of all that there is to see of a thing.
fn checksum(of: &impl fmt::Debug) -> u64 {
    struct Sum(SipHasher13);
    impl fmt::Write for Sum {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.write(text.as_bytes());
            Ok(())
        }
    }
    let mut sum = Sum(SipHasher13::new());
    let _never_fails = write!(sum, "{of:?}");
    sum.0.finish()
}

/// Releases what the source's leases hold, in the new store and by its rules: the items wait again
/// and have their attempt back. Says how many.
pub async fn release<S: Export, T: Store>(
    source: &S,
    target: &T,
    wall: Timestamp,
    now: Now,
) -> Result<u64, MoveError> {
    let mut released = 0;
    for record in source.around().await? {
        let Record::Lease { lease, holds } = record else { continue };
        for some in holds.chunks(COMMAND_ITEMS_MAX) {
            // Leases may have run out while nobody served them; that was not the workers' fault.
            let grace = Command::Grace { until: wall.plus(GRACE_MS) };
            let outcome = Outcome::Release { delay_ms: 0 };
            let items = some.iter().map(|id| (*id, outcome.clone())).collect();
            let settle = Command::Settle { lease: lease.id, items };
            let batch: Vec<Request> = vec![grace.into(), settle.into()];
            let answers = target.submit(batch, now).await?;
            let Some(Answer::Settled(each)) = answers.into_iter().nth(1) else {
                return Err(StoreError::NotApplied("a lease was not released".into()).into());
            };
            for settled in each {
                settled.map_err(|refusal| StoreError::NotApplied(refusal.to_string()))?;
                released += 1;
            }
        }
    }
    Ok(released)
}
