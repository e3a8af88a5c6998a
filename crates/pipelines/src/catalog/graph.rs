//! The graph: entities, where they are mentioned, and what relates them.
//!
//! Decides when two names are one entity: when kind and normalised name are the same within a
//! collection. An entity's id follows from that, so that two writers make the same one. What is
//! said about an entity belongs to the chunk that says it, and goes with that chunk; an entity of
//! which nothing is said any more goes too.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use sha2::{Digest as _, Sha256};

use super::bounds::{
    GRAPH_MAX, NAME_BYTES_MAX, REASON_BYTES_MAX, TITLE_BYTES_MAX, count, name, text,
};
use super::chunk::{ChunkId, half};
use super::document::Scope;
use super::error::CatalogError;

/// An entity of a collection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(pub [u8; 16]);

impl EntityId {
    /// The id of the entity that a name stands for.
    pub fn of(scope: &Scope, called: &Called) -> EntityId {
        let (kind, name) = called.normalised();
        EntityId::normal(scope, &kind, &name)
    }

    /// The same, of what is normalised already.
    fn normal(scope: &Scope, kind: &str, name: &str) -> EntityId {
        let mut sum = Sha256::new();
        for part in [&*scope.tenant, &*scope.collection, kind, name] {
            sum.update((part.len() as u64).to_be_bytes());
            sum.update(part.as_bytes());
        }
        EntityId(half(&sum.finalize()))
    }

    /// An id as it is shown; None if it is none.
    pub fn read(text: &str) -> Option<EntityId> {
        let mut bytes = [0; 16];
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(EntityId(bytes))
    }
}

impl fmt::Display for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// What a text calls something.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Called {
    /// `person`, `organisation`, `place` and the like.
    pub kind: String,
    pub name: String,
}

impl Called {
    /// Something of this kind and name.
    pub fn new(kind: impl Into<String>, name: impl Into<String>) -> Called {
        Called { kind: kind.into(), name: name.into() }
    }

    /// Its kind and name, normalised.
    fn normalised(&self) -> (String, String) {
        (normalised(&self.kind), normalised(&self.name))
    }

    fn check(&self) -> Result<(), CatalogError> {
        name("the kind of an entity", &self.kind, NAME_BYTES_MAX)?;
        name("the name of an entity", &self.name, TITLE_BYTES_MAX)?;
        if normalised(&self.name).is_empty() || normalised(&self.kind).is_empty() {
            let why = format!("`{}` has no letter or digit in its kind or name", self.name);
            return Err(CatalogError::Bad { why });
        }
        Ok(())
    }
}

/// A name in lower case, with one space where there is anything but letters and digits.
pub fn normalised(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// An entity that a chunk mentions.
#[derive(Clone, PartialEq, Debug)]
pub struct NewEntity {
    pub called: Called,
    pub description: String,
    /// How much the chunk is about it, as the extractor has it.
    pub score: f64,
}

/// A relationship that a chunk states, between entities that it mentions.
#[derive(Clone, PartialEq, Debug)]
pub struct NewRelationship {
    pub source: Called,
    pub target: Called,
    /// What relates them, in a word or a few.
    pub kind: String,
    pub description: String,
    pub weight: f64,
}

/// What a chunk says.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct NewGraph {
    pub entities: Vec<NewEntity>,
    pub relationships: Vec<NewRelationship>,
}

/// An entity as one chunk has it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Thing {
    /// Normalised, and the name as well: together they say which entity it is.
    pub(super) kind: String,
    pub(super) normalised: String,
    /// As it is written.
    pub(super) name: String,
    pub(super) description: String,
    pub(super) score: f64,
}

/// A relationship as one chunk has it. Its ends are two of the things, by their places.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Related {
    pub(super) source: usize,
    pub(super) target: usize,
    pub(super) kind: String,
    pub(super) description: String,
    pub(super) weight: f64,
}

/// What a chunk says, once each, before it is known in which collection.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct Distinct {
    things: Vec<Thing>,
    relationships: Vec<Related>,
}

/// What a chunk says, by ids: mentions by entity, and relationships by source, target and kind.
/// Their ends are places of mentions.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct GraphRows<'a> {
    pub(super) mentions: Vec<(EntityId, &'a Thing)>,
    pub(super) relationships: Vec<(usize, usize, &'a Related)>,
}

impl Distinct {
    /// What goes into the tables of a collection.
    pub(super) fn rows(&self, scope: &Scope) -> GraphRows<'_> {
        let id = |thing: &Thing| EntityId::normal(scope, &thing.kind, &thing.normalised);
        let mut mentions: Vec<(EntityId, usize)> =
            self.things.iter().enumerate().map(|(at, thing)| (id(thing), at)).collect();
        mentions.sort_unstable();
        let mut places = vec![0; mentions.len()];
        for (place, (_, at)) in mentions.iter().enumerate() {
            places[*at] = place;
        }
        let mut relationships: Vec<(usize, usize, &Related)> = self
            .relationships
            .iter()
            .map(|row| (places[row.source], places[row.target], row))
            .collect();
        relationships.sort_by(|a, b| (a.0, a.1, &a.2.kind).cmp(&(b.0, b.1, &b.2.kind)));
        let mentions = mentions.into_iter().map(|(id, at)| (id, &self.things[at])).collect();
        GraphRows { mentions, relationships }
    }
}

