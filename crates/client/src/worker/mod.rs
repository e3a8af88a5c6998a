//! Workers: a handler, and everything around it.
//!
//! ```no_run
//! use windrow_client::worker::{Handled, Job, Worker};
//! use windrow_client::{Options, rpc::Client};
//!
//! #[derive(serde::Deserialize)]
//! struct Thumb {
//!     file: String,
//! }
//!
//! async fn make(job: Job<Thumb>) -> Handled<usize> {
//!     let picture = tokio::fs::read(&job.payload.file).await?;
//!     Ok(picture.len())
//! }
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let queue = Client::new("127.0.0.1:7118", Options::default())?;
//! Worker::on(queue).queues(["thumbs"]).concurrency(4).handle(make).run().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Worker::on`] takes any [`Queue`]: a client's, or the engine in process. `hand/` knows what is
//! in hand, `shift.rs` claims, renews and settles it, `slots.rs` runs handlers, and [`Handled`] is
//! what these say.

mod events;
mod hand;
mod job;
mod outcome;
mod payload;
mod shift;
mod slots;
mod token;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use windrow_core::command::Claim;
use windrow_core::limits::{LEASE_MAX_MS, LEASE_MIN_MS};
use windrow_core::queue::{Error, Queue};

use self::hand::{Bounds, Hand};
use self::shift::{HAND_BACK, HURRY, Rests, Shift};
use self::slots::{Begin, Crew, ReadBlob};
use self::token::Token;

pub use self::events::{Endings, Event};
pub use self::job::{Job, LeaseLost};
pub use self::outcome::{Done, Handled, Made, Undone};
pub use self::payload::{FromPayload, NotUnderstood, Raw, Unread};

/// A worker that is being described. What is not said is as for the Python client's.
pub struct Builder<Q> {
    queue: Arc<Q>,
    plan: Plan,
    read_blob: Option<Arc<ReadBlob>>,
}

/// How a worker works.
#[derive(Clone)]
struct Plan {
    claim: Claim,
    concurrency: usize,
    prefetch: usize,
    batch: usize,
    lease: Duration,
    wait: Duration,
    grace: Duration,
    tell: Arc<dyn Fn(Event) + Send + Sync>,
}

impl Plan {
    fn claim(&self, max: usize) -> Claim {
        let lease_ms = Some(self.lease.as_millis() as u64);
        Claim { max, lease_ms, ..self.claim.clone() }
    }
}

fn names<N: Into<Arc<str>>>(names: impl IntoIterator<Item = N>) -> Vec<Arc<str>> {
    names.into_iter().map(Into::into).collect()
}

impl<Q: Queue> Builder<Q> {
    /// The queues to take from; all but those that are only claimed by name if none is.
    #[must_use]
    pub fn queues<N: Into<Arc<str>>>(mut self, queues: impl IntoIterator<Item = N>) -> Self {
        self.plan.claim.queues = names(queues);
        self
    }

    /// Only items in these stages.
    #[must_use]
    pub fn stages<N: Into<Arc<str>>>(mut self, stages: impl IntoIterator<Item = N>) -> Self {
        self.plan.claim.stages = names(stages);
        self
    }

    /// Only items of these kinds.
    #[must_use]
    pub fn kinds<N: Into<Arc<str>>>(mut self, kinds: impl IntoIterator<Item = N>) -> Self {
        self.plan.claim.kinds = names(kinds);
        self
    }

    /// Only items of these tenants.
    #[must_use]
    pub fn tenants<N: Into<Arc<str>>>(mut self, tenants: impl IntoIterator<Item = N>) -> Self {
        self.plan.claim.tenants = names(tenants);
        self
    }

