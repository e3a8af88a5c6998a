//! One connection: what it may hold, how long it may take, and how it ends.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};

use capnp::message::ReaderOptions;
use capnp_rpc::RpcSystem;
use capnp_rpc::rpc_twoparty_capnp::Side;
use capnp_rpc::twoparty::VatNetwork;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use windrow_wire::problem::Code;
use windrow_wire::queue_capnp::queue;
use windrow_wire::rpc::{MESSAGE_MAX, Wrong};

use super::plain::Plain;
use super::{Shared, exception, pipe};

/// How often a message may be read as a whole: pointers may lead to the same place many times.
const TRAVERSALS: u64 = 2;
/// How deep the structs of a message may lie in each other.
const NESTING_MAX: i32 = 32;
/// Calls of one connection that are under way.
const CALLS_MAX: usize = 10_000;
/// How often it is looked at what takes too long.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long a connection may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlines {
    /// For the rest of a message that has begun, for the first one, and to take an answer.
    pub(crate) frame: Duration,
    /// Without a word and without a call under way.
    pub(crate) idle: Duration,
}

/// Serves a connection until it ends, takes too long, or the server stops.
pub(super) async fn one(shared: Shared, stream: TcpStream, deadlines: Deadlines) {
    // Small answers leave at once; if the socket refuses that, they leave later.
    let _sooner = stream.set_nodelay(true);
    let meter = Rc::new(Meter::new());
    let (reader, writer) = stream.into_split();
    let mut options = ReaderOptions::new();
    options.traversal_limit_in_words(Some((MESSAGE_MAX / 8 * TRAVERSALS) as usize));
    options.nesting_limit(NESTING_MAX);
    let network = VatNetwork::new(
        pipe::Reader::new(reader, Rc::clone(&meter)),
        pipe::Writer::new(writer, Rc::clone(&meter)),
        Side::Server,
        options,
    );
    let plain = Plain::new(shared.clone(), Rc::clone(&meter));
    let plain: queue::Client = capnp_rpc::new_client(plain);
    let system = RpcSystem::new(Box::new(network), Some(plain.client));
    let disconnector = system.get_disconnector();
    // A task of its own: whatever it dies of is the end of this connection and of no other.
    let mut running = tokio::task::spawn_local(system);
    tokio::select! {
        _ended = &mut running => return,
        () = meter.overdue(deadlines) => {}
        () = shared.app.closes() => {
            let quiet = async {
                meter.quiet().await;
                // Goes out after the answers.
                let _told = disconnector.await;
            };
            tokio::select! {
                () = quiet => {}
                () = meter.overdue(deadlines) => {}
                _ended = &mut running => return,
            }
        }
    }
    running.abort();
}

/// What a connection holds and since when it waits.
#[derive(Debug)]
pub(super) struct Meter {
    calls: Cell<usize>,
    /// Told when no call is under way any more.
    quiet: Notify,
    /// When anything was last read or answered.
    seen: Cell<Instant>,
    /// Since when a message has been arriving.
    frame_since: Cell<Option<Instant>>,
    /// Since when an answer has not been taken, and who waits to read.
    stuck_since: Cell<Option<Instant>>,
    reader: RefCell<Option<Waker>>,
}

impl Meter {
    fn new() -> Meter {
        let now = Instant::now();
        Meter {
            calls: Cell::new(0),
            quiet: Notify::new(),
            seen: Cell::new(now),
            // Whoever connects has something to say.
            frame_since: Cell::new(Some(now)),
            stuck_since: Cell::new(None),
            reader: RefCell::new(None),
        }
    }

    /// A call begins, if there is room for it.
    pub(super) fn call(self: &Rc<Self>) -> Result<Call, capnp::Error> {
        if self.calls.get() >= CALLS_MAX {
            let detail = format!("{CALLS_MAX} calls of this connection are under way");
            return Err(exception(&Wrong::new(Code::Overloaded, detail)));
        }
        self.calls.set(self.calls.get() + 1);
        Ok(Call(Rc::clone(self)))
    }

