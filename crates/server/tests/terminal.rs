//! What people see who sit at a terminal: `windrow top`, questions, bars and colours, on a real
//! pseudo-terminal.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod rig;

use std::process::{Command, Stdio};

use serde_json::json;
use windrow_testkit::terminal::Terminal;

use rig::{Data, Server};

/// The binary with nothing around it but a home of its own.
fn windrow(home: &Data, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
    command.args(words);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("WINDROW") || matches!(name.as_str(), "NO_COLOR" | "TERM") {
            command.env_remove(name);
        }
    }
    command.env("HOME", &home.0).env("TERM", "xterm-256color");
    command
}

fn on_terminal(command: &Command) -> Terminal {
    Terminal::run(command, 120, 30).unwrap()
}

/// A server with work in two queues, some of which failed.
fn busy(data: &Data) -> Server {
    let server = Server::start(&data.place(), &[]);
    server.enqueue("mail", &json!([{"key": "a"}, {"key": "b"}]));
    server.enqueue("thumbs", &json!([{"key": "c"}, {"key": "d", "delay_ms": 3600000}]));
    let (lease, ids) = server.claim("thumbs", 1);
    server.settle(&lease, &ids, &json!({"outcome": "fail", "error": "no space left"}));
    server
}

fn pauses(server: &Server, queue: &str) -> bool {
    let queues = server.get("/api/v1/queues").json();
    let queues = queues.as_array().unwrap();
    queues.iter().any(|known| known["queue"] == queue && known["paused"] != json!([]))
}

#[test]
fn top_pauses_and_resumes_a_queue_retries_a_failure_and_leaves_the_terminal_as_it_was() {
    let data = Data::new("top");
    let server = busy(&data);
    let address = format!("http://{}", server.address);
    let words = ["top", "--server", &address, "--interval", "200ms"];
    let mut terminal = on_terminal(&windrow(&data, &words));
    let screen = terminal.until("no space left");
    assert!(screen.contains("mail") && screen.contains("health"), "{screen}");
    let thumbs = screen.lines().find(|line| line.contains("thumbs")).unwrap();
    let thumbs = thumbs.replace('│', " ");
    let numbers: Vec<&str> = thumbs.split_whitespace().collect();
    assert_eq!(numbers[1..5], ["0", "1", "0", "1"], "due, delayed, processing, failed: {thumbs}");

    // The second queue; the first answer is no.
    terminal.press("jp").unwrap();
    terminal.until("Pause queue thumbs");
    terminal.press("n").unwrap();
    terminal.until("nothing was changed");
    assert!(!pauses(&server, "thumbs"));
    terminal.press("p").unwrap();
    terminal.until("Pause queue thumbs");
    terminal.press("y").unwrap();
    terminal.until("thumbs: paused");
    assert!(pauses(&server, "thumbs") && !pauses(&server, "mail"));
    // What is asked depends on what is shown, and that comes with the next look at the server.
    terminal.until_it("the pause in its row", |screen| {
        screen.lines().any(|line| line.starts_with("│thumbs") && line.contains(" paused "))
    });
    terminal.press("p").unwrap();
    terminal.until("Resume queue thumbs?");
    terminal.press("y").unwrap();
    terminal.until("thumbs: resumed");
    assert!(!pauses(&server, "thumbs"));

    // The queue, then the failure: explained and retried.
    terminal.press("\r").unwrap();
    terminal.until("\"lease_ms\": 300000");
    terminal.press("\u{1b}").unwrap();
    terminal.until("failures (1)");
    terminal.press("\t\t\t\r").unwrap();
    terminal.until("is failed");
    terminal.press("q").unwrap();
    terminal.until("failures (1)");
    terminal.press("r").unwrap();
    terminal.until("Retry 0");
    terminal.press("y").unwrap();
    terminal.until("failures: none");
    assert_eq!(server.get("/api/v1/queue/stats").json()["failed"], 0);

    terminal.press("q").unwrap();
    assert!(terminal.wait().unwrap().success());
    terminal.until_sent("\u{1b}[?1049l");
    assert!(terminal.is_as_it_was().unwrap());
}

