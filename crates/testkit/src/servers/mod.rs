//! Real servers for tests. A test starts the one it needs, on a free port and in a directory of its
//! own, and the server is gone when the test is: when it ends, panics, or is killed. So is the
//! directory, except that what a killed test leaves is removed by a later one.
//!
//! What every server needs is in [`process`] (who it runs as, how it dies) and `place.rs` (where it
//! keeps its files, and its port). Leaves installing on purpose to `cargo xtask test`.

pub mod arcadedb;
pub mod brokers;
pub mod listening;
pub mod pgbouncer;
mod place;
pub mod postgres;
pub mod process;
pub mod queues;
mod session;
mod standby;
pub mod stores;
pub mod windrow;

pub use arcadedb::ArcadeDb;
pub use postgres::{Durability, Postgres, Stop, Version};
