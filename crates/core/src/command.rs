//! Commands: everything that can be asked of the queue, and the answers.
//!
//! A command is the unit of atomicity. One that names many items answers for each, and a refusal
//! of one undoes nothing of the others.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::id::{ItemId, LeaseId, RequestId};
use crate::item::{BlobRef, Body, Item, Payload};
use crate::limits::{ERROR_MAX, PRIORITY_DEFAULT};
use crate::note::WriteNote;
use crate::refusal::Refusal;
use crate::resource::Limits;
use crate::route::Route;
use crate::rules::notify::DELIVERIES;
use crate::settings::{Notify, Settings};
use crate::tally::OnGaps;
use crate::time::Timestamp;
use crate::trail::{Class, Ending, Progress};

/// A command, and the id by which its sender may repeat it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Request {
    pub id: Option<RequestId>,
    pub command: Command,
}

impl From<Command> for Request {
    fn from(command: Command) -> Request {
        Request { id: None, command }
    }
}

/// Everything that can be asked.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Command {
    Enqueue(Vec<NewItem>),
    Claim(Claim),
    Renew {
        lease: LeaseId,
        lease_ms: Option<u64>,
    },
    Progress {
        lease: LeaseId,
        items: Vec<(ItemId, Progress)>,
    },
    Settle {
        lease: LeaseId,
        items: Vec<(ItemId, Outcome)>,
    },
    Cancel {
        items: Vec<ItemId>,
    },
    Retry {
        items: Vec<ItemId>,
        mode: RetryMode,
        from_stage: Option<Arc<str>>,
    },
    Delete {
        items: Vec<ItemId>,
    },
    Prioritise {
        items: Vec<ItemId>,
        priority: u8,
    },
    Pause(Scope),
    Resume(Scope),
    Configure {
        queue: Arc<str>,
        settings: Box<Settings>,
    },
    /// Says what a webhook wants to know of a queue (`*` for every queue); none for nothing.
    Notify {
        queue: Arc<str>,
        webhook: Arc<str>,
        wanted: Option<Notify>,
    },
    /// Closes a resource until a time, or opens it with a time that has passed.
    Gate {
        resource: Arc<str>,
        closed_until: Timestamp,
    },
    /// Says that a blob is stored and may be referred to.
    Blob {
        tenant: Arc<str>,
        blob: BlobRef,
    },
    /// Writes a note, or takes it away.
    Note(WriteNote),
    /// Takes back what expired leases held.
    Reclaim {
        limit: usize,
    },
    /// Gives every live lease more time, after a start or a gap in ticking: until then, but no more
    /// than the limit of a grace and than its own length. Who does not know the store's time asks
    /// for [`Timestamp::NEVER`].
    Grace {
        until: Timestamp,
    },
    /// Ends what was cancelled, folds trees, and removes what is past its keeping.
    Sweep {
        limit: usize,
    },
    /// Says that a blob is not kept any longer, unless something refers to it.
    ForgetBlob {
        tenant: Arc<str>,
        blob: BlobRef,
    },
    /// Says what a resource can bear. Without limits, all that is known of it is forgotten.
    Limit {
        resource: Arc<str>,
        limits: Option<Limits>,
    },
    /// Says how a queue behaves of which nobody has said so; if somebody has, that stands.
    Introduce {
        queue: Arc<str>,
        settings: Box<Settings>,
    },
}

impl Command {
    /// The verb, as files, metrics and routes spell it.
    pub fn verb(&self) -> &'static str {
        match self {
            Command::Enqueue(_) => "enqueue",
            Command::Claim(_) => "claim",
            Command::Renew { .. } => "renew",
            Command::Progress { .. } => "progress",
            Command::Settle { .. } => "settle",
            Command::Cancel { .. } => "cancel",
            Command::Retry { .. } => "retry",
            Command::Delete { .. } => "delete",
            Command::Prioritise { .. } => "prioritise",
            Command::Pause(_) => "pause",
            Command::Resume(_) => "resume",
            Command::Configure { .. } => "configure",
            Command::Notify { .. } => "notify",
            Command::Gate { .. } => "gate",
            Command::Blob { .. } => "blob",
            Command::Note(_) => "note",
            Command::Reclaim { .. } => "reclaim",
            Command::Grace { .. } => "grace",
            Command::Sweep { .. } => "sweep",
            Command::ForgetBlob { .. } => "forget_blob",
            Command::Limit { .. } => "limit",
            Command::Introduce { .. } => "introduce",
        }
    }

    /// How many items a command of work brings, may take or ends; one for every other.
    pub fn items(&self) -> usize {
        match self {
            Command::Enqueue(items) => items.len(),
            Command::Claim(claim) => claim.max,
            Command::Settle { items, .. } => items.len(),
            _ => 1,
        }
    }
}

/// An item to enqueue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewItem {
    pub body: Body,
    pub priority: u8,
    pub not_before: Timestamp,
    pub on_duplicate: OnDuplicate,
    pub on_split: OnSplit,
}

