//! What is around an entity: a picture of the graph that ends where it becomes too large to see.
//!
//! Decides who is in the picture: whoever is related to somebody in it, layer by layer, the
//! strongest of a layer first, until there is no more room. Sees what live documents state, some
//! of it where there is too much, and says so. A store brings the rows; [`Walk`] says whose.

use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

use super::bounds::asked;
use super::chunk::ChunkId;
use super::error::CatalogError;
use super::graph::EntityId;
use super::page::PageKey;

/// Entities of one picture.
pub const AROUND_MAX: u32 = 150;
/// Relationships of one picture, the strongest.
pub(super) const LINKS_MAX: usize = 1_000;
/// Chunks that are named as saying so, of each relationship.
pub(super) const SAID_IN_MAX: usize = 3;

/// Rows that are looked at in each direction from one entity.
pub(super) const SAID_MAX: u32 = 500;
/// Mentions of one entity that are counted.
pub(super) const COUNTED_MAX: u32 = 2_000;
/// The documents that were added last, and mentions in them, from which it follows what there is.
pub(super) const SAMPLED_DOCUMENTS: u32 = 1_000;
pub(super) const SAMPLED_MENTIONS: u32 = 10_000;
/// Names that are looked at for one that has something in its middle.
pub(super) const NAMES_MAX: u32 = 20_000;
/// Collections of a tenant in which names are looked for.
pub(super) const COLLECTIONS_MAX: usize = 100;

/// Which entities are meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntityFilter {
    pub tenant: String,
    pub collection: Option<String>,
    pub kind: Option<String>,
}

impl EntityFilter {
    /// Everything of a tenant.
    pub fn of(tenant: impl Into<String>) -> EntityFilter {
        EntityFilter { tenant: tenant.into(), collection: None, kind: None }
    }

    pub(super) fn check(&self) -> Result<(), CatalogError> {
        let parts = [Some(&self.tenant), self.collection.as_ref(), self.kind.as_ref()];
        asked(parts.into_iter().flatten().map(String::as_str))
    }
}

/// An entity in a picture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    pub id: EntityId,
    pub kind: String,
    /// As it is written most often.
    pub name: String,
    /// How many live chunks mention it, as far as they are counted.
    pub mentions: u32,
    /// Steps from the centre.
    pub distance: u32,
}

/// What relates two entities in a picture.
#[derive(Clone, PartialEq, Debug)]
pub struct Link {
    pub source: EntityId,
    pub target: EntityId,
    pub kind: String,
    pub description: String,
    /// All weights together.
    pub weight: f64,
    /// Some of the chunks that say so.
    pub said_in: Vec<SaidIn>,
}

/// A chunk that says something, and where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SaidIn {
    pub chunk: ChunkId,
    pub document: Uuid,
    /// The document's.
    pub name: String,
    pub page: u32,
}

/// What is around an entity, the centre first and then by distance.
#[derive(Clone, PartialEq, Debug)]
pub struct Around {
    pub nodes: Vec<Node>,
    /// The strongest first.
    pub links: Vec<Link>,
    /// Whether there is more than this.
    pub is_cut: bool,
}

/// What there is in the documents that were added last.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Prominent {
    /// The entity that is mentioned most.
    pub most: Option<EntityId>,
    /// Kinds of entities and how many there are, the most frequent first.
    pub kinds: Vec<(String, u32)>,
    /// Whether there are documents that were not looked at.
    pub is_cut: bool,
}

/// Where an entity is mentioned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MentionedIn {
    pub chunk: ChunkId,
    pub page: PageKey,
    /// Which of its page's chunks it is, from 0.
    pub index: u32,
    /// The document's name.
    pub document: String,
    /// What the chunk calls the entity.
    pub called: String,
    pub text: String,
}

impl MentionedIn {
    /// Where the list goes on after this one.
    pub fn cursor(&self) -> MentionCursor {
        MentionCursor { document: self.page.document, page: self.page.number, index: self.index }
    }
}

/// The last mention of a page of them. The default is before the first.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MentionCursor {
    pub document: Uuid,
    pub page: u32,
    pub index: u32,
}

/// A relationship as one chunk states it, seen from one of its ends.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Said {
    pub(super) source: EntityId,
    pub(super) target: EntityId,
    pub(super) kind: String,
    pub(super) description: String,
    pub(super) weight: f64,
    /// What the other end is.
    pub(super) far_kind: String,
    pub(super) by: SaidIn,
}

/// How an entity is shown.
pub(super) type Shown = (String, String, u32);

