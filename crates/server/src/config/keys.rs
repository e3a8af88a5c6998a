//! The keys that exist.
//!
//! `NAME` in a key stands for any name: `workers.NAME.queues` is `workers.ingestion.queues` and
//! whatever else somebody declares.

use std::sync::LazyLock;

use windrow_wire::read::distance;

/// One thing that can be configured.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    /// None if it is worked out when the server starts.
    pub(crate) default: Option<&'static str>,
    /// It may hold a password, and is never shown.
    pub(crate) is_secret: bool,
    /// It may be an array of texts.
    pub(crate) is_list: bool,
    pub(crate) what: &'static str,
}

const fn key(name: &'static str, default: Option<&'static str>, what: &'static str) -> Key {
    Key { name, default, is_secret: false, is_list: false, what }
}

const fn list(name: &'static str, what: &'static str) -> Key {
    Key { is_list: true, ..key(name, None, what) }
}

const fn secret(name: &'static str, what: &'static str) -> Key {
    Key { is_secret: true, ..key(name, None, what) }
}

pub(crate) const KEYS: &[Key] = &[
    key(
        "auth.token_file",
        None,
        "a file that holds an admin's token, which the server accepts besides those it keeps",
    ),
    list(
        "console.redact",
        "keys in payloads, results and metadata whose values the console shows to nobody, with \
         commas between them; password, secret, token and their like unless something is said",
    ),
    key(
        "documents.allow_plain_http",
        Some("false"),
        "whether keys may go to other machines over http, where whoever listens can read them",
    ),
    key("documents.enabled", Some("true"), "whether this server reads and embeds documents"),
    key(
        "documents.embed",
        Some("built-in"),
        "who makes vectors: built-in (hashed n-grams), endpoint, or onnx (a model on this machine)",
    ),
    key("documents.embed_dimension", None, "the dimension to ask the model for"),
    key("documents.embed_model", None, "the model that makes vectors, as its endpoint calls it"),
    key(
        "documents.embed_model_dir",
        None,
        "the directory with model.onnx and tokenizer.json; needs the feature onnx",
    ),
    key("documents.embed_runtime", None, "the library of ONNX Runtime, libonnxruntime.so"),
    key("documents.embed_url", None, "its endpoint, such as http://127.0.0.1:1234/v1"),
    secret("documents.embed_key", "the key of that endpoint"),
    key(
        "documents.extract",
        Some("co-occurrence"),
        "who says what chunks are about: co-occurrence (names near each other), endpoint, or off",
    ),
    key("documents.extract_model", None, "the model that says it, as its endpoint calls it"),
    key("documents.extract_url", None, "its endpoint, such as http://127.0.0.1:1234/v1"),
    secret("documents.extract_key", "the key of that endpoint"),
    key(
        "documents.gate",
        Some("item"),
        "what a page or chunk waits for before its next phase: item (itself), or document (all \
         of its document)",
    ),
    key("documents.graph", Some("catalog"), "where the graph is: catalog, or bolt"),
    key("documents.graph_database", None, "the graph's database; else the one of its user"),
    key("documents.graph_url", None, "the graph's server, such as bolt://127.0.0.1:7687"),
    key("documents.graph_user", Some("neo4j"), "as whom the graph's server is asked"),
    secret("documents.graph_password", "the password of that user"),
    key(
        "documents.links_at_once",
        None,
        "how many chunks are read at once for what they are about; 16 by default",
    ),
    key(
        "documents.ocr",
        Some("tesseract"),
        "who reads pages that are pictures: tesseract, or vision (a model behind an endpoint)",
    ),
    key("documents.ocr_dpi", Some("150"), "the resolution at which such pages are read"),
    key("documents.ocr_languages", Some("eng"), "their languages, such as eng or deu+eng"),
    key("documents.ocr_model", None, "the model that reads them, as its endpoint calls it"),
    key("documents.ocr_url", None, "its endpoint, such as http://127.0.0.1:1234/v1"),
    secret("documents.ocr_key", "the key of that endpoint"),
    key(
        "documents.pages_at_once",
        None,
        "how many pages are read at once; as many as there are cores by default",
    ),
    Key {
        default: Some("pages,ocr,chunk,vector,graph,publish"),
        ..list(
            "documents.stages",
            "the stages of documents that this server does itself; `windrow worker --stages` does \
             the others",
        )
    },
    key(
        "documents.vectors",
        Some("built-in"),
        "where vectors are: built-in (the catalog and memory), pgvector, or qdrant",
    ),
    secret(
        "documents.vectors_url",
        "the database with pgvector, as postgres://…; by default the store's; or Qdrant's address",
    ),
    secret("documents.vectors_key", "the key of Qdrant"),
    key(
        "health.oldest_s",
        Some("3600"),
        "how many seconds work may wait before health says so; twelve times that is red",
    ),
    key(
        "health.stalled_s",
        Some("60"),
        "how many seconds nothing may happen in a queue where work waits",
    ),
    key("log.format", Some("text"), "text, or json for one object in each line"),
    key("log.level", Some("info"), "error, warn, info or debug"),
    key(
        "otel.endpoint",
        None,
        "where traces go by OTLP/HTTP, such as http://127.0.0.1:4318; needs the feature otel",
    ),
    key(
        "queue.max_attempts",
        Some("3"),
        "how often work is tried in queues whose settings do not say it; 0 for no limit",
    ),
    key(
        "queue.page_lease_s",
        Some("120"),
        "how many seconds a page or a chunk may be in work without a word from its worker",
    ),
    key(
        "queue.sweep_s",
        Some("1"),
        "how many seconds lie between two looks for what is past its keeping",
    ),
    key("server.listen", Some("127.0.0.1:7117"), "where to listen for HTTP"),
    key("server.connections_max", Some("10000"), "how many connections there may be at once"),
    key(
        "server.drain_ms",
        Some("25000"),
        "how long what is under way may take to end when the server stops",
    ),
    key(
        "server.rpc_listen",
        None,
        "where to listen for RPC, or off; by default on the port after that of server.listen",
    ),
    key("server.rpc_queue", Some("rpc"), "the queue of add, poll, remove and extend over RPC"),
    key(
        "server.rpc_frame_ms",
        Some("30000"),
        "how long a message over RPC may take to arrive, and an answer to be taken",
    ),
    key(
        "server.rpc_idle_ms",
        Some("3600000"),
        "how long a connection over RPC may be without a word and without a call under way",
    ),
    list(
        "server.hosts",
        "names by which the server may be called besides its addresses, with commas between them",
    ),
    key(
        "server.base_path",
        None,
        "the path below which a proxy shows the server and that it sends along, such as /windrow",
    ),
    key("server.tls_cert", None, "the server's certificate, in PEM; with it HTTP is HTTPS"),
    key("server.tls_key", None, "the key of that certificate, in PEM"),
    key(
        "store.data_dir",
        None,
        "the directory that holds the store's files; by default windrow in your state directory",
    ),
    secret("store.url", "the database that holds the store, as postgres://…"),
    key(
        "webhooks.allow",
        Some(""),
        "addresses and networks that webhooks may call although they are not public, also by http",
    ),
    key(
        "webhooks.roots",
        None,
        "the file with certificates that webhooks trust; else the system's",
    ),
    key("webhooks.timeout_ms", Some("10000"), "how long the receiver of a webhook may take"),
    key("workers.enabled", Some("false"), "whether the declared workers work by themselves"),
    key(
        "workers.heartbeat_s",
        Some("30"),
        "how many seconds lie between two signs of life of a worker here; less than half a lease",
    ),
    key(
        "workers.poll_s",
        Some("5"),
        "how many seconds a worker that works by itself waits for work before it asks again",
    ),
    secret("workers.secret", "who says this may run the declared workers; 32 characters or more"),
    list(
        "workers.NAME.queues",
        "the queues that this worker takes from; all but Windrow's own if none is named",
    ),
    list("workers.NAME.kinds", "the kinds of items that it takes; all if none is named"),
    list("workers.NAME.stages", "the stages that it does; all if none is named"),
    list(
        "workers.NAME.command",
        "what does the work: a program with its arguments, or a line for the shell",
    ),
    key("workers.NAME.max_jobs", Some("3"), "how many items it does when it is called"),
    key("workers.NAME.budget_s", Some("60"), "how many seconds it may take when it is called"),
    key("workers.NAME.timeout_s", None, "how many seconds one item may take"),
    key("workers.NAME.concurrency", Some("1"), "how many items it does at once by itself"),
];

