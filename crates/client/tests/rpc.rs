//! What the client over RPC sends again, and what it does not: against a server that does as it is
//! told, because a real one cannot be made to lose an answer on purpose.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use capnp_rpc::RpcSystem;
use capnp_rpc::rpc_twoparty_capnp::Side;
use capnp_rpc::twoparty::VatNetwork;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::LocalSet;
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};
use windrow_client::rpc::Client;
use windrow_client::{Options, Token};
use windrow_core::command::{Claim, NewItem};
use windrow_core::item::Body;
use windrow_core::queue::{Error, Queue as _};
use windrow_core::{ItemId, RequestId};
use windrow_wire::queue_capnp::{queue, windrow};

/// What the server does with the next call.
#[derive(Clone, Copy, Debug)]
enum Act {
    Answer,
    /// Hangs up without an answer.
    HangUp,
    Refuse(&'static str, u64),
    Throw(&'static str),
    /// Answers nothing, until the call is taken back.
    Wait,
}

/// What a server was told, call by call: the request id, or a token.
type Heard = Vec<String>;

struct Fake {
    acts: RefCell<VecDeque<Act>>,
    heard: RefCell<Heard>,
    /// Told when something more was heard.
    more: Notify,
}

/// One connection to it.
struct Connection {
    fake: Rc<Fake>,
    hang_up: Notify,
}

impl Fake {
    fn hear(&self, told: &str) {
        self.heard.borrow_mut().push(told.to_owned());
        self.more.notify_one();
    }

    fn next(&self, told: &str) -> Option<Act> {
        self.hear(told);
        self.acts.borrow_mut().pop_front()
    }
}

impl Connection {
    /// Acts; the caller writes what is refused.
    async fn act(&self, told: &str) -> Result<Option<(&'static str, u64)>, capnp::Error> {
        match self.fake.next(told) {
            Some(Act::Answer) | None => Ok(None),
            Some(Act::Refuse(code, after)) => Ok(Some((code, after))),
            Some(Act::Throw(text)) => Err(capnp::Error::failed(text.to_owned())),
            Some(Act::HangUp) => {
                self.hang_up.notify_one();
                std::future::pending().await
            }
            Some(Act::Wait) => {
                let _gone = Gone(&self.fake);
                std::future::pending().await
            }
        }
    }
}

/// Says that a call was taken back.
struct Gone<'a>(&'a Fake);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.hear("taken back");
    }
}

struct First(Rc<Connection>);
struct Whole(Rc<Connection>);

impl queue::Server for First {
    async fn open(
        self: Rc<Self>,
        _: queue::OpenParams,
        mut results: queue::OpenResults,
    ) -> Result<(), capnp::Error> {
        results.get().set_queue(capnp_rpc::new_client(Whole(Rc::clone(&self.0))));
        Ok(())
    }

    async fn login(
        self: Rc<Self>,
        params: queue::LoginParams,
        mut results: queue::LoginResults,
    ) -> Result<(), capnp::Error> {
        let token = params.get()?.get_token()?.to_string()?;
        if let Some(Act::Throw(text)) = self.0.fake.next(&token) {
            return Err(capnp::Error::failed(text.to_owned()));
        }
        results.get().set_queue(capnp_rpc::new_client(Whole(Rc::clone(&self.0))));
        Ok(())
    }
}

impl windrow::Server for Whole {
    async fn enqueue(
        self: Rc<Self>,
        params: windrow::EnqueueParams,
        mut results: windrow::EnqueueResults,
    ) -> Result<(), capnp::Error> {
        let id = params.get()?.get_request_id()?.to_vec();
        match self.0.act(&format!("{id:?}")).await? {
            Some((code, after)) => {
                let mut refused = results.get().init_refused();
                refused.set_code(code);
                refused.set_retry_after_ms(after);
            }
            None => results.get().init_each(1).get(0).set_id(&[7; 16]),
        }
        Ok(())
    }

