//! The shape of an error text: what is left of it when all that varies is taken out.
//!
//! Numbers, hexadecimal, ids, paths, addresses and what stands in quotes vary from item to item;
//! the words between them do not. Two texts of one shape have every stretch between in common,
//! letter by letter, so that such a stretch finds all of them.

/// Letters of a text that are looked at. Texts that differ only after these are alike.
const SHAPE_MAX: usize = 500;
/// Letters of a stretch that is looked for.
const STRETCH_MAX: usize = 120;
/// A stretch that is shorter finds anything.
const STRETCH_MIN: usize = 3;
/// Letters between quotes; beyond, the first one is taken for an apostrophe.
const QUOTED_MAX: usize = 200;
/// From this length on letters and digits together are an id, and hexadecimal ones already from
/// the other.
const ID_MIN: usize = 20;
const HEX_MIN: usize = 6;

/// What stands for something that varies. A text that has it itself varies there.
const VARIES: char = '\0';

/// A text without what varies.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Shape(String);

impl Shape {
    pub(super) fn of(text: &str) -> Shape {
        let end = text.char_indices().nth(SHAPE_MAX).map_or(text.len(), |(at, _)| at);
        let (mut rest, mut shape) = (&text[..end], Shape(String::new()));
        let mut before = ' ';
        while let Some(letter) = rest.chars().next() {
            let len = match quoted(rest, before) {
                Some(len) => {
                    shape.varies();
                    len
                }
                None if is_of_word(letter) => {
                    let len = rest.find(|letter| !is_of_word(letter)).unwrap_or(rest.len());
                    shape.word(&rest[..len]);
                    len
                }
                None => {
                    shape.0.push(letter);
                    letter.len_utf8()
                }
            };
            before = rest[..len].chars().next_back().unwrap_or(' ');
            rest = &rest[len..];
        }
        shape
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The stretch that does not vary by which this shape is found: the longest that none of the
    /// others has, else the longest; none if there is none that says anything.
    pub(super) fn stretch(&self, others: &[&Shape]) -> Option<&str> {
        let says = |stretch: &&str| {
            stretch.chars().count() >= STRETCH_MIN && stretch.chars().any(char::is_alphanumeric)
        };
        let short = |stretch: &'_ str| {
            stretch.char_indices().nth(STRETCH_MAX).map_or(stretch.len(), |(at, _)| at)
        };
        let stretches = self.0.split(char::is_control).map(bare).filter(says);
        let stretches = stretches.map(|stretch| bare(&stretch[..short(stretch)]));
        let is_own = |stretch: &str| {
            // As a filter looks for it: in any case.
            let stretch = stretch.to_lowercase();
            !others.iter().any(|other| other.0.to_lowercase().contains(&stretch))
        };
        // The first of those that are equally long.
        stretches.rev().max_by_key(|stretch| (is_own(stretch), stretch.chars().count()))
    }

    /// Adds a word: letters and whatever holds them together.
    fn word(&mut self, word: &str) {
        // What ends a sentence belongs to no path.
        let bare = word.trim_end_matches(['.', ':']);
        if is_path(bare) || is_uuid(bare) {
            self.varies();
            return self.0.push_str(&word[bare.len()..]);
        }
        let mut rest = word;
        while let Some(letter) = rest.chars().next() {
            if !letter.is_ascii_alphanumeric() {
                self.0.push(letter);
                rest = &rest[letter.len_utf8()..];
                continue;
            }
            let is_inside = |letter: char| letter.is_ascii_alphanumeric();
            let len = rest.find(|letter| !is_inside(letter)).unwrap_or(rest.len());
            self.run(&rest[..len]);
            rest = &rest[len..];
        }
    }

    /// Adds letters and digits that nothing parts.
    fn run(&mut self, run: &str) {
        let has_digit = run.bytes().any(|byte| byte.is_ascii_digit());
        let hex = run.strip_prefix("0x").unwrap_or(run);
        let is_hex = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_id = run.len() >= ID_MIN || is_hex && (run.len() >= HEX_MIN || hex != run);
        match has_digit {
            false => self.0.push_str(run),
            true if is_id => self.varies(),
            true => run.chars().for_each(|letter| match letter.is_ascii_digit() {
                true => self.varies(),
                false => self.0.push(letter),
            }),
        }
    }