/// What stands for any name.
const ANY: &str = "NAME";

impl Key {
    /// Whether it is one key, and not one for every name.
    pub(crate) fn is_one(&self) -> bool {
        !self.name.split('.').any(|part| part == ANY)
    }

    fn is(&self, name: &str) -> bool {
        let is_part = |(key, part): (&str, &str)| match key {
            ANY => is_name(part),
            _ => key == part,
        };
        let (key, said) = (self.name.split('.'), name.split('.'));
        key.clone().count() == said.clone().count() && key.zip(said).all(is_part)
    }
}

/// Whether somebody may give something this name.
fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    !text.is_empty() && text.bytes().all(is_plain)
}

/// The key of this name.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.is(name))
}

/// The names that the environment of the seeds' systems has for keys of ours.
pub(super) const SEEDS: [(&str, &str); 7] = [
    ("TASK_QUEUE_ENABLED", "workers.enabled"),
    ("TASK_QUEUE_CHECK_INTERVAL", "queue.sweep_s"),
    ("WORKER_POLL_INTERVAL", "workers.poll_s"),
    ("HEARTBEAT_INTERVAL", "workers.heartbeat_s"),
    ("STALE_TASK_TIMEOUT", "queue.page_lease_s"),
    ("MAX_TASK_RETRIES", "queue.max_attempts"),
    ("CRON_SECRET", "workers.secret"),
];

