//! The log on a simulated disk: what survives, what is refused, and what runs out.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod damage;
mod durability;
mod fixture;
mod lives;
mod rig;
mod segments;
mod space;
mod threads;
