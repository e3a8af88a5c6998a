//! Entities: `&amp;`, `&#8364;`, `&#x20ac;`.
//!
//! Knows the names of HTML 4. What it does not know stays as it was written.

use crate::text::plain::western;

/// Appends a text with its entities resolved.
pub(super) fn resolve(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (c, length) = entity(rest).unwrap_or(('&', 1));
        out.push(c);
        rest = &rest[length..];
    }
    out.push_str(rest);
}

/// The character that an entity is, and how many bytes it takes. The text begins with `&`.
fn entity(text: &str) -> Option<(char, usize)> {
    if let Some(number) = text.strip_prefix("&#") {
        let hex = number.starts_with(['x', 'X']);
        return numeric(&number[usize::from(hex)..], if hex { 16 } else { 10 })
            .map(|(c, length)| (c, 2 + usize::from(hex) + length));
    }
    const LONGEST: usize = 8;
    let letters = text[1..].bytes().take(LONGEST + 1).take_while(u8::is_ascii_alphanumeric);
    let length = letters.count();
    if length < 2 {
        return None;
    }
    let name = &text[1..=length];
    let ended = text.as_bytes().get(1 + length) == Some(&b';');
    // `AT&T` and `?a=1&copy=2` are no entities, though `&copy 2026` was taken for one since ever.
    let bare = text.as_bytes().get(1 + length).is_none_or(|byte| !matches!(byte, b'=' | b'_'));
    let c = named(name).filter(|&c| ended || bare && (c <= 'ÿ'))?;
    Some((c, 1 + length + usize::from(ended)))
}

fn numeric(text: &str, radix: u32) -> Option<(char, usize)> {
    let mut value: u32 = 0;
    let mut digits = 0;
    for digit in text.chars().map_while(|c| c.to_digit(radix)) {
        value = value.saturating_mul(radix).saturating_add(digit);
        digits += 1;
    }
    if digits == 0 {
        return None;
    }
    let c = match value {
        0 => char::REPLACEMENT_CHARACTER,
        0x80..=0x9f => western(value as u8),
        _ => char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER),
    };
    let ended = text[digits..].starts_with(';');
    Some((c, digits + usize::from(ended)))
}

fn named(name: &str) -> Option<char> {
    if let Some(at) = LATIN.iter().position(|known| *known == name) {
        return char::from_u32(0xa0 + u32::try_from(at).ok()?);
    }
    OTHERS.iter().find(|(known, _)| *known == name).map(|&(_, c)| c)
}

/// The names of U+00A0 to U+00FF, in their order.
#[rustfmt::skip]
const LATIN: [&str; 96] = [
    "nbsp", "iexcl", "cent", "pound", "curren", "yen", "brvbar", "sect", "uml", "copy", "ordf",
    "laquo", "not", "shy", "reg", "macr", "deg", "plusmn", "sup2", "sup3", "acute", "micro", "para",
    "middot", "cedil", "sup1", "ordm", "raquo", "frac14", "frac12", "frac34", "iquest", "Agrave",
    "Aacute", "Acirc", "Atilde", "Auml", "Aring", "AElig", "Ccedil", "Egrave", "Eacute", "Ecirc",
    "Euml", "Igrave", "Iacute", "Icirc", "Iuml", "ETH", "Ntilde", "Ograve", "Oacute", "Ocirc",
    "Otilde", "Ouml", "times", "Oslash", "Ugrave", "Uacute", "Ucirc", "Uuml", "Yacute", "THORN",
    "szlig", "agrave", "aacute", "acirc", "atilde", "auml", "aring", "aelig", "ccedil", "egrave",
    "eacute", "ecirc", "euml", "igrave", "iacute", "icirc", "iuml", "eth", "ntilde", "ograve",
    "oacute", "ocirc", "otilde", "ouml", "divide", "oslash", "ugrave", "uacute", "ucirc", "uuml",
    "yacute", "thorn", "yuml",
];