    async fn claim(
        self: Rc<Self>,
        params: windrow::ClaimParams,
        _: windrow::ClaimResults,
    ) -> Result<(), capnp::Error> {
        let id = params.get()?.get_request_id()?.to_vec();
        self.0.act(&format!("{id:?}")).await.map(drop)
    }
}

/// A server on a thread of its own.
struct Serving {
    address: String,
    /// Told after how much it is enough.
    enough: tokio::sync::oneshot::Sender<usize>,
    thread: JoinHandle<Heard>,
}

impl Serving {
    fn start(acts: &[Act]) -> Serving {
        let (tell, told) = mpsc::channel();
        let (enough, is_enough) = tokio::sync::oneshot::channel();
        let acts = acts.iter().copied().collect();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            LocalSet::new().block_on(&runtime, async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                tell.send(listener.local_addr().unwrap().to_string()).unwrap();
                let (acts, heard) = (RefCell::new(acts), RefCell::default());
                let fake = Rc::new(Fake { acts, heard, more: Notify::new() });
                let accepting = Rc::clone(&fake);
                tokio::task::spawn_local(async move {
                    loop {
                        let (stream, _) = listener.accept().await.unwrap();
                        tokio::task::spawn_local(serve(Rc::clone(&accepting), stream));
                    }
                });
                let count = is_enough.await.unwrap();
                while fake.heard.borrow().len() < count {
                    fake.more.notified().await;
                }
                fake.heard.take()
            })
        });
        Serving { address: told.recv().unwrap(), enough, thread }
    }

    /// Waits until it was told so much; what that was.
    fn heard(self, count: usize) -> Heard {
        self.enough.send(count).unwrap();
        self.thread.join().unwrap()
    }
}

/// Serves a connection until it ends or is hung up on.
async fn serve(fake: Rc<Fake>, stream: TcpStream) {
    let (reader, writer) = stream.into_split();
    let options = capnp::message::ReaderOptions::new();
    let network = VatNetwork::new(reader.compat(), writer.compat_write(), Side::Server, options);
    let connection = Rc::new(Connection { fake, hang_up: Notify::new() });
    let first: queue::Client = capnp_rpc::new_client(First(Rc::clone(&connection)));
    let system = RpcSystem::new(Box::new(network), Some(first.client));
    tokio::select! {
        _ended = system => {}
        () = connection.hang_up.notified() => {}
    }
}

fn item() -> Vec<NewItem> {
    vec![NewItem::new(Body::new("t", "q"))]
}

fn client(address: &str, within: Duration) -> Client {
    Client::new(address, Options { within, ..Options::default() }).unwrap()
}

const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_under_the_same_id() {
    let serving = Serving::start(&[Act::HangUp, Act::Answer]);
    let each = client(&serving.address, LONG).enqueue(item(), None).await.unwrap();
    assert!(each[0].is_ok());
    let heard = serving.heard(2);
    assert!(heard.len() == 2 && heard[0] == heard[1] && heard[0] != "[]", "{heard:?}");
}

#[tokio::test]
async fn a_callers_own_id_is_sent_and_calls_without_one_get_different_ones() {
    let serving = Serving::start(&[Act::Answer; 3]);
    let client = client(&serving.address, LONG);
    client.enqueue(item(), Some(RequestId(7))).await.unwrap();
    client.enqueue(item(), None).await.unwrap();
    client.enqueue(item(), None).await.unwrap();
    let heard = serving.heard(3);
    assert_eq!(heard[0], format!("{:?}", 7_u128.to_be_bytes()));
    assert!(heard[1] != heard[2] && heard[1] != heard[0], "{heard:?}");
}

#[tokio::test]
async fn a_busy_or_stopping_server_is_asked_again() {
    let busy = [Act::Refuse("overloaded", 1), Act::Throw("overloaded: many calls")];
    let acts = [busy[0], busy[1], Act::Refuse("stopping", 1), Act::Answer];
    let serving = Serving::start(&acts);
    assert!(client(&serving.address, LONG).enqueue(item(), None).await.is_ok());
    assert_eq!(serving.heard(4).len(), 4);
}

