//! How a command ends: one table of exit codes, and the error that carries one.

use std::fmt;

use tokio_postgres::error::SqlState;
use windrow_client::repeat::Missed;
use windrow_client::trust;
use windrow_store::postgres;

use crate::auth::Denied;

macro_rules! exits {
    ($($exit:ident $code:literal $what:literal;)*) => {
        /// Why a command ended, as scripts see it.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Exit { $($exit,)* }

        impl Exit {
            /// Every code but 0, with what it means. docs/reference/cli.md has the same table.
            #[cfg(test)]
            pub(crate) const ALL: &[(u8, &str)] = &[$(($code, $what)),*];

            pub(crate) const fn code(self) -> u8 {
                match self { $(Exit::$exit => $code),* }
            }
        }
    };
}

exits! {
    Failed 1 "it failed; the message says whether anything was written";
    Usage 2 "the command line is wrong, or a value in it is not allowed";
    NotFound 3 "what was named does not exist";
    Denied 4 "a token is needed, or this one may not do that";
    Unreachable 5 "the server cannot be reached";
    Nothing 6 "there was nothing to claim, or the time to wait was over";
    Partly 7 "some items were refused or failed; the others are done";
    LeaseLost 8 "the lease does not hold the item: drop the work";
}

impl Exit {
    /// How a command ends that something went wrong with.
    pub(crate) fn of(error: &anyhow::Error) -> Exit {
        if let Some(stop) = error.downcast_ref::<Stop>() {
            return stop.exit;
        }
        match error.downcast_ref::<postgres::Error>() {
            Some(postgres::Error::Unreachable { .. }) => Exit::Unreachable,
            Some(postgres::Error::NoStore { .. }) => Exit::NotFound,
            Some(postgres::Error::NoPassword { .. }) => Exit::Denied,
            Some(postgres::Error::Address(_)) => Exit::Usage,
            Some(postgres::Error::Database(said)) => match said.code() {
                Some(&SqlState::INVALID_CATALOG_NAME) => Exit::NotFound,
                Some(
                    &SqlState::INVALID_PASSWORD
                    | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION
                    | &SqlState::INSUFFICIENT_PRIVILEGE,
                ) => Exit::Denied,
                _ => Exit::Failed,
            },
            _ => Exit::Failed,
        }
    }
}

/// A command that ends with a code of its own.
#[derive(Debug)]
pub(crate) struct Stop {
    pub(crate) exit: Exit,
    /// What to say on standard error; nothing if everything was said.
    pub(crate) message: String,
    /// The code of the problem that it comes of, if it is one of the API.
    pub(crate) code: Option<String>,
}

impl Stop {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Stop {
        Stop { exit, message: message.into(), code: None }
    }

    /// Everything was said already.
    pub(crate) fn silent(exit: Exit) -> Stop {
        Stop::new(exit, "")
    }