    /// Something varies here. A number with a point in it is one number.
    fn varies(&mut self) {
        if self.0.ends_with(VARIES) {
            return;
        }
        let of_number = self.0.strip_suffix('.').filter(|before| before.ends_with(VARIES));
        match of_number.map(str::len) {
            Some(len) => self.0.truncate(len),
            None => self.0.push(VARIES),
        }
    }
}

/// A stretch without the spaces and points that part it from what varies.
fn bare(stretch: &str) -> &str {
    stretch.trim_matches(|letter: char| letter.is_whitespace() || ".,:;=-()[]{}<>".contains(letter))
}

/// What words are made of, besides what is between them.
fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || "_-./\\:@~%+?&#$".contains(letter)
}

/// How long what stands in quotes is, quotes included, if that begins here.
fn quoted(text: &str, before: char) -> Option<usize> {
    let quote = text.chars().next().filter(|letter| "\"'`".contains(*letter))?;
    if before.is_alphanumeric() {
        return None;
    }
    let inside = text[1..].chars().take(QUOTED_MAX).take_while(|letter| !letter.is_control());
    let mut at = 1;
    for letter in inside {
        let behind = at + letter.len_utf8();
        let goes_on = || text[behind..].starts_with(char::is_alphanumeric);
        if letter == quote && !goes_on() {
            return Some(behind);
        }
        at = behind;
    }
    None
}

fn is_path(word: &str) -> bool {
    let slashes = word.bytes().filter(|byte| matches!(byte, b'/' | b'\\')).count();
    let is_rooted = ["/", "./", "../", "~/", "\\\\"].iter().any(|root| word.starts_with(root));
    let has_drive = word.as_bytes().get(1) == Some(&b':') && word[..1].is_ascii();
    let names_a_file = word.contains(|letter: char| letter == '.' || letter.is_ascii_digit());
    match slashes {
        0 => false,
        1 => word.len() > 1 && (is_rooted || has_drive || names_a_file),
        _ => true,
    }
}

fn is_uuid(word: &str) -> bool {
    let mut parts = word.split('-');
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_right = |len: usize| parts.next().is_some_and(|part| part.len() == len && is_hex(part));
    [8, 4, 4, 4, 12].into_iter().all(is_right) && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, shape: &str) {
        assert_eq!(Shape::of(text).0.replace(VARIES, "*"), shape, "{text}");
    }

    #[test]
    fn what_varies_is_taken_out_and_the_words_stay() {
        check("no space", "no space");
        check("no space left on /dev/sda1: 17 bytes", "no space left on *: * bytes");
        check("timeout after 30.5s, 12ms", "timeout after *s, *ms");
        check("id 01a1e554-9c99-7001-b210-29840971dd42.", "id *.");
        check("at 0x7ffe and deadbeef01 in 3f9a", "at * and * in *f*a");
        check("deadbeef and facade are words", "deadbeef and facade are words");
        check("it can't open 'my file.txt'", "it can't open *");
        check("expected \"a b\" or `c`", "expected * or *");
        check("it is 5 o'clock, isn't it", "it is * o'clock, isn't it");
        check("GET https://a.example/x?y=1 said 503", "GET *=* said *");
        check("src/main.rs:17: and/or text/html", "*: and/or text/html");
        check(r"C:\Temp\x.log is in use", "* is in use");
        check("token eyJhbGciOiJIUzI1NiJ9abc is old", "token * is old");
        check("Ärger mit Größe 7", "Ärger mit Größe *");
        check("2026-11-17T19:25:56.123Z late", "*-*-*T*:*:*Z late");
        check("", "");
    }

    #[test]
    fn a_letter_that_stands_for_what_varies_is_not_taken_for_a_word() {
        assert_eq!(Shape::of("a \0 b"), Shape::of("a 7 b"));
        assert_eq!(Shape::of("a \0 b").stretch(&[]), None);
    }

    #[test]
    fn the_longest_stretch_is_in_every_text_of_the_shape() {
        let stretch = |text: &str| Shape::of(text).stretch(&[]).map(str::to_owned);
        let left = Some("no space left on".to_owned());
        assert_eq!(stretch("17: no space left on /dev/sda1"), left);
        assert_eq!(stretch("line one is long\nline two"), Some("line one is long".to_owned()));
        assert_eq!(stretch("abc 1 def"), Some("abc".to_owned()), "the first of two");
        assert_eq!((stretch("17"), stretch("a 1 b"), stretch("--- 1")), (None, None, None));
        let long = "ä".repeat(400);
        assert_eq!(stretch(&long), Some("ä".repeat(STRETCH_MAX)));
    }
}
