//! What the stages of documents work with, as the configuration has it.

use std::sync::Arc;

use windrow_core::Timestamp;
use windrow_engine::{Clock as _, SystemClock};
use windrow_pipelines::adapters::embed::hashed::Hashed;
#[cfg(feature = "onnx")]
use windrow_pipelines::adapters::embed::onnx;
use windrow_pipelines::adapters::embed::{Embedder, openai};
use windrow_pipelines::adapters::endpoint::{self, Key};
use windrow_pipelines::adapters::extract::cooccurrence::Cooccurrence;
use windrow_pipelines::adapters::extract::{Extractor, llm};
use windrow_pipelines::adapters::graph::in_catalog::InCatalog;
use windrow_pipelines::adapters::graph::{Graph, bolt};
use windrow_pipelines::adapters::ocr::{Ocr, tesseract, vision};
use windrow_pipelines::adapters::pdf::Pdf;
use windrow_pipelines::adapters::reader::AnyFile;
use windrow_pipelines::adapters::vectors::{Vectors, VectorsError, pgvector, qdrant};
use windrow_pipelines::catalog::{self, Catalog, CatalogError};
use windrow_pipelines::documents::{self, AtHand, Files, Keeping, Parts};
use windrow_pipelines::search::hybrid::{Nearest, Search};
use windrow_pipelines::search::index::Index;

use super::files::Copies;
use super::{Beside, Opened, reached};
use crate::config::{self, EmbedBy, ExtractBy, GraphIn, Model, OcrBy, VectorsIn};
use crate::store::Queue;

/// A setting that does not fit, which is said when a server starts.
#[derive(Debug, thiserror::Error)]
#[error("{key}: {why}")]
pub(crate) struct Misfit {
    key: &'static str,
    why: String,
}

impl Misfit {
    fn of(key: &'static str) -> impl Fn(&dyn std::fmt::Display) -> Misfit {
        move |why| Misfit { key, why: why.to_string() }
    }
}

/// Everything that is made of the configuration alone.
#[derive(Debug)]
struct Made {
    reader: AnyFile,
    embedder: Arc<dyn Embedder>,
    extractor: Option<Arc<dyn Extractor>>,
    graph: Option<Arc<dyn Graph>>,
}

/// Looks whether the configuration fits a store, without opening anything.
pub(crate) fn check(config: &config::Documents, beside: &Beside) -> Result<(), Misfit> {
    let made = made(config)?;
    kept(&config.vectors, beside, &*made.embedder).map(drop)
}

fn made(config: &config::Documents) -> Result<Made, Misfit> {
    Ok(Made {
        reader: AnyFile { pdf: Pdf::default(), ocr: ocr(&config.ocr)? },
        embedder: embedder(&config.embed)?,
        extractor: extractor(&config.extract)?,
        graph: graph(&config.graph)?,
    })
}

/// The parts of whoever does stages elsewhere: what is kept, and the files, are a server's. With
/// the reader, which knows what it misses here.
pub(crate) fn elsewhere(
    config: &config::Documents,
    keeping: Arc<dyn Keeping>,
    files: Arc<dyn Files>,
) -> Result<(Parts, AnyFile), Misfit> {
    let Made { reader, embedder, extractor, .. } = made(config)?;
    let (seen, limits) = (Arc::new(reader.clone()), Default::default());
    let clock = Arc::new(ThisClock(SystemClock::new(Timestamp::ZERO)));
    Ok((Parts { keeping, files, reader: seen, embedder, extractor, clock, limits }, reader))
}

