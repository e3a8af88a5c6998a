//! Enough of Rust's grammar to tell code from comments and literals, and to find functions.
//!
//! Not a parser: it reads bytes once and keeps two copies of the text in which everything else is
//! blank, so that an offset means the same in both and in the original. What it does not know:
//! functions whose names are made by macros, and braces as const arguments other than `<{ N }>`.

use std::ops::Range;

/// A Rust file, read.
pub(super) struct Rust {
    /// The text with comments and the insides of literals blanked.
    pub(super) code: String,
    /// The text with everything but comments blanked.
    pub(super) comments: String,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    /// Where its `fn` stands.
    pub(super) line: usize,
    /// From its `fn` to its closing brace, both included.
    pub(super) lines: usize,
}

impl Rust {
    pub(super) fn read(text: &str) -> Rust {
        let bytes = text.as_bytes();
        let (mut code, mut comments) = (blank(bytes), blank(bytes));
        let mut at = 0;
        while at < bytes.len() {
            let end = match token(bytes, at) {
                Token::Comment(end) => {
                    comments[at..end].copy_from_slice(&bytes[at..end]);
                    end
                }
                Token::Literal(end) => end,
                Token::Code => {
                    code[at] = bytes[at];
                    at + 1
                }
            };
            at = end;
        }
        let text_of = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Rust { code: text_of(code), comments: text_of(comments) }
    }

    /// Every function with a body: free, in `impl`, `trait` and `mod` blocks, nested, in tests.
    pub(super) fn functions(&self) -> Vec<Function> {
        let mut found = Vec::new();
        for at in words(&self.code, "fn") {
            let name = self.code[at + 2..].trim_start();
            let name: String = name.chars().take_while(|c| is_name(*c)).collect();
            // `fn(u8)` is a type and `fn $name` belongs to a macro.
            let Some(body) = (!name.is_empty()).then(|| self.block_after(at)).flatten() else {
                continue;
            };
            let line = line_at(&self.code, at);
            let lines = line_at(&self.code, body.end - 1) - line + 1;
            found.push(Function { name, line, lines });
        }
        found
    }

    /// The parts of the file that are tests: items under `#[test]`, `#[…::test]` or `#[cfg(test)]`.
    pub(super) fn test_parts(&self) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        for (at, _) in self.code.match_indices("#[") {
            let end = self.code[at..].find(']').map_or(self.code.len(), |len| at + len);
            let attribute = &self.code[at..end];
            let marks_test = words(attribute, "test").next().is_some();
            if marks_test && !attribute.contains("not(test") {
                parts.extend(self.block_after(end));
            }
        }
        parts
    }

    /// The braces that open next outside of parentheses and brackets, unless `;` comes first.
    fn block_after(&self, from: usize) -> Option<Range<usize>> {
        let bytes = self.code.as_bytes();
        let (mut open, mut at) = (0_i32, from);
        while at < bytes.len() {
            match bytes[at] {
                b'(' | b'[' => open += 1,
                b')' | b']' => open -= 1,
                b';' if open <= 0 => return None,
                b'{' if self.code[..at].trim_end().ends_with('<') => at = closing(bytes, at)?,
                b'{' if open <= 0 => return Some(at..closing(bytes, at)? + 1),
                _ => {}
            }
            at += 1;
        }
        None
    }
}

/// Offsets at which `word` stands by itself, not as part of a longer name.
pub(super) fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

/// The line of an offset, counted from one.
pub(super) fn line_at(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

pub(super) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

enum Token {
    /// Ends before this offset.
    Comment(usize),
    /// Ends before this offset.
    Literal(usize),
    /// One byte of anything else.
    Code,
}

fn token(bytes: &[u8], at: usize) -> Token {
    let rest = &bytes[at..];
    match rest {
        [b'/', b'/', ..] => Token::Comment(at + until(rest, |byte| byte == b'\n')),
        [b'/', b'*', ..] => Token::Comment(block_comment_end(bytes, at)),
        [b'"', ..] => Token::Literal(quoted_end(bytes, at, b'"')),
        [b'\'', b'\\', ..] => Token::Literal(quoted_end(bytes, at, b'\'')),
        [b'\'', ..] if is_char_literal(rest) => Token::Literal(quoted_end(bytes, at, b'\'')),
        [b'r', ..] => raw_string_end(bytes, at).map_or(Token::Code, Token::Literal),
        _ => Token::Code,
    }
}

/// A quote, one character, a quote; `'a` alone is a lifetime.
fn is_char_literal(rest: &[u8]) -> bool {
    let width = match rest.get(1) {
        Some(0xF0..) => 4,
        Some(0xE0..) => 3,
        Some(0xC0..) => 2,
        _ => 1,
    };
    rest.get(1 + width) == Some(&b'\'')
}

fn quoted_end(bytes: &[u8], start: usize, quote: u8) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// `r"…"` and `r#"…"#`, also after `b` or `c`; not the `r` at the end of a name, not `r#name`.
fn raw_string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let prefixed = at > 0 && matches!(bytes[at - 1], b'b' | b'c');
    let before = at.checked_sub(if prefixed { 2 } else { 1 }).map(|before| bytes[before]);
    if before.is_some_and(|byte| is_name(char::from(byte))) {
        return None;
    }
    let hashes = until(&bytes[at + 1..], |byte| byte != b'#');
    let open = at + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let inside = &bytes[open + 1..];
    let len = inside.windows(close.len()).position(|window| window == close);
    Some(len.map_or(bytes.len(), |len| open + 1 + len + close.len()))
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let (mut depth, mut at) = (0, start);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

fn closing(bytes: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, byte) in bytes.iter().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

fn until(bytes: &[u8], stop: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|byte| stop(*byte)).unwrap_or(bytes.len())
}