impl NewGraph {
    pub(super) fn check(&self) -> Result<(), CatalogError> {
        count("entities of a chunk", self.entities.len(), GRAPH_MAX)?;
        count("relationships of a chunk", self.relationships.len(), GRAPH_MAX)?;
        let mut mentioned = HashSet::new();
        for entity in &self.entities {
            entity.called.check()?;
            text("a description", &entity.description, REASON_BYTES_MAX)?;
            finite("a score", entity.score)?;
            mentioned.insert(entity.called.normalised());
        }
        for relationship in &self.relationships {
            name("the kind of a relationship", &relationship.kind, NAME_BYTES_MAX)?;
            text("a description", &relationship.description, REASON_BYTES_MAX)?;
            finite("a weight", relationship.weight)?;
            for end in [&relationship.source, &relationship.target] {
                if !mentioned.contains(&end.normalised()) {
                    let why =
                        format!("a relationship names `{}`, which is not mentioned", end.name);
                    return Err(CatalogError::Bad { why });
                }
            }
        }
        Ok(())
    }

    /// Everything once. Of what is said twice the stronger stays.
    pub(super) fn distinct(&self) -> Distinct {
        let mut all = Distinct::default();
        let mut places: HashMap<(String, String), usize> = HashMap::new();
        // Relationships call most of their ends as the entities are called.
        let mut called_so: HashMap<&Called, usize> = HashMap::new();
        for NewEntity { called, description, score } in &self.entities {
            let (kind, normalised) = called.normalised();
            let (name, description) = (called.name.clone(), description.clone());
            let key = (kind.clone(), normalised.clone());
            let thing = Thing { kind, normalised, name, description, score: *score };
            let place = *places.entry(key).or_insert(all.things.len());
            called_so.insert(called, place);
            match all.things.get_mut(place) {
                None => all.things.push(thing),
                Some(old) => {
                    let is_stronger = (thing.score, &old.name, &old.description)
                        > (old.score, &thing.name, &thing.description);
                    if is_stronger {
                        *old = thing;
                    }
                }
            }
        }
        let place = |called: &Called| match called_so.get(called) {
            Some(place) => Some(*place),
            None => places.get(&called.normalised()).copied(),
        };
        let mut known: HashMap<(usize, usize, &str), usize> = HashMap::new();
        for new in &self.relationships {
            // Both are there: `check` has looked.
            let ends = (place(&new.source), place(&new.target));
            let (Some(source), Some(target)) = ends else { continue };
            let NewRelationship { kind, description, weight, .. } = new;
            let row = Related {
                source,
                target,
                kind: kind.clone(),
                description: description.clone(),
                weight: *weight,
            };
            let at = *known.entry((source, target, kind)).or_insert(all.relationships.len());
            match all.relationships.get_mut(at) {
                None => all.relationships.push(row),
                Some(old) => {
                    if (row.weight, &old.description) > (old.weight, &row.description) {
                        *old = row;
                    }
                }
            }
        }
        all
    }
}

fn finite(what: &str, number: f64) -> Result<(), CatalogError> {
    if number.is_finite() { Ok(()) } else { Err(CatalogError::bad(format!("{what} is no number"))) }
}

/// An entity, by what live documents say of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Entity {
    pub id: EntityId,
    pub scope: Scope,
    pub kind: String,
    /// As it is written most often.
    pub name: String,
    /// What the strongest mention says.
    pub description: String,
    /// How many chunks mention it.
    pub mentions: u32,
}

/// An entity beside another one.
#[derive(Clone, PartialEq, Debug)]
pub struct Neighbour {
    pub entity: Entity,
    /// What relates them, the strongest first.
    pub by: Vec<Relation>,
    /// All weights together.
    pub weight: f64,
}

/// What relates two entities, by what live documents say.
#[derive(Clone, PartialEq, Debug)]
pub struct Relation {
    pub kind: String,
    /// Whether it goes from the entity that was asked about to the neighbour.
    pub is_outgoing: bool,
    pub description: String,
    pub weight: f64,
    /// How many chunks say so.
    pub chunks: u32,
}