/// A picture that is being made.
pub(super) struct Walk {
    kind: Option<String>,
    limit: usize,
    /// Who is in it, the centre first, and how far from it.
    members: Vec<(EntityId, u32)>,
    distances: HashMap<EntityId, u32>,
    /// How many of them were looked around.
    seen: usize,
    /// What relates two members, by what each chunk states of it.
    said: BTreeMap<(EntityId, EntityId, String), BTreeMap<ChunkId, Said>>,
    is_cut: bool,
}

impl Walk {
    pub(super) fn new(centre: EntityId, kind: Option<String>, limit: u32) -> Walk {
        Walk {
            kind,
            limit: limit.clamp(1, AROUND_MAX) as usize,
            members: vec![(centre, 0)],
            distances: HashMap::from([(centre, 0)]),
            seen: 0,
            said: BTreeMap::new(),
            is_cut: false,
        }
    }

    /// Whose relationships are wanted next; nobody's at the end.
    pub(super) fn layer(&self) -> Vec<EntityId> {
        self.members[self.seen..].iter().map(|(id, _)| *id).collect()
    }

    /// Everybody who is in the picture.
    pub(super) fn members(&self) -> Vec<EntityId> {
        self.members.iter().map(|(id, _)| *id).collect()
    }

    /// Takes what is stated about the layer, and whether that is not all.
    pub(super) fn take(&mut self, said: Vec<Said>, is_cut: bool) {
        self.is_cut |= is_cut;
        let distance = self.members.last().map_or(0, |(_, distance)| distance + 1);
        self.seen = self.members.len();
        let mut weights: BTreeMap<EntityId, f64> = BTreeMap::new();
        for one in &said {
            let is_meant = self.kind.as_ref().is_none_or(|kind| *kind == one.far_kind);
            for end in [one.source, one.target] {
                if is_meant && !self.distances.contains_key(&end) {
                    *weights.entry(end).or_default() += one.weight;
                }
            }
        }
        let mut found: Vec<(EntityId, f64)> = weights.into_iter().collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let room = self.limit - self.members.len();
        self.is_cut |= found.len() > room;
        for (id, _) in found.into_iter().take(room) {
            self.members.push((id, distance));
            self.distances.insert(id, distance);
        }
        // Who found no room now finds none later.
        let is_in = |id: &EntityId| self.distances.contains_key(id);
        for one in said.into_iter().filter(|one| is_in(&one.source) && is_in(&one.target)) {
            let key = (one.source, one.target, one.kind.clone());
            self.said.entry(key).or_default().insert(one.by.chunk, one);
        }
    }

    /// The picture, with what its members are. Who is not known is not in it.
    pub(super) fn end(self, mut shown: HashMap<EntityId, Shown>) -> Around {
        let mut links: Vec<Link> = Vec::with_capacity(self.said.len());
        for ((source, target, kind), said) in self.said {
            if !shown.contains_key(&source) || !shown.contains_key(&target) {
                continue;
            }
            let weight = said.values().map(|one| one.weight).sum();
            let described = said.values().filter(|one| !one.description.is_empty());
            let description = described.map(|one| one.description.clone()).min();
            let said_in = said.into_values().take(SAID_IN_MAX).map(|one| one.by).collect();
            let description = description.unwrap_or_default();
            links.push(Link { source, target, kind, description, weight, said_in });
        }
        links.sort_by(|a, b| {
            let by_name = || (a.source, a.target, &a.kind).cmp(&(b.source, b.target, &b.kind));
            b.weight.total_cmp(&a.weight).then_with(by_name)
        });
        let is_cut = self.is_cut || links.len() > LINKS_MAX;
        links.truncate(LINKS_MAX);
        let node = |(id, distance): (EntityId, u32)| {
            let (kind, name, mentions) = shown.remove(&id)?;
            Some(Node { id, kind, name, mentions, distance })
        };
        Around { nodes: self.members.into_iter().filter_map(node).collect(), links, is_cut }
    }
}

/// What follows from a sample: entities with their kinds, and how often each is mentioned in it.
pub(super) fn prominent(sample: Vec<(EntityId, String, u32)>, kind: Option<&str>) -> Prominent {
    let mentions: u32 = sample.iter().map(|(_, _, count)| count).sum();
    let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
    for (_, kind, _) in &sample {
        *kinds.entry(kind).or_default() += 1;
    }
    let mut kinds: Vec<(String, u32)> =
        kinds.into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect();
    kinds.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let is_meant = |of: &str| kind.is_none_or(|kind| kind == of);
    let meant = sample.iter().filter(|(_, of, _)| is_meant(of));
    let most = meant.max_by(|a, b| a.2.cmp(&b.2).then_with(|| b.0.cmp(&a.0)));
    let most = most.map(|(id, _, _)| *id);
    Prominent { most, kinds, is_cut: mentions >= SAMPLED_MENTIONS }
}

