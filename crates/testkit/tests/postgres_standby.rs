//! A synchronous standby has everything that anybody was told of.

use windrow_core::Command;
use windrow_core::command::NewItem;
use windrow_core::item::Body;
use windrow_core::ports::{Now, Store as _};
use windrow_store::postgres::{Options, Postgres as Store};
use windrow_testkit::servers::{Durability, Postgres, Stop, Version};

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
    assert!(error.to_string().contains("cannot be reached now"), "{error}");
    standby.promote().expect("it takes over");
    // Nobody stands by for it yet.
    standby.psql("postgres", "alter system reset synchronous_standby_names").expect("it is set");
    standby.psql("postgres", "select pg_reload_conf()").expect("it is told");
    enqueue().expect("the new primary takes it");
    let items = standby.psql("d", "select count(*) from windrow.items").expect("it answers");
    assert_eq!(items, "2");
}
