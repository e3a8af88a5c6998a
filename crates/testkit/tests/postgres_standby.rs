//! A synchronous standby has everything that anybody was told of.

use std::time::Duration;

use windrow_core::command::NewItem;
use windrow_core::item::Body;
use windrow_core::ports::{Now, Store as _};
use windrow_core::{Command, Request, RequestId};
use windrow_store::postgres::{Options, Postgres as Store};
use windrow_testkit::servers::process::until;
use windrow_testkit::servers::{Durability, Postgres, Stop, Version};

const PATIENCE: Duration = Duration::from_secs(60);
/// Long enough for an answer, if there is to be one.
const A_WHILE: Duration = Duration::from_secs(2);

#[test]
fn an_answer_that_is_given_again_is_as_durable_as_the_first() {
    // The first try was committed here and waited for the standby when its connection was ended.
    // The second found the answer, wrote nothing, and so waited for nobody.
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut primary = Postgres::start(Version::V15, Durability::Real).expect("it starts");
    primary.create_database("d").expect("it is made");
    let store = runtime.block_on(Store::open(Options::new(primary.url("d")))).expect("it opens");
    let item = || Command::Enqueue(vec![NewItem::new(Body::new("t", "q"))]);
    let first = runtime.block_on(store.submit(vec![item().into()], Now::Database));
    first.expect("names have their numbers now");
    let mut standby = primary.standby().expect("it is copied");
    standby.stop(Stop::Fast).expect("it is away");

    let request = Request { id: Some(RequestId(7)), command: item() };
    let asked = store.clone();
    let asking = runtime.spawn(async move { asked.submit(vec![request], Now::Database).await });
    let waiting = "from pg_stat_activity where wait_event = 'SyncRep'";
    let waits = || primary.psql("d", &format!("select count(*) {waiting}")).expect("it answers");
    assert!(until(PATIENCE, || waits() == "1"), "the commit waits for the standby");
    let end = format!("select pg_terminate_backend(pid) {waiting}");
    primary.psql("d", &end).expect("it is ended");
    let acknowledged = until(A_WHILE, || asking.is_finished())
        && runtime.block_on(asking).is_ok_and(|answered| answered.is_ok());

    primary.stop(Stop::Kill).expect("it dies");
    standby.start_again().expect("it is back");
    standby.promote().expect("it takes over");
    let items = standby.psql("d", "select count(*) from windrow.items").expect("it answers");
    assert!(!acknowledged || items == "2", "acknowledged, and {items} of 2 items are there");
}

#[test]
fn a_store_with_two_addresses_follows_the_one_that_takes_writes() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut primary = Postgres::start(Version::V15, Durability::Real).expect("it starts");
    primary.create_database("d").expect("it is made");
    let standby = primary.standby().expect("it is copied");
    let both = [&standby, &primary].map(|server| format!("127.0.0.1:{}", server.port()));
    let options = Options::new(format!("postgres://postgres@{}/d", both.join(",")));
    let store = runtime.block_on(Store::open(options)).expect("one of them takes writes");
    let enqueue = || {
        let command = Command::Enqueue(vec![NewItem::new(Body::new("t", "q"))]);
        runtime.block_on(store.submit(vec![command.into()], Now::Database))
    };
    enqueue().expect("the primary takes it");
    primary.stop(Stop::Kill).expect("it dies");
    let error = enqueue().expect_err("nobody takes it");
    assert!(error.to_string().contains("cannot be reached at"), "{error}");
    standby.promote().expect("it takes over");
    // Nobody stands by for it yet.
    standby.psql("postgres", "alter system reset synchronous_standby_names").expect("it is set");
    standby.psql("postgres", "select pg_reload_conf()").expect("it is told");
    enqueue().expect("the new primary takes it");
    let items = standby.psql("d", "select count(*) from windrow.items").expect("it answers");
    assert_eq!(items, "2");
}