/// The names that begin with something, from and up to; and all names.
pub(super) fn beginning_with(part: &str) -> (String, String) {
    (part.to_owned(), format!("{part}{}", char::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> EntityId {
        EntityId([number; 16])
    }

    /// What chunk `by` states of two entities, seen from the first.
    fn said(source: u8, target: u8, weight: f64, by: u8) -> Said {
        Said {
            source: id(source),
            target: id(target),
            kind: "knows".into(),
            description: format!("in {by}"),
            weight,
            far_kind: if target > 100 { "place".into() } else { "person".into() },
            by: SaidIn {
                chunk: ChunkId([by; 16]),
                document: Uuid::nil(),
                name: "a.md".into(),
                page: 1,
            },
        }
    }

    /// Walks over a graph from its first entity. Gives members with their distances.
    fn walk(graph: &[Said], kind: Option<&str>, limit: u32) -> (Vec<(EntityId, u32)>, Around) {
        let mut walk = Walk::new(id(0), kind.map(str::to_owned), limit);
        loop {
            let layer = walk.layer();
            if layer.is_empty() {
                break;
            }
            let of = |one: &&Said| layer.contains(&one.source) || layer.contains(&one.target);
            walk.take(graph.iter().filter(of).cloned().collect(), false);
        }
        let shown = walk.members().into_iter().map(|id| (id, ("person".into(), "a".into(), 1)));
        let around = walk.end(shown.collect());
        (around.nodes.iter().map(|node| (node.id, node.distance)).collect(), around)
    }

    #[test]
    fn who_is_near_comes_first_and_the_strongest_of_a_layer() {
        let graph = [
            said(0, 1, 1.0, 1),
            said(0, 2, 2.0, 1),
            said(1, 3, 9.0, 1),
            said(2, 1, 1.0, 2),
            said(3, 4, 1.0, 3),
        ];
        let (members, around) = walk(&graph, None, 150);
        assert_eq!(members, [(id(0), 0), (id(2), 1), (id(1), 1), (id(3), 2), (id(4), 3)]);
        assert_eq!((around.links.len(), around.is_cut), (5, false));
        assert_eq!((around.links[0].source, around.links[0].target), (id(1), id(3)));
        let (members, around) = walk(&graph, None, 3);
        assert_eq!(members, [(id(0), 0), (id(2), 1), (id(1), 1)]);
        assert!(around.is_cut);
        assert_eq!(around.links.len(), 3, "also what relates the last two");
    }

    #[test]
    fn only_one_kind_is_walked_over_and_the_centre_stays() {
        let graph = [said(0, 101, 5.0, 1), said(0, 1, 1.0, 1), said(101, 2, 5.0, 1)];
        let (members, around) = walk(&graph, Some("person"), 150);
        assert_eq!(members, [(id(0), 0), (id(1), 1)]);
        assert!(!around.is_cut, "what is not meant is not missed");
    }

    #[test]
    fn what_several_chunks_say_is_one_link_and_counts_once_from_both_ends() {
        let graph: Vec<Said> = (1..=5).map(|by| said(0, 1, 1.0, by)).collect();
        let (_, around) = walk(&graph, None, 150);
        let [link] = &around.links[..] else { panic!("{around:?}") };
        assert_eq!((link.weight, link.said_in.len()), (5.0, SAID_IN_MAX));
        assert_eq!(link.description, "in 1");
    }

    #[test]
    fn a_sample_says_what_there_is_and_who_is_mentioned_most() {
        let of = |number, kind: &str, count| (id(number), kind.to_owned(), count);
        let sample = vec![of(1, "person", 3), of(2, "place", 4), of(3, "person", 4)];
        let all = prominent(sample.clone(), None);
        assert_eq!((all.most, all.is_cut), (Some(id(2)), false), "of equals the first");
        assert_eq!(all.kinds, [("person".to_owned(), 2), ("place".to_owned(), 1)]);
        let people = prominent(sample, Some("person"));
        assert_eq!((people.most, people.kinds.len()), (Some(id(3)), 2));
        assert_eq!(prominent(Vec::new(), None), Prominent::default());
    }
}
