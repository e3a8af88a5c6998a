//! Marks: what a single line says about the block that it begins, continues or ends.
//!
//! Every function looks at one line and at nothing else, and takes at most as long as it is long.

use std::ops::Range;

/// The columns of white space before a line's first character; a tab goes to the next multiple of
/// four.
pub(super) fn indent(line: &str) -> usize {
    let mut columns = 0;
    for byte in line.bytes() {
        match byte {
            b' ' => columns += 1,
            b'\t' => columns += 4 - columns % 4,
            _ => break,
        }
    }
    columns
}

pub(super) fn blank(line: &str) -> bool {
    line.trim_start().is_empty()
}

/// A heading's level, and where in the line its title is.
///
/// More forgiving than the rule: two or more signs need no space after them.
pub(super) fn heading(line: &str) -> Option<(u8, Range<usize>)> {
    let start = shallow(line)?;
    let signs = line[start..].bytes().take_while(|&byte| byte == b'#').count();
    let level = u8::try_from(signs).ok().filter(|level| (1..=6).contains(level))?;
    let rest = &line[start + signs..];
    let spaced = rest.is_empty() || rest.starts_with([' ', '\t']);
    let close = signs >= 2 && rest.starts_with(char::is_alphanumeric);
    if !spaced && !close {
        return None;
    }
    let open = rest.trim_end();
    let bare = open.trim_end_matches('#');
    let title = if bare.is_empty() || bare.ends_with([' ', '\t']) { bare } else { open };
    let end = start + signs + title.trim_end().len();
    let begin = end - title.trim().len();
    Some((level, begin..end))
}

/// The level of the heading that this line makes of the lines above it.
pub(super) fn underline(line: &str) -> Option<u8> {
    let line = line[shallow(line)?..].trim_end();
    let all = |sign: u8| line.len() >= 2 && line.bytes().all(|byte| byte == sign);
    match () {
        () if all(b'=') => Some(1),
        () if all(b'-') => Some(2),
        () => None,
    }
}

/// A line across the page: `---`, `* * *`, `___`.
pub(super) fn rule(line: &str) -> bool {
    let Some(start) = shallow(line) else { return false };
    let Some(&sign) = line.as_bytes().get(start) else { return false };
    let mut signs = 0;
    for byte in line[start..].bytes() {
        match byte {
            b' ' | b'\t' => {}
            _ if byte == sign => signs += 1,
            _ => return false,
        }
    }
    signs >= 3 && matches!(sign, b'-' | b'*' | b'_')
}

/// The line that opens fenced code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fence {
    pub sign: u8,
    pub signs: usize,
    /// Where in the line the words behind the signs are.
    pub info: Range<usize>,
}

pub(super) fn fence(line: &str) -> Option<Fence> {
    let start = line.len() - line.trim_start_matches([' ', '\t']).len();
    let sign = *line.as_bytes().get(start).filter(|byte| matches!(byte, b'`' | b'~'))?;
    let signs = line[start..].bytes().take_while(|&byte| byte == sign).count();
    let info = &line[start + signs..];
    if signs < 3 || sign == b'`' && info.contains('`') {
        return None;
    }
    let begin = line.len() - info.trim_start().len();
    Some(Fence { sign, signs, info: begin..begin + info.trim().len() })
}

impl Fence {
    /// Whether a line ends the code that this one opened.
    pub(super) fn ends(&self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.signs && line.bytes().all(|byte| byte == self.sign)
    }
}

pub(super) fn quote(line: &str) -> bool {
    shallow(line).is_some_and(|start| line[start..].starts_with('>'))
}

/// What a quote's line says, without its signs.
pub(super) fn unquoted(line: &str) -> &str {
    line.trim_start_matches(['>', ' ', '\t'])
}

/// A list's item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Where in the line its text begins.
    pub text: usize,
    /// Whether a paragraph may be followed by it without an empty line.
    pub interrupts: bool,
}

pub(super) fn item(line: &str) -> Option<Item> {
    let start = line.len() - line.trim_start_matches([' ', '\t']).len();
    let rest = &line[start..];
    let (length, first) = bullet(rest).or_else(|| number(rest)).or_else(|| letter(rest))?;
    let after = &rest[length..];
    if !after.is_empty() && !after.starts_with([' ', '\t']) {
        return None;
    }
    let text = line.len() - after.trim_start().len();
    Some(Item { text, interrupts: first && text < line.len() })
}

/// How long a bullet is. What PDF files have for bullets counts too.
fn bullet(rest: &str) -> Option<(usize, bool)> {
    let sign = rest.chars().next()?;
    let known = matches!(sign, '-' | '*' | '+' | '•' | '◦' | '▪' | '‣' | '●' | '○' | '■');
    known.then(|| (sign.len_utf8(), true))
}