    pub(crate) fn usage(message: impl Into<String>) -> Stop {
        Stop::new(Exit::Usage, message)
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Stop {}

/// What a server says when it does not do something.
#[derive(serde::Deserialize, Debug)]
pub(super) struct Problem {
    pub(super) status: u16,
    pub(super) code: String,
    pub(super) detail: String,
}

/// What to do about a token that is missing or wrong.
const UNAUTHORIZED: &str = "in WINDROW_TOKEN or with --token-file; an admin makes one with \
                            `windrow token create`, and so does whoever stops the server and \
                            names its data directory";

impl From<Problem> for Stop {
    fn from(Problem { status, code, detail }: Problem) -> Stop {
        let exit = exit_of(status, &code);
        if code == "unauthorized" {
            // What follows is for programs that write their own headers.
            let why = detail.split("; ").next().unwrap_or_default();
            let give = if Denied::WRONG_TOKEN.starts_with(why) { "another" } else { "one" };
            return Stop::new(exit, format!("{why}; give {give} {UNAUTHORIZED}"));
        }
        let hint = match (exit, &*code) {
            (Exit::LeaseLost, _) => "; drop the work: the item is somebody else's",
            (_, "outcome_unknown") => "; look whether it was done before you repeat it",
            _ if detail.contains("nothing was written") => "",
            (_, "stopping" | "store_failed" | "overloaded" | "store_full" | "queue_full") => {
                "; nothing was written"
            }
            _ => "",
        };
        let message = format!("{}{hint}", without_place(&detail));
        Stop { exit, message, code: Some(code) }
    }
}

/// What is wrong with a body, without where in it: whoever typed a command wrote no body.
pub(super) fn without_place(detail: &str) -> &str {
    let place = detail.rfind(" at line ").filter(|at| {
        let rest = &detail[at + " at line ".len()..];
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        rest.split_once(" column ")
            .is_some_and(|(line, column)| is_number(line) && is_number(column))
    });
    place.map_or(detail, |at| &detail[..at])
}

/// The exit that goes with a problem's code.
pub(super) fn exit_of(status: u16, code: &str) -> Exit {
    match (status, code) {
        (_, "lease_lost") => Exit::LeaseLost,
        (401 | 403 | 421, _) => Exit::Denied,
        (404, _) => Exit::NotFound,
        (400 | 413 | 422, _) => Exit::Usage,
        _ => Exit::Failed,
    }
}

/// A server that did not answer.
pub(super) fn missed(missed: Missed) -> Stop {
    match missed {
        // A server without a certificate speaks HTTP.
        Missed::NotSent(why) if why.contains(trust::NO_TLS) => {
            let at = why.split(" is not trusted").next().unwrap_or_default();
            let plain = at.replacen("https://", "http://", 1);
            let said = format!(
                "{at} does not speak https; nothing was written. Ask {plain} if its server has no \
                 certificate, or give it one with --tls-cert and --tls-key"
            );
            Stop::new(Exit::Unreachable, said)
        }
        Missed::NotSent(why) => {
            let remedy = if why.contains(trust::UNKNOWN_ISSUER) {
                "Name the file with the certificate of whoever made it, in PEM, with --ca"
            } else if why.contains(trust::OTHER_NAME) {
                "Name the server with --server as its certificate does"
            } else if why.contains("its certificate") {
                "Its operator gives it another certificate with --tls-cert and --tls-key"
            } else if why.contains("is not trusted") {
                "Name the server with --server as its certificate does, and who made that with --ca"
            } else {
                "Start a server there with `windrow serve`, or name another with --server"
            };
            Stop::new(Exit::Unreachable, format!("{why}; nothing was written. {remedy}"))
        }
        Missed::Lost(why) => Stop::new(
            Exit::Unreachable,
            format!("the server did not answer ({why}); it is not known whether it was done"),
        ),
        other => Stop::new(Exit::Failed, format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_body_that_nobody_wrote_is_not_told() {
        assert_eq!(without_place("a: is none at line 1 column 27"), "a: is none");
        for whole in ["a: is none", "b at line 1", "c at line 1 column x", " at line 3 by hand"] {
            assert_eq!(without_place(whole), whole);
        }
    }

    #[test]
    fn a_database_ends_a_command_as_a_server_or_a_directory_does() {
        let address = || "db/queue".to_owned();
        for (error, exit) in [
            (
                postgres::Error::Unreachable { address: address(), why: "gone".into() },
                Exit::Unreachable,
            ),
            (postgres::Error::NoStore { address: address() }, Exit::NotFound),
            (postgres::Error::NotDurable, Exit::Failed),
        ] {
            assert_eq!(Exit::of(&error.into()), exit);
        }
        assert_eq!(Exit::of(&Stop::silent(Exit::Partly).into()), Exit::Partly);
    }

    #[test]
    fn the_page_has_the_same_table_of_exit_codes() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");
        let page = std::fs::read_to_string(page).expect("the page");
        for (code, what) in Exit::ALL {
            let row = format!("| {code} | {what} |");
            assert!(page.contains(&row), "docs/reference/cli.md does not have this row\n{row}");
        }
    }

    #[test]
    fn the_page_has_every_key_of_a_filter_and_names_every_command() {
        use clap::CommandFactory as _;
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");
        let page = std::fs::read_to_string(page).expect("the page");
        for (key, what) in windrow_wire::filter::KEYS {
            let row = format!("| `{key}` | {what} |");
            assert!(page.contains(&row), "docs/reference/cli.md does not have this row\n{row}");
        }
        for command in crate::cli::Cli::command().get_subcommands() {
            let (name, is_known) = (command.get_name(), ["demo", "help"]);
            let is_named = page.contains(&format!("`{name}`")) || is_known.contains(&name);
            assert!(is_named, "docs/reference/cli.md does not name {name}");
        }
    }
}
