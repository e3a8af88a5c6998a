//! The worker of the Rust client: on the real server over RPC and HTTP, and on an engine here.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod bed;
mod handling;
mod leases;
mod servers;
mod stopping;
