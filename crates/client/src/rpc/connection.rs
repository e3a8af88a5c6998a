//! One connection: calls go out on it as they come, and answers find their callers.
//!
//! Whoever calls writes the message and sends it, on its own thread, as far as the socket takes it;
//! a task reads, and wakes whoever waits for what it read. So a call costs no hop on its way out
//! and one on its way back, and any number of them may be under way. A call that is given up is
//! taken back from the server too.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use capnp::any_pointer;
use parking_lot::Mutex;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use windrow_core::queue::Refused;
use windrow_wire::problem::Code;
use windrow_wire::queue_capnp::queue;
use windrow_wire::rpc::MESSAGE_MAX;
use windrow_wire::rpc::frame::length;

use super::frame::{self, Heard, Method, Read, Target, Written};
use crate::address::Address;
use crate::options::Token;
use crate::repeat::Missed;

/// Bytes that are read at once.
const BUFFER: usize = 64 * 1024;
/// Room that stays for what goes out.
const OUT_KEPT: usize = 256 * 1024;

const INTERFACE: u64 = <queue::Client as capnp::traits::HasTypeId>::TYPE_ID;
const LOGIN: Method = Method { interface: INTERFACE, number: 4 };
const OPEN: Method = Method { interface: INTERFACE, number: 5 };

/// A connection to a server, opened.
#[derive(Debug)]
pub(super) struct Connection {
    link: Arc<Link>,
    /// The task that reads.
    hearing: AbortHandle,
    /// The queue, as the server numbers it.
    queue: u32,
    next: AtomicU32,
}

/// What callers and the reading task share.
#[derive(Debug)]
struct Link {
    inside: Mutex<Inside>,
}

#[derive(Debug)]
struct Inside {
    questions: HashMap<u32, oneshot::Sender<Result<Read, String>>>,
    /// None once the connection is over: that is how the server is told.
    writer: Option<Arc<OwnedWriteHalf>>,
    out: Vec<u8>,
    /// How much of that has gone.
    gone: usize,
    /// A task waits until the socket takes more.
    is_flushing: bool,
    /// Why it is over, if it is.
    end: Option<String>,
}

impl Connection {
    /// Connects, says who calls, and gets the queue.
    pub(super) async fn open(
        address: &Address,
        token: Option<&Token>,
    ) -> Result<Connection, Missed> {
        let unreached =
            |error: io::Error| Missed::NotSent(format!("{address} cannot be reached: {error}"));
        let stream = TcpStream::connect(address.authority()).await.map_err(unreached)?;
        // Small requests leave at once; if the socket refuses that, they leave later.
        let _sooner = stream.set_nodelay(true);
        let (reader, writer) = stream.into_split();
        let inside = Inside {
            questions: HashMap::new(),
            writer: Some(Arc::new(writer)),
            out: Vec::new(),
            gone: 0,
            is_flushing: false,
            end: None,
        };
        let link = Arc::new(Link { inside: Mutex::new(inside) });
        let hearing = tokio::spawn(Hearing { link: Arc::clone(&link) }.run(reader)).abort_handle();
        let mut connection = Connection { link, hearing, queue: 0, next: AtomicU32::new(0) };
        connection.queue = connection.enter(token).await.map_err(|missed| match missed {
            // Nothing was asked yet that could have been done.
            Missed::Lost(why) => Missed::NotSent(why),
            missed => missed,
        })?;
        Ok(connection)
    }

    async fn enter(&self, token: Option<&Token>) -> Result<u32, Missed> {
        let first = self.number();
        let _first = self.link.send(first, &frame::bootstrap(first))?;
        let (method, text) = match token {
            Some(token) => (LOGIN, Some(token.text())),
            None => (OPEN, None),
        };
        let question = self.number();
        let call = frame::call(question, Target::Answer(first), method, 0, |params| {
            if let Some(text) = text {
                params.init_as::<queue::login_params::Builder<'_>>().set_token(text);
            } else {
                params.init_as::<queue::open_params::Builder<'_>>();
            }
        });
        let asked = self.link.send(question, &call)?;
        drop(call);
        frame::imported(&asked.answer().await?)
    }