    /// Who works, as others see it; by default of the machine and the process.
    #[must_use]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.plan.claim.worker = name.into();
        self
    }

    /// How many handlers run at once; 1 by default.
    #[must_use]
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.plan.concurrency = handlers.max(1);
        self
    }

    /// How many items may wait in hand for a handler, beyond those that run. None by default, which
    /// is fair to other workers; raise it where handling is quicker than asking.
    #[must_use]
    pub fn prefetch(mut self, items: usize) -> Self {
        self.plan.prefetch = items;
        self
    }

    /// How many items one claim brings at most; by default as many as there is room for. Where
    /// there is room for more and enough to do, several claims are under way at once.
    #[must_use]
    pub fn batch(mut self, items: usize) -> Self {
        self.plan.batch = items.max(1);
        self
    }

    /// How long an item is ours without a sign of life; a minute by default. It is renewed at a
    /// third of that, and after it a dead worker's items go to others.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        let (least, most) =
            (Duration::from_millis(LEASE_MIN_MS), Duration::from_millis(LEASE_MAX_MS));
        self.plan.lease = lease.clamp(least, most);
        self
    }

    /// How long one claim waits for work; 20 seconds by default. After one that does not wait there
    /// is a rest of up to half a second.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.plan.wait = wait;
        self
    }

    /// How long what runs may go on after a stop; 30 seconds by default.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.plan.grace = grace;
        self
    }

    /// Hears what an operator may want to know, such as that the queue does not answer.
    #[must_use]
    pub fn told(mut self, tell: impl Fn(Event) + Send + Sync + 'static) -> Self {
        // Whoever listens cannot stop the work by a panic, such as of a line that nobody reads.
        self.plan.tell = Arc::new(move |event| {
            let _unheard = catch_unwind(AssertUnwindSafe(|| tell(event)));
        });
        self
    }

    /// Where payloads are read that are too large to come with their items. Without this, such an
    /// item is tried again until its attempts are spent.
    #[must_use]
    pub fn big_payloads(mut self, of: crate::http::Client) -> Self {
        self.read_blob = Some(Arc::new(move |lease, work| {
            let of = of.clone();
            Box::pin(
                async move { of.payload(lease, work.id).await.map_err(|error| error.to_string()) },
            )
        }));
        self
    }

    /// Works with a handler that is a future. It shares a few threads with others of this worker,
    /// so it should not block for long; if it does, leases are kept all the same.
    pub fn handle<P, R, F, Fut>(self, handler: F) -> Worker<Q>
    where
        P: FromPayload + Send + 'static,
        R: Made,
        F: Fn(Job<P>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Handled<R>> + Send + 'static,
    {
        self.with(slots::tasks(handler))
    }

    /// Works with a handler that computes or blocks: each of those that run at once has a thread.
    pub fn handle_blocking<P, R, F>(self, handler: F) -> Worker<Q>
    where
        P: FromPayload,
        R: Made,
        F: Fn(Job<P>) -> Handled<R> + Send + Sync + 'static,
    {
        self.with(slots::threads(handler))
    }

    fn with(self, begin: Begin) -> Worker<Q> {
        let Builder { queue, plan, read_blob } = self;
        Worker { queue, plan, read_blob, begin }
    }
}

/// A handler that does the work of queues.
pub struct Worker<Q> {
    queue: Arc<Q>,
    plan: Plan,
    read_blob: Option<Arc<ReadBlob>>,
    begin: Begin,
}

impl<Q: Queue> Worker<Q> {
    /// A worker on a queue: a client, or an engine in this process.
    pub fn on(queue: Q) -> Builder<Q> {
        Worker::on_shared(Arc::new(queue))
    }

    /// The same on a queue that others use too.
    pub fn on_shared(queue: Arc<Q>) -> Builder<Q> {
        let mut claim = Claim::new(default_name(), "", 1);
        claim.queues.clear();
        let plan = Plan {
            claim,
            concurrency: 1,
            prefetch: 0,
            batch: usize::MAX,
            lease: Duration::from_secs(60),
            wait: Duration::from_secs(20),
            grace: Duration::from_secs(30),
            tell: Arc::new(|_| ()),
        };
        Builder { queue, plan, read_blob: None }
    }

    /// Works until SIGINT or SIGTERM.
    ///
    /// The first signal stops claiming, lets handlers end within the grace, and hands back the
    /// rest, which costs no attempt. A second one ends the grace. Fails with what made it
    /// impossible to go on, such as a wrong token; a server that is away is waited for.
    pub async fn run(self) -> Result<Endings, Error> {
        // Before anything is claimed: a signal must find us ready.
        let mut signals = Signals::new().map_err(unstarted)?;
        let running = self.start()?;
        tokio::select! {
            () = running.ended() => {}
            () = signals.next() => {}
        }
        tokio::select! {
            endings = running.stop() => endings,
            never = async {
                loop {
                    signals.next().await;
                    running.hurry();
                }
            } => never,
        }
    }

    /// Works until there is nothing left to claim.
    pub async fn drain(self) -> Result<Endings, Error> {
        let running = self.begin(true)?;
        running.ended().await;
        running.stop().await
    }

