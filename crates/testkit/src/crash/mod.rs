//! The crash harness: a child works, its parent keeps the ledger of what was acknowledged, and
//! after each sudden death the ledger is held against what the store still knows.
//!
//! [`name`] says what every item is, from two numbers; [`load`] produces and works; [`ack`] is what
//! the child reports, always *after* the store answered; [`ledger`] collects it outside of the
//! process that dies; [`verify`] compares. These five know nothing of processes, so the fault tests
//! use them on a simulated disk as well. The others are the processes: [`child`], [`life`] (one
//! child from its start to its death), [`volume`] (a file system whose power can be cut) and
//! [`program`]. [`postgres`] has the same for several servers on one PostgreSQL, and [`served`] for
//! `windrow serve` and its clients.

pub mod ack;
pub mod child;
pub mod ledger;
pub mod life;
pub mod load;
pub mod name;
pub mod postgres;
pub mod program;
pub mod served;
mod shutdown;
mod story;
mod unsynced;
pub mod verify;
pub mod volume;
