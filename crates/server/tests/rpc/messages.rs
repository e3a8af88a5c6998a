//! Messages of the RPC protocol, built and read without a client.

use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;

use capnp::message::{Builder, HeapAllocator, Reader, ReaderOptions};
use capnp::serialize::{self, OwnedSegments};
use capnp_rpc::rpc_capnp::{call, message, message_target};

pub(crate) const SEED: u64 = 0x8323_a518_d325_4563;

pub(crate) type Answer = Reader<OwnedSegments>;

/// The bytes of a message.
pub(crate) fn frame(build: impl FnOnce(message::Builder<'_>)) -> Vec<u8> {
    let mut built = Builder::new(HeapAllocator::new());
    build(built.init_root());
    serialize::write_message_to_words(&built)
}

pub(crate) fn bootstrap(question: u32) -> Vec<u8> {
    frame(|message| message.init_bootstrap().set_question_id(question))
}

/// A call of the answer to a bootstrap.
pub(crate) fn call(
    question: u32,
    interface: u64,
    method: u16,
    params: impl FnOnce(capnp::any_pointer::Builder<'_>),
) -> Vec<u8> {
    let answer = |to: message_target::Builder<'_>| {
        to.init_promised_answer();
    };
    call_to(question, interface, method, answer, params)
}

/// A call of whatever `target` says.
pub(crate) fn call_to(
    question: u32,
    interface: u64,
    method: u16,
    target: impl FnOnce(message_target::Builder<'_>),
    params: impl FnOnce(capnp::any_pointer::Builder<'_>),
) -> Vec<u8> {
    frame(|message| {
        let mut call: call::Builder<'_> = message.init_call();
        call.set_question_id(question);
        call.set_interface_id(interface);
        call.set_method_id(method);
        target(call.reborrow().init_target());
        params(call.init_params().init_content());
    })
}

/// Everything that the server says until the connection ends.
pub(crate) fn heard(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("it is never ended"),
        // One that was reset has said what it said.
        _ => bytes,
    }
}

/// The messages in it. What is not whole is left out.
pub(crate) fn messages(mut bytes: &[u8]) -> Vec<Answer> {
    let mut answers = Vec::new();
    while let Ok(Some(answer)) = serialize::try_read_message(&mut bytes, ReaderOptions::new()) {
        answers.push(answer);
    }
    answers
}

/// Leaves the parameters of a call empty.
pub(crate) fn nothing(_: capnp::any_pointer::Builder<'_>) {}

/// The next message.
pub(crate) fn answer(stream: &mut TcpStream) -> Answer {
    serialize::read_message(stream, ReaderOptions::new()).unwrap()
}

/// The next answer to this question; what the server asks or says otherwise is passed over.
pub(crate) fn answer_to(stream: &mut TcpStream, question: u32) -> Answer {
    loop {
        let answer = answer(stream);
        let message: message::Reader<'_> = answer.get_root().unwrap();
        if let message::Return(Ok(returned)) = message.which().unwrap()
            && returned.get_answer_id() == question
        {
            return answer;
        }
    }
}
