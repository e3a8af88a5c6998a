//! A catalog in SQLite is copied while somebody writes to it, and taken up beside a restored queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::ensure;
use libtest_mimic::Trial;
use windrow_core::ItemId;
use windrow_core::id::StoreTag;
use windrow_pipelines::catalog::{Catalog, Document, Sqlite};

use crate::bases::{Base as _, SqliteBase};
use crate::bed::{Bed, page, scope};

const COPIES: usize = 10;

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn() -> anyhow::Result<()>| {
        Trial::test(format!("sqlite::{name}"), move || crate::finished(test))
    };
    vec![
        trial("a_copy_has_what_was_answered_before_it_and_is_whole", busy),
        trial("a_restored_catalog_forgets_items_that_the_queue_never_made", restored),
    ]
}

fn opened(base: &SqliteBase) -> anyhow::Result<Bed> {
    let catalog: Arc<dyn Catalog> = base.runtime().block_on(base.open())?;
    Ok(Bed::over(catalog, SqliteBase::shared("unused")))
}

/// Somebody publishes documents all the time. What was published before a copy began is live in it,
/// and nothing is live in it by half.
fn busy() -> anyhow::Result<()> {
    let (base, copies) = (SqliteBase::folder("busy"), SqliteBase::folder("busy-copies"));
    let (file, to) = (base.file(), copies.file());
    let bed = opened(&base)?;
    let runtime = base.runtime();
    let (stop, catalog) = (Arc::<AtomicBool>::default(), Arc::clone(&bed.catalog));
    let stopped = Arc::clone(&stop);
    let writing = runtime.spawn(async move {
        let mut published = 0;
        while !stopped.load(Ordering::Relaxed) {
            published += 1;
            bed.ingest(&format!("{published}.md"), &["Ada knows Bob.", "Cid knows Dee."]).await;
        }
        published
    });
    let mut copied = 0;
    for _ in 0..COPIES {
        let live = |catalog: Arc<dyn Catalog>| {
            runtime.block_on(async move {
                let filter = windrow_pipelines::catalog::DocumentFilter::of("t");
                let all = catalog.documents(filter, None, 500).await?;
                anyhow::Ok(all.into_iter().filter(|one| one.live.is_some()).collect::<Vec<_>>())
            })
        };
        // Each has more than the one before.
        let mut before = live(Arc::clone(&catalog))?;
        while before.len() <= copied {
            before = live(Arc::clone(&catalog))?;
        }
        copied = before.len();
        let hash = Sqlite::copy(&file, &to)?;
        ensure!(hash == Sqlite::hash(&to)?);
        let _within = runtime.enter();
        let copy: Arc<dyn Catalog> = Arc::new(Sqlite::open(&to)?);
        let after = live(Arc::clone(&copy))?;
        for known in &before {
            ensure!(after.iter().any(|one| one.id == known.id), "{} is missing", known.source);
        }
        for known in &after {
            let at =
                windrow_pipelines::catalog::GenerationKey { document: known.id, generation: 1 };
            let chunks = runtime.block_on(copy.chunks("t", page(at, 2)))?;
            let is_whole = chunks.iter().all(|one| one.is_linked && one.embedded_by.is_some());
            ensure!(!chunks.is_empty() && is_whole, "{} is live by half", known.source);
        }
        drop(copy);
        for end in ["db", "db-wal", "db-shm"] {
            let _there_or_not = std::fs::remove_file(to.with_extension(end));
        }
    }
    stop.store(true, Ordering::Relaxed);
    ensure!(runtime.block_on(writing)? >= COPIES, "there was hardly anything to copy");
    Ok(())
}

fn restored() -> anyhow::Result<()> {
    let base = SqliteBase::folder("restored");
    let file = base.file();
    let bed = opened(&base)?;
    let runtime = base.runtime();
    let (old, new) =
        (ItemId::from_serial(7, StoreTag::new(1)), ItemId::from_serial(9, StoreTag::new(1)));
    let (at, print) = runtime.block_on(async {
        let known = bed.ingest("known.md", &["one"]).await;
        let unknown = bed.built_in(&scope(), "unknown.md", &["two"]).await;
        bed.catalog.note_item(known, old).await?;
        bed.catalog.note_item(unknown, new).await?;
        anyhow::Ok(([known, unknown], bed.catalog.fingerprint(&scope()).await?))
    })?;
    drop(bed);
    let taken = Sqlite::restored(&file, |item| item.serial() <= 8)?;
    ensure!((taken.documents, taken.without_item, taken.contents.len()) == (2, 1, 2), "{taken:?}");
    let bed = opened(&base)?;
    runtime.block_on(async {
        let item = async |at| {
            bed.catalog.generation("t", at).await.map(|one| one.and_then(|one| one.item))
        };
        ensure!(item(at[0]).await? == Some(old) && item(at[1]).await?.is_none());
        let lost = bed.catalog.unfinished(None, 10).await?;
        let without = |one: &&Document| one.newest.as_ref().is_some_and(|it| it.item.is_none());
        let ids: Vec<_> = lost.iter().filter(without).map(|one| one.id).collect();
        ensure!(ids == [at[1].document], "{lost:?}");
        ensure!(bed.catalog.fingerprint(&scope()).await? == print);
        Ok(())
    })
}
