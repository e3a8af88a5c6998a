//! Faults: what the embedded store does when the disk, the memory or the machine lets it down.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod crash;
mod errors;
mod full;
mod lock;
mod memory;
mod reclaim;
mod rig;
mod rot;
mod sync;
mod trees;
