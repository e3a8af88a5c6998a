//! Messages of Cap'n Proto's two-party protocol, as far as a caller needs them.
//!
//! A caller asks for the first capability, calls it, imports the queue that it gets, and calls
//! that. It offers nothing itself, so that all it hears are answers, or that the connection is
//! over. What is written here does not know of connections; `connection.rs` sends it.

use std::fmt;

use capnp::any_pointer;
use capnp::message::{Builder, HeapAllocator, Reader, ReaderOptions};
use capnp::serialize::{self, OwnedSegments};
use capnp_rpc::rpc_capnp::{cap_descriptor, exception, message, return_};
use windrow_core::queue::Refused;
use windrow_wire::problem::Code;
use windrow_wire::rpc::Wrong;

use crate::repeat::Missed;

/// A message to send.
pub(super) type Written = Builder<HeapAllocator>;

/// A message that arrived.
pub(super) struct Read(Reader<OwnedSegments>);

impl fmt::Debug for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Read({} words)", self.0.size_in_words())
    }
}

/// Bytes of an answer at most: what says more is no server of ours.
pub(super) const ANSWER_MAX: u64 = 1 << 30;
/// Words of the smallest message that is made room for.
const WORDS_MIN: usize = 64;
/// Words of a call beside what it is about.
const WORDS_OF_CALL: usize = 24;

/// A method of an interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Method {
    pub(super) interface: u64,
    pub(super) number: u16,
}

/// Whom a call is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// What the answer to a question will be.
    Answer(u32),
    /// What the server gave.
    Import(u32),
}

fn new(words: usize) -> Written {
    let words = words.max(WORDS_MIN).try_into().unwrap_or(u32::MAX);
    Builder::new(HeapAllocator::new().first_segment_words(words))
}

/// Asks for what the server gives first.
pub(super) fn bootstrap(question: u32) -> Written {
    let mut written = new(0);
    written.init_root::<message::Builder<'_>>().init_bootstrap().set_question_id(question);
    written
}

/// A call. `words` is about how long what `write` writes is.
pub(super) fn call(
    question: u32,
    target: Target,
    method: Method,
    words: usize,
    write: impl FnOnce(any_pointer::Builder<'_>),
) -> Written {
    let mut written = new(words + WORDS_OF_CALL);
    let mut call = written.init_root::<message::Builder<'_>>().init_call();
    call.set_question_id(question);
    call.set_interface_id(method.interface);
    call.set_method_id(method.number);
    let mut to = call.reborrow().init_target();
    match target {
        Target::Answer(question) => to.init_promised_answer().set_question_id(question),
        Target::Import(import) => to.set_imported_cap(import),
    }
    write(call.init_params().init_content());
    written
}

/// Says that the answer to a question is not needed any more. If it is still to come, the server
/// gives up what it does.
pub(super) fn finish(question: u32) -> Written {
    let mut written = new(0);
    let mut finish = written.init_root::<message::Builder<'_>>().init_finish();
    finish.set_question_id(question);
    finish.set_release_result_caps(false);
    written
}

/// Appends a message as it goes over the wire.
pub(super) fn append(to: &mut Vec<u8>, written: &Written) {
    // A vector takes whatever is written to it.
    let _infallible = serialize::write_message(to, written);
}

/// Bytes that a message has on the wire.
pub(super) fn bytes(written: &Written) -> u64 {
    serialize::compute_serialized_size_in_words(written) as u64 * 8
}

/// What was heard.
#[derive(Debug)]
pub(super) enum Heard {
    /// The answer to a question, and whether the server wants to hear that it arrived.
    Answer { question: u32, wants_finish: bool },
    /// The connection is over.
    Over(String),
    /// Nothing that concerns a caller.
    Nothing,
}

/// A message that has arrived whole.
pub(super) fn read(mut bytes: &[u8]) -> capnp::Result<Read> {
    // It is our own server that was asked; it may answer at any length.
    let mut options = ReaderOptions::new();
    options.traversal_limit_in_words(None);
    serialize::read_message(&mut bytes, options).map(Read)
}

pub(super) fn heard(read: &Read) -> capnp::Result<Heard> {
    Ok(match read.0.get_root::<message::Reader<'_>>()?.which() {
        Ok(message::Return(answer)) => {
            let answer = answer?;
            let wants_finish = !answer.get_no_finish_needed();
            Heard::Answer { question: answer.get_answer_id(), wants_finish }
        }
        Ok(message::Abort(why)) => Heard::Over(why?.get_reason()?.to_string()?),
        _ => Heard::Nothing,
    })
}

