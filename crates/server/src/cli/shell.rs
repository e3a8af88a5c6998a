//! Commands as a shell takes them apart.

use clap::Parser as _;

use super::Cli;

/// Whether a line is a command, as a shell takes it apart: by spaces, quotes and backslashes.
pub(crate) fn is_command(line: &str) -> bool {
    words(line).is_some_and(|words| Cli::try_parse_from(words).is_ok())
}

/// The words of a line; none if a quote has no end.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), None::<String>, false);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            ' ' if !is_quoted => words.extend(word.take()),
            '\\' if !is_quoted => word.get_or_insert_default().extend(letters.next()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    (!is_quoted).then_some(words)
}

/// A name as one word of a line.
pub(crate) fn as_word(name: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./:@".contains(letter);
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_one_word() {
        for name in
            ["scans", "a:b/c.d@e", "", "o'neill & sons", "'", "\\", "two  spaces", "'a' 'b'"]
        {
            let line = format!("windrow list {}", as_word(name));
            assert_eq!(words(&line), Some(["windrow", "list", name].map(str::to_owned).into()));
        }
        assert_eq!(words("windrow list 'scans"), None);
    }
}
