//! The processes of a server: not as root, and for no longer than the process that wants them.
//!
//! The kernel does the second: with `setpriv --pdeathsig` a process gets a signal when its parent
//! dies, however it dies. One gap is left: a parent that is killed in the millisecond between
//! starting `setpriv` and its asking for the signal.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// Who a server runs as.
#[derive(Clone, Copy, Debug)]
pub(super) enum Account {
    Ourselves,
    /// We are root, as whom PostgreSQL refuses to run.
    Other(Ids),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ids {
    user: u32,
    group: u32,
}

impl Account {
    pub(super) fn find() -> anyhow::Result<Account> {
        if fs::metadata("/proc/self")?.uid() != 0 {
            return Ok(Account::Ourselves);
        }
        let users = fs::read_to_string("/etc/passwd").context("cannot look for another user")?;
        let ids = ["postgres", "nobody"].iter().find_map(|name| ids_of(&users, name));
        let ids = ids.context("we are root, and there is neither a user postgres nor nobody")?;
        Ok(Account::Other(ids))
    }

    /// A command for `program` as this account, which gets `signal` when our thread ends.
    pub(super) fn command(self, program: &Path, signal: &str) -> Command {
        let mut command = Command::new("setpriv");
        if let Account::Other(ids) = self {
            command.arg(format!("--reuid={}", ids.user)).arg(format!("--regid={}", ids.group));
            command.arg("--clear-groups");
        }
        command.args(["--pdeathsig", signal]).arg(program);
        command
    }

    /// Whether this account may run `program`. Starting it would prove less: `setpriv` still finds
    /// it with root's eyes, and then the program does not find its libraries.
    pub(super) fn reaches(self, program: &Path) -> anyhow::Result<bool> {
        let mut test = self.command(Path::new("test"), "KILL");
        let status = test.arg("-x").arg(program).status().context("cannot start setpriv")?;
        Ok(status.success())
    }

    /// Gives `path` and everything in it to this account.
    pub(super) fn own(self, path: &Path) -> anyhow::Result<()> {
        let Account::Other(ids) = self else { return Ok(()) };
        let owner = format!("{}:{}", ids.user, ids.group);
        output(Command::new("chown").arg("-R").arg(owner).arg(path)).map(drop)
    }
}

/// A user's numbers in the text of `/etc/passwd`.
fn ids_of(users: &str, name: &str) -> Option<Ids> {
    let mut fields = users.lines().map(|line| line.split(':'));
    let mut user = fields.find_map(|mut user| (user.next() == Some(name)).then_some(user))?;
    let _password = user.next()?;
    Some(Ids { user: user.next()?.parse().ok()?, group: user.next()?.parse().ok()? })
}

/// Runs a command to its end and returns what it printed. What it complained of is the error.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let done = command.stdin(Stdio::null()).output();
    let done = done.with_context(|| format!("cannot start {}", shown(command)))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        bail!("{} failed ({}): {}", shown(command), done.status, said.trim());
    }
    Ok(String::from_utf8(done.stdout)?.trim_end().to_owned())
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Starts a process that stays until this process ends.
///
/// The signal of [`Account::command`] comes when the *thread* ends that started the process, and
/// each test is a thread. So one thread that never ends starts them all.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    type Order = (Command, mpsc::Sender<io::Result<Child>>);
    static STARTER: LazyLock<mpsc::Sender<Order>> = LazyLock::new(|| {
        let (orders, arrived) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in arrived {
                let _nobody_waits_any_more = answer.send(command.spawn());
            }
        });
        orders
    });
    let (answer, started) = mpsc::channel();
    let gone = |_| io::Error::other("the thread that starts servers is gone");
    STARTER.send((command, answer)).map_err(|_| gone(()))?;
    started.recv().map_err(|_| gone(()))?
}

/// Whether something came true within our patience.
pub fn until(patience: Duration, mut is_true: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while !is_true() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// The processes that have `dir`, or a directory in it, as their working directory: all processes
/// of a server whose data is there.
pub fn working_in(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let processes = fs::read_dir("/proc")?.filter_map(Result::ok).map(|entry| entry.path());
    let works_there = |process: &PathBuf| {
        // A process of somebody else, or one that has just ended, has none that we could see.
        fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(dir))
    };
    Ok(processes.filter(works_there).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_the_whole_of_its_name() {
        let users = "post:x:1:2::/:/bin/sh\npostgres:x:101:104:,,,:/x:/bin/bash\nbroken:x\n";
        assert_eq!(ids_of(users, "postgres"), Some(Ids { user: 101, group: 104 }));
        assert_eq!(ids_of(users, "nobody"), None);
        assert_eq!(ids_of(users, "broken"), None);
    }

    #[test]
    fn a_command_that_fails_says_why() {
        let error = output(Command::new("ls").arg("/no/such/place")).unwrap_err().to_string();
        assert!(error.contains("ls /no/such/place failed"), "{error}");
    }

    #[test]
    fn patience_ends() {
        assert!(!until(Duration::from_millis(1), || false));
    }
}
