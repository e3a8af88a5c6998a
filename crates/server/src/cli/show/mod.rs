//! What people see: tables, times and words, on standard output. Where `--json` is given, the API's
//! own JSON is printed instead, digit by digit.

mod table;
mod time;

use std::collections::HashMap;
use std::io::{self, IsTerminal as _, Write};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

pub(super) use table::{Cell, Table};
pub(crate) use time::{age, duration_ms, lease_ms, moment, now, renewed_lease_ms, span};

use super::exit::{Exit, Stop};

/// What the API says, read as far as it is shown, and as it was said.
pub(super) struct Told {
    pub(super) seen: Value,
    raw: Box<RawValue>,
}

impl Told {
    pub(super) fn of(raw: Box<RawValue>) -> Result<Told, Stop> {
        Ok(Told { seen: read(raw.get().as_bytes())?, raw })
    }

    pub(super) fn read(body: &[u8]) -> Result<Told, Stop> {
        Told::of(read(body)?)
    }

    /// A field as it was said, texts without their quotes; nothing for nothing.
    pub(super) fn verbatim(&self, name: &str) -> String {
        let fields: HashMap<String, &RawValue> =
            serde_json::from_str(self.raw.get()).unwrap_or_default();
        match (&self.seen[name], fields.get(name)) {
            (Value::String(text), _) => printable(text),
            (_, Some(raw)) if raw.get() != "null" => printable(raw.get()),
            _ => String::new(),
        }
    }

    /// All of it, as it was said.
    pub(super) fn text(&self) -> &str {
        self.raw.get()
    }

    /// The parts of a list in it.
    pub(super) fn each(&self, name: &str) -> Result<Vec<Told>, Stop> {
        let mut fields: HashMap<String, &RawValue> = read(self.raw.get().as_bytes())?;
        let Some(list) = fields.remove(name) else { return Ok(Vec::new()) };
        let parts: Vec<Box<RawValue>> = read(list.get().as_bytes())?;
        parts.into_iter().map(Told::of).collect()
    }

    /// As one line of JSON.
    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        // Bodies are sent without line breaks; a proxy may see that otherwise.
        writeln!(out, "{}", self.raw.get().replace(['\n', '\r'], ""))
    }
}

/// What stands in an answer.
pub(super) fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Stop> {
    serde_json::from_slice(body).map_err(|error| {
        Stop::new(Exit::Failed, format!("the server's answer is not understood: {error}"))
    })
}

/// The text of a field; a dash if there is none.
pub(super) fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of[field].as_str().unwrap_or("-")
}

/// A field as it stands in a cell: texts without quotes, nothing for nothing.
pub(super) fn plain(of: &Value) -> String {
    match of {
        Value::Null => String::new(),
        Value::String(text) => printable(text),
        other => other.to_string(),
    }
}

/// A text without what a terminal would do something with.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// A text that is cut where it is longer than so many letters.
pub(super) fn short(text: &str, most: usize) -> String {
    let text = printable(text);
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", text[..at].trim_end()),
        None => text,
    }
}

/// A number of things of which there is at least one.
pub(super) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("write a whole number, 1 or more".to_owned()),
        Ok(number) => Ok(number),
    }
}

/// Whether standard output may be coloured.
pub(super) fn is_coloured() -> bool {
    let said = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    io::stdout().is_terminal() && !said("NO_COLOR") && !is_dumb
}

/// Says something that is no data, in one line.
pub(super) fn say(words: &str) {
    // Whoever closed standard error does not want to know.
    let _told = writeln!(io::stderr().lock(), "windrow: {}", printable(words));
}

/// Says what an answer remarks, such as that a name may be a slip.
pub(super) fn say_note(told: &Told) {
    if let Some(note) = told.seen["note"].as_str() {
        say(note);
    }
}
