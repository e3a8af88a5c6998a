//! The called side of Cap'n Proto's two-party protocol.
//!
//! A caller asks for the first capability, calls it, calls what an answer will bring before the
//! answer is there, says when it needs an answer no more, and lets capabilities go. It offers
//! nothing that is called from here, so there is no more to the protocol than that; whatever else
//! it says is answered with `unimplemented`. What is here knows of no connection: messages go in
//! one after the other, and bytes come out.

mod answer;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;
use std::task::{Context, Poll};

use capnp::Error;
use capnp::message::{Builder, HeapAllocator, Reader};
use capnp::private::capability::{ClientHook, PipelineOp};
use capnp::serialize::{self, OwnedSegments};
use capnp_rpc::rpc_capnp::{call, message, message_target, promised_answer};
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use self::answer::{
    Calling, Ended, Filling, Params, Results, Slot, answer, called, throw, unknown, written,
};

/// Answers that a caller may have without saying that it needs them no more.
const ANSWERS_MAX: usize = 20_000;

/// A message that arrived.
pub(super) type Heard = Reader<OwnedSegments>;

/// Why nothing more is said with this caller.
#[derive(Debug)]
pub(super) enum End {
    /// It says so.
    Theirs,
    /// It does not speak the protocol, and is told why.
    Ours(String),
}

impl From<Error> for End {
    fn from(error: Error) -> End {
        End::Ours(error.to_string())
    }
}

impl From<capnp::NotInSchema> for End {
    fn from(unknown: capnp::NotInSchema) -> End {
        Error::from(unknown).into()
    }
}

/// What a caller has and waits for.
pub(super) struct Vat {
    /// What every caller gets.
    first: Box<dyn ClientHook>,
    exports: HashMap<u32, Export>,
    next_export: u32,
    answers: HashMap<u32, Answer>,
    calls: FuturesUnordered<Calling>,
    /// What is to be sent.
    pub(super) out: Vec<u8>,
}

/// A capability that a caller has, and how many times it was given.
struct Export {
    capability: Box<dyn ClientHook>,
    times: u32,
}

/// What becomes of a question.
enum Answer {
    /// It is worked on. What was asked of its answer waits.
    Running { call: Rc<Slot>, then: Vec<Asked>, finished: Option<Finished> },
    /// It waits for another one, and is not begun if nobody needs it any more.
    Waiting { is_needed: bool },
    /// It was given, and brought these capabilities.
    Given { results: Results, exports: Vec<u32> },
}

/// A caller needs no more of an answer than what it asked of it already.
#[derive(Clone, Copy)]
struct Finished {
    /// Nor the capabilities that it brings.
    lets_go: bool,
}

/// A call of something that another answer will bring.
struct Asked {
    question: u32,
    path: Vec<PipelineOp>,
    call: Heard,
}

impl Vat {
    pub(super) fn new(first: Box<dyn ClientHook>) -> Vat {
        Vat {
            first,
            exports: HashMap::new(),
            next_export: 0,
            answers: HashMap::new(),
            calls: FuturesUnordered::new(),
            out: Vec::new(),
        }
    }

