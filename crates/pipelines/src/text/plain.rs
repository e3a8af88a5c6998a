//! Plain text: from bytes to text, and from text to pages of Markdown.
//!
//! Decides which encoding bytes are in, and says so when they are no text at all. What comes out
//! has line feeds for line ends and no control characters but tabs.
//!
//! Leaves out joining wrapped lines and hyphenated words: who guesses there loses tables and poems.

use std::borrow::Cow;

use super::lines::lines;
use super::markdown;

/// How bytes were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8, perhaps with a few broken bytes, which became replacement characters.
    Utf8,
    /// UTF-16, low byte first.
    Utf16Le,
    /// UTF-16, high byte first.
    Utf16Be,
    /// One byte a character: ISO 8859-1, with the signs that Windows has where that has none.
    Latin1,
}

/// A text, and what was done to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The text, without a byte order mark.
    pub text: String,
    /// How it was encoded.
    pub encoding: Encoding,
    /// How many places could not be read; there is a replacement character in each.
    pub replaced: usize,
}

/// Why bytes are not a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotText {
    /// They begin like a file of another kind.
    #[error("this is {kind}, which is not read as text")]
    Known {
        /// What they are.
        kind: &'static str,
    },
    /// Too much of them is no character.
    #[error("this is binary data, not text: {percent} % of it are control characters")]
    Binary {
        /// How much, at least 1.
        percent: u8,
    },
}

/// A text has fewer control characters than one in so many characters.
const ONE_CONTROL_IN: usize = 50;

/// What files of other kinds begin with.
const KNOWN: [(&[u8], &str); 14] = [
    (b"%PDF-", "a PDF file"),
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"PK\x03\x04", "a ZIP archive or an office document"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old office document"),
    (b"\x1f\x8b\x08", "a gzip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\xff\xfe\0\0", "text in UTF-32"),
];

/// The text that bytes are.
pub fn decode(bytes: &[u8]) -> Result<Decoded, NotText> {
    if let Some(&(_, kind)) = KNOWN.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Err(NotText::Known { kind });
    }
    let decoded = match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => utf8_or_latin1(rest),
        [0xff, 0xfe, rest @ ..] => utf16(rest, Encoding::Utf16Le),
        [0xfe, 0xff, rest @ ..] => utf16(rest, Encoding::Utf16Be),
        _ => match wide(bytes) {
            Some(encoding) => utf16(bytes, encoding),
            None => utf8_or_latin1(bytes),
        },
    };
    let (mut controls, mut characters) = (decoded.replaced, 0_usize);
    for c in decoded.text.chars() {
        characters += 1;
        controls += usize::from(strange(c));
    }
    if controls > characters / ONE_CONTROL_IN {
        let percent = (controls * 100 / characters.max(1)).clamp(1, 100);
        return Err(NotText::Binary { percent: u8::try_from(percent).unwrap_or(100) });
    }
    Ok(decoded)
}

/// A control character that no text has a use for. Terminals colour their output with escapes.
fn strange(c: char) -> bool {
    c.is_control()
        && !matches!(c, '\t' | '\n' | '\r' | '\x0b' | '\x0c' | '\x1a' | '\x1b' | '\u{85}')
}

/// UTF-16 without a mark: of Western text every second byte is zero, and always the same second.
fn wide(bytes: &[u8]) -> Option<Encoding> {
    const SAMPLE: usize = 4_096;
    let sample = &bytes[..bytes.len().min(SAMPLE) & !1];
    let (mut even, mut odd) = (0, 0);
    for pair in sample.chunks_exact(2) {
        even += usize::from(pair[0] == 0);
        odd += usize::from(pair[1] == 0);
    }
    let pairs = sample.len() / 2;
    let (most, few) = (pairs * 7 / 10, pairs / 20);
    match () {
        () if pairs < 2 => None,
        () if odd > most && even <= few => Some(Encoding::Utf16Le),
        () if even > most && odd <= few => Some(Encoding::Utf16Be),
        () => None,
    }
}

fn utf16(bytes: &[u8], encoding: Encoding) -> Decoded {
    let read = if encoding == Encoding::Utf16Be { u16::from_be_bytes } else { u16::from_le_bytes };
    let units = bytes.chunks_exact(2).map(|pair| read([pair[0], pair[1]]));
    let mut replaced = bytes.len() % 2;
    let mut text = String::with_capacity(bytes.len() / 2);
    for unit in char::decode_utf16(units) {
        replaced += usize::from(unit.is_err());
        text.push(unit.unwrap_or(char::REPLACEMENT_CHARACTER));
    }
    Decoded { text, encoding, replaced }
}

