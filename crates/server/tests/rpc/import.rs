//! `windrow import queueber`, from a server that speaks that protocol: another Windrow.

use std::collections::BTreeMap;
use std::process::Stdio;

use crate::bed::{Data, Server, run, windrow};

/// Imports from one server into another; whether that went well, and what was said.
fn import(from: &Server, to: &Server, arguments: &[&str]) -> (bool, String) {
    let mut command = windrow(&["import", "queueber", &from.rpc, "--to", &to.rpc, "--wait", "1"]);
    let output = command.args(arguments).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

#[test]
fn everything_visible_arrives_once_and_is_gone_there() {
    let (there, here) = (Data::new("there"), Data::new("here"));
    let (there, here) = (Server::start(&there.0), Server::start(&here.0));
    run(async {
        let client = there.client().await;
        let contents: Vec<Vec<u8>> = (0..1_234_u32).map(|at| at.to_be_bytes().to_vec()).collect();
        let items: Vec<(&[u8], u64)> = contents.iter().map(|item| (&item[..], 0)).collect();
        client.adds(&items).await.unwrap();
        client.adds(&[(b"not yet", 3_600)]).await.unwrap();
    });
    let (went_well, said) = import(&there, &here, &[]);
    assert!(went_well && said.contains("imported 1234 items into queue rpc"), "{said}");
    assert_eq!(there.stats()["pending"], 1, "what is delayed stays");
    run(async {
        let client = here.client().await;
        let mut got = BTreeMap::new();
        while got.len() < 1_234 {
            for (contents, id) in client.polls(3_600, 1_000, 0).await.unwrap().items {
                assert!(got.insert(contents, id).is_none(), "nothing arrives twice");
            }
        }
        let wanted = (0..1_234_u32).all(|at| got.contains_key(&at.to_be_bytes()[..]));
        assert!(wanted);
    });
    assert_eq!(here.stats()["pending"], 0);
    let (went_well, said) = import(&there, &here, &[]);
    assert!(went_well && said.contains("imported 0 items"), "{said}");
}

#[test]
fn an_item_whose_removal_was_lost_does_not_arrive_again() {
    let (there_data, here) = (Data::new("twice"), Data::new("once"));
    let (there, here) = (Server::start(&there_data.0), Server::start(&here.0));
    run(async { there.client().await.adds(&[(b"x", 0)]).await.unwrap() });
    // As if the first import had been killed between its commit here and the removal there: the
    // data there is what it was before.
    there.signal("-KILL");
    drop(there);
    let copy = Data::new("copy");
    for file in walk(&there_data.0) {
        let to = copy.0.join(file.strip_prefix(&there_data.0).unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(&file, to).unwrap();
    }
    for data in [&there_data, &copy] {
        let there = Server::start(&data.0);
        let (went_well, said) = import(&there, &here, &["--queue", "jobs"]);
        assert!(went_well && said.contains("imported 1 item into queue jobs"), "{said}");
        assert_eq!(there.stats()["pending"], 0, "removed there");
        assert_eq!(here.stats()["pending"], 1, "here once");
    }
}

fn walk(under: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(under).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn what_cannot_be_taken_stays_there_and_is_named() {
    let (there, here) = (Data::new("full"), Data::new("small"));
    let (there, here) = (Server::start(&there.0), Server::start(&here.0));
    run(async { there.client().await.adds(&[(b"x", 0), (b"y", 0)]).await.unwrap() });
    let nowhere = "n".repeat(200);
    let (went_well, said) = import(&there, &here, &["--queue", &nowhere]);
    assert!(!went_well && said.contains("2 items could not be taken and stayed there"), "{said}");
    assert!(said.contains("invalid: queue: has 200 bytes"), "{said}");
    assert_eq!(there.stats()["processing"], 2);
    let closed = "127.0.0.1:1";
    let output = windrow(&["import", "queueber", closed, "--to", &here.rpc]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("cannot reach 127.0.0.1:1"), "{said}");
}

#[test]
fn an_interrupted_import_finishes_what_it_has_at_hand() {
    let (there, here) = (Data::new("source"), Data::new("target"));
    let (there, here) = (Server::start(&there.0), Server::start(&here.0));
    let importing = windrow(&["import", "queueber", &there.rpc, "--to", &here.rpc, "--wait", "60"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    run(async {
        there.until_waiting(1).await;
        let pid = importing.id().to_string();
        let kill = std::process::Command::new("kill").args(["-INT", &pid]).status();
        assert!(kill.unwrap().success());
        // It waits for an item, and takes the one that comes with it.
        there.client().await.adds(&[(b"x", 0)]).await.unwrap();
    });
    let output = importing.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("imported 1 item") && said.contains("run this again"), "{said}");
    assert_eq!((&there.stats()["processing"], &here.stats()["pending"]), (&0.into(), &1.into()));
}
