//! A terminal for programs that need one: a pseudo-terminal, with a screen that can be read.
//!
//! The screen understands what our programs send: letters, moves of the cursor, what clears. All
//! else is passed over, and kept with everything that was sent. Nobody sleeps: whoever waits for a
//! text is woken by what arrives.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

/// How long a text may take to appear.
const PATIENCE: Duration = Duration::from_secs(30);

/// A terminal with a program on it.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    /// Our end, and the program's.
    ours: File,
    theirs: OwnedFd,
    seen: Arc<Seen>,
}

#[derive(Debug)]
struct Seen {
    screen: Mutex<Screen>,
    changed: Condvar,
}

impl Terminal {
    /// Runs a program on a terminal of that size, which is its controlling one.
    pub fn run(program: &Command, columns: u16, rows: u16) -> io::Result<Terminal> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let name = ptsname(&ours, Vec::new())?;
        let theirs = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty())?;
        tcsetwinsize(&theirs, size(columns, rows))?;
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(dir) = program.get_current_dir() {
            command.current_dir(dir);
        }
        command.stdin(theirs.try_clone()?).stdout(theirs.try_clone()?).stderr(theirs.try_clone()?);
        let child = command.spawn()?;
        // The command holds ends of its own.
        drop(command);
        let screen = Mutex::new(Screen::new(columns, rows));
        let seen = Arc::new(Seen { screen, changed: Condvar::new() });
        let ours = File::from(ours);
        let (mut from, into) = (ours.try_clone()?, Arc::clone(&seen));
        std::thread::spawn(move || {
            let mut some = [0; 4_096];
            while let Ok(count @ 1..) = from.read(&mut some) {
                into.screen.lock().take(&some[..count]);
                into.changed.notify_all();
            }
        });
        Ok(Terminal { child, ours, theirs, seen })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) -> io::Result<()> {
        self.ours.write_all(keys.as_bytes())
    }

    /// Makes the window larger or smaller.
    pub fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        *self.seen.screen.lock() = Screen::new(columns, rows);
        Ok(tcsetwinsize(&self.theirs, size(columns, rows))?)
    }

    /// What stands on the screen, without spaces at the ends of lines.
    pub fn screen(&self) -> String {
        self.seen.screen.lock().text()
    }

    /// Everything that was ever sent.
    pub fn sent(&self) -> String {
        String::from_utf8_lossy(&self.seen.screen.lock().sent).into_owned()
    }

    /// Waits until a text is on the screen, and gives the screen.
    ///
    /// # Panics
    /// If it does not come.
    #[track_caller]
    pub fn until(&self, text: &str) -> String {
        self.until_it(text, |screen| screen.contains(text))
    }

    /// Waits until the screen is like that.
    ///
    /// # Panics
    /// If it never is.
    #[track_caller]
    pub fn until_it(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        let mut screen = self.seen.screen.lock();
        loop {
            let text = screen.text();
            if is_so(&text) {
                return text;
            }
            let is_late = self.seen.changed.wait_until(&mut screen, end).timed_out();
            assert!(!is_late || is_so(&screen.text()), "{what:?} does not come:\n{text}");
        }
    }

    /// Waits until something was sent, shown or not.
    ///
    /// # Panics
    /// If it never is.
    #[track_caller]
    pub fn until_sent(&self, what: &str) {
        let end = Instant::now() + PATIENCE;
        let mut screen = self.seen.screen.lock();
        let is_sent =
            |screen: &Screen| screen.sent.windows(what.len()).any(|part| part == what.as_bytes());
        while !is_sent(&screen) {
            let is_late = self.seen.changed.wait_until(&mut screen, end).timed_out();
            assert!(!is_late || is_sent(&screen), "{what:?} is not sent");
        }
    }

    /// Whether lines are edited and shown as they are typed, as a shell expects.
    pub fn is_as_it_was(&self) -> io::Result<bool> {
        let modes = tcgetattr(&self.theirs)?.local_modes;
        Ok(modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG))
    }

    /// Waits until the program has ended.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        let end = Instant::now() + PATIENCE;
        let mut screen = self.seen.screen.lock();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            assert!(Instant::now() < end, "it does not end:\n{}", screen.text());
            // An end makes no sound; it is looked for often.
            self.seen.changed.wait_for(&mut screen, Duration::from_millis(20));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended already.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// What a terminal shows.
#[derive(Debug)]
struct Screen {
    columns: usize,
    cells: Vec<Vec<char>>,
    row: usize,
    column: usize,
    sent: Vec<u8>,
    /// Bytes that are part of something that has not arrived whole.
    rest: Vec<u8>,
}

impl Screen {
    fn new(columns: u16, rows: u16) -> Screen {
        let columns = usize::from(columns);
        let cells = vec![vec![' '; columns]; usize::from(rows)];
        Screen { columns, cells, row: 0, column: 0, sent: Vec::new(), rest: Vec::new() }
    }

