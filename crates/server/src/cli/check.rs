//! `windrow check`: is everything in a data directory as it should be? Changes nothing in it.

use std::io::Write as _;

use windrow_store::embedded::{Options, check};

use super::counted;
use super::data_dir::{DataDir, not_opened};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    data: DataDir,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (path, disk) = (args.data.path(), args.data.to_read()?);
    let checked = check(&disk, Options::default()).map_err(|error| not_opened(path, &error))?;
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
    for fault in &checked.faults {
        writeln!(out, "fault: {fault}")?;
    }
    let faults = checked.faults.len();
    anyhow::ensure!(
        faults == 0,
        "{}: {} found; restore a backup",
        path.display(),
        counted(faults as u64, "fault")
    );
    writeln!(out, "all well")?;
    Ok(())
}
