//! `windrow move`: a store goes from a directory into a database, or back.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use windrow_core::Timestamp;
use windrow_engine::{Clock as _, SystemClock};
use windrow_pipelines::catalog::moving::{self, Moving as Movable};
use windrow_store::blobs::{Blobs, Hex};
use windrow_store::embedded::blobs::{DIRECTORY, Files};
use windrow_store::embedded::disk::RealDisk;
use windrow_store::embedded::overlay::Overlay;
use windrow_store::embedded::{self, Embedded};
use windrow_store::moving::{Export, MoveError, Progress, Report};
use windrow_store::postgres::{self, Postgres};

use super::data_dir::{not_opened, to_read};
use super::place::Place;
use super::{blobs, counted, runtime, serve};
use crate::documents::Beside;

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where the store is: a data directory, or postgres://user@host/database.
    #[arg(long, value_name = "DIR|URL")]
    from: PathBuf,
    /// Where it is to be: an empty or new directory, or a database without a store in it.
    #[arg(long, value_name = "DIR|URL")]
    to: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  windrow move --from /var/lib/windrow --to postgres://windrow@db.example/queue
  windrow move --from postgres://windrow@db.example/queue --to /var/lib/windrow

Stop all servers first. Everything moves: items with their ids, trees, keys,
history, settings, pauses, resources, notes, blobs, the answers that are
remembered, and the catalog: documents with pages, chunks, vectors and graph.
What a worker holds is released and waits again, with its attempt given back.
At the end both sides are read and compared, item by item and row by row.

The source stays as it is. If the move is interrupted, run the same command
again: it goes on. Until it is done nobody can open the target.";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (from, to) = (Place::parse(&args.from)?, Place::parse(&args.to)?);
    let begun = Instant::now();
    let beside = Beside::from(&from).for_move();
    let report = runtime()?.block_on(async {
        match from {
            Place::Directory(path) => {
                // What opening writes stays in memory.
                let disk = Arc::new(Overlay::over(to_read(&path)?));
                let opened = Embedded::open(disk, embedded::Options::default());
                let store = opened.map_err(|error| not_opened(&path, &error))?;
                let catalog = known(&beside).await?;
                let bytes = blobs::to_read(&path)?;
                Moving { source: &store.outgoing(), bytes: &bytes, catalog }.receive(to).await
            }
            Place::Database(options) => {
                let store = Postgres::open_to_move(options).await?;
                let catalog = known(&beside).await?;
                Moving { source: &store, bytes: &store, catalog }.receive(to).await
            }
        }
    })?;
    tell(&report, begun.elapsed().as_secs_f64())
}

/// The catalog of the source, if it has one.
async fn known(beside: &Beside) -> anyhow::Result<Option<Arc<dyn Movable>>> {
    Ok(match beside.has_catalog().await? {
        true => Some(beside.catalog().await?),
        false => None,
    })
}

/// What came of it: the queue's part, and the catalog's, if there is one.
type Moved = (Report, Option<moving::Moved>);

struct Moving<'a, S, B> {
    source: &'a S,
    bytes: &'a B,
    catalog: Option<Arc<dyn Movable>>,
}

