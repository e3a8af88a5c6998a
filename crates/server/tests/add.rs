//! `windrow add`, as far as a session cannot show it: broken connections, bars and Ctrl-C.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod rig;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use windrow_testkit::terminal::Terminal;

use rig::{Data, Server};

fn windrow(home: &Data, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
    command.args(words).current_dir(&home.0).env("HOME", &home.0).stdin(Stdio::null());
    for name in ["WINDROW_TOKEN", "WINDROW_SERVER", "NO_COLOR"] {
        command.env_remove(name);
    }
    command.env("TERM", "xterm-256color");
    command
}

/// Lets bytes through to a server, until so many have gone there; then it cuts that connection, and
/// no other.
struct Cutter {
    address: String,
    cut: Arc<AtomicU64>,
}

impl Cutter {
    fn before(server: &str, after_bytes: u64) -> Cutter {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (server, cut) = (server.to_owned(), Arc::<AtomicU64>::default());
        let (passed, cuts) = (Arc::<AtomicU64>::default(), Arc::clone(&cut));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, there) = (client.unwrap(), TcpStream::connect(&server).unwrap());
                let back = (there.try_clone().unwrap(), client.try_clone().unwrap());
                let (passed, cuts) = (Arc::clone(&passed), Arc::clone(&cuts));
                std::thread::spawn(move || pass(back.0, back.1, |_| true));
                std::thread::spawn(move || {
                    pass(client, there, |count| {
                        let before = passed.fetch_add(count, Ordering::SeqCst);
                        let is_over = before < after_bytes && before + count >= after_bytes;
                        cuts.fetch_add(u64::from(is_over), Ordering::SeqCst);
                        !is_over
                    });
                });
            }
        });
        Cutter { address, cut }
    }
}

/// Carries bytes from one to the other for as long as `goes_on` says so.
fn pass(mut from: TcpStream, mut to: TcpStream, goes_on: impl Fn(u64) -> bool) {
    let mut bytes = [0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if !goes_on(count as u64) || to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _closed = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

#[test]
fn a_large_file_goes_on_where_it_was_when_the_connection_breaks() {
    let data = Data::new("add-large");
    let store = data.0.join("store");
    let server = Server::start(&["--data-dir", store.to_str().unwrap()], &[]);
    let cutter = Cutter::before(&server.address, 6 << 20);
    let text: String = (0..400_000).map(|line| format!("line {line} of a long text\n")).collect();
    assert!(text.len() > 8 << 20);
    std::fs::write(data.0.join("long.txt"), &text).unwrap();
    let address = format!("http://{}", cutter.address);
    let words = ["add", "long.txt", "--detach", "--json", "--server", &address];
    let added = windrow(&data, &words).output().unwrap();
    assert!(added.status.success(), "{added:?}");
    assert_eq!(cutter.cut.load(Ordering::SeqCst), 1, "the connection broke");
    let line: serde_json::Value = serde_json::from_slice(&added.stdout).unwrap();
    let path = format!("/api/v1/documents/{}", line["document"].as_str().unwrap());
    let document = server.get(&path).json();
    assert_eq!(document["bytes"], text.len());
    let hash = <sha2::Sha256 as sha2::Digest>::digest(text.as_bytes());
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(document["sha256"], hash);
}

#[test]
fn who_stops_following_is_told_that_the_work_goes_on() {
    let data = Data::new("add-stopped");
    let store = data.0.join("store");
    // Nobody reads documents here, so that there is something to wait for.
    let nobody = [("WINDROW_DOCUMENTS__ENABLED", "false")];
    let server = Server::start(&["--data-dir", store.to_str().unwrap()], &nobody);
    std::fs::write(data.0.join("a.txt"), "some text").unwrap();
    std::fs::write(data.0.join("b.txt"), "some other text").unwrap();
    let address = format!("http://{}", server.address);
    let words = ["add", "a.txt", "b.txt", "--server", &address];
    let mut terminal = Terminal::run(&windrow(&data, &words), 120, 30).unwrap();
    let screen = terminal.until("done");
    assert!(screen.contains("2 of 2") && screen.contains("0 of 2"), "{screen}");
    terminal.press("\u{3}").unwrap();
    terminal.until("the server goes on");
    let screen = terminal.until("2 files: 2 enqueued");
    assert!(screen.contains("enqueued") && screen.contains("a.txt"), "{screen}");
    assert!(terminal.wait().unwrap().success());
}

#[test]
fn where_nobody_is_nothing_is_sent_and_who_may_not_is_told_once() {
    let data = Data::new("add-nowhere");
    for name in ["a.txt", "b.txt"] {
        std::fs::write(data.0.join(name), "some text").unwrap();
    }
    let words = ["add", "a.txt", "b.txt", "--server", "http://127.0.0.1:1"];
    let nowhere = windrow(&data, &words).output().unwrap();
    let said = String::from_utf8(nowhere.stderr).unwrap();
    assert_eq!((nowhere.status.code(), said.lines().count()), (Some(5), 1), "{said}");
    let store = data.0.join("store");
    let store = store.to_str().unwrap();
    let token = |role: &str| {
        let words = ["token", "create", "--role", role, "--data-dir", store];
        let made = windrow(&data, &words).output().unwrap();
        String::from_utf8(made.stdout).unwrap().trim().to_owned()
    };
    let (_admin, viewer) = (token("admin"), token("viewer"));
    let server = Server::start(&["--data-dir", store], &[]);
    let address = format!("http://{}", server.address);
    let words = ["add", "a.txt", "b.txt", "--server", &address];
    let denied = windrow(&data, &words).env("WINDROW_TOKEN", viewer).output().unwrap();
    let said = String::from_utf8(denied.stderr).unwrap();
    assert_eq!(denied.status.code(), Some(4), "{said}");
    assert!(said.contains("needs the role producer") && said.lines().count() == 1, "{said}");
}
