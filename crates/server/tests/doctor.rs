//! `windrow doctor`: each line made to go wrong for real, and what it says then.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod rig;

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use windrow_testkit::servers::postgres::{Durability, Postgres, Version};

use rig::{Data, Server};

/// The command with nothing around it, in a directory of its own.
fn doctor(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
    command.arg("doctor").args(words).arg("--json").env_clear().current_dir(home);
    // Ports that nobody has.
    command.env("WINDROW_SERVER__LISTEN", "127.0.0.1:0");
    command.env("HOME", home).env("PATH", std::env::var_os("PATH").unwrap());
    command
}

/// The lines of a check, each with its status and its words.
fn lines(output: &Output, check: &str) -> Vec<(String, String)> {
    let all = String::from_utf8_lossy(&output.stdout).into_owned();
    let all = all.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of = all.filter(|line| line["check"] == check);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    of.map(|line| {
        let fix = text(&line["fix"]);
        assert!(line["status"] != "warn" || !fix.is_empty(), "what is to be done? {line}");
        (text(&line["status"]), format!("{} {fix}", text(&line["says"])))
    })
    .collect()
}

/// The command says that of a check, and ends as it must.
#[track_caller]
fn says(command: &mut Command, check: &str, status: &str, words: &str) {
    let output = command.output().unwrap();
    let found = lines(&output, check);
    let is_it = |(its, said): &(String, String)| its == status && said.contains(words);
    let all = String::from_utf8_lossy(&output.stdout);
    assert!(found.iter().any(is_it), "{check} does not say {words:?}:\n{all}");
    let has_problem = all.contains("\"status\":\"problem\"");
    assert_eq!(output.status.code(), Some(i32::from(has_problem)), "{all}");
}

/// A data directory with a store that nobody has open.
fn stored(test: &str) -> Data {
    let data = Data::new(test);
    let server = Server::start(&data.place(), &[]);
    server.enqueue("thumbs", &json!({}));
    server.stop();
    data
}

#[test]
fn a_store_is_opened_or_its_holder_named_or_its_damage_said() {
    let data = stored("doctor-store");
    let place = data.place();
    says(&mut doctor(&data.0, &place), "store", "ok", "its log is whole");
    let server = Server::start(&place, &[]);
    says(&mut doctor(&data.0, &place), "store", "ok", "is in use by pid");
    says(&mut doctor(&data.0, &place), "version", "ok", "here and there");
    says(&mut doctor(&data.0, &place), "token", "ok", "admin");
    server.stop();
    // A command cannot be asked, but that it works is no problem.
    let mut work = Command::new(env!("CARGO_BIN_EXE_windrow"));
    work.args(["work", "--queue", "nothing"]).args(place).args(["--", "true"]);
    let mut work = work.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while lines(&doctor(&data.0, &place).output().unwrap(), "store")[0].0 != "warn" {}
    says(&mut doctor(&data.0, &place), "store", "warn", "which is no server");
    // Whoever meets it is told so, and so was whoever began it: nothing said why all was in use.
    for other in [&["stats"][..], &["serve", "--listen", "127.0.0.1:0"]] {
        let mut other_one = Command::new(env!("CARGO_BIN_EXE_windrow"));
        let met = other_one.args(other).args(place).output().unwrap();
        let met = String::from_utf8_lossy(&met.stderr).into_owned();
        assert!(met.contains(&format!("pid {}, which is no server", work.id())), "{met}");
    }
    work.kill().unwrap();
    let said = String::from_utf8(work.wait_with_output().unwrap().stderr).unwrap();
    assert!(said.contains("no server runs here: this opens the directory itself"), "{said}");
    let none = data.0.join("none");
    let none = ["--data-dir", none.to_str().unwrap()];
    says(&mut doctor(&data.0, &none), "store", "warn", "`windrow serve` makes one");
    let letters = Data::new("doctor-letters");
    std::fs::write(letters.0.join("letter"), "dear").unwrap();
    says(&mut doctor(&data.0, &letters.place()), "store", "problem", "holds other files");
    // A flipped bit in the head of the first segment.
    let segment = std::fs::read_dir(&data.0).unwrap().map(|entry| entry.unwrap().path());
    let is_segment = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("segment-")
    };
    let segment = segment.filter(is_segment).min().unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[5] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let output = doctor(&data.0, &place).output().unwrap();
    assert_eq!(lines(&output, "store")[0].0, "problem");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_disk_that_forgets_or_cannot_be_written_and_open_doors_are_said() {
    let data = stored("doctor-disk");
    let place = data.place();
    says(&mut doctor(&data.0, &place), "sync", "ok", "a sync takes");
    let space = lines(&doctor(&data.0, &place).output().unwrap(), "space");
    assert!(space[0].1.contains("in reserve"), "{space:?}");
    std::fs::set_permissions(&data.0, std::fs::Permissions::from_mode(0o755)).unwrap();
    says(&mut doctor(&data.0, &place), "disk", "warn", "chmod 700");
    std::fs::set_permissions(&data.0, std::fs::Permissions::from_mode(0o700)).unwrap();
    says(&mut doctor(&data.0, &place), "disk", "ok", "this user's alone");
    // Nobody can write there, not even root.
    let proc = ["--data-dir", "/proc/windrow"];
    says(&mut doctor(&data.0, &proc), "sync", "problem", "cannot be written to");
    let memory = ["--data-dir", "/dev/shm/windrow-doctor-none"];
    says(&mut doctor(&data.0, &memory), "file system", "problem", "forgets everything");
    let left: Vec<_> =
        std::fs::read_dir(&data.0).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("doctor")), "{left:?}");
}

