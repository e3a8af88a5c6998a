//! Clauses: how contracts, laws and specifications number what they say.

/// How a clause begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label {
    /// Whether it is an article, a section or a paragraph with a name of its own (`Article 5`, `§
    /// 4`), rather than a number within one (`5.1`).
    pub named: bool,
}

/// The label that a line begins with: `1.2.3 Scope`, `§ 4`, `Article 5`, `REQ-12:`.
///
/// Prose has such beginnings too ("2.5 million", "Article 5 of the treaty says"), so what follows a
/// label must look like the beginning of a sentence.
pub(super) fn label(line: &str) -> Option<Label> {
    let line = line.trim_start_matches([' ', '\t', '*', '_']);
    if let Some(rest) = line.strip_prefix('§') {
        let rest = rest.trim_start_matches(['§', ' ', '\u{a0}']);
        return rest.starts_with(|c: char| c.is_ascii_digit()).then_some(Label { named: true });
    }
    if numbered(line) || requirement(line) {
        return Some(Label { named: false });
    }
    named(line).then_some(Label { named: true })
}

/// `1.2 Scope`, `4.10.1. The supplier …`
fn numbered(line: &str) -> bool {
    let end = line.bytes().take(24).take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let number = line[..end].strip_suffix('.').unwrap_or(&line[..end]);
    let mut parts = 0;
    for part in number.split('.') {
        if part.is_empty() || part.len() > 3 {
            return false;
        }
        parts += 1;
    }
    let rest = line[end..].trim_start_matches(['*', '_']);
    parts >= 2 && rest.starts_with([' ', '\t', '\u{a0}']) && sentence(rest)
}

const NAMES: [&str; 9] =
    ["article", "art.", "section", "sec.", "clause", "schedule", "annex", "appendix", "paragraph"];

/// `Article 5`, `SECTION IV – Payment`, `Annex B`
fn named(line: &str) -> bool {
    let Some(space) = line.bytes().take(12).position(|byte| byte == b' ') else { return false };
    let word = &line[..space];
    if !word.starts_with(char::is_uppercase) {
        return false;
    }
    if !NAMES.iter().any(|name| name.eq_ignore_ascii_case(word)) {
        return false;
    }
    let rest = line[space..].trim_start();
    let sign = |c: char| c.is_ascii_digit() || c == '.' || "IVXLC".contains(c);
    let mut end = rest.bytes().take(12).take_while(|&byte| sign(char::from(byte))).count();
    if end == 0 && rest.starts_with(|c: char| c.is_ascii_uppercase()) {
        end = 1;
    }
    let rest_of = rest[end..].trim_start_matches(['*', '_']);
    if end == 0 || rest_of.starts_with(char::is_alphanumeric) {
        return false;
    }
    let after = rest_of.trim_start();
    after.is_empty() || after.starts_with(['.', ':', '-', '–', '—', ')']) || sentence(rest_of)
}

/// `REQ-12: The system shall …`, `SYS-FR-003 …`
fn requirement(line: &str) -> bool {
    const WORDS: [&str; 8] = ["REQ", "FR", "NFR", "UR", "SR", "BR", "SRS", "URS"];
    let sign = |b: &u8| b.is_ascii_uppercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
    let end = line.bytes().take(32).take_while(sign).count();
    let id = &line[..end];
    let rest = &line[end..];
    let ended = rest.is_empty() || rest.starts_with([':', ' ', '.', ')', '*', '\t']);
    let mut parts = id.split(['-', '_']);
    ended
        && parts.any(|part| WORDS.contains(&part))
        && parts.next().is_some()
        && id.ends_with(|c: char| c.is_ascii_digit())
}

/// Whether a text may begin a sentence: no small letter, no figure, no sign of arithmetic.
fn sentence(rest: &str) -> bool {
    let rest = rest.trim_start_matches([' ', '\t', '\u{a0}', '*', '_']);
    let Some(first) = rest.chars().next() else { return false };
    first.is_alphabetic() && !first.is_lowercase() || "\"“„«'(‘[".contains(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clause_is_told_from_prose_that_begins_with_a_number() {
        let check = |line: &str, want: Option<bool>| {
            assert_eq!(label(line).map(|label| label.named), want, "{line:?}");
        };
        for line in [
            "1.2 Scope",
            "1.2.3 The Supplier shall deliver.",
            "4.10. “Goods” means …",
            "**2.1** Payment",
            "  3.4\u{a0}Ärzte",
            "REQ-12: the system shall",
            "SYS-FR-003 Log in",
            "**NFR_7** Speed",
        ] {
            check(line, Some(false));
        }
        for line in [
            "§ 4",
            "§§ 4, 5 apply",
            "§4 Abs. 2",
            "Article 5",
            "ARTICLE IV – Payment",
            "Section 3.1: Scope",
            "Annex B",
            "Art. 7 Termination",
            "**Article 9** Law",
        ] {
            check(line, Some(true));
        }
        for line in [
            "",
            "1. An item",
            "2.5 million people",
            "3.14",
            "1.2.",
            "2026.11.17 10:00",
            "10.0.0.1 is a host",
            "1..2 Scope",
            "Article 5 of the treaty says",
            "Article",
            "article 5",
            "Articles 5",
            "Section by section",
            "Annex Barbara",
            "§ four",
            "UTF-8 is an encoding",
            "REQ: nothing",
            "REQ-",
            "$1.20 Discount",
            "\u{0}",
        ] {
            check(line, None);
        }
    }
}
