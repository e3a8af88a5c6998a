//! `windrow move`: a store goes from a directory into a database, or back.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use windrow_core::Timestamp;
use windrow_engine::{Clock as _, SystemClock};
use windrow_store::blobs::Blobs;
use windrow_store::embedded::blobs::{DIRECTORY, Files};
use windrow_store::embedded::disk::RealDisk;
use windrow_store::embedded::overlay::Overlay;
use windrow_store::embedded::{self, Embedded};
use windrow_store::moving::{Export, Progress, Report};
use windrow_store::postgres::{self, Postgres};

use super::data_dir::{not_opened, to_read};
use super::place::Place;
use super::{blobs, counted, runtime};

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
history, settings, pauses, resources, notes, blobs, and the answers that are
remembered. What a worker holds is released and waits again, with its attempt
given back. At the end both sides are read and compared, item by item.

The source stays as it is. If the move is interrupted, run the same command
again: it goes on. Until it is done nobody can open the target.";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (from, to) = (Place::parse(&args.from)?, Place::parse(&args.to)?);
    let begun = Instant::now();
    let report = runtime()?.block_on(async {
        match from {
            Place::Directory(path) => {
                // What opening writes stays in memory.
                let disk = Arc::new(Overlay::over(to_read(&path)?));
                let opened = Embedded::open(disk, embedded::Options::default());
                let store = opened.map_err(|error| not_opened(&path, &error))?;
                receive(&store.outgoing(), &blobs::to_read(&path)?, to).await
            }
            Place::Database(options) => {
                let store = Postgres::open_to_move(options).await?;
                receive(&store, &store, to).await
            }
        }
    })?;
    tell(&report, begun.elapsed().as_secs_f64())
}

/// Bytes first, then what refers to them.
async fn receive<S: Export, B: Blobs>(source: &S, bytes: &B, to: Place) -> anyhow::Result<Report> {
    let mut bar = Bar::new();
    let mut progress = |progress| bar.set(progress);
    let report = match to {
        Place::Directory(path) => {
            let disk = Arc::new(empty_or_ours(&path)?);
            if embedded::may_receive(&*disk)? {
                let there = RealDisk::open(path.join(DIRECTORY))?;
                blobs::copy(source, bytes, &Files::on(Arc::new(there)), now()).await?;
            }
            let (options, place) = (embedded::Options::default(), path.display().to_string());
            embedded::receive(source, disk, options, &place, now(), &mut progress).await?
        }
        Place::Database(options) => {
            let there = Postgres::open_to_receive(options.clone()).await?;
            blobs::copy(source, bytes, &there, now()).await?;
            drop(there);
            postgres::receive(source, options, now(), &mut progress).await?
        }
    };
    bar.finish();
    Ok(report)
}

fn empty_or_ours(path: &Path) -> anyhow::Result<RealDisk> {
    let is_file = path.exists() && !path.is_dir();
    anyhow::ensure!(!is_file, "{} is not a directory; give a new one", path.display());
    RealDisk::open(path).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
}

fn now() -> Timestamp {
    SystemClock::new(Timestamp::ZERO).now()
}

fn tell(report: &Report, seconds: f64) -> anyhow::Result<()> {
    let out = &mut std::io::stdout().lock();
    if report.items + report.others == 0 {
        writeln!(out, "everything had arrived and been compared before")?;
    } else {
        let (items, others) = (counted(report.items, "item"), report.others);
        writeln!(out, "moved {items} and {others} other records in {seconds:.1} s")?;
        writeln!(out, "read back and compared: all equal, checksum {:016x}", report.checksum)?;
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
