//! How documents are read, embedded, linked and kept: what a server is told, checked.
//!
//! Nothing is reached here: an endpoint that is down is no reason not to start.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use windrow_pipelines::documents::{Gate, Plan, Stages};

use super::Layers;

/// The most of anything that is done at once.
const AT_ONCE_MAX: usize = 1_000;

/// What a server is told about documents.
#[derive(Clone, Debug)]
pub(crate) struct Documents {
    /// Whether this server works on them.
    pub(crate) enabled: bool,
    pub(crate) plan: Plan,
    /// What pages and chunks wait for before their next phase.
    pub(crate) gate: Gate,
    pub(crate) ocr: OcrBy,
    pub(crate) embed: EmbedBy,
    pub(crate) vectors: VectorsIn,
    pub(crate) graph: GraphIn,
    pub(crate) extract: ExtractBy,
}

/// A model behind an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) url: String,
    pub(crate) name: String,
    pub(crate) key: Option<Secret>,
    /// Whether the key may go in the clear.
    pub(crate) allow_plain_http: bool,
}

/// Something that is never shown.
#[derive(Clone)]
pub(crate) struct Secret(pub(crate) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Who reads pages that are pictures.
#[derive(Clone, Debug)]
pub(crate) enum OcrBy {
    Tesseract { languages: String, dpi: u32 },
    Vision { model: Model, dpi: u32 },
}

/// Who makes vectors.
#[derive(Clone, Debug)]
pub(crate) enum EmbedBy {
    BuiltIn,
    Endpoint {
        model: Model,
        dimension: Option<usize>,
    },
    /// A model on this machine: its directory, and the library that computes it.
    #[cfg_attr(not(feature = "onnx"), expect(dead_code, reason = "it is refused then"))]
    Onnx {
        model: PathBuf,
        runtime: PathBuf,
    },
}

/// Where vectors are.
#[derive(Clone, Debug)]
pub(crate) enum VectorsIn {
    /// In the catalog, and in memory.
    BuiltIn,
    /// In a database with pgvector: the store's own, if none is named.
    PgVector {
        url: Option<Secret>,
    },
    Qdrant {
        url: String,
        key: Option<Secret>,
        allow_plain_http: bool,
    },
}

/// Where the graph is.
#[derive(Clone, Debug)]
pub(crate) enum GraphIn {
    Catalog,
    Bolt { url: String, user: String, password: Secret, database: Option<String> },
}

/// Who says what chunks are about.
#[derive(Clone, Debug)]
pub(crate) enum ExtractBy {
    Cooccurrence,
    Endpoint(Model),
    Nobody,
}

/// Everything about documents, checked.
pub(super) fn documents(layers: &Layers) -> anyhow::Result<Documents> {
    let plan = Plan::default();
    let drain = Duration::from_millis(layers.parse("server.drain_ms")?);
    Ok(Documents {
        enabled: layers.flag("documents.enabled")?,
        plan: Plan {
            stages: stages(layers)?,
            pages: at_once(layers, "documents.pages_at_once")?.unwrap_or(plan.pages),
            links: at_once(layers, "documents.links_at_once")?.unwrap_or(plan.links),
            lease_ms: layers.parse::<u64>("queue.page_lease_s")?.saturating_mul(1_000),
            max_attempts: layers.parse("queue.max_attempts")?,
            // The rest of the time is for handing back.
            grace: drain - drain / 5,
            ..plan
        },
        gate: match chosen(layers, "documents.gate", &["item", "document"])? {
            "document" => Gate::Document,
            _ => Gate::Item,
        },
        ocr: ocr(layers)?,
        embed: embed(layers)?,
        vectors: vectors(layers)?,
        graph: graph(layers)?,
        extract: extract(layers)?,
    })
}

fn at_once(layers: &Layers, name: &str) -> anyhow::Result<Option<usize>> {
    if layers.get(name).is_none() {
        return Ok(None);
    }
    let count: usize = layers.parse(name)?;
    anyhow::ensure!(
        (1..=AT_ONCE_MAX).contains(&count),
        "{name} ({}) must lie between 1 and {AT_ONCE_MAX}",
        layers.origin(name)
    );
    Ok(Some(count))
}

/// The stages that a server does itself.
fn stages(layers: &Layers) -> anyhow::Result<Stages> {
    let name = "documents.stages";
    let said = || format!("{name} ({})", layers.origin(name));
    let stages = Stages::named(layers.list(name)?).with_context(said)?;
    anyhow::ensure!(
        !stages.is_empty(),
        "{} names no stage; with documents.enabled = false a server does none",
        said()
    );
    Ok(stages)
}

fn ocr(layers: &Layers) -> anyhow::Result<OcrBy> {
    let dpi: u32 = layers.parse("documents.ocr_dpi")?;
    anyhow::ensure!(
        (50..=600).contains(&dpi),
        "documents.ocr_dpi ({}) must lie between 50 and 600",
        layers.origin("documents.ocr_dpi")
    );
    match chosen(layers, "documents.ocr", &["tesseract", "vision"])? {
        "vision" => Ok(OcrBy::Vision { model: model(layers, "ocr")?, dpi }),
        _ => Ok(OcrBy::Tesseract { languages: layers.parse("documents.ocr_languages")?, dpi }),
    }
}

fn embed(layers: &Layers) -> anyhow::Result<EmbedBy> {
    match chosen(layers, "documents.embed", &["built-in", "endpoint", "onnx"])? {
        "onnx" => {
            anyhow::ensure!(
                cfg!(feature = "onnx"),
                "documents.embed ({}) is onnx, and this windrow was built without it; build it \
                 with --features onnx",
                layers.origin("documents.embed")
            );
            let path =
                |name: &str| needed(layers, name, "documents.embed is onnx").map(PathBuf::from);
            let runtime = path("documents.embed_runtime")?;
            Ok(EmbedBy::Onnx { model: path("documents.embed_model_dir")?, runtime })
        }
        "endpoint" => {
            let name = "documents.embed_dimension";
            let dimension = layers.get(name).map(|_| layers.parse(name)).transpose()?;
            Ok(EmbedBy::Endpoint { model: model(layers, "embed")?, dimension })
        }
        _ => Ok(EmbedBy::BuiltIn),
    }
}

fn vectors(layers: &Layers) -> anyhow::Result<VectorsIn> {
    let secret = |name: &str| layers.get(name).map(|said| Secret(said.to_owned()));
    match chosen(layers, "documents.vectors", &["built-in", "pgvector", "qdrant"])? {
        "pgvector" => Ok(VectorsIn::PgVector { url: secret("documents.vectors_url") }),
        "qdrant" => Ok(VectorsIn::Qdrant {
            url: needed(layers, "documents.vectors_url", "documents.vectors is qdrant")?,
            key: secret("documents.vectors_key"),
            allow_plain_http: layers.flag("documents.allow_plain_http")?,
        }),
        _ => Ok(VectorsIn::BuiltIn),
    }
}

fn graph(layers: &Layers) -> anyhow::Result<GraphIn> {
    match chosen(layers, "documents.graph", &["catalog", "bolt"])? {
        "bolt" => Ok(GraphIn::Bolt {
            url: needed(layers, "documents.graph_url", "documents.graph is bolt")?,
            user: layers.parse("documents.graph_user")?,
            password: Secret(layers.get("documents.graph_password").unwrap_or_default().into()),
            database: layers.get("documents.graph_database").map(str::to_owned),
        }),
        _ => Ok(GraphIn::Catalog),
    }
}

fn extract(layers: &Layers) -> anyhow::Result<ExtractBy> {
    match chosen(layers, "documents.extract", &["co-occurrence", "endpoint", "off"])? {
        "endpoint" => Ok(ExtractBy::Endpoint(model(layers, "extract")?)),
        "off" => Ok(ExtractBy::Nobody),
        _ => Ok(ExtractBy::Cooccurrence),
    }
}

/// The model of `documents.WHAT`, which was chosen.
fn model(layers: &Layers, what: &str) -> anyhow::Result<Model> {
    let key = |last: &str| format!("documents.{what}_{last}");
    let why = format!("documents.{what} asks a model");
    Ok(Model {
        url: needed(layers, &key("url"), &why)?,
        name: needed(layers, &key("model"), &why)?,
        key: layers.get(&key("key")).map(|key| Secret(key.to_owned())),
        allow_plain_http: layers.flag("documents.allow_plain_http")?,
    })
}

fn needed(layers: &Layers, name: &str, why: &str) -> anyhow::Result<String> {
    let said = layers.get(name).map(str::trim).filter(|said| !said.is_empty());
    said.map(str::to_owned).with_context(|| format!("{name} is missing: {why}"))
}

/// One of several words.
fn chosen<'a>(layers: &'a Layers, name: &str, words: &[&str]) -> anyhow::Result<&'a str> {
    let said = layers.get(name).unwrap_or_default();
    let is_one = words.contains(&said);
    let of = words.join(", ");
    anyhow::ensure!(is_one, "{name} ({}) is none of {of}", layers.origin(name));
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::Beside;

    fn said(all: &[(&str, &str)]) -> anyhow::Result<Documents> {
        let all = all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        documents(&Layers::new().with_environment(all)?)
    }

    #[test]
    fn without_a_word_everything_is_done_here() {
        let here = said(&[]).expect("it is read");
        assert!(here.enabled);
        assert!(
            matches!(here.ocr, OcrBy::Tesseract { ref languages, dpi: 150 } if languages == "eng")
        );
        assert!(matches!(here.embed, EmbedBy::BuiltIn));
        assert!(matches!(here.graph, GraphIn::Catalog));
        assert!(matches!(here.extract, ExtractBy::Cooccurrence));
    }

    #[test]
    fn a_model_is_named_with_its_address_and_its_key_is_not_shown() {
        let asks = ("WINDROW_DOCUMENTS__EXTRACT", "endpoint");
        let wrong = said(&[asks]).expect_err("no address").to_string();
        assert_eq!(wrong, "documents.extract_url is missing: documents.extract asks a model");
        let told = said(&[
            asks,
            ("WINDROW_DOCUMENTS__EXTRACT_URL", "http://127.0.0.1:1234/v1"),
            ("WINDROW_DOCUMENTS__EXTRACT_MODEL", "small"),
            ("WINDROW_DOCUMENTS__EXTRACT_KEY", "sk-secret"),
        ]);
        let shown = format!("{:?}", told.expect("all is there"));
        assert!(shown.contains("small") && !shown.contains("sk-secret"), "{shown}");
    }

    #[test]
    fn a_key_that_would_go_in_the_clear_is_refused_unless_that_is_allowed() {
        let of = |allowed: &str| {
            let told = said(&[
                ("WINDROW_DOCUMENTS__EMBED", "endpoint"),
                ("WINDROW_DOCUMENTS__EMBED_URL", "http://models.example/v1"),
                ("WINDROW_DOCUMENTS__EMBED_MODEL", "small"),
                ("WINDROW_DOCUMENTS__EMBED_KEY", "sk-secret"),
                ("WINDROW_DOCUMENTS__ALLOW_PLAIN_HTTP", allowed),
            ]);
            let beside = Beside::Directory("d".into());
            crate::documents::check(&told.expect("all is there"), &beside)
        };
        let wrong = of("false").expect_err("it is plain http").to_string();
        assert!(wrong.starts_with("documents.embed_url: the key would go"), "{wrong}");
        assert!(of("true").is_ok());
    }

    #[test]
    fn an_address_of_vectors_that_cannot_be_one_is_found_before_anything_is_opened() {
        let of = |kind: &str, url: &[(&str, &str)]| {
            let told = [&[("WINDROW_DOCUMENTS__VECTORS", kind)], url].concat();
            let told = said(&told).expect("all is there");
            crate::documents::check(&told, &Beside::Directory("d".into()))
        };
        let url = |url| [("WINDROW_DOCUMENTS__VECTORS_URL", url)];
        for (kind, url, says) in [
            ("qdrant", &url("nonsense")[..], "not an address of an endpoint"),
            ("pgvector", &url("nonsense")[..], "it does not begin with postgres://"),
            ("pgvector", &[], "it is missing, and there is no database beside the store"),
        ] {
            let wrong = of(kind, url).expect_err(says).to_string();
            let is_named = wrong.starts_with("documents.vectors_url: ");
            assert!(is_named && wrong.contains(says), "{wrong}");
        }
        of("qdrant", &url("http://127.0.0.1:6333")).expect("an address");
        of("pgvector", &url("postgres://windrow@127.0.0.1/vectors")).expect("an address");
    }

    #[test]
    fn a_server_does_every_stage_or_those_that_are_named() {
        assert_eq!(said(&[]).expect("by default").plan.stages, Stages::ALL);
        let name = "WINDROW_DOCUMENTS__STAGES";
        let some = said(&[(name, "pages, chunk,publish")]).expect("a list");
        assert_eq!(some.plan.stages.to_string(), "pages, chunk, publish");
        for (value, says) in [("ocr,vectors", "\"vectors\" is no stage"), ("", "names no stage")] {
            let wrong = format!("{:#}", said(&[(name, value)]).expect_err(value));
            assert!(wrong.contains(says) && wrong.contains("documents.stages"), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_choice_is_refused_with_those_that_are() {
        for (name, value, says) in [
            ("WINDROW_DOCUMENTS__OCR", "eyes", "none of tesseract, vision"),
            ("WINDROW_DOCUMENTS__OCR_DPI", "7", "between 50 and 600"),
            ("WINDROW_DOCUMENTS__PAGES_AT_ONCE", "0", "between 1 and 1000"),
        ] {
            let wrong = format!("{:#}", said(&[(name, value)]).expect_err(name));
            assert!(wrong.contains(says), "{wrong}");
        }
    }
}
