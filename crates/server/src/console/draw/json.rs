//! JSON as it was written, digit by digit, in lines; with what nobody is to see left out.

use maud::{Markup, html};

/// Bytes of a text that are shown.
const MOST: usize = 64 * 1024;

/// A text of JSON, shown.
pub(in crate::console) fn json(text: &str, redacted: &[String]) -> Markup {
    let (lines, is_cut) = laid_out(text, redacted);
    html! {
        pre.json tabindex="0" { code { (lines) } }
        @if is_cut { p.note { "Only the first " (MOST / 1024) " KiB are shown." } }
    }
}

/// The text in lines, and whether something is left out at its end. What is no JSON stays as it is.
fn laid_out(text: &str, redacted: &[String]) -> (String, bool) {
    let mut writer = Writer { out: String::with_capacity(text.len() * 2), depth: 0 };
    let mut rest = text.trim();
    // Whether the next text is the key of an object, in each object or list around.
    let mut inside: Vec<char> = Vec::new();
    let (mut is_key, mut hides) = (false, false);
    while let Some(letter) = rest.chars().next() {
        if writer.out.len() > MOST {
            return (writer.out, true);
        }
        let taken = match letter {
            '"' => string(rest),
            '{' | '[' | '}' | ']' | ',' | ':' => 1,
            letter if letter.is_whitespace() => letter.len_utf8(),
            _ => rest.find([',', ']', '}', ' ', '\n', '\r', '\t']).unwrap_or(rest.len()),
        };
        let (token, behind) = rest.split_at(taken.max(1));
        rest = behind;
        if hides && !matches!(letter, ':') && !letter.is_whitespace() {
            leave_out(token, &mut rest);
            writer.out.push_str("\"[redacted]\"");
            hides = false;
            continue;
        }
        match letter {
            '{' | '[' => {
                inside.push(letter);
                is_key = letter == '{';
                writer.open(letter, rest);
            }
            '}' | ']' => {
                inside.pop();
                is_key = false;
                writer.close(letter);
            }
            ',' => {
                is_key = inside.last() == Some(&'{');
                writer.out.push(',');
                writer.line();
            }
            ':' => writer.out.push_str(": "),
            '"' if is_key => {
                is_key = false;
                hides = is_among(redacted, token);
                writer.out.push_str(token);
            }
            letter if letter.is_whitespace() => {}
            _ => {
                // A long text is cut too.
                let most = token.floor_char_boundary(MOST);
                writer.out.push_str(&token[..most]);
                if most < token.len() {
                    return (writer.out, true);
                }
            }
        }
    }
    (writer.out, false)
}

struct Writer {
    out: String,
    depth: usize,
}

impl Writer {
    fn line(&mut self) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n("  ", self.depth.min(40)));
    }

    fn open(&mut self, letter: char, rest: &str) {
        self.out.push(letter);
        self.depth += 1;
        if !rest.trim_start().starts_with(['}', ']']) {
            self.line();
        }
    }

    fn close(&mut self, letter: char) {
        self.depth = self.depth.saturating_sub(1);
        if !self.out.ends_with(['{', '[']) {
            self.line();
        }
        self.out.push(letter);
    }
}

/// How long the text is that something begins with, its quotes included.
fn string(text: &str) -> usize {
    let (mut is_escaped, bytes) = (false, text.as_bytes());
    for (at, byte) in bytes.iter().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Leaves out the rest of a value that began with a token.
fn leave_out(token: &str, rest: &mut &str) {
    let mut depth = usize::from(token.starts_with(['{', '[']));
    while depth > 0 {
        let Some(letter) = rest.chars().next() else { return };
        let taken = match letter {
            '"' => string(rest),
            letter => letter.len_utf8(),
        };
        match letter {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ => {}
        }
        *rest = &rest[taken..];
    }
}

/// Whether a key, in its quotes, is one whose value is shown to nobody: whatever its case, and also
/// as a part of it (`db_password`).
fn is_among(redacted: &[String], key: &str) -> bool {
    let read = serde_json::from_str::<String>(key);
    let key = read.unwrap_or_else(|_| key.to_owned()).to_lowercase();
    redacted.iter().any(|word| key.contains(word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        laid_out(text, &["password".into(), "token".into()]).0
    }

    #[test]
    fn digits_stay_as_they_were_written() {
        let text = "{\"n\":123456789012345678901234567890,\"x\":1.10,\"l\":[1,[],{}],\
                    \"s\":\"a\\\"b:{\"}";
        assert_eq!(
            of(text),
            "{\n  \"n\": 123456789012345678901234567890,\n  \"x\": 1.10,\n  \"l\": [\n    1,\n    \
             [],\n    {}\n  ],\n  \"s\": \"a\\\"b:{\"\n}"
        );
    }

    #[test]
    fn a_key_is_known_however_it_is_written_and_a_long_text_is_cut() {
        assert_eq!(of(r#"{"p\u0061ssword":1}"#), "{\n  \"p\\u0061ssword\": \"[redacted]\"\n}");
        let (shown, is_cut) = laid_out(&format!("[\"{}\"]", "ä".repeat(MOST)), &[]);
        assert!(is_cut && shown.len() < MOST + 100, "{}", shown.len());
    }

    #[test]
    fn what_nobody_is_to_see_is_left_out_wherever_it_stands() {
        let text = "{\"db_Password\":{\"a\":[1,\"}\"]},\"ok\":\"password\",\"in\":[{\"token\" : \
                    \"x\",\"n\":1}],\"token\":12}";
        let shown = of(text);
        assert_eq!(shown.matches("[redacted]").count(), 3, "{shown}");
        assert!(shown.contains("\"ok\": \"password\"") && shown.contains("\"n\": 1"), "{shown}");
        assert!(!shown.contains("\"x\"") && !shown.contains("12"), "{shown}");
    }

    #[test]
    fn what_is_no_json_stays_and_ends() {
        for text in ["", "plain words", "{\"a", "[1,", "}}}]]]", "{\"password\":", "{\"token\":[\""]
        {
            let _shown = of(text);
        }
        assert_eq!(of("plain"), "plain");
        assert!(laid_out(&"[1,".repeat(100_000), &[]).1);
    }
}
