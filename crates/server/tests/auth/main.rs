//! Who may do what: the real binary, and every route that its own description names.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod matrix;
mod rig;
mod tenants;
mod tls;
mod tokens;
