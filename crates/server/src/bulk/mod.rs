//! Bulk work: one verb on everything that a filter admits, in the background.
//!
//! What is to be done and how far it is stands in a document on a shelf, written after each slice.
//! The items are walked newest first, so what is enqueued after the beginning is never touched, and
//! a server that begins again goes on where the last document says. What it did after that it does
//! once more: a clone is made under a request id, and the other verbs change nothing the second
//! time. Of several servers the one that holds the document does the work; if it is not heard of
//! for [`HELD_MS`], another takes over.

mod above;
mod run;
mod shelf;

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use windrow_core::command::RetryMode;
use windrow_core::find::Listed;
use windrow_core::item::{End, Marks, State, Status};
use windrow_core::note::Expects;
use windrow_core::tally::Bucket;
use windrow_core::{ItemId, Refusal, RequestId, Timestamp, find};
use windrow_engine::{Clock as _, Failure};
use windrow_wire::list::Filter;

use crate::http::Mode;
use crate::store::Queue;

pub(crate) use run::run;
pub(crate) use shelf::{Kept, all, read};

/// For so long a server that is not heard of keeps what it does to itself.
const HELD_MS: u64 = 30_000;
/// Ended operations that are remembered.
const ENDED_KEPT: usize = 100;

/// The bulk work of a server.
#[derive(Debug)]
pub(crate) struct Bulk {
    /// Something is to be done.
    wanted: Notify,
    /// Which server this is.
    runner: u64,
}

/// What is done to each item.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verb {
    Retry,
    Cancel,
    Delete,
    Prioritise,
}

impl Verb {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Verb::Retry => "retry",
            Verb::Cancel => "cancel",
            Verb::Delete => "delete",
            Verb::Prioritise => "prioritise",
        }
    }
}

/// How far an operation is.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stand {
    Running,
    /// It was told to stop, and does so after the slice that is under way.
    Cancelling,
    Done,
    Cancelled,
    /// It was given up; the message says why.
    Failed,
}

impl Stand {
    pub(crate) fn has_ended(self) -> bool {
        !matches!(self, Stand::Running | Stand::Cancelling)
    }
}

/// The document of one operation.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, Debug)]
pub(crate) struct Document {
    pub(crate) verb: Verb,
    pub(crate) filter: Filter,
    pub(crate) priority: Option<u8>,
    pub(crate) mode: Mode,
    pub(crate) from_stage: Option<String>,
    pub(crate) dry_run: bool,
    pub(crate) stand: Stand,
    /// Items that the filter admitted so far.
    pub(crate) matched: u64,
    pub(crate) done: u64,
    /// Items that go with their roots, which come later; they count as done at the end.
    #[serde(default)]
    with_root: u64,
    /// Items that were refused, by code.
    pub(crate) refused: BTreeMap<String, u64>,
    pub(crate) started_ms: u64,
    pub(crate) ended_ms: Option<u64>,
    pub(crate) message: Option<String>,
    /// The item after which to go on.
    cursor: Option<String>,
    /// Who does it, and until when unless it is heard of.
    runner: u64,
    held_until_ms: u64,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) verb: Verb,
    pub(crate) filter: Filter,
    pub(crate) priority: Option<u8>,
    pub(crate) mode: Mode,
    pub(crate) from_stage: Option<String>,
    pub(crate) dry_run: bool,
}

impl Document {
    fn new(wanted: Wanted, now: Timestamp) -> Document {
        let Wanted { verb, filter, priority, mode, from_stage, dry_run } = wanted;
        Document {
            verb,
            filter,
            priority,
            mode,
            from_stage,
            dry_run,
            stand: Stand::Running,
            matched: 0,
            done: 0,
            with_root: 0,
            refused: BTreeMap::new(),
            started_ms: now.0,
            ended_ms: None,
            message: None,
            cursor: None,
            runner: 0,
            held_until_ms: 0,
        }
    }

    /// Whether another document says that the same is to be done.
    fn is_same(&self, wanted: &Wanted) -> bool {
        let Wanted { verb, filter, priority, mode, from_stage, dry_run } = wanted;
        (self.verb, &self.filter, self.priority) == (*verb, filter, *priority)
            && (self.mode, &self.from_stage, self.dry_run) == (*mode, from_stage, *dry_run)
    }