#[test]
fn ports_that_are_taken_are_said_with_who_has_them() {
    let data = stored("doctor-port");
    let place = data.place();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    // It never answers: it is given up.
    let mut command = doctor(&data.0, &place);
    command.env("WINDROW_SERVER__LISTEN", &at).env("WINDROW_SERVER__RPC_LISTEN", "off");
    says(&mut command, "port", "warn", "another program listens");
    // Flags of the server were refused.
    let flags = [&place[..], &["--listen", &at, "--rpc-listen", "off"]].concat();
    says(&mut doctor(&data.0, &flags), "port", "warn", "another program listens");
    let other = Data::new("doctor-other");
    let server = Server::start(&other.place(), &[]);
    let mut command = doctor(&data.0, &place);
    command.env("WINDROW_SERVER__LISTEN", &server.address);
    says(&mut command, "port", "warn", "another windrow listens");
    let mut command = doctor(&data.0, &place);
    command.env("WINDROW_SERVER__LISTEN", "192.0.2.1:7117");
    says(&mut command, "port", "problem", "choose an address of this machine");
    says(&mut doctor(&data.0, &place), "port", "ok", "is free");
}

#[test]
fn configuration_secrets_tools_and_limits_are_looked_at() {
    let data = stored("doctor-config");
    let file = data.0.join("with.toml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    let words = [&data.place()[..], &["--config", file.to_str().unwrap()]].concat();
    write("[server]\nlissten = \"x\"\n");
    says(&mut doctor(&data.0, &words), "config", "problem", "server.listen is meant");
    write("[workers.ocr]\nqueues = [\"a\"]\ncommand = [\"/no/such/program\"]\n");
    says(&mut doctor(&data.0, &words), "tools", "problem", "is not there");
    let tool = data.0.join("with.toml").display().to_string();
    write(&format!("[workers.ocr]\nqueues = [\"a\"]\ncommand = [{tool:?}]\n"));
    says(&mut doctor(&data.0, &words), "tools", "problem", "may not be executed");
    write("[workers.ocr]\nqueues = [\"a\"]\ncommand = [\"sh\", \"-c\", \"true\"]\n");
    says(&mut doctor(&data.0, &words), "tools", "ok", "worker ocr runs");
    let secret = "correct-horse-battery-staple-correct-horse";
    write(&format!("[workers]\nsecret = \"{secret}\"\n"));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let mut command = doctor(&data.0, &words);
    let printed = command.output().unwrap();
    assert!(!String::from_utf8_lossy(&printed.stdout).contains(secret));
    assert!(!String::from_utf8_lossy(&printed.stderr).contains(secret));
    says(&mut command, "secrets", "warn", "chmod 600");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    says(&mut command, "secrets", "ok", "their owner's alone");
    let program = env!("CARGO_BIN_EXE_windrow");
    let few = doctor(&data.0, &[]);
    let mut limited = Command::new("sh");
    let line = format!("ulimit -n 600; exec {program} doctor --json --data-dir data");
    limited.args(["-c", &line]).env_clear().current_dir(&data.0);
    limited.envs(few.get_envs().filter_map(|(name, value)| Some((name, value?))));
    says(&mut limited, "files", "warn", "LimitNOFILE");
}

#[test]
fn a_server_that_is_away_or_does_not_know_the_token_is_said() {
    let data = Data::new("doctor-server");
    let nowhere = ["--server", "http://127.0.0.1:1"];
    says(&mut doctor(&data.0, &nowhere), "server", "problem", "windrow serve");
    let create = |role: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
        command.args(["token", "create", "--role"]).args(role).args(data.place()).output().unwrap()
    };
    assert!(create(&["admin"]).status.success());
    let made = create(&["viewer", "--tenant", "acme"]);
    let token = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let server = Server::start(&data.place(), &[]);
    let address = format!("http://{}", server.address);
    let there = ["--server", address.as_str()];
    says(&mut doctor(&data.0, &there), "token", "problem", "windrow token create");
    let wrong = token.replace(&token[token.len() - 4..], "0000");
    let mut command = doctor(&data.0, &there);
    says(command.env("WINDROW_TOKEN", &wrong), "token", "problem", "was revoked");
    let mut command = doctor(&data.0, &there);
    let known = command.env("WINDROW_TOKEN", &token);
    says(known, "token", "ok", "the role viewer, for tenant acme only");
    says(known, "clock", "ok", "the server's clock and ours agree");
    let printed = known.output().unwrap();
    assert!(!String::from_utf8_lossy(&printed.stdout).contains(&token));
}

