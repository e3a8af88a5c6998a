//! A catalog moves from a file into a database and back: every row, and what is made of rows.

use std::sync::Arc;

use anyhow::ensure;
use libtest_mimic::Trial;
use windrow_core::ItemId;
use windrow_pipelines::catalog::moving::{Cell, Moving, NotMoved, TABLES, is_empty, move_all};
use windrow_pipelines::catalog::{
    MemoKey, MemoOf, PageOutcome, Scope, TextQuery, VectorsSince, content_hash,
};

use crate::bases::{Server, SqliteBase};
use crate::bed::{Bed, page, scope};

pub(crate) fn trials(server: &Arc<Server>) -> Vec<Trial> {
    let trial = |name: &str, test: fn(&Server) -> anyhow::Result<()>| {
        let server = Arc::clone(server);
        Trial::test(format!("both::{name}"), move || crate::finished(|| test(&server)))
    };
    vec![
        trial("a_catalog_moves_into_the_other_database_and_back_and_is_the_same", there_and_back),
        trial("a_move_that_was_interrupted_goes_on_at_any_slice", interrupted),
        trial("what_was_changed_on_the_way_is_noticed", changed),
    ]
}

/// Something of everything that a catalog holds.
async fn fill(bed: &Bed, documents: usize) -> anyhow::Result<()> {
    for number in 0..documents {
        let (one, two) = (format!("Ada knows Bob{number}."), "Cid knows Ünal.\n\n| a | b |");
        bed.ingest(&format!("{number}.md"), &[&one, two]).await;
    }
    let other = Scope::new("other", "ä");
    bed.ingest_in(&other, "a.md", &["Zoe is here."]).await;
    let again = bed.built_in(&scope(), "0.md", &["It changed."]).await;
    bed.catalog.note_item(again, ItemId(77)).await?;
    let without = PageOutcome::Without { reason: "blank".into() };
    let failed = bed.building("failed.pdf", "bad", 2).await;
    bed.catalog.put_page(page(failed, 2), without).await?;
    bed.catalog.fail_generation(failed, Some("it is no PDF".into())).await?;
    let old = bed.ingest("old.md", &["one"]).await;
    bed.publish(bed.built_in(&scope(), "old.md", &["two"]).await).await;
    ensure!(bed.catalog.old_generations(9).await?.iter().any(|one| one.at == old));
    let gone = bed.ingest("gone.md", &["Gone."]).await;
    let sinks = vec!["vectors".into(), "graph".into()];
    bed.catalog.begin_delete("t", gone.document, sinks, bed.now()).await?;
    bed.catalog.confirm_delete(gone.document, "graph").await?;
    let of = MemoOf::new("t", "ocr");
    let memo = |n: u8| MemoKey::of(&[n; 32], "ocr", "reader", "1", "");
    let values = (0..120).map(|n| (memo(n), vec![n; 30])).collect();
    bed.catalog.memo_put(&of, values, bed.now()).await?;
    bed.catalog.memo_get(&of, vec![memo(1), memo(200)], bed.now()).await?;
    bed.catalog.memo_get(&of, vec![memo(2), memo(3)], bed.now()).await?;
    // Whoever counts is not waited for, but one write comes after the other.
    bed.catalog.memo_put(&of, vec![(memo(0), Vec::new())], bed.now()).await?;
    Ok(())
}

struct Both {
    here: Arc<dyn Moving>,
    there: Arc<dyn Moving>,
    bed: Bed,
    folder: SqliteBase,
}

fn both(server: &Server, name: &str) -> anyhow::Result<Both> {
    let folder = SqliteBase::folder(name);
    let runtime = folder.handle();
    let _within = runtime.enter();
    let here: Arc<dyn Moving> = folder.moving()?;
    let there = server.moving()?;
    let bed = Bed::over(here.clone(), SqliteBase::shared("unused"));
    Ok(Both { here, there, bed, folder })
}

