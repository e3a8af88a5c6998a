//! The server over Cap'n Proto RPC: the real binary, met by clients that know only the wire.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod bed;
mod fixtures;
mod full;
mod import;
mod malformed;
mod messages;
mod plain;
mod stops;

/// Made from `seed.capnp` by `cargo xtask codegen`.
#[path = "generated/seed_capnp.rs"]
#[rustfmt::skip]
#[allow(
    clippy::all,
    clippy::unimplemented,
    dead_code,
    missing_debug_implementations,
    unreachable_pub,
    reason = "it is generated"
)]
mod seed_capnp;