/// The parts around a catalog.
pub(super) async fn opened(
    config: &config::Documents,
    beside: &Beside,
    catalog: Arc<dyn Catalog>,
    queue: Arc<Queue>,
) -> Result<Opened, CatalogError> {
    let misfit = |error: Misfit| CatalogError::Bad { why: error.to_string() };
    let Made { reader, embedder, extractor, graph } = made(config).map_err(misfit)?;
    let vectors = vectors(kept(&config.vectors, beside, &*embedder).map_err(misfit)?).await?;
    let nearest = match &vectors {
        Some(store) => Nearest::Store(Arc::clone(store)),
        None => Nearest::Index(Arc::new(Index::new(Arc::clone(&catalog)))),
    };
    let (known, embeds) = (Arc::clone(&catalog), Arc::clone(&embedder));
    let search = Search { catalog: known, embedder: embeds, nearest };
    let in_catalog = || Arc::new(InCatalog::new(Arc::clone(&catalog))) as Arc<dyn Graph>;
    let clock: Arc<dyn documents::Clock> = Arc::new(QueueClock(Arc::clone(&queue)));
    let at_hand = AtHand {
        vectors,
        graph: graph.unwrap_or_else(in_catalog),
        clock: Arc::clone(&clock),
        catalog: Arc::clone(&catalog),
    };
    let parts = Parts {
        keeping: Arc::new(at_hand.clone()),
        files: Arc::new(Copies::of_store(queue, beside.directory())),
        reader: Arc::new(reader.clone()),
        embedder,
        extractor,
        clock,
        limits: Default::default(),
    };
    Ok(Opened { catalog, search, at_hand, parts, reader })
}

/// Where vectors are, with nothing opened yet.
enum Kept {
    /// In the index that follows the catalog.
    Index,
    PgVector(pgvector::Options),
    Qdrant(Arc<qdrant::Qdrant>),
}

fn kept(of: &VectorsIn, beside: &Beside, embedder: &dyn Embedder) -> Result<Kept, Misfit> {
    let wrong = Misfit::of("documents.vectors_url");
    match (of, beside) {
        (VectorsIn::BuiltIn, _) => Ok(Kept::Index),
        (VectorsIn::PgVector { url: None }, Beside::Directory(_)) => {
            Err(wrong(&"it is missing, and there is no database beside the store"))
        }
        (VectorsIn::PgVector { url: None }, Beside::Database(options)) => pgvector(options),
        (VectorsIn::PgVector { url: Some(url) }, _) => {
            let mut options = windrow_store::postgres::Options::new(&*url.0);
            options.password = std::env::var("PGPASSWORD").ok();
            pgvector(&options)
        }
        (VectorsIn::Qdrant { url, key, allow_plain_http }, _) => {
            let by = catalog::embedder(embedder.name(), embedder.version());
            let mut options = qdrant::Options::new(url, by);
            let key = key.as_ref().map(|key| Key::new(&key.0)).transpose();
            let wrong_key = Misfit::of("documents.vectors_key");
            options.endpoint.key = key.map_err(|why| wrong_key(&why))?;
            options.endpoint.allow_plain_http = *allow_plain_http;
            let store = qdrant::Qdrant::new(options).map_err(|why| wrong(&why))?;
            Ok(Kept::Qdrant(Arc::new(store)))
        }
    }
}

fn pgvector(options: &windrow_store::postgres::Options) -> Result<Kept, Misfit> {
    let reached = || reached(options).map_err(|why| Misfit::of("documents.vectors_url")(&why));
    let mut of = pgvector::Options::new(reached()?.connect);
    of.database = reached()?;
    Ok(Kept::PgVector(of))
}

/// Opens them; None for the index.
async fn vectors(kept: Kept) -> Result<Option<Arc<dyn Vectors>>, CatalogError> {
    let opened = match kept {
        Kept::Index => return Ok(None),
        Kept::Qdrant(store) => return Ok(Some(store)),
        Kept::PgVector(options) => pgvector::PgVector::open(options).await,
    };
    let opened = opened.map_err(|error| match error {
        VectorsError::Transient { why, retry_after_ms } => {
            CatalogError::Transient { why, retry_after_ms }
        }
        error => CatalogError::Bad { why: error.to_string() },
    })?;
    Ok(Some(Arc::new(opened)))
}

