//! The public contract: what goes over the wire.
//!
//! These types are neither the domain's nor the disk's. They say what a body looks like in JSON and
//! a message in Cap'n Proto, turn it into commands of the core and answers back into bodies, and
//! nothing else: no rule is here.
//! What a text may hold is checked by the rules, which name the field as it is spelt here.

pub mod answer;
pub mod bounds;
pub mod bytes;
pub mod claim;
pub mod document;
pub mod event;
pub mod filter;
pub mod graph;
pub mod item;
pub mod list;
pub mod new;
pub mod object;
pub mod problem;
pub mod read;
#[cfg(feature = "rpc")]
pub mod rpc;
pub mod schedule;
pub mod search;
pub mod settings;
pub mod settle;
pub mod source;
pub mod stage;
pub mod time;
mod unread;
pub mod webhook;

/// Made from `schema/queue.capnp` by `cargo xtask codegen`.
#[cfg(feature = "rpc")]
#[path = "generated/queue_capnp.rs"]
#[rustfmt::skip]
#[allow(
    clippy::all,
    clippy::unimplemented,
    clippy::unwrap_used,
    missing_debug_implementations,
    unreachable_pub,
    reason = "it is generated"
)]
pub mod queue_capnp;
