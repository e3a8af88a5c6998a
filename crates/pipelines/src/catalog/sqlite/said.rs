//! What a chunk says, as one value: its mentions by entity, and its relationships by their ends.
//!
//! A relationship names its ends by their places among the mentions, and every text is written
//! once: what is found by letters describes most of its entities with the same sentences. Numbers
//! are little-endian; lengths and places take seven bits of each byte.

use std::collections::HashMap;

use super::super::EntityId;
use super::super::error::CatalogError;
use super::super::graph::GraphRows;

/// How it is written. Another way of writing gets another number.
const FORMAT: u8 = 1;

/// An entity that a chunk mentions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Mentioned<'a> {
    pub(super) entity: EntityId,
    pub(super) kind: &'a str,
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    pub(super) score: f64,
}

/// A relationship that a chunk states, between two of its mentions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Stated<'a> {
    pub(super) source: usize,
    pub(super) target: usize,
    pub(super) kind: &'a str,
    pub(super) description: &'a str,
    pub(super) weight: f64,
}

/// Everything that a chunk says.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct Said<'a> {
    pub(super) mentions: Vec<Mentioned<'a>>,
    pub(super) relationships: Vec<Stated<'a>>,
}

impl<'a> Said<'a> {
    /// The place of an entity that is mentioned.
    pub(super) fn place(&self, of: EntityId) -> Option<usize> {
        self.mentions.binary_search_by_key(&of, |mention| mention.entity).ok()
    }

    /// What relates an entity to others: what is stated, who they are, and whether it goes there
    /// from it.
    pub(super) fn around(
        &self,
        of: EntityId,
    ) -> impl Iterator<Item = (&Stated<'a>, &Mentioned<'a>, bool)> {
        let here = self.place(of);
        self.relationships.iter().filter_map(move |stated| {
            let is_outgoing = Some(stated.source) == here;
            let far = if is_outgoing { stated.target } else { stated.source };
            let is_of_it = is_outgoing || Some(stated.target) == here;
            (is_of_it && Some(far) != here).then(|| (stated, &self.mentions[far], is_outgoing))
        })
    }

