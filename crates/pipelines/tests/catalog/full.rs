//! A disk that refuses a commit. Nobody knows what such a disk has, so that the catalog says so and
//! writes nothing more until it is opened again.
//!
//! This program starts itself as a child whose files may not grow beyond a megabyte or two.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use windrow_pipelines::catalog::{CatalogError, DocumentFilter, Sqlite};

use crate::bases::{Base as _, SqliteBase};
use crate::bed::{Bed, key, outcome, page};

/// Names the file, in a child.
pub(crate) const CHILD: &str = "WINDROW_CATALOG_FULL";

const TEXT_BYTES: usize = 50_000;

/// Writes until it is refused, says what was answered, and tries once more.
pub(crate) fn child(file: &Path) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let catalog = std::sync::Arc::new(Sqlite::open(file).expect("the catalog opens"));
        let bed = Bed::over(catalog, SqliteBase::shared("unused"));
        let refused = loop {
            match bring(&bed).await {
                Ok(source) => println!("{source}"),
                Err(error) => break error,
            }
        };
        println!("! {refused:?}");
        println!("! {:?}", bring(&bed).await);
        let all = bed.catalog.documents(DocumentFilter::of("t"), None, 1_000).await;
        println!("= {}", all.expect("it can still be read").len());
    });
}

async fn bring(bed: &Bed) -> Result<String, CatalogError> {
    let source = format!("{}.md", bed.now().0);
    let new = bed.new_document(&source, &source);
    let at = key(&bed.catalog.add_document(new, bed.now()).await?);
    bed.catalog.begin_pages(at, 1).await?;
    bed.catalog.put_page(page(at, 1), outcome(&"x".repeat(TEXT_BYTES))).await?;
    Ok(source)
}

pub(crate) fn after_a_refused_commit_nothing_is_written() -> anyhow::Result<()> {
    let base = SqliteBase::folder("full");
    let program = std::env::current_exe()?;
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 2048; exec \"$0\""])
        .arg(program)
        .env(CHILD, base.file())
        .output()?;
    let said = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let (refused, answered): (Vec<&str>, Vec<&str>) =
        said.lines().partition(|line| line.starts_with(['!', '=']));
    let [first, second, read] = refused[..] else { anyhow::bail!("{refused:?}") };
    ensure!(first.contains("Transient") && !first.contains("opened again"), "{first}");
    ensure!(second.contains("Transient") && second.contains("opened again"), "{second}");
    ensure!(answered.len() > 5, "{said}");
    let read: usize = read.trim_start_matches("= ").parse()?;
    ensure!(read >= answered.len(), "{said}");
    // Where there is room again, everything that was answered is there, and more can come.
    base.runtime().block_on(async {
        let bed = Bed::over(base.open().await?, SqliteBase::shared("unused"));
        bed.skip(10_000);
        let all = bed.catalog.documents(DocumentFilter::of("t"), None, 1_000).await?;
        for source in answered {
            let document =
                all.iter().find(|one| one.source == source).context(source.to_owned())?;
            let at =
                windrow_pipelines::catalog::GenerationKey { document: document.id, generation: 1 };
            let found = bed.catalog.page("t", page(at, 1)).await?.context("its page")?;
            ensure!(found.outcome == outcome(&"x".repeat(TEXT_BYTES)), "{source}");
        }
        bring(&bed).await?;
        Ok(())
    })
}
