//! Schedules: items that are enqueued by the clock.
//!
//! A schedule is a note. Of several servers the one that leads looks every second what is due
//! ([`plan`]), enqueues it with a request id that is made of the schedule and the run, and then
//! moves the note on to the run after, if nobody else has. Whoever dies in between leaves a run
//! that is enqueued again by the same id, which does nothing.

pub(crate) mod cron;
mod fire;
pub(crate) mod kept;
mod plan;
mod zone;

pub(crate) use fire::{find, run, run_now, write};
