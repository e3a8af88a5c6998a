//! Documents from the file to the passage that is found, on the real queue and catalog.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod elsewhere;
mod embedder;
mod forged;
mod gate;
mod inbox;
mod leftovers;
mod linked;
mod place;
mod queries;
mod refused;
#[path = "../openai/server.rs"]
#[allow(dead_code, reason = "another test uses the rest of it")]
mod server;
mod stages;