/// Variables of the environment that may hold a secret of the server.
pub(crate) fn secret_variables() -> &'static [String] {
    static ALL: LazyLock<Vec<String>> = LazyLock::new(|| {
        let secret = KEYS.iter().filter(|key| key.is_secret);
        let ours =
            |key: &Key| format!("WINDROW_{}", key.name.replace('.', "__").to_ascii_uppercase());
        let is_secret = |key: &str| find(key).is_some_and(|key| key.is_secret);
        let seeds = SEEDS.iter().filter(|(_, key)| is_secret(key));
        let mut all: Vec<String> = secret.map(ours).collect();
        all.extend(seeds.map(|(name, _)| (*name).to_owned()));
        // What the store, the supervisor and our own commands read.
        all.extend(
            ["PGPASSWORD", "NOTIFY_SOCKET", "WINDROW_TOKEN", "WINDROW_TOKEN_FILE"]
                .map(str::to_owned),
        );
        all
    });
    &ALL
}

/// The key that was probably meant.
pub(super) fn near(name: &str) -> Option<&'static str> {
    // A slip around a name is told with that name left open, also one that leaves it out.
    let open = match name.split('.').collect::<Vec<_>>()[..] {
        [first, _, last] | [first, last] => format!("{first}.{ANY}.{last}"),
        _ => name.to_owned(),
    };
    let from = |key: &Key| distance(name, key.name).min(distance(&open, key.name));
    let (distance, nearest) = KEYS.iter().map(|key| (from(key), key.name)).min()?;
    // `listen` alone is `server.listen`, and three wrong letters are still a slip.
    let part = |key: &&Key| key.name.rsplit('.').next() == Some(name);
    let whole = KEYS.iter().find(part).map(|key| key.name);
    whole.or_else(|| (distance <= 3).then_some(nearest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised() {
        assert_eq!(near("server.lisen"), Some("server.listen"));
        assert_eq!(near("listen"), Some("server.listen"));
        assert_eq!(near("database.password"), None);
        let command = Some("workers.NAME.command");
        assert_eq!(near("workers.thumbs.comand"), command);
        assert_eq!(near("worker.thumbs.command"), command);
        assert_eq!(near("workers.command"), command);
        assert_eq!(near("workers.thumbs.stage"), Some("workers.NAME.stages"));
    }

    #[test]
    fn a_key_for_every_name_is_found_by_each() {
        let name = |text| find(text).map(|key| key.name);
        assert_eq!(name("workers.thumb-nails.queues"), Some("workers.NAME.queues"));
        assert_eq!(name("workers.enabled"), Some("workers.enabled"));
        for wrong in ["workers..queues", "workers.a b.queues", "workers.queues", "workers.a.b.c"] {
            assert_eq!(name(wrong), None, "{wrong}");
        }
        for (variable, key) in SEEDS {
            assert_eq!(name(key), Some(key), "{variable}");
        }
    }

    #[test]
    fn names_are_unique_and_in_order() {
        assert!(KEYS.is_sorted_by_key(|key| key.name.split('.').next()));
        for key in KEYS {
            assert_eq!(KEYS.iter().filter(|other| other.name == key.name).count(), 1);
        }
    }
}
