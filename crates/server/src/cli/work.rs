//! `windrow work`: any command is a worker.
//!
//! The machinery is that of the workers which a server declares (`workers/`). Here it sees the
//! queue of this process, or that of a server over HTTP.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use windrow_client::http::Client;
use windrow_client::worker::default_name;
use windrow_core::LeaseId;
use windrow_core::command::{BY_NAME_ONLY, Claim, DOCUMENTS, Outcome};
use windrow_core::queue::{Error, Queue, Refused, Work};
use windrow_core::trail::Ending;

use super::drain::drained;
use super::exit::{Exit, Problem, Stop};
use super::meant::Named;
use super::queues::remarks;
use super::reach::{Ask, Reach, Target};
use super::serve::Signals;
use super::show::{at_least_one, duration_ms, renewed_lease_ms, say, text};
use super::{counted, with_target};
use crate::workers::InStore;
use crate::workers::hand::{Did, Done};
use crate::workers::shift::{News, Place, Quota};
use crate::workers::{Declared, Payloads};

/// How long one claim waits for work. One that is under way when we are told to stop is waited for,
/// so that nothing is granted to nobody.
const WAIT: Duration = Duration::from_secs(1);
/// How long a server is asked before it counts as away, and somebody is told; and how long once if
/// it takes what is asked and does not answer.
const PATIENCE: Duration = Duration::from_secs(5);
const ATTEMPT: Duration = Duration::from_secs(15);
/// How long it may take to learn what is left.
const TELLS_WITHIN: Duration = Duration::from_secs(5);

/// A client for whoever works: it is not long before it says that its server is away.
pub(super) fn working(client: &Client) -> Client {
    client.clone().patient(PATIENCE).attempts(ATTEMPT)
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow work --queue thumbs -- ./make-thumb.sh --width 200
      Runs the command once for every item, with the payload on its standard input. What it writes
      to standard output is the result.
  windrow work --queue ocr --concurrency 4 --timeout 10m -- sh -c 'tesseract - - | jq -Rs .'
  windrow work --queue thumbs --until-empty -- true
      Ends when there is nothing left to do.

Its exit code says what becomes of the item:
  0   completed                     69  tried again later: something it needs is down
  65  failed for good: bad data     75  tried again, as after any other code
  66  failed for good: it is gone   99  skipped; standard error says why

WINDROW_ID, WINDROW_QUEUE, WINDROW_STAGE, WINDROW_ATTEMPT, WINDROW_KEY and others are in its
environment. It may say how far it is: echo '3/40 reading' > \"$WINDROW_PROGRESS\". Ctrl-C or
SIGTERM takes nothing more, asks commands to end, and hands their items back: no attempt is lost.")]
pub(super) struct Args {
    /// The command that does one item, with its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// The queues to take from; all but Windrow's own if none is named.
    #[arg(long = "queue", value_name = "QUEUE", add = super::complete::queues())]
    queues: Vec<String>,
    /// How many items at once.
    #[arg(
        long,
        default_value_t = 1,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=1000),
    )]
    concurrency: u16,
    /// Only items in these stages.
    #[arg(long = "stage", value_name = "STAGE", add = super::complete::stages())]
    stages: Vec<String>,
    /// Only items of these kinds.
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
    /// Only items of these tenants.
    #[arg(long = "tenant", value_name = "TENANT")]
    tenants: Vec<String>,
    /// How long one item may take; then the command is ended, and the item tried again.
    #[arg(long, value_name = "TIME", value_parser = duration_ms)]
    timeout: Option<u64>,
    /// How long an item stays ours after the last heartbeat; there are three in that time.
    #[arg(long, value_name = "TIME", value_parser = renewed_lease_ms, default_value = "1m")]
    lease: u64,
    /// How long commands may go on after Ctrl-C or SIGTERM before they are asked to end.
    #[arg(long, value_name = "TIME", value_parser = duration_ms, default_value = "0s")]
    drain: u64,
    /// End after so many items.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    max: Option<usize>,
    /// End when there is nothing to do.
    #[arg(long)]
    until_empty: bool,
    /// Give the payload as a file, whose path is in WINDROW_PAYLOAD_FILE.
    #[arg(long)]
    payload_file: bool,
    /// Who works, as others see it; by default the machine and the process.
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let program = args.command.first().map_or("", String::as_str);
    if !is_there(program) {
        let why = why_not(program);
        return Err(Stop::usage(format!("{why}; nothing was claimed")).into());
    }
    if args.queues.is_empty() {
        let own = BY_NAME_ONLY.join(" and ");
        say(&format!("takes from all queues but {own}; name some with --queue"));
    }
    if args.queues.iter().any(|name| name == DOCUMENTS) {
        let why = "what waits in documents are stages of documents, which `windrow worker` does";
        return Err(Stop::usage(format!("{why}; nothing was claimed")).into());
    }
    let crew = Crew {
        workers: vec![args.declared()],
        quota: Quota::new(args.max, args.until_empty),
        drain: Duration::from_millis(args.drain),
        json: args.reach.json,
        place: args.reach.named(),
        named: Named {
            queues: Vec::new(),
            stages: args.stages.clone(),
            kinds: args.kinds.clone(),
            tenants: args.tenants.clone(),
        },
    };
    with_target(&args.reach, async |target| {
        tell_if_alone(target, args.until_empty || args.max.is_some());
        crew.work(target).await
    })
}