    /// What rows say.
    pub(super) fn of(rows: &GraphRows<'a>) -> Said<'a> {
        let mentions: Vec<Mentioned<'a>> = rows
            .mentions
            .iter()
            .map(|(entity, thing)| Mentioned {
                entity: *entity,
                kind: &thing.kind,
                name: &thing.name,
                description: &thing.description,
                score: thing.score,
            })
            .collect();
        let relationships = rows
            .relationships
            .iter()
            .map(|(source, target, row)| Stated {
                source: *source,
                target: *target,
                kind: &row.kind,
                description: &row.description,
                weight: row.weight,
            })
            .collect();
        Said { mentions, relationships }
    }

    pub(super) fn written(&self) -> Vec<u8> {
        let mut texts = Texts::default();
        let mut rest = Vec::with_capacity(32 * (self.mentions.len() + self.relationships.len()));
        number(&mut rest, self.mentions.len());
        for mention in &self.mentions {
            rest.extend(mention.entity.0);
            for text in [mention.kind, mention.name, mention.description] {
                number(&mut rest, texts.place(text));
            }
            rest.extend(mention.score.to_le_bytes());
        }
        number(&mut rest, self.relationships.len());
        for stated in &self.relationships {
            let (kind, description) = (texts.place(stated.kind), texts.place(stated.description));
            for place in [stated.source, stated.target, kind, description] {
                number(&mut rest, place);
            }
            rest.extend(stated.weight.to_le_bytes());
        }
        let mut written = Vec::with_capacity(rest.len() + texts.bytes + 3 * texts.all.len() + 3);
        written.push(FORMAT);
        number(&mut written, texts.all.len());
        for text in texts.all {
            number(&mut written, text.len());
            written.extend(text.as_bytes());
        }
        written.extend(rest);
        written
    }

    pub(super) fn read(written: &'a [u8]) -> Result<Said<'a>, CatalogError> {
        let damaged = || CatalogError::bad("what a chunk says cannot be read: it is damaged");
        Reading(written).said().ok_or_else(damaged)
    }
}

/// Texts in the order in which they came.
#[derive(Default)]
struct Texts<'a> {
    all: Vec<&'a str>,
    places: HashMap<&'a str, usize>,
    bytes: usize,
}

impl<'a> Texts<'a> {
    fn place(&mut self, text: &'a str) -> usize {
        let Texts { all, places, bytes } = self;
        *places.entry(text).or_insert_with(|| {
            all.push(text);
            *bytes += text.len();
            all.len() - 1
        })
    }
}

fn number(into: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// What is left to be read. None of it is believed.
struct Reading<'a>(&'a [u8]);

impl<'a> Reading<'a> {
    fn said(mut self) -> Option<Said<'a>> {
        let (FORMAT, count) = (self.bytes(1)?[0], self.number()?) else { return None };
        let mut texts = Vec::with_capacity(count.min(self.0.len()));
        for _ in 0..count {
            let length = self.number()?;
            texts.push(std::str::from_utf8(self.bytes(length)?).ok()?);
        }
        let mut said = Said::default();
        for _ in 0..self.number()? {
            said.mentions.push(Mentioned {
                entity: EntityId(self.array()?),
                kind: self.one_of(&texts)?,
                name: self.one_of(&texts)?,
                description: self.one_of(&texts)?,
                score: f64::from_le_bytes(self.array()?),
            });
        }
        for _ in 0..self.number()? {
            said.relationships.push(Stated {
                source: self.place(said.mentions.len())?,
                target: self.place(said.mentions.len())?,
                kind: self.one_of(&texts)?,
                description: self.one_of(&texts)?,
                weight: f64::from_le_bytes(self.array()?),
            });
        }
        self.0.is_empty().then_some(said)
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.0.split_at_checked(count)?;
        self.0 = left;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn number(&mut self) -> Option<usize> {
        let mut number = 0_usize;
        for shift in (0..35).step_by(7) {
            let byte = self.bytes(1)?[0];
            number |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// A place among so many.
    fn place(&mut self, count: usize) -> Option<usize> {
        self.number().filter(|place| *place < count)
    }

    fn one_of(&mut self, texts: &[&'a str]) -> Option<&'a str> {
        let place = self.place(texts.len())?;
        Some(texts[place])
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Called, NewEntity, NewGraph, NewRelationship, Scope};
    use super::*;

    fn graph(things: usize) -> NewGraph {
        let called = |at: usize| Called::new("Person", format!("Ada {at}"));
        let entity = |at: usize| NewEntity {
            called: called(at),
            description: format!("sentence {}", at / 3),
            score: at as f64 / 7.0,
        };
        let relationship = |at: usize| NewRelationship {
            source: called(at),
            target: called((at * 5 + 1) % things),
            kind: "näher".into(),
            description: String::new(),
            weight: f64::MIN_POSITIVE * at as f64,
        };
        NewGraph {
            entities: (0..things).map(entity).collect(),
            relationships: (0..things).map(relationship).collect(),
        }
    }

    #[test]
    fn what_is_written_is_read_and_every_text_is_there_once() {
        for things in [0, 1, 3, 200] {
            let distinct = graph(things).distinct();
            let rows = distinct.rows(&Scope::new("t", "c"));
            let said = Said::of(&rows);
            assert_eq!((said.mentions.len(), said.relationships.len()), (things, things));
            let written = said.written();
            assert_eq!(Said::read(&written), Ok(said));
            let times = written.windows(10).filter(|bytes| *bytes == b"sentence 0").count();
            assert_eq!(times, things.min(1));
        }
    }

    #[test]
    fn what_is_damaged_is_refused_and_breaks_nothing() {
        let distinct = graph(20).distinct();
        let written = Said::of(&distinct.rows(&Scope::new("t", "c"))).written();
        for length in 0..written.len() {
            assert!(Said::read(&written[..length]).is_err(), "{length}");
        }
        assert!(Said::read(&[&written[..], &[0]].concat()).is_err(), "something follows");
        for at in 0..written.len() {
            for bit in [0x01, 0x80, 0xff] {
                let mut other = written.clone();
                other[at] ^= bit;
                // It may say something else. It must not panic, nor ask for much memory.
                let _refused_or_not = Said::read(&other);
            }
        }
        assert!(Said::read(&[FORMAT, 0xff, 0xff, 0xff, 0xff, 0x0f]).is_err(), "a huge count");
    }
}
