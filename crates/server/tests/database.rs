//! The commands on a database: what they say, what they refuse, and that a password is not in it.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use windrow_store::embedded::disk::RealDisk;
use windrow_store::embedded::{Embedded, Options};
use windrow_testkit::filling::fill;
use windrow_testkit::servers::postgres::{Durability, Postgres, Version};
use windrow_testkit::servers::process::until;
use windrow_testkit::stepped::Stepped;

const PATIENCE: Duration = Duration::from_secs(60);

/// A server as users have it: it writes to disk.
struct Server(Postgres);

impl Server {
    fn start() -> Server {
        let server = Postgres::start(Version::V15, Durability::Real).unwrap();
        server.create_database("queue").unwrap();
        Server(server)
    }

    /// With a password in it, which nobody asks for and nobody may show.
    fn url(&self) -> String {
        format!("postgres://postgres:hunter2@127.0.0.1:{}/queue", self.0.port())
    }

    fn place(&self) -> String {
        format!("127.0.0.1:{}/queue", self.0.port())
    }

    fn psql(&self, sql: &str) -> String {
        self.0.psql("queue", sql).unwrap()
    }
}

/// A directory of its own for each test, removed when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(of: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("windrow-db-{of}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _it_goes_with_the_machine = std::fs::remove_dir_all(&self.0);
    }
}

/// A store of so many items in a new directory.
fn filled(dir: &Path, items: usize) {
    // A disk that syncs for every request of the filling would take its time.
    let disk = Arc::new(RealDisk::open(dir).unwrap());
    let options = Options { segment_bytes: 8 << 20, reserve_segments: 1, ..Options::default() };
    fill(11, items, &Stepped { store: Embedded::open(disk, options).unwrap() });
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Whether the program succeeded, and what it said.
#[track_caller]
fn windrow(words: &[&str]) -> (bool, String) {
    let run = command(words).output().unwrap();
    let said = String::from_utf8([run.stdout, run.stderr].concat()).unwrap();
    assert!(!said.contains("hunter2"), "{said}");
    (run.status.success(), said)
}

#[track_caller]
fn succeeds(words: &[&str]) -> String {
    let (success, said) = windrow(words);
    assert!(success, "{words:?}: {said}");
    said
}

#[track_caller]
fn refused(words: &[&str], part: &str) {
    let (success, said) = windrow(words);
    assert!(!success && said.contains(part), "{words:?} should say {part:?}: {said}");
}

#[test]
fn an_address_that_is_none_is_refused_with_one_that_is() {
    let right = "write postgres://user@host:port/database, or give a directory with --data-dir";
    for verb in ["dump", "check", "demo", "migrate"] {
        refused(&[verb, "--store", "mysql://me:hunter2@h/d"], "mysql:// is not a kind of store");
        refused(&[verb, "--store", "/var/lib/windrow"], right);
        refused(&[verb, "--store", "me:hunter2@h"], right);
    }
    refused(&["move", "--from", "redis://me:hunter2@h", "--to", "x"], right);
    let unverified = "postgres://me:hunter2@h/d?sslmode=verify-full";
    refused(&["dump", "--store", unverified], "sslrootcert=FILE");
    let nobody = "postgres://me:hunter2@127.0.0.1:1/d";
    refused(&["dump", "--store", nobody], "PostgreSQL cannot be reached at 127.0.0.1:1/d");
}

#[test]
fn every_command_teaches_by_examples() {
    for verb in ["dump", "check", "demo", "migrate", "move"] {
        let said = succeeds(&[verb, "--help"]);
        assert!(said.contains("Examples:") && said.contains("postgres://"), "{said}");
    }
}

#[test]
fn a_schema_is_looked_at_printed_and_brought_up_to_date() {
    let server = Server::start();
    let url = &*server.url();
    let migrate = |flag: &'static str| -> Vec<&str> {
        let words = ["migrate", "--store", url, flag];
        words.into_iter().filter(|word| !word.is_empty()).collect()
    };
    refused(&["dump", "--store", url], &format!("there is no store in {}", server.place()));
    refused(&migrate("--check"), "the schema lacks step 1 (queue)");
    assert!(succeeds(&migrate("--status")).contains("pending"));
    let sql = succeeds(&migrate("--sql"));
    assert_eq!(sql, succeeds(&["migrate", "--sql"]));
    assert_eq!(server.psql("select count(*) from pg_namespace where nspname = 'windrow'"), "0");

    // Applied by hand, it is known as ours.
    server.psql(&sql);
    assert!(succeeds(&migrate("--check")).contains("up to date"));
    assert!(succeeds(&migrate("")).contains("nothing to do"));
    assert!(succeeds(&migrate("--sql")).contains("-- the schema is up to date"));
    server.psql("drop schema windrow, windrow_catalog cascade");
    let applied = succeeds(&migrate(""));
    assert!(applied.contains("applied step 1 (queue)"), "{applied}");
    assert!(applied.contains("applied step 1 (catalog) of windrow_catalog"), "{applied}");
    // Also in a database whose queue is older than this.
    server.psql("drop schema windrow_catalog cascade");
    refused(&migrate("--check"), "the schema lacks step 1 (catalog) of windrow_catalog");
    let sql = succeeds(&migrate("--sql"));
    assert!(!sql.contains("(queue)") && sql.contains("(catalog)"), "{sql}");
    server.psql(&sql);
    assert!(succeeds(&migrate("--check")).contains("up to date"));
    let status = succeeds(&migrate("--status"));
    assert!(status.contains("queue") && status.contains("Z\n"), "{status}");
    assert!(!status.contains("pending"), "{status}");
    server.psql("insert into windrow.migrations values (999, 'later', 'x')");
    for flag in ["--check", "--status", "--sql", ""] {
        refused(&migrate(flag), "use a newer windrow");
    }
    let serve = ["serve", "--store", url, "--listen", "127.0.0.1:0", "--rpc-listen", "off"];
    refused(&serve, "use a newer windrow");
    server.psql("delete from windrow.migrations where number = 999");
    server.psql("update windrow.migrations set checksum = 'x' where number = 3");
    for words in [&migrate("--check")[..], &migrate(""), &serve] {
        refused(words, "step 3 (documents) of the schema is not the one this program knows");
    }
}

