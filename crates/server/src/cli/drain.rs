//! `windrow drain`: a worker is handed nothing new, until it is resumed.
//!
//! Who is drained is kept in the store, by name, so that it holds on every server and while none
//! runs.

use std::io::Write as _;

use serde_json::Value;

use super::exit::Stop;
use super::reach::{Ask, Reach, Target};
use super::show::{Told, printable, say_note, text};
use super::with_target;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow drain vm7-4112
      It finishes what it has and gets nothing new, on any server; then its machine can be mended.
      `windrow workers` has the names, and says who is drained and what each still holds.
  windrow drain vm7-4112 --resume
      Hands it work again, at once if it waits for some.

What is drained is a name: it stays so when its worker comes back under it, and is forgotten when
nobody has used it for a week.")]
pub(super) struct Args {
    /// The worker, by the name that it claims with.
    #[arg(value_name = "WORKER", add = super::complete::workers())]
    worker: String,
    /// Hand it work again.
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let (verb, done) = if args.resume { ("resume", "resumed") } else { ("drain", "drained") };
    with_target(&args.reach, async |target| {
        let ask = Ask::post(&["workers", &args.worker, verb]);
        let told = Told::read(&target.ask(ask).await?)?;
        let mut out = std::io::stdout().lock();
        if args.reach.json {
            told.print(&mut out)?;
        } else {
            writeln!(out, "{}: {done}", printable(&args.worker))?;
        }
        say_note(&told);
        Ok(())
    })
}

/// Says of each of these workers that is drained that it is, and what ends that.
pub(super) async fn drained(target: &Target, names: &[&str]) -> Result<Vec<String>, Stop> {
    let present: Vec<Value> = target.read(Ask::get(&["workers"])).await?;
    let ours = present.iter().filter(|worker| worker["drained"] == true);
    let ours = ours.map(|worker| text(worker, "name")).filter(|name| names.contains(name));
    let told = ours.map(|name| {
        let name = printable(name);
        format!("{name} is drained: it gets nothing until `windrow drain {name:?} --resume`")
    });
    Ok(told.collect())
}
