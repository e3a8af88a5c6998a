//! How a database is reached: encrypted or not, through a pooler, by many at once, or not at all.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use tokio::runtime::Runtime;
use windrow_core::Command;
use windrow_core::command::NewItem;
use windrow_core::item::Body;
use windrow_core::ports::{Now, Store as _};
use windrow_store::postgres::{Error, HealthLimits, MIGRATIONS, Options, Postgres};
use windrow_testkit::model::Model;
use windrow_testkit::servers::pgbouncer::PgBouncer;
use windrow_testkit::servers::postgres::{Durability, Version};
use windrow_testkit::servers::process::until;
use windrow_testkit::servers::stores::Stores;
use windrow_testkit::servers::{self};
use windrow_testkit::stream::{World, run};

const PATIENCE: Duration = Duration::from_secs(60);

fn started(version: Version) -> Stores {
    Stores::start(version).expect("the server starts")
}

fn options(url: String) -> Options {
    let mut options = Options::new(url);
    options.accept_no_fsync = true;
    options
}

fn enqueue() -> Command {
    Command::Enqueue(vec![NewItem::new(Body::new("t", "q"))])
}

fn ten_at_once(version: Version) {
    let stores = started(version);
    stores.psql("drop schema if exists windrow cascade").expect("it is empty");
    let options = stores.options().expect("there is a database");
    let opened = stores.runtime().block_on(async {
        let opening = (0..10).map(|_| tokio::spawn(Postgres::open(options.clone())));
        let mut opened = Vec::new();
        for one in opening.collect::<Vec<_>>() {
            opened.push(one.await.expect("it does not panic").expect("it opens"));
        }
        opened
    });
    for store in &opened {
        let submitted = store.submit(vec![enqueue().into()], Now::Database);
        stores.runtime().block_on(submitted).expect("it is enqueued");
    }
    let counts = stores.runtime().block_on(opened[0].counts()).expect("they are counted");
    assert_eq!(counts.iter().map(|count| count.items).sum::<u64>(), 10);
    let steps = stores.psql("select count(*) from windrow.migrations").expect("it answers");
    assert_eq!(steps, MIGRATIONS.len().to_string());
}

#[test]
fn ten_servers_open_an_empty_database_of_postgres_15_at_once() {
    ten_at_once(Version::V15);
}

#[test]
fn ten_servers_open_an_empty_database_of_postgres_18_at_once() {
    ten_at_once(Version::V18);
}

#[test]
fn a_newer_schema_and_a_changed_one_are_refused() {
    let stores = started(Version::V15);
    drop(stores.open().expect("a store opens"));
    let refused = |sql: &str| {
        stores.psql(sql).expect("it is changed");
        stores.open_again().expect_err("it is refused").to_string()
    };
    let newer = refused("insert into windrow.migrations values (999, 'later', 'x')");
    assert!(newer.contains("step 999 (later)") && newer.contains("newer windrow"), "{newer}");
    let changed = refused(
        "delete from windrow.migrations where number = 999; \
         update windrow.migrations set checksum = 'other' where number = 1",
    );
    assert!(changed.contains("step 1 (queue)") && changed.contains("by hand"), "{changed}");
}

#[test]
fn the_way_is_encrypted_and_the_certificate_verified_as_far_as_was_asked() {
    let stores = started(Version::V15);
    let database = stores.database().expect("there is a database");
    let port = stores.server().port();
    let open = |host: &str, parameters: &str| {
        let url = format!("postgres://postgres@{host}:{port}/{database}?{parameters}");
        stores.runtime().block_on(Postgres::open(options(url)))
    };
    let plain = open("127.0.0.1", "sslmode=require").expect_err("it has no TLS").to_string();
    assert!(plain.contains("does not support TLS") && plain.contains("sslmode"), "{plain}");

    let ours = stores.server().encrypt("localhost").expect("it speaks TLS");
    let ours = ours.display();
    let is_encrypted = || {
        let sql = "select bool_and(ssl) from pg_stat_ssl join pg_stat_activity using (pid) \
                   where application_name = 'windrow'";
        stores.psql(sql).expect("it answers") == "t"
    };
    for (host, parameters) in [
        ("127.0.0.1", "sslmode=require".to_owned()),
        ("127.0.0.1", String::new()),
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={ours}")),
        ("localhost", format!("sslmode=verify-full&sslrootcert={ours}")),
    ] {
        let store = open(host, &parameters).expect("it opens");
        let submitted = store.submit(vec![enqueue().into()], Now::Database);
        stores.runtime().block_on(submitted).expect("it is enqueued");
        assert!(is_encrypted(), "{host} {parameters}");
    }
    let name = open("127.0.0.1", &format!("sslmode=verify-full&sslrootcert={ours}"));
    let name = name.expect_err("it is not its name").to_string();
    assert!(name.contains("certificate"), "{name}");

    let server = servers::Postgres::start(Version::V15, Durability::Off).expect("it starts");
    let other = server.encrypt("localhost").expect("it has another certificate");
    for mode in ["verify-ca", "verify-full", "require"] {
        let parameters = format!("sslmode={mode}&sslrootcert={}", other.display());
        let issuer = open("localhost", &parameters).expect_err("it is not known").to_string();
        assert!(issuer.contains("certificate"), "{issuer}");
    }
}

