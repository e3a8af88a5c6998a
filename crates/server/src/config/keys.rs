//! The keys that exist.

use windrow_wire::read::distance;

/// One thing that can be configured.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    /// None if it is worked out when the server starts.
    pub(crate) default: Option<&'static str>,
    /// It may hold a password, and is never shown.
    pub(crate) is_secret: bool,
    pub(crate) what: &'static str,
}

const fn key(name: &'static str, default: Option<&'static str>, what: &'static str) -> Key {
    Key { name, default, is_secret: false, what }
}

pub(crate) const KEYS: &[Key] = &[
    key(
        "auth.token_file",
        None,
        "a file that holds an admin's token, which the server accepts besides those it keeps",
    ),
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
    key(
        "server.hosts",
        None,
        "names by which the server may be called besides its addresses, with commas between them",
    ),
    key("server.tls_cert", None, "the server's certificate, in PEM; with it HTTP is HTTPS"),
    key("server.tls_key", None, "the key of that certificate, in PEM"),
    key(
        "store.data_dir",
        None,
        "the directory that holds the store's files; by default windrow in your state directory",
    ),
    Key {
        is_secret: true,
        ..key("store.url", None, "the database that holds the store, as postgres://…")
    },
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
];

/// The key of this name.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The key that was probably meant.
pub(super) fn near(name: &str) -> Option<&'static str> {
    let distances = KEYS.iter().map(|key| (distance(name, key.name), key.name));
    let (distance, nearest) = distances.min()?;
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
    }

    #[test]
    fn names_are_unique_and_in_order() {
        assert!(KEYS.is_sorted_by_key(|key| key.name.split('.').next()));
        for key in KEYS {
            assert_eq!(KEYS.iter().filter(|other| other.name == key.name).count(), 1);
        }
    }
}
