//! The three ways in which a queue is reached, each with a world of its own.

use std::path::PathBuf;
use std::process::Command;

use windrow_testkit::servers::postgres::{Durability, Postgres, Version};

use crate::rig::{Data, Server};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// A data directory that no server uses.
    Directory,
    /// A data directory whose server is found by itself.
    Local,
    /// A server that is named, and wants a token.
    Named,
    /// A database. For sessions that ask for it.
    Database,
}

impl Mode {
    pub(crate) const USUAL: [Mode; 3] = [Mode::Directory, Mode::Local, Mode::Named];
    pub(crate) const ALL: [Mode; 4] = [Mode::Directory, Mode::Local, Mode::Named, Mode::Database];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Directory => "directory",
            Mode::Local => "local",
            Mode::Named => "named",
            Mode::Database => "database",
        }
    }
}

/// Where a session takes place.
pub(crate) struct World {
    pub(crate) mode: Mode,
    /// Where its commands run, and where a user's files are.
    pub(crate) home: Data,
    pub(crate) data: PathBuf,
    pub(crate) server: Option<Server>,
    database: Option<Postgres>,
}

impl World {
    pub(crate) fn new(test: &str, mode: Mode) -> World {
        let home = Data::new(&format!("cli-{test}-{}", mode.name()));
        let data = home.0.join("data");
        let place = ["--data-dir", data.to_str().unwrap()];
        if mode == Mode::Named {
            let create = ["token", "create", "--role", "admin"];
            let made = windrow().args(create).args(place).output().unwrap();
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            std::fs::write(home.0.join("token"), made.stdout).unwrap();
        }
        if mode == Mode::Database {
            let database = Postgres::start(Version::V15, Durability::Real).unwrap();
            database.create_database("queue").unwrap();
            let url = database.url("queue");
            let migrated = windrow().args(["migrate", "--store", &url]).output().unwrap();
            assert!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
            return World { mode, home, data, server: None, database: Some(database) };
        }
        let server = Server::start(&place, &[("HOME", home.0.to_str().unwrap())]);
        let server = match mode {
            // It leaves an empty store behind.
            Mode::Directory => {
                server.stop();
                None
            }
            Mode::Local | Mode::Named | Mode::Database => Some(server),
        };
        World { mode, home, data, server, database: None }
    }

    /// A line for the shell, in this world.
    pub(crate) fn shell(&self, line: &str) -> Command {
        let binary = PathBuf::from(env!("CARGO_BIN_EXE_windrow"));
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", binary.parent().unwrap().display());
        // A line that hangs must not hold up everything else.
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=5", "60", "sh", "-c", line])
            .env_clear()
            .current_dir(&self.home.0);
        command.env("PATH", path).env("HOME", &self.home.0).env("TMPDIR", &self.home.0);
        command.env("TERM", "dumb");
        if let Some(database) = &self.database {
            command.env("WINDROW_STORE__URL", database.url("queue"));
        }
        match (self.mode, &self.server) {
            (Mode::Database, _) => {}
            (Mode::Named, Some(server)) => {
                command.env("WINDROW_SERVER", format!("http://{}", server.address));
                command.env("WINDROW_TOKEN_FILE", self.home.0.join("token"));
            }
            _ => {
                command.env("WINDROW_STORE__DATA_DIR", &self.data);
            }
        }
        command.stdin(std::process::Stdio::null());
        command
    }
}

fn windrow() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
    command.env_clear();
    command
}