/// How long `12.` or `12)` is, and whether it is the first of its list.
fn number(rest: &str) -> Option<(usize, bool)> {
    let digits = rest.bytes().take(10).take_while(u8::is_ascii_digit).count();
    let ends = matches!(rest.as_bytes().get(digits), Some(b'.' | b')'));
    ((1..=9).contains(&digits) && ends).then(|| (digits + 1, &rest[..digits] == "1"))
}

/// How long `a)` or `(iv)` is.
fn letter(rest: &str) -> Option<(usize, bool)> {
    let open = usize::from(rest.starts_with('('));
    let letters = rest[open..].bytes().take(5).take_while(u8::is_ascii_alphanumeric).count();
    let longest = if open == 1 { 4 } else { 1 };
    let closed = rest.as_bytes().get(open + letters) == Some(&b')');
    (closed && (1..=longest).contains(&letters)).then_some((open + letters + 1, true))
}

/// The line between a table's header and its rows: `|---|:--:|`.
pub(super) fn delimiter(line: &str) -> bool {
    let line = line.trim();
    let inner = line.strip_prefix('|').unwrap_or(line);
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    let cell = |cell: &str| {
        let cell = cell.trim();
        let cell = cell.strip_prefix(':').unwrap_or(cell);
        let cell = cell.strip_suffix(':').unwrap_or(cell);
        !cell.is_empty() && cell.bytes().all(|byte| byte == b'-')
    };
    line.contains('|') && inner.split('|').all(cell)
}

/// What ends the display equation that a line opens, or that it ended in the same line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Equation {
    Whole,
    Until(&'static str),
}

pub(super) fn equation(line: &str) -> Option<Equation> {
    let line = line.trim();
    if let Some(rest) = line.strip_prefix("$$") {
        return match rest.find("$$") {
            Some(end) => number_at_most(&rest[end + 2..]).then_some(Equation::Whole),
            None => Some(Equation::Until("$$")),
        };
    }
    if let Some(rest) = line.strip_prefix(r"\[") {
        // `\[1\]` is a bracket that somebody escaped, not an equation.
        let math = |inner: &str| inner.contains(['\\', '=', '^', '_', '+', '<', '>']);
        return match rest.find(r"\]") {
            Some(end) if number_at_most(&rest[end + 2..]) && math(&rest[..end]) => {
                Some(Equation::Whole)
            }
            Some(_) => None,
            None => Some(Equation::Until(r"\]")),
        };
    }
    let name = line.strip_prefix(r"\begin{")?;
    let (_, end) = ENVIRONMENTS.iter().find(|(begin, _)| name.starts_with(begin))?;
    Some(if line.contains(end) { Equation::Whole } else { Equation::Until(end) })
}

const ENVIRONMENTS: [(&str, &str); 6] = [
    ("equation", r"\end{equation"),
    ("align", r"\end{align"),
    ("gather", r"\end{gather"),
    ("multline", r"\end{multline"),
    ("eqnarray", r"\end{eqnarray"),
    ("displaymath", r"\end{displaymath"),
];

/// Whether what follows an equation is at most its number and a full stop.
fn number_at_most(rest: &str) -> bool {
    let sign = |c: char| c.is_ascii_digit() || c.is_whitespace() || "().,;".contains(c);
    rest.len() <= 20 && rest.chars().all(sign)
}

/// Whether there is mathematics in a line of text.
pub(super) fn mathematics(line: &str) -> bool {
    line.contains("$$") || line.contains(r"\begin{") || inline_mathematics(line)
}

/// `$x^2$`, but not `$5 and $10`: what is between the signs must look like a formula, and be short.
fn inline_mathematics(line: &str) -> bool {
    const LONGEST: usize = 120;
    let bytes = line.as_bytes();
    let mut at = 0;
    while let Some(open) = bytes[at..].iter().position(|&byte| byte == b'$') {
        let begin = at + open + 1;
        let window = &bytes[begin..bytes.len().min(begin + LONGEST)];
        let Some(end) = window.iter().position(|&byte| byte == b'$') else {
            at = begin;
            continue;
        };
        let inner = &window[..end];
        let tight = inner.first().is_some_and(|byte| !byte.is_ascii_whitespace())
            && inner.last().is_some_and(|byte| !byte.is_ascii_whitespace());
        if tight && inner.iter().any(|byte| matches!(byte, b'\\' | b'^' | b'_' | b'=')) {
            return true;
        }
        at = begin;
    }
    false
}

/// Where a line's text begins, if it is indented by less than code is.
fn shallow(line: &str) -> Option<usize> {
    let start = line.len() - line.trim_start_matches([' ', '\t']).len();
    (start <= 3 && indent(line) <= 3).then_some(start)
}
