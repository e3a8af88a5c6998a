//! The server dies under load, and nothing acknowledged is lost. `cargo xtask crash serve` kills it
//! more often.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::path::PathBuf;

use windrow_client::Options;
use windrow_client::http::Client;
use windrow_core::Status;
use windrow_core::command::{Claim, NewItem, Outcome};
use windrow_core::item::Body;
use windrow_core::queue::Queue as _;
use windrow_testkit::crash::served::{Plant, Wanted, Wire, run};
use windrow_testkit::servers::windrow::{On, Windrow};
use windrow_testkit::servers::{Durability, Postgres, Version};

fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_windrow"))
}

fn wanted(kills: u32, stops: u32, plant: Plant) -> Wanted {
    let (program, on, wire) = (program(), On::Directory, Wire::Both);
    Wanted { program, on, wire, kills, stops, seed: 7, plant }
}

#[test]
fn nothing_acknowledged_is_lost_and_clients_go_on_by_themselves() {
    let summary = run(&wanted(6, 4, Plant::Nothing)).unwrap();
    assert_eq!((summary.kills, summary.stops, summary.checks), (6, 4, 2));
    assert!(summary.settled > 0 && summary.repeated > 0, "{summary:?}");
}

#[test]
fn a_server_that_forgets_what_it_acknowledged_is_caught() {
    let error = format!("{:#}", run(&wanted(5, 0, Plant::Forgets)).unwrap_err());
    // Whichever is seen first: an item that is gone, or a worker that holds one.
    assert!(error.contains("lost") || error.contains("not_found"), "{error}");
}

#[test]
fn a_producer_that_asks_again_under_another_id_is_caught() {
    for wire in [Wire::Http, Wire::Rpc] {
        let wanted = Wanted { wire, ..wanted(40, 0, Plant::NewIds) };
        let error = format!("{:#}", run(&wanted).unwrap_err());
        assert!(error.contains("items are there"), "{error}");
    }
}

#[test]
fn of_three_servers_one_takes_in_another_works_and_the_third_shows() {
    let database = Postgres::start(Version::V15, Durability::Real).unwrap();
    database.create_database("queue").unwrap();
    let on = || On::Database(database.url("queue"));
    let servers = [(); 3].map(|()| Windrow::start(&program(), on()).unwrap());
    let clients = servers.each_ref().map(|server| Client::new(&server.url(), Options::default()));
    let [a, b, c] = clients.map(Result::unwrap);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let waiting = tokio::spawn({
            let b = b.clone();
            async move { b.claim(Claim::new("worker", "q", 1), 60_000, None).await }
        });
        let new = NewItem::new(Body::new("tenant", "q"));
        let id = a.enqueue(vec![new], None).await.unwrap().remove(0).unwrap().id;
        let granted = waiting.await.unwrap().unwrap().expect("B is woken");
        assert_eq!(granted.items[0].id, id);
        assert_eq!(c.inspect(id).await.unwrap().unwrap().status, Status::Processing);
        let done = vec![(id, Outcome::complete())];
        b.settle(granted.lease, done, None).await.unwrap().remove(0).unwrap();
        assert_eq!(c.inspect(id).await.unwrap().unwrap().status, Status::Completed);
    });
}
