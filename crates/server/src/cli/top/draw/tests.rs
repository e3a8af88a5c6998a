use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use windrow_core::Timestamp;

use super::super::look::{Check, Health, Look, Part, Queue};
use super::super::state::tests::{look, state};
use super::super::state::{Event, Key};
use super::*;

fn buffer(state: &State, columns: u16, rows: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("a terminal");
    terminal.draw(|frame| draw(frame, state)).expect("it is drawn");
    terminal.backend().buffer().clone()
}

/// A frame as text, without spaces at the ends of lines.
fn drawn(state: &State, columns: u16, rows: u16) -> String {
    let buffer = buffer(state, columns, rows);
    let line = |y| {
        let cells = (0..columns).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned() + "\n"
    };
    (0..rows).map(line).collect()
}

/// The frame is the one that is checked in; `UPDATE=1` writes it down.
fn check(name: &str, state: &State, columns: u16, rows: u16) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli/top/draw/frames/");
    let path = format!("{path}{name}.txt");
    let frame = drawn(state, columns, rows);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &frame).expect("it is written");
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(frame, known, "{name} is drawn otherwise now:\n{frame}");
}

fn healthy() -> State {
    let mut state = state();
    let check = |check: &str, status: &str, of: Option<&str>, says: &str, remedy: Option<&str>| {
        let (check, status) = (check.to_owned(), status.to_owned());
        let text = |text: Option<&str>| text.map(str::to_owned);
        Check { check, status, of: text(of), says: says.to_owned(), remedy: text(remedy) }
    };
    let checks = vec![
        check("store", "green", None, "the store answers", None),
        check(
            "held",
            "yellow",
            Some("ocr"),
            "work waits behind a pause or a closed resource, the first of it for 5 min",
            Some("resume the queue, stage or tenant if it was forgotten"),
        ),
    ];
    state.look.health = Some(Health { status: "yellow".to_owned(), checks });
    state.look.queues[1].paused = vec![Part::default()];
    state.look.queues[1].delayed = 7;
    state
}

#[test]
fn frames_are_as_they_were() {
    check("wide", &healthy(), 120, 30);
    check("narrow", &healthy(), 80, 30);
    check("low", &healthy(), 80, 12);
    let mut asks = healthy();
    asks.on(Event::Key(Key::Letter('p')));
    check("question", &asks, 80, 24);
    let mut help = healthy();
    help.on(Event::Key(Key::Letter('?')));
    check("help", &help, 92, 24);
    let mut away = healthy();
    away.on(Event::Time(Timestamp(2_042_000)));
    away.on(Event::Away("127.0.0.1:7117: connection refused".to_owned()));
    check("away", &away, 100, 24);
    let mut empty = state();
    empty.look = Look { queues: vec![], stages: vec![], workers: vec![], items: vec![], ..look() };
    check("empty", &empty, 80, 24);
    empty.filter = "queue:bluk".to_owned();
    let frame = drawn(&empty, 80, 24);
    assert!(frame.contains("queues: the filter admits none"), "{frame}");
    assert!(!frame.contains("none yet"), "{frame}");
    let mut told = healthy();
    let lines = vec!["01 is failed".to_owned(), "a word ".repeat(30)];
    told.on(Event::Told { title: "item 01".to_owned(), lines });
    check("told", &told, 60, 14);
}

/// Somebody saw "health red", and not why.
#[test]
fn the_worst_that_is_not_well_is_said_with_what_to_do() {
    let mut state = healthy();
    assert!(drawn(&state, 160, 30).contains("forgotten"));
    let health = state.look.health.as_mut().expect("it was told");
    health.checks.push(Check {
        check: "tick".to_owned(),
        status: "red".to_owned(),
        of: None,
        says: "nothing happens by itself".to_owned(),
        remedy: Some("look at the log".to_owned()),
    });
    let frame = drawn(&state, 80, 30);
    assert!(frame.contains("tick: nothing happens by itself. Fix: look at the log"), "{frame}");
    assert!(!frame.contains("forgotten"), "{frame}");
    state.look.health.as_mut().expect("it was told").checks.truncate(1);
    assert!(drawn(&state, 80, 30).lines().nth(1).is_some_and(|line| line.contains("asking")));
}

#[test]
fn every_size_is_drawn_and_none_is_too_small() {
    let mut asks = healthy();
    asks.on(Event::Key(Key::Letter('?')));
    for columns in [0, 1, 2, 3, 7, 20, 79, 300] {
        for rows in [0, 1, 2, 3, 4, 5, 9, 17, 100] {
            drawn(&healthy(), columns, rows);
            drawn(&asks, columns, rows);
        }
    }
}

#[test]
fn without_colours_nothing_is_coloured() {
    let mut state = healthy();
    let colours = |state: &State| {
        let buffer = buffer(state, 120, 30);
        let is_plain = |colour| colour == Color::Reset;
        buffer.content.iter().filter(|cell| !is_plain(cell.fg) || !is_plain(cell.bg)).count()
    };
    assert_eq!(colours(&state), 0);
    state.is_coloured = true;
    assert!(colours(&state) > 0);
}

#[test]
fn what_others_wrote_does_nothing_to_the_terminal() {
    let mut state = healthy();
    let evil = "\u{1b}]0;mine\u{7}\u{1b}[2J";
    state.look.queues.push(Queue { queue: evil.to_owned(), ..Queue::default() });
    state.look.items[0].reason = Some(evil.to_owned());
    state.look.items[0].error = None;
    state.look.workers[0].name = evil.to_owned();
    state.away = Some(evil.to_owned());
    let frame = drawn(&state, 120, 40);
    assert!(frame.contains("mine") && !frame.contains(['\u{1b}', '\u{7}']), "{frame:?}");
}

#[test]
fn help_fits_and_names_every_key_that_the_footer_does() {
    assert!(HELP.iter().all(|line| line.len() <= 90));
    for key in ["Tab", "Enter", "r ", "p ", "/ ", "q,"] {
        assert!(HELP.iter().any(|line| line.starts_with(key)), "{key}");
    }
}