#[rustfmt::skip]
const OTHERS: [(&str, char); 161] = [
    ("amp", '&'), ("lt", '<'), ("gt", '>'), ("quot", '"'), ("apos", '\''), ("AMP", '&'),
    ("LT", '<'), ("GT", '>'), ("QUOT", '"'), ("OElig", 'Œ'), ("oelig", 'œ'), ("Scaron", 'Š'),
    ("scaron", 'š'), ("Yuml", 'Ÿ'), ("fnof", 'ƒ'), ("circ", 'ˆ'), ("tilde", '˜'),
    ("ensp", '\u{2002}'), ("emsp", '\u{2003}'), ("thinsp", '\u{2009}'), ("zwnj", '\u{200c}'),
    ("zwj", '\u{200d}'), ("lrm", '\u{200e}'), ("rlm", '\u{200f}'), ("ndash", '–'), ("mdash", '—'),
    ("lsquo", '‘'), ("rsquo", '’'), ("sbquo", '‚'), ("ldquo", '“'), ("rdquo", '”'),
    ("bdquo", '„'), ("dagger", '†'), ("Dagger", '‡'), ("bull", '•'), ("hellip", '…'),
    ("permil", '‰'), ("prime", '′'), ("Prime", '″'), ("lsaquo", '‹'), ("rsaquo", '›'),
    ("oline", '‾'), ("frasl", '⁄'), ("euro", '€'), ("image", 'ℑ'), ("weierp", '℘'), ("real", 'ℜ'),
    ("trade", '™'), ("alefsym", 'ℵ'), ("larr", '←'), ("uarr", '↑'), ("rarr", '→'), ("darr", '↓'),
    ("harr", '↔'), ("crarr", '↵'), ("lArr", '⇐'), ("uArr", '⇑'), ("rArr", '⇒'), ("dArr", '⇓'),
    ("hArr", '⇔'), ("forall", '∀'), ("part", '∂'), ("exist", '∃'), ("empty", '∅'), ("nabla", '∇'),
    ("isin", '∈'), ("notin", '∉'), ("ni", '∋'), ("prod", '∏'), ("sum", '∑'), ("minus", '−'),
    ("lowast", '∗'), ("radic", '√'), ("prop", '∝'), ("infin", '∞'), ("ang", '∠'), ("and", '∧'),
    ("or", '∨'), ("cap", '∩'), ("cup", '∪'), ("int", '∫'), ("there4", '∴'), ("sim", '∼'),
    ("cong", '≅'), ("asymp", '≈'), ("ne", '≠'), ("equiv", '≡'), ("le", '≤'), ("ge", '≥'),
    ("sub", '⊂'), ("sup", '⊃'), ("nsub", '⊄'), ("sube", '⊆'), ("supe", '⊇'), ("oplus", '⊕'),
    ("otimes", '⊗'), ("perp", '⊥'), ("sdot", '⋅'), ("lceil", '⌈'), ("rceil", '⌉'),
    ("lfloor", '⌊'), ("rfloor", '⌋'), ("lang", '〈'), ("rang", '〉'), ("loz", '◊'), ("spades", '♠'),
    ("clubs", '♣'), ("hearts", '♥'), ("diams", '♦'), ("Alpha", 'Α'), ("Beta", 'Β'),
    ("Gamma", 'Γ'), ("Delta", 'Δ'), ("Epsilon", 'Ε'), ("Zeta", 'Ζ'), ("Eta", 'Η'), ("Theta", 'Θ'),
    ("Iota", 'Ι'), ("Kappa", 'Κ'), ("Lambda", 'Λ'), ("Mu", 'Μ'), ("Nu", 'Ν'), ("Xi", 'Ξ'),
    ("Omicron", 'Ο'), ("Pi", 'Π'), ("Rho", 'Ρ'), ("Sigma", 'Σ'), ("Tau", 'Τ'), ("Upsilon", 'Υ'),
    ("Phi", 'Φ'), ("Chi", 'Χ'), ("Psi", 'Ψ'), ("Omega", 'Ω'), ("alpha", 'α'), ("beta", 'β'),
    ("gamma", 'γ'), ("delta", 'δ'), ("epsilon", 'ε'), ("zeta", 'ζ'), ("eta", 'η'), ("theta", 'θ'),
    ("iota", 'ι'), ("kappa", 'κ'), ("lambda", 'λ'), ("mu", 'μ'), ("nu", 'ν'), ("xi", 'ξ'),
    ("omicron", 'ο'), ("pi", 'π'), ("rho", 'ρ'), ("sigmaf", 'ς'), ("sigma", 'σ'), ("tau", 'τ'),
    ("upsilon", 'υ'), ("phi", 'φ'), ("chi", 'χ'), ("psi", 'ψ'), ("omega", 'ω'), ("thetasym", 'ϑ'),
    ("upsih", 'ϒ'), ("piv", 'ϖ'),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_resolved_and_what_is_none_stays() {
        let check = |text: &str, want: &str| {
            let mut got = String::new();
            resolve(text, &mut got);
            assert_eq!(got, want, "{text:?}");
        };
        check("a &amp; b &lt;c&gt; &quot;d&quot;", "a & b <c> \"d\"");
        check("&auml;&Auml;&szlig;&yuml;&euro;&mdash;&thetasym;", "äÄßÿ€—ϑ");
        check("&#65;&#x42;&#X43;&#8364;&#128512;", "ABC€😀");
        check("&#150;&#x80;", "–€");
        check("&#0;&#xD800;&#x110000;&#99999999999999999999;", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}");
        check("&copy 2026 &#65 x", "© 2026 A x");
        check(
            "AT&T ?a=1&copy=2 &unknown; &; & &# &#x; &",
            "AT&T ?a=1&copy=2 &unknown; &; & &# &#x; &",
        );
        check("&notanentity; &alphabet; &amp", "&notanentity; &alphabet; &");
        check("&ä;", "&ä;");
    }

    #[test]
    fn the_names_of_latin_letters_are_in_the_order_of_their_codes() {
        for (name, c) in [("nbsp", '\u{a0}'), ("reg", '®'), ("times", '×'), ("ouml", 'ö')] {
            assert_eq!(named(name), Some(c));
        }
    }
}
