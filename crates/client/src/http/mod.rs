//! The queue over HTTP.
//!
//! `queue.rs` turns the verbs of the port into calls, `said.rs` writes their bodies, `seen/` reads
//! the answers, and `connection.rs` carries both. [`Client::send`] and [`Client::open`] carry
//! anything else that a server can be asked.

mod connection;
mod queue;
mod said;
mod seen;

use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};
use parking_lot::Mutex;
use rand::RngExt as _;
use rand::rngs::StdRng;
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout};
use windrow_core::RequestId;
use windrow_core::queue::{Answered, Error, Refused};

use self::connection::Pool;
pub use self::connection::Reply;
use crate::address::{Address, Finder, NotAnAddress};
use crate::options::Options;
use crate::repeat::{Attempts, Missed, Next};
use crate::trust::Trust;

const REQUEST_ID: HeaderName = HeaderName::from_static("idempotency-key");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The queue of a server, over HTTP. Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
    /// How long a call may take with all its repeats, and how long one attempt.
    within: Duration,
    attempt: Duration,
}

#[derive(Debug)]
struct Shared {
    pool: Pool,
    bearer: Option<HeaderValue>,
    random: Mutex<StdRng>,
}

/// One thing to ask, as often as it takes.
#[derive(Debug)]
struct Call {
    method: Method,
    path: String,
    body: Bytes,
    /// None for what is harmless to repeat.
    request: Option<RequestId>,
    /// How long the server may think about it on purpose.
    wait: Duration,
}

/// Something to ask that is no verb of the port, as HTTP has it.
#[derive(Clone, Debug)]
pub struct Ask {
    pub method: Method,
    /// With what stands after the question mark.
    pub path: String,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Bytes,
    /// How long the server may think about it on purpose.
    pub wait: Duration,
}

impl Call {
    fn look(path: String) -> Call {
        Call { method: Method::GET, path, body: Bytes::new(), request: None, wait: Duration::ZERO }
    }

    fn post(path: impl Into<String>, body: impl Into<Bytes>) -> Call {
        let (path, body) = (path.into(), body.into());
        Call { method: Method::POST, path, body, request: None, wait: Duration::ZERO }
    }
}

impl Client {
    /// A client of the server at an address such as `http://127.0.0.1:7117`. Nothing is sent yet.
    pub fn new(address: &str, options: Options) -> Result<Client, NotAnAddress> {
        Ok(Client::at(address.parse()?, None, options))
    }

    /// A client of a server that may move: before each connection the finder is asked where it is.
    /// As long as nobody knows, nothing is sent.
    pub fn found_by(
        finder: Finder,
        address: &str,
        options: Options,
    ) -> Result<Client, NotAnAddress> {
        Ok(Client::at(address.parse()?, Some(finder), options))
    }

    fn at(address: Address, finder: Option<Finder>, options: Options) -> Client {
        let bearer = options.token.as_ref().map(|token| {
            // A token is printable, which is all that a header wants.
            let mut value = HeaderValue::from_str(&token.bearer()).unwrap_or(JSON);
            value.set_sensitive(true);
            value
        });
        let trust = Trust::in_file(options.roots.clone());
        let pool = Pool::new(address, finder, trust, options.idle_max);
        let random = Mutex::new(rand::make_rng());
        let Options { within, attempt, .. } = options;
        let shared = Arc::new(Shared { pool, bearer, random });
        Client { shared, within, attempt }
    }

    /// The same with another patience: how long a call may take with all its repeats.
    #[must_use]
    pub fn patient(mut self, within: Duration) -> Client {
        self.within = within;
        self
    }

    /// The same with another patience for one attempt: a server that hangs is noticed by then.
    #[must_use]
    pub fn attempts(mut self, attempt: Duration) -> Client {
        self.attempt = attempt;
        self
    }

    /// Where the server is, or was last.
    pub fn address(&self) -> Address {
        self.shared.pool.address()
    }

    /// Asks once, and waits for all of the answer, whatever it is.
    pub async fn send(&self, ask: Ask) -> Result<Reply, Missed> {
        let longest = self.attempt + ask.wait;
        let exchanged = timeout(longest, self.shared.pool.exchange(self.raw(ask)?)).await;
        exchanged.map_err(|_| Missed::Lost(format!("no answer within {longest:?}")))?
    }

