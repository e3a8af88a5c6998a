//! What is special to pgvector: its extension, its schema, and a server that goes away.

use std::sync::Arc;

use anyhow::ensure;
use libtest_mimic::Trial;
use windrow_pipelines::adapters::vectors::pgvector::PgVector;
use windrow_pipelines::adapters::vectors::{Vectors as _, VectorsError};
use windrow_testkit::servers::pgbouncer::PgBouncer;
use windrow_testkit::servers::{Durability, Postgres as Process, Stop, Version};

use crate::bases::{Base as _, Database, Server, options, runtime};
use crate::bed::{at, everything, point};

pub(crate) fn trials(server: &Arc<Server>) -> Vec<Trial> {
    let trial = |name: &str, test: fn(&Server) -> anyhow::Result<()>| {
        let server = Arc::clone(server);
        Trial::test(format!("pgvector::{name}"), move || crate::finished(|| test(&server)))
    };
    vec![
        trial("servers_that_start_at_once_prepare_in_turn", start_at_once),
        trial("a_server_without_the_extension_is_told_what_to_install", no_extension),
        trial("a_role_that_may_not_create_the_extension_is_told_who_may", no_right),
        trial("an_old_extension_is_refused_with_how_to_update_it", old_extension),
        trial("the_extension_may_be_in_any_schema", elsewhere),
        trial("a_newer_schema_is_refused", newer),
        trial("what_is_too_large_for_the_type_is_refused", too_large),
        trial("what_is_there_already_is_put_in_again_without_work", no_work),
        trial("a_pooler_may_stand_in_between", pooled),
        trial("a_server_that_dies_is_transient_and_what_was_answered_is_there", dies),
    ]
}

fn open(url: &str) -> anyhow::Result<Result<PgVector, VectorsError>> {
    Ok(runtime().block_on(PgVector::open(options(url)?)))
}

fn refused(url: &str) -> anyhow::Result<String> {
    match open(url)? {
        Err(VectorsError::Bad { why }) => Ok(why),
        other => anyhow::bail!("{other:?}"),
    }
}

fn works(store: &PgVector) -> anyhow::Result<()> {
    runtime().block_on(async {
        store.put(&[(point(1, 1, 1), at(0.0)), (point(2, 1, 1), at(1.0))]).await?;
        let hits = store.search(&at(2.0), &everything(), 1).await?;
        ensure!(hits[0].point == point(2, 1, 1), "{hits:?}");
        Ok(())
    })
}

fn start_at_once(server: &Server) -> anyhow::Result<()> {
    let base = server.database()?;
    runtime().block_on(async {
        let mut starting = Vec::new();
        for n in 0..8 {
            let options = options(&base.url())?;
            starting.push(tokio::spawn(async move {
                // The table is made by whoever comes first, too.
                let store = PgVector::open(options).await?;
                store.put(&[(point(n, 1, 1), at(n as f64))]).await
            }));
        }
        for started in starting {
            started.await??;
        }
        anyhow::Ok(())
    })?;
    ensure!(base.psql("select count(*) from windrow_vectors.migrations")? == "1");
    ensure!(base.psql("select dimension from windrow_vectors.dimensions")? == "2");
    ensure!(base.psql("select count(*) from windrow_vectors.points_2")? == "8");
    Ok(())
}

/// Debian's PostgreSQL 15 comes without it.
fn no_extension(_: &Server) -> anyhow::Result<()> {
    let process = Process::start(Version::V15, Durability::Off)?;
    let why = refused(&process.url("postgres"))?;
    ensure!(why.contains("no extension `vector`") && why.contains("install pgvector"), "{why}");
    Ok(())
}

fn no_right(server: &Server) -> anyhow::Result<()> {
    let base = server.database()?;
    let role = format!("may_not_{}", base.name);
    base.psql(&format!("create role {role} login"))?;
    base.psql(&format!("grant create on database {} to {role}", base.name))?;
    let url = base.url().replace("postgres@", &format!("{role}@"));
    let why = refused(&url)?;
    ensure!(why.contains("may not create") && why.contains("superuser"), "{why}");
    // Done as it was told.
    base.psql("create extension vector")?;
    works(&open(&url)??)
}

