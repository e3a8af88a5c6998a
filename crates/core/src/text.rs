//! Texts: what may stand in a name or a description, and how a worker's own words are kept.
//!
//! What identifies or describes an item is refused if it is too long or has a NUL character
//! (U+0000), which a text in PostgreSQL cannot have: one such text would fail the whole batch that
//! it comes with. What a worker says about its work is never refused, because its settle would be
//! lost with it; it is cut and mended instead.
//!
//! A store that looks up names before it lets the rules decide leaves out what is refused here.
//! Payloads, results and outputs are bytes and may hold anything.

use crate::limits::NAME_MAX;
use crate::refusal::Refusal;

/// Refuses a name that is too long or unfit, or empty although it is required.
pub fn name(field: &'static str, text: &str, required: bool) -> Result<(), Refusal> {
    if required { self::required(field, text, NAME_MAX) } else { fits(field, text, NAME_MAX) }
}

/// Refuses a text that is empty, too long or unfit.
pub fn required(field: &'static str, text: &str, max: usize) -> Result<(), Refusal> {
    if text.is_empty() {
        return Err(Refusal::invalid(field, "must not be empty"));
    }
    fits(field, text, max)
}

/// Refuses a text that is too long or has a NUL character.
pub fn fits(field: &'static str, text: &str, max: usize) -> Result<(), Refusal> {
    limit(field, text.len(), max)?;
    if has_nul(text) {
        return Err(Refusal::invalid(field, "must not have a NUL character (U+0000)"));
    }
    Ok(())
}

/// Refuses more bytes than there may be.
pub fn limit(field: &'static str, len: usize, max: usize) -> Result<(), Refusal> {
    if len > max {
        return Err(Refusal::invalid(field, format!("has {len} bytes; at most {max}")));
    }
    Ok(())
}

pub(crate) fn has_nul(text: &str) -> bool {
    text.as_bytes().contains(&0)
}

/// What a worker said, as it is kept: without NUL characters, and cut at a character boundary.
pub fn kept(mut text: String, max: usize) -> String {
    if has_nul(&text) {
        text = text.replace('\0', "\u{fffd}");
    }
    if text.len() > max {
        let cut = (0..=max).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(cut.unwrap_or(0));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_refused_for_its_length_or_a_nul_and_the_field_is_named() {
        let said = |text: &str| name("queue", text, true).map_err(|refusal| refusal.to_string());
        assert_eq!(said("a\u{1}\u{7f}é"), Ok(()));
        assert_eq!(said(""), Err("queue: must not be empty".into()));
        let nul = "queue: must not have a NUL character (U+0000)";
        assert_eq!(said("a\0b"), Err(nul.into()));
        assert_eq!(said(&"é".repeat(65)), Err("queue: has 130 bytes; at most 128".into()));
    }

    #[test]
    fn what_a_worker_said_is_mended_and_cut_at_a_character() {
        assert_eq!(kept("a\0b".into(), 10), "a\u{fffd}b");
        assert_eq!(kept("\0\0".into(), 5), "\u{fffd}");
        assert_eq!(kept("aé".into(), 2), "a");
    }
}
