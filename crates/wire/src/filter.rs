//! Filters as people write them: `status:failed,cancelled queue:thumbs no space`.
//!
//! One grammar for the command line, the API and the console. Words are separated by spaces. A word
//! with a colon says what a field must be; all others are the text that is looked for. A value or a
//! text with spaces or colons stands in quotes, in which `\"` and `\\` are a quote and a backslash.
//! What went wrong is said by the number of the word, because a value may be nobody's business.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::list::Filter;
use crate::read::nearest;

/// What can stand before a colon, with what it is.
pub const KEYS: [(&str, &str); 9] = [
    ("status", "pending, processing, completed, failed, cancelled, skipped; several with commas"),
    ("queue", "the queue"),
    ("stage", "the stage that an item is in"),
    ("kind", "the kind"),
    ("tenant", "the tenant"),
    ("collection", "the collection"),
    ("branch", "the branch"),
    ("source_type", "where it came from"),
    ("q", "a text in key, kind, source_info or error, or the beginning of an id"),
];

/// A word that is not understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// Which one, from 1.
    pub at: usize,
    /// The word itself. Only for whoever wrote it.
    pub word: String,
    pub why: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "word {}: {}", self.at, self.why)
    }
}

/// Reads a filter.
pub fn parse(text: &str) -> Result<Filter, Wrong> {
    let (mut filter, mut texts) = (Filter::default(), Vec::new());
    let (mut rest, mut at) = (text.trim_start(), 0);
    while !rest.is_empty() {
        at += 1;
        let wrong = |why: String| {
            let word = rest.split_whitespace().next().unwrap_or_default();
            Wrong { at, word: word.to_owned(), why }
        };
        let (word, behind) = next(rest).map_err(|why| wrong(why.to_owned()))?;
        match word {
            Word::Text(text) => texts.push(text),
            Word::Field(key, value) if key == "q" => {
                texts.extend(said(&key, value).map_err(wrong)?)
            }
            Word::Field(key, value) => set(&mut filter, &key, value).map_err(wrong)?,
        }
        rest = behind.trim_start();
    }
    filter.q = (!texts.is_empty()).then(|| texts.join(" "));
    Ok(filter)
}

enum Word {
    Text(String),
    Field(String, String),
}

/// The first word, and what is behind it.
fn next(text: &str) -> Result<(Word, &str), &'static str> {
    if text.starts_with('"') {
        let (inside, behind) = quoted(text)?;
        return Ok((Word::Text(inside), behind));
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let Some(colon) = text[..end].find(':') else {
        return Ok((Word::Text(text[..end].to_owned()), &text[end..]));
    };
    let (key, value) = (text[..colon].to_ascii_lowercase(), &text[colon + 1..]);
    if value.starts_with('"') {
        let (inside, behind) = quoted(value)?;
        return Ok((Word::Field(key, inside), behind));
    }
    Ok((Word::Field(key, text[colon + 1..end].to_owned()), &text[end..]))
}

/// What stands between the quotes that a text begins with, and what is behind them.
fn quoted(text: &str) -> Result<(String, &str), &'static str> {
    let (mut inside, mut letters) = (String::new(), text.char_indices().skip(1));
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => {
                let behind = &text[at + 1..];
                let is_whole = behind.is_empty() || behind.starts_with(char::is_whitespace);
                return if is_whole {
                    Ok((inside, behind))
                } else {
                    Err("goes on after its closing quote; put a space there")
                };
            }
            '\\' => inside.extend(letters.next().map(|(_, letter)| letter)),
            letter => inside.push(letter),
        }
    }
    Err("has a quote that is not closed")
}

fn said(key: &str, value: String) -> Result<Option<String>, String> {
    match value.as_str() {
        "" => Err(format!("nothing stands behind {key}:")),
        _ => Ok(Some(value)),
    }
}

fn set(filter: &mut Filter, key: &str, value: String) -> Result<(), String> {
    let field = match key {
        "status" => &mut filter.status,
        "queue" => &mut filter.queue,
        "stage" => &mut filter.stage,
        "kind" => &mut filter.kind,
        "tenant" | "user_id" => &mut filter.tenant,
        "collection" => &mut filter.collection,
        "branch" => &mut filter.branch,
        "source_type" => &mut filter.source_type,
        _ => return Err(unknown(key)),
    };
    let value = said(key, value)?;
    match field {
        // An item has one status, so that several mean any of them.
        Some(before) if key == "status" => {
            before.push(',');
            before.push_str(value.as_deref().unwrap_or_default());
        }
        Some(_) => return Err(format!("{key}: is there twice")),
        None => *field = value,
    }
    Ok(())
}

fn unknown(key: &str) -> String {
    if matches!(key, "key" | "id" | "error" | "source_info") {
        let what = "keys, ids, errors and source_info are looked for by plain words";
        return format!("{what}: leave {key}: out");
    }
    let names = || KEYS.iter().map(|(name, _)| *name);
    let near = nearest(key, names()).map(|near| format!("; {near}: is meant, perhaps"));
    let all = names().collect::<Vec<_>>().join(", ");
    format!(
        "what stands before its colon is not known{}; there are {all}; a text with a colon stands \
         in quotes",
        near.unwrap_or_default()
    )
}

