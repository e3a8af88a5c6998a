//! What a case stands on: an empty catalog, and short words for long calls.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use uuid::Uuid;
use windrow_core::Timestamp;
use windrow_pipelines::catalog::{
    Added, Called, Catalog, CatalogError, ChunkId, Content, GenerationKey, NewChunk, NewDocument,
    NewEntity, NewGraph, NewRelationship, NewVector, PageKey, PageOutcome, Published, Scope,
    TextQuery, content_hash, embedder,
};

use crate::bases::Base;

/// One case of the suite.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) run: for<'a> fn(&'a Bed) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
}

/// The cases of a file. One that is not in the list is never used, which the compiler says.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn list() -> Vec<crate::bed::Case> {
            let noun = module_path!().rsplit("::").next().unwrap_or_default();
            vec![$(crate::bed::Case {
                name: format!("{noun}::{}", stringify!($name)),
                run: |bed| Box::pin($name(bed)),
            }),*]
        }
    };
}
pub(crate) use cases;

pub(crate) struct Bed {
    pub(crate) catalog: Arc<dyn Catalog>,
    pub(crate) base: Arc<dyn Base>,
    ids: AtomicU64,
}

impl Bed {
    pub(crate) fn new(base: Arc<dyn Base>) -> anyhow::Result<Bed> {
        let catalog = base.runtime().block_on(base.open())?;
        Ok(Bed::over(catalog, base))
    }

    pub(crate) fn over(catalog: Arc<dyn Catalog>, base: Arc<dyn Base>) -> Bed {
        Bed { catalog, base, ids: AtomicU64::new(1) }
    }