/// Without `not_before`: who asks for a delay and repeats the request asks for a later moment, and
/// it is the same request all the same.
impl Hash for NewItem {
    fn hash<H: Hasher>(&self, into: &mut H) {
        (&self.body, self.priority, self.on_duplicate, self.on_split).hash(into);
    }
}

impl NewItem {
    pub fn new(body: Body) -> NewItem {
        NewItem {
            body,
            priority: PRIORITY_DEFAULT,
            not_before: Timestamp::ZERO,
            on_duplicate: OnDuplicate::Keep,
            on_split: OnSplit::After,
        }
    }
}

/// What becomes of a pending item whose key is enqueued again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OnDuplicate {
    /// It stays as it is.
    #[default]
    Keep,
    /// It takes the newer op and payload.
    Replace,
}

/// What becomes of a split item whose key is enqueued again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OnSplit {
    /// It ends first.
    #[default]
    After,
    /// It is cancelled.
    Supersede,
}

/// A child to create when an item is split. Its tenant and queue are its parent's.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NewChild {
    /// Its number among its siblings. One that an earlier slice had is ignored; twice in one slice
    /// it is refused.
    pub ordinal: u32,
    pub kind: Arc<str>,
    pub op: Arc<str>,
    pub group: Option<Arc<str>>,
    pub route: Arc<Route>,
    pub priority: Option<u8>,
    pub content_type: Option<Arc<str>>,
    pub payload: Payload,
    pub metadata: Option<String>,
    pub reference: Option<String>,
}

impl NewChild {
    pub fn new(ordinal: u32, kind: impl Into<Arc<str>>, route: Arc<Route>) -> NewChild {
        NewChild {
            ordinal,
            kind: kind.into(),
            op: "ingest".into(),
            group: None,
            route,
            priority: None,
            content_type: None,
            payload: Payload::default(),
            metadata: None,
            reference: None,
        }
    }

    /// Roughly how many bytes it takes, for budgets: its words, and what stands around them.
    pub fn weight(&self) -> usize {
        let text = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
        let own = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        CHILD_FRAME
            + self.kind.len()
            + self.op.len()
            + text(&self.group)
            + self.route.weight()
            + text(&self.content_type)
            + self.payload.inline_len()
            + own(&self.metadata)
            + own(&self.reference)
    }
}

/// What stands around the words of a child, in the log and on any wire, at most.
const CHILD_FRAME: usize = 256;

/// The queue of documents, which have stages that only workers of theirs can do.
pub const DOCUMENTS: &str = "documents";

/// Queues that a claim takes from only if it names them: what the server delivers by itself, and
/// the stages of documents. Whoever else settles such an item loses what it was there for.
pub const BY_NAME_ONLY: [&str; 2] = [DELIVERIES, DOCUMENTS];

/// A worker asks for work.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Claim {
    pub worker: Arc<str>,
    /// Queues to take from; all but those [`BY_NAME_ONLY`] if empty. All stages, kinds and tenants
    /// if those are empty.
    pub queues: Vec<Arc<str>>,
    pub stages: Vec<Arc<str>>,
    pub kinds: Vec<Arc<str>>,
    pub tenants: Vec<Arc<str>>,
    pub max: usize,
    /// How long the lease lasts; by default as long as the first item's policy says.
    pub lease_ms: Option<u64>,
}

impl Claim {
    /// Whether a claim that names these queues takes from this one.
    pub fn takes_from(queues: &[Arc<str>], queue: &str) -> bool {
        if queues.is_empty() {
            return !BY_NAME_ONLY.contains(&queue);
        }
        queues.iter().any(|named| &**named == queue)
    }

    pub fn new(worker: impl Into<Arc<str>>, queue: impl Into<Arc<str>>, max: usize) -> Claim {
        Claim {
            worker: worker.into(),
            queues: vec![queue.into()],
            stages: Vec::new(),
            kinds: Vec::new(),
            tenants: Vec::new(),
            max,
            lease_ms: None,
        }
    }
}

/// How the holder of a lease says that an attempt ended.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// The stage is done. `output` goes to the next stage, `result` stays with the item, and
    /// `spawn` are items of their own that are enqueued in the same commit.
    Complete { result: Option<Vec<u8>>, output: Option<Vec<u8>>, spawn: Vec<NewItem> },
    /// The work is in its children. While `more` is true the lease is kept for the next slice.
    Split { children: Vec<NewChild>, more: bool, on_gaps: OnGaps, output: Option<Vec<u8>> },
    /// It went wrong and may be tried again.
    Retry { class: Class, message: String, delay_ms: Option<u64> },
    /// It went wrong for good.
    Fail { class: Class, message: String },
    /// There is nothing to do in this stage.
    Skip { reason: String },
    /// It was not tried; somebody else may at once or after a delay. Costs no attempt.
    Release { delay_ms: u64 },
    /// It is to be tried later. Costs no attempt.
    Snooze { until: Timestamp },
}