#[test]
fn top_goes_on_when_its_server_comes_back_and_follows_a_new_size() {
    let data = Data::new("top-away");
    let server = busy(&data);
    let words = [&["top", "--interval", "100ms"][..], &data.place()].concat();
    let mut terminal = on_terminal(&windrow(&data, &words));
    terminal.until("asking http://");
    server.stop();
    // Its directory is opened instead, and let go each time, so that a server can start.
    terminal.until("no server runs");
    let again = Server::start(&data.place(), &[]);
    terminal.until("asking http://");
    let (_, ids) = again.claim("mail", 1);
    assert_eq!(ids.len(), 1);
    terminal.until_it("the lease", |screen| {
        let mut mail = screen.lines().filter(|line| line.contains("mail"));
        mail.any(|line| line.split_whitespace().any(|word| word == "w"))
            || screen.contains("processing 1")
    });
    terminal.resize(60, 10).unwrap();
    terminal.until_it("one pane", |screen| {
        screen.contains("*queues") && !screen.contains("workers") && screen.contains("Tab pane")
    });
    terminal.resize(120, 30).unwrap();
    terminal.until("workers (1)");
    terminal.press("\u{3}").unwrap();
    assert!(terminal.wait().unwrap().success());
    assert!(terminal.is_as_it_was().unwrap());
}

#[test]
fn top_says_that_a_server_is_away_and_what_a_filter_means() {
    let data = Data::new("top-gone");
    let server = busy(&data);
    let address = format!("http://{}", server.address);
    let words = ["top", "--server", &address, "--interval", "100ms"];
    let mut terminal = on_terminal(&windrow(&data, &words));
    terminal.until("no space left");
    terminal.press("/quuee:x\r").unwrap();
    terminal.until("queue: is meant");
    terminal.press("\u{1b}").unwrap();
    terminal.until("Tab pane");
    terminal.press("/queue:mail\r").unwrap();
    terminal.until("failures: none");
    server.stop();
    terminal.until("AWAY");
    // A signal leaves it as a key does.
    let pid = terminal.pid().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    terminal.wait().unwrap();
    terminal.until_sent("\u{1b}[?1049l");
    assert!(terminal.is_as_it_was().unwrap());
}

