//! As much of PostgreSQL's protocol as it takes to see a COMMIT go by, and its answer.

use std::collections::HashSet;

/// Cuts what one side says into messages. Only the first of a client has no type.
#[derive(Clone, Debug)]
pub struct Messages {
    bytes: Vec<u8>,
    begins: bool,
}

const LENGTH: usize = 4;

impl Messages {
    pub fn of_client() -> Messages {
        Messages { bytes: Vec::new(), begins: true }
    }

    pub fn of_server() -> Messages {
        Messages { bytes: Vec::new(), begins: false }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message, as it was sent.
    pub fn next_whole(&mut self) -> Option<Vec<u8>> {
        let kind = usize::from(!self.begins);
        let length = self.bytes.get(kind..)?.first_chunk::<LENGTH>()?;
        let end = kind + (u32::from_be_bytes(*length) as usize).max(LENGTH);
        if self.bytes.len() < end {
            return None;
        }
        self.begins = false;
        let rest = self.bytes.split_off(end);
        Some(std::mem::replace(&mut self.bytes, rest))
    }
}

/// Knows a client's COMMIT, however it is sent.
#[derive(Clone, Debug, Default)]
pub struct Commits {
    prepared: HashSet<Vec<u8>>,
}

impl Commits {
    /// Whether this message of a client commits.
    pub fn is_commit(&mut self, message: &[u8]) -> bool {
        let Some((kind, rest)) = message.split_first() else { return false };
        let body = rest.get(LENGTH..).unwrap_or_default();
        let mut words = body.split(|byte| *byte == 0);
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match kind {
            b'Q' => commits(first),
            // Parse has the name of the statement first, Bind the portal's.
            b'P' if commits(second) => {
                self.prepared.insert(first.to_vec());
                false
            }
            b'P' => {
                self.prepared.remove(first);
                false
            }
            b'B' => self.prepared.contains(second),
            _ => false,
        }
    }
}

fn commits(sql: &[u8]) -> bool {
    sql.trim_ascii().get(..6).is_some_and(|word| word.eq_ignore_ascii_case(b"commit"))
}

/// Whether this message of a server says that a transaction was committed.
pub fn is_committed(message: &[u8]) -> bool {
    message.first() == Some(&b'C') && message.get(1 + LENGTH..) == Some(b"COMMIT\0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = (body.len() + LENGTH) as u32;
        [&[kind], &length.to_be_bytes()[..], body].concat()
    }

    #[test]
    fn messages_are_whole_however_they_arrive() {
        let start = [&12_u32.to_be_bytes()[..], &[0, 3, 0, 0, 1, 2, 3, 4]].concat();
        let query = message(b'Q', b"select 1\0");
        let mut messages = Messages::of_client();
        let mut found = Vec::new();
        for byte in start.iter().chain(&query) {
            messages.push(&[*byte]);
            found.extend(messages.next_whole());
        }
        assert_eq!(found, [start, query]);
    }

    #[test]
    fn a_commit_is_seen_and_nothing_else_is_taken_for_one() {
        let mut commits = Commits::default();
        let mut check = |kind, body: &[u8], want| {
            assert_eq!(commits.is_commit(&message(kind, body)), want, "{body:?}");
        };
        check(b'Q', b"COMMIT\0", true);
        check(b'Q', b" commit;\0", true);
        check(b'Q', b"ROLLBACK\0", false);
        check(b'P', b"s1\0commit\0\0\0", false);
        check(b'P', b"s2\0select 'commit'\0\0\0", false);
        check(b'B', b"\0s1\0\0\0\0\0\0\0", true);
        check(b'B', b"\0s2\0\0\0\0\0\0\0", false);
        check(b'S', b"", false);
    }

    #[test]
    fn the_answer_to_a_commit_is_seen() {
        assert!(is_committed(&message(b'C', b"COMMIT\0")));
        assert!(!is_committed(&message(b'C', b"ROLLBACK\0")));
        assert!(!is_committed(&message(b'Z', b"I")));
    }
}