    fn number(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn is_over(&self) -> bool {
        self.link.inside.lock().end.is_some()
    }

    /// Sends a call of the queue. What comes back waits for the answer.
    pub(super) fn call(
        &self,
        method: Method,
        words: usize,
        write: impl FnOnce(any_pointer::Builder<'_>),
    ) -> Result<Asked, Missed> {
        let question = self.number();
        let call = frame::call(question, Target::Import(self.queue), method, words, write);
        let bytes = frame::bytes(&call);
        if bytes > MESSAGE_MAX {
            let message = format!("a message has {bytes} bytes; at most {MESSAGE_MAX}");
            let code = Code::TooLarge.name().into();
            return Err(Missed::Refused(Refused { code, message, retry_after_ms: None }));
        }
        self.link.send(question, &call)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Nobody waits on it any more: who does, holds it.
        self.link.over("the client closed it");
        // A server that hangs never says that it is over.
        self.hearing.abort();
    }
}

/// A question that was sent. Dropping it without having the answer takes it back.
#[derive(Debug)]
pub(super) struct Asked {
    link: Arc<Link>,
    question: u32,
    answer: oneshot::Receiver<Result<Read, String>>,
    is_answered: bool,
}

impl Asked {
    pub(super) async fn answer(mut self) -> Result<Read, Missed> {
        let heard = (&mut self.answer).await;
        self.is_answered = true;
        let lost = |_| Missed::Lost("the connection is gone".into());
        heard.map_err(lost)?.map_err(Missed::Lost)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.is_answered {
            self.link.take_back(self.question);
        }
    }
}

impl Link {
    /// Sends the message of a question.
    fn send(self: &Arc<Self>, question: u32, message: &Written) -> Result<Asked, Missed> {
        let (tell, answer) = oneshot::channel();
        let mut inside = self.inside.lock();
        if let Some(why) = &inside.end {
            return Err(Missed::NotSent(why.clone()));
        }
        inside.questions.insert(question, tell);
        frame::append(&mut inside.out, message);
        self.flush(&mut inside);
        Ok(Asked { link: Arc::clone(self), question, answer, is_answered: false })
    }

    /// Gives a question up.
    fn take_back(self: &Arc<Self>, question: u32) {
        let mut inside = self.inside.lock();
        if inside.questions.remove(&question).is_some() && inside.end.is_none() {
            frame::append(&mut inside.out, &frame::finish(question));
            self.flush(&mut inside);
        }
    }

    /// Writes as much as the socket takes. What it does not take, a task writes later.
    fn flush(self: &Arc<Self>, inside: &mut Inside) {
        if inside.is_flushing {
            return;
        }
        if let Err(error) = inside.write() {
            inside.over(&error.to_string());
        } else if !inside.out.is_empty()
            && let Some(writer) = inside.writer.clone()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            inside.is_flushing = true;
            runtime.spawn(Arc::clone(self).drain(writer));
        }
    }

    async fn drain(self: Arc<Self>, writer: Arc<OwnedWriteHalf>) {
        loop {
            let writable = writer.writable().await;
            let mut inside = self.inside.lock();
            if let Err(error) = writable.and_then(|()| inside.write()) {
                inside.over(&error.to_string());
            }
            if inside.out.is_empty() {
                inside.is_flushing = false;
                return;
            }
        }
    }

    /// Hands an answer to whoever asked.
    fn answered(&self, question: u32, wants_finish: bool, read: Read) {
        let mut inside = self.inside.lock();
        // Nobody has asked, or asks any more.
        let Some(tell) = inside.questions.remove(&question) else { return };
        if wants_finish {
            // Goes along with the next call; nothing waits for it.
            frame::append(&mut inside.out, &frame::finish(question));
        }
        drop(inside);
        // Whoever asked may have gone this moment.
        let _heard = tell.send(Ok(read));
    }

    fn over(&self, why: &str) {
        self.inside.lock().over(why);
    }
}

impl Inside {
    fn write(&mut self) -> io::Result<()> {
        let Some(writer) = &self.writer else { return Ok(()) };
        while self.gone < self.out.len() {
            match writer.try_write(&self.out[self.gone..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.gone += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.out.shrink_to(OUT_KEPT);
        self.gone = 0;
        Ok(())
    }

    /// Nothing comes or goes any more.
    fn over(&mut self, why: &str) {
        let why = self.end.get_or_insert_with(|| why.to_owned()).clone();
        (self.writer, self.gone) = (None, 0);
        self.out.clear();
        for (_, tell) in self.questions.drain() {
            // Whoever asked may have gone.
            let _heard = tell.send(Err(why.clone()));
        }
    }
}

/// The task that reads. When it ends, so does the connection, whatever it ends of.
struct Hearing {
    link: Arc<Link>,
}

impl Hearing {
    async fn run(self, reader: OwnedReadHalf) {
        let why = self.hear(reader).await;
        self.link.over(&why);
    }

    /// Reads until there is no more; says why.
    async fn hear(&self, mut reader: OwnedReadHalf) -> String {
        let mut bytes = Vec::with_capacity(BUFFER);
        loop {
            bytes.reserve(BUFFER / 2);
            match reader.read_buf(&mut bytes).await {
                Ok(0) => return "the server closed the connection".into(),
                Ok(_) => {}
                Err(error) => return error.to_string(),
            }
            let mut taken = 0;
            loop {
                match length(&bytes[taken..], frame::ANSWER_MAX) {
                    Err(why) => return why,
                    Ok(Some(length)) if bytes.len() - taken >= length => {
                        if let Some(why) = self.take(&bytes[taken..taken + length]) {
                            return why;
                        }
                        taken += length;
                    }
                    Ok(Some(length)) => {
                        bytes.reserve(length - (bytes.len() - taken));
                        break;
                    }
                    Ok(None) => break,
                }
            }
            bytes.drain(..taken);
        }
    }

    /// Takes a message; says why if it is the last.
    fn take(&self, message: &[u8]) -> Option<String> {
        let read = frame::read(message).and_then(|read| Ok((frame::heard(&read)?, read)));
        match read {
            Ok((Heard::Answer { question, wants_finish }, read)) => {
                self.link.answered(question, wants_finish, read);
                None
            }
            Ok((Heard::Over(why), _)) => Some(why),
            Ok((Heard::Nothing, _)) => None,
            Err(error) => Some(format!("the server is not understood: {error}")),
        }
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.link.over("nobody reads from it any more");
    }
}
