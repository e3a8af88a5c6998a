//! The terminal: taken, drawn on, listened to, and given back however this ends.
//!
//! A thread of its own draws and reads keys, so that neither waits for a server; the asker runs
//! where the command does.

use std::io::{self, Stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::draw::draw;
use super::state::{Event, Key, Next, State, Wish};
use crate::cli::show::now;

/// How long keys are waited for before answers are looked at.
const TURN: Duration = Duration::from_millis(50);

/// Shows the state until somebody leaves, or the process is told to end. Meanwhile `answer` does
/// what is wished, and tells of it.
pub(super) async fn run(
    state: State,
    answer: impl AsyncFnOnce(UnboundedReceiver<Wish>, Sender<Event>),
) -> anyhow::Result<()> {
    let (wish, wishes) = unbounded_channel();
    let (tell, told) = mpsc::channel();
    let ends = Arc::new(AtomicBool::new(false));
    let mut signals =
        [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt()].map(signal);
    let [Ok(terminate), Ok(hang_up), Ok(interrupt)] = &mut signals else {
        anyhow::bail!("signals cannot be listened for");
    };
    let mut shown = tokio::task::spawn_blocking({
        let ends = Arc::clone(&ends);
        move || show(state, &wish, &told, &ends)
    });
    // Whatever ends this, a panic too, ends the drawing: the runtime would wait for it.
    let ends = Ends(ends);
    let ended = tokio::select! {
        ended = &mut shown => Some(ended),
        () = answer(wishes, tell) => None,
        _ = terminate.recv() => None,
        _ = hang_up.recv() => None,
        _ = interrupt.recv() => None,
    };
    drop(ends);
    let ended = match ended {
        Some(ended) => ended,
        None => shown.await,
    };
    match ended {
        Ok(ended) => Ok(ended?),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => Err(error.into()),
        },
    }
}

/// Tells whoever draws that it is over, when it is dropped.
struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Draws what is told, and passes on what keys wish.
fn show(
    mut state: State,
    wish: &UnboundedSender<Wish>,
    told: &Receiver<Event>,
    ends: &AtomicBool,
) -> io::Result<()> {
    let mut screen = Screen::take()?;
    let mut is_new = true;
    // A panic elsewhere has given the terminal back, and nothing is drawn on it any more.
    while !ends.load(Ordering::Relaxed) && TAKEN.load(Ordering::Relaxed) {
        // Ages are shown in seconds.
        let time = now();
        is_new |= time.0 / 1_000 != state.now.0 / 1_000;
        state.on(Event::Time(time));
        for event in told.try_iter() {
            state.on(event);
            is_new = true;
        }
        if is_new {
            screen.terminal.draw(|frame| draw(frame, &state))?;
            is_new = false;
        }
        if !event::poll(TURN)? {
            continue;
        }
        is_new = true;
        let Some(key) = key(&event::read()?) else { continue };
        match state.on(Event::Key(key)) {
            Next::Stay => {}
            Next::Leave => break,
            Next::Ask(asked) => {
                // If nobody answers any more, the end is near.
                let _sent = wish.send(asked);
            }
        }
    }
    Ok(())
}

/// A key that means something here. A new size of the terminal is none, and drawn all the same.
fn key(event: &event::Event) -> Option<Key> {
    let event::Event::Key(KeyEvent { code, modifiers, kind, .. }) = event else { return None };
    if *kind == KeyEventKind::Release {
        return None;
    }
    let is_control = modifiers.contains(KeyModifiers::CONTROL);
    Some(match code {
        KeyCode::Char('c' | 'd') if is_control => Key::Interrupt,
        KeyCode::Char('u') if is_control => Key::EraseAll,
        KeyCode::Char(_) if is_control => return None,
        KeyCode::Char(letter) => Key::Letter(*letter),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Erase,
        _ => return None,
    })
}

/// The terminal, as long as it is ours.
struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    _given_back: GivenBack,
}

/// Whether the terminal is not as it was.
static TAKEN: AtomicBool = AtomicBool::new(false);

struct GivenBack;

impl Screen {
    fn take() -> io::Result<Screen> {
        // What a panic says must be readable, and so must the next prompt.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        TAKEN.store(true, Ordering::Relaxed);
        let given_back = GivenBack;
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(Screen { terminal, _given_back: given_back })
    }
}

impl Drop for GivenBack {
    fn drop(&mut self) {
        give_back();
    }
}

/// Makes the terminal what it was, once.
fn give_back() {
    if TAKEN.swap(false, Ordering::Relaxed) {
        // If the terminal is gone, there is nothing to give back.
        let _left = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _raw = disable_raw_mode();
    }
}

#[cfg(test)]
mod tests;
