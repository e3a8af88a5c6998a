//! What is kept of what an extractor found.
//!
//! Decides what a name may be, which entities are one, which are too weak, and how many a text may
//! have. What is kept fits into a catalog. Sees no model: the same rules hold for every extractor.

use std::collections::{BTreeMap, HashMap};

use super::{Entity, Extracted, Relationship};
use crate::catalog::{NAME_BYTES_MAX, REASON_BYTES_MAX, TITLE_BYTES_MAX, normalised};

/// How much of a text's entities is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Entities with a lower score are left out.
    pub score_min: u8,
    /// The strongest so many are kept.
    pub entities_max: usize,
    /// The same of relationships.
    pub relationships_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { score_min: 60, entities_max: 15, relationships_max: 40 }
    }
}

/// Scores and weights end here.
pub(super) const SCORE_MAX: u8 = 100;
pub(super) const WEIGHT_MAX: u8 = 10;

/// Of a relationship's keywords.
const KEYWORDS_MAX: usize = 8;

impl Limits {
    /// As a memo's key has them.
    pub(super) fn text(self) -> String {
        let Limits { score_min, entities_max, relationships_max } = self;
        format!("score>={score_min} entities<={entities_max} relationships<={relationships_max}")
    }

    /// What is left of what was found: the strongest, each once, and only relationships between
    /// those.
    pub fn kept(self, found: Extracted) -> Extracted {
        let entities = self.entities(found.entities);
        let names: HashMap<String, &str> =
            entities.iter().map(|entity| (normalised(&entity.name), &*entity.name)).collect();
        let relationships = self.relationships(found.relationships, &names);
        Extracted { entities, relationships }
    }

    fn entities(self, found: Vec<Entity>) -> Vec<Entity> {
        let mut strongest: BTreeMap<String, Entity> = BTreeMap::new();
        for entity in found {
            let name = clean(&entity.name, TITLE_BYTES_MAX);
            let mut kind = clean(&entity.kind, NAME_BYTES_MAX).to_lowercase();
            // Lower case may be longer than upper case.
            cut(&mut kind, NAME_BYTES_MAX);
            let (key, score) = (normalised(&name), entity.score.clamp(1, SCORE_MAX));
            if key.is_empty() || normalised(&kind).is_empty() || score < self.score_min {
                continue;
            }
            let description = clean(&entity.description, REASON_BYTES_MAX);
            let entity = Entity { name, kind, description, score };
            let is_stronger = |old: &Entity| {
                let of = |one: &Entity| (one.score, one.description.len());
                let rest = (&entity.description, &entity.name, &entity.kind);
                (of(&entity), rest) > (of(old), (&old.description, &old.name, &old.kind))
            };
            if strongest.get(&key).is_none_or(is_stronger) {
                strongest.insert(key, entity);
            }
        }
        let mut all: Vec<(String, Entity)> = strongest.into_iter().collect();
        all.sort_by(|a, b| b.1.score.cmp(&a.1.score).then_with(|| a.0.cmp(&b.0)));
        all.truncate(self.entities_max);
        all.into_iter().map(|(_, entity)| entity).collect()
    }

    fn relationships(
        self,
        found: Vec<Relationship>,
        names: &HashMap<String, &str>,
    ) -> Vec<Relationship> {
        let mut strongest: BTreeMap<(String, String, String), Relationship> = BTreeMap::new();
        for one in found {
            let ends = (normalised(&one.source), normalised(&one.target));
            let (Some(source), Some(target)) = (names.get(&ends.0), names.get(&ends.1)) else {
                continue;
            };
            if ends.0 == ends.1 {
                continue;
            }
            let mut keywords: Vec<String> = Vec::new();
            for word in &one.keywords {
                let mut word = clean(word, NAME_BYTES_MAX).to_lowercase();
                cut(&mut word, NAME_BYTES_MAX);
                if !normalised(&word).is_empty() && !keywords.contains(&word) {
                    keywords.push(word);
                }
            }
            keywords.truncate(KEYWORDS_MAX);
            let kind = keywords.first().cloned().unwrap_or_default();
            let relationship = Relationship {
                source: (*source).to_owned(),
                target: (*target).to_owned(),
                description: clean(&one.description, REASON_BYTES_MAX),
                keywords,
                weight: one.weight.clamp(1, WEIGHT_MAX),
            };
            let key = (ends.0, ends.1, kind);
            let is_stronger = |old: &Relationship| {
                let of = |one: &Relationship| (one.weight, one.description.len());
                let rest = (&relationship.description, &relationship.keywords);
                (of(&relationship), rest) > (of(old), (&old.description, &old.keywords))
            };
            if strongest.get(&key).is_none_or(is_stronger) {
                strongest.insert(key, relationship);
            }
        }
        let mut all: Vec<_> = strongest.into_iter().collect();
        all.sort_by(|a, b| b.1.weight.cmp(&a.1.weight).then_with(|| a.0.cmp(&b.0)));
        all.truncate(self.relationships_max);
        all.into_iter().map(|(_, relationship)| relationship).collect()
    }
}

