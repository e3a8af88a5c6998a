//! A server on either store, and the words to work with it.

use serde_json::{Value, json};
use windrow_testkit::servers::postgres::{Durability, Postgres, Version};

use crate::running::{Data, Reply, Server};

/// A running server, and the database that it may be on.
pub(crate) struct Rig {
    pub(crate) server: Server,
    database: Option<Postgres>,
}

/// Work under a lease.
pub(crate) struct Held {
    pub(crate) id: String,
    pub(crate) lease: String,
}

impl Rig {
    pub(crate) fn embedded(test: &str) -> Rig {
        Rig { server: Server::start(&format!("seeds-{test}")), database: None }
    }

    pub(crate) fn postgres(test: &str) -> Rig {
        let database = Postgres::start(Version::V15, Durability::Real).unwrap();
        database.create_database("queue").unwrap();
        let data = Data::new(&format!("seeds-pg-{test}"));
        let url = format!("postgres://postgres@127.0.0.1:{}/queue", database.port());
        let server = Server::at(&["--store", &url], &[], data);
        Rig { server, database: Some(database) }
    }

    /// The same test on both.
    pub(crate) fn both(test: &str, check: impl Fn(&Rig)) {
        check(&Rig::embedded(test));
        check(&Rig::postgres(test));
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> Reply {
        self.server.send(method, &format!("/api/v1{path}"), body)
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        let reply = self.ask("GET", path, &Value::Null);
        assert_eq!(reply.status, 200, "{path}: {}", reply.json());
        reply.json()
    }

    #[track_caller]
    pub(crate) fn does(&self, method: &str, path: &str, body: Value) -> Value {
        let reply = self.ask(method, path, &body);
        assert!(reply.status < 300, "{method} {path}: {} {}", reply.status, reply.json());
        reply.json()
    }

    /// Asserts that something is refused so, and says why.
    #[track_caller]
    pub(crate) fn refuses(&self, method: &str, path: &str, body: Value, is: (u16, &str)) -> String {
        let reply = self.ask(method, path, &body);
        let problem = reply.json();
        let code = problem["code"].as_str().unwrap_or_default();
        assert_eq!((reply.status, code), is, "{method} {path}: {problem}");
        problem["detail"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn add(&self, queue: &str, item: Value) -> String {
        let added = self.does("POST", &format!("/queues/{queue}/items"), item);
        added["id"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn take(&self, claim: Value) -> Held {
        let mut claim = claim;
        claim["worker"] = claim.get("worker").cloned().unwrap_or(json!("worker"));
        let granted = self.does("POST", "/claims", claim);
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{granted}")).to_owned();
        Held { id: text(&granted["items"][0]["id"]), lease: text(&granted["lease"]) }
    }

    #[track_caller]
    pub(crate) fn settle(&self, held: &Held, outcome: Value) {
        let mut outcome = outcome;
        outcome["id"] = json!(held.id);
        let path = format!("/leases/{}/settle", held.lease);
        let each = self.does("POST", &path, json!({ "items": [outcome] }));
        assert!(each[0]["error"].is_null(), "{each}");
    }

    /// All rows of a view, walked in pages of three.
    #[track_caller]
    pub(crate) fn rows(&self, view: &str, narrowed: &str) -> Vec<Value> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.get(&format!("/views/{view}?limit=3&{narrowed}&cursor={cursor}"));
            all.extend(page["rows"].as_array().unwrap().iter().cloned());
            match page["next"].as_str() {
                Some(next) => cursor = next.to_owned(),
                None => return all,
            }
        }
    }

    /// The rows of a view in the database.
    #[track_caller]
    pub(crate) fn selected(&self, query: &str) -> Vec<Value> {
        let sql = format!(
            "set timezone = 'UTC'; set search_path = windrow; \
             select coalesce(json_agg(t), '[]') from ({query}) t"
        );
        let rows = self.database.as_ref().unwrap().psql("queue", &sql).unwrap();
        serde_json::from_str(&rows).unwrap()
    }
}
