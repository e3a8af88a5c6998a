//! The servers that tests run against: they start, come back with what they kept, and go without a
//! trace.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use windrow_testkit::servers::process::{until, working_in};
use windrow_testkit::servers::{Durability, Postgres, Stop, Version};

const PATIENCE: Duration = Duration::from_secs(60);

fn off(version: Version) -> Postgres {
    Postgres::start(version, Durability::Off).unwrap()
}

#[track_caller]
fn assert_gone(dir: &Path) {
    assert!(until(PATIENCE, || working_in(dir).unwrap().is_empty()), "{:?}", working_in(dir));
}

#[test]
fn what_was_written_is_there_after_a_crash_of_the_server() {
    for version in Version::ALL {
        let mut server = Postgres::start(version, Durability::Real).unwrap();
        server.create_database("first").unwrap();
        server.psql("first", "create table t (n int); insert into t values (1), (2)").unwrap();
        let url = server.url("first");

        server.stop(Stop::Immediate).unwrap();
        server.psql("first", "select 1").unwrap_err();
        server.start_again().unwrap();

        assert_eq!(server.url("first"), url);
        assert_eq!(server.psql("first", "select n, -n from t order by n").unwrap(), "1|-1\n2|-2");
        let log = std::fs::read_to_string(server.dir().join("log")).unwrap();
        assert!(log.contains("was not properly shut down"), "{log}");
    }
}

#[test]
fn a_server_without_durability_keeps_what_it_was_stopped_with_in_order() {
    for version in Version::ALL {
        let mut server = off(version);
        server.create_database("first").unwrap();
        server.psql("first", "create table t (n int); insert into t values (7)").unwrap();
        server.stop(Stop::Fast).unwrap();
        server.stop(Stop::Fast).unwrap();
        server.start_again().unwrap();
        assert_eq!(server.psql("first", "select n from t").unwrap(), "7");
        server.start_again().unwrap_err();
        let log = std::fs::read_to_string(server.dir().join("log")).unwrap();
        assert!(!log.contains("was not properly shut down"), "{log}");
    }
}

#[test]
fn a_server_is_what_was_asked_for() {
    let settings = |server: &Postgres| {
        let wanted = "'fsync', 'synchronous_commit', 'full_page_writes', 'max_connections'";
        let values = "string_agg(name || '=' || setting, ' ' order by name)";
        let sql = format!("select {values} from pg_settings where name in ({wanted})");
        server.psql("postgres", &sql).unwrap()
    };
    for (durability, word) in [(Durability::Real, "on"), (Durability::Off, "off")] {
        let server = Postgres::start(Version::V18, durability).unwrap();
        let expected = format!(
            "fsync={word} full_page_writes={word} max_connections=200 synchronous_commit={word}"
        );
        assert_eq!(settings(&server), expected);
    }
    for (version, number) in [(Version::V15, "15"), (Version::V18, "18")] {
        let server = off(version);
        let said = server.psql("postgres", "show server_version").unwrap();
        assert!(said.starts_with(&format!("{number}.")), "{version}: {said}");
        server.create_database("a \"name\"").unwrap();
        let sql = "select encoding, datcollate from pg_database where datname = 'a \"name\"'";
        assert_eq!(server.psql("postgres", sql).unwrap(), "6|C");
    }
}

#[test]
fn a_server_that_cannot_start_says_why_and_can_be_tried_again() {
    let mut server = off(Version::V15);
    let port = server.psql("postgres", "show port").unwrap().parse::<u16>().unwrap();
    server.stop(Stop::Fast).unwrap();
    let listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let error = server.start_again().unwrap_err().to_string();
    assert!(error.contains("could not bind") && error.contains("PostgreSQL 15"), "{error}");
    drop(listener);
    server.start_again().unwrap();
}

#[test]
fn a_statement_that_fails_is_an_error_with_the_words_of_the_server() {
    let server = off(Version::V15);
    let error = server.psql("postgres", "select 1; select nonsense").unwrap_err().to_string();
    assert!(error.contains("nonsense"), "{error}");
}

/// The signal that ends an orphan also comes when only the thread ends that started it, as it does
/// with every test. A server that tests share would be gone with the first of them.
#[test]
fn a_server_outlives_the_thread_that_started_it() {
    let server = std::thread::spawn(|| off(Version::V15)).join().unwrap();
    // The signal would have come before the thread could be joined; its effect takes a moment.
    assert!(!until(Duration::from_millis(500), || server.psql("postgres", "select 1").is_err()));
}

#[test]
fn a_test_that_panics_leaves_no_server_and_no_directory() {
    let mut dir = PathBuf::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let server = off(Version::V18);
        dir = server.dir().to_owned();
        assert!(!working_in(&dir).unwrap().is_empty());
        panic!("as a failing test does");
    }));
    panicked.unwrap_err();
    assert!(!dir.as_os_str().is_empty() && !dir.exists());
    assert_gone(&dir);
}

/// Set in the process that is going to be killed.
const VICTIM: &str = "WINDROW_SERVERS_VICTIM";
const ANNOUNCEMENT: &str = "a server lives in ";

#[test]
fn a_process_that_is_killed_leaves_no_server() {
    if let Ok(name) = std::env::var(VICTIM) {
        let version = Version::ALL.into_iter().find(|version| version.to_string() == name);
        return wait_to_be_killed(version.unwrap());
    }
    for version in Version::ALL {
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_process_that_is_killed_leaves_no_server", "--nocapture"])
            .env(VICTIM, version.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines().map(Result::unwrap);
        let announced = |line: String| Some(line.split_once(ANNOUNCEMENT)?.1.to_owned());
        let dir = PathBuf::from(lines.find_map(announced).unwrap());
        assert!(working_in(&dir).unwrap().len() > 2, "a server has several processes");

        victim.kill().unwrap();
        victim.wait().unwrap();

        assert_gone(&dir);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

fn wait_to_be_killed(version: Version) {
    let server = off(version);
    println!("{ANNOUNCEMENT}{}", server.dir().display());
    // Ends only when whoever should kill us has died itself.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}
