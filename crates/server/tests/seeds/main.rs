//! The shapes of the seeds over HTTP, on either store, against the real binary.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod admin;
mod rig;
#[path = "../running/mod.rs"]
mod running;
mod story;
mod system;
mod views;