/// An entity that a chunk mentions, as the chunk has it.
#[derive(Clone, PartialEq, Debug)]
pub struct Mention {
    pub chunk: ChunkId,
    pub entity: EntityId,
    pub kind: String,
    pub name: String,
    pub description: String,
    pub score: f64,
}

/// Puts relations of many neighbours together: the neighbours with the greatest weight first.
pub(super) fn gathered(
    found: Vec<(EntityId, Relation)>,
    limit: usize,
) -> Vec<(EntityId, Vec<Relation>)> {
    let mut all: BTreeMap<EntityId, Vec<Relation>> = BTreeMap::new();
    for (entity, relation) in found {
        all.entry(entity).or_default().push(relation);
    }
    let mut all: Vec<_> = all.into_iter().collect();
    for (_, relations) in &mut all {
        relations.sort_by(|a, b| {
            let by_name = || (&a.kind, b.is_outgoing).cmp(&(&b.kind, a.is_outgoing));
            b.weight.total_cmp(&a.weight).then_with(by_name)
        });
    }
    all.sort_by(|a, b| weight(&b.1).total_cmp(&weight(&a.1)).then_with(|| a.0.cmp(&b.0)));
    all.truncate(limit);
    all
}

pub(super) fn weight(relations: &[Relation]) -> f64 {
    relations.iter().map(|relation| relation.weight).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(name: &str, score: f64) -> NewEntity {
        NewEntity { called: Called::new("Person", name), description: name.into(), score }
    }

    #[test]
    fn names_that_differ_in_case_and_punctuation_are_one_entity() {
        let check = |name: &str, want: &str| assert_eq!(normalised(name), want);
        check("  Ada   Lovelace ", "ada lovelace");
        check("ACME, Inc.", "acme inc");
        check("Ünal-Çelik", "ünal çelik");
        check("!?", "");
    }

    #[test]
    fn an_id_is_read_as_it_is_shown() {
        let id = EntityId::of(&Scope::new("t", "c"), &Called::new("person", "ada"));
        assert_eq!(EntityId::read(&id.to_string()), Some(id));
        for wrong in ["", "ab", &"x".repeat(32), &"ä".repeat(16), &format!("{id}00")] {
            assert_eq!(EntityId::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn of_what_a_chunk_says_twice_the_stronger_stays_in_whatever_order() {
        let scope = Scope::new("t", "c");
        let relationship = |weight: f64| NewRelationship {
            source: Called::new("person", "ada"),
            target: Called::new("person", "bob"),
            kind: "knows".into(),
            description: weight.to_string(),
            weight,
        };
        let there = NewGraph {
            entities: vec![
                entity("Ada", 1.0),
                entity("ADA", 1.0),
                entity("ada", 0.5),
                entity("Bob", 1.0),
            ],
            relationships: vec![relationship(1.0), relationship(2.0)],
        };
        let mut back = there.clone();
        back.entities.reverse();
        back.relationships.reverse();
        let (there, back) = (there.distinct(), back.distinct());
        let rows = there.rows(&scope);
        let said = |rows: &GraphRows<'_>| {
            let ends = |(source, target, row): &(usize, usize, &Related)| {
                (*source, *target, row.kind.clone(), row.weight)
            };
            let relationships: Vec<_> = rows.relationships.iter().map(ends).collect();
            (
                rows.mentions.iter().map(|(id, thing)| (*id, (*thing).clone())).collect::<Vec<_>>(),
                relationships,
            )
        };
        assert_eq!(said(&rows), said(&back.rows(&scope)));
        let names: Vec<&str> = rows.mentions.iter().map(|(_, row)| row.name.as_str()).collect();
        assert_eq!(rows.mentions.len(), 2, "{names:?}");
        assert!(names.contains(&"ADA"), "{names:?}");
        let [(source, target, knows)] = &rows.relationships[..] else { panic!("{rows:?}") };
        assert_eq!((names[*source], names[*target], knows.weight), ("ADA", "Bob", 2.0));
    }

    #[test]
    fn a_relationship_joins_only_what_is_mentioned() {
        let relationship = NewRelationship {
            source: Called::new("person", "Ada"),
            target: Called::new("person", "Nobody"),
            kind: "knows".into(),
            description: String::new(),
            weight: 1.0,
        };
        let graph =
            NewGraph { entities: vec![entity("ada", 1.0)], relationships: vec![relationship] };
        let why = graph.check().unwrap_err().to_string();
        assert!(why.contains("`Nobody`, which is not mentioned"), "{why}");
        let nameless = NewGraph { entities: vec![entity("--", 1.0)], relationships: Vec::new() };
        assert!(nameless.check().is_err());
        let odd = NewGraph { entities: vec![entity("a", f64::NAN)], relationships: Vec::new() };
        assert!(odd.check().is_err());
    }
}
