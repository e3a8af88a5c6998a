//! Extracting without a model: names, acronyms and frequent words, and which of them stand in the
//! same sentences.
//!
//! It understands nothing. It takes capitals for names, so that it finds many in German and none in
//! Chinese, and that two things are named together is all that its relationships say. In exchange
//! it costs nothing, needs nobody, and says the same of the same text for ever. Looks at each word
//! a bounded number of times, whatever the text.

mod names;
mod sentences;
mod stop;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures_util::future::BoxFuture;

use self::names::names;
use self::sentences::{Sentence, sentences};
use self::stop::is_stop;
use super::kept::clean;
use super::{Context, Entity, ExtractError, Extracted, Extractor, Limits, Relationship};
use crate::catalog::normalised;

/// An extractor that sees names and their neighbours.
#[derive(Clone, Copy, Default, Debug)]
pub struct Cooccurrence {
    limits: Limits,
}

/// Raised when it finds something else than before.
const VERSION: &str = "1";

/// A word that is used so often is what a text is about.
const TERM_COUNT_MIN: usize = 3;
const TERM_CHARS_MIN: usize = 4;

/// Of the sentence that an entity is first named in.
const DESCRIPTION_BYTES_MAX: usize = 240;

impl Cooccurrence {
    pub fn new(limits: Limits) -> Cooccurrence {
        Cooccurrence { limits }
    }

    /// What a text says, by its letters.
    pub fn read(&self, text: &str) -> Extracted {
        let all = sentences(text);
        let found = Found::in_all(&all);
        let entities = found.things.iter().map(|(key, thing)| thing.entity(key, &all)).collect();
        let kept = self.limits.kept(Extracted { entities, relationships: Vec::new() });
        let relationships = found.together(&kept.entities);
        self.limits.kept(Extracted { entities: kept.entities, relationships })
    }
}

impl Extractor for Cooccurrence {
    fn name(&self) -> &str {
        "cooccurrence"
    }

    fn version(&self) -> &str {
        VERSION
    }

    fn parameters(&self) -> String {
        self.limits.text()
    }

    fn is_paid(&self) -> bool {
        false
    }

    fn extract<'a>(
        &'a self,
        text: &'a str,
        _context: Context<'a>,
    ) -> BoxFuture<'a, Result<Extracted, ExtractError>> {
        Box::pin(std::future::ready(Ok(self.read(text))))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Term,
    Acronym,
    Name,
}

/// Something that a text names.
#[derive(Debug)]
struct Thing {
    kind: Kind,
    /// As it is written first.
    name: String,
    /// How often.
    count: usize,
    /// The sentence in which it is named first.
    first: usize,
}

