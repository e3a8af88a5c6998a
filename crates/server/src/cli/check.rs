//! `windrow check`: is everything in a data directory as it should be?

use std::io::Write as _;

use windrow_store::embedded::{Options, check};

use super::{DataDir, existing};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    data: DataDir,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let disk = existing(&args.data.data_dir)?;
    let checked = check(&disk, Options::default())?;
    let out = &mut std::io::stdout().lock();
    writeln!(
        out,
        "{} segments, {} groups, {} records: every checksum is right",
        checked.segments, checked.groups, checked.records
    )?;
    writeln!(out, "{} live items, {} ended, {} trees", checked.live, checked.ended, checked.trees)?;
    if checked.torn {
        writeln!(out, "the last group had not reached the disk when the process died; it was cut")?;
    }
    for fault in &checked.faults {
        writeln!(out, "fault: {fault}")?;
    }
    let faults = checked.faults.len();
    anyhow::ensure!(faults == 0, "{faults} faults found; restore a backup or write to us");
    writeln!(out, "all well")?;
    Ok(())
}
