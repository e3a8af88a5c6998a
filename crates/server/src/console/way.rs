//! Ways: where a link leads, below the console's root.

use std::fmt;

use serde_json::Value;

use super::draw::{number, text};
use crate::ask::encode;

/// A path and what stands behind its question mark.
#[derive(Clone, Debug)]
pub(super) struct Way {
    path: String,
    has_query: bool,
}

/// The way to a page: `way(&["queue", id])`.
pub(super) fn way(parts: &[&str]) -> Way {
    let mut path = String::new();
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            path.push('/');
        }
        encode(part, &mut path);
    }
    Way { path, has_query: false }
}

/// The way to what a filter finds.
pub(super) fn items(filter: &str) -> Way {
    way(&["queue"]).with("filter", filter)
}

/// The way to a page of a document.
pub(super) fn page(document: &str, number: u64) -> Way {
    way(&["documents", document, "pages", &number.to_string()])
}

/// The way to a passage, by what the API says of it: its document, page and chunk.
pub(super) fn passage(of: &Value) -> String {
    let page = page(text(of, "document"), number(of, "page"));
    format!("{page}#c-{}", text(of, "chunk"))
}

impl Way {
    /// With a parameter, if there is something to say.
    pub(super) fn with(mut self, name: &str, value: &str) -> Way {
        if !value.is_empty() {
            self.path.push(if self.has_query { '&' } else { '?' });
            self.has_query = true;
            encode(name, &mut self.path);
            self.path.push('=');
            encode(value, &mut self.path);
        }
        self
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_stay_whole() {
        let way = way(&["queue", "a/b"]).with("filter", "status:failed x&y").with("cursor", "");
        assert_eq!(way.to_string(), "queue/a%2Fb?filter=status%3Afailed%20x%26y");
    }
}
