//! Who may do what: the real binary, and every route and method that its own descriptions name.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod matrix;
mod rig;
mod rpc;
mod tenants;
mod tls;
mod tokens;
