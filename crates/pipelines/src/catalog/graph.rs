//! The graph: entities, where they are mentioned, and what relates them.
//!
//! Decides when two names are one entity: when kind and normalised name are the same within a
//! collection. An entity's id follows from that, so that two writers make the same one. What is
//! said about an entity belongs to the chunk that says it, and goes with that chunk; an entity of
//! which nothing is said any more goes too.

use std::collections::{BTreeMap, HashMap};
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
        let mut sum = Sha256::new();
        let name = normalised(&called.name);
        for part in [&scope.tenant, &scope.collection, &normalised(&called.kind), &name] {
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

/// A mention as a row has it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct MentionRow {
    pub(super) entity: EntityId,
    pub(super) kind: String,
    pub(super) normalised: String,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) score: f64,
}

/// A relationship as a row has it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct RelationshipRow {
    pub(super) source: EntityId,
    pub(super) target: EntityId,
    pub(super) kind: String,
    pub(super) description: String,
    pub(super) weight: f64,
}

/// What a chunk says, once each and by id.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct GraphRows {
    pub(super) mentions: Vec<MentionRow>,
    pub(super) relationships: Vec<RelationshipRow>,
}

impl NewGraph {
    pub(super) fn check(&self) -> Result<(), CatalogError> {
        count("entities of a chunk", self.entities.len(), GRAPH_MAX)?;
        count("relationships of a chunk", self.relationships.len(), GRAPH_MAX)?;
        let mut mentioned = std::collections::HashSet::new();
        for entity in &self.entities {
            entity.called.check()?;
            text("a description", &entity.description, REASON_BYTES_MAX)?;
            finite("a score", entity.score)?;
            mentioned.insert((normalised(&entity.called.kind), normalised(&entity.called.name)));
        }
        for relationship in &self.relationships {
            name("the kind of a relationship", &relationship.kind, NAME_BYTES_MAX)?;
            text("a description", &relationship.description, REASON_BYTES_MAX)?;
            finite("a weight", relationship.weight)?;
            for end in [&relationship.source, &relationship.target] {
                if !mentioned.contains(&(normalised(&end.kind), normalised(&end.name))) {
                    let why =
                        format!("a relationship names `{}`, which is not mentioned", end.name);
                    return Err(CatalogError::Bad { why });
                }
            }
        }
        Ok(())
    }

    /// What goes into the tables. Of what is said twice the stronger stays.
    pub(super) fn rows(&self, scope: &Scope) -> GraphRows {
        let mut mentions: BTreeMap<EntityId, MentionRow> = BTreeMap::new();
        // Relationships call most of their ends as the entities are called, and an id takes long.
        let mut ids: HashMap<&Called, EntityId> = HashMap::new();
        for NewEntity { called, description, score } in &self.entities {
            let entity = EntityId::of(scope, called);
            ids.insert(called, entity);
            let row = MentionRow {
                entity,
                kind: normalised(&called.kind),
                normalised: normalised(&called.name),
                name: called.name.clone(),
                description: description.clone(),
                score: *score,
            };
            let is_stronger = |old: &MentionRow| {
                (row.score, &old.name, &old.description) > (old.score, &row.name, &row.description)
            };
            if mentions.get(&entity).is_none_or(is_stronger) {
                mentions.insert(entity, row);
            }
        }
        let id = |called| ids.get(called).copied().unwrap_or_else(|| EntityId::of(scope, called));
        let mut relationships: BTreeMap<_, RelationshipRow> = BTreeMap::new();
        for new in &self.relationships {
            let (source, target) = (id(&new.source), id(&new.target));
            let NewRelationship { kind, description, weight, .. } = new.clone();
            let key = (source, target, kind.clone());
            let row = RelationshipRow { source, target, kind, description, weight };
            let is_stronger = |old: &RelationshipRow| {
                (row.weight, &old.description) > (old.weight, &row.description)
            };
            if relationships.get(&key).is_none_or(is_stronger) {
                relationships.insert(key, row);
            }
        }
        GraphRows {
            mentions: mentions.into_values().collect(),
            relationships: relationships.into_values().collect(),
        }
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
        let rows = there.rows(&scope);
        assert_eq!(rows, back.rows(&scope));
        let names: Vec<&str> = rows.mentions.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(rows.mentions.len(), 2, "{names:?}");
        assert!(names.contains(&"ADA"), "{names:?}");
        assert_eq!(rows.relationships.len(), 1);
        assert_eq!(rows.relationships[0].weight, 2.0);
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
