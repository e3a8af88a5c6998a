//! Who asks, and why they are refused.

use std::sync::Arc;

use windrow_core::Refusal;
use windrow_core::ports::StoreError;
use windrow_engine::Failure;

use super::Role;

/// Who asks. Made once for each request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Caller {
    /// The name of the token.
    pub(crate) name: Arc<str>,
    pub(crate) role: Role,
    /// The only tenant whose things the caller may see and touch; all if none.
    pub(crate) tenant: Option<Arc<str>>,
    pub(crate) by: By,
}

/// What let a caller in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// Nothing: the server asks for no token.
    Nothing,
    /// The token that the operator brought along.
    Given,
    /// The token with this id.
    Token(Arc<str>),
}

impl Caller {
    /// Somebody who may do everything.
    pub(super) fn admin(name: &str, by: By) -> Caller {
        Caller { name: name.into(), role: Role::Admin, tenant: None, by }
    }

    /// Whoever has the store itself in hand.
    pub(crate) fn by_hand() -> Caller {
        Caller::admin("(command line)", By::Given)
    }

    /// Whoever has the secret that runs the declared workers.
    pub(super) fn scheduler() -> Caller {
        let name = "(workers' secret)".into();
        Caller { name, role: Role::Worker, tenant: None, by: By::Given }
    }

    /// The id of its token, if it has one.
    pub(crate) fn token(&self) -> Option<&Arc<str>> {
        match &self.by {
            By::Token(id) => Some(id),
            By::Nothing | By::Given => None,
        }
    }

    /// Refuses what needs a role that the caller has not.
    pub(crate) fn must_be(&self, role: Role) -> Result<(), Denied> {
        if self.role.may(role) {
            return Ok(());
        }
        let (has, needs) = (self.role.name(), role.name());
        Err(Denied::Forbidden(format!("this needs the role {needs}, and the token has {has}")))
    }
}

/// Why a caller got nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Denied {
    /// No token came.
    NoToken,
    /// One that opens nothing: unknown, wrong, expired or revoked. Which of these, is not said.
    WrongToken,
    Forbidden(String),
    /// The server stops, and begins nothing new.
    Stopping,
    Failed(Failure),
}

impl Denied {
    /// What a program says in its own words stands behind the semicolon.
    pub(crate) const NO_TOKEN: &str =
        "this server wants a token, and none came; send it as Authorization: Bearer";
    pub(crate) const WRONG_TOKEN: &str =
        "this token is not known here, or has expired or was revoked; send another";
    pub(crate) const STOPPING: &str =
        "no work is taken in or handed out any more; renewing and settling still works";
}

impl std::fmt::Display for Denied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Denied::NoToken => f.write_str(Denied::NO_TOKEN),
            Denied::WrongToken => f.write_str(Denied::WRONG_TOKEN),
            Denied::Forbidden(why) => f.write_str(why),
            Denied::Stopping => f.write_str(Denied::STOPPING),
            Denied::Failed(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for Denied {}

impl From<Failure> for Denied {
    fn from(failure: Failure) -> Denied {
        Denied::Failed(failure)
    }
}

impl From<Refusal> for Denied {
    fn from(refusal: Refusal) -> Denied {
        Denied::Failed(refusal.into())
    }
}

impl From<StoreError> for Denied {
    fn from(error: StoreError) -> Denied {
        Denied::Failed(error.into())
    }
}

/// What an audited operation was done to, besides what its path says. Goes with the response.
#[derive(Clone, Debug)]
pub(crate) struct Targets(pub(crate) Vec<String>);