/// A text on one line, without what cannot be seen, and of at most so many bytes.
pub(super) fn clean(text: &str, bytes_max: usize) -> String {
    let mut clean = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if !clean.is_empty() {
            clean.push(' ');
        }
        clean.push_str(word);
        if clean.len() > bytes_max {
            break;
        }
    }
    cut(&mut clean, bytes_max);
    clean
}

fn cut(text: &mut String, bytes_max: usize) {
    text.truncate(text.floor_char_boundary(bytes_max));
    text.truncate(text.trim_end().len());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(name: &str, score: u8) -> Entity {
        Entity { name: name.into(), kind: "Person".into(), description: String::new(), score }
    }

    fn related(source: &str, target: &str, word: &str, weight: u8) -> Relationship {
        let keywords = vec![word.to_owned()];
        let (source, target) = (source.to_owned(), target.to_owned());
        Relationship { source, target, description: String::new(), keywords, weight }
    }

    fn names(extracted: &Extracted) -> Vec<&str> {
        extracted.entities.iter().map(|entity| &*entity.name).collect()
    }

    #[test]
    fn the_strongest_are_kept_each_once_and_the_weak_ones_are_not() {
        let entities = vec![
            entity("bob", 60),
            entity("Ada  Lovelace", 80),
            entity("ADA-LOVELACE", 90),
            entity("Weak", 59),
            entity("Carl\u{0}", 255),
            entity("!?", 99),
        ];
        let kept = Limits::default().kept(Extracted { entities, ..Extracted::default() });
        assert_eq!(names(&kept), ["Carl", "ADA-LOVELACE", "bob"]);
        assert_eq!(kept.entities[0].score, 100);
        assert_eq!(kept.entities[0].kind, "person");
        let limits = Limits { score_min: 85, entities_max: 1, ..Limits::default() };
        assert_eq!(names(&limits.kept(kept)), ["Carl"]);
    }

    #[test]
    fn a_chunk_is_about_no_more_than_fifteen_things() {
        let entities = (0..40).map(|nth| entity(&format!("name {nth:02}"), 60 + nth)).collect();
        let kept = Limits::default().kept(Extracted { entities, ..Extracted::default() });
        assert_eq!(kept.entities.len(), 15);
        assert_eq!(kept.entities[14].name, "name 25");
    }

    #[test]
    fn relationships_join_what_is_kept_and_go_by_its_name() {
        let entities = vec![entity("Ada Lovelace", 90), entity("Bob", 80), entity("Weak", 10)];
        let relationships = vec![
            related("ada lovelace", "BOB", "Knows", 3),
            related("Ada Lovelace", "Bob", "knows", 99),
            related("Bob", "Ada Lovelace", "knows", 0),
            related("Bob", "Weak", "knows", 5),
            related("Bob", "bob", "is", 5),
            related("Nobody", "Bob", "knows", 5),
        ];
        let kept = Limits::default().kept(Extracted { entities, relationships });
        let all: Vec<_> = kept
            .relationships
            .iter()
            .map(|one| (&*one.source, &*one.target, &*one.keywords[0], one.weight))
            .collect();
        let expected = [("Ada Lovelace", "Bob", "knows", 10), ("Bob", "Ada Lovelace", "knows", 1)];
        assert_eq!(all, expected);
    }

    #[test]
    fn what_is_kept_fits_into_a_catalog() {
        let long = "İ".repeat(100_000);
        let mut one = entity(&long, 99);
        (one.kind, one.description) = (long.clone(), format!("a\u{0}b\n\n{long}"));
        let mut relationship = related(&long, "Bob", &long, 5);
        relationship.keywords = vec![long.clone(); 50];
        relationship.description = long;
        // An entity whose name was cut is no longer what the relationship says.
        let found = Extracted {
            entities: vec![one, entity("Bob", 90)],
            relationships: vec![relationship, related("Bob", "Bob", "x", 1)],
        };
        let kept = Limits::default().kept(found);
        assert_eq!(kept.entities.len(), 2);
        let entity = &kept.entities[0];
        assert!(entity.name.len() <= TITLE_BYTES_MAX && entity.kind.len() <= NAME_BYTES_MAX);
        assert!(entity.description.starts_with("a b İ"));
        assert!(entity.description.len() <= REASON_BYTES_MAX);
        assert!(kept.relationships.is_empty());
    }

    #[test]
    fn the_order_in_which_things_are_found_does_not_matter() {
        let entities = vec![entity("B", 70), entity("A", 70), entity("C", 71)];
        let relationships = vec![related("A", "B", "x", 4), related("B", "C", "x", 4)];
        let there = Extracted { entities, relationships };
        let mut back = there.clone();
        back.entities.reverse();
        back.relationships.reverse();
        assert_eq!(Limits::default().kept(there), Limits::default().kept(back));
    }

    #[test]
    fn nothing_more_is_left_out_of_what_was_kept() {
        let entities = vec![entity("Ada", 70), entity("Bob", 90)];
        let relationships = vec![related("Ada", "Bob", "x", 4)];
        let once = Limits::default().kept(Extracted { entities, relationships });
        assert_eq!(Limits::default().kept(once.clone()), once);
        assert_eq!(once.relationships.len(), 1);
    }
}