    /// As if some documents had been brought before: ids and times are others.
    pub(crate) fn skip(&self, ids: u64) {
        self.ids.fetch_add(ids, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp(1_800_000_000_000 + self.ids.load(Ordering::Relaxed))
    }

    /// A document of the collection `c` of the tenant `t`.
    pub(crate) fn new_document(&self, source: &str, content: &str) -> NewDocument {
        self.new_in(&scope(), source, content)
    }

    pub(crate) fn new_in(&self, scope: &Scope, source: &str, content: &str) -> NewDocument {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        NewDocument {
            id: Uuid::from_u128(u128::from(id) << 64 | 0xd0c),
            scope: scope.clone(),
            source: source.into(),
            name: format!("{source} by name"),
            content: Content {
                hash: content_hash(content),
                media_type: "text/markdown".into(),
                bytes: content.len() as u64,
                place: format!("blob:{source}"),
            },
            again: false,
        }
    }

    pub(crate) async fn add(&self, source: &str, content: &str) -> Added {
        let new = self.new_document(source, content);
        self.catalog.add_document(new, self.now()).await.expect("it is added")
    }

    /// A generation that is being built, with so many pages.
    pub(crate) async fn building(&self, source: &str, content: &str, pages: u32) -> GenerationKey {
        let at = key(&self.add(source, content).await);
        self.catalog.begin_pages(at, pages).await.expect("pages begin");
        at
    }

    /// A page that was read, and is cut at empty lines.
    pub(crate) async fn read(&self, page: PageKey, markdown: &str) -> Vec<ChunkId> {
        let read = self.try_read(page, markdown).await;
        read.expect("the page is put")
    }

    pub(crate) async fn try_read(
        &self,
        page: PageKey,
        markdown: &str,
    ) -> Result<Vec<ChunkId>, CatalogError> {
        self.catalog.put_page(page, outcome(markdown)).await?;
        self.catalog.put_chunks(page, chunks(markdown)).await
    }

    /// Vectors and a graph for chunks, from their texts.
    pub(crate) async fn enrich(&self, tenant: &str, ids: &[ChunkId]) -> Result<(), CatalogError> {
        let texts = self.catalog.chunk_texts(tenant, ids.to_vec()).await?;
        let vector = |text: &str| vec![text.len() as f32, 0.5, -1.0];
        let vectors =
            texts.iter().map(|one| NewVector { chunk: one.id, vector: vector(&one.text) });
        self.catalog.put_vectors(vectors.collect()).await?;
        self.catalog.mark_embedded(ids.to_vec(), &embedder("test", "1")).await?;
        for text in &texts {
            self.catalog.put_graph(text.id, graph(&text.text)).await?;
        }
        Ok(())
    }

    /// A generation with everything that belongs to one, not yet live.
    pub(crate) async fn built_in(
        &self,
        scope: &Scope,
        source: &str,
        pages: &[&str],
    ) -> GenerationKey {
        let new = self.new_in(scope, source, &pages.join("\u{c}"));
        let added = self.catalog.add_document(new, self.now()).await.expect("it is added");
        let at = key(&added);
        self.catalog.begin_pages(at, pages.len() as u32).await.expect("pages begin");
        for (number, markdown) in (1..).zip(pages) {
            let ids = self.read(page(at, number), markdown).await;
            self.enrich(&scope.tenant, &ids).await.expect("chunks are enriched");
        }
        at
    }

    /// A live document with everything that belongs to one.
    pub(crate) async fn ingest_in(
        &self,
        scope: &Scope,
        source: &str,
        pages: &[&str],
    ) -> GenerationKey {
        let at = self.built_in(scope, source, pages).await;
        self.publish(at).await;
        at
    }

    pub(crate) async fn ingest(&self, source: &str, pages: &[&str]) -> GenerationKey {
        self.ingest_in(&scope(), source, pages).await
    }

    /// Forgets all that is left over.
    pub(crate) async fn forget_leftovers(&self) {
        let last = self.catalog.last_leftover().await.unwrap();
        let all = self.catalog.take_leftovers(last, 1_000).await.unwrap();
        let numbers = all.iter().map(|one| one.number).collect();
        self.catalog.forget_leftovers(numbers).await.unwrap();
    }

    pub(crate) async fn publish(&self, at: GenerationKey) -> Published {
        self.catalog.publish(at, self.now()).await.expect("it is published")
    }

    /// What the tenant `t` finds, as `source:page`.
    pub(crate) async fn found(&self, text: &str) -> Vec<String> {
        self.found_by(TextQuery::of("t", text)).await
    }

    pub(crate) async fn found_by(&self, query: TextQuery) -> Vec<String> {
        let hits = self.catalog.search_text(query).await.expect("a search");
        hits.iter().map(|hit| format!("{}:{}", hit.source, hit.page.number)).collect()
    }
}

pub(crate) fn scope() -> Scope {
    Scope::new("t", "c")
}

pub(crate) fn key(added: &Added) -> GenerationKey {
    match added {
        Added::New(at) | Added::Changed(at) | Added::Unchanged(at, _) => *at,
        Added::Deleting(id) => panic!("{id} is being deleted"),
    }
}

pub(crate) fn page(at: GenerationKey, number: u32) -> PageKey {
    PageKey { document: at.document, generation: at.generation, number }
}

pub(crate) fn outcome(markdown: &str) -> PageOutcome {
    let (markdown, how) = (markdown.to_owned(), "text_layer".to_owned());
    PageOutcome::Read { hash: content_hash(&markdown), markdown, how }
}

/// One chunk for each paragraph.
pub(crate) fn chunks(markdown: &str) -> Vec<NewChunk> {
    let paragraphs = markdown.split("\n\n").filter(|text| !text.is_empty());
    let chunk = |(index, text): (u32, &str)| NewChunk {
        index,
        kind: if text.starts_with('|') { "table".into() } else { "text".into() },
        text: text.to_owned(),
        tokens: text.len() as u32 / 4,
        begins: 0,
        ends: text.len() as u32,
        metadata: json!({ "heading_path": ["A", "B"], "importance": 0.5 }),
    };
    (0..).zip(paragraphs).map(chunk).collect()
}

/// Words with a capital letter, each related to the one before.
pub(crate) fn graph(text: &str) -> NewGraph {
    let is_name = |word: &&str| word.starts_with(char::is_uppercase);
    let names: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).filter(is_name).collect();
    let entity = |name: &&str| NewEntity {
        called: Called::new("name", *name),
        description: format!("{name} in {text}"),
        score: name.len() as f64,
    };
    let relationship = |pair: &[&str]| NewRelationship {
        source: Called::new("name", pair[0]),
        target: Called::new("name", pair[1]),
        kind: "before".into(),
        description: text.into(),
        weight: 1.0,
    };
    NewGraph {
        entities: names.iter().map(entity).collect(),
        relationships: names.windows(2).map(relationship).collect(),
    }
}

pub(crate) fn is_bad<T: std::fmt::Debug>(result: Result<T, CatalogError>, part: &str) {
    match result {
        Err(CatalogError::Bad { why }) => assert!(why.contains(part), "{why}"),
        other => panic!("not refused: {other:?}"),
    }
}

pub(crate) fn is_gone<T: std::fmt::Debug>(result: Result<T, CatalogError>) {
    assert!(matches!(result, Err(CatalogError::Gone { .. })), "{result:?}");
}
