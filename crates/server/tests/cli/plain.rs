//! What differs from run to run, put in plain terms of the same width: ids, times, places.
//!
//! An id is replaced by one that counts, in the order in which they appear, and a command that has
//! such an id is run with the real one. So a session reads as what somebody would type.

use std::collections::HashMap;

use crate::mode::World;

pub(crate) struct Plain {
    /// Real ids with what stands for them.
    ids: Vec<(String, String)>,
    kinds: HashMap<&'static str, usize>,
    places: Vec<(String, &'static str)>,
}

impl Plain {
    pub(crate) fn new(world: &World) -> Plain {
        let mut places = vec![(world.data.display().to_string(), "DIR")];
        places.push((world.home.0.display().to_string(), "HOME"));
        places
            .extend(world.server.as_ref().map(|server| (server.address.clone(), "127.0.0.1:7117")));
        Plain::at(places)
    }

    /// With what stands for these places.
    pub(crate) fn at(places: Vec<(String, &'static str)>) -> Plain {
        Plain { ids: Vec::new(), kinds: HashMap::new(), places }
    }

    /// A command with the ids that were meant.
    pub(crate) fn real(&self, command: &str) -> String {
        self.ids.iter().fold(command.to_owned(), |text, (id, plain)| text.replace(plain, id))
    }

    /// A text that is the same in every run.
    pub(crate) fn of(&mut self, text: &str) -> String {
        let text = self
            .places
            .iter()
            .fold(text.to_owned(), |text, (place, plain)| text.replace(place, plain));
        // How full the disk of the tests is, is no matter of theirs.
        let is_of_disk = |line: &&str| line.contains("WARN health check=\"space\"");
        let lines = text.split_inclusive('\n').filter(|line| !is_of_disk(line));
        lines.map(|line| self.line(line)).collect()
    }

    fn line(&mut self, line: &str) -> String {
        let (mut plain, mut rest) = (String::new(), line);
        while !rest.is_empty() {
            let is_word = |letter: char| letter.is_ascii_alphanumeric() || "-_:.+".contains(letter);
            let end = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
            // A colon or a full stop at the end belongs to the sentence.
            let end = rest[..end].trim_end_matches([':', '.']).len().max(end.min(1));
            let (word, behind) = rest.split_at(end);
            let ends = ["  ", " ago", "\n"].iter().any(|end| behind.starts_with(end));
            let (word, gap) = self.word(word, ends || behind.is_empty());
            plain.push_str(&word);
            let next = behind.chars().next().map_or(0, char::len_utf8);
            if gap > 0 && behind.starts_with("  ") {
                plain.extend(std::iter::repeat_n(' ', gap));
            }
            plain.push_str(&behind[..next]);
            rest = &behind[next..];
        }
        numbered(&plain)
    }

    /// What stands for a word, and by how much that is shorter.
    fn word(&mut self, word: &str, may_be_age: bool) -> (String, usize) {
        if let Some(rest) = word.strip_prefix("wr_") {
            let id = rest.split('_').next().unwrap_or_default();
            return (format!("wr_{}_SECRET", self.id("token", id)), 0);
        }
        if is_uuid(word) {
            return (self.id("item", word), 0);
        }
        if word.len() == 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return (self.id("token", word), 0);
        }
        if is_time(word) {
            return ("2026-11-16T08:30:00.000Z".to_owned(), 0);
        }
        let (number, unit) = word.split_at(word.len().saturating_sub(1));
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && unit == "s" && may_be_age {
            return ("0s".to_owned(), word.len() - 2);
        }
        (word.to_owned(), 0)
    }

    fn id(&mut self, kind: &'static str, id: &str) -> String {
        if let Some((_, plain)) = self.ids.iter().find(|(real, plain)| real == id || plain == id) {
            return plain.clone();
        }
        let count = self.kinds.entry(kind).or_default();
        *count += 1;
        let plain = match kind {
            "token" => format!("a000000000{count:06}"),
            _ => format!("01a1e554-9c99-7000-8000-{count:012}"),
        };
        self.ids.push((id.to_owned(), plain.clone()));
        plain
    }
}

fn is_uuid(word: &str) -> bool {
    let is_right = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    word.len() == 36 && word.bytes().enumerate().all(is_right)
}

fn is_time(word: &str) -> bool {
    let shape = "0000-00-00T00:00:00.000Z";
    let alike = |(a, b): (char, char)| if b == '0' { a.is_ascii_digit() } else { a == b };
    word.len() == shape.len() && word.chars().zip(shape.chars()).all(alike)
}

/// Numbers that count time or processes.
fn numbered(line: &str) -> String {
    let mut line = line.to_owned();
    let known = [("\"duration_ms\":", "1"), ("process ", "1"), ("pid ", "1")];
    let spans = [("records in ", "0.1"), ("added in ", "1.4")];
    for (before, plain) in known.into_iter().chain(spans) {
        let Some(at) = line.find(before).map(|at| at + before.len()) else { continue };
        let is_figure = |byte: &u8| byte.is_ascii_digit() || plain.contains('.') && *byte == b'.';
        let figures = line.bytes().skip(at).take_while(is_figure).count();
        if figures > 0 {
            line.replace_range(at..at + figures, plain);
        }
    }
    line
}
