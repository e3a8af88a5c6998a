//! What a catalog in a file answered is there after the process was killed, whatever it was doing.
//!
//! This program starts itself as a child that writes with eight tasks and says, after each
//! answer, what was answered. The child is killed in the middle, many times on one file.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use rusqlite::Connection;
use windrow_pipelines::catalog::{DocumentFilter, DocumentState, Sqlite};

use crate::bases::{Base as _, SqliteBase};
use crate::bed::{Bed, page};

/// Names the file, in a child.
pub(crate) const CHILD: &str = "WINDROW_CATALOG_CHILD";
/// Numbers the child's life.
const LIFE: &str = "WINDROW_CATALOG_LIFE";

const LIVES: u32 = 12;

/// Writes until it is killed.
pub(crate) fn child(file: &Path) {
    let life = std::env::var(LIFE).expect("a number");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let catalog = Arc::new(Sqlite::open(file).expect("the catalog opens"));
        let tasks: Vec<_> = (0..8)
            .map(|task| {
                let bed = Bed::over(Arc::clone(&catalog) as _, SqliteBase::shared("unused"));
                let life: u64 = life.parse().expect("a number");
                bed.skip((life * 8 + task) << 32);
                tokio::spawn(async move {
                    for n in 0.. {
                        let source = format!("{life}-{task}-{n}");
                        let markdown = text(&source);
                        bed.ingest(&source, &[&markdown]).await;
                        let mut out = std::io::stdout().lock();
                        writeln!(out, "{source}").expect("somebody listens");
                        out.flush().expect("somebody listens");
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("a task ended");
        }
    });
}

fn text(source: &str) -> String {
    format!("Everybody of {source}.\n\n{}", "More of it. ".repeat(200))
}

pub(crate) fn what_was_answered_survives_a_kill() -> anyhow::Result<()> {
    let base = SqliteBase::folder("crash");
    let mut answered = HashSet::new();
    for life in 0..LIVES {
        // Each life a little longer, so that it ends at ever other places.
        live(&base, life, 10 + life as usize * 7, &mut answered)?;
        check(&base, &answered).with_context(|| format!("after life {life}"))?;
    }
    ensure!(answered.len() > 12 * 10);
    Ok(())
}

/// A child that is killed once it has said so much.
fn live(
    base: &SqliteBase,
    life: u32,
    lines: usize,
    answered: &mut HashSet<String>,
) -> anyhow::Result<()> {
    let mut child = Command::new(std::env::current_exe()?)
        .env(CHILD, base.file())
        .env(LIFE, life.to_string())
        .stdout(Stdio::piped())
        .spawn()?;
    let said = BufReader::new(child.stdout.take().context("its output")?);
    for (n, line) in said.lines().enumerate() {
        // After the kill there may be more that was said before.
        answered.insert(line?);
        if n + 1 == lines {
            child.kill()?;
        }
    }
    let status = child.wait()?;
    ensure!(status.code().is_none(), "it ended by itself: {status}");
    Ok(())
}

fn check(base: &SqliteBase, answered: &HashSet<String>) -> anyhow::Result<()> {
    let catalog = base.runtime().block_on(base.open())?;
    let bed = Bed::over(Arc::clone(&catalog), SqliteBase::shared("unused"));
    base.runtime().block_on(async {
        let mut live = HashSet::new();
        let mut after = None;
        loop {
            let some = catalog.documents(DocumentFilter::of("t"), after, 500).await?;
            let Some(last) = some.last() else { break };
            after = Some(last.cursor());
            for document in some.iter().filter(|one| one.state == DocumentState::Live) {
                let newest = document.newest.as_ref().context("its generation")?;
                let at = windrow_pipelines::catalog::GenerationKey {
                    document: document.id,
                    generation: newest.number,
                };
                let chunks = catalog.chunks("t", page(at, 1)).await?;
                let whole: Vec<&str> = chunks.iter().map(|chunk| chunk.text.as_str()).collect();
                ensure!(whole.join("\n\n") == text(&document.source), "{document:?}: {whole:?}");
                ensure!(chunks.iter().all(|one| one.embedded_by.is_some() && one.is_linked));
                live.insert(document.source.clone());
            }
        }
        let lost: Vec<&String> = answered.difference(&live).collect();
        ensure!(lost.is_empty(), "answered, and not there: {lost:?}");
        if let Some(one) = answered.iter().next() {
            ensure!(bed.found(one).await.iter().any(|hit| hit.starts_with(one.as_str())));
        }
        anyhow::Ok(())
    })?;
    // What full-text search knows is what the tables have.
    let db = Connection::open(base.file())?;
    let whole: String = db.query_row("pragma integrity_check", [], |row| row.get(0))?;
    ensure!(whole == "ok", "{whole}");
    let sql = "select (select count(*) from chunks) - (select count(*) from words_docsize)";
    let difference: i64 = db.query_row(sql, [], |row| row.get(0))?;
    ensure!(difference == 0, "{difference} chunks are not known by their words");
    let sql = "select count(*) from vectors v where not exists \
         (select 1 from chunks c where c.id = v.chunk)";
    let orphans: i64 = db.query_row(sql, [], |row| row.get(0))?;
    ensure!(orphans == 0, "{orphans} vectors of no chunk");
    Ok(())
}