/// UTF-8 if it is that but for a few broken bytes, as files are that were cut or pasted together.
fn utf8_or_latin1(bytes: &[u8]) -> Decoded {
    let (mut good, mut bad) = (0, 0);
    for part in bytes.utf8_chunks() {
        good += part.valid().chars().filter(|c| !c.is_ascii()).count();
        bad += usize::from(!part.invalid().is_empty());
    }
    if good >= bad * 4 {
        let text = String::from_utf8_lossy(bytes).into_owned();
        return Decoded { text, encoding: Encoding::Utf8, replaced: bad };
    }
    let text = bytes.iter().map(|&byte| western(byte)).collect();
    Decoded { text, encoding: Encoding::Latin1, replaced: 0 }
}

/// The character that a byte is in ISO 8859-1 or, where that has control characters, on Windows.
pub(super) fn western(byte: u8) -> char {
    const WINDOWS: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž',
        '\u{8f}', '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}',
        'ž', 'Ÿ',
    ];
    match byte {
        0x80..=0x9f => WINDOWS[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

/// The text with line feeds for line ends, and without control characters but tabs and form feeds.
pub fn clean(text: &str) -> Cow<'_, str> {
    let drop = |c: char| c.is_control() && !matches!(c, '\n' | '\t' | '\x0c') || c == '\u{feff}';
    if !text.contains(drop) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' => {
                rest.next_if_eq(&'\n');
                out.push('\n');
            }
            '\x0b' | '\u{85}' => out.push('\n'),
            c if drop(c) => {}
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// What the white space before a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Indent {
    /// Where the line stands on the sheet.
    Layout,
    /// What belongs to what, as in Markdown, source and lists of settings.
    Meant,
}

/// The pages of a text that was laid out for a sheet or a screen, as Markdown. A form feed ends a
/// page; what ends the last begins no other.
pub fn pages(text: &str) -> Vec<String> {
    paged(text, Indent::Layout)
}

/// The pages of a text whose indentation means something, such as Markdown or a program.
pub fn typed_pages(text: &str) -> Vec<String> {
    paged(text, Indent::Meant)
}

fn paged(text: &str, indent: Indent) -> Vec<String> {
    let text = clean(text);
    let text = text.strip_suffix('\x0c').unwrap_or(&text);
    text.split('\x0c').map(|text| page(text, indent)).collect()
}