/// Any command brought the schema of a database up to date, under servers of another version.
#[test]
fn only_a_server_or_migrate_changes_a_schema() {
    let server = Server::start();
    let url = &*server.url();
    let steps = "select count(*) from windrow.migrations";
    for words in [&["list"][..], &["enqueue", "q"], &["stats"], &["token", "list"]] {
        refused(&[words, &["--store", url]].concat(), "`windrow migrate` makes an empty one");
    }
    assert_eq!(server.psql("select count(*) from pg_namespace where nspname = 'windrow'"), "0");
    // Whoever says that there is to be a store makes one, as in a directory.
    succeeds(&["token", "create", "--role", "admin", "--store", url]);
    let all = server.psql(steps);
    succeeds(&["list", "--store", url]);
    let last = "delete from windrow.migrations where number = \
                (select max(number) from windrow.migrations)";
    server.psql(last);
    let older = server.psql(steps);
    assert_ne!(older, all);
    for words in
        [&["list"][..], &["enqueue", "q", "--create"], &["token", "create", "--role=viewer"]]
    {
        refused(&[words, &["--store", url]].concat(), "run `windrow migrate` first");
    }
    assert_eq!(server.psql(steps), older);
}

/// The queue was listed as if nobody waited.
#[test]
fn queues_are_not_listed_when_the_store_does_not_say_who_waits() {
    let server = Server::start();
    let url = &*server.url();
    succeeds(&["enqueue", "q", "--create", "--store", url]);
    assert!(succeeds(&["queues", "--json", "--store", url]).contains("\"waiting_since\":\"20"));
    server.psql("alter function windrow.seats(int) rename to seats_gone");
    refused(&["queues", "--store", url], "nothing was written");
    server.psql("alter function windrow.seats_gone(int) rename to seats");
    assert!(succeeds(&["queues", "--json", "--store", url]).contains("\"waiting_since\":\"20"));
}