    /// Takes a message.
    pub(super) fn hear(&mut self, heard: Heard) -> Result<(), End> {
        match heard.get_root::<message::Reader<'_>>()?.which() {
            Ok(message::Call(call)) => {
                let call = call?;
                let question = self.new_question(call.get_question_id())?;
                if !matches!(
                    call.get_send_results_to().which(),
                    Ok(call::send_results_to::Caller(()))
                ) {
                    let why = "answers go to whoever asks";
                    self.thrown(question, &Error::unimplemented(why.to_owned()));
                    return Ok(());
                }
                let target = target(call.get_target()?)?;
                self.call(question, target, heard);
            }
            Ok(message::Finish(finish)) => {
                let finish = finish?;
                self.finish(finish.get_question_id(), finish.get_release_result_caps());
            }
            Ok(message::Release(release)) => {
                let release = release?;
                self.release(release.get_id(), release.get_reference_count());
            }
            Ok(message::Bootstrap(bootstrap)) => {
                let question = self.new_question(bootstrap?.get_question_id())?;
                let mut results = Results::new(question);
                results.get()?.set_as_capability(self.first.add_ref());
                self.returned(question, results)?;
            }
            Ok(message::Unimplemented(_)) => {}
            Ok(message::Abort(_)) => return Err(End::Theirs),
            Ok(message::Return(_)) => return Err(End::Ours("nothing was asked".into())),
            _ => {
                let mut message = written();
                let mut root = message.init_root::<message::Builder<'_>>();
                root.set_unimplemented(heard.get_root()?)?;
                self.send(&message);
            }
        }
        Ok(())
    }

    fn new_question(&self, question: u32) -> Result<u32, End> {
        if self.answers.contains_key(&question) {
            return Err(End::Ours(format!("question {question} is asked already")));
        }
        if self.answers.len() >= ANSWERS_MAX {
            return Err(End::Ours(format!("{ANSWERS_MAX} answers are not finished")));
        }
        Ok(question)
    }
}

impl Vat {
    /// Begins a call, or lets it wait for what it is about.
    fn call(&mut self, question: u32, target: Target, heard: Heard) {
        let found = match target {
            Target::Export(number) => {
                let export = self.exports.get(&number);
                export.map(|export| export.capability.add_ref()).ok_or_else(unknown)
            }
            Target::Answer { question: first, path } => match self.answers.get_mut(&first) {
                Some(Answer::Running { then, .. }) => {
                    then.push(Asked { question, path, call: heard });
                    self.answers.insert(question, Answer::Waiting { is_needed: true });
                    return;
                }
                Some(Answer::Given { results, .. }) => results.capability(&path),
                Some(Answer::Waiting { .. }) | None => Err(unknown()),
            },
        };
        match found {
            Ok(capability) => self.begin(question, &*capability, heard),
            Err(error) => self.thrown(question, &error),
        }
    }

    fn begin(&mut self, question: u32, capability: &dyn ClientHook, heard: Heard) {
        let (interface, method) = match called(&heard) {
            Ok(call) => (call.get_interface_id(), call.get_method_id()),
            Err(error) => return self.thrown(question, &error),
        };
        let slot = Rc::new(Slot::default());
        let results = Filling { results: Some(Results::new(question)), slot: Rc::clone(&slot) };
        let promise =
            capability.call(interface, method, Box::new(Params(heard)), Box::new(results));
        let running = Answer::Running { call: Rc::clone(&slot), then: Vec::new(), finished: None };
        self.answers.insert(question, running);
        self.calls.push(Calling { question, promise, slot });
    }