fn there_and_back(server: &Server) -> anyhow::Result<()> {
    let Both { here, there, bed, folder } = both(server, "moved")?;
    let back = SqliteBase::folder("moved-back");
    let _within = folder.handle().enter();
    let back: (Arc<dyn Moving>, SqliteBase) = (back.moving()?, back);
    folder.handle().block_on(async {
        fill(&bed, 40).await?;
        ensure!(is_empty(&*there).await? && !is_empty(&*here).await?);
        let moved = move_all(&*here, &*there).await?;
        ensure!(moved.documents == 44, "{moved:?}");
        ensure!(!is_empty(&*there).await?);
        let returned = move_all(&*there, &*back.0).await?;
        ensure!(returned == moved, "{returned:?} instead of {moved:?}");
        for catalog in [&there, &back.0] {
            for (scope, words) in [(scope(), "Bob7"), (Scope::new("other", "ä"), "zoe")] {
                let print = here.fingerprint(&scope).await?;
                ensure!(catalog.fingerprint(&scope).await? == print);
                let found = async |of: &Arc<dyn Moving>| {
                    let query = TextQuery::of(&scope.tenant, words);
                    let hits = of.search_text(query).await?;
                    anyhow::Ok(hits.into_iter().map(|hit| hit.chunk).collect::<Vec<_>>())
                };
                let hits = found(catalog).await?;
                ensure!(hits.len() == 1 && hits == found(&here).await?, "words are found again");
            }
            let (ours, theirs) = (here.memo_stats("t").await?, catalog.memo_stats("t").await?);
            ensure!(ours == theirs, "{theirs:?}");
            ensure!(here.contents().await?.len() == catalog.contents().await?.len());
        }
        // It is a catalog like any other now: sequences go on where they were.
        let bed = Bed::over(back.0.clone(), SqliteBase::shared("unused"));
        bed.skip(1_000);
        bed.ingest("new.md", &["Something new."]).await;
        ensure!(bed.found("something new").await == ["new.md:1"]);
        let since = windrow_pipelines::catalog::VectorCursor::default();
        let all = back.0.vectors_since(since, 500).await?;
        ensure!(matches!(all, VectorsSince::Changes { .. }), "{all:?}");
        Ok(())
    })
}

fn interrupted(server: &Server) -> anyhow::Result<()> {
    let Both { here, there, bed, folder } = both(server, "moved-half")?;
    let _within = folder.handle().enter();
    folder.handle().block_on(async {
        fill(&bed, 60).await?;
        // As far as any table, and there in the middle of it.
        for table in &TABLES {
            let rows = here.rows(table, None, 7).await?;
            there.put_rows(table, rows.clone()).await?;
            // To be told twice is harmless.
            there.put_rows(table, rows).await?;
        }
        move_all(&*here, &*there).await?;
        let again = move_all(&*here, &*there).await?;
        ensure!(again.documents > 60, "{again:?}");
        let query = TextQuery::of("t", "Bob3");
        ensure!(there.search_text(query).await?.len() == 1);
        Ok(())
    })
}

fn changed(server: &Server) -> anyhow::Result<()> {
    for name in ["documents", "pages", "chunks", "mentions", "vectors", "memos", "memo_counts"] {
        let Both { here, there, bed, folder } = both(server, "moved-changed")?;
        let _within = folder.handle().enter();
        folder.handle().block_on(async {
            fill(&bed, 3).await?;
            let table = TABLES.iter().find(|table| table.name == name).expect("a table");
            let mut row = here.rows(table, None, 1).await?.remove(0);
            match row.last_mut() {
                Some(Cell::Text(text)) => *text = "other".into(),
                Some(Cell::Number(number)) => *number += 1,
                Some(Cell::Real(real)) => *real += 0.25,
                Some(Cell::Bytes(bytes)) => *bytes = content_hash("other")[..12].to_vec(),
                last => *last.expect("a last column") = Cell::Text("other".into()),
            }
            there.put_rows(table, vec![row]).await?;
            let moved = move_all(&*here, &*there).await;
            ensure!(matches!(moved, Err(NotMoved::Differs(_))), "{name}: {moved:?}");
            Ok(())
        })?;
    }
    Ok(())
}