/// Says what whoever works without an end has to know of a directory that it has open itself.
pub(super) fn tell_if_alone(target: &Target, has_end: bool) {
    if target.is_alone() && !has_end {
        say("no server runs here: this opens the directory itself, and nobody else can use it \
             until this ends; to share it, start `windrow serve` first");
    }
}

/// Why a program cannot be started.
pub(super) fn why_not(program: &str) -> String {
    if program.contains('/') && Path::new(program).is_file() {
        return format!("{program:?} may not be run; `chmod +x` lets it");
    }
    format!("{program:?} is no program here")
}

/// Whether a program can be started, by its path or by its name.
pub(super) fn is_there(program: &str) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let is_program = |path: &Path| {
        let found = std::fs::metadata(path);
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return is_program(Path::new(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    !program.is_empty() && std::env::split_paths(&path).any(|dir| is_program(&dir.join(program)))
}

impl Args {
    fn declared(&self) -> Declared {
        let names = |names: &[String]| names.iter().map(|name| name.as_str().into()).collect();
        let lease = Duration::from_millis(self.lease);
        Declared {
            name: self.worker.clone().unwrap_or_else(default_name).into(),
            queues: names(&self.queues),
            kinds: names(&self.kinds),
            stages: names(&self.stages),
            tenants: names(&self.tenants),
            command: self.command.clone(),
            max_jobs: usize::MAX,
            budget: Duration::MAX,
            timeout: self.timeout.map(Duration::from_millis),
            concurrency: usize::from(self.concurrency),
            heartbeat: lease / 3,
            lease,
            payload_in_file: self.payload_file,
        }
    }
}

/// Workers that take from one queue until they are told to stop, or have done enough.
pub(super) struct Crew {
    pub(super) workers: Vec<Declared>,
    pub(super) quota: Quota,
    /// How long what is in hand may go on after a signal.
    pub(super) drain: Duration,
    pub(super) json: bool,
    /// How the command line named where the queue is.
    pub(super) place: String,
    /// What it named besides queues.
    pub(super) named: Named,
}

impl Crew {
    /// The queues that are taken from; none if one of the workers takes from all.
    fn queues(&self) -> Vec<String> {
        if self.workers.iter().any(|worker| worker.queues.is_empty()) {
            return Vec::new();
        }
        let names = self.workers.iter().flat_map(|worker| &worker.queues);
        let names: BTreeSet<String> = names.map(ToString::to_string).collect();
        names.into_iter().collect()
    }

    pub(super) async fn work(self, target: &Target) -> anyhow::Result<()> {
        // Whoever cannot be reached, or lets nobody in, says so before anything is taken.
        let names: Vec<&str> = self.workers.iter().map(|worker| &*worker.name).collect();
        let drained = drained(target, &names).await?;
        drained.iter().for_each(|told| say(told));
        // Not everybody may know what is paused.
        let named = Named { queues: self.queues(), ..self.named.clone() };
        let remarks = remarks(target, &named, &self.place).await;
        let (remarks, is_all) = remarks.unwrap_or_default();
        remarks.iter().for_each(|told| say(told));
        if self.quota.until_empty && (is_all || drained.len() == names.len()) {
            return Err(Stop::silent(Exit::Nothing).into());
        }
        target.keeps_time();
        let left = Left::of(&self);
        let mut ended = match target {
            Target::Here(here) => {
                let queue = Arc::clone(here.queue());
                let payloads = InStore(Arc::clone(&queue));
                self.take_from(queue, payloads).await?
            }
            Target::Wire(client) => {
                let queue = Arc::new(working(client));
                let payloads = OverTheWire(Arc::clone(&queue));
                self.take_from(queue, payloads).await?
            }
            Target::Own(_) => unreachable!("only `windrow up` has a server of its own"),
        };
        if ended.is_emptied {
            tokio::select! {
                told = tokio::time::timeout(TELLS_WITHIN, left.told(target)) => {
                    // Not everybody may know what waits.
                    told.ok().flatten().iter().for_each(|told| say(told));
                }
                () = ended.signals.next() => {}
            }
        }
        concluded(ended.refused, ended.not_well)
    }

    async fn take_from<Q, P>(self, queue: Arc<Q>, payloads: P) -> anyhow::Result<Ended>
    where
        Q: Queue + 'static,
        P: Payloads + Clone + 'static,
    {
        let Crew { workers, quota, drain, json, .. } = self;
        // Before anything is taken, so that nothing is lost to a signal.
        let mut signals = Signals::new()?;
        let stop = watch::Sender::new(false);
        let place = Arc::new(Place { queue, payloads, stopping: stop.subscribe(), drain });
        let wait = if quota.until_empty { Duration::ZERO } else { WAIT };
        let (quota, not_well) = (Arc::new(quota), Arc::new(AtomicU64::new(0)));
        let again = Arc::new(AtomicU64::new(0));
        let mut hands = JoinSet::new();
        for worker in workers.into_iter().map(Arc::new) {
            for _ in 0..worker.concurrency {
                let (place, worker) = (Arc::clone(&place), Arc::clone(&worker));
                let (quota, not_well) = (Arc::clone(&quota), Arc::clone(&not_well));
                let again = Arc::clone(&again);
                hands.spawn(async move {
                    let tell = |news: News<'_>| match news {
                        News::Done(done) => {
                            not_well.fetch_add(u64::from(!is_well(done)), Ordering::Relaxed);
                            again.fetch_add(u64::from(is_again(done)), Ordering::Relaxed);
                            // Nobody may be reading; the work goes on.
                            let _told = tell(done, json);
                        }
                        News::Away(error) => {
                            let why = error.why();
                            say(&format!("the queue does not answer, asking again: {why}"));
                        }
                        News::Back => say("the queue answers again"),
                    };
                    place.work(&worker, wait, &quota, tell).await
                });
            }
        }
        let (mut refused, mut is_cut) = (None, false);
        loop {
            tokio::select! {
                ended = hands.join_next() => match ended {
                    Some(Err(ended)) if ended.is_cancelled() => is_cut = true,
                    Some(ended) => refused = ended?.or(refused),
                    None => break,
                },
                () = signals.next() => {
                    if stop.send_replace(true) {
                        // The second time: leases run out by themselves.
                        hands.abort_all();
                        say("stopped at once: what is in hand comes back when its lease runs out");
                    } else {
                        let what = if drain.is_zero() {
                            "what is in hand is handed back"
                        } else {
                            "what is in hand may end"
                        };
                        say(&format!("stopping: {what}; a second signal stops at once"));
                    }
                }
            }
        }
        let again = again.load(Ordering::Relaxed);
        let is_over = quota.is_emptied() && refused.is_none() && !is_cut && !*stop.borrow();
        if again > 0 && quota.until_empty {
            say(&format!("{} to be tried again later", counted(again, "item")));
        }
        let not_well = not_well.load(Ordering::Relaxed) + u64::from(is_cut);
        Ok(Ended { refused, not_well, is_emptied: is_over && again == 0, signals })
    }
}

/// How taking items ended.
struct Ended {
    refused: Option<Error>,
    /// Items that did not come out of it as they should.
    not_well: u64,
    /// Nothing was left to do, and nobody is told yet what waits.
    is_emptied: bool,
    signals: Signals,
}

/// What workers take from: how much of it is still pending, and which item one may ask about.
struct Left {
    queues: Vec<Arc<str>>,
    /// A list for each combination of queue, stage, kind and tenant.
    lists: Vec<Ask>,
    /// Whether only a list can tell, because counts know nothing of it.
    is_narrow: bool,
}

impl Left {
    fn of(crew: &Crew) -> Left {
        let mut lists = Vec::new();
        for worker in &crew.workers {
            let Declared { queues, stages, kinds, tenants, .. } = worker;
            let mut of_worker = vec![Ask::get(&["queue"]).with("status", Some("pending"))];
            for (field, names) in
                [("queue", queues), ("stage", stages), ("kind", kinds), ("tenant", tenants)]
            {
                if !names.is_empty() {
                    let each = |list: &Ask| -> Vec<Ask> {
                        names.iter().map(|name| list.clone().with(field, Some(name))).collect()
                    };
                    of_worker = of_worker.iter().flat_map(each).collect();
                }
            }
            lists.extend(of_worker);
        }
        let narrows = |of: &Declared| {
            [&of.stages, &of.kinds, &of.tenants].iter().any(|names| !names.is_empty())
        };
        let queues = crew.queues().iter().map(|name| name.as_str().into()).collect();
        Left { queues, lists, is_narrow: crew.workers.iter().any(narrows) }
    }

    /// None if nothing is left, or nobody says.
    async fn told(&self, target: &Target) -> Option<String> {
        let (mut ids, mut is_whole) = (BTreeSet::new(), true);
        for list in &self.lists {
            let mut cursor = None::<String>;
            loop {
                let page = list.clone().with("limit", Some("200")).with("cursor", cursor.as_ref());
                let page: Value = target.read(page).await.ok()?;
                let items = page["items"].as_array().into_iter().flatten();
                let items = items.filter(|item| self.is_asked(item) && !waits_for_children(item));
                ids.extend(items.filter_map(|item| item["id"].as_str().map(str::to_owned)));
                cursor = page["next"].as_str().map(str::to_owned);
                if cursor.is_none() || !ids.is_empty() {
                    break;
                }
            }
            is_whole &= cursor.is_none();
            if !is_whole {
                break;
            }
        }
        let first = ids.first()?;
        let (at_least, count) = match self.counted(target).await {
            Some(count) if !self.is_narrow => ("", count),
            _ => (if is_whole { "" } else { "at least " }, ids.len() as u64),
        };
        if count == 0 {
            // Somebody took it meanwhile.
            return None;
        }
        let items = counted(count, "item");
        let what = "still pending, and not to be done now";
        Some(format!("{at_least}{items} {what}; `windrow explain {first}` says why"))
    }

    /// Whether these workers take from the queue of an item or of a count.
    fn is_asked(&self, of: &Value) -> bool {
        Claim::takes_from(&self.queues, text(of, "queue"))
    }

    /// What is pending where these workers take from.
    async fn counted(&self, target: &Target) -> Option<u64> {
        let stats: Value = target.read(Ask::get(&["queue", "stats"])).await.ok()?;
        let is_asked = |place: &&Value| self.is_asked(place);
        let places = stats["queues"].as_array()?.iter().filter(is_asked);
        Some(places.filter_map(|place| place["pending"].as_u64()).sum())
    }
}

/// Whether an item of a list is shown as pending because its children are: nobody takes it now.
fn waits_for_children(item: &Value) -> bool {
    let children = &item["children"];
    let has = |status: &str| children[status].as_u64().is_some_and(|count| count > 0);
    has("pending") || has("processing") || children["more"] == true
}

pub(super) fn concluded(refused: Option<Error>, not_well: u64) -> anyhow::Result<()> {
    match refused {
        Some(Error::Refused(refused)) => {
            let status = match &*refused.code {
                "unauthorized" => 401,
                "forbidden" => 403,
                _ => 409,
            };
            let Refused { code, message: detail, .. } = refused;
            Err(Stop::from(Problem { status, code: code.to_string(), detail }).into())
        }
        Some(error) => Err(Stop::new(Exit::Failed, error.to_string()).into()),
        None if not_well > 0 => Err(Stop::silent(Exit::Partly).into()),
        None => Ok(()),
    }
}

/// Whether an item came out of it as it should.
fn is_well(done: &Done) -> bool {
    let is_failure = |outcome: &Outcome| matches!(outcome, Outcome::Fail { .. });
    match &done.did {
        Did::Settled(_, outcome) => done.not_started.is_none() && !is_failure(outcome),
        Did::Lost(_) | Did::Unknown(_) => false,
    }
}

/// Whether an item waits for another attempt.
fn is_again(done: &Done) -> bool {
    matches!(&done.did, Did::Settled(settled, _) if settled.ending == Ending::Retried)
}

/// What became of an item, as JSON.
#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    queue: &'a str,
    stage: &'a str,
    attempt: u16,
    outcome: &'a str,
    error: Option<&'a str>,
    duration_ms: u64,
}

