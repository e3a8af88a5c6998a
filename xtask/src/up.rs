//! Up: builds Windrow as users get it and runs its main job.

use std::ffi::OsString;

use crate::{Verb, cargo, setup};

pub(crate) const VERB: Verb = Verb {
    name: "up",
    summary: "builds windrow and runs its main job, for now `windrow demo`",
    help: Some(HELP),
    run,
};

const HELP: &str = "\
cargo xtask up [ARGUMENTS...]

Builds the `windrow` program in release mode and runs `windrow demo`, which
processes a small world of documents, pages and chunks, loses a worker, is
killed and started again, and shows that nothing was lost or done twice.

ARGUMENTS go to `windrow demo` as they are. Its own help, and how to run it
without cargo once it is built:

  cargo run --release --package windrow-server -- demo --help
  target/release/windrow demo
";

fn run(words: Vec<OsString>) -> anyhow::Result<()> {
    setup::ensure(&[])?;
    let build = ["run", "--release", "--package", "windrow-server", "--bin", "windrow", "--"];
    cargo::run(cargo::cargo(&build).arg("demo").args(words))
}