    /// Works until a future ends, and then stops as at a signal.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<Endings, Error> {
        let running = self.start()?;
        tokio::select! {
            () = running.ended() => {}
            () = stop => {}
        }
        running.stop().await
    }

    /// Begins to work in the background, on the runtime that this is called on.
    pub fn start(self) -> Result<Running, Error> {
        self.begin(false)
    }

    fn begin(self, drains: bool) -> Result<Running, Error> {
        let Worker { queue, plan, read_blob, begin } = self;
        let items = plan.concurrency.saturating_add(plan.prefetch);
        let (batch, lease, grace) = (plan.batch.min(items), plan.lease, plan.grace);
        let hand = Arc::new(Hand::new(Bounds { items, batch, lease, drains }));
        let (cut, failure) = (Arc::new(Token::default()), Arc::new(Mutex::new(None)));
        let crew = Crew {
            hand: Arc::clone(&hand),
            runtime: tokio::runtime::Handle::current(),
            concurrency: plan.concurrency,
            read_blob,
            tell: Arc::clone(&plan.tell),
        };
        if let Err(error) = begin(crew) {
            // Those that have begun end at once.
            hand.close();
            return Err(unstarted(error));
        }
        let tell = Arc::clone(&plan.tell);
        let shift = Shift {
            queue,
            plan,
            hand: Arc::clone(&hand),
            cut: Arc::clone(&cut),
            failure: Arc::clone(&failure),
            is_away: AtomicBool::new(false),
            rests: Mutex::new(Rests::new()),
            random: Mutex::new(rand::make_rng()),
        };
        let (claiming, keeping) = Arc::new(shift).begin();
        let (claiming, hurried) = (tokio::sync::Mutex::new(claiming), Token::default());
        Ok(Running { hand, cut, failure, claiming, _keeping: keeping, hurried, grace, tell })
    }
}

/// A worker at work. Dropped without a stop, it lets go of everything: what it held comes back when
/// its lease runs out.
pub struct Running {
    hand: Arc<Hand>,
    cut: Arc<Token>,
    failure: Arc<Mutex<Option<Error>>>,
    claiming: tokio::sync::Mutex<JoinSet<()>>,
    /// Ends with this.
    _keeping: JoinSet<()>,
    hurried: Token,
    grace: Duration,
    tell: Arc<dyn Fn(Event) + Send + Sync>,
}

impl Running {
    /// Waits until there is nothing more to do: it could not go on.
    pub async fn ended(&self) {
        self.hand.drained().await;
    }

    /// How many items were settled so far.
    pub fn endings(&self) -> Endings {
        self.hand.endings()
    }

    /// Claims nothing more, lets what runs end within the grace, and hands back the rest, which
    /// costs no attempt. Fails with what made it impossible to go on, if something did.
    pub async fn stop(&self) -> Result<Endings, Error> {
        self.hand.close();
        self.cut.say();
        let unbegun = self.hand.hand_back(false);
        tokio::select! {
            () = self.hand.quiet(false, self.grace) => {}
            () = self.hurried.said() => {}
        }
        let begun = self.hand.hand_back(true);
        if unbegun + begun > 0 {
            (self.tell)(Event::HandedBack { items: unbegun + begun, begun });
        }
        let within = if self.hurried.is_said() { HURRY } else { HAND_BACK };
        let until = Instant::now() + within;
        let mut claiming = self.claiming.lock().await;
        // What a claim brings while we stop, it hands back itself.
        let _claimed =
            timeout(within, async { while claiming.join_next().await.is_some() {} }).await;
        self.hand.quiet(true, until.saturating_duration_since(Instant::now())).await;
        let left = self.hand.abandon();
        if left > 0 {
            (self.tell)(Event::Left(left));
        }
        match self.failure.lock().clone() {
            Some(error) => Err(error),
            None => Ok(self.endings()),
        }
    }

    /// Ends the grace of a stop that is under way.
    pub fn hurry(&self) {
        self.hurried.say();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cut.say();
        self.hand.abandon();
    }
}

/// A name of the machine and the process, for a worker that was given none.
pub fn default_name() -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let machine = machine.split_whitespace().next().unwrap_or("worker");
    format!("{machine}-{}", std::process::id())
}

fn unstarted(error: std::io::Error) -> Error {
    Error::NotApplied(format!("the worker cannot be started: {error}"))
}

/// SIGINT and SIGTERM.
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Signals { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

impl<Q> fmt::Debug for Builder<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plan.fmt(f)
    }
}

impl<Q> fmt::Debug for Worker<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plan.fmt(f)
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { claim, concurrency, prefetch, lease, .. } = self;
        let mut shown = f.debug_struct("Worker");
        shown.field("name", &claim.worker).field("queues", &claim.queues);
        shown.field("concurrency", concurrency).field("prefetch", prefetch);
        shown.field("lease", lease).finish_non_exhaustive()
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("endings", &self.endings()).finish_non_exhaustive()
    }
}