/// Says what became of an item.
fn tell(done: &Done, json: bool) -> std::io::Result<()> {
    let (outcome, error) = match &done.did {
        Did::Settled(settled, outcome) => (settled.ending.name(), why(outcome)),
        Did::Lost(why) => ("lost", Some(why.as_str())),
        Did::Unknown(why) => ("unknown", Some(why.as_str())),
    };
    let error = done.not_started.as_deref().or(error);
    let (id, took) = (done.work.id.to_string(), done.took.as_millis() as u64);
    let mut out = std::io::stdout().lock();
    if json {
        let (queue, stage) = (&*done.work.body.queue, &*done.work.stage);
        let attempt = done.work.attempt;
        let line = Line { id: &id, queue, stage, attempt, outcome, error, duration_ms: took };
        return writeln!(out, "{}", serde_json::to_string(&line)?);
    }
    // Of an item with several stages, only this one.
    let stage = match done.work.body.route.stages.len() {
        ..2 => String::new(),
        _ => format!(" {}", done.work.stage),
    };
    match error {
        Some(error) => writeln!(out, "{id}{stage} {outcome}: {}", super::show::printable(error)),
        None => writeln!(out, "{id}{stage} {outcome}"),
    }
}

/// What an outcome says went wrong.
fn why(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Retry { message, .. } | Outcome::Fail { message, .. } => Some(message),
        Outcome::Skip { reason } => Some(reason),
        _ => None,
    }
}

/// Payloads that a server keeps.
#[derive(Clone, Debug)]
struct OverTheWire(Arc<Client>);

impl Payloads for OverTheWire {
    async fn read(&self, lease: LeaseId, work: &Work) -> Result<Vec<u8>, String> {
        let (lease, id) = (lease.to_string(), work.id.to_string());
        let ask = Ask::get(&["leases", &lease, "items", &id, "payload"]);
        let unread = |why: String| format!("the payload cannot be read: {why}");
        match self.0.send(ask.into()).await {
            Ok(reply) if reply.status.is_success() => Ok(reply.body.to_vec()),
            Ok(reply) => Err(unread(format!("the server answered {}", reply.status))),
            Err(missed) => Err(unread(format!("{missed:?}"))),
        }
    }
}
