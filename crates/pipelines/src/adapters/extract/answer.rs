//! Answers of a model: read, and held to the rules.
//!
//! Decides what is an answer, and says of one that is none what is wrong with it, in words that
//! the model is shown. What an answer says too weakly or about nothing is for `kept.rs`.

use serde_json::{Map, Value};

use super::kept::{SCORE_MAX, WEIGHT_MAX};
use super::{Entity, Extracted, Relationship};

/// More is not said of one answer.
const COMPLAINTS_MAX: usize = 8;

/// Reads an answer, or says what is wrong with it.
pub(super) fn read(said: &str) -> Result<Extracted, Vec<String>> {
    let json = bare(said);
    let json: Value = serde_json::from_str(json)
        .map_err(|error| vec![format!("it is not one JSON object: {error}")])?;
    let Value::Object(all) = json else {
        return Err(vec!["it is not a JSON object".to_owned()]);
    };
    let mut reader = Reader::default();
    let entities = reader.list(&all, "entities", Reader::entity);
    let relationships = reader.list(&all, "relationships", Reader::relationship);
    if reader.complaints.is_empty() {
        Ok(Extracted { entities, relationships })
    } else {
        Err(reader.complaints)
    }
}

/// The answer without what models put around it that were not told by their endpoint to leave it
/// out: what they thought before, and a fence.
fn bare(said: &str) -> &str {
    let mut rest = said.trim();
    if rest.starts_with("<think>")
        && let Some((_, after)) = rest.split_once("</think>")
    {
        rest = after.trim();
    }
    let Some(inner) = rest.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else {
        return rest;
    };
    inner.strip_prefix("json").unwrap_or(inner).trim()
}

#[derive(Default)]
struct Reader {
    complaints: Vec<String>,
}

impl Reader {
    fn complain(&mut self, complaint: String) {
        if self.complaints.len() < COMPLAINTS_MAX {
            self.complaints.push(complaint);
        }
    }

    fn list<T>(
        &mut self,
        all: &Map<String, Value>,
        name: &str,
        read: fn(&mut Reader, &str, &Map<String, Value>) -> Option<T>,
    ) -> Vec<T> {
        let Some(Value::Array(list)) = all.get(name) else {
            self.complain(format!("{name} must be a list"));
            return Vec::new();
        };
        let mut found = Vec::new();
        for (nth, one) in list.iter().enumerate() {
            let place = format!("{name}[{nth}]");
            match one {
                Value::Object(one) => found.extend(read(self, &place, one)),
                _ => self.complain(format!("{place} must be an object")),
            }
        }
        found
    }

    fn entity(&mut self, place: &str, one: &Map<String, Value>) -> Option<Entity> {
        let name = self.name(place, one, "name");
        let kind = self.text(place, one, "kind");
        let description = self.text(place, one, "description");
        let score = self.number(place, one, "score", SCORE_MAX);
        Some(Entity { name: name?, kind: kind?, description: description?, score: score? })
    }

    fn relationship(&mut self, place: &str, one: &Map<String, Value>) -> Option<Relationship> {
        let source = self.name(place, one, "source");
        let target = self.name(place, one, "target");
        let description = self.text(place, one, "description");
        let keywords = self.words(place, one);
        let weight = self.number(place, one, "weight", WEIGHT_MAX);
        Some(Relationship {
            source: source?,
            target: target?,
            description: description?,
            keywords: keywords?,
            weight: weight?,
        })
    }

    fn text(&mut self, place: &str, one: &Map<String, Value>, field: &str) -> Option<String> {
        let text = one.get(field).and_then(Value::as_str);
        if text.is_none() {
            self.complain(format!("{place}.{field} must be a text"));
        }
        text.map(str::to_owned)
    }

    fn name(&mut self, place: &str, one: &Map<String, Value>, field: &str) -> Option<String> {
        let text = self.text(place, one, field)?;
        if text.trim().is_empty() {
            self.complain(format!("{place}.{field} must not be empty"));
            return None;
        }
        Some(text)
    }

