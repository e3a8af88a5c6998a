//! The benches: Windrow beside the limit of the machine, one scenario per process.
//!
//! [`scenario`] runs named scenarios as child processes, so that memory is measured in a fresh one;
//! `queue/` has those of `bench queue`. A scenario drives any store through [`clients`], alternates
//! with the [`limit`] where a ratio is wanted, and hands back [`report::Row`]s. What is demanded of
//! the rows is a list of [`report::Bar`]s. `postgres/` is the bench of the PostgreSQL store, beside
//! its peers instead of the limit; it uses the same clients, rows and bars. `wire/` is the bench of
//! a whole server beside other queues, everybody through a client of its own, `programs/` that of
//! workers beside the wire they use, `documents/` that of the pipeline beside the bare tools, and
//! `console/` that of the pages people keep open.

mod asked;
pub mod clients;
pub mod console;
pub mod counted;
pub mod documents;
mod http;
pub mod limit;
pub mod machine;
pub mod measure;
pub mod postgres;
pub mod programs;
pub mod queue;
pub mod report;
pub mod rig;
pub mod scenario;
pub mod wire;

/// The same as in the `windrow` binary, for Windrow and for the limit.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The runtime that clients run on: the same for Windrow and for the limit.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_time().build()
}