fn answer(read: &Read) -> capnp::Result<return_::Reader<'_>> {
    match read.0.get_root::<message::Reader<'_>>()?.which()? {
        message::Return(answer) => answer,
        _ => Err(capnp::Error::failed("this is no answer".to_owned())),
    }
}

/// What an answer says.
pub(super) fn results(read: &Read) -> Result<any_pointer::Reader<'_>, Missed> {
    let unread =
        |error: capnp::Error| Missed::Lost(format!("an answer is not understood: {error}"));
    let answered = answer(read).and_then(|answer| Ok(answer.which()?));
    match answered.map_err(unread)? {
        return_::Results(results) => Ok(results.map_err(unread)?.get_content()),
        return_::Exception(thrown) => Err(thrown.map_or_else(unread, exception)),
        _ => Err(Missed::Lost("the server gave the call up".into())),
    }
}

/// The capability that an answer brings, by its number.
pub(super) fn imported(read: &Read) -> Result<u32, Missed> {
    results(read)?;
    let first = || -> Result<Option<u32>, Wrong> {
        let return_::Results(results) = answer(read)?.which()? else { return Ok(None) };
        let table = results?.get_cap_table()?;
        let Some(first) = table.iter().next() else { return Ok(None) };
        Ok(match first.which()? {
            cap_descriptor::SenderHosted(id) | cap_descriptor::SenderPromise(id) => Some(id),
            _ => None,
        })
    };
    let none = || Missed::NotSent("the server does not give its queue".into());
    first().ok().flatten().ok_or_else(none)
}

/// What a call ended with that could not even be refused: a code may stand in front.
fn exception(thrown: exception::Reader<'_>) -> Missed {
    let reason = thrown.get_reason().ok().and_then(|reason| reason.to_string().ok());
    let reason = reason.unwrap_or_default();
    let coded = reason.split_once(": ").and_then(|(name, detail)| {
        Code::ALL.iter().find(|code| code.name() == name).map(|code| (*code, detail))
    });
    let refused = |code: Code, detail: &str| {
        let (code, message) = (code.name().into(), detail.to_owned());
        Missed::by(Refused { code, message, retry_after_ms: None })
    };
    match (coded, thrown.get_type()) {
        (Some((code, detail)), _) => refused(code, detail),
        (None, Ok(exception::Type::Unimplemented)) => {
            refused(Code::MethodNotAllowed, "the server is older than this call")
        }
        (None, _) => Missed::Lost(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_in_front_of_an_exception_is_a_refusal() {
        let missed = |kind, reason: &str| {
            let mut written = new(0);
            let mut thrown = written.init_root::<exception::Builder<'_>>();
            thrown.set_type(kind);
            thrown.set_reason(reason);
            exception(thrown.into_reader())
        };
        let failed = exception::Type::Failed;
        let Missed::Refused(refused) = missed(failed, "unauthorized: call login") else {
            panic!("no refusal")
        };
        assert_eq!((&*refused.code, &*refused.message), ("unauthorized", "call login"));
        let busy = missed(exception::Type::Overloaded, "overloaded: much");
        assert_eq!(busy, Missed::Overloaded { retry_after_ms: 0 });
        assert!(matches!(missed(failed, "what: is this"), Missed::Lost(_)));
        let older = missed(exception::Type::Unimplemented, "no such method");
        assert!(matches!(older, Missed::Refused(_)));
    }
}
