//! The program as a child of a test, by what it says: where it listens, and whatever else.
//!
//! How a test speaks to it is the test's own matter.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use parking_lot::{Condvar, Mutex};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

/// A directory that goes with a test.
#[derive(Debug)]
pub struct Data(pub PathBuf);

impl Data {
    /// An empty one, called after the test, and of its own however many are called that.
    pub fn new(test: &str) -> Data {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let (process, number) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("windrow-{test}-{process}-{number}"));
        // One that was left behind by a process with the same number.
        let _nothing_left = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a directory can be made");
        Data(path)
    }

    /// Where a store in it is, as flags of the program.
    pub fn place(&self) -> [&str; 2] {
        ["--data-dir", self.0.to_str().expect("it is text")]
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        // What is left in the temporary directory is not this test's failure.
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

/// A server that listens.
#[derive(Debug)]
pub struct Listening {
    pub child: Child,
    /// Where it speaks HTTP.
    pub address: String,
    heard: std::sync::Arc<Heard>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Heard {
    said: Mutex<Said>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct Said {
    lines: Vec<String>,
    is_over: bool,
}

impl Listening {
    /// Starts it, and waits until it says where it listens.
    pub fn start(command: &mut Command) -> anyhow::Result<Listening> {
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let stderr = BufReader::new(child.stderr.take().context("it says nothing")?);
        let heard = std::sync::Arc::<Heard>::default();
        let reader = std::thread::spawn({
            let heard = std::sync::Arc::clone(&heard);
            move || {
                stderr.lines().map_while(Result::ok).for_each(|line| heard.add(Some(line)));
                heard.add(None);
            }
        });
        let (address, reader) = (String::new(), Some(reader));
        let mut listening = Listening { child, address, heard, reader };
        listening.address = listening.hears(address_in)?;
        Ok(listening)
    }

    /// Waits for a line in which something is found.
    pub fn hears<T>(&self, find: impl Fn(&str) -> Option<T>) -> anyhow::Result<T> {
        let mut said = self.heard.said.lock();
        loop {
            if let Some(found) = said.lines.iter().find_map(|line| find(line)) {
                return Ok(found);
            }
            ensure!(!said.is_over, "it ended, and said {:?}", said.lines);
            let late = self.heard.more.wait_for(&mut said, PATIENCE).timed_out();
            ensure!(!late, "it said nothing more for {PATIENCE:?} than {:?}", said.lines);
        }
    }

    /// Everything that it said so far.
    pub fn said(&self) -> String {
        self.heard.said.lock().lines.iter().map(|line| format!("{line}\n")).collect()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal, such as `-TERM`.
    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.pid().to_string()]).status();
        assert!(sent.is_ok_and(|sent| sent.success()), "kill {signal} {}", self.pid());
    }

    /// Tells it to stop, waits until it has, and gives everything that it said.
    pub fn stop(&mut self) -> String {
        self.signal("-TERM");
        let ended = self.child.wait().expect("it is our child");
        assert!(ended.success(), "{ended}: {}", self.said());
        if let Some(reader) = self.reader.take() {
            reader.join().expect("it only reads");
        }
        self.said()
    }

    /// Ends it without a word.
    pub fn kill(&mut self) {
        // It may have ended already.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("the server said:\n{}", self.said());
        }
    }
}

impl Heard {
    /// Another line, or the end.
    fn add(&self, line: Option<String>) {
        let mut said = self.said.lock();
        said.is_over = line.is_none();
        said.lines.extend(line);
        self.more.notify_all();
    }
}

/// Where a server listens, by the line that says so, text or JSON; as it is reached from here.
fn address_in(line: &str) -> Option<String> {
    let address = match serde_json::from_str::<Value>(line) {
        Ok(line) => line["address"].as_str()?.to_owned(),
        Err(_) => {
            let rest = line.split_once("http://").or_else(|| line.split_once("https://"))?.1;
            rest.split(',').next()?.to_owned()
        }
    };
    Some(address.replace("0.0.0.0", "127.0.0.1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(script: &str) -> anyhow::Result<Listening> {
        Listening::start(Command::new("sh").args(["-c", script]))
    }

    #[test]
    fn it_is_heard_until_it_says_where_it_listens_and_after_that() {
        let script = "echo first >&2; echo 'at https://0.0.0.0:71, ready' >&2; \
                      echo 'RPC is at 127.0.0.1:72, plain' >&2; exec sleep 60";
        let mut server = says(script).unwrap();
        assert_eq!(server.address, "127.0.0.1:71");
        let rpc = server.hears(|line| line.strip_prefix("RPC is at ").map(str::to_owned));
        assert_eq!(rpc.unwrap(), "127.0.0.1:72, plain");
        assert!(server.said().starts_with("first\nat "), "{}", server.said());
        server.kill();
        let json = r#"echo '{"message":"x"}' >&2; echo '{"address":"127.0.0.1:9"}' >&2"#;
        assert_eq!(says(json).unwrap().address, "127.0.0.1:9");
    }

    #[test]
    fn one_that_ends_before_is_quoted() {
        let error = says("echo no luck >&2").unwrap_err().to_string();
        assert_eq!(error, r#"it ended, and said ["no luck"]"#);
    }

    #[test]
    fn what_is_in_the_way_of_a_directory_goes_and_so_does_the_directory() {
        let data = Data::new("listening-data");
        std::fs::write(data.0.join("x"), "").unwrap();
        let again = Data::new("listening-data");
        assert!(std::fs::read_dir(&again.0).unwrap().next().is_none());
        let path = again.0.clone();
        drop((data, again));
        assert!(!path.exists());
    }
}
