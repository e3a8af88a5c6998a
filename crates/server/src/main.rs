//! The `windrow` binary.

mod ask;
mod auth;
mod backups;
mod bars;
mod blobs;
mod bulk;
mod cli;
mod config;
mod console;
mod demo;
mod documents;
mod drained;
mod health;
mod http;
mod logs;
mod metrics;
mod named;
#[cfg(feature = "otel")]
mod otel;
mod rpc;
mod schedules;
mod sources;
mod store;
mod supervisor;
mod tls;
mod webhooks;
mod workers;

use std::io::Write as _;

use clap::Parser;

/// What one thread allocates another one frees, all the time: the system's allocator is slow at it.
/// In tests it is the test kit's, which has the same.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::complete::answer();
    match cli::run(cli::Cli::try_parse().unwrap_or_else(|wrong| cli::explained(wrong).exit())) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        // Whoever read the output has seen enough.
        Err(error) if is_closed_pipe(&error) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            let stop = error.downcast_ref::<cli::Stop>();
            if stop.is_none_or(|stop| !stop.message.is_empty()) {
                // Whoever closed standard error does not want to know.
                let _told = writeln!(std::io::stderr(), "windrow: {error:#}");
            }
            cli::Exit::of(&error).code().into()
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}