#[test]
fn a_store_moves_there_and_back_and_its_dump_is_the_same() {
    let (server, scratch) = (Server::start(), Scratch::new("move"));
    let url = &*server.url();
    let (source, back, third) = (scratch.path("from"), scratch.path("back"), scratch.path("third"));
    let [source, back, third] = [&source, &back, &third].map(|path| path.to_str().unwrap());
    filled(Path::new(source), 600);

    let moved = succeeds(&["move", "--from", source, "--to", url]);
    assert!(moved.contains("all equal, checksum") && moved.contains("released"), "{moved}");
    assert!(succeeds(&["check", "--store", url]).contains("all well"));
    let there = succeeds(&["dump", "--store", url]);
    refused(&["move", "--from", source, "--to", url], "is not empty");
    refused(&["dump", "--store", url, "--as", "records"], "--as items is what it has");

    succeeds(&["move", "--from", url, "--to", back]);
    assert!(succeeds(&["check", back]).contains("all well"));
    assert_eq!(succeeds(&["dump", back]), there);
    refused(&["move", "--from", url, "--to", back], "is not empty");

    // A directory moves into a directory just as well.
    succeeds(&["move", "--from", back, "--to", third]);
    assert_eq!(succeeds(&["dump", third]), there);
    // What was not in anybody's hands is as it was in the source.
    let first = succeeds(&["dump", source]);
    let held = |line: &&str| line.contains("\"status\":\"processing\"");
    assert!(first.lines().filter(|line| !held(line)).all(|line| there.contains(line)));
}

#[test]
fn a_move_that_was_killed_goes_on_and_meanwhile_nobody_opens_the_target() {
    let (server, scratch) = (Server::start(), Scratch::new("killed"));
    let url = &*server.url();
    let source = scratch.path("from");
    let source = source.to_str().unwrap();
    filled(Path::new(source), 4_000);

    let mut moving = command(&["move", "--from", source, "--to", url]).spawn().unwrap();
    let begun = "select to_regclass('windrow.moving') is not null \
                 and exists (select from windrow.store)";
    let arrived = "select count(*) > 0 from windrow.items";
    let is = |sql: &str| server.0.psql("queue", sql).is_ok_and(|answer| answer == "t");
    assert!(until(PATIENCE, || is(begun) && is(arrived)), "it begins");
    moving.kill().unwrap();
    moving.wait().unwrap();
    for words in [&["dump", "--store", url][..], &["check", "--store", url]] {
        refused(words, "was not finished");
    }
    let moved = succeeds(&["move", "--from", source, "--to", url]);
    assert!(moved.contains("all equal"), "{moved}");
    assert!(succeeds(&["check", "--store", url]).contains("all well"));
}

/// The schema was there a moment before the mark: whoever came between had a store of its own, and
/// the move could not go on.
#[test]
fn a_move_is_marked_from_the_moment_that_there_is_a_schema() {
    let (server, scratch) = (Server::start(), Scratch::new("marked"));
    let url = &*server.url();
    let source = scratch.path("from");
    let source = source.to_str().unwrap();
    filled(Path::new(source), 4_000);
    let mut moving = command(&["move", "--from", source, "--to", url]).spawn().unwrap();
    let seen = "select to_regclass('windrow.store') is not null, \
                to_regclass('windrow.moving') is not null";
    let mut last = String::new();
    assert!(until(PATIENCE, || {
        last = server.psql(seen);
        last != "f|f"
    }));
    moving.kill().unwrap();
    moving.wait().unwrap();
    assert_eq!(last, "t|t");
    let enqueue = ["enqueue", "q", "1", "--create", "--store", url];
    refused(&enqueue, "drop schema if exists windrow, windrow_catalog cascade");
    assert!(succeeds(&["move", "--from", source, "--to", url]).contains("all equal"));
}