    /// Something was read, up to the end of a message or not.
    pub(super) fn read(&self, is_between: bool) {
        let now = Instant::now();
        self.seen.set(now);
        let since = self.frame_since.get().unwrap_or(now);
        self.frame_since.set((!is_between).then_some(since));
    }

    /// The other side takes no more.
    pub(super) fn stuck(&self) {
        let since = self.stuck_since.get().unwrap_or_else(Instant::now);
        self.stuck_since.set(Some(since));
    }

    /// It took something.
    pub(super) fn written(&self) {
        if self.stuck_since.take().is_some()
            && let Some(reader) = self.reader.take()
        {
            reader.wake();
        }
    }

    /// Whether nothing is to be read now; then the waker is called later.
    pub(super) fn is_stuck(&self, waker: &Waker) -> bool {
        let is_stuck = self.stuck_since.get().is_some();
        if is_stuck {
            self.reader.replace(Some(waker.clone()));
        }
        is_stuck
    }

    /// Waits until something takes too long.
    async fn overdue(&self, deadlines: Deadlines) {
        while !self.is_overdue(deadlines, Instant::now()) {
            tokio::time::sleep(LOOK_EVERY.min(deadlines.frame)).await;
        }
    }

    fn is_overdue(&self, deadlines: Deadlines, now: Instant) -> bool {
        let longer = |since: Option<Instant>, than| {
            since.is_some_and(|since| now.saturating_duration_since(since) > than)
        };
        let is_idle = self.calls.get() == 0 && longer(Some(self.seen.get()), deadlines.idle);
        is_idle
            || longer(self.frame_since.get(), deadlines.frame)
            || longer(self.stuck_since.get(), deadlines.frame)
    }

    /// Waits until no call is under way.
    async fn quiet(&self) {
        while self.calls.get() > 0 {
            self.quiet.notified().await;
        }
    }
}

/// A call that is under way.
#[derive(Debug)]
pub(super) struct Call(Rc<Meter>);

impl Drop for Call {
    fn drop(&mut self) {
        self.0.calls.set(self.0.calls.get() - 1);
        self.0.seen.set(Instant::now());
        if self.0.calls.get() == 0 {
            self.0.quiet.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINES: Deadlines =
        Deadlines { frame: Duration::from_secs(30), idle: Duration::from_secs(3_600) };

    #[track_caller]
    fn check(meter: &Meter, seconds: u64, is_overdue: bool) {
        let then = Instant::now() + Duration::from_secs(seconds);
        assert_eq!(meter.is_overdue(DEADLINES, then), is_overdue, "after {seconds} s");
    }

    #[test]
    fn a_message_must_arrive_in_time_and_the_first_one_too() {
        let meter = Meter::new();
        check(&meter, 29, false);
        check(&meter, 31, true);
        meter.read(true);
        check(&meter, 31, false);
        meter.read(false);
        check(&meter, 31, true);
    }

    #[test]
    fn a_connection_is_idle_only_without_a_call() {
        let meter = Rc::new(Meter::new());
        meter.read(true);
        check(&meter, 3_601, true);
        let call = meter.call();
        check(&meter, 3_601, false);
        drop(call);
        check(&meter, 3_601, true);
    }

    #[test]
    fn whoever_takes_no_answers_is_not_read_from_and_not_borne_with_for_long() {
        let meter = Meter::new();
        meter.read(true);
        meter.stuck();
        assert!(meter.is_stuck(Waker::noop()));
        check(&meter, 31, true);
        meter.written();
        assert!(!meter.is_stuck(Waker::noop()));
        check(&meter, 31, false);
    }

    #[test]
    fn calls_have_a_limit_and_their_places_come_back() {
        let meter = Rc::new(Meter::new());
        let mut calls: Vec<_> = (0..CALLS_MAX).map(|_| meter.call().unwrap()).collect();
        assert!(meter.call().unwrap_err().extra.starts_with("overloaded: "));
        calls.pop();
        assert!(meter.call().is_ok());
    }
}
