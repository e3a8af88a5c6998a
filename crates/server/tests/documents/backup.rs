//! Backups of a server that has documents: what the restored queue calls done is in the restored
//! catalog, and what it does not know is done all the same.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;
use windrow_core::ItemId;
use windrow_core::item::{End, State};
use windrow_pipelines::catalog::{Catalog as _, GenerationKey, GenerationState, PageKey, Sqlite};
use windrow_store::embedded::disk::RealDisk;
use windrow_store::embedded::overlay::Overlay;
use windrow_store::embedded::{Embedded, Options};
use windrow_store::moving::{Export as _, Moved};

use crate::file::{chronicle, pdf};
use crate::killed::fingerprint;
use crate::model::Model;
use crate::running::{Data, Server};
use crate::{add, first, get, in_state, until};

const DOCUMENTS: usize = 4;
const PAGES: usize = 50;
/// As long as the log needs at most to say what time it is, and a little more.
const MOMENT_MS: u64 = 1_600;

/// Runs the program; whether it succeeded, and what it said.
pub(crate) fn run(words: &[&str]) -> (bool, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_windrow")).args(words).output().unwrap();
    let said = String::from_utf8([out.stdout, out.stderr].concat()).unwrap();
    (out.status.success(), said)
}

#[track_caller]
pub(crate) fn windrow(words: &[&str]) -> String {
    let (is_good, said) = run(words);
    assert!(is_good, "windrow {words:?}: {said}");
    said
}