/// A look left a note behind, which was taken for content.
#[test]
fn a_database_that_was_only_looked_at_can_be_moved_into() {
    let (server, scratch) = (Server::start(), Scratch::new("looked"));
    let url = &*server.url();
    let source = scratch.path("from");
    let source = source.to_str().unwrap();
    filled(Path::new(source), 300);
    succeeds(&["migrate", "--store", url]);
    let looks =
        [&["doctor"][..], &["stats"], &["list"], &["health"], &["queues"], &["top", "--once"]];
    for words in looks {
        windrow(&[words, &["--store", url]].concat());
    }
    assert_eq!(server.psql("select count(*) from windrow.notes"), "0");
    // What a server leaves there by itself is no content either.
    server.psql("insert into windrow.notes values ('keys', 'ids', 1, 'secret')");
    succeeds(&["move", "--from", source, "--to", url]);

    let other = Server::start();
    let url = &*other.url();
    succeeds(&["enqueue", "q", "1", "--create", "--store", url]);
    succeeds(&["token", "create", "--role", "admin", "--store", url]);
    let said = "is not empty, it holds items, audit, tokens; give a new one";
    refused(&["move", "--from", source, "--to", url], said);
}

#[test]
fn a_running_server_is_noticed_before_anything_is_moved() {
    let (server, scratch) = (Server::start(), Scratch::new("running"));
    let url = &*server.url();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let options = windrow_store::postgres::Options::new(url);
    let _running = runtime.block_on(windrow_store::postgres::Postgres::open(options)).unwrap();
    let to = scratch.path("to");
    refused(&["move", "--from", url, "--to", to.to_str().unwrap()], "stop the servers");
    assert!(!to.exists());
}

/// Through a pooler its connections are the pooler's.
#[test]
fn a_server_behind_a_pooler_is_known_by_its_leading() {
    let (server, scratch) = (Server::start(), Scratch::new("pooled"));
    let url = format!("{}?pooler=transaction", server.url());
    succeeds(&["token", "create", "--role", "admin", "--store", &url]);
    server.psql("update windrow.leader set leads_until = 1e15");
    let (to, from) = (scratch.path("to"), scratch.path("from"));
    let (to, from) = (to.to_str().unwrap(), from.to_str().unwrap());
    filled(Path::new(from), 10);
    for words in [
        &["token", "revoke", "--all", "--store", &url][..],
        &["move", "--from", &url, "--to", to],
        &["move", "--from", from, "--to", &url],
    ] {
        refused(words, "servers are at work on");
    }
    assert!(!Path::new(to).exists());
    server.psql("update windrow.leader set leads_until = 0");
    succeeds(&["token", "revoke", "--all", "--store", &url]);
}

#[test]
fn a_wrong_count_is_a_fault() {
    let (server, scratch) = (Server::start(), Scratch::new("count"));
    let url = &*server.url();
    let source = scratch.path("from");
    filled(&source, 900);
    succeeds(&["move", "--from", source.to_str().unwrap(), "--to", url]);
    server.psql("update windrow.counts set items = items + 1 where status = 2");
    refused(&["check", "--store", url], "completed items of");
}

#[test]
fn the_demo_runs_on_a_database_and_leaves_it_there() {
    let server = Server::start();
    let url = &*server.url();
    let said = succeeds(&["demo", "--documents", "1", "--workers", "4", "--store", url]);
    assert!(said.contains("lost: 0   settled twice: 0"), "{said}");
    assert!(said.contains(&format!("the queue is in {}", server.place())), "{said}");
    assert!(succeeds(&["check", "--store", url]).contains("all well"));
    refused(&["demo", "--store", url], "holds items");
}