impl<S: Export, B: Blobs> Moving<'_, S, B> {
    /// Bytes first, then what refers to them. The catalog comes while nobody can open the queue, so
    /// that what is in it after an interruption came from here.
    async fn receive(&self, to: Place) -> anyhow::Result<Moved> {
        let mut bar = Bar::new();
        let mut progress = |progress| bar.set(progress);
        let (beside, mut moved) = (Beside::from(&to).for_move(), None);
        let catalog = async {
            moved = self.catalog(&beside).await?;
            Ok(())
        };
        let place = serve::shown(&to)?;
        let report = match to {
            Place::Directory(path) => {
                let disk = Arc::new(empty_or_ours(&path)?);
                if embedded::may_receive(&*disk)? {
                    let there = RealDisk::open(path.join(DIRECTORY))?;
                    self.bytes(&Files::on(Arc::new(there))).await?;
                }
                let options = embedded::Options::default();
                let source = self.source;
                let moving =
                    embedded::receive(source, disk, options, &place, now(), &mut progress, catalog);
                moving.await?
            }
            Place::Database(options) => {
                if !Postgres::is_half_moved(&options).await? {
                    self.must_be_empty(&beside, &place).await?;
                }
                let there = Postgres::open_to_receive(options.clone(), self.source.tag()).await?;
                self.bytes(&there).await?;
                drop(there);
                postgres::receive(self.source, options, now(), &mut progress, catalog).await?
            }
        };
        bar.finish();
        Ok((report, moved))
    }

    async fn bytes<T: Blobs>(&self, to: &T) -> anyhow::Result<()> {
        blobs::copy(self.source, self.bytes, to, now()).await?;
        if let Some(catalog) = &self.catalog {
            blobs::copy_files(catalog.contents().await?, self.bytes, to, now()).await?;
        }
        Ok(())
    }

    /// Refuses a target whose catalog holds something: it is not known to be ours.
    async fn must_be_empty(&self, beside: &Beside, place: &str) -> anyhow::Result<()> {
        if !beside.has_catalog().await? || moving::is_empty(&*beside.catalog().await?).await? {
            return Ok(());
        }
        let place = format!("the catalog of documents in {place}");
        let holds = "documents, or what was made of some".to_owned();
        Err(MoveError::NotEmpty { place, holds }.into())
    }

    async fn catalog(&self, beside: &Beside) -> Result<Option<moving::Moved>, MoveError> {
        let Some(from) = &self.catalog else { return Ok(None) };
        let failed = |error: &dyn std::fmt::Display| MoveError::Beside(error.to_string());
        let to = beside.catalog().await.map_err(|error| failed(&error))?;
        let moved = moving::move_all(&**from, &*to).await;
        moved.map(Some).map_err(|error| failed(&error))
    }
}

fn empty_or_ours(path: &Path) -> anyhow::Result<RealDisk> {
    let is_file = path.exists() && !path.is_dir();
    anyhow::ensure!(!is_file, "{} is not a directory; give a new one", path.display());
    RealDisk::open(path).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
}

fn now() -> Timestamp {
    SystemClock::new(Timestamp::ZERO).now()
}

fn tell((report, catalog): &Moved, seconds: f64) -> anyhow::Result<()> {
    let out = &mut std::io::stdout().lock();
    if report.items + report.others == 0 {
        writeln!(out, "everything had arrived and been compared before")?;
    } else {
        let (items, others) = (counted(report.items, "item"), report.others);
        writeln!(out, "moved {items} and {others} other records in {seconds:.1} s")?;
        writeln!(out, "read back and compared: all equal, checksum {:016x}", report.checksum)?;
    }
    if let Some(catalog) = catalog {
        let documents = counted(catalog.documents, "document");
        let sum = Hex(&catalog.checksum[..8]);
        writeln!(
            out,
            "moved {documents}, {} rows of the catalog, all equal, checksum {sum}",
            catalog.rows
        )?;
    }
    if report.released > 0 {
        let released = counted(report.released, "item");
        writeln!(out, "released {released} that workers held")?;
    }
    writeln!(out, "the source is as it was; start servers on the new place only")?;
    Ok(())
}

/// Progress, on a terminal.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Bar {
        let style = ProgressStyle::with_template("  {prefix:<8} {bar:36} {pos:>9} of {len}")
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("━╸─");
        Bar(ProgressBar::new(0).with_style(style))
    }

    fn set(&mut self, progress: Progress) {
        let (what, items, of) = match progress {
            Progress::Copied { items, of } => ("moving", items, of),
            Progress::Compared { items, of } => ("comparing", items, of),
        };
        self.0.set_prefix(what);
        self.0.set_length(of);
        self.0.set_position(items);
    }

    fn finish(&self) {
        self.0.finish_and_clear();
    }
}
