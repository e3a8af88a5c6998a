//! What is in `deploy/`: the unit of systemd and the steps of the container's build.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A directory that goes with the test.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Place {
        let name = format!("windrow-deploy-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Place(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What is left in the temporary directory is not this test's failure.
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

/// A process that does not outlive its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn serve(program: &Path, data: &Path) -> Command {
    let mut serve = Command::new(program);
    serve.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data);
    serve.stderr(Stdio::null());
    serve
}

/// The next words that a manager hears.
fn hears(manager: &UnixDatagram) -> String {
    let mut words = [0; 1_000];
    let heard = manager.recv(&mut words).expect("it says something");
    String::from_utf8_lossy(&words[..heard]).into_owned()
}

#[test]
fn a_service_manager_hears_when_the_server_is_ready_that_it_lives_and_when_it_stops() {
    let place = Place::new("notify");
    let socket = place.0.join("manager");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut command = serve(Path::new(env!("CARGO_BIN_EXE_windrow")), &place.0.join("data"));
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "100000");
    let server = Running(command.spawn().unwrap());
    assert!(hears(&manager).starts_with("READY=1\nSTATUS=serving http://127.0.0.1:"));
    assert_eq!(hears(&manager), "WATCHDOG=1");
    let stopped = Command::new("kill").arg(server.0.id().to_string()).status().unwrap();
    assert!(stopped.success());
    while hears(&manager) != "STOPPING=1" {}
}

#[test]
fn the_unit_waits_for_the_word_and_leaves_a_stop_its_time() {
    let unit = repository().join("deploy/systemd/windrow.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    assert_eq!(value("Type="), "notify");
    assert_eq!(value("ExecStart="), "/usr/local/bin/windrow serve");
    assert_eq!(value("KillMode="), "mixed", "programs that read pages would be ended with it");
    let shown = Command::new(env!("CARGO_BIN_EXE_windrow")).args(["config", "show"]).output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    let drain = shown.lines().find(|line| line.contains("drain_ms")).unwrap();
    let digits: String = drain.chars().filter(char::is_ascii_digit).collect();
    let drain_ms: u64 = digits.parse().unwrap();
    let stop_s: u64 = value("TimeoutStopSec=").parse().unwrap();
    assert!(stop_s * 1_000 > drain_ms, "systemd would kill it while it drains");
}

/// The words of each instruction of a Dockerfile, continued lines together.
fn instructions(text: &str) -> Vec<Vec<String>> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let whole = lines.join("\n").replace("\\\n", " ");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    whole.lines().map(words).filter(|words| !words.is_empty()).collect()
}

#[test]
fn the_steps_of_the_container_give_a_program_that_serves() {
    let (root, place) = (repository(), Place::new("container"));
    let dockerfile = std::fs::read_to_string(root.join("deploy/docker/Dockerfile")).unwrap();
    let steps = instructions(&dockerfile);
    let build = steps.iter().find(|words| words[0] == "RUN" && words[1].ends_with("build.sh"));
    let [_, script, out] = build.expect("a step that builds").as_slice() else {
        panic!("the build takes one directory")
    };
    let copied = format!("{out}/windrow");
    assert!(steps.iter().any(|words| words[0] == "COPY" && words.contains(&copied)));
    // As the container does it, but with this machine's profile, into the test's directory, and
    // with the features that the whole workspace asks for: so everything is built already.
    let target = Path::new(env!("CARGO_BIN_EXE_windrow")).ancestors().nth(2).unwrap();
    let built = Command::new(root.join(script))
        .arg(place.0.join("out"))
        .current_dir(&root)
        .env("PROFILE", "dev")
        .env("PACKAGES", "--workspace")
        .env("CARGO_TARGET_DIR", target)
        .status()
        .unwrap();
    assert!(built.success(), "{script} failed");
    let program = place.0.join("out/windrow");
    let socket = place.0.join("manager");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // A container has nothing of this machine's environment.
    let mut command = serve(&program, &place.0.join("data"));
    command.env_clear().env("NOTIFY_SOCKET", &socket);
    let _server = Running(command.spawn().unwrap());
    assert!(hears(&manager).starts_with("READY=1"));
}
