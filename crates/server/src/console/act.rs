//! What is pressed: an operation of the API, with its body.
//!
//! A form names the operation and where to go afterwards. It is asked of the API as whoever pressed
//! the button, so that role, tenant and audit are those of the API. A page of another site cannot
//! send such a form: see `http/gate.rs`.

use std::borrow::Cow;

use axum::body::Bytes;
use axum::http::Method;
use axum::response::{IntoResponse as _, Response};
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::page::{say, see_other};
use super::view::{View, decoded};
use super::way::{Way, way};
use crate::ask::Ask;
use crate::http::Failed;

/// Parts of a field's place, of which each is an object in the one before.
const DEPTH_MAX: usize = 4;

/// An operation of the API that can be pressed.
#[derive(Clone, Debug)]
pub(super) struct Act {
    /// As the button says it.
    name: &'static str,
    method: Method,
    /// Below the API's root, with what stands behind its question mark.
    way: Way,
    body: Option<Value>,
    /// What is typed in by whoever presses it.
    fields: Vec<Field>,
    /// What is said before it is done; nothing for what can be undone.
    asks: Option<String>,
    /// Said afterwards.
    done: Cow<'static, str>,
    /// Where to go afterwards, if not back.
    then: Option<String>,
    is_strong: bool,
}

/// Something to type in.
#[derive(Clone, Debug)]
struct Field {
    /// Where it goes in the body: `retention.max_per_tenant`.
    at: &'static str,
    label: &'static str,
    kind: Kind,
    value: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Text,
    /// A number; nothing is null.
    Number,
}

impl Act {
    pub(super) fn new(name: &'static str, method: Method, path: &[&str]) -> Act {
        let (way, body, fields, asks, then) = (way(path), None, Vec::new(), None, None);
        let done = "Done.".into();
        Act { name, method, way, body, fields, asks, done, then, is_strong: false }
    }

    pub(super) fn post(name: &'static str, path: &[&str]) -> Act {
        Act::new(name, Method::POST, path)
    }

    pub(super) fn delete(name: &'static str, path: &[&str]) -> Act {
        Act::new(name, Method::DELETE, path)
    }

    /// With a parameter.
    pub(super) fn asking(self, name: &str, value: &str) -> Act {
        Act { way: self.way.with(name, value), ..self }
    }

    pub(super) fn with(self, body: Value) -> Act {
        Act { body: Some(body), ..self }
    }

    /// With something to type in, which goes into the body.
    pub(super) fn field(
        mut self,
        (at, label): (&'static str, &'static str),
        kind: Kind,
        value: impl Into<String>,
    ) -> Act {
        self.fields.push(Field { at, label, kind, value: value.into() });
        self
    }

    /// Asks first.
    pub(super) fn asks(self, question: impl Into<String>) -> Act {
        Act { asks: Some(question.into()), ..self }
    }

    /// Says afterwards what became of what, since other rows of the page have the same button.
    pub(super) fn says(self, done: impl Into<Cow<'static, str>>) -> Act {
        Act { done: done.into(), ..self }
    }

    pub(super) fn then(self, way: impl std::fmt::Display) -> Act {
        Act { then: Some(way.to_string()), ..self }
    }

    /// The one that is most likely wanted.
    pub(super) fn strong(self) -> Act {
        Act { is_strong: true, ..self }
    }