fn old_extension(server: &Server) -> anyhow::Result<()> {
    let base = server.database()?;
    base.psql("create extension vector")?;
    base.psql("update pg_extension set extversion = '0.7.4' where extname = 'vector'")?;
    let why = refused(&base.url())?;
    ensure!(why.contains("0.7.4") && why.contains("alter extension vector update"), "{why}");
    Ok(())
}

fn elsewhere(server: &Server) -> anyhow::Result<()> {
    let base = server.database()?;
    base.psql("create schema \"Odd name\"; create extension vector schema \"Odd name\"")?;
    works(&open(&base.url())??)
}

fn newer(server: &Server) -> anyhow::Result<()> {
    let base = server.database()?;
    runtime().block_on(base.open())?;
    base.psql(
        "insert into windrow_vectors.migrations (number, name, checksum) values (99, 'later', 'x')",
    )?;
    let why = refused(&base.url())?;
    ensure!(why.contains("step 99 (later)") && why.contains("use a newer one"), "{why}");
    Ok(())
}

fn too_large(server: &Server) -> anyhow::Result<()> {
    let base = server.database()?;
    let store = open(&base.url())??;
    let mut vector = vec![0.0; 16_001];
    vector[0] = 1.0;
    let put = runtime().block_on(store.put(&[(point(1, 1, 1), vector.clone())]));
    let Err(VectorsError::Bad { why }) = put else { anyhow::bail!("{put:?}") };
    ensure!(why.contains("16000") && why.contains("16001"), "{why}");
    vector.pop();
    runtime().block_on(store.put(&[(point(1, 1, 1), vector)]))?;
    let mut late = point(1, 1, 1);
    late.generation = u32::MAX;
    let put = runtime().block_on(store.put(&[(late, at(0.0))]));
    ensure!(matches!(put, Err(VectorsError::Bad { .. })), "{put:?}");
    Ok(())
}

/// Every version of a row would be in the index once.
fn no_work(server: &Server) -> anyhow::Result<()> {
    let base = server.database()?;
    let store = open(&base.url())??;
    let versions = |base: &Database| base.psql("select xmin from windrow_vectors.points_2");
    works(&store)?;
    let before = versions(&base)?;
    works(&store)?;
    ensure!(versions(&base)? == before, "{before}");
    let mut moved = point(1, 1, 1);
    moved.page = 5;
    runtime().block_on(store.put(&[(moved, at(0.0))]))?;
    ensure!(versions(&base)? != before, "a page is part of a point");
    Ok(())
}

fn pooled(server: &Server) -> anyhow::Result<()> {
    let base = server.database()?;
    let bouncer = PgBouncer::start(&base.process)?;
    let url = bouncer.url(&base.name);
    let mut options = options(url.split('?').next().unwrap_or(&url))?;
    options.database.is_pooled = true;
    options.exact_max = 0;
    runtime().block_on(async {
        let store = Arc::new(PgVector::open(options).await?);
        let mut under_way = Vec::new();
        for n in 0..20 {
            let store = Arc::clone(&store);
            under_way.push(tokio::spawn(async move {
                store.put(&[(point(n, n, 1), at(n as f64))]).await?;
                store.search(&at(n as f64), &everything(), 1).await
            }));
        }
        for (n, one) in (0..).zip(under_way) {
            let hits = one.await??;
            ensure!(hits[0].point == point(n, n, 1), "{hits:?}");
        }
        ensure!(store.count(&everything()).await? == 20);
        Ok(())
    })
}

/// On a server of its own, which keeps what it acknowledged.
fn dies(_: &Server) -> anyhow::Result<()> {
    let mut process = Process::start(Version::V18, Durability::Real)?;
    process.create_database("dies")?;
    let store = open(&process.url("dies"))??;
    works(&store)?;
    process.stop(Stop::Kill)?;
    let gone = runtime().block_on(store.count(&everything()));
    ensure!(matches!(gone, Err(VectorsError::Transient { .. })), "{gone:?}");
    let gone = runtime().block_on(store.put(&[(point(3, 1, 1), at(9.0))]));
    ensure!(matches!(gone, Err(VectorsError::Transient { .. })), "{gone:?}");
    process.start_again()?;
    ensure!(runtime().block_on(store.count(&everything()))? == 2);
    works(&store)
}