    fn text(&self) -> String {
        self.cells.iter().fold(String::new(), |mut text, line| {
            let line: String = line.iter().collect();
            // Writing to a text cannot fail.
            let _infallible = writeln!(text, "{}", line.trim_end());
            text
        })
    }

    fn take(&mut self, bytes: &[u8]) {
        self.sent.extend_from_slice(bytes);
        self.rest.extend_from_slice(bytes);
        let rest = std::mem::take(&mut self.rest);
        let mut left = &*rest;
        while let Some(used) = self.one(left) {
            left = &left[used..];
        }
        self.rest = left.to_vec();
    }

    /// Does the first thing, and says how long it was; nothing if it is not whole.
    fn one(&mut self, bytes: &[u8]) -> Option<usize> {
        let first = *bytes.first()?;
        match first {
            0x1b => self.escape(bytes),
            b'\r' => {
                self.column = 0;
                Some(1)
            }
            b'\n' => {
                self.down();
                Some(1)
            }
            0x08 => {
                self.column = self.column.saturating_sub(1);
                Some(1)
            }
            0..0x20 => Some(1),
            _ => {
                let length = match first {
                    0..0x80 => 1,
                    0x80..0xe0 => 2,
                    0xe0..0xf0 => 3,
                    _ => 4,
                };
                let letter = std::str::from_utf8(bytes.get(..length)?).ok();
                self.put(letter.and_then(|text| text.chars().next()).unwrap_or('?'));
                Some(length)
            }
        }
    }

    fn escape(&mut self, bytes: &[u8]) -> Option<usize> {
        if *bytes.get(1)? != b'[' {
            return Some(2);
        }
        let end = 2 + bytes[2..].iter().position(|byte| (0x40..0x7f).contains(byte))?;
        let words = String::from_utf8_lossy(&bytes[2..end]).into_owned();
        let numbers: Vec<usize> = words.split(';').filter_map(|word| word.parse().ok()).collect();
        let nth = |at: usize| numbers.get(at).copied().unwrap_or(1).max(1);
        match bytes[end] {
            b'H' | b'f' => (self.row, self.column) = (nth(0) - 1, nth(1) - 1),
            b'A' => self.row = self.row.saturating_sub(nth(0)),
            b'B' => self.row += nth(0),
            b'C' => self.column += nth(0),
            b'D' => self.column = self.column.saturating_sub(nth(0)),
            b'G' => self.column = nth(0) - 1,
            b'J' => self.cells.iter_mut().for_each(|line| line.fill(' ')),
            b'K' => {
                let from = if numbers.first() == Some(&2) { 0 } else { self.column };
                if let Some(line) = self.cells.get_mut(self.row) {
                    line.iter_mut().skip(from).for_each(|cell| *cell = ' ');
                }
            }
            // Another screen begins empty, and the first one is not kept.
            b'h' | b'l' if words == "?1049" => {
                self.cells.iter_mut().for_each(|line| line.fill(' '));
                (self.row, self.column) = (0, 0);
            }
            _ => {}
        }
        Some(end + 1)
    }

    fn put(&mut self, letter: char) {
        if self.column >= self.columns {
            self.column = 0;
            self.down();
        }
        let cell = self.cells.get_mut(self.row).and_then(|line| line.get_mut(self.column));
        if let Some(cell) = cell {
            *cell = letter;
        }
        self.column += 1;
    }

    fn down(&mut self) {
        self.row += 1;
        if self.row >= self.cells.len() && !self.cells.is_empty() {
            self.cells.remove(0);
            self.cells.push(vec![' '; self.columns]);
            self.row = self.cells.len() - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_what_was_sent_to_it_however_it_was_cut() {
        let sent = "\u{1b}[?1049h\u{1b}[2;3Hä\u{1b}[31mb\u{1b}[0m\r\nend\u{1b}[1;1Hgone\u{1b}[2K";
        for cut in 0..sent.len() {
            let mut screen = Screen::new(6, 4);
            screen.take(&sent.as_bytes()[..cut]);
            screen.take(&sent.as_bytes()[cut..]);
            assert_eq!(screen.text(), "\n  äb\nend\n\n", "cut at {cut}");
        }
    }

    #[test]
    fn lines_that_are_too_long_or_too_many_go_on_below() {
        let mut screen = Screen::new(3, 2);
        screen.take(b"abcd\r\nef\x08g");
        assert_eq!(screen.text(), "d\neg\n");
    }

    #[test]
    fn a_program_sees_a_terminal_of_that_size() {
        let mut command = Command::new("sh");
        command.args(["-c", "test -t 0 && test -t 1 && stty size && read word && echo got $word"]);
        let mut terminal = Terminal::run(&command, 40, 7).expect("a terminal");
        terminal.until("7 40");
        terminal.press("yes\n").expect("it is written");
        terminal.until("got yes");
        assert!(terminal.wait().expect("it ends").success());
        assert!(terminal.is_as_it_was().expect("it can be asked"));
    }
}