/// Writes a filter down so that it is read as the same. What is empty is as if it was not given.
pub fn written(filter: &Filter) -> String {
    let Filter { status, queue, stage, kind, tenant, collection, branch, source_type, q } = filter;
    let fields = [
        ("status", status),
        ("queue", queue),
        ("stage", stage),
        ("kind", kind),
        ("tenant", tenant),
        ("collection", collection),
        ("branch", branch),
        ("source_type", source_type),
    ];
    let there = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
    let fields = fields.into_iter().filter_map(|(key, value)| Some((key, there(value)?)));
    let mut words: Vec<String> =
        fields.map(|(key, value)| format!("{key}:{}", in_quotes(&value))).collect();
    words.extend(there(q).map(|text| in_quotes(&text)));
    words.join(" ")
}

/// A value or a text, in quotes unless it is one plain word.
fn in_quotes(text: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_.,/@".contains(letter);
    if text.chars().all(is_plain) {
        return text.to_owned();
    }
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

/// A filter as a body has it: a text as above, or its fields.
#[derive(Clone, PartialEq, Eq, JsonSchema, Debug)]
#[serde(untagged)]
pub enum Said {
    Text(String),
    Fields(Filter),
}

impl Said {
    pub fn read(self) -> Result<Filter, Wrong> {
        match self {
            Said::Text(text) => parse(&text),
            Said::Fields(filter) => Ok(filter),
        }
    }
}

struct Reading;

impl<'de> Visitor<'de> for Reading {
    type Value = Said;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object in braces, or a text such as \"status:failed queue:thumbs\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Said, E> {
        Ok(Said::Text(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Said, A::Error> {
        Filter::deserialize(MapAccessDeserializer::new(map)).map(Said::Fields)
    }
}

impl<'de> Deserialize<'de> for Said {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Said, D::Error> {
        from.deserialize_any(Reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, json: &str) {
        let expected: Filter = serde_json::from_str(json).expect("a filter");
        assert_eq!(parse(text), Ok(expected), "{text}");
    }

    #[test]
    fn words_with_a_colon_are_fields_and_all_others_are_looked_for() {
        check("", "{}");
        check("status:failed", r#"{"status": "failed"}"#);
        check(
            "  STATUS:failed,cancelled  queue:thumbs ",
            r#"{"status": "failed,cancelled", "queue": "thumbs"}"#,
        );
        check("status:failed status:skipped", r#"{"status": "failed,skipped"}"#);
        check("queue:thumbs no space", r#"{"queue": "thumbs", "q": "no space"}"#);
        check(
            "user_id:7 kind:page stage:ocr",
            r#"{"tenant": "7", "kind": "page", "stage": "ocr"}"#,
        );
        check("queue:a:b", r#"{"queue": "a:b"}"#);
    }

    #[test]
    fn quotes_hold_spaces_and_colons() {
        check(r#"queue:"my queue" x"#, r#"{"queue": "my queue", "q": "x"}"#);
        check(r#""http://x" y"#, r#"{"q": "http://x y"}"#);
        check(r#"q:"a \"b\" \\c""#, r#"{"q": "a \"b\" \\c"}"#);
        check("tenant:日本 é", r#"{"tenant": "日本", "q": "é"}"#);
    }

    #[test]
    fn what_is_written_down_is_read_as_the_same() {
        let texts =
            ["a", "my queue", "a:b", "\"", "\\", "\\\"", " a  b ", "q:x", "é/ü", "a\nb", "\"a\" b"];
        for text in texts {
            let some = || Some(text.to_owned());
            let filter = Filter {
                status: Some("failed,skipped".to_owned()),
                queue: some(),
                stage: some(),
                kind: some(),
                tenant: some(),
                collection: some(),
                branch: some(),
                source_type: some(),
                q: some(),
            };
            let said = written(&filter);
            assert_eq!(parse(&said), Ok(filter), "{said}");
        }
        let thumbs = parse("no space  queue:thumbs").expect("a filter");
        assert_eq!(written(&thumbs), r#"queue:thumbs "no space""#);
        assert_eq!(written(&Filter { queue: Some(String::new()), ..Filter::default() }), "");
    }

    #[test]
    fn what_is_not_understood_is_named_by_its_place_and_never_repeated() {
        for (text, at, why) in [
            ("status:failed quuee:secret", 2, "queue: is meant, perhaps"),
            ("http://secret", 1, "stands in quotes"),
            ("queue:", 1, "nothing stands behind queue:"),
            ("queue:a queue:secret", 2, "queue: is there twice"),
            ("a \"secret", 2, "not closed"),
            ("queue:\"secret\"b", 1, "goes on after its closing quote"),
            ("key:secret", 1, "looked for by plain words: leave key: out"),
            ("id:secret", 1, "leave id: out"),
        ] {
            let wrong = parse(text).expect_err(text);
            assert!(wrong.at == at && wrong.why.contains(why), "{text}: {wrong:?}");
            assert!(!wrong.to_string().contains("secret"), "{wrong}");
        }
    }

    #[test]
    fn a_body_has_either_form() {
        let read = |json: &str| serde_json::from_str::<Said>(json).map(Said::read);
        let thumbs = Filter { queue: Some("thumbs".into()), ..Filter::default() };
        assert_eq!(read(r#""queue:thumbs""#).ok(), Some(Ok(thumbs.clone())));
        assert_eq!(read(r#"{"queue": "thumbs"}"#).ok(), Some(Ok(thumbs)));
        assert!(read("7").is_err() && read("[]").is_err() && read(r#"{"colour": 1}"#).is_err());
    }
}