    /// Lets the calls go on until all of them wait.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some((question, ended))) = self.calls.poll_next_unpin(cx) {
            match ended {
                Ended::With(Ok(results)) => {
                    if let Err(error) = self.returned(question, results) {
                        self.thrown(question, &error);
                    }
                }
                Ended::With(Err(error)) => self.thrown(question, &error),
                Ended::GivenUp => self.cancelled(question),
            }
        }
    }

    /// Sends an answer, and begins what waited for it.
    fn returned(&mut self, question: u32, mut results: Results) -> Result<(), Error> {
        let mut exports = Vec::new();
        if !results.caps.is_empty() {
            let brings = results.caps.iter().map(|one| Some(self.export(one.as_ref()?.add_ref())));
            let brings: Vec<Option<u32>> = brings.collect();
            results.describe(&brings)?;
            exports.extend(brings.into_iter().flatten());
        }
        self.send(&results.message);
        let before = self.answers.remove(&question);
        let (then, finished) = match before {
            Some(Answer::Running { then, finished, .. }) => (then, finished),
            _ => (Vec::new(), None),
        };
        for Asked { question, path, call } in then {
            if matches!(self.answers.get(&question), Some(Answer::Waiting { is_needed: false })) {
                self.cancelled(question);
                continue;
            }
            match results.capability(&path) {
                Ok(capability) => self.begin(question, &*capability, call),
                Err(error) => self.thrown(question, &error),
            }
        }
        // Nothing can be asked of an answer that brings no capability, and nobody need finish it.
        match finished {
            Some(Finished { lets_go: true }) => {
                exports.into_iter().for_each(|number| self.release(number, 1));
            }
            None if !exports.is_empty() => {
                self.answers.insert(question, Answer::Given { results, exports });
            }
            _ => {}
        }
        Ok(())
    }

    /// Sends that a call was given up.
    fn cancelled(&mut self, question: u32) {
        let mut message = written();
        answer(&mut message, question).set_canceled(());
        self.send(&message);
        self.answers.remove(&question);
    }

    /// Sends that a call failed, and so does what waited for it.
    fn thrown(&mut self, question: u32, error: &Error) {
        let mut message = written();
        throw(answer(&mut message, question).init_exception(), error);
        self.send(&message);
        if let Some(Answer::Running { then, .. }) = self.answers.remove(&question) {
            for Asked { question, .. } in then {
                self.thrown(question, error);
            }
        }
    }

    /// A caller needs an answer no more. If it is not there yet, what is done for it is given up.
    fn finish(&mut self, question: u32, lets_go: bool) {
        match self.answers.entry(question) {
            Entry::Occupied(mut entry) => match entry.get_mut() {
                Answer::Running { call, then, finished } => {
                    *finished = Some(Finished { lets_go });
                    if then.is_empty() {
                        call.give_up();
                    }
                }
                Answer::Waiting { is_needed } => *is_needed = false,
                Answer::Given { .. } => {
                    if let Answer::Given { exports, .. } = entry.remove()
                        && lets_go
                    {
                        exports.into_iter().for_each(|number| self.release(number, 1));
                    }
                }
            },
            // It was said with the answer that this need not be said.
            Entry::Vacant(_) => {}
        }
    }

    /// Gives a capability once more.
    fn export(&mut self, capability: Box<dyn ClientHook>) -> u32 {
        let is_same = |export: &Export| export.capability.get_ptr() == capability.get_ptr();
        let known = self.exports.iter_mut().find(|(_, export)| is_same(export));
        if let Some((number, export)) = known {
            export.times += 1;
            return *number;
        }
        let number = self.next_export;
        self.next_export += 1;
        self.exports.insert(number, Export { capability, times: 1 });
        number
    }

    fn release(&mut self, number: u32, times: u32) {
        if let Entry::Occupied(mut export) = self.exports.entry(number) {
            export.get_mut().times = export.get().times.saturating_sub(times);
            if export.get().times == 0 {
                export.remove();
            }
        }
    }

    /// Says why nothing more is said.
    pub(super) fn abort(&mut self, why: &str) {
        let mut message = written();
        let thrown = message.init_root::<message::Builder<'_>>().init_abort();
        throw(thrown, &Error::failed(why.to_owned()));
        self.send(&message);
    }

    fn send(&mut self, message: &Builder<HeapAllocator>) {
        // A vector takes whatever is written to it.
        let _infallible = serialize::write_message(&mut self.out, message);
    }
}

/// Whom a call is for.
enum Target {
    Export(u32),
    /// What an answer brings, and where in it.
    Answer {
        question: u32,
        path: Vec<PipelineOp>,
    },
}

fn target(target: message_target::Reader<'_>) -> Result<Target, End> {
    Ok(match target.which()? {
        message_target::ImportedCap(number) => Target::Export(number),
        message_target::PromisedAnswer(promised) => {
            let promised = promised?;
            let step = |op: promised_answer::op::Reader<'_>| {
                Ok(match op.which()? {
                    promised_answer::op::Noop(()) => PipelineOp::Noop,
                    promised_answer::op::GetPointerField(at) => PipelineOp::GetPointerField(at),
                })
            };
            let path = promised.get_transform()?.iter().map(step).collect::<Result<_, End>>()?;
            Target::Answer { question: promised.get_question_id(), path }
        }
    })
}