    /// The same by hand, for whoever wants to do it in a script.
    pub(super) fn as_curl(&self, view: &View) -> String {
        let mut body = self.body.clone();
        for field in &self.fields {
            // What a number is not, the API says.
            let value = match (field.kind, field.value.parse::<u64>()) {
                (Kind::Number, Ok(number)) => json!(number),
                _ => json!(field.value),
            };
            put(body.get_or_insert_with(|| json!({})), field.at, value);
        }
        let body = body.map(|body| format!(" -d '{}'", quoted(&body.to_string())));
        let kind = if body.is_some() { " -H 'content-type: application/json'" } else { "" };
        let (method, way, body) = (&self.method, &self.way, body.unwrap_or_default());
        format!("curl -X {method} '{}/api/v1/{way}'{kind}{body}", view.address())
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// The button, and what must be typed in for it.
    pub(super) fn button(&self, view: &View) -> Markup {
        let with = self.body.as_ref().map(Value::to_string);
        html! {
            // A live page never makes one button of another, which somebody is about to press.
            form.act method="post" action=(view.to("act")) data-asks=[&self.asks]
                data-key={ (self.name) " " (self.method) " /" (self.way) } {
                (back(view))
                input type="hidden" name="do" value={ (self.method) " /" (self.way) };
                @if let Some(with) = with { input type="hidden" name="with" value=(with); }
                @if let Some(then) = &self.then { input type="hidden" name="then" value=(then); }
                input type="hidden" name="says" value=(self.done);
                @for field in &self.fields {
                    label {
                        span { (field.label) }
                        input name={ (field.kind.mark()) (field.at) } value=(field.value)
                            type=(field.kind.input());
                    }
                }
                @if let Some(question) = &self.asks {
                    label.sure data-hides {
                        input type="checkbox" required;
                        span { (question) }
                    }
                }
                button.strong[self.is_strong] type="submit" { (self.name) }
            }
        }
    }
}

impl Kind {
    /// What stands before a field's place, so that its value is read as what it is.
    fn mark(self) -> &'static str {
        match self {
            Kind::Text => "text.",
            Kind::Number => "number.",
        }
    }

    fn input(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Number => "number",
        }
    }
}

/// What a shell leaves as it is between single quotes.
pub(super) fn quoted(text: &str) -> String {
    text.replace('\'', "'\\''")
}

/// Says in a form where it was.
pub(super) fn back(view: &View) -> Markup {
    html! { input type="hidden" name="back" value=(view.here()); }
}

/// What a form sent, in its order.
#[derive(Debug)]
pub(super) struct Sent(Vec<(String, String)>);

impl Sent {
    pub(super) fn read(body: &[u8]) -> Sent {
        let text = String::from_utf8_lossy(body);
        let read = |text: &str| decoded(&text.replace('+', " "));
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Sent(pairs.map(|(name, value)| (read(name), read(value))).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(called, _)| called == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(called, _)| called == name).map(|(_, value)| value.as_str())
    }

    /// A whole number; none if nothing was typed in.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Failed> {
        let wrong = |_| Failed::malformed(format!("{name} must be a whole number"));
        let said = self.get(name).map(str::trim).filter(|said| !said.is_empty());
        said.map(|digits| digits.parse().map_err(wrong)).transpose()
    }

    /// Leads back to where it was sent, if it says so, and says there what became of it.
    pub(super) fn back(
        &self,
        view: &View,
        otherwise: &str,
        became: Result<String, Failed>,
    ) -> Response {
        let said = became.unwrap_or_else(|failed| format!("Not done: {}", failed.detail()));
        saying(view, self.page("back").unwrap_or(otherwise), &said)
    }

    /// A page to go to: one of ours, from the root on.
    pub(super) fn page(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|way| is_ours(way))
    }
}

/// Whether a way leads to a page of this console: it cannot begin with another site.
fn is_ours(way: &str) -> bool {
    let first = way.split(['/', '?', '#']).next().unwrap_or_default();
    let is_plain = way.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    is_plain && !way.starts_with('/') && !first.contains(':') && first != ".."
}

/// Does what was pressed, and says on the next page what became of it.
pub(super) async fn act(view: View, body: Bytes) -> Response {
    let sent = Sent::read(&body);
    let came_from = sent.page("back").unwrap_or_default();
    let (said, to) = match ask(&sent) {
        Ok(ask) => match view.ask(ask).await {
            Ok(_) => {
                let said = sent.get("says").unwrap_or("Done.").to_owned();
                (said, sent.page("then").unwrap_or(came_from))
            }
            Err(failed) => (format!("Not done: {}", failed.detail()), came_from),
        },
        Err(why) => (format!("Not done: {why}"), came_from),
    };
    saying(&view, to, &said)
}

/// Leads to a page, which says once what became of what was pressed.
fn saying(view: &View, to: &str, said: &str) -> Response {
    let mut response = see_other(&view.to(to)).into_response();
    say(response.headers_mut(), said);
    response
}