/// One page of text as Markdown: nothing at the ends of lines, at most one empty line after
/// another, and no indentation that would make code of prose, unless it is meant.
fn page(text: &str, indent: Indent) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut empty, mut in_list, mut fenced) = (0, false, false);
    for range in lines(text) {
        let line = text[range].trim_end();
        let bare = line.trim_start();
        if bare.is_empty() {
            empty += 1;
            continue;
        }
        if empty > 0 && !out.is_empty() {
            out.push('\n');
        }
        fenced ^= bare.starts_with("```") || bare.starts_with("~~~");
        let indented = line.len() > bare.len();
        in_list = markdown::is_item(line) || in_list && (indented || empty == 0);
        // What an item says goes on under it, and code stands as it was typed.
        let keep = if in_list || fenced || indent == Indent::Meant { line } else { bare };
        out.push_str(keep);
        out.push('\n');
        empty = 0;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide_bytes(text: &str, order: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(order).collect()
    }

    #[test]
    fn bytes_are_read_in_the_encoding_that_they_are_in() {
        let check = |bytes: &[u8], text: &str, encoding| {
            assert_eq!(decode(bytes), Ok(Decoded { text: text.into(), encoding, replaced: 0 }));
        };
        check(b"", "", Encoding::Utf8);
        check(b"plain", "plain", Encoding::Utf8);
        check("\u{feff}Grüße €".as_bytes(), "Grüße €", Encoding::Utf8);
        check(b"Gr\xfc\xdfe \x80 5", "Grüße € 5", Encoding::Latin1);
        check(b"\xff\xfeh\0i\0", "hi", Encoding::Utf16Le);
        check(b"\xfe\xff\0h\0i", "hi", Encoding::Utf16Be);
        let little = wide_bytes("a text without a mark", u16::to_le_bytes);
        check(&little, "a text without a mark", Encoding::Utf16Le);
        let big = wide_bytes("a text without a mark", u16::to_be_bytes);
        check(&big, "a text without a mark", Encoding::Utf16Be);
        check(b"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m", Encoding::Utf8);
    }

    #[test]
    fn a_broken_byte_does_not_garble_the_rest() {
        let mut bytes = "ein Stück über Bäume und Käfer, schön".repeat(10).into_bytes();
        bytes.push(0xc3);
        let decoded = decode(&bytes).expect("it is a text");
        assert_eq!((decoded.encoding, decoded.replaced), (Encoding::Utf8, 1));
        assert!(decoded.text.ends_with("schön\u{fffd}"), "{}", decoded.text);
        let mut odd = wide_bytes(&"broken at the end ".repeat(10), u16::to_le_bytes);
        odd.push(b'x');
        assert_eq!(decode(&odd).expect("it is a text").replaced, 1);
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_with_what_they_are() {
        let check = |bytes: &[u8], want: &str| {
            assert_eq!(decode(bytes).expect_err(want).to_string(), want);
        };
        check(b"%PDF-1.7\n", "this is a PDF file, which is not read as text");
        check(
            b"PK\x03\x04rest",
            "this is a ZIP archive or an office document, which is not read as text",
        );
        check(b"\xff\xfe\0\0h\0\0\0", "this is text in UTF-32, which is not read as text");
        check(&[0; 10], "this is binary data, not text: 100 % of it are control characters");
        let mixed: Vec<u8> = (0..=255).cycle().take(4_096).collect();
        let refused = decode(&mixed).expect_err("every byte there is");
        assert!(matches!(refused, NotText::Binary { percent: 5..=20 }), "{refused}");
        let lone = [b"\xff\xfe".as_slice(), &[0x00, 0xd8].repeat(50)].concat();
        assert_eq!(decode(&lone), Err(NotText::Binary { percent: 100 }));
    }

    #[test]
    fn text_is_cleaned_of_what_cannot_be_shown() {
        let check = |text: &str, want: &str| assert_eq!(clean(text), want, "{text:?}");
        check("as it is\n\tyes", "as it is\n\tyes");
        check("a\r\nb\rc\n", "a\nb\nc\n");
        check("\u{feff}a\0b\x07\x1b[0m\u{9f}", "ab[0m");
        check("a\x0bb\u{85}c\x0cd", "a\nb\nc\x0cd");
    }

    #[test]
    fn a_form_feed_ends_a_page_and_an_empty_page_is_one() {
        let check = |text: &str, want: &[&str]| assert_eq!(pages(text), want, "{text:?}");
        check("", &[""]);
        check("one\x0ctwo", &["one\n", "two\n"]);
        check("one\x0ctwo\x0c", &["one\n", "two\n"]);
        check("one\x0c\x0cthree\r\n\x0c", &["one\n", "", "three\n"]);
    }

    #[test]
    fn indentation_makes_code_neither_of_prose_nor_of_items() {
        let page = |text: &str| page(text, Indent::Layout);
        let check = |text: &str, want: &str| assert_eq!(page(text), want, "{text:?}");
        check("      Title\n\n\n\n    Text   \n", "Title\n\nText\n");
        check("- a\n    more\n\n    still\nlazy\n", "- a\n    more\n\n    still\nlazy\n");
        check("- a\n\nnext\n\n    prose", "- a\n\nnext\n\nprose\n");
        check("```\n    code\n```\n    prose", "```\n    code\n```\nprose\n");
        let text = "           A report\n\n     In the first year\n   nothing happened.";
        let blocks = markdown::read(&page(text));
        assert!(blocks.iter().all(|block| block.kind == markdown::Kind::Paragraph), "{blocks:?}");
    }

    /// `    # as root` became a heading, and a program's blocks became one.
    #[test]
    fn indentation_that_is_meant_stays() {
        let check = |text: &str, want: &str| assert_eq!(typed_pages(text), [want], "{text:?}");
        check("Run:\n\n    # as root\n\tmake  \n", "Run:\n\n    # as root\n\tmake\n");
        check("a:\n  b:\n    - c\n\n\n  d: 1", "a:\n  b:\n    - c\n\n  d: 1\n");
        let blocks = markdown::read(&typed_pages("Run:\n\n    # as root\n    make\n")[0]);
        assert_eq!(blocks[1].kind, markdown::Kind::Code { fence: None }, "{blocks:?}");
    }
}
