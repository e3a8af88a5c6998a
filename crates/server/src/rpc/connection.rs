//! One connection: what it may hold, how long it may take, and how it ends.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rustix::net::RecvFlags;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;
use windrow_wire::problem::Code;
use windrow_wire::queue_capnp::queue;
use windrow_wire::rpc::Wrong;

use super::incoming::Incoming;
use super::pace::Pace;
use super::plain::Plain;
use super::vat::{End, Vat};
use super::{Shared, exception};

/// Bytes that are read at once, and room that stays for what goes out.
const BUFFER: usize = 64 * 1024;
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
    let plain = Plain::new(shared.clone(), Rc::clone(&meter));
    let plain: queue::Client = capnp_rpc::new_client(plain);
    let talk = Talk {
        stream,
        meter: Rc::clone(&meter),
        incoming: Incoming::new(),
        vat: Vat::new(plain.client.hook),
        pace: Pace::new(),
        gone: 0,
        is_over: false,
    };
    // A task of its own: whatever it dies of is the end of this connection and of no other.
    let mut running = tokio::task::spawn_local(talk);
    tokio::select! {
        _ended = &mut running => return,
        () = meter.overdue(deadlines) => {}
        () = shared.app.closes() => {
            meter.close();
            tokio::select! {
                () = meter.overdue(deadlines) => {}
                _ended = &mut running => return,
            }
        }
    }
    running.abort();
}

/// A connection at work: reads, lets calls go on, and writes, until nothing is left to do.
struct Talk {
    stream: TcpStream,
    meter: Rc<Meter>,
    incoming: Incoming,
    vat: Vat,
    pace: Pace,
    /// How much of what is to be sent has gone.
    gone: usize,
    /// Nothing more is read; what was said last still goes out.
    is_over: bool,
}

thread_local! {
    /// What was read last on this thread.
    static READ: RefCell<Box<[u8]>> = RefCell::new(vec![0; BUFFER].into_boxed_slice());
    /// Whose that was: the meter of a connection is nobody else's while it is open.
    static READER: Cell<*const Meter> = const { Cell::new(std::ptr::null()) };
}

impl Talk {
    /// Reads once, if the other side takes its answers.
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Otherwise they would pile up here.
        if self.is_over || self.meter.is_stuck() {
            return Poll::Pending;
        }
        READ.with_borrow_mut(|buffer| {
            let mut buffer = ReadBuf::new(buffer);
            std::task::ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
            Poll::Ready(self.take(buffer.filled()))
        })
    }

    /// Takes what was read.
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let vat = &mut self.vat;
        if let Err(end) = self.incoming.take(bytes, |heard| vat.hear(heard)) {
            self.is_over = true;
            match end {
                End::Ours(_) if is_http(bytes) => self.vat.out.extend_from_slice(STRAYED),
                End::Ours(why) => self.vat.abort(&why),
                End::Theirs => {}
            }
        }
        let (now, reader) = (Instant::now(), Rc::as_ptr(&self.meter));
        self.meter.read(self.incoming.is_between(), now);
        self.pace.asked(READER.replace(reader) != reader, now);
        Ok(())
    }

    /// Looks out for the next request of a caller that is about to send one. Says whether something
    /// came.
    fn linger(&mut self) -> io::Result<bool> {
        if self.is_over || self.meter.is_stuck() || self.meter.calls.get() > 0 {
            return Ok(false);
        }
        let Some(until) = self.pace.lingers_until() else { return Ok(false) };
        READ.with_borrow_mut(|buffer| {
            while Instant::now() < until {
                // It may be waiting for this very processor.
                std::thread::yield_now();
                // Not through the runtime, which would look only after a sleep.
                match rustix::net::recv(&self.stream, &mut buffer[..], RecvFlags::DONTWAIT) {
                    Ok((bytes, _)) => return self.take(&buffer[..bytes]).map(|()| true),
                    Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(false)
        })
    }

    /// Writes until nothing is left or the socket takes no more.
    fn write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while self.gone < self.vat.out.len() {
            let rest = &self.vat.out[self.gone..];
            match Pin::new(&mut self.stream).poll_write(cx, rest)? {
                Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(written) => {
                    self.gone += written;
                    self.meter.written();
                }
                Poll::Pending => {
                    self.meter.stuck();
                    return Ok(());
                }
            }
        }
        if self.gone > 0 && self.meter.calls.get() == 0 {
            self.pace.answered(Instant::now());
        }
        self.vat.out.clear();
        self.vat.out.shrink_to(BUFFER);
        self.gone = 0;
        Ok(())
    }
}

