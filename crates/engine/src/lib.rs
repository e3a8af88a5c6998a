//! The running queue, over any store.
//!
//! The store decides and persists; the engine gives it time, company and rhythm. It reads the
//! clock once per batch, lets claims wait for work and wakes exactly as many as there is work for,
//! ticks (expired leases, delays, sweeping), refuses what it cannot hold, keeps a ring of events
//! and knows which workers are present. Nothing that must happen hangs on the engine's memory: it
//! can be lost at any time.

mod admission;
mod batch;
mod claim;
pub mod clock;
pub mod drained;
mod engine;
pub mod events;
pub mod histogram;
mod newcomers;
pub mod observe;
pub mod presence;
mod queue;
mod tick;
mod wake;
pub mod window;

pub use admission::Limits;
pub use clock::{Clock, SystemClock};
pub use engine::{Engine, Failure};
pub use tick::{Job, Pulse};

/// The first guide, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/first-queue.md")]
pub struct FirstQueue;
