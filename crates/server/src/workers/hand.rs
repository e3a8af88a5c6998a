//! One item in hand: its lease is kept while its command runs, and then it is settled.
//!
//! A command whose item was cancelled, or whose lease was lost, is stopped and says nothing: the
//! item is somebody else's. A queue that does not answer stops nothing as long as the lease lasts,
//! by the clock here; after that, somebody else may have the item.

use std::convert::Infallible;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use windrow_core::command::{Grant, Outcome, Settled};
use windrow_core::item::Payload;
use windrow_core::queue::{Error, Queue, Refused, Work};
use windrow_core::trail::{Class, Progress};
use windrow_core::{ItemId, LeaseId};

use super::command::{self, Ended, Lost};
use super::exit::outcome;
use super::{Declared, Payloads};

/// How long to wait before the queue is asked again that did not answer.
const AGAIN: Duration = Duration::from_millis(500);
/// How often it is asked before the lease is left to run out.
const ASKED_MAX: u32 = 20;

/// How long a queue that does not answer is asked once whoever works stops; and if that would only
/// hand back what comes back by itself.
const LAST: Duration = Duration::from_secs(10);
const LAST_OF_RELEASE: Duration = Duration::from_secs(3);

const GONE: &str = "the item was cancelled, or its lease was lost";

/// How much time lies between two reports of how far an item is.
const TOLD_EVERY: Duration = Duration::from_millis(500);

/// How an item that was in hand ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) work: Work,
    pub(crate) did: Did,
    /// Why the command could not be started, if that is so.
    pub(crate) not_started: Option<String>,
    pub(crate) took: Duration,
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum Did {
    Settled(Settled, Outcome),
    /// It was not ours any more, or the queue does not take it from us.
    Lost(String),
    /// The queue does not answer; the item comes back when its lease runs out.
    Unknown(String),
}

/// Whoever wants to hear whether the queue answered, or why not.
type Heard<'a> = &'a (dyn Fn(Option<&Error>) + Sync);

/// Does the one item of a grant.
pub(crate) async fn work_on<Q: Queue>(
    queue: &Q,
    payloads: &impl Payloads,
    worker: &Declared,
    granted: Grant<Work>,
    limits: Limits,
    heard: Heard<'_>,
) -> Option<Done> {
    let begun = Instant::now();
    let Grant { lease, mut items, .. } = granted;
    let work = items.pop()?;
    let prepared = input(payloads, lease, &work).await;
    let (outcome, not_started) = match prepared.and_then(|bytes| Input::new(worker, &work, bytes)) {
        Ok(Input { bytes, file }) => {
            let mut environment = environment(&work);
            environment.extend(file.as_ref().map(File::variable));
            let progress = watch::Sender::new(None);
            let said = progress.subscribe();
            let mine = Mine { lease, item: work.id, since: begun };
            let stop = stopped(queue, mine, worker, limits.clone(), said, heard);
            let ran = command::run(&worker.command, environment, bytes, progress, stop).await;
            drop(file);
            let not_started = (ran.ended == Ended::NotStarted).then(|| ran.words.clone());
            (outcome(&work, ran), not_started)
        }
        Err(message) => {
            let class = Class::Infrastructure;
            (Ok(Outcome::Retry { class, message, delay_ms: None }), None)
        }
    };
    let did = match outcome {
        Ok(outcome) => {
            let last = match outcome {
                Outcome::Release { .. } => LAST_OF_RELEASE,
                _ => LAST,
            };
            tokio::select! {
                did = settle(queue, lease, work.id, outcome, heard) => did,
                () = limits.over(last) => Did::Unknown("the queue does not answer".into()),
            }
        }
        Err(Lost(why)) => Did::Lost(why.into()),
    };
    Some(Done { work, did, not_started, took: begun.elapsed() })
}

/// What ends a command that does not end by itself.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// When it must have ended, and how long that was.
    pub(crate) until: Option<(Instant, Duration)>,
    /// Turns true when whoever works stops.
    pub(crate) stopping: watch::Receiver<bool>,
    /// How long it may go on then.
    pub(crate) drain: Duration,
}