impl Future for Talk {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        // Once, because others on this thread want a turn too.
        let mut may_linger = true;
        loop {
            let was_stuck = this.meter.is_stuck();
            let read = this.read(cx)?;
            this.vat.poll(cx);
            this.write(cx)?;
            let is_sent = this.vat.out.is_empty();
            if is_sent && (this.is_over || this.meter.is_done(cx.waker())) {
                return Pin::new(&mut this.stream).poll_shutdown(cx);
            }
            let may_read_again = was_stuck && !this.meter.is_stuck();
            if read.is_pending()
                && !may_read_again
                && !(std::mem::take(&mut may_linger) && this.linger()?)
            {
                return Poll::Pending;
            }
        }
    }
}

/// For whoever speaks HTTP here.
const STRAYED: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    content-type: application/problem+json\r\n\
    content-length: 119\r\n\
    connection: close\r\n\r\n\
    {\"status\":400,\"code\":\"malformed\",\"detail\":\"this is the port of RPC; HTTP is at \
    another, which is 7117 if nobody chose\"}";

/// Whether this begins a request over HTTP, which is no message of RPC: as the number of its
/// segments a method is far too large.
fn is_http(bytes: &[u8]) -> bool {
    let methods: [&[u8]; 7] =
        [b"GET ", b"PUT ", b"POST ", b"HEAD ", b"PATCH ", b"DELETE ", b"OPTIONS "];
    methods.iter().any(|method| bytes.starts_with(method))
}

/// What a connection holds and since when it waits.
#[derive(Debug)]
pub(super) struct Meter {
    calls: Cell<usize>,
    /// When anything was last read or answered.
    seen: Cell<Instant>,
    /// Since when a message has been arriving.
    frame_since: Cell<Option<Instant>>,
    /// Since when an answer has not been taken.
    stuck_since: Cell<Option<Instant>>,
    /// Whether the connection ends with its last call, and who must hear of that.
    is_closing: Cell<bool>,
    talk: RefCell<Option<Waker>>,
}

impl Meter {
    fn new() -> Meter {
        let now = Instant::now();
        Meter {
            calls: Cell::new(0),
            seen: Cell::new(now),
            // Whoever connects has something to say.
            frame_since: Cell::new(Some(now)),
            stuck_since: Cell::new(None),
            is_closing: Cell::new(false),
            talk: RefCell::default(),
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
    fn read(&self, is_between: bool, now: Instant) {
        self.seen.set(now);
        let since = self.frame_since.get().unwrap_or(now);
        self.frame_since.set((!is_between).then_some(since));
    }

    /// The other side takes no more.
    fn stuck(&self) {
        let since = self.stuck_since.get().unwrap_or_else(Instant::now);
        self.stuck_since.set(Some(since));
    }

    /// It took something.
    fn written(&self) {
        self.stuck_since.set(None);
    }

    fn is_stuck(&self) -> bool {
        self.stuck_since.get().is_some()
    }

    /// Lets the connection end with its last call.
    fn close(&self) {
        self.is_closing.set(true);
        if let Some(talk) = self.talk.take() {
            talk.wake();
        }
    }

    /// Whether it may end; if not, the waker is called when it is to be asked again.
    fn is_done(&self, waker: &Waker) -> bool {
        if self.is_closing.get() {
            return self.calls.get() == 0;
        }
        let mut talk = self.talk.borrow_mut();
        if !talk.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *talk = Some(waker.clone());
        }
        false
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
}

/// A call that is under way.
#[derive(Debug)]
pub(super) struct Call(Rc<Meter>);

impl Drop for Call {
    fn drop(&mut self) {
        self.0.calls.set(self.0.calls.get() - 1);
        self.0.seen.set(Instant::now());
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
        meter.read(true, Instant::now());
        check(&meter, 31, false);
        meter.read(false, Instant::now());
        check(&meter, 31, true);
    }

    #[test]
    fn a_connection_is_idle_only_without_a_call() {
        let meter = Rc::new(Meter::new());
        meter.read(true, Instant::now());
        check(&meter, 3_601, true);
        let call = meter.call();
        check(&meter, 3_601, false);
        drop(call);
        check(&meter, 3_601, true);
    }

    #[test]
    fn whoever_takes_no_answers_is_not_read_from_and_not_borne_with_for_long() {
        let meter = Meter::new();
        meter.read(true, Instant::now());
        meter.stuck();
        assert!(meter.is_stuck());
        check(&meter, 31, true);
        meter.written();
        assert!(!meter.is_stuck());
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