#[test]
fn a_database_that_does_not_keep_its_word_is_said() {
    let data = Data::new("doctor-database");
    let good = Postgres::start(Version::V15, Durability::Real).unwrap();
    good.create_database("queue").unwrap();
    let (url, gone) = (good.url("queue"), good.url("gone"));
    let place = ["--store", url.as_str()];
    // Looking does not make a store.
    says(&mut doctor(&data.0, &place), "store", "warn", "windrow migrate");
    says(&mut doctor(&data.0, &place), "store", "warn", "windrow migrate");
    says(&mut doctor(&data.0, &["--store", &gone]), "database", "problem", "gone");
    let mut migrate = Command::new(env!("CARGO_BIN_EXE_windrow"));
    assert!(migrate.args(["migrate", "--store", &url]).output().unwrap().status.success());
    says(&mut doctor(&data.0, &place), "store", "ok", "the schema is up to date");
    says(&mut doctor(&data.0, &place), "durability", "ok", "fsync and full_page_writes are on");
    says(&mut doctor(&data.0, &place), "clock", "ok", "the database's clock and ours agree");
    good.psql("queue", "alter system set autovacuum = off").unwrap();
    good.psql("queue", "select pg_reload_conf()").unwrap();
    says(&mut doctor(&data.0, &place), "autovacuum", "problem", "autovacuum = on");
    let separator = if url.contains('?') { '&' } else { '?' };
    let many = format!("{url}{separator}connections=500");
    says(&mut doctor(&data.0, &["--store", &many]), "connections", "problem", "max_connections");
    drop(good);
    let bad = Postgres::start(Version::V15, Durability::Off).unwrap();
    bad.create_database("queue").unwrap();
    let url = bad.url("queue");
    says(&mut doctor(&data.0, &["--store", &url]), "durability", "problem", "set fsync = on");
}
