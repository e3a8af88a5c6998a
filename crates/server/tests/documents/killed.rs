//! The server is killed again and again while it reads a long document. In the end everything is as
//! if nothing had happened, and nothing was computed again but what was in work.
//!
//! `WINDROW_KILLS` says how often (`cargo xtask crash documents` kills it 50 times).

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use windrow_pipelines::catalog::{Catalog as _, Hash, Scope, Sqlite};

use crate::file::{chronicle, pdf};
use crate::model::Model;
use crate::running::{Data, Server};
use crate::{add, first, get, until};

/// Pages of the document, and kills of a short run.
const PAGES: usize = 300;
const KILLS: usize = 4;
/// What may be in work at once: pages; texts that are being embedded; texts that are being read.
const PAGES_AT_ONCE: usize = 2;
const EMBEDDED_AT_ONCE: usize = 2 * 128;
const READ_AT_ONCE: usize = 16;

/// A place for a server whose `pdftotext` writes down what it is asked.
struct Place {
    data: Data,
    path: String,
}

impl Place {
    fn new(test: &str) -> Place {
        let data = Data::new(test);
        let (bin, log) = (data.0.join("bin"), data.0.join("asked"));
        std::fs::create_dir(&bin).unwrap();
        let real = found("pdftotext");
        let script = format!(
            "#!/bin/sh\necho \"$2\" >> {}\nexec {} \"$@\"\n",
            log.display(),
            real.display()
        );
        let wrapper = bin.join("pdftotext");
        std::fs::write(&wrapper, script).unwrap();
        std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        Place { data, path }
    }

    fn store(&self) -> PathBuf {
        self.data.0.join("store")
    }

    /// With a model, or with what is built in.
    fn server(&self, model: Option<&Model>) -> Server {
        let mut variables = model.map(Model::variables).unwrap_or_default();
        let at_once = PAGES_AT_ONCE.to_string();
        variables.push(("WINDROW_DOCUMENTS__PAGES_AT_ONCE", &at_once));
        variables.push(("PATH", &self.path));
        let store = self.store();
        // The directory goes with the place, not with the server.
        let flags = ["--data-dir", store.to_str().unwrap()];
        Server::at(&flags, &variables, Data::new("killed-server"))
    }

    /// How often each page was read.
    fn read(&self) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for page in std::fs::read_to_string(self.data.0.join("asked")).unwrap().lines() {
            *counts.entry(page.to_owned()).or_default() += 1;
        }
        counts
    }
}

fn found(program: &str) -> PathBuf {
    let path = std::env::var("PATH").unwrap();
    let mut places = path.split(':').map(|dir| Path::new(dir).join(program));
    places.find(|place| place.is_file()).expect("poppler-utils is installed")
}

/// Everything that is live, whatever its ids.
pub(crate) fn fingerprint(store: &Path) -> Hash {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let catalog = Sqlite::open(&store.join("catalog.db")).unwrap();
        catalog.fingerprint(&Scope::new("default", "default")).await.unwrap()
    })
}

/// Waits for the end of the document, killing the server so often on the way. Says how often that
/// was.
fn ingest(place: &Place, model: Option<&Model>, kills: usize) -> usize {
    let mut server = place.server(model);
    let added = add(&server, "?name=chronicle.pdf", "application/pdf", &pdf(PAGES, chronicle));
    let (id, item) = (added["id"].as_str().unwrap(), added["item"].as_str().unwrap());
    let mut killed = 0;
    for kill in 0..kills {
        // Each time a little further: with so many pages, chunks and links done.
        let done = (kill + 1) * 3 * PAGES / (kills + 1);
        let is_over = until(&server, "progress", || {
            let shown = get(&server, &format!("/documents/{id}"));
            if shown["state"] == "live" {
                return Some(true);
            }
            let tree = get(&server, &format!("/queue/{item}"));
            let phases = tree["children"]["phases"].as_array()?;
            let counted = |phase: &&serde_json::Value| phase["name"] != "chunk";
            let completed = phases.iter().filter(counted).map(|phase| &phase["completed"]);
            let all = completed.filter_map(serde_json::Value::as_u64).sum::<u64>();
            (all as usize >= done).then_some(false)
        });
        if is_over {
            break;
        }
        server.process.kill();
        killed += 1;
        server = place.server(model);
    }
    // The catalog says so first, and then the item.
    until(&server, "the end", || {
        (get(&server, &format!("/documents/{id}"))["state"] == "live").then_some(())
    });
    until(&server, "the end of its item", || {
        let shown = get(&server, &format!("/queue/{item}"));
        let is_open = shown["status"] == "pending" || shown["status"] == "processing";
        assert!(is_open || shown["status"] == "completed", "{shown}");
        (!is_open).then_some(())
    });
    assert_eq!(first(&server, "town number 17"), Some(("chronicle.pdf".to_owned(), 17)));
    let stopped = server.process.stop();
    assert!(!stopped.contains("panicked"), "{stopped}");
    killed
}