impl Outcome {
    /// Completes without result, output or spawned items.
    pub const fn complete() -> Outcome {
        Outcome::Complete { result: None, output: None, spawn: Vec::new() }
    }

    /// Roughly how many bytes it takes, for budgets.
    pub fn weight(&self) -> usize {
        let len = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        match self {
            Outcome::Complete { result, output, spawn } => {
                let spawned = spawn.iter().map(|new| new.body.weight());
                len(result) + len(output) + spawned.sum::<usize>()
            }
            Outcome::Split { children, output, .. } => {
                len(output) + children.iter().map(NewChild::weight).sum::<usize>()
            }
            // A longer message is cut, and never a reason to refuse.
            Outcome::Retry { message, .. } | Outcome::Fail { message, .. } => {
                message.len().min(ERROR_MAX)
            }
            Outcome::Skip { .. } | Outcome::Release { .. } | Outcome::Snooze { .. } => 0,
        }
    }
}

/// How an ended item is run again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RetryMode {
    /// The same item, from its failed stage on.
    Reset,
    /// A new item; the old one stays as history.
    Clone,
}

/// What to pause: a queue, or only a stage or a tenant of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Scope {
    pub queue: Arc<str>,
    pub stage: Option<Arc<str>>,
    pub tenant: Option<Arc<str>>,
}

/// The answer to a command. `W` is what a claim hands out: the rules name [`Item`]s, a store turns
/// them into [`crate::ports::Work`] by reading their bodies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer<W = Item> {
    Enqueued(Vec<Result<Enqueued, Refusal>>),
    Claimed(Option<Grant<W>>),
    Renewed(Renewed),
    Progressed(Vec<Result<(), Refusal>>),
    Settled(Vec<Result<Settled, Refusal>>),
    Cancelled(Vec<Result<Cancelled, Refusal>>),
    Retried(Vec<Result<Retried, Refusal>>),
    Deleted(Vec<Result<Deleted, Refusal>>),
    Prioritised(Vec<Result<(), Refusal>>),
    /// Done, with nothing more to say.
    Done,
    /// The version that a note has now.
    Noted(u64),
    Reclaimed(Reclaimed),
    Swept(Swept),
    /// The whole command was refused.
    Refused(Refusal),
}

/// What became of an enqueue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Enqueued {
    pub id: ItemId,
    pub outcome: EnqueueOutcome,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EnqueueOutcome {
    Created,
    /// The key was pending already; that item was kept.
    Duplicate,
    /// The key was pending already; that item took the newer op and payload.
    Replaced,
    /// The key was being worked on; this item waits for it to end.
    Successor,
}

/// A lease over the items that one claim returned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant<W> {
    pub lease: LeaseId,
    pub expires_at: Timestamp,
    pub items: Vec<W>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Renewed {
    pub expires_at: Timestamp,
    /// What the lease still holds. What is missing was settled, cancelled or lost.
    pub held: Vec<ItemId>,
}

/// How a settled attempt ended: a retry without attempts left has `Failed`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settled {
    pub id: ItemId,
    pub ending: Ending,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cancelled {
    pub id: ItemId,
    /// It has children that are being ended in slices.
    pub ongoing: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retried {
    /// The item that will run: the same, or its clone.
    pub id: ItemId,
    /// How many items wait again.
    pub reset: u32,
    /// There are more below it; repeat.
    pub more: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deleted {
    pub removed: u32,
    /// There is more below it; repeat.
    pub more: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reclaimed {
    pub leases: u32,
    pub items: u32,
    pub more: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    pub cancelled: u32,
    pub folded: u32,
    pub removed: u32,
    pub more: bool,
}

impl<W> Answer<W> {
    /// The same answer with what was claimed turned into something else.
    pub fn map<V, E>(
        self,
        work: impl FnOnce(Grant<W>) -> Result<Grant<V>, E>,
    ) -> Result<Answer<V>, E> {
        Ok(match self {
            Answer::Claimed(grant) => Answer::Claimed(grant.map(work).transpose()?),
            Answer::Enqueued(each) => Answer::Enqueued(each),
            Answer::Renewed(renewed) => Answer::Renewed(renewed),
            Answer::Progressed(each) => Answer::Progressed(each),
            Answer::Settled(each) => Answer::Settled(each),
            Answer::Cancelled(each) => Answer::Cancelled(each),
            Answer::Retried(each) => Answer::Retried(each),
            Answer::Deleted(each) => Answer::Deleted(each),
            Answer::Prioritised(each) => Answer::Prioritised(each),
            Answer::Done => Answer::Done,
            Answer::Noted(version) => Answer::Noted(version),
            Answer::Reclaimed(reclaimed) => Answer::Reclaimed(reclaimed),
            Answer::Swept(swept) => Answer::Swept(swept),
            Answer::Refused(refusal) => Answer::Refused(refusal),
        })
    }
}
