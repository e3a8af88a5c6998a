//! `windrow up` that goes on, and a second one beside it.

use std::time::{Duration, Instant};

use windrow_testkit::servers::listening::Listening;
use windrow_testkit::terminal::Terminal;

use crate::rig::Data;
use crate::{ran, says, windrow};

const PATIENCE: Duration = Duration::from_secs(60);

fn write(home: &Data, name: &str, text: &str) {
    let file = home.0.join("notes").join(name);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

/// Waits until a search finds a file. Each try is a command, which takes its time.
fn until_found(home: &Data, words: &str, name: &str) {
    let end = Instant::now() + PATIENCE;
    let wanted = format!("\"name\":\"{name}\"");
    loop {
        let found = ran(&mut windrow(home, &["search", words, "--json", "--limit", "1"]));
        if found.out.contains(&wanted) && found.out.contains(words) {
            return;
        }
        assert!(Instant::now() < end, "{words} is not found: {}{}", found.out, found.err);
    }
}

#[test]
fn a_folder_is_watched_until_it_is_stopped_and_another_up_asks_the_same_server() {
    let home = Data::new("up-watch");
    write(&home, "a.md", "Apples keep until spring.");
    let printed = home.0.join("printed");
    let mut command = windrow(&home, &["up", "notes"]);
    command.stdout(std::fs::File::create(&printed).unwrap());
    let mut up = Listening::start(&mut command).unwrap();
    up.hears(|line| line.contains("watching for new and changed files").then_some(())).unwrap();
    until_found(&home, "spring", "a.md");
    write(&home, "deep/b.md", "Bees fly from twelve degrees on.");
    until_found(&home, "degrees", "b.md");
    write(&home, "a.md", "Apples went into the press.");
    until_found(&home, "press", "a.md");

    // The server is found by its data directory; it is told of another folder, and does the work.
    std::fs::create_dir(home.0.join("more")).unwrap();
    std::fs::write(home.0.join("more/c.md"), "Cherries are picked in July.").unwrap();
    let second = ran(&mut windrow(&home, &["up", "--once", "notes", "more"]));
    assert_eq!(second.code, Some(0), "{}", second.err);
    says(&second.err, &["a server uses", "already: asking http://"]);
    says(&second.out, &["1 added", "3 documents (3 live)"]);
    until_found(&home, "Cherries", "c.md");
    let said = up.stop();
    says(&said, &["watching for new and changed files", "stopping"]);
    // Each time it says what is new, and what there is in all.
    let printed = std::fs::read_to_string(printed).unwrap();
    let told = |what: &str| -> u32 {
        let lines = printed.lines().filter(|line| line.contains(" s") && line.contains(" in "));
        let parts = lines.flat_map(|line| line.split(['(', ',']).map(str::trim));
        let counts = parts.filter_map(|part| part.split_once(what)?.0.trim().parse::<u32>().ok());
        counts.sum()
    };
    assert_eq!((told(" added"), told(" changed")), (2, 1), "{printed}");
    // The sources stay: a server that is only started takes up where it was.
    write(&home, "d.md", "Dates come from afar.");
    let mut serve = Listening::start(&mut windrow(&home, &["serve"])).unwrap();
    until_found(&home, "Dates", "d.md");
    serve.stop();
}

#[test]
fn bars_are_drawn_where_somebody_sees_them_and_ctrl_c_stops_the_server() {
    let home = Data::new("up-bars");
    for number in 0..30 {
        let text = format!("# Day {number}\n\nIt rained for {number} hours in Lower Town.\n");
        write(&home, &format!("{number}.md"), &text);
    }
    let mut command = windrow(&home, &["up", "notes"]);
    command.env("TERM", "xterm-256color");
    let mut terminal = Terminal::run(&command, 120, 40).unwrap();
    let screen = terminal.until("watching for new and changed files");
    says(&screen, &["pages", "30 of 30", "━━━", "30 added in", "30 documents (30 live)"]);
    terminal.press("\u{3}").unwrap();
    terminal.until("stopping");
    assert!(terminal.wait().unwrap().success());
    // Its directory is free again.
    let after = ran(&mut windrow(&home, &["search", "rained", "--limit", "1", "-v"]));
    assert_eq!(after.code, Some(0), "{}", after.err);
    says(&after.err, &["using "]);
}