#[tokio::test]
async fn a_refusal_is_not_asked_again_and_says_what_was_written() {
    let acts =
        [Act::Refuse("invalid", 0), Act::Refuse("stopping", 700), Act::Refuse("overloaded", 700)];
    let serving = Serving::start(&acts);
    let client = client(&serving.address, Duration::ZERO);
    let error = client.enqueue(item(), None).await.unwrap_err();
    assert_eq!(error.code(), Some("invalid"));
    let error = client.enqueue(item(), None).await.unwrap_err();
    assert!(matches!(error, Error::NotApplied(_)), "{error}");
    let error = client.enqueue(item(), None).await.unwrap_err();
    assert_eq!(error, Error::Overloaded { retry_after_ms: 700 });
    assert_eq!(serving.heard(3).len(), 3);
}

#[tokio::test]
async fn what_cannot_be_known_is_said_to_be_unknown() {
    let serving = Serving::start(&[Act::HangUp]);
    let error = client(&serving.address, Duration::ZERO).enqueue(item(), None).await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error}");
    serving.heard(1);
}

#[tokio::test]
async fn a_server_that_is_not_there_took_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let error = client(&address, Duration::ZERO).enqueue(item(), None).await.unwrap_err();
    assert!(matches!(&error, Error::NotApplied(why) if why.contains(&address)), "{error}");
}

#[tokio::test]
async fn a_method_that_an_older_server_lacks_is_refused() {
    let serving = Serving::start(&[Act::Answer]);
    let client = client(&serving.address, LONG);
    let error = client.cancel(ItemId(1), None).await.unwrap_err();
    assert_eq!(error.code(), Some("method_not_allowed"));
    client.enqueue(item(), None).await.unwrap();
    serving.heard(1);
}

#[tokio::test]
async fn a_call_that_is_given_up_is_taken_back_from_the_server() {
    let serving = Serving::start(&[Act::Wait]);
    let client = client(&serving.address, LONG);
    let waiting = client.claim(Claim::new("w", "q", 1), 10_000, None);
    assert!(tokio::time::timeout(Duration::from_millis(300), waiting).await.is_err());
    let heard = serving.heard(2);
    assert_eq!(heard[1], "taken back", "{heard:?}");
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_asked_for_on_another_connection() {
    let serving = Serving::start(&[Act::Wait, Act::Answer]);
    let attempt = Duration::from_millis(200);
    let options = Options { attempt, ..Options::default() };
    let client = Client::new(&serving.address, options).unwrap();
    assert!(client.enqueue(item(), None).await.is_ok());
    let heard = serving.heard(3);
    assert!(heard.contains(&"taken back".to_owned()), "{heard:?}");
}

#[tokio::test]
async fn a_token_is_shown_once_and_one_that_opens_nothing_is_a_refusal() {
    let serving =
        Serving::start(&[Act::Answer, Act::Answer, Act::Answer, Act::Throw("unauthorized: no")]);
    let token = |text: &str| Some(Token::new(text).unwrap());
    let options = Options { token: token("s3cret"), ..Options::default() };
    let known = Client::new(&serving.address, options).unwrap();
    known.enqueue(item(), None).await.unwrap();
    known.enqueue(item(), None).await.unwrap();
    assert!(!format!("{known:?}").contains("s3cret"));
    drop(known);
    let options = Options { token: token("wrong"), ..Options::default() };
    let error =
        Client::new(&serving.address, options).unwrap().enqueue(item(), None).await.unwrap_err();
    assert_eq!(error.code(), Some("unauthorized"));
    let heard = serving.heard(4);
    assert_eq!((&*heard[0], &*heard[3]), ("s3cret", "wrong"), "{heard:?}");
}
