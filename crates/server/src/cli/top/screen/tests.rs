use std::process::Command;

use windrow_testkit::terminal::Terminal;

use super::super::state::tests::state;
use super::*;

/// Set for the process that panics.
const PANICS: &str = "WINDROW_TEST_PANICS";

#[test]
fn a_panic_gives_the_terminal_back_before_it_speaks() {
    if std::env::var_os(PANICS).is_some() {
        let mut screen = Screen::take().expect("a terminal");
        screen.terminal.draw(|frame| draw(frame, &state())).expect("it is drawn");
        panic!("this is a bug");
    }
    gives_back_and_ends(|_| {});
}

/// The thread that draws went on, and kept the process and the terminal.
#[test]
fn a_panic_of_whoever_asks_ends_the_drawing_too() {
    if std::env::var_os(PANICS).is_some() {
        let runtime = crate::cli::runtime().expect("a runtime");
        let ended = runtime.block_on(run(state(), async |mut wishes, _tell| {
            let wished = wishes.recv().await;
            panic!("this is a bug, {wished:?}");
        }));
        unreachable!("it ended with {ended:?}");
    }
    gives_back_and_ends(|terminal| {
        terminal.until("queues");
        terminal.press("\r").expect("it is pressed");
    });
}

/// Runs this test in a terminal, where it panics.
fn gives_back_and_ends(meanwhile: impl FnOnce(&mut Terminal)) {
    let name = std::thread::current().name().expect("a test").to_owned();
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args([&name, "--exact", "--nocapture"]).env(PANICS, "1");
    let mut terminal = Terminal::run(&command, 120, 30).expect("a terminal");
    meanwhile(&mut terminal);
    assert!(!terminal.wait().expect("it ends").success());
    terminal.until_sent("this is a bug");
    let sent = terminal.sent();
    let left = sent.find("\u{1b}[?1049l").expect("the screen was left");
    assert!(left > sent.find("\u{1b}[?1049h").expect("it was taken"));
    assert!(left < sent.find("this is a bug").expect("it was said"), "{sent:?}");
    assert_eq!(sent.matches("\u{1b}[?1049l").count(), 1, "once is enough");
    assert!(terminal.is_as_it_was().expect("it can be asked"));
}

#[test]
fn keys_are_read_as_they_are_meant() {
    let pressed = |code, modifiers| key(&event::Event::Key(KeyEvent::new(code, modifiers)));
    let none = KeyModifiers::NONE;
    assert_eq!(pressed(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Interrupt));
    assert_eq!(pressed(KeyCode::Char('p'), KeyModifiers::CONTROL), None);
    assert_eq!(pressed(KeyCode::Char('G'), KeyModifiers::SHIFT), Some(Key::Letter('G')));
    assert_eq!(pressed(KeyCode::Esc, none), Some(Key::Escape));
    assert_eq!(pressed(KeyCode::F(1), none), None);
    assert_eq!(key(&event::Event::Resize(80, 24)), None);
}
