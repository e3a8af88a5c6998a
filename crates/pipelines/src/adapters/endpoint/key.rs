//! Keys: what an endpoint is shown and nobody else.

use std::fmt;

use hyper::header::HeaderValue;

/// A secret that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

/// A text that no header can hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a key is printable ASCII without spaces, and not empty")]
pub struct NotAKey;

/// Shorter ones are words that a text may hold for other reasons.
const HIDDEN_FROM: usize = 4;

impl Key {
    pub fn new(text: impl Into<String>) -> Result<Key, NotAKey> {
        let text = text.into();
        let is_key = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_key { Ok(Key(text)) } else { Err(NotAKey) }
    }

    pub(super) fn bearer(&self) -> HeaderValue {
        sensitive(&format!("Bearer {}", self.0))
    }

    pub(super) fn plain(&self) -> HeaderValue {
        sensitive(&self.0)
    }

    /// A text without the key.
    pub(super) fn hide(&self, text: &str) -> String {
        if self.0.len() < HIDDEN_FROM { text.to_owned() } else { text.replace(&self.0, "…") }
    }
}

fn sensitive(text: &str) -> HeaderValue {
    let mut value = HeaderValue::from_str(text).expect("a key is printable");
    value.set_sensitive(true);
    value
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_shown_and_fits_a_header() {
        let key = Key::new("hunter2").unwrap();
        let shown = format!("{key:?} {:?} {:?}", key.bearer(), key.plain());
        assert!(!shown.contains("hunter2"), "{shown}");
        assert_eq!(key.hide("no such key: hunter2, hunter2!"), "no such key: …, …!");
        for bad in ["", "two words", "line\nbreak", "ümlaut"] {
            assert_eq!(Key::new(bad), Err(NotAKey), "{bad}");
        }
    }
}
