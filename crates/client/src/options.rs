//! How a client introduces itself, and how patient it is.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What can be chosen. The defaults suit a worker beside its server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who calls, where the server asks for that: sent with every request over HTTP, and once per
    /// connection over RPC.
    pub token: Option<Token>,
    /// How long one attempt may take, from connecting to the last byte of the answer. A claim that
    /// waits for work has that on top of its wait.
    pub attempt: Duration,
    /// How long a call may take with all its repeats. Zero for one attempt.
    pub within: Duration,
    /// Connections that are kept open while nobody uses them. Over RPC there is one, for all calls.
    pub idle_max: usize,
    /// The certificates to trust over https instead of the system's, in PEM.
    pub roots: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            token: None,
            attempt: Duration::from_secs(30),
            within: Duration::from_secs(60),
            idle_max: 64,
            roots: None,
        }
    }
}

/// A secret that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// A text that no header can hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a token is printable ASCII without spaces, and not empty")]
pub struct NotAToken;

impl Token {
    pub fn new(text: impl Into<String>) -> Result<Token, NotAToken> {
        let text = text.into();
        let is_token = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_token { Ok(Token(text)) } else { Err(NotAToken) }
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_not_shown_and_fits_a_header() {
        let options = Options { token: Token::new("hunter2").ok(), ..Options::default() };
        assert!(!format!("{options:?}").contains("hunter2"));
        for bad in ["", "two words", "line\nbreak", "ümlaut"] {
            assert_eq!(Token::new(bad), Err(NotAToken), "{bad}");
        }
    }
}
