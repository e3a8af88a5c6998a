//! Texts in answers: borrowed where they can be, and names that come again and again kept once.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use windrow_core::route::Route;

/// A text that is copied only if it has escapes in it.
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Text<'a>, D::Error> {
        struct Reading;

        impl<'de> Visitor<'de> for Reading {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        from.deserialize_str(Reading)
    }
}

/// A text that says something else, such as an id.
pub(super) struct Parsed<T>(pub(super) T);

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Parsed<T>, D::Error> {
        struct Reading<T>(PhantomData<T>);

        impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Reading<T> {
            type Value = Parsed<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an id")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Parsed<T>, E> {
                text.parse().map(Parsed).map_err(E::custom)
            }
        }

        from.deserialize_str(Reading(PhantomData))
    }
}

/// JSON that is there, `null` included.
pub(super) fn present<'de: 'a, 'a, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    <&'de RawValue>::deserialize(from).map(Some)
}

/// The bytes in one of two fields; none if they are in neither.
pub(super) fn bytes(
    json: Option<&RawValue>,
    base64: Option<&Text<'_>>,
) -> serde_json::Result<Option<Vec<u8>>> {
    match (json, base64) {
        (Some(json), _) => Ok(Some(json.get().as_bytes().to_vec())),
        (None, Some(text)) => {
            STANDARD.decode(&*text.0).map(Some).map_err(serde_json::Error::custom)
        }
        (None, None) => Ok(None),
    }
}

/// A word of ours by its name.
pub(super) fn named<T>(
    what: &str,
    word: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> serde_json::Result<T> {
    let unknown = || serde_json::Error::custom(format!("{word:?} is no {what} that is known here"));
    parse(word).ok_or_else(unknown)
}

/// Names and routes that were read lately: a batch of items has few.
#[derive(Default)]
pub(super) struct Names {
    names: Vec<Arc<str>>,
    route: Option<Arc<Route>>,
}

/// Names that are kept at hand; looking at more takes longer than making one.
const NAMES_KEPT: usize = 12;

impl Names {
    pub(super) fn of(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.names.iter().find(|known| ***known == *text) {
            return Arc::clone(known);
        }
        let name: Arc<str> = text.into();
        if self.names.len() < NAMES_KEPT {
            self.names.push(Arc::clone(&name));
        }
        name
    }

    pub(super) fn maybe(&mut self, text: Option<Text<'_>>) -> Option<Arc<str>> {
        text.map(|text| self.of(&text.0))
    }

    pub(super) fn route(&mut self, names: &[Text<'_>]) -> Arc<Route> {
        let known = self.route.as_ref().filter(|known| {
            let stages = known.stages.iter().map(|stage| &*stage.name);
            stages.eq(names.iter().map(|name| &*name.0))
        });
        if let Some(known) = known {
            return Arc::clone(known);
        }
        let names: Vec<&str> = names.iter().map(|name| &*name.0).collect();
        let route = Route::of(&names);
        self.route = Some(Arc::clone(&route));
        route
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_escapes_is_read_as_one_without() {
        for json in [r#""plain""#, r#""\u0070lain""#] {
            let text: Text<'_> = serde_json::from_str(json).expect("a text");
            assert_eq!(text.0, "plain");
        }
    }

    #[test]
    fn names_and_routes_are_kept_once() {
        let mut names = Names::default();
        assert!(Arc::ptr_eq(&names.of("q"), &names.of("q")));
        let stages = || ["a", "b"].map(|name| Text(Cow::Borrowed(name)));
        let route = names.route(&stages());
        assert!(Arc::ptr_eq(&route, &names.route(&stages())));
        assert!(!Arc::ptr_eq(&route, &names.route(&stages()[..1])));
    }
}
