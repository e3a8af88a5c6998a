//! A folder that a server watches.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::rig::{Data, Reply, Server};

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Watched {
    server: Option<Server>,
    store: String,
    pub(crate) folder: PathBuf,
    _data: Data,
}

impl Watched {
    /// A folder `inbox` with a source of that name.
    pub(crate) fn new(test: &str, says: &Value) -> Watched {
        let data = Data::new(test);
        let (folder, store) = (data.0.join("inbox"), data.0.join("store"));
        Watched::at(data, folder, store, says)
    }

    /// One in which the store is.
    pub(crate) fn around_its_store(test: &str) -> Watched {
        let data = Data::new(test);
        let folder = data.0.join("inbox");
        let store = folder.join("store");
        Watched::at(data, folder, store, &json!({}))
    }

    fn at(data: Data, folder: PathBuf, store: PathBuf, says: &Value) -> Watched {
        fs::create_dir_all(&folder).unwrap();
        let store = store.to_str().unwrap().to_owned();
        let mut watched = Watched { server: None, store, folder, _data: data };
        watched.restart();
        let mut says = says.clone();
        says["path"] = json!(watched.folder);
        let reply = watched.put("inbox", &says);
        assert_eq!(reply.status, 200, "{}", reply.text);
        watched
    }

    /// Stops the server, if it runs, and starts it.
    pub(crate) fn restart(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
        self.server = Some(Server::start(&["--data-dir", &self.store], &[]));
    }

    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    pub(crate) fn data_dir(&self) -> &str {
        &self.store
    }

    pub(crate) fn put(&self, name: &str, says: &Value) -> Reply {
        let path = format!("/api/v1/sources/{name}");
        let json = ["content-type: application/json"];
        self.server().send("PUT", &path, &json, &says.to_string())
    }

    pub(crate) fn post(&self, verb: &str) -> Value {
        let reply = self.server().post(&format!("/api/v1/sources/inbox/{verb}"), &json!({}));
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.file(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let file = self.file(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    pub(crate) fn source(&self) -> Value {
        self.server().get("/api/v1/sources/inbox").json()
    }

    pub(crate) fn documents(&self) -> Vec<Value> {
        let all = self.server().get("/api/v1/documents").json();
        all["documents"].as_array().unwrap().clone()
    }

    pub(crate) fn document(&self, name: &str) -> Option<Value> {
        self.documents().into_iter().find(|document| document["name"] == name)
    }

    /// How many items ended, and how.
    pub(crate) fn items(&self) -> Value {
        self.server().get("/api/v1/queue/stats?queue=documents").json()
    }

    /// Waits until something is so.
    pub(crate) fn until_it(&self, what: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < end, "not in time: {what}; {}", self.source());
            // A claim where nothing ever comes is a clock that the server has anyway.
            let claim = json!({"queues": ["nowhere"], "worker": "clock", "wait_ms": 100});
            self.server().post("/api/v1/claims", &claim);
        }
    }

    /// Waits until the source is as it should be.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let is_there = |source: &Value| source["since_start"].is_object() && is_so(source);
        self.until_it(what, || is_there(&self.source()));
        self.source()
    }

    /// Waits until a word leads to a document.
    pub(crate) fn until_found(&self, word: &str, name: &str) -> Value {
        let hit = || {
            let found = self.server().get(&format!("/api/v1/search?q={word}")).json();
            let hits = found["hits"].as_array().unwrap();
            let is_meant = |hit: &&Value| {
                let text = hit["text"].as_str().unwrap().to_lowercase();
                hit["name"] == name && text.contains(word)
            };
            hits.iter().find(is_meant).cloned()
        };
        self.until_it(&format!("{word} in {name}"), || hit().is_some());
        hit().unwrap()
    }
}
