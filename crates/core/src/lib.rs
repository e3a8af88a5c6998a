//! The rules of the queue: what an item is, what may happen to it, and who may say so.
//!
//! This crate does no I/O, reads no clock and awaits nothing. A store shows it what it holds
//! through [`Ledger`], hands it a [`Command`] and the time, and writes down the [`Change`]s that
//! come back. Because deciding is pure, a store may decide again after a conflict, a simulator may
//! run a year in a second, and every store obeys the same laws.
//!
//! Read `item.rs` first, then `transitions.rs`, then the verbs in `rules/`.

pub mod change;
pub mod command;
pub mod explain;
pub mod find;
pub mod id;
pub mod invariants;
pub mod item;
pub mod ledger;
pub mod limits;
pub mod note;
pub mod planted;
pub mod ports;
pub mod queue;
pub mod refusal;
pub mod resource;
pub mod retry;
pub mod route;
pub mod rules;
pub mod settings;
pub mod tally;
pub mod text;
pub mod time;
pub mod trace;
pub mod trail;
pub mod transitions;
pub mod vitals;

pub use change::{Change, Changes};
pub use command::{Answer, Command, Request};
pub use id::{ItemId, LeaseId, RequestId};
pub use item::{Body, End, Item, State, Status};
pub use ledger::Ledger;
pub use refusal::Refusal;
pub use rules::decide;
pub use time::Timestamp;
