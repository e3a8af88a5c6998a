//! One call: what it was asked with, and how its answer is written.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use capnp::capability::Promise;
use capnp::message::{Builder, HeapAllocator};
use capnp::private::capability::{
    ClientHook, ParamsHook, PipelineHook, PipelineOp, RequestHook, ResultsHook,
};
use capnp::traits::{Imbue as _, ImbueMut as _};
use capnp::{Error, ErrorKind, any_pointer};
use capnp_rpc::rpc_capnp::{call, exception, message, payload, return_};
use windrow_wire::queue_capnp::queue;

use super::Heard;

/// Words that are made room for in an answer, before it is known how long it will be.
const WORDS: u32 = 64;

type Caps = Vec<Option<Box<dyn ClientHook>>>;

pub(super) fn unknown() -> Error {
    Error::failed("there is no such capability".to_owned())
}

pub(super) fn called(heard: &Heard) -> Result<call::Reader<'_>, Error> {
    match heard.get_root::<message::Reader<'_>>()?.which()? {
        message::Call(call) => call,
        _ => Err(Error::failed("this is no call".to_owned())),
    }
}

pub(super) fn written() -> Builder<HeapAllocator> {
    Builder::new(HeapAllocator::new().first_segment_words(WORDS))
}

/// The head of an answer that need not be finished.
pub(super) fn answer(message: &mut Builder<HeapAllocator>, question: u32) -> return_::Builder<'_> {
    let mut answer = message.init_root::<message::Builder<'_>>().init_return();
    answer.set_answer_id(question);
    answer.set_release_param_caps(false);
    answer.set_no_finish_needed(true);
    answer
}

pub(super) fn throw(mut thrown: exception::Builder<'_>, error: &Error) {
    let (kind, is_told) = match error.kind {
        ErrorKind::Failed => (exception::Type::Failed, true),
        ErrorKind::Overloaded => (exception::Type::Overloaded, true),
        ErrorKind::Disconnected => (exception::Type::Disconnected, true),
        ErrorKind::Unimplemented => (exception::Type::Unimplemented, true),
        _ => (exception::Type::Failed, false),
    };
    thrown.set_type(kind);
    if is_told {
        thrown.set_reason(&*error.extra);
    } else {
        thrown.set_reason(&*error.to_string());
    }
}

/// What a call was asked with.
pub(super) struct Params(pub(super) Heard);

impl ParamsHook for Params {
    fn get(&self) -> capnp::Result<any_pointer::Reader<'_>> {
        Ok(called(&self.0)?.get_params()?.get_content())
    }
}

/// An answer while it is written, and after.
pub(super) struct Results {
    pub(super) message: Builder<HeapAllocator>,
    pub(super) caps: Caps,
}

impl Results {
    pub(super) fn new(question: u32) -> Results {
        let mut message = written();
        answer(&mut message, question).init_results();
        Results { message, caps: Vec::new() }
    }

    pub(super) fn get(&mut self) -> capnp::Result<any_pointer::Builder<'_>> {
        let mut content = payload(&mut self.message)?.get_content();
        content.imbue_mut(&mut self.caps);
        Ok(content)
    }

    /// Lists the capabilities that it brings. They are needed until the caller says otherwise.
    pub(super) fn describe(&mut self, brings: &[Option<u32>]) -> capnp::Result<()> {
        let mut table = payload(&mut self.message)?.init_cap_table(brings.len() as u32);
        for (at, number) in (0..).zip(brings) {
            let mut one = table.reborrow().get(at);
            match number {
                Some(number) => one.set_sender_hosted(*number),
                None => one.set_none(()),
            }
        }
        let root = self.message.get_root::<message::Builder<'_>>()?;
        if let message::Return(answer) = root.which()? {
            answer?.set_no_finish_needed(false);
        }
        Ok(())
    }

    /// A capability that it brings.
    pub(super) fn capability(&self, path: &[PipelineOp]) -> Result<Box<dyn ClientHook>, Error> {
        let root = self.message.get_root_as_reader::<message::Reader<'_>>()?;
        let message::Return(answer) = root.which()? else { return Err(unknown()) };
        let return_::Results(results) = answer?.which()? else { return Err(unknown()) };
        let mut content = results?.get_content();
        content.imbue(&self.caps);
        content.get_pipelined_cap(path)
    }
}

fn payload(message: &mut Builder<HeapAllocator>) -> capnp::Result<payload::Builder<'_>> {
    if let message::Return(answer) = message.get_root::<message::Builder<'_>>()?.which()?
        && let return_::Results(results) = answer?.which()?
    {
        return results;
    }
    Err(Error::failed("this is no answer".to_owned()))
}

/// Where a call leaves its results, and hears that nobody wants them any more.
#[derive(Default)]
pub(super) struct Slot {
    results: Cell<Option<Results>>,
    is_given_up: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl Slot {
    pub(super) fn give_up(&self) {
        self.is_given_up.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Results that are being filled in. They are done when whoever fills them drops this.
pub(super) struct Filling {
    pub(super) results: Option<Results>,
    pub(super) slot: Rc<Slot>,
}

impl Drop for Filling {
    fn drop(&mut self) {
        self.slot.results.set(self.results.take());
    }
}

impl ResultsHook for Filling {
    fn get(&mut self) -> capnp::Result<any_pointer::Builder<'_>> {
        self.results.as_mut().ok_or_else(unknown)?.get()
    }

    fn set_pipeline(&mut self) -> capnp::Result<()> {
        Err(not_offered())
    }

    fn allow_cancellation(&self) {}

    fn tail_call(self: Box<Self>, _request: Box<dyn RequestHook>) -> Promise<(), Error> {
        Promise::err(not_offered())
    }

    fn direct_tail_call(
        self: Box<Self>,
        _request: Box<dyn RequestHook>,
    ) -> (Promise<(), Error>, Box<dyn PipelineHook>) {
        (Promise::err(not_offered()), Box::new(Nothing))
    }
}

/// No call of ours passes its answer on to another one.
fn not_offered() -> Error {
    Error::unimplemented("answers are not passed on".to_owned())
}

/// What comes of an answer that was not passed on.
struct Nothing;

impl PipelineHook for Nothing {
    fn add_ref(&self) -> Box<dyn PipelineHook> {
        Box::new(Nothing)
    }

    fn get_pipelined_cap(&self, _path: &[PipelineOp]) -> Box<dyn ClientHook> {
        let none = capnp_rpc::new_future_client::<queue::Client>(async { Err(not_offered()) });
        none.client.hook
    }
}

/// A call under way.
pub(super) struct Calling {
    pub(super) question: u32,
    pub(super) promise: Promise<(), Error>,
    pub(super) slot: Rc<Slot>,
}

/// How a call ended.
pub(super) enum Ended {
    With(Result<Results, Error>),
    GivenUp,
}

impl Future for Calling {
    type Output = (u32, Ended);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<(u32, Ended)> {
        if self.slot.is_given_up.get() {
            return Poll::Ready((self.question, Ended::GivenUp));
        }
        let Poll::Ready(done) = Pin::new(&mut self.promise).poll(cx) else {
            self.slot.waker.set(Some(cx.waker().clone()));
            return Poll::Pending;
        };
        let none = || Error::failed("a call ended without results".to_owned());
        let done = done.and_then(|()| self.slot.results.take().ok_or_else(none));
        Poll::Ready((self.question, Ended::With(done)))
    }
}
