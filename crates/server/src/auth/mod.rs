//! Identity: who asks, what they may do, and whose things they may see.
//!
//! A request is authenticated once, at the gate (`http/gate.rs`), by the token it shows: [`Book`]
//! makes a [`Caller`] of it, with a [`Role`] and perhaps a tenant. The gate asks the table of
//! operations which role a route needs, refuses what is not in the table, and writes what an
//! operator or an admin did into the [`Audit`].
//!
//! # For whoever adds a route
//!
//! 1. Add an `Operation` with its role to `http/operations.rs`, or, if it is not under `/api/v1`,
//!    a `Plain` route to `http/connection.rs`, or a page to `console/mod.rs`. A route that is in
//!    none of them does not answer.
//! 2. Take [`Scoped`] as an argument of the handler instead of the queue. It has the verbs of the
//!    queue, and each shows and touches only what the caller may:
//!
//!    ```text
//!    pub(super) async fn cancel(queue: Scoped, Named(id): Named) -> Result<Json<…>, Failed> {
//!        let each = queue.cancel(vec![item_id(&id)?]).await?;
//!    ```
//!
//!    What is not about the things of tenants is `queue.whole()?`, which is the queue itself, for
//!    callers without a tenant only. What you read by other ways you filter with
//!    `queue.sees(&tenant)`; what comes with a tenant in it goes through `queue.own(tenant)?`.
//!    `App::queue` gives the bare queue only to what serves no caller (`for_the_server`): a test
//!    knows the files in which that stands.
//! 3. What the path does not say about the targets of an audited operation, the handler adds to
//!    its response with [`Targets`].
//! 4. Add the row that the test `auth` asks for to docs/reference/auth.md.
//!
//! Another protocol does the same with `App::book` and [`Scoped::new`].

mod audit;
mod book;
mod caller;
mod guarded;
mod role;
mod scoped;
mod session;
mod token;

pub(crate) use audit::{Audit, Entry, Outcome};
pub(crate) use book::Book;
pub(crate) use caller::{Caller, Denied, Targets};
pub(crate) use guarded::Guarded;
pub(crate) use role::Role;
pub(crate) use scoped::Scoped;
pub(crate) use session::SESSION_FOR_S;
pub(crate) use token::{Fresh, Kept, Wanted};