    /// Which items are looked at: with a filter that names no status, only those of a status in
    /// which the verb can be done to them. What failed may lie below any item.
    fn looks_at(&self, asked: &find::Filter) -> find::Filter {
        let mut filter = asked.clone();
        if filter.statuses.is_empty() {
            let ended = [Status::Completed, Status::Failed, Status::Cancelled, Status::Skipped];
            filter.statuses = match self.verb {
                Verb::Cancel | Verb::Prioritise => vec![Status::Pending, Status::Processing],
                Verb::Delete => ended.to_vec(),
                Verb::Retry if self.mode == Mode::Clone => ended.to_vec(),
                Verb::Retry => Vec::new(),
            };
        }
        filter
    }

    /// Why it cannot be done to an item, as far as the item says so itself.
    fn refusal_of(&self, listed: &Listed, now: Timestamp) -> Option<Refusal> {
        let Listed { item, status, .. } = listed;
        let (is_done, status) = (item.is_done(), *status);
        let live = (!is_done).then_some(Refusal::StillLive { item: item.id, status });
        match self.verb {
            Verb::Cancel | Verb::Prioritise => {
                is_done.then_some(Refusal::AlreadyDone { item: item.id, status })
            }
            Verb::Delete => live,
            Verb::Retry if self.mode.of(item) == RetryMode::Clone => {
                live.or_else(|| self.refusal_of_stage(listed))
            }
            Verb::Retry if self.from_stage.is_some() => match item.state {
                State::Done(_) | State::Split => self.refusal_of_stage(listed),
                _ => live,
            },
            // Also if something failed below it.
            Verb::Retry if !is_done && item.has(Marks::CANCELLING) => {
                Some(Refusal::UnderCancelled { ancestor: item.id })
            }
            Verb::Retry => match item.state {
                State::Done(End::Failed | End::Cancelled) => None,
                // What failed below it comes back with it.
                State::Done(_) | State::Split if has_failed_below(listed) => None,
                State::Done(_) => Some(Refusal::NotResettable { item: item.id, status }),
                State::Pending { not_before } if not_before > now => None,
                _ => live,
            },
        }
    }

    /// Why an item cannot begin again with the stage that is named.
    fn refusal_of_stage(&self, listed: &Listed) -> Option<Refusal> {
        let stage = self.from_stage.as_deref()?;
        let (item, missing) = (listed.item.id, stage.to_owned());
        match listed.body.route.find(stage) {
            Some(found) if found <= listed.item.stage => None,
            _ => Some(Refusal::NoSuchStage { item, stage: missing }),
        }
    }

    /// Whether a refusal says only that the verb is not about this item. One whose status was named
    /// is refused.
    fn passes_over(asked: &find::Filter, refusal: &Refusal) -> bool {
        asked.statuses.is_empty()
            && matches!(
                refusal,
                Refusal::StillLive { .. }
                    | Refusal::AlreadyDone { .. }
                    | Refusal::NotResettable { .. }
                    | Refusal::NoSuchStage { .. }
            )
    }

    fn after(&self) -> Option<ItemId> {
        self.cursor.as_deref().and_then(|id| id.parse().ok())
    }

    fn end(&mut self, stand: Stand, now: Timestamp) {
        if stand == Stand::Done {
            self.done += std::mem::take(&mut self.with_root);
        }
        self.stand = stand;
        self.ended_ms = Some(now.0);
    }
}

/// Whether something below an item failed.
fn has_failed_below(listed: &Listed) -> bool {
    let levels = listed.tally.iter().flat_map(|tally| &tally.levels);
    levels.into_iter().any(|level| level.counts.of(Bucket::Failed) > 0)
}

/// What became of a wish to begin.
#[derive(Debug)]
pub(crate) enum Begun {
    New(Document),
    /// The same request was made before.
    Before(Document),
    /// The request id was used for something else.
    Reused,
}

impl Bulk {
    pub(crate) fn new() -> Bulk {
        Bulk { wanted: Notify::new(), runner: random() }
    }

