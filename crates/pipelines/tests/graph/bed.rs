//! What a case stands on, and short words for long calls.

use std::pin::Pin;

use uuid::Uuid;
use windrow_pipelines::adapters::extract::{Entity, Extracted, Relationship};
use windrow_pipelines::adapters::graph::bolt::{Bolt, Counts, Options};
use windrow_pipelines::adapters::graph::{Graph as _, GraphError, Origin};
use windrow_pipelines::catalog::{ChunkId, GenerationKey, PageKey, Scope, content_hash};
use windrow_testkit::servers::ArcadeDb;

/// A case that needs nothing.
pub(crate) type Alone = fn() -> Pin<Box<dyn Future<Output = ()>>>;

/// A case on a server that all share, by its name.
pub(crate) type Shared = for<'a> fn(&'a Bed<'a>) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// The cases of a file. One that is not in the list is never used, which the compiler says.
macro_rules! alone {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn cases() -> Vec<(&'static str, crate::bed::Alone)> {
            vec![$((concat!(module_path!(), "::", stringify!($name)), || Box::pin($name()))),*]
        }
    };
}
pub(crate) use alone;

macro_rules! shared {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn cases() -> Vec<(&'static str, crate::bed::Shared)> {
            vec![$((stringify!($name), |bed| Box::pin($name(bed)))),*]
        }
    };
}
pub(crate) use shared;

/// A server, and a tenant that nobody else uses.
pub(crate) struct Bed<'a> {
    pub(crate) server: &'a ArcadeDb,
    pub(crate) tenant: &'a str,
}

impl Bed<'_> {
    /// One more process that writes to the graph.
    pub(crate) fn graph(&self) -> Bolt {
        graph(self.server)
    }

    /// The collection that most cases use.
    pub(crate) fn scope(&self) -> Scope {
        Scope::new(self.tenant, "papers")
    }

    /// A chunk of a document of this tenant.
    pub(crate) fn origin(&self, document: u128, generation: u32, chunk: u32) -> Origin {
        origin(&self.scope(), document, generation, chunk)
    }

    pub(crate) async fn counts(&self, graph: &Bolt) -> Counts {
        graph.counts(&self.scope()).await.unwrap()
    }
}

pub(crate) fn graph(server: &ArcadeDb) -> Bolt {
    let mut options = Options::new(ArcadeDb::USER, ArcadeDb::PASSWORD);
    options.database = Some(ArcadeDb::DATABASE.to_owned());
    Bolt::new(&server.url(), options).unwrap()
}

/// Documents of one number are different ones for different tenants.
pub(crate) fn origin(scope: &Scope, document: u128, generation: u32, chunk: u32) -> Origin {
    let tenant = content_hash(&scope.tenant);
    let tenant = u128::from_be_bytes(tenant[..16].try_into().unwrap());
    let document = Uuid::from_u128(tenant.wrapping_add(document));
    let page = PageKey { document, generation, number: 1 };
    Origin {
        chunk: ChunkId::of(&page, chunk, &content_hash("text")),
        at: GenerationKey { document, generation },
        scope: scope.clone(),
    }
}

/// A text about these people, each of whom knows the next one.
pub(crate) fn said(names: &[&str]) -> Extracted {
    let entity = |name: &&str| Entity {
        name: (*name).into(),
        kind: "person".into(),
        description: format!("{name} is named"),
        score: 80,
    };
    let relationship = |pair: &[&str]| Relationship {
        source: pair[0].into(),
        target: pair[1].into(),
        description: format!("{} knows {}", pair[0], pair[1]),
        keywords: vec!["knows".into(), "friend".into()],
        weight: 5,
    };
    Extracted {
        entities: names.iter().map(entity).collect(),
        relationships: names.windows(2).map(relationship).collect(),
    }
}

/// Chunks, entities, mentions and relationships.
pub(crate) fn counts(chunks: u64, entities: u64, mentions: u64, relationships: u64) -> Counts {
    Counts { chunks, entities, mentions, relationships }
}

pub(crate) async fn put(graph: &Bolt, origin: &Origin, names: &[&str]) {
    graph.put(origin, &said(names)).await.unwrap();
}

#[track_caller]
pub(crate) fn transient<T: std::fmt::Debug>(done: Result<T, GraphError>) -> String {
    match done {
        Err(GraphError::Transient { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}