impl Limits {
    /// Ends so long after whoever works was told to stop.
    async fn over(self, last: Duration) {
        is_stopping(self.stopping).await;
        sleep(last).await;
    }
}

/// Ends when whoever works stops.
pub(super) async fn is_stopping(mut stopping: watch::Receiver<bool>) {
    // It fails only if nobody can say so any more.
    let _stopping = stopping.wait_for(|stopping| *stopping).await.is_ok();
}

/// The bytes that a command reads: what the stage before put out, or else the payload.
async fn input(payloads: &impl Payloads, lease: LeaseId, work: &Work) -> Result<Vec<u8>, String> {
    match (&work.input, &work.body.payload) {
        (Some(input), _) => Ok(input.clone()),
        (None, Payload::Inline(bytes)) => Ok(bytes.clone()),
        (None, Payload::Blob(_)) => payloads.read(lease, work).await,
    }
}

/// What a command reads: on standard input, or from a file that goes when it has ended.
struct Input {
    bytes: Vec<u8>,
    file: Option<File>,
}

struct File(PathBuf);

impl Input {
    fn new(worker: &Declared, work: &Work, bytes: Vec<u8>) -> Result<Input, String> {
        if !worker.payload_in_file {
            return Ok(Input { bytes, file: None });
        }
        let name = format!("windrow-{}-{}-{}", std::process::id(), work.id, work.attempt);
        let path = std::env::temp_dir().join(name);
        let mut options = std::fs::OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(0o600).open(&path);
        let file = File(path);
        match opened.and_then(|mut opened| opened.write_all(&bytes)) {
            Ok(()) => Ok(Input { bytes: Vec::new(), file: Some(file) }),
            Err(error) => {
                let path = file.0.display();
                Err(format!("the payload cannot be put in {path}: {error}"))
            }
        }
    }
}

impl File {
    fn variable(&self) -> (&'static str, String) {
        ("WINDROW_PAYLOAD_FILE", self.0.display().to_string())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // The command may have taken it away.
        let _removed = std::fs::remove_file(&self.0);
    }
}

/// What a command is told of its item.
fn environment(work: &Work) -> Vec<(&'static str, String)> {
    let body = &work.body;
    vec![
        ("WINDROW_ID", work.id.to_string()),
        ("WINDROW_QUEUE", body.queue.to_string()),
        ("WINDROW_TENANT", body.tenant.to_string()),
        ("WINDROW_KIND", body.kind.to_string()),
        ("WINDROW_OP", body.op.to_string()),
        ("WINDROW_STAGE", work.stage.to_string()),
        ("WINDROW_ATTEMPT", work.attempt.to_string()),
        ("WINDROW_KEY", body.key.clone().unwrap_or_default()),
        ("WINDROW_CONTENT_TYPE", body.content_type.as_deref().unwrap_or_default().to_owned()),
        ("WINDROW_METADATA", body.metadata.clone().unwrap_or_default()),
    ]
}

/// An item in hand, and since when it is certain that it is: its lease lasts from then on.
#[derive(Clone, Copy, Debug)]
struct Mine {
    lease: LeaseId,
    item: ItemId,
    since: Instant,
}

