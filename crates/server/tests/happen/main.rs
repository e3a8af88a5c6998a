//! What happens without being asked for: schedules, events and webhooks, by the real binary.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod events;
mod running;
mod schedules;
mod webhooks;
