//! Cap'n Proto RPC: the queue for programs that want it fast.
//!
//! [`plain`] is what a connection gets first: four calls on one queue, and the way to [`full`],
//! which is everything. Both translate, with `windrow-wire`, and leave every rule to the core.
//! [`login`] decides who may call. [`serve`] accepts connections and gives each to one of a few
//! threads, because the objects of a connection cannot leave their thread; [`connection`] bounds
//! what one may hold and how long it may take. [`incoming`] finds the messages in its bytes, and
//! [`vat`] speaks the protocol: which call is for whom, and where its answer goes. [`handing`] sees
//! that nothing is handed to somebody who has gone away. [`client`] is the other side.

pub(crate) mod client;
mod connection;
mod full;
mod handing;
mod incoming;
mod login;
mod pace;
mod plain;
mod serve;
mod vat;

use std::sync::Arc;

use tokio::sync::OnceCell;
use windrow_core::settings::{OnExpiry, Policy, Settings};
use windrow_engine::Failure;
use windrow_wire::problem::{Code, Problem};
use windrow_wire::rpc::Wrong;

use crate::http::App;

pub(crate) use connection::Deadlines;
pub(crate) use serve::serve;

/// What every call sees.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    app: Arc<App>,
    /// The queue of the plain calls, and whether it was set up.
    queue: Arc<str>,
    is_set_up: Arc<OnceCell<()>>,
    /// Where what must go on without its connection goes on.
    runtime: tokio::runtime::Handle,
}

impl Shared {
    pub(crate) fn new(app: Arc<App>, queue: &str) -> Shared {
        let runtime = tokio::runtime::Handle::current();
        Shared { app, queue: queue.into(), is_set_up: Arc::default(), runtime }
    }

    /// The queue of the plain calls, set up as they promise when it is first used: what expires is
    /// there again at once, however often, and what is removed is gone.
    async fn plain_queue(&self) -> Result<&Arc<str>, Failure> {
        let set_up = async || {
            let defaults =
                Policy { on_expiry: OnExpiry::Requeue, max_attempts: 0, ..Policy::default() };
            let settings = Settings { defaults, forget_completed: true, ..Settings::default() };
            self.app.queue.for_the_server().configure(Arc::clone(&self.queue), settings).await
        };
        self.is_set_up.get_or_try_init(set_up).await?;
        Ok(&self.queue)
    }
}

/// Why the engine did not answer.
fn wrong(failure: Failure) -> Wrong {
    match failure {
        Failure::Refused(refusal) => refusal.into(),
        Failure::Store(error) => error.into(),
        Failure::Overloaded { retry_after_ms } => {
            let problem = Problem::new(Code::Overloaded, failure.to_string());
            Wrong(problem.retry_after(retry_after_ms))
        }
    }
}

/// The same for calls that can only fail: the code stands in front.
fn exception(wrong: &Wrong) -> capnp::Error {
    let text = format!("{}: {}", wrong.0.code.name(), wrong.0.detail);
    match wrong.0.code {
        Code::Overloaded | Code::QueueFull | Code::StoreFull => capnp::Error::overloaded(text),
        _ => capnp::Error::failed(text),
    }
}