/// Says that the work goes on, again and again, until there is a reason to stop it.
async fn stopped<Q: Queue>(
    queue: &Q,
    mine: Mine,
    worker: &Declared,
    limits: Limits,
    said: watch::Receiver<Option<Progress>>,
    heard: Heard<'_>,
) -> Ended {
    let timeout = worker.timeout.map(|within| (Instant::now() + within, within));
    let first = [timeout, limits.until].into_iter().flatten().min();
    let stops = async move {
        is_stopping(limits.stopping).await;
        sleep(limits.drain).await;
    };
    let late = async {
        match first {
            Some((at, within)) => {
                sleep_until(at).await;
                within
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        why = lost(queue, mine, worker, heard) => Ended::Lost(why),
        within = late => Ended::Late(within),
        () = stops => Ended::Stopped,
        never = tell(queue, mine, said) => match never {},
    }
}

/// Tells the queue how far the command is, now and then.
async fn tell<Q: Queue>(
    queue: &Q,
    Mine { lease, item, .. }: Mine,
    mut said: watch::Receiver<Option<Progress>>,
) -> Infallible {
    loop {
        let is_over = said.changed().await.is_err();
        let progress = said.borrow_and_update().clone();
        if let Some(progress) = progress {
            // It is only said: whether it is heard changes nothing.
            let _told = queue.progress(lease, vec![(item, progress)]).await;
        }
        if is_over {
            std::future::pending::<()>().await;
        }
        sleep(TOLD_EVERY).await;
    }
}

/// Renews a lease until it does not hold the item any more, or would be over before the command
/// can be ended. Says why the item is not ours.
async fn lost<Q: Queue>(queue: &Q, mine: Mine, worker: &Declared, heard: Heard<'_>) -> Lost {
    let Mine { lease, item, mut since } = mine;
    let lasts = worker.lease - command::GRACE.min(worker.lease / 6);
    let mut rest = worker.heartbeat;
    loop {
        let round = async {
            sleep(rest).await;
            (Instant::now(), queue.renew(lease, None).await)
        };
        let (asked, renewed) = tokio::select! {
            biased;
            () = sleep_until(since + lasts) => {
                heard(Some(&Error::NotApplied("a lease could not be renewed in time".into())));
                return Lost("its lease is over, and the queue does not answer");
            }
            renewed = round => renewed,
        };
        heard(missed(&renewed));
        rest = worker.heartbeat;
        match renewed {
            Ok(renewed) if renewed.held.contains(&item) => since = asked,
            Ok(_) => return Lost(GONE),
            Err(Error::Refused(refused)) if is_gone(&refused) => return Lost(GONE),
            Err(Error::Refused(refused)) if is_denied(&refused) => {
                return Lost("the queue does not let this worker in any more");
            }
            // It may answer the next time.
            Err(_) => rest = AGAIN.min(worker.heartbeat),
        }
    }
}

/// Why there is no answer; a refusal is one.
fn missed<T>(answered: &Result<T, Error>) -> Option<&Error> {
    answered.as_ref().err().filter(|error| !matches!(error, Error::Refused(_)))
}

/// Whether a refusal says that a lease does not hold an item any more.
fn is_gone(refused: &Refused) -> bool {
    matches!(&*refused.code, "lease_lost" | "not_found")
}

/// Whether a refusal says that nothing more is taken from whoever asks.
fn is_denied(refused: &Refused) -> bool {
    matches!(&*refused.code, "unauthorized" | "forbidden")
}

/// Settles an item, asking again while the queue does not answer. To repeat it is harmless.
async fn settle<Q: Queue>(
    queue: &Q,
    lease: LeaseId,
    item: ItemId,
    outcome: Outcome,
    heard: Heard<'_>,
) -> Did {
    let (mut asked, mut outcome) = (0, outcome);
    loop {
        asked += 1;
        let settled = queue.settle(lease, vec![(item, outcome.clone())], None).await;
        heard(missed(&settled));
        let refused = match settled.map(|mut each| each.pop()) {
            Ok(Some(Ok(settled))) => return Did::Settled(settled, outcome),
            Ok(None) => return Did::Unknown("the queue did not answer for the item".into()),
            Ok(Some(Err(refused))) | Err(Error::Refused(refused)) => refused,
            Err(error) if asked >= ASKED_MAX => return Did::Unknown(error.to_string()),
            Err(_) => {
                sleep(AGAIN).await;
                continue;
            }
        };
        if refused.retry_after_ms.is_some() && asked < ASKED_MAX {
            sleep(AGAIN).await;
        } else if matches!(outcome, Outcome::Complete { .. }) && !is_gone(&refused) {
            // What it made cannot be kept, and would not be the next time.
            outcome = Outcome::Fail { class: Class::BadData, message: refused.to_string() };
        } else {
            return Did::Lost(refused.to_string());
        }
    }
}
