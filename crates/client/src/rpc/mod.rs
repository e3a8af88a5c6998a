//! The queue over Cap'n Proto RPC.
//!
//! `queue.rs` turns the verbs of the port into calls, with what `windrow-wire` writes and reads;
//! `connection.rs` carries them, all on one connection, and `frame.rs` knows the protocol. It is
//! spoken here and not by `capnp-rpc`, whose objects cannot leave their thread: a call would cross
//! to that thread and its answer back, each time waking somebody.

mod connection;
mod frame;
mod queue;

use std::sync::Arc;
use std::time::Duration;

use capnp::any_pointer;
use parking_lot::Mutex;
use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep, timeout_at};
use windrow_core::RequestId;
use windrow_core::queue::{Answered, Error, Refused};
use windrow_wire::queue_capnp::windrow;
use windrow_wire::rpc::Wrong;

use self::connection::Connection;
use self::frame::Method;
use crate::address::{Address, NotAnAddress};
use crate::options::Options;
use crate::repeat::{Attempts, Missed, Next};

/// The queue of a server, over RPC. Cheap to clone; clones share their connection.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    address: Address,
    options: Options,
    current: Mutex<Option<Arc<Connection>>>,
    /// Held by the one who connects.
    connecting: tokio::sync::Mutex<()>,
    random: Mutex<StdRng>,
}

/// One thing to ask, as often as it takes.
#[derive(Clone, Copy, Debug)]
struct Call {
    /// The method's number in the schema.
    method: u16,
    /// About how many words it takes to say.
    words: usize,
    /// How long the server may think about it on purpose.
    wait: Duration,
    only_looks: bool,
}

impl Call {
    const fn of(method: u16) -> Call {
        Call { method, words: 0, wait: Duration::ZERO, only_looks: false }
    }

    const fn look(method: u16) -> Call {
        Call { only_looks: true, ..Call::of(method) }
    }
}

/// What an answer says: something, no, or nothing that is understood.
type Told<T> = Result<Result<T, Refused>, Wrong>;

impl Client {
    /// A client of the server at an address such as `127.0.0.1:7118` or `rpc://127.0.0.1:7118`.
    /// Nothing is sent yet.
    pub fn new(address: &str, options: Options) -> Result<Client, NotAnAddress> {
        let shared = Shared {
            address: Address::rpc(address)?,
            options,
            current: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            random: Mutex::new(rand::make_rng()),
        };
        Ok(Client { shared: Arc::new(shared) })
    }

    /// Where the server is.
    pub fn address(&self) -> &Address {
        &self.shared.address
    }

    /// The caller's id of a request, or a new one.
    fn named(&self, request: Option<RequestId>) -> RequestId {
        request.unwrap_or_else(|| RequestId(self.shared.random.lock().random()))
    }

    /// Asks until there is an answer or the time is over.
    async fn ask<T>(
        &self,
        call: Call,
        write: impl Fn(any_pointer::Builder<'_>),
        read: impl Fn(any_pointer::Reader<'_>) -> Told<T>,
    ) -> Answered<T> {
        let begun = Instant::now();
        let deadline = begun + self.shared.options.within + call.wait;
        let mut attempts =
            if call.only_looks { Attempts::of_looking() } else { Attempts::default() };
        loop {
            let missed = match self.attempt(call, &write).await {
                Ok(answer) => match told(&answer, &read) {
                    Ok(answer) => return answer,
                    Err(missed) => missed,
                },
                Err(missed) => missed,
            };
            let left = deadline.saturating_duration_since(Instant::now());
            let jitter = self.shared.random.lock().random::<f64>();
            match attempts.after(missed, left, jitter) {
                Next::Again { after } => sleep(after).await,
                Next::End(error) => return Err(error),
            }
        }
    }

    /// Asks once.
    async fn attempt(
        &self,
        call: Call,
        write: &impl Fn(any_pointer::Builder<'_>),
    ) -> Result<frame::Read, Missed> {
        let longest = self.shared.options.attempt + call.wait;
        let deadline = Instant::now() + longest;
        let connection = match self.open() {
            Some(connection) => connection,
            None => {
                let unreached = |_| Missed::NotSent(format!("no connection within {longest:?}"));
                timeout_at(deadline, self.connect()).await.map_err(unreached)??
            }
        };
        let interface = <windrow::Client as capnp::traits::HasTypeId>::TYPE_ID;
        let method = Method { interface, number: call.method };
        let asked = connection.call(method, call.words, write)?;
        match timeout_at(deadline, asked.answer()).await {
            Ok(answer) => answer,
            Err(_) => {
                // It may be gone without anybody having said so. Who still waits on it may.
                self.leave(&connection);
                Err(Missed::Lost(format!("no answer within {longest:?}")))
            }
        }
    }

    /// The connection, if it is open.
    fn open(&self) -> Option<Arc<Connection>> {
        let current = self.shared.current.lock();
        current.as_ref().filter(|connection| !connection.is_over()).map(Arc::clone)
    }

    /// The connection, opened by whoever comes first.
    async fn connect(&self) -> Result<Arc<Connection>, Missed> {
        let _first = self.shared.connecting.lock().await;
        if let Some(connection) = self.open() {
            return Ok(connection);
        }
        let Shared { address, options, .. } = &*self.shared;
        let connection = Arc::new(Connection::open(address, options.token.as_ref()).await?);
        *self.shared.current.lock() = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Uses a connection no more.
    fn leave(&self, left: &Arc<Connection>) {
        let mut current = self.shared.current.lock();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, left)) {
            *current = None;
        }
    }
}

/// What an answer says. A refusal that may pass is one more thing to repeat.
fn told<T>(
    answer: &frame::Read,
    read: impl Fn(any_pointer::Reader<'_>) -> Told<T>,
) -> Result<Answered<T>, Missed> {
    match read(frame::results(answer)?) {
        Ok(Ok(answer)) => Ok(Ok(answer)),
        Ok(Err(refused)) => Err(Missed::by(refused)),
        Err(wrong) => {
            let why = format!("the server's answer is not understood: {}", wrong.0.detail);
            Ok(Err(Error::OutcomeUnknown(why)))
        }
    }
}
