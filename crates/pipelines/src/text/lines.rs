//! Lines, whoever ended them: `\n`, `\r\n` and a lone `\r` may be mixed in one text.

use std::ops::Range;

/// The byte ranges of a text's lines, without what ends them. Nothing follows the last line end.
pub(super) fn lines(text: &str) -> Lines<'_> {
    Lines { text, at: 0 }
}

#[derive(Debug)]
pub(super) struct Lines<'a> {
    text: &'a str,
    at: usize,
}

impl Iterator for Lines<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        let rest = self.text.as_bytes().get(start..).filter(|rest| !rest.is_empty())?;
        let length = rest.iter().position(|&byte| byte == b'\n' || byte == b'\r');
        let Some(length) = length else {
            self.at = self.text.len();
            return Some(start..self.at);
        };
        let end = start + length;
        self.at = end + if rest[length..].starts_with(b"\r\n") { 2 } else { 1 };
        Some(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_the_way_unix_windows_and_old_macs_end_them() {
        let check = |text: &str, want: &[&str]| {
            let got: Vec<&str> = lines(text).map(|range| &text[range]).collect();
            assert_eq!(got, want, "{text:?}");
        };
        check("", &[]);
        check("a", &["a"]);
        check("a\nb\r\nc\rd", &["a", "b", "c", "d"]);
        check("\n\r\n\r", &["", "", ""]);
        check("a\r\r\n\n", &["a", "", ""]);
        check("ä\u{2028}b\n", &["ä\u{2028}b"]);
    }
}