#[track_caller]
pub(crate) fn refused(words: &[&str]) -> String {
    let (is_good, said) = run(words);
    assert!(!is_good, "windrow {words:?}: {said}");
    said
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A server on a directory that stays when it goes.
pub(crate) fn serve(store: &Path, variables: &[(&str, &str)]) -> Server {
    Server::at(&["--data-dir", text(store)], variables, Data::new("kept-server"))
}

fn backup(server: &Server, archive: &Path) -> Value {
    let url = format!("http://{}", server.address);
    let said = windrow(&["backup", text(archive), "--server", &url, "--json"]);
    serde_json::from_str(&said).unwrap()
}

fn restore(archive: &Path, to: &Path, at: Option<&str>) -> Value {
    let mut words = vec!["restore", text(archive), "--data-dir", text(to), "--json"];
    at.iter().for_each(|at| words.extend(["--at", at]));
    serde_json::from_str(&windrow(&words)).unwrap()
}

/// Every item of a queue, without a change to it.
fn items(store: &Path) -> Vec<Moved> {
    let disk = Overlay::over(Arc::new(RealDisk::open_to_read(store).unwrap()));
    let store = Embedded::open(Arc::new(disk), Options::default()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(store.outgoing().moved(None, usize::MAX)).unwrap()
}

/// What a queue calls completed and a catalog does not have, and how much was looked at.
fn missing(store: &Path, catalog: &Path) -> (Vec<String>, usize) {
    let (mut missing, mut looked) = (Vec::new(), 0);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _within = runtime.enter();
    let catalog = Sqlite::open(catalog).unwrap();
    for Moved { item, body, .. } in items(store) {
        if item.state != State::Done(End::Completed) || &*body.kind == "chunk" {
            continue;
        }
        looked += 1;
        let about: Value = serde_json::from_str(body.metadata.as_deref().unwrap()).unwrap();
        let document: Uuid = about["document"].as_str().unwrap().parse().unwrap();
        let generation = about["generation"].as_u64().unwrap() as u32;
        let is_there = runtime.block_on(async {
            if &*body.kind == "document" {
                let at = GenerationKey { document, generation };
                let known = catalog.generation("default", at).await.unwrap();
                return known.is_some_and(|known| known.state == GenerationState::Live);
            }
            let number = about["page"].as_u64().unwrap() as u32;
            let page = PageKey { document, generation, number };
            let chunks = catalog.chunks("default", page).await.unwrap();
            let done = chunks.iter().all(|chunk| chunk.embedded_by.is_some() && chunk.is_linked);
            !chunks.is_empty() && done
        });
        if !is_there {
            missing.push(about.to_string());
        }
    }
    (missing, looked)
}

/// Lets time pass on the clock that the server has.
fn wait(server: &Server, ms: u64) {
    let claim = json!({"queues": ["nowhere"], "worker": "clock", "wait_ms": ms});
    server.send("POST", "/api/v1/claims", &claim);
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

fn towns(document: usize) -> Vec<u8> {
    pdf(PAGES, |page| chronicle(1_000 * document + page))
}

fn add_all(server: &Server) -> Vec<Value> {
    let add = |document| {
        let query = format!("?name=towns-{document}.pdf");
        add(server, &query, "application/pdf", &towns(document))
    };
    (1..=DOCUMENTS).map(add).collect()
}

/// The only catalog of an archive, or the last of several.
fn catalogs(archive: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(archive.join("0001")).unwrap().map(|file| file.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "db")).collect()
}

#[test]
fn what_a_backup_under_load_calls_done_is_in_its_catalog_and_the_rest_is_finished_after_a_restore()
{
    let (model, place) = (Model::start(), Data::new("backup-load"));
    let calm = place.0.join("calm");
    let mut server = serve(&calm, &model.variables());
    add_all(&server).iter().for_each(|added| drop(in_state(&server, added, "live")));
    server.process.stop();
    let expected = fingerprint(&calm);

    let (store, archive) = (place.0.join("store"), place.0.join("archive"));
    let mut server = serve(&store, &model.variables());
    let added = add_all(&server);
    let (mut rounds, mut looked_at) = (Vec::new(), 0);
    loop {
        let to = place.0.join(format!("round-{}", rounds.len()));
        backup(&server, &archive);
        assert_eq!(restore(&archive, &to, None)["documents"], json!(DOCUMENTS));
        let (faults, looked) = missing(&to, &to.join("catalog.db"));
        assert_eq!(faults, Vec::<String>::new(), "round {} of {looked}", rounds.len());
        looked_at = looked_at.max(looked);
        rounds.push(to);
        let done = (rounds.len() * PAGES / 2).min(DOCUMENTS * PAGES);
        if looked >= DOCUMENTS * PAGES / 2 || rounds.len() > 40 {
            break;
        }
        until(&server, "progress", || {
            let pages = added.iter().map(|added| {
                let path = format!("/queue/{}", added["item"].as_str().unwrap());
                let phases = get(&server, &path)["children"]["phases"].clone();
                let ocr = phases.as_array()?.iter().find(|phase| phase["name"] == "ocr")?.clone();
                ocr["completed"].as_u64()
            });
            (pages.flatten().sum::<u64>() as usize >= done).then_some(())
        });
    }
    server.process.kill();
    assert!(looked_at > PAGES, "{looked_at} were looked at");
    // A catalog that is older than the queue is what must not be: this sees it.
    let (restored, stale) = (rounds.last().unwrap(), rounds.first().unwrap());
    let (faults, _) = missing(restored, &stale.join("catalog.db"));
    assert!(faults.len() > PAGES / 2, "an older catalog has all of it but {faults:?}");

    let mut server = serve(restored, &model.variables());
    added.iter().for_each(|added| drop(in_state(&server, added, "live")));
    for document in 1..=DOCUMENTS {
        let (page, name) = (7 * document, format!("towns-{document}.pdf"));
        let words = format!("town number {}", 1_000 * document + page);
        let path = format!("/search?q={}&limit=20", words.replace(' ', "+"));
        let hits = get(&server, &path)["hits"].as_array().unwrap().clone();
        let is_it = |hit: &Value| hit["name"] == json!(name) && hit["page"] == json!(page);
        assert!(hits.iter().any(is_it), "{words} is not found: {hits:?}");
    }
    let said = server.process.stop();
    assert!(!said.contains("panicked"), "{said}");
    assert_eq!(fingerprint(restored), expected, "as if nothing had happened");
}

#[test]
fn what_the_queue_of_a_past_moment_does_not_know_is_built_and_let_go_and_what_was_deleted_stays_so()
{
    let place = Data::new("backup-at");
    let (store, archive) = (place.0.join("store"), place.0.join("archive"));
    let mut server = serve(&store, &[]);
    let note = |server: &Server, name: &str| {
        let text = format!("# Notes\n\nThe {name} of the lighthouse is kept dry.\n");
        add(server, &format!("?name={name}.md"), "text/markdown", text.as_bytes())
    };
    let [stays, going, gone] = ["rope", "lamp", "clock"].map(|name| note(&server, name));
    [&stays, &going, &gone].iter().for_each(|added| drop(in_state(&server, added, "live")));
    wait(&server, MOMENT_MS);
    let moment = now();
    wait(&server, MOMENT_MS);
    let path = |added: &Value| format!("/api/v1/documents/{}", added["id"].as_str().unwrap());
    let delete = |server: &Server, added: &Value| {
        assert_eq!(server.send("DELETE", &path(added), &Value::Null).status, 202);
    };
    let is_gone = |server: &Server, added: &Value| {
        until(server, "the end of it", || (server.get(&path(added)).status == 404).then_some(()));
    };
    delete(&server, &gone);
    is_gone(&server, &gone);
    let changed = b"# Notes\n\nThe rope was replaced by a chain.\n";
    let changed = add(&server, "?name=rope.md", "text/markdown", changed);
    in_state(&server, &changed, "live");
    server.process.stop();
    // Nobody works here: what is begun stays begun.
    let mut server = serve(&store, &[("WINDROW_DOCUMENTS__ENABLED", "false")]);
    delete(&server, &going);
    let new = note(&server, "ladder");
    backup(&server, &archive);
    server.process.kill();

    let restored = place.0.join("restored");
    let said = restore(&archive, &restored, Some(&moment));
    assert_eq!((&said["documents"], &said["files_missing"]), (&json!(3), &json!(0)), "{said}");
    let known: Vec<ItemId> = items(&restored).iter().map(|one| one.item.id).collect();
    let item = |added: &Value| added["item"].as_str().unwrap().parse::<ItemId>().unwrap();
    assert!(known.contains(&item(&stays)) && !known.contains(&item(&new)), "{known:?}");
    let mut server = serve(&restored, &[]);
    in_state(&server, &new, "live");
    is_gone(&server, &going);
    assert_eq!(first(&server, "ladder"), Some(("ladder.md".to_owned(), 1)));
    assert_eq!(first(&server, "chain"), Some(("rope.md".to_owned(), 1)), "as the catalog has it");
    assert_eq!(server.get(&path(&gone)).status, 404, "what was deleted stays deleted");
    // It was enqueued by the server, once.
    let shown = get(&server, &format!("/documents/{}", new["id"].as_str().unwrap()));
    assert_eq!((&shown["state"], &shown["generation"]), (&json!("live"), &json!(1)), "{shown}");
    let said = server.process.stop();
    assert!(said.contains("enqueued documents that nobody worked on documents=2"), "{said}");
    let of_it =
        items(&restored).into_iter().filter(|one| one.body.key.as_deref() == new["id"].as_str());
    assert_eq!(of_it.count(), 1);
}

/// An archive with one backup of a server that has a document.
fn archive_of(test: &str) -> (Data, PathBuf, Server) {
    let place = Data::new(test);
    let (store, archive) = (place.0.join("store"), place.0.join("archive"));
    let server = serve(&store, &[]);
    let added = add(&server, "?name=a.md", "text/markdown", b"# A\n\nA lighthouse.\n");
    in_state(&server, &added, "live");
    backup(&server, &archive);
    (place, archive, server)
}

#[test]
fn a_catalog_that_did_not_change_is_copied_once_and_leaves_nothing_beside_the_store() {
    let (place, archive, mut server) = archive_of("backup-same");
    let one = catalogs(&archive);
    assert_eq!(one.len(), 1);
    backup(&server, &archive);
    assert_eq!(catalogs(&archive), one, "it is the same file");
    let added = add(&server, "?name=b.md", "text/markdown", b"# B\n\nA harbour.\n");
    in_state(&server, &added, "live");
    backup(&server, &archive);
    assert_eq!(catalogs(&archive).len(), 2);
    assert!(!place.0.join("store/catalog.copy").exists());
    // What a killed server left does not matter.
    std::fs::write(place.0.join("store/catalog.copy"), "half of a copy").unwrap();
    backup(&server, &archive);
    let (to, again) = (place.0.join("to"), place.0.join("again"));
    assert_eq!(restore(&archive, &to, None)["documents"], json!(2));
    // Nor does it whether there is a server, or how it ended.
    server.process.kill();
    windrow(&["backup", text(&archive), "--data-dir", text(&place.0.join("store"))]);
    assert_eq!(restore(&archive, &again, None)["documents"], json!(2));
    assert_eq!(fingerprint(&again), fingerprint(&to));
}

#[test]
fn a_damaged_or_missing_catalog_is_found_before_anybody_relies_on_it() {
    let (place, archive, _server) = archive_of("backup-damage");
    let (path, to) = (catalogs(&archive).remove(0), place.0.join("to"));
    let whole = std::fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 4;
    for (bytes, part) in [(flipped, "hash to"), (whole[..whole.len() - 1].to_vec(), "hash to")] {
        std::fs::write(&path, bytes).unwrap();
        let said = refused(&["restore", text(&archive), "--data-dir", text(&to)]);
        assert!(said.contains(part) && said.contains("catalog-"), "{said}");
        assert!(!to.exists(), "nothing is left of it");
    }
    std::fs::remove_file(&path).unwrap();
    let said = refused(&["restore", text(&archive), "--data-dir", text(&to)]);
    assert!(said.contains("catalog-"), "{said}");
    std::fs::write(&path, whole).unwrap();
    assert_eq!(restore(&archive, &to, None)["documents"], json!(1));
}

#[test]
fn an_archive_from_before_there_were_catalogs_is_restored_and_gone_on_with() {
    let (place, archive, server) = archive_of("backup-old");
    let list = archive.join("backup.json");
    let mut old: Value = serde_json::from_str(&std::fs::read_to_string(&list).unwrap()).unwrap();
    old["version"] = json!(1);
    old["chains"][0]["points"][0].as_object_mut().unwrap().remove("catalog").unwrap();
    std::fs::write(&list, old.to_string()).unwrap();
    std::fs::remove_file(catalogs(&archive).remove(0)).unwrap();
    let (before, after) = (place.0.join("before"), place.0.join("after"));
    assert_eq!(restore(&archive, &before, None).get("documents"), None);
    assert!(!before.join("catalog.db").exists() && !items(&before).is_empty());
    assert_eq!(backup(&server, &archive)["begins_anew"], json!(false));
    assert_eq!(restore(&archive, &after, None)["documents"], json!(1));
}
