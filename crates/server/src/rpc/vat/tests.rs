//! The protocol, message by message, as other callers speak it than ours.

use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Waker};

use capnp::message::ReaderOptions;
use capnp_rpc::rpc_capnp::{cap_descriptor, return_};
use windrow_wire::queue_capnp::{queue, windrow};

use super::*;

/// What is called here: `remove` fails, `poll` never ends, and `open` gives a queue when told to.
struct Called {
    opens: Rc<tokio::sync::Notify>,
    /// How many polls are under way.
    polls: Rc<Cell<u32>>,
    queue: windrow::Client,
}

struct UnderWay(Rc<Cell<u32>>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl queue::Server for Called {
    async fn remove(
        self: Rc<Self>,
        _params: queue::RemoveParams,
        _results: queue::RemoveResults,
    ) -> Result<(), Error> {
        Err(Error::overloaded("much".to_owned()))
    }

    async fn poll(
        self: Rc<Self>,
        _params: queue::PollParams,
        _results: queue::PollResults,
    ) -> Result<(), Error> {
        self.polls.set(self.polls.get() + 1);
        let _under_way = UnderWay(Rc::clone(&self.polls));
        std::future::pending().await
    }

    async fn open(
        self: Rc<Self>,
        _params: queue::OpenParams,
        mut results: queue::OpenResults,
    ) -> Result<(), Error> {
        self.opens.notified().await;
        results.get().set_queue(self.queue.clone());
        Ok(())
    }
}

/// The queue: all that is asked of it is refused.
struct Refuses;

impl windrow::Server for Refuses {}

const QUEUE: u64 = <queue::Client as capnp::traits::HasTypeId>::TYPE_ID;
const WINDROW: u64 = <windrow::Client as capnp::traits::HasTypeId>::TYPE_ID;
const REMOVE: u16 = 1;
const POLL: u16 = 2;
const OPEN: u16 = 5;

struct Bed {
    vat: Vat,
    opens: Rc<tokio::sync::Notify>,
    polls: Rc<Cell<u32>>,
}

impl Bed {
    fn new() -> Bed {
        let (opens, polls) = (Rc::default(), Rc::default());
        let queue = capnp_rpc::new_client(Refuses);
        let called = Called { opens: Rc::clone(&opens), polls: Rc::clone(&polls), queue };
        let first: queue::Client = capnp_rpc::new_client(called);
        Bed { vat: Vat::new(first.client.hook), opens, polls }
    }

    fn try_say(&mut self, write: impl FnOnce(message::Builder<'_>)) -> Result<(), End> {
        let mut message = written();
        write(message.init_root());
        let bytes = serialize::write_message_to_words(&message);
        self.vat.hear(serialize::read_message(&mut &bytes[..], ReaderOptions::new()).unwrap())
    }

    #[track_caller]
    fn say(&mut self, write: impl FnOnce(message::Builder<'_>)) {
        self.try_say(write).unwrap();
    }

    fn bootstrap(&mut self, question: u32) {
        self.say(|message| message.init_bootstrap().set_question_id(question));
    }

    /// Calls something that was given.
    fn call(&mut self, question: u32, export: u32, method: u16) {
        self.say(|message| {
            let mut call = message.init_call();
            call.set_question_id(question);
            call.set_interface_id(QUEUE);
            call.set_method_id(method);
            call.init_target().set_imported_cap(export);
        });
    }

    /// Calls the queue that an answer will bring.
    fn call_ahead(&mut self, question: u32, of: u32) {
        self.say(|message| {
            let mut call = message.init_call();
            call.set_question_id(question);
            call.set_interface_id(WINDROW);
            let mut answer = call.init_target().init_promised_answer();
            answer.set_question_id(of);
            answer.init_transform(1).get(0).set_get_pointer_field(0);
        });
    }

    fn finish(&mut self, question: u32, lets_go: bool) {
        self.say(|message| {
            let mut finish = message.init_finish();
            finish.set_question_id(question);
            finish.set_release_result_caps(lets_go);
        });
    }

    /// What was said since the last look, a line each.
    fn heard(&mut self) -> Vec<String> {
        self.vat.poll(&mut Context::from_waker(Waker::noop()));
        let out = std::mem::take(&mut self.vat.out);
        let (mut rest, mut lines) = (&out[..], Vec::new());
        while !rest.is_empty() {
            let message = serialize::read_message(&mut rest, ReaderOptions::new()).unwrap();
            lines.push(line(message.get_root().unwrap()));
        }
        lines
    }
}

fn line(message: message::Reader<'_>) -> String {
    let answer = match message.which().unwrap() {
        message::Return(answer) => answer.unwrap(),
        message::Unimplemented(_) => return "unimplemented".into(),
        message::Abort(why) => return why.unwrap().get_reason().unwrap().to_string().unwrap(),
        _ => return "something else".into(),
    };
    let question = answer.get_answer_id();
    let wants = if answer.get_no_finish_needed() { "" } else { ", finish it" };
    let what = match answer.which().unwrap() {
        return_::Results(results) => {
            let table = results.unwrap().get_cap_table().unwrap();
            let given = table.iter().map(|one| match one.which() {
                Ok(cap_descriptor::SenderHosted(number)) => number.to_string(),
                _ => "?".into(),
            });
            format!("gives {}", given.collect::<Vec<_>>().join(" "))
        }
        return_::Exception(thrown) => {
            let thrown = thrown.unwrap();
            format!("{:?}", thrown.get_type().unwrap())
        }
        return_::Canceled(()) => "cancelled".into(),
        _ => "something else".into(),
    };
    format!("{question}: {what}{wants}")
}

#[test]
fn what_is_asked_of_an_answer_waits_for_it() {
    let mut bed = Bed::new();
    bed.bootstrap(0);
    bed.call(1, 0, OPEN);
    bed.call_ahead(2, 1);
    bed.call_ahead(3, 1);
    // A caller may say at once that it needs no more than what it asked of the answer.
    bed.finish(1, true);
    assert_eq!(bed.heard(), ["0: gives 0, finish it"]);
    bed.opens.notify_one();
    let heard = bed.heard();
    assert_eq!(heard, ["1: gives 1, finish it", "2: Unimplemented", "3: Unimplemented"]);
    bed.call_ahead(4, 1);
    assert_eq!(bed.heard(), ["4: Failed"], "it was finished");
    bed.call(5, 1, OPEN);
    assert_eq!(bed.heard(), ["5: Failed"], "and what it brought was let go");
}

#[test]
fn what_waits_for_an_answer_is_not_begun_when_nobody_needs_it_any_more() {
    let mut bed = Bed::new();
    bed.bootstrap(0);
    bed.call(1, 0, OPEN);
    bed.call_ahead(2, 1);
    bed.finish(2, true);
    assert_eq!(bed.heard(), ["0: gives 0, finish it"]);
    bed.opens.notify_one();
    assert_eq!(bed.heard(), ["1: gives 1, finish it", "2: cancelled"]);
}

#[test]
fn an_answer_may_be_asked_until_it_is_finished() {
    let mut bed = Bed::new();
    bed.bootstrap(0);
    bed.call(1, 0, OPEN);
    bed.opens.notify_one();
    assert_eq!(bed.heard(), ["0: gives 0, finish it", "1: gives 1, finish it"]);
    bed.call_ahead(2, 1);
    assert_eq!(bed.heard(), ["2: Unimplemented"]);
    bed.finish(1, true);
    bed.call_ahead(3, 1);
    assert_eq!(bed.heard(), ["3: Failed"]);
    bed.call(4, 1, OPEN);
    assert_eq!(bed.heard(), ["4: Failed"], "the queue was let go with its answer");
}

#[test]
fn a_capability_is_there_until_it_was_let_go_as_often_as_it_was_given() {
    let mut bed = Bed::new();
    bed.bootstrap(0);
    bed.bootstrap(1);
    assert_eq!(bed.heard(), ["0: gives 0, finish it", "1: gives 0, finish it"]);
    bed.finish(0, false);
    bed.finish(1, true);
    bed.call(2, 0, REMOVE);
    assert_eq!(bed.heard(), ["2: Overloaded"]);
    bed.say(|message| {
        let mut release = message.init_release();
        release.set_id(0);
        release.set_reference_count(1);
    });
    bed.call(3, 0, REMOVE);
    assert_eq!(bed.heard(), ["3: Failed"]);
}

#[test]
fn what_nobody_waits_for_is_given_up_and_said_to_be() {
    let mut bed = Bed::new();
    bed.bootstrap(0);
    bed.call(1, 0, POLL);
    bed.call(2, 0, POLL);
    assert_eq!(bed.heard(), ["0: gives 0, finish it"]);
    assert_eq!(bed.polls.get(), 2);
    bed.finish(1, true);
    assert_eq!(bed.heard(), ["1: cancelled"]);
    assert_eq!(bed.polls.get(), 1);
    // Its number is free again, and an end that is said twice harms nobody.
    bed.finish(1, true);
    bed.call(1, 0, REMOVE);
    assert_eq!(bed.heard(), ["1: Overloaded"]);
}

#[test]
fn who_asks_under_a_number_in_use_or_answers_what_nobody_asked_is_left() {
    let mut bed = Bed::new();
    bed.bootstrap(0);
    let again = bed.try_say(|message| message.init_bootstrap().set_question_id(0));
    assert!(matches!(again, Err(End::Ours(_))), "{again:?}");
    let answer = bed.try_say(|message| message.init_return().set_answer_id(0));
    assert!(matches!(answer, Err(End::Ours(_))), "{answer:?}");
    let over = bed.try_say(|message| message.init_abort().set_reason("enough"));
    assert!(matches!(over, Err(End::Theirs)), "{over:?}");
}

#[test]
fn what_is_not_offered_is_said_to_be_so() {
    let mut bed = Bed::new();
    bed.say(|message| message.init_provide().set_question_id(7));
    assert_eq!(bed.heard(), ["unimplemented"]);
    bed.say(|message| {
        let mut call = message.init_call();
        call.set_question_id(1);
        call.reborrow().init_target().set_imported_cap(0);
        call.init_send_results_to().set_yourself(());
    });
    assert_eq!(bed.heard(), ["1: Unimplemented"]);
    bed.call(2, 9, REMOVE);
    assert_eq!(bed.heard(), ["2: Failed"], "nothing was given");
}

#[test]
fn answers_that_are_never_finished_have_a_limit() {
    let mut bed = Bed::new();
    for question in 0..ANSWERS_MAX as u32 {
        bed.bootstrap(question);
    }
    let more = bed.try_say(|message| message.init_bootstrap().set_question_id(u32::MAX));
    assert!(matches!(more, Err(End::Ours(_))), "{more:?}");
}