#[test]
fn top_without_a_terminal_prints_one_look_or_says_how() {
    let data = Data::new("top-once");
    let server = busy(&data);
    let address = format!("http://{}", server.address);
    let run = |words: &[&str]| {
        let words = [&["top", "--server", &address][..], words].concat();
        windrow(&data, &words).stdin(Stdio::null()).output().unwrap()
    };
    let refused = run(&[]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("windrow top --once"), "{said}");
    let once = run(&["--once"]);
    let text = String::from_utf8(once.stdout).unwrap();
    assert!(text.starts_with("health ") && text.contains("no space left"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
    let json: serde_json::Value =
        serde_json::from_slice(&run(&["--once", "--json"]).stdout).unwrap();
    assert_eq!(json["queues"][1]["queue"], "thumbs");
    assert_eq!(json["queues"][1]["delayed"], 1);
    assert_eq!(json["items"][0]["error"]["message"], "no space left");
    let narrowed: serde_json::Value =
        serde_json::from_slice(&run(&["queue:mail", "--once", "--json"]).stdout).unwrap();
    assert_eq!((narrowed["queues"].as_array().unwrap().len(), &narrowed["items"]), (1, &json!([])));
    // Nobody answers, a queue that is none, a filter that is none.
    let nowhere = windrow(&data, &["top", "--once", "--server", "http://127.0.0.1:1"]).output();
    assert_eq!(nowhere.unwrap().status.code(), Some(5));
    assert_eq!(run(&["quuee:x", "--once"]).status.code(), Some(2));
}

#[test]
fn many_are_changed_only_after_a_yes_and_a_bar_is_drawn_where_somebody_sees_it() {
    let data = Data::new("asked");
    let server = Server::start(&data.place(), &[]);
    let items: Vec<serde_json::Value> = (0..500).map(|at| json!({"key": at.to_string()})).collect();
    server.enqueue("thumbs", &json!(items));
    let address = format!("http://{}", server.address);
    let words = ["cancel", "status:pending", "--server", &address];
    for answer in ["\n", "n\n", "what\n", "\u{4}"] {
        let mut terminal = on_terminal(&windrow(&data, &words));
        terminal.until("500 items match. Cancel them? [y/N]");
        terminal.press(answer).unwrap();
        terminal.until("nothing was changed");
        assert!(terminal.wait().unwrap().success());
        assert_eq!(server.get("/api/v1/queue/stats").json()["pending"], 500);
    }
    let mut terminal = on_terminal(&windrow(&data, &words));
    terminal.until("[y/N]");
    terminal.press("y\n").unwrap();
    terminal.until("500 items cancelled");
    assert!(terminal.wait().unwrap().success());
    terminal.until_sent("of 500");
    // The same without a terminal: nothing is drawn, and nothing is done unless it is said.
    let words = ["retry", "status:cancelled", "--server", &address];
    let silent = windrow(&data, &words).stdin(Stdio::null()).output().unwrap();
    assert_eq!(silent.status.code(), Some(2));
    let said = windrow(&data, &[&words[..], &["--yes"]].concat()).output().unwrap();
    assert_eq!(String::from_utf8(said.stdout).unwrap(), "500 items retried\n");
    assert_eq!(String::from_utf8(said.stderr).unwrap(), "");
}

#[test]
fn colours_are_for_terminals_and_not_for_those_who_do_not_want_them() {
    let data = Data::new("colours");
    let server = busy(&data);
    let address = format!("http://{}", server.address);
    let sent = |variables: &[(&str, &str)], words: &[&str], until: &str| {
        let words = [words, &["--server", &address]].concat();
        let mut command = windrow(&data, &words);
        command.envs(variables.iter().copied());
        let mut terminal = on_terminal(&command);
        terminal.until(until);
        if words[0] == "top" {
            terminal.press("q").unwrap();
        }
        terminal.wait().unwrap();
        terminal.sent()
    };
    let list = ["list", "status:failed"];
    assert!(sent(&[], &list, "no space").contains("\u{1b}[31mfailed"));
    // An empty variable says nothing.
    assert!(sent(&[("NO_COLOR", "")], &list, "no space").contains("\u{1b}[31mfailed"));
    assert!(!sent(&[("NO_COLOR", "1")], &list, "no space").contains('\u{1b}'));
    assert!(!sent(&[("TERM", "dumb")], &list, "no space").contains('\u{1b}'));
    let is_coloured = |sent: &str| {
        let codes = sent.split("\u{1b}[").skip(1).filter_map(|rest| rest.split_once('m'));
        let codes = codes.map(|(code, _)| code.to_owned());
        codes.into_iter().any(|code| {
            let is_colour = |part: &str| matches!(part.parse(), Ok(30..=38 | 40..=48 | 90..=107));
            code.bytes().all(|byte| byte.is_ascii_digit() || byte == b';')
                && code.split(';').any(is_colour)
        })
    };
    assert!(is_coloured(&sent(&[], &["top"], "no space")));
    assert!(!is_coloured(&sent(&[("NO_COLOR", "1")], &["top"], "no space")));
    let dumb = windrow(&data, &["top", "--server", &address]).env("TERM", "dumb").output();
    assert_eq!(dumb.unwrap().status.code(), Some(2));
    let piped = windrow(&data, &["list", "--server", &address]).output().unwrap();
    assert!(!String::from_utf8(piped.stdout).unwrap().contains('\u{1b}'));
}