    /// Asks once, and gives the answer as it begins: for one that has no end.
    pub async fn open(&self, ask: Ask) -> Result<hyper::Response<hyper::body::Incoming>, Missed> {
        let (_connection, response) = self.shared.pool.send(self.raw(ask)?).await?;
        Ok(response)
    }

    fn raw(&self, ask: Ask) -> Result<Request<Full<Bytes>>, Missed> {
        let Ask { method, path, headers, body, .. } = ask;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|_| Missed::NotSent("it is no path".into()))?;
        self.introduce(request.headers_mut());
        request.headers_mut().extend(headers.into_iter().map(|(name, value)| (Some(name), value)));
        Ok(request)
    }

    /// Who calls.
    fn introduce(&self, headers: &mut HeaderMap) {
        if let Some(bearer) = &self.shared.bearer {
            headers.insert(AUTHORIZATION, bearer.clone());
        }
    }

    /// The caller's id of a request, or a new one.
    fn named(&self, request: Option<RequestId>) -> RequestId {
        request.unwrap_or_else(|| RequestId(self.shared.random.lock().random()))
    }

    /// Asks until there is an answer or the time is over.
    async fn ask<T>(
        &self,
        call: &Call,
        read: impl Fn(&[u8]) -> serde_json::Result<T>,
    ) -> Answered<T> {
        let mut attempts = match call.method {
            Method::GET => Attempts::of_looking(),
            _ => Attempts::default(),
        };
        let deadline = Instant::now() + self.within + call.wait;
        loop {
            let missed = match self.attempt(call).await {
                Ok(body) => {
                    return read(&body).map_err(|error| {
                        let why = format!("the server's answer is not understood: {error}");
                        Error::OutcomeUnknown(why)
                    });
                }
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
    async fn attempt(&self, call: &Call) -> Result<Bytes, Missed> {
        let longest = self.attempt + call.wait;
        let exchanged = timeout(longest, self.shared.pool.exchange(self.request(call))).await;
        let late = |_| Missed::Lost(format!("no answer within {longest:?}"));
        answered(exchanged.map_err(late)??)
    }

    fn request(&self, call: &Call) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(call.body.clone()));
        *request.method_mut() = call.method.clone();
        // Paths are made here, of what a path may hold.
        *request.uri_mut() = call.path.parse().unwrap_or_default();
        let headers = request.headers_mut();
        self.introduce(headers);
        if !call.body.is_empty() {
            headers.insert(CONTENT_TYPE, JSON);
        }
        let id = call.request.and_then(|id| HeaderValue::from_str(&id.to_string()).ok());
        if let Some(id) = id {
            headers.insert(REQUEST_ID, id);
        }
        request
    }
}

/// What a server says when it does not do something.
#[derive(Deserialize)]
struct Problem {
    code: String,
    detail: String,
    retry_after_ms: Option<u64>,
}

fn answered(reply: Reply) -> Result<Bytes, Missed> {
    if reply.status.is_success() {
        return Ok(reply.body);
    }
    let Ok(problem) = serde_json::from_slice::<Problem>(&reply.body) else {
        return Err(somebody_else(&reply));
    };
    let retry_after_ms = problem.retry_after_ms.or(reply.retry_after_ms);
    let (code, message) = (problem.code.into(), problem.detail);
    Err(Missed::by(Refused { code, message, retry_after_ms }))
}

/// An answer of something between us and the server.
fn somebody_else(reply: &Reply) -> Missed {
    let (status, retry_after_ms) = (reply.status, reply.retry_after_ms);
    let why = format!("something that is not Windrow answered {status}");
    match status {
        StatusCode::TOO_MANY_REQUESTS => {
            Missed::Overloaded { retry_after_ms: retry_after_ms.unwrap_or(0) }
        }
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            Missed::Unknown { why, retry_after_ms }
        }
        _ => {
            let code = format!("http_{}", status.as_u16()).into();
            Missed::Refused(Refused { code, message: why, retry_after_ms })
        }
    }
}
