//! What a connection is doing, as seen from outside it.
//!
//! A request moves its connection through four phases: nothing of it is here, part of its head is,
//! its body arrives, it is worked on. Deadlines, eviction and stopping depend on the phase. The
//! bodies on the way in and out are wrapped, so that no handler has to say where it is.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep};

/// How long a body may take to begin with; every second beyond it must be paid for with bytes.
const BODY_WITHIN: Duration = Duration::from_secs(30);
const BODY_BYTES_PER_S: u64 = 16 * 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Nothing of the next request is here.
    Quiet,
    /// Part of its head is.
    Head,
    /// Its body arrives.
    Body,
    /// It is worked on, or answered.
    Work,
}

/// One connection, from outside.
#[derive(Debug)]
pub(super) struct Pulse {
    phase: AtomicU8,
    begun: Instant,
    /// When the phase began, in milliseconds since the connection did.
    since_ms: AtomicU64,
    /// An answer waits for the client to read.
    stuck: AtomicBool,
    /// It was answered at least once.
    answered: AtomicBool,
    leave: Notify,
}

impl Pulse {
    pub(super) fn new() -> Arc<Pulse> {
        Arc::new(Pulse {
            phase: AtomicU8::new(Phase::Quiet as u8),
            begun: Instant::now(),
            since_ms: AtomicU64::new(0),
            stuck: AtomicBool::new(false),
            answered: AtomicBool::new(false),
            leave: Notify::new(),
        })
    }

    pub(super) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Quiet,
            1 => Phase::Head,
            2 => Phase::Body,
            _ => Phase::Work,
        }
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.since_ms.store(self.begun.elapsed().as_millis() as u64, Ordering::Relaxed);
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// When the phase began.
    pub(super) fn since(&self) -> Instant {
        self.begun + Duration::from_millis(self.since_ms.load(Ordering::Relaxed))
    }

    pub(super) fn was_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Relaxed)
    }

    pub(super) fn set_stuck(&self, stuck: bool) {
        self.stuck.store(stuck, Ordering::Relaxed);
    }

    /// Nobody would miss an answer if it ended now.
    pub(super) fn is_free(&self) -> bool {
        matches!(self.phase(), Phase::Quiet | Phase::Head) && !self.is_stuck()
    }

    /// Tells the connection to end, to make room.
    pub(super) fn send_away(&self) {
        self.leave.notify_one();
    }

    pub(super) async fn sent_away(&self) {
        self.leave.notified().await;
    }
}

/// The body of a request, with a deadline.
pub(super) struct Arriving {
    body: Incoming,
    pulse: Arc<Pulse>,
    begun: Instant,
    bytes: u64,
    late: Option<Pin<Box<Sleep>>>,
}

impl Arriving {
    pub(super) fn new(body: Incoming, pulse: &Arc<Pulse>) -> Arriving {
        pulse.enter(if body.is_end_stream() { Phase::Work } else { Phase::Body });
        let pulse = Arc::clone(pulse);
        Arriving { body, pulse, begun: Instant::now(), bytes: 0, late: None }
    }

    fn deadline(&self) -> Instant {
        self.begun + BODY_WITHIN + Duration::from_secs(self.bytes / BODY_BYTES_PER_S)
    }
}

/// A body did not arrive in time.
#[derive(Debug)]
pub(super) struct Late;

impl std::fmt::Display for Late {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the body has not arrived within {} s", BODY_WITHIN.as_secs())
    }
}

impl std::error::Error for Late {}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Pending => {
                let deadline = self.deadline();
                let late =
                    self.late.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
                if late.deadline() != deadline {
                    late.as_mut().reset(deadline);
                }
                late.as_mut().poll(cx).map(|()| Some(Err(Late.into())))
            }
            Poll::Ready(Some(Ok(frame))) => {
                self.bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
                if self.body.is_end_stream() {
                    self.pulse.enter(Phase::Work);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => {
                self.pulse.enter(Phase::Work);
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer: once it is gone, the connection waits for the next request.
pub(super) struct Leaving {
    body: Body,
    pulse: Arc<Pulse>,
}

impl Leaving {
    pub(super) fn new(body: Body, pulse: Arc<Pulse>) -> Leaving {
        Leaving { body, pulse }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.pulse.answered.store(true, Ordering::Relaxed);
        // A body that nobody read to its end keeps the connection from another request.
        if self.pulse.phase() == Phase::Work {
            self.pulse.enter(Phase::Quiet);
        }
    }
}

impl HttpBody for Leaving {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
