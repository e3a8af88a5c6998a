//! Objects, and nothing else: a list is not read as the fields of one, in their order.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What is written in braces.
#[derive(Clone, PartialEq, Debug)]
pub struct Object<T>(pub T);

struct Reading<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Reading<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object in braces")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Object<T>, D::Error> {
        from.deserialize_map(Reading(PhantomData))
    }
}

impl<T: Serialize> Serialize for Object<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<T: JsonSchema> JsonSchema for Object<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::new::NewItem;

    #[test]
    fn a_list_is_not_an_object() {
        let read = |text: &str| serde_json::from_str::<Object<NewItem>>(text);
        let item = read(r#"{"payload":{"n":12345678901234567890123}}"#).expect("an object").0;
        assert_eq!(item.payload.expect("a payload").text(), r#"{"n":12345678901234567890123}"#);
        let error = read(r#"["q","k",1]"#).expect_err("a list").to_string();
        assert!(error.contains("expected an object in braces"), "{error}");
    }
}
