//! Who calls, and whether they may.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use windrow_core::limits::RETRY_AFTER_MS;
use windrow_wire::problem::{Code, Problem};
use windrow_wire::rpc::Wrong;

use super::wrong;
use crate::auth::{Caller, Denied, Entry, Outcome, Role, Scoped};
use crate::http::App;

/// What somebody on a connection said of who they are. It is looked at anew with every call, so
/// that a token that is revoked opens nothing any more.
#[derive(Debug)]
pub(super) struct Login {
    app: Arc<App>,
    token: RefCell<Option<Rc<str>>>,
}

impl Login {
    pub(super) fn new(app: Arc<App>) -> Login {
        Login { app, token: RefCell::default() }
    }

    /// Says who calls from now on, if the token opens anything.
    pub(super) async fn with(&self, token: &str) -> Result<(), Wrong> {
        self.app.book.authenticate(Some(token)).await?;
        *self.token.borrow_mut() = Some(token.into());
        Ok(())
    }

    /// The queue as whoever calls may see it, if they have the role.
    pub(super) async fn may(&self, role: Role) -> Result<Scoped, Wrong> {
        let caller = self.caller(role).await?;
        Ok(Scoped::new(&self.app.queue, &self.app.book, caller))
    }

    async fn caller(&self, role: Role) -> Result<Caller, Wrong> {
        let token = self.token.borrow().clone();
        let caller = self.app.book.authenticate(token.as_deref()).await?;
        caller.must_be(role)?;
        Ok(caller)
    }
}

/// Writes into the audit what an operator did.
pub(super) async fn did(app: &App, caller: &Caller, verb: &str, targets: Vec<String>) {
    if targets.is_empty() {
        return;
    }
    let entry = Entry {
        at_ms: 0,
        token: caller.token().cloned(),
        caller: Arc::clone(&caller.name),
        tenant: caller.tenant.clone(),
        operation: format!("RPC {verb}"),
        targets,
        outcome: Outcome::Done,
    };
    app.audit.record(entry).await;
}

impl From<Denied> for Wrong {
    fn from(denied: Denied) -> Wrong {
        match denied {
            Denied::NoToken => {
                let detail = "this server wants a token, and none came; call login with one";
                Wrong(Problem::new(Code::Unauthorized, detail))
            }
            Denied::WrongToken => {
                let detail = "this token is not known here, or has expired or was revoked; call \
                              login with another";
                Wrong(Problem::new(Code::Unauthorized, detail))
            }
            Denied::Forbidden(why) => Wrong(Problem::new(Code::Forbidden, why)),
            Denied::Stopping => {
                Wrong(Problem::new(Code::Stopping, Denied::STOPPING).retry_after(RETRY_AFTER_MS))
            }
            Denied::Failed(failure) => wrong(failure),
        }
    }
}