    /// Begins an operation. Under the id of a request it is begun once.
    pub(crate) async fn begin(
        &self,
        queue: &Queue,
        id: RequestId,
        wanted: Wanted,
    ) -> Result<Begun, Failure> {
        let name = id.to_string();
        let document = Document::new(wanted.clone(), queue.clock().now());
        if shelf::write(queue, &name, Expects::Nothing, &document).await?.is_some() {
            forget_old(queue).await?;
            self.wanted.notify_one();
            return Ok(Begun::New(document));
        }
        Ok(match shelf::read(queue, &name).await? {
            Some(Kept { document, .. }) if document.is_same(&wanted) => Begun::Before(document),
            _ => Begun::Reused,
        })
    }

    /// Tells an operation to stop. One that has ended stays as it is.
    pub(crate) async fn cancel(
        &self,
        queue: &Queue,
        name: &str,
    ) -> Result<Option<Document>, Failure> {
        loop {
            let Some(kept) = shelf::read(queue, name).await? else { return Ok(None) };
            let Kept { version, mut document, .. } = kept;
            if document.stand.has_ended() {
                return Ok(Some(document));
            }
            document.stand = Stand::Cancelling;
            let expects = Expects::Version(version);
            if shelf::write(queue, name, expects, &document).await?.is_some() {
                self.wanted.notify_one();
                return Ok(Some(document));
            }
        }
    }
}

/// The oldest ended operations go.
async fn forget_old(queue: &Queue) -> Result<(), Failure> {
    let mut ended = shelf::all(queue).await?;
    ended.retain(|kept| kept.document.stand.has_ended());
    ended.sort_by_key(|kept| kept.document.started_ms);
    let old = ended.len().saturating_sub(ENDED_KEPT);
    for kept in &ended[..old] {
        shelf::remove(queue, kept).await?;
    }
    Ok(())
}

/// A number that nobody else has.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}

/// An id that nobody else has.
pub(crate) fn new_id() -> RequestId {
    RequestId(u128::from(random()) << 64 | u128::from(random()))
}

#[cfg(test)]
mod tests {
    use windrow_core::Item;
    use windrow_core::id::StoreTag;
    use windrow_core::item::{Body, KindNo, QueueNo, RouteNo, TenantNo};
    use windrow_core::tally::{Counts, Level, OnGaps, Tally};

    use super::*;

    /// A split item of which a child failed.
    fn split(marks: Marks) -> Listed {
        let counts = Counts::one(Bucket::Failed);
        let levels = vec![Level { level: 1, phase: "work".into(), counts }];
        let item = Item {
            id: ItemId::from_serial(7, StoreTag::new(1)),
            queue: QueueNo(0),
            tenant: TenantNo(0),
            kind: KindNo(0),
            group: None,
            route: RouteNo(0),
            priority: 5,
            stage: 0,
            state: State::Split,
            attempts: 1,
            deferrals: 0,
            generation: 0,
            skipped: 0,
            place: None,
            marks,
        };
        Listed {
            item,
            status: Status::Processing,
            body: Body::new("t", "q"),
            error: None,
            reason: None,
            progress: None,
            changed_at: Timestamp::ZERO,
            finished_at: None,
            tally: Some(Tally { levels, ..Tally::new(0, OnGaps::Continue) }),
        }
    }

    /// It was counted as to be done, and then refused.
    #[test]
    fn a_root_that_is_being_cancelled_is_not_run_again() {
        let retry = Wanted {
            verb: Verb::Retry,
            filter: Filter::default(),
            priority: None,
            mode: Mode::Reset,
            from_stage: None,
            dry_run: true,
        };
        let document = Document::new(retry, Timestamp::ZERO);
        let refusal = |listed: &Listed| document.refusal_of(listed, Timestamp::ZERO);
        assert_eq!(refusal(&split(Marks::PARENT)), None);
        let ending = split(Marks::PARENT.with(Marks::CANCELLING));
        let ancestor = ending.item.id;
        assert_eq!(refusal(&ending), Some(Refusal::UnderCancelled { ancestor }));
    }
}