#[test]
fn what_cannot_be_reached_is_named_with_what_to_do_and_without_the_password() {
    let stores = started(Version::V15);
    let url = "postgres://me:hunter2@127.0.0.1:1/queue".to_owned();
    let error = stores.runtime().block_on(Postgres::open(Options::new(url)));
    let said = format!("{0} {0:?}", error.expect_err("nobody is there"));
    assert!(said.contains("127.0.0.1:1/queue") && said.contains("see that it runs"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn a_server_that_asks_for_a_password_is_told_from_one_that_is_not_there() {
    // It was said that it cannot be reached.
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let port = listener.local_addr().expect("it has one").port();
    let asks = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().expect("somebody comes");
        let mut startup = [0; 512];
        assert!(peer.read(&mut startup).expect("it says who it is") > 0);
        // An authentication request, eight bytes long: a password in clear text.
        peer.write_all(b"R\0\0\0\x08\0\0\0\x03").expect("it listens");
        peer.read(&mut startup).expect("it goes away")
    });
    let url = format!("postgres://me@127.0.0.1:{port}/queue?sslmode=disable");
    let runtime = Runtime::new().expect("a runtime");
    let error = runtime.block_on(Postgres::open(Options::new(url))).expect_err("it has none");
    assert!(matches!(error, Error::NoPassword { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.contains("asks for a password") && said.contains("PGPASSWORD"), "{said}");
    asks.join().expect("it was asked");
}

#[test]
fn who_waits_too_long_for_a_connection_is_told_so() {
    let stores = started(Version::V15);
    drop(stores.open().expect("a store opens"));
    let mut options = stores.options().expect("there is a database");
    options.connections = 1;
    options.wait = Some(Duration::from_millis(300));
    let store = stores.runtime().block_on(Postgres::open(options)).expect("it opens");
    std::thread::scope(|scope| {
        let database = stores.database().expect("there is a database");
        let held = "begin; lock table windrow.store; select pg_sleep(600)";
        let server = stores.server();
        scope.spawn(move || server.psql(&database, held));
        let asked = "select count(*) from pg_stat_activity where query like '%pg_sleep(600)%' \
                     and wait_event = 'PgSleep'";
        assert!(until(PATIENCE, || stores.psql(asked).is_ok_and(|count| count == "1")));
        let submit = || {
            let store = store.clone();
            async move { store.submit(vec![enqueue().into()], Now::Database).await }
        };
        let first = stores.runtime().spawn(submit());
        let waits = "select count(*) from pg_locks where not granted";
        assert!(until(PATIENCE, || stores.psql(waits).is_ok_and(|count| count != "0")));
        let second = stores.runtime().block_on(submit()).expect_err("there is no connection");
        let said = second.to_string();
        assert!(said.contains("all 1 connections") && said.contains("allow more"), "{said}");
        let end = "select pg_terminate_backend(pid) from pg_stat_activity \
                   where wait_event = 'PgSleep'";
        stores.psql(end).expect("it ends");
        stores.runtime().block_on(first).expect("no panic").expect("it had the connection");
    });
}

#[test]
fn an_old_snapshot_is_named_as_what_holds_back_vacuum() {
    let stores = started(Version::V15);
    let store = stores.open().expect("a store opens");
    let health = |limits| stores.runtime().block_on(store.health(limits)).expect("it answers");
    assert!(health(HealthLimits::default()).is_empty());
    std::thread::scope(|scope| {
        let (server, database) = (stores.server(), stores.database().expect("a database"));
        let pin = "begin isolation level repeatable read; select 1; select pg_sleep(600)";
        scope.spawn(move || server.psql(&database, pin));
        let limits = HealthLimits { age: Duration::ZERO, transactions: u64::MAX };
        assert!(until(PATIENCE, || !health(limits).is_empty()), "it is noticed");
        let said = health(limits).join("\n");
        assert!(said.contains("psql") && said.contains("holds back vacuum"), "{said}");
        assert!(health(HealthLimits::default()).is_empty(), "it is not old yet");
        let end = "select pg_terminate_backend(pid) from pg_stat_activity \
                   where wait_event = 'PgSleep'";
        stores.psql(end).expect("it ends");
    });
}

#[test]
fn a_server_that_may_lose_what_it_said_is_refused_or_warned_of() {
    let stores = started(Version::V15);
    let mut options = stores.options().expect("there is a database");
    options.accept_no_fsync = false;
    let refused = stores.runtime().block_on(Postgres::open(options));
    let refused = refused.expect_err("fsync is off").to_string();
    assert!(refused.contains("fsync = off"), "{refused}");
    let store = stores.open().expect("it is accepted in tests");
    assert!(store.warnings().iter().any(|said| said.contains("synchronous_commit is off")));
}

#[test]
fn through_a_pooler_a_store_says_what_the_model_says() {
    let stores = started(Version::V15);
    let bouncer = PgBouncer::start(stores.server()).expect("the pooler starts");
    let database = stores.database().expect("there is a database");
    for (seed, world) in [(0, World::exact()), (1, World::general())] {
        stores.psql("drop schema if exists windrow cascade").expect("it is empty");
        let opened = Postgres::open(options(bouncer.url(&database)));
        let store = stores.runtime().block_on(opened).expect("it opens");
        if let Err(difference) = run(seed, 300, world, &Model::new(1), &store) {
            panic!("{difference}");
        }
    }
}

#[test]
fn many_share_the_few_connections_of_a_pooler() {
    let stores = started(Version::V15);
    let bouncer = PgBouncer::start(stores.server()).expect("the pooler starts");
    let database = stores.database().expect("there is a database");
    let total = stores.runtime().block_on(async {
        let mut tasks = Vec::new();
        for _ in 0..3 {
            let store = Postgres::open(options(bouncer.url(&database))).await.expect("it opens");
            for _ in 0..4 {
                let store = store.clone();
                tasks.push(tokio::spawn(async move {
                    for _ in 0..20 {
                        let batch = vec![enqueue().into()];
                        store.submit(batch, Now::Database).await.expect("it is enqueued");
                        store.counts().await.expect("they are counted");
                    }
                }));
            }
        }
        for task in tasks {
            task.await.expect("it does not panic");
        }
        let store = Postgres::open(options(bouncer.url(&database))).await.expect("it opens");
        store.counts().await.expect("they are counted").iter().map(|count| count.items).sum::<u64>()
    });
    assert_eq!(total, 3 * 4 * 20);
}

#[test]
fn a_server_that_may_not_change_the_schema_uses_it_as_it_is() -> anyhow::Result<()> {
    // It asked to create the schema if it was not there, which wants the right even if it is.
    let stores = started(Version::V15);
    let owner = stores.open()?;
    stores.psql(
        "drop role if exists serving; create role serving login; \
         grant usage on schema windrow to serving; \
         grant select, insert, update, delete on all tables in schema windrow to serving; \
         grant usage on all sequences in schema windrow to serving",
    )?;
    let url = stores.url()?;
    let place = url.split_once('@').map_or("", |(_, place)| place);
    let mut options = stores.options()?;
    options.url = format!("postgres://serving@{place}");
    stores.runtime().block_on(async {
        let store = Postgres::open(options).await?;
        store.submit(vec![enqueue().into()], Now::Database).await?;
        anyhow::ensure!(owner.counts().await?.len() == 1);
        anyhow::Ok(())
    })
}
