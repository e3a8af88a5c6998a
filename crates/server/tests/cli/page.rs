//! Pages of the documentation, each played in one shell from its first command to its last: the
//! quick start, the recipes, and the guide to documents.
//!
//! What stands after a command in a block that is called `console` is what it prints, on both
//! outputs, as a terminal shows it. A command that ends with `&` goes on beside the others; if it
//! is a server, the next one waits until it is there. `UPDATE=1` writes down what is printed now.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use libtest_mimic::Failed;
use windrow_testkit::servers::postgres::{Durability, Postgres, Version};

use crate::plain::Plain;
use crate::rig::Data;
use crate::same;

/// Stands in the output where a command ends.
const END: &str = "--- the end of a command ---";
/// A page that hangs is ended after so many seconds.
const HANGS_AFTER: &str = "180";

/// The database of a page that has one.
const DATABASE: &str = "postgres://wr@localhost/windrow";

/// The pages, from the root of the repository.
pub(crate) fn all() -> Vec<PathBuf> {
    let root = root();
    let recipes = std::fs::read_dir(root.join("docs/recipes")).unwrap();
    let recipes = recipes.map(|recipe| recipe.unwrap().path());
    let others = ["docs/quickstart.md", "docs/guides/documents.md"].map(|page| root.join(page));
    let mut pages: Vec<PathBuf> = recipes.chain(others).collect();
    pages.sort();
    pages
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub(crate) fn played(page: &Path) -> Result<(), Failed> {
    let (root, text) = (root(), std::fs::read_to_string(page)?);
    assert!(text.contains("\n$ "), "{} has no command to play", page.display());
    let home = Data::new(&format!("page-{}", page.file_stem().unwrap().display()));
    let database = match text.contains(DATABASE) {
        true => Some(Postgres::start(Version::V15, Durability::Real)?),
        false => None,
    };
    if let Some(database) = &database {
        database.create_database("windrow")?;
    }
    let here = Here::new(database.as_ref())?;
    let mut shell = Shell::begin(&root, &home, &here)?;
    let places = here.0.iter().map(|(page, real)| (real.clone(), *page));
    let places = places.chain([(home.0.display().to_string(), "~")]);
    let mut plain = Plain::at(places.collect());
    let (mut written, mut lines, mut in_console) = (String::new(), text.lines().peekable(), false);
    while let Some(line) = lines.next() {
        in_console = if in_console { line != "```" } else { line == "```console" };
        let Some(first) = line.strip_prefix("$ ").filter(|_| in_console) else {
            // What was printed before is left out.
            if !in_console || line == "```console" {
                writeln!(written, "{line}")?;
            }
            continue;
        };
        writeln!(written, "{line}")?;
        let mut command = first.to_owned();
        while let Some(more) = lines.next_if(|line| line.starts_with('>')) {
            writeln!(written, "{more}")?;
            write!(command, "\n{}", more.strip_prefix("> ").unwrap_or_default())?;
        }
        let printed = shell.run(&here.real(&plain.real(&command)))?;
        written.push_str(&plain.of(&printed));
    }
    same(page, &text, &written)
}

/// What stands in the page, with what it is here.
struct Here(Vec<(&'static str, String)>);

impl Here {
    fn new(database: Option<&Postgres>) -> std::io::Result<Here> {
        // All held until each is found, so that no two are the same.
        let free = || TcpListener::bind(("127.0.0.1", 0));
        let held = [free()?, free()?, free()?, free()?];
        let mut here: Vec<(&'static str, String)> =
            database.iter().map(|database| (DATABASE, database.url("windrow"))).collect();
        for (port, held) in ["7117", "7217", "7317", "8800"].into_iter().zip(&held) {
            here.push((port, held.local_addr()?.port().to_string()));
        }
        Ok(Here(here))
    }

    fn real(&self, command: &str) -> String {
        self.0.iter().fold(command.to_owned(), |text, (page, real)| text.replace(page, real))
    }
}

/// A shell that plays one command after the other.
struct Shell {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    /// Where the first server listens.
    port: String,
}

impl Shell {
    fn begin(root: &Path, home: &Data, here: &Here) -> Result<Shell, Failed> {
        let binary = PathBuf::from(env!("CARGO_BIN_EXE_windrow"));
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", binary.parent().unwrap().display());
        let port = here.real("7117");
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", HANGS_AFTER, "bash"]).env_clear().current_dir(&home.0);
        command.env("PATH", path).env("HOME", &home.0).env("TERM", "dumb");
        command.env("PYTHONPATH", root.join("clients/python/src"));
        command.env("WINDROW_SERVER__LISTEN", format!("127.0.0.1:{port}"));
        command.env("WINDROW_SERVER__RPC_LISTEN", "127.0.0.1:0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut shell = Shell { child, to, from: BufReader::new(from), port };
        shell.run("exec 2>&1")?;
        Ok(shell)
    }

    /// Runs a command; gives what it printed.
    fn run(&mut self, command: &str) -> Result<String, Failed> {
        let command = match command.strip_suffix(" &") {
            Some(beside) => {
                // First, so that the command may lead its output elsewhere.
                let begun = format!(">> beside.log 2>&1 < /dev/null {beside} &");
                if beside.contains("windrow serve") || beside.contains("windrow up") {
                    let named = beside.split_once("--listen 127.0.0.1:");
                    let port = named.map_or(&*self.port, |(_, port)| port);
                    let there = format!("curl -sf http://127.0.0.1:{port}/readyz > /dev/null");
                    format!("{begun}\nuntil {there}; do sleep 0.05; done")
                } else {
                    begun
                }
            }
            None => command.to_owned(),
        };
        writeln!(self.to, "{command}\necho '{END}'")?;
        let mut printed = String::new();
        loop {
            let mut line = String::new();
            if self.from.read_line(&mut line)? == 0 {
                return Err(format!("the shell ended in {command:?} after:\n{printed}").into());
            }
            match line.strip_suffix(&format!("{END}\n")) {
                Some("") => return Ok(printed),
                Some(unended) => return Ok(format!("{printed}{unended}\n")),
                // The shell tells of a job that was killed.
                None if line.starts_with("bash: line ") => {}
                None => printed.push_str(&line),
            }
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // With everything that still runs beside it, if anything does.
        let group = format!("-{}", self.child.id());
        let _killed = Command::new("kill").args(["-9", "--", &group]).status();
        let _reaped = self.child.wait();
    }
}