fn blank(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_code(text: &str, expected: &str) {
        let rust = Rust::read(text);
        assert_eq!(rust.code.split_whitespace().collect::<Vec<_>>().join(" "), expected);
        assert_eq!(rust.code.len(), text.len(), "offsets stay the same");
        assert_eq!(rust.comments.len(), text.len(), "offsets stay the same");
    }

    #[track_caller]
    fn check_functions(text: &str, expected: &[(&str, usize, usize)]) {
        let functions = Rust::read(text).functions();
        let found: Vec<_> = functions.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn comments_are_not_code() {
        check_code("a // b\nc /* d /* e */ f */ g", "a c g");
        check_code("/// doc `{`\nx", "x");
    }

    #[test]
    fn insides_of_literals_are_not_code() {
        check_code(r#"a("}", b"{", c"x\"{") b"#, "a( , b , c ) b");
        check_code(r##"a(r"{", r#"" {"#, br#"{"#) b"##, "a( , , b ) b");
        check_code(r"x('{', '\'', b'}', '\u{7d}', 'ü') y", "x( , , b , , ) y");
        check_code("\"// no comment\" x", "x");
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        check_code("fn f<'a>(x: &'a str, r#fn: u8)", "fn f<'a>(x: &'a str, r#fn: u8)");
        check_code("for r in bar { 'o: loop {} }", "for r in bar { 'o: loop {} }");
    }

    #[test]
    fn comments_are_kept_apart() {
        assert_eq!(Rust::read("a // b\n\"// c\"").comments.trim(), "// b");
    }

    #[test]
    fn an_unfinished_literal_ends_with_the_file() {
        for text in ["\"abc", "r#\"abc", "/* abc", "'\\", "'"] {
            Rust::read(text);
        }
    }

    #[test]
    fn functions_are_found_wherever_they_stand() {
        check_functions("fn a() {\n}\n", &[("a", 1, 2)]);
        check_functions(
            "impl X {\n    pub async fn a(&self) -> [u8; 2] {\n        x\n    }\n}\n",
            &[("a", 2, 3)],
        );
        check_functions("mod m { trait T { fn a(); fn b() {} } }", &[("b", 1, 1)]);
        check_functions("fn a() {\n    fn b() {\n    }\n}\n", &[("a", 1, 4), ("b", 2, 2)]);
        check_functions("#[cfg(test)]\nmod t {\n#[test]\nfn a() {\n}\n}", &[("a", 4, 2)]);
    }

    #[test]
    fn a_function_ends_at_its_own_brace() {
        check_functions("fn a() {\n    \"}\";\n    '}';\n    // }\n}\nx", &[("a", 1, 5)]);
        check_functions("fn a<T>(x: T)\nwhere\n    T: Y,\n{\n}", &[("a", 1, 5)]);
        check_functions("fn a(x: [u8; { 1 }]) -> X<{ 2 }> {\n}", &[("a", 1, 2)]);
    }

    #[test]
    fn types_and_macros_are_not_functions() {
        check_functions("type F = fn(u8) -> u8;\nmacro_rules! m { () => { fn $n() {} } }", &[]);
    }

    #[test]
    fn tests_are_told_from_the_rest() {
        let text = "fn a() {}\n#[cfg(test)]\nmod t { b }\n#[tokio::test(x)]\nfn c() { d }\n\
                    #[cfg(not(test))]\nfn e() { f }";
        let rust = Rust::read(text);
        let parts: Vec<_> = rust.test_parts().into_iter().map(|part| &text[part]).collect();
        assert_eq!(parts, ["{ b }", "{ d }"]);
    }
}
