//! `with-postgres COMMAND...`: runs a command with a PostgreSQL of its own, for tests that are not
//! written in Rust.
//!
//! The command finds the server in `WINDROW_TEST_POSTGRES_URL` and a psql of its version in
//! `WINDROW_TEST_PSQL`, and makes the databases that it needs. The server goes with the command.

use std::process::{Command, ExitCode};

use anyhow::Context as _;
use windrow_testkit::servers::{Durability, Postgres, Version};

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("with-postgres: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let program = words.next().context("which command? with-postgres COMMAND...")?;
    let server = Postgres::start(Version::V15, Durability::Real)?;
    let mut command = Command::new(&program);
    command.args(words).env("WINDROW_TEST_POSTGRES_URL", server.url("postgres"));
    command.env("WINDROW_TEST_PSQL", server.client_path("psql"));
    let status = command.status().with_context(|| format!("cannot start {}", program.display()))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