/// How much was done more than once.
fn again(counts: &HashMap<String, usize>) -> usize {
    counts.values().map(|count| count - 1).sum()
}

fn kills() -> usize {
    std::env::var("WINDROW_KILLS").map_or(KILLS, |kills| kills.parse().unwrap())
}

#[test]
fn a_server_that_is_killed_on_the_way_makes_the_same_of_what_it_links_in_batches() {
    let (calm, place, kills) = (Place::new("batches-calm"), Place::new("batches"), kills());
    assert_eq!(ingest(&calm, None, 0), 0);
    let killed = ingest(&place, None, kills);
    assert!(killed > kills / 2, "only {killed} of {kills} kills came in time");
    let (made, expected) = (fingerprint(&place.store()), fingerprint(&calm.store()));
    assert_eq!(made, expected, "texts, vectors or graph differ");
    let (repeated, most) = (again(&place.read()), PAGES_AT_ONCE * killed);
    eprintln!("{killed} kills; repeated {repeated} pages; at most {most}");
    assert!(repeated <= most, "{repeated} pages were read again, of at most {most}");
}

#[test]
fn a_server_that_is_killed_on_the_way_makes_the_same_and_repeats_only_what_was_in_work() {
    let kills = kills();
    let (calm, model) = (Place::new("killed-calm"), Model::start());
    assert_eq!(ingest(&calm, Some(&model), 0), 0);
    let expected = fingerprint(&calm.store());
    assert_eq!(again(&calm.read()) + again(&model.asked().embedded), 0, "nobody was killed");

    let (place, model) = (Place::new("killed"), Model::start());
    let killed = ingest(&place, Some(&model), kills);
    assert!(killed > kills / 2, "only {killed} of {kills} kills came in time");
    assert_eq!(fingerprint(&place.store()), expected, "texts, vectors or graph differ");
    let asked = model.asked();
    let repeated = [again(&place.read()), again(&asked.embedded), again(&asked.read)];
    let most = [PAGES_AT_ONCE, EMBEDDED_AT_ONCE, READ_AT_ONCE].map(|at_once| at_once * killed);
    eprintln!("{killed} kills; repeated {repeated:?} of pages, vectors, links; at most {most:?}");
    assert!(repeated.iter().zip(most).all(|(is, most)| *is <= most), "{repeated:?} of {most:?}");
    assert_eq!(place.read().len(), PAGES);
}

#[test]
fn what_a_killed_server_held_is_in_line_again_when_it_starts_and_cost_no_attempt() {
    let data = Data::new("killed-left");
    let (bin, store) = (data.0.join("bin"), data.0.join("store"));
    std::fs::create_dir(&bin).unwrap();
    // A tool that never ends, until it is taken away.
    let slow = bin.join("pdftotext");
    std::fs::write(&slow, "#!/bin/sh\nexec sleep 600\n").unwrap();
    std::fs::set_permissions(&slow, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let start = |path: &str| {
        let flags = ["--data-dir", store.to_str().unwrap()];
        Server::at(&flags, &[("PATH", path)], Data::new("killed-left-server"))
    };
    let mut server = start(&path);
    let added = add(&server, "?name=towns.pdf", "application/pdf", &pdf(1, chronicle));
    let item = added["item"].as_str().unwrap();
    let page = until(&server, "a page in work", || {
        let tree = get(&server, &format!("/queue/{item}/tree"));
        let page = tree["children"].as_array()?.first()?.clone();
        (page["status"] == "processing").then_some(page)
    });
    server.process.kill();
    std::fs::remove_file(&slow).unwrap();
    let server = start(&path);
    crate::in_state(&server, &added, "live");
    let shown = get(&server, &format!("/queue/{}", page["id"].as_str().unwrap()));
    assert_eq!(shown["stages"][0]["attempts"], json!(1), "{shown}");
}
