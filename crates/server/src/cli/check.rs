//! `windrow check`: is everything in a store as it should be? Changes nothing in it.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use windrow_store::embedded::overlay::Overlay;
use windrow_store::embedded::{Embedded, Options, check};
use windrow_store::postgres::{self, HealthLimits, Postgres};

use super::data_dir::{not_opened, to_read};
use super::place::{Place, PlaceArgs};
use super::{blobs, counted, runtime};

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    place: PlaceArgs,
    /// Read every blob as well, and compare it with its hash.
    #[arg(long)]
    blobs: bool,
}

const EXAMPLES: &str = "\
Examples:
  windrow check /var/lib/windrow
  windrow check --store postgres://windrow@db.example/queue
  windrow check --blobs /var/lib/windrow

Of a directory, every checksum is verified and every count counted again. Of a
database, every count is counted again, every lease compared with what it holds,
and the server's state looked at: what holds back vacuum makes claims slow.";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match args.place.place()? {
        Place::Directory(path) => directory(&path, args.blobs),
        Place::Database(options) => runtime()?.block_on(database(options, args.blobs)),
    }
}

fn directory(path: &Path, with_blobs: bool) -> anyhow::Result<()> {
    let disk = to_read(path)?;
    let mut checked = check(&disk, Options::default()).map_err(|error| not_opened(path, &error))?;
    if with_blobs {
        let opened = Embedded::open(Arc::new(Overlay::over(disk)), Options::default());
        let store = opened.map_err(|error| not_opened(path, &error))?;
        let (items, bytes) = (store.outgoing(), blobs::to_read(path)?);
        checked.faults.extend(runtime()?.block_on(blobs::verify(&items, &bytes))?);
    }
    let out = &mut std::io::stdout().lock();
    let segments = counted(u64::from(checked.segments), "segment");
    let (groups, records) = (counted(checked.groups, "group"), counted(checked.records, "record"));
    writeln!(out, "{segments}, {groups}, {records}: every checksum is right")?;
    let (live, trees) = (counted(checked.live, "live item"), counted(checked.trees, "tree"));
    writeln!(out, "{live}, {} ended, {trees}", checked.ended)?;
    if let Some(at) = checked.torn_at {
        writeln!(out, "the last group of the log is torn, {at}: opening will cut it")?;
        writeln!(out, "  either it was being written when the process or the machine died, and")?;
        writeln!(out, "  nobody had an answer, or the disk lost what it had confirmed")?;
    }
    conclude(&path.display().to_string(), &checked.faults)
}

async fn database(options: postgres::Options, with_blobs: bool) -> anyhow::Result<()> {
    let schema = Postgres::schema(&options).await?;
    let store = Postgres::open_to_move(options).await?;
    let mut checked = store.check().await?;
    if with_blobs {
        checked.faults.extend(blobs::verify(&store, &store).await?);
    }
    let health = store.health(HealthLimits::default()).await?;
    let out = &mut std::io::stdout().lock();
    let steps = counted(schema.applied.len() as u64, "step");
    writeln!(out, "schema: {steps}, as this program knows them")?;
    let (live, trees) = (counted(checked.live, "live item"), counted(checked.trees, "tree"));
    let leases = counted(checked.leases, "lease");
    writeln!(out, "{live}, {} ended, {trees}, {leases}", checked.ended)?;
    for warning in store.warnings().iter().chain(&health) {
        writeln!(out, "warning: {warning}")?;
    }
    conclude(&store.place(), &checked.faults)
}

fn conclude(place: &str, faults: &[String]) -> anyhow::Result<()> {
    let out = &mut std::io::stdout().lock();
    for fault in faults {
        writeln!(out, "fault: {fault}")?;
    }
    let count = counted(faults.len() as u64, "fault");
    anyhow::ensure!(faults.is_empty(), "{place}: {count} found; restore a backup");
    writeln!(out, "all well")?;
    Ok(())
}