    fn words(&mut self, place: &str, one: &Map<String, Value>) -> Option<Vec<String>> {
        let list = one.get("keywords").and_then(Value::as_array);
        let words = list
            .and_then(|list| list.iter().map(|word| word.as_str().map(str::to_owned)).collect());
        if words.is_none() {
            self.complain(format!("{place}.keywords must be a list of texts"));
        }
        words
    }

    /// A whole number from one. Some models write it with a point.
    fn number(
        &mut self,
        place: &str,
        one: &Map<String, Value>,
        field: &str,
        max: u8,
    ) -> Option<u8> {
        let number = one.get(field).and_then(Value::as_f64);
        let whole = number.filter(|n| n.fract() == 0.0 && (1.0..=f64::from(max)).contains(n));
        if whole.is_none() {
            self.complain(format!("{place}.{field} must be a whole number from 1 to {max}"));
        }
        whole.map(|n| n as u8)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn good() -> Value {
        json!({
            "entities": [{"name": "Ada", "kind": "person", "description": "", "score": 90}],
            "relationships": [{
                "source": "Ada", "target": "Bob", "description": "x",
                "keywords": ["knows"], "weight": 5.0,
            }],
        })
    }

    #[test]
    fn a_good_answer_is_read_however_it_is_wrapped() {
        let json = good().to_string();
        for said in [
            json.clone(),
            format!("\n```json\n{json}\n```\n"),
            format!("```\n{json}```"),
            format!("<think>Is it {{}}?\nYes.</think>\n\n{json}"),
        ] {
            let read = read(&said).expect(&said);
            assert_eq!((read.entities[0].score, read.relationships[0].weight), (90, 5), "{said}");
        }
        let nothing = read(r#"{"entities": [], "relationships": []}"#);
        assert_eq!(nothing, Ok(Extracted::default()));
    }

    #[test]
    fn every_rule_that_is_broken_is_said_with_its_place() {
        for (path, value, complaint) in [
            ("/entities", json!({}), "entities must be a list"),
            ("/relationships", json!(null), "relationships must be a list"),
            ("/entities/0", json!("Ada"), "entities[0] must be an object"),
            ("/entities/0/name", json!(" \n"), "entities[0].name must not be empty"),
            ("/entities/0/name", json!(7), "entities[0].name must be a text"),
            ("/entities/0/kind", json!(null), "entities[0].kind must be a text"),
            ("/entities/0/description", json!([]), "entities[0].description must be a text"),
            ("/entities/0/score", json!(0), "entities[0].score must be a whole number"),
            ("/entities/0/score", json!(101), "from 1 to 100"),
            ("/entities/0/score", json!(1.5), "entities[0].score must be a whole number"),
            ("/entities/0/score", json!("90"), "entities[0].score must be a whole number"),
            ("/relationships/0/source", json!(""), "relationships[0].source must not be empty"),
            ("/relationships/0/target", json!(1), "relationships[0].target must be a text"),
            ("/relationships/0/keywords", json!("x"), "keywords must be a list of texts"),
            ("/relationships/0/keywords", json!([1]), "keywords must be a list of texts"),
            ("/relationships/0/weight", json!(11), "from 1 to 10"),
        ] {
            let mut answer = good();
            *answer.pointer_mut(path).unwrap() = value;
            let complaints = read(&answer.to_string()).expect_err(path);
            assert_eq!(complaints.len(), 1, "{path}: {complaints:?}");
            assert!(complaints[0].contains(complaint), "{path}: {complaints:?}");
        }
    }

    #[test]
    fn what_is_no_answer_at_all_is_said_shortly() {
        let deep = "[".repeat(100_000);
        for said in ["", "I cannot do that.", "[]", "{\"entities\": [", "null", &deep] {
            let complaints = read(said).expect_err(said);
            assert!(complaints.len() == 1 && complaints[0].len() < 200, "{complaints:?}");
        }
        let wrong = json!({"entities": vec![json!(1); 10_000], "relationships": []});
        assert_eq!(read(&wrong.to_string()).unwrap_err().len(), COMPLAINTS_MAX);
    }
}