/// What a form asks of the API.
fn ask(sent: &Sent) -> Result<Ask, String> {
    let asked = sent.get("do").ok_or("the form names nothing to do")?;
    let (method, path) = asked.split_once(" /").ok_or("the form names no operation")?;
    let method = Method::from_bytes(method.as_bytes()).map_err(|error| error.to_string())?;
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let parts: Vec<String> = path.split('/').map(decoded).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let ask = pairs.fold(Ask::new(method, &parts), |ask, (name, value)| {
        ask.with(&decoded(name), Some(decoded(value)))
    });
    let with = sent.get("with").map(serde_json::from_str::<Map<String, Value>>).transpose();
    let mut body = with.map_err(|error| error.to_string())?.map(Value::Object);
    for (name, value) in &sent.0 {
        let (kind, at) = match name.split_once('.') {
            Some(("text", at)) => (Kind::Text, at),
            Some(("number", at)) => (Kind::Number, at),
            _ => continue,
        };
        if at.split('.').count() > DEPTH_MAX {
            return Err(format!("a field has at most {DEPTH_MAX} parts"));
        }
        let value = match (kind, value.trim()) {
            (Kind::Number, "") => Value::Null,
            (Kind::Number, digits) => {
                let number: u64 = digits.parse().map_err(|_| format!("{at} must be a number"))?;
                json!(number)
            }
            (Kind::Text, _) => json!(value),
        };
        put(body.get_or_insert_with(|| json!({})), at, value);
    }
    match body {
        None => Ok(ask),
        Some(body) => ask.json(&body).map_err(|error| error.to_string()),
    }
}

/// Puts a value where it belongs in an object: `retention.max_per_tenant`.
fn put(body: &mut Value, at: &str, value: Value) {
    match at.split_once('.') {
        None => body[at] = value,
        Some((first, rest)) => {
            if !body[first].is_object() {
                body[first] = json!({});
            }
            put(&mut body[first], rest, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_leads_to_our_pages_only() {
        for way in ["", "queue", "queue?filter=status%3Afailed", "documents/1/pages/2", "?q=1"] {
            assert!(is_ours(way), "{way}");
        }
        for way in
            ["//evil.example", "/queue", "https://evil.example", "javascript:alert(1)", "a b"]
        {
            assert!(!is_ours(way), "{way}");
        }
        assert!(!is_ours("..//evil.example") && !is_ours("\\\\evil.example"));
    }

    /// Pages said of no queue by name that it hands out nothing, where every row has that button.
    #[test]
    fn no_sentence_of_a_page_speaks_of_it() {
        let console = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console");
        let mut places = vec![console];
        while let Some(place) = places.pop() {
            for entry in std::fs::read_dir(place).expect("it is there") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    places.push(path);
                } else if path.extension().is_some_and(|ending| ending == "rs") {
                    let text = std::fs::read_to_string(&path).expect("it is read");
                    for begins in ["It", "Its"] {
                        let said = format!("\"{begins} ");
                        assert!(!text.contains(&said), "{}: name what it is", path.display());
                    }
                }
            }
        }
    }

    #[test]
    fn fields_go_where_they_belong() {
        let mut body = json!({ "retention": { "max_age_ms": 1 } });
        put(&mut body, "retention.max_per_tenant", json!(5));
        put(&mut body, "limits.rate", json!(null));
        let wanted = json!({
            "retention": { "max_age_ms": 1, "max_per_tenant": 5 }, "limits": { "rate": null }
        });
        assert_eq!(body, wanted);
    }

    #[test]
    fn a_forged_form_is_refused() {
        let deep = format!("do=POST+/x&text.{}a=1", "a.".repeat(1_000_000));
        for (form, want) in [
            (&*deep, "at most 4 parts"),
            ("do=POST+/x&with=[]&text.a=1", "expected a map"),
            ("do=POST+/x&with=%22a%22&text.a=1", "expected a map"),
            ("do=POST+/x&number.a=1e3", "must be a number"),
            ("do=POST", "no operation"),
            ("text.a=1", "nothing to do"),
        ] {
            let why = ask(&Sent::read(form.as_bytes())).unwrap_err();
            assert!(why.contains(want), "{why}");
        }
        assert!(ask(&Sent::read(b"do=POST+/x&with=%7B%7D&text.a.b=1")).is_ok());
    }

    #[test]
    fn a_form_is_read_as_it_was_filled_in() {
        let sent = Sent::read(b"a=1+2&b=%26%3D&a=3&c");
        assert_eq!(sent.all("a").collect::<Vec<_>>(), ["1 2", "3"]);
        assert_eq!((sent.get("b"), sent.get("c"), sent.get("d")), (Some("&="), Some(""), None));
    }
}