fn ocr(by: &OcrBy) -> Result<Arc<dyn Ocr>, Misfit> {
    Ok(match by {
        OcrBy::Tesseract { languages, dpi } => {
            let (languages, dpi) = (languages.clone(), *dpi);
            let options = tesseract::Options { languages, dpi, ..Default::default() };
            let wrong = Misfit::of("documents.ocr_languages");
            Arc::new(tesseract::Tesseract::new(options).map_err(|error| wrong(&error))?)
        }
        OcrBy::Vision { model, dpi } => {
            let mut options = vision::Options { dpi: *dpi, ..vision::Options::new(&model.name) };
            keyed(&mut options.endpoint, model, "documents.ocr_key")?;
            let wrong = Misfit::of("documents.ocr_url");
            Arc::new(vision::Vision::new(&model.url, options).map_err(|error| wrong(&error))?)
        }
    })
}

fn embedder(by: &EmbedBy) -> Result<Arc<dyn Embedder>, Misfit> {
    Ok(match by {
        EmbedBy::BuiltIn => Arc::new(Hashed),
        #[cfg(feature = "onnx")]
        EmbedBy::Onnx { model, runtime } => {
            let wrong = Misfit::of("documents.embed_model_dir");
            let opened = onnx::Onnx::open(onnx::Options::new(model, runtime));
            Arc::new(opened.map_err(|error| wrong(&error))?)
        }
        // The configuration refuses it.
        #[cfg(not(feature = "onnx"))]
        EmbedBy::Onnx { .. } => Arc::new(Hashed),
        EmbedBy::Endpoint { model, dimension } => {
            let mut options = openai::Options::new(&model.name);
            options.dimension = *dimension;
            keyed(&mut options.endpoint, model, "documents.embed_key")?;
            let wrong = Misfit::of("documents.embed_url");
            Arc::new(openai::OpenAi::new(&model.url, options).map_err(|error| wrong(&error))?)
        }
    })
}

fn extractor(by: &ExtractBy) -> Result<Option<Arc<dyn Extractor>>, Misfit> {
    Ok(match by {
        ExtractBy::Nobody => None,
        ExtractBy::Cooccurrence => Some(Arc::new(Cooccurrence::default())),
        ExtractBy::Endpoint(model) => {
            let mut options = llm::Options::new(&model.name);
            keyed(&mut options.endpoint, model, "documents.extract_key")?;
            let wrong = Misfit::of("documents.extract_url");
            Some(Arc::new(llm::Llm::new(&model.url, options).map_err(|error| wrong(&error))?))
        }
    })
}

/// None for the graph in the catalog.
fn graph(of: &GraphIn) -> Result<Option<Arc<dyn Graph>>, Misfit> {
    Ok(match of {
        GraphIn::Catalog => None,
        GraphIn::Bolt { url, user, password, database } => {
            let mut options = bolt::Options::new(user, &password.0);
            options.database.clone_from(database);
            let wrong = Misfit::of("documents.graph_url");
            Some(Arc::new(bolt::Bolt::new(url, options).map_err(|error| wrong(&error))?))
        }
    })
}

fn keyed(
    endpoint: &mut endpoint::Options,
    model: &Model,
    name: &'static str,
) -> Result<(), Misfit> {
    endpoint.allow_plain_http = model.allow_plain_http;
    let key = model.key.as_ref().map(|key| Key::new(&key.0));
    endpoint.key = key.transpose().map_err(|error| Misfit::of(name)(&error))?;
    Ok(())
}

/// The time of this machine, where there is no queue to ask.
#[derive(Debug)]
struct ThisClock(SystemClock);

impl documents::Clock for ThisClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

/// The queue's time is the catalog's too.
#[derive(Debug)]
struct QueueClock(Arc<Queue>);

impl documents::Clock for QueueClock {
    fn now(&self) -> Timestamp {
        self.0.clock().now()
    }
}