impl Thing {
    fn entity(&self, key: &str, all: &[Sentence<'_>]) -> Entity {
        let is_long = key.contains(' ');
        let (kind, base, step, most) = match self.kind {
            Kind::Name if is_long => ("name", 65, 5, 95),
            Kind::Name => ("name", 55, 5, 90),
            Kind::Acronym => ("acronym", 55, 5, 90),
            Kind::Term => ("term", 50, 4, 80),
        };
        let score = (base + step * self.count.min(20)).min(most);
        Entity {
            name: self.name.clone(),
            kind: kind.to_owned(),
            description: clean(all[self.first].text, DESCRIPTION_BYTES_MAX),
            score: score as u8,
        }
    }
}

/// What is named, by its normalised name, and in which sentences.
#[derive(Default, Debug)]
struct Found {
    things: BTreeMap<String, Thing>,
    in_sentences: Vec<BTreeSet<String>>,
}

/// A name in a sentence.
struct Seen {
    sentence: usize,
    key: String,
    name: names::Name,
}

impl Found {
    fn in_all(all: &[Sentence<'_>]) -> Found {
        let mut seen = Vec::new();
        let mut words: Vec<(usize, String, &str)> = Vec::new();
        for (nth, sentence) in all.iter().enumerate() {
            let (names, is_named) = names(sentence);
            for name in names {
                seen.push(Seen { sentence: nth, key: normalised(&name.text), name });
            }
            let rest = sentence.words.iter().zip(is_named).filter(|(_, is_named)| !is_named);
            let terms = rest.filter(|(word, _)| is_term(word.text));
            words.extend(terms.map(|(word, _)| (nth, normalised(word.text), word.text)));
        }
        let mut found =
            Found { in_sentences: vec![BTreeSet::new(); all.len()], ..Found::default() };
        found.take_names(seen);
        found.take_terms(&words);
        found
    }

    /// Names that are surely some, wherever they stand.
    fn take_names(&mut self, seen: Vec<Seen>) {
        let sure: BTreeSet<String> =
            seen.iter().filter(|one| one.name.is_sure).map(|one| one.key.clone()).collect();
        let whole = whole_names(&sure);
        for Seen { sentence, key, name } in seen {
            if !sure.contains(&key) {
                continue;
            }
            let kind = if name.is_acronym { Kind::Acronym } else { Kind::Name };
            let key = whole.get(&key).cloned().unwrap_or(key);
            self.add(sentence, key, kind, &name.text);
        }
    }

    fn take_terms(&mut self, words: &[(usize, String, &str)]) {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for (_, key, _) in words {
            *counts.entry(key).or_default() += 1;
        }
        for (sentence, key, word) in words {
            let is_name = self.things.get(key).is_some_and(|thing| thing.kind != Kind::Term);
            if counts[&**key] >= TERM_COUNT_MIN && !is_name {
                self.add(*sentence, key.clone(), Kind::Term, word);
            }
        }
    }

    fn add(&mut self, sentence: usize, key: String, kind: Kind, name: &str) {
        let new = || Thing { kind, name: name.to_owned(), count: 0, first: sentence };
        let thing = self.things.entry(key.clone()).or_insert_with(new);
        thing.count += 1;
        thing.kind = thing.kind.max(kind);
        // Of a person's whole and last name the whole one is shown.
        if normalised(&thing.name) != key && normalised(name) == key {
            name.clone_into(&mut thing.name);
        }
        self.in_sentences[sentence].insert(key);
    }

    /// In how many sentences two of these are named together.
    fn together(&self, kept: &[Entity]) -> Vec<Relationship> {
        let nth: HashMap<String, usize> =
            kept.iter().enumerate().map(|(nth, one)| (normalised(&one.name), nth)).collect();
        let mut counts: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for keys in &self.in_sentences {
            let mut here: Vec<usize> =
                keys.iter().filter_map(|key| nth.get(key).copied()).collect();
            here.sort_unstable();
            for (place, one) in here.iter().enumerate() {
                for other in &here[place + 1..] {
                    *counts.entry((*one, *other)).or_default() += 1;
                }
            }
        }
        let relationship = |((one, other), count): ((usize, usize), usize)| {
            let sentences =
                if count == 1 { "one sentence".into() } else { format!("{count} sentences") };
            Relationship {
                source: kept[one].name.clone(),
                target: kept[other].name.clone(),
                description: format!("named together in {sentences}"),
                keywords: vec!["named together".to_owned()],
                weight: count.min(10) as u8,
            }
        };
        counts.into_iter().map(relationship).collect()
    }
}

/// For a last name that ends exactly one longer name, that one.
fn whole_names(sure: &BTreeSet<String>) -> HashMap<String, String> {
    let mut whole: HashMap<String, Option<String>> = HashMap::new();
    for long in sure {
        let Some((_, last)) = long.rsplit_once(' ') else { continue };
        if sure.contains(last) {
            let found = whole.entry(last.to_owned());
            found.and_modify(|found| *found = None).or_insert_with(|| Some(long.clone()));
        }
    }
    whole.into_iter().filter_map(|(last, long)| Some((last, long?))).collect()
}

fn is_term(word: &str) -> bool {
    word.chars().count() >= TERM_CHARS_MIN
        && word.chars().all(char::is_alphabetic)
        && !is_stop(word)
}

#[cfg(test)]
mod tests;
