//! `windrow worker`: the workers that a configuration declares, on a machine of their own.
//!
//! `[workers.NAME]` says which command does the items of which stages. A server runs them inside;
//! this runs them anywhere, against any server.

use std::sync::Arc;
use std::time::Duration;

use super::exit::Stop;
use super::reach::Reach;
use super::show::{duration_ms, say};
use super::with_target;
use super::work::{Crew, is_there};
use crate::config::Config;
use crate::workers::Declared;
use crate::workers::shift::Quota;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow worker --stages ocr,vector --concurrency 4 --server https://queue.example
      Does items in these stages, four at once for each worker.
  windrow worker --config gpu.toml --server http://10.0.0.5:7117
      Every worker that the file declares.

What does the work is declared as for a server, in windrow.toml or by --config:
  [workers.ocr]
  stages = [\"ocr\"]
  command = [\"./ocr.sh\", \"--lang\", \"eng\"]
Exit codes, environment and progress are those of `windrow work`. Ctrl-C or SIGTERM takes nothing
more, asks commands to end, and hands their items back: no attempt is lost.")]
pub(super) struct Args {
    /// Only workers of these stages, and only these stages; all that are declared if none is named.
    #[arg(long, value_name = "STAGE", value_delimiter = ',', add = super::complete::stages())]
    stages: Vec<String>,
    /// How many items each worker does at once; as it is declared if this is not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrency: Option<u16>,
    /// How long commands may go on after Ctrl-C or SIGTERM before they are asked to end.
    #[arg(long, value_name = "TIME", value_parser = duration_ms, default_value = "0s")]
    drain: u64,
    /// End when there is nothing to do.
    #[arg(long)]
    until_empty: bool,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let declared = Config::new(&args.reach.layers()?)?.workers.declared;
    let workers = chosen(declared.values(), &args.stages)?;
    let workers: Vec<Declared> = workers
        .into_iter()
        .map(|worker| {
            let concurrency = args.concurrency.map_or(worker.concurrency, usize::from);
            Declared { concurrency, ..worker }
        })
        .collect();
    for worker in &workers {
        let program = worker.command.first().map_or("", String::as_str);
        if !is_there(program) {
            let said = format!("workers.{}: {program:?} is no program here", worker.name);
            return Err(Stop::usage(format!("{said}; nothing was claimed")).into());
        }
        let stages = worker.stages.join(", ");
        let stages = if stages.is_empty() { "every stage" } else { &stages };
        say(&format!("{} does {stages}, {} at once", worker.name, worker.concurrency));
    }
    let crew = Crew {
        workers,
        quota: Quota::new(None, args.until_empty),
        drain: Duration::from_millis(args.drain),
        json: args.reach.json,
    };
    with_target(&args.reach, async |target| crew.work(target).await)
}

/// The workers of these stages, each for those of them that it declares.
fn chosen<'a>(
    declared: impl Iterator<Item = &'a Arc<Declared>> + Clone,
    stages: &[String],
) -> Result<Vec<Declared>, Stop> {
    let known: Vec<&str> =
        declared.clone().flat_map(|worker| &worker.stages).map(|stage| &**stage).collect();
    if declared.clone().next().is_none() {
        return Err(Stop::usage(
            "no worker is declared; write [workers.NAME] with its command into windrow.toml, or \
             give a file with --config",
        ));
    }
    if let Some(unknown) = stages.iter().find(|stage| !known.contains(&stage.as_str())) {
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(Stop::usage(format!(
            "no worker declares stage {unknown:?}; declared are: {known}"
        )));
    }
    let mut chosen: Vec<Declared> = declared.map(|worker| (**worker).clone()).collect();
    if !stages.is_empty() {
        for worker in &mut chosen {
            worker.stages.retain(|stage| stages.iter().any(|named| **named == **stage));
        }
        chosen.retain(|worker| !worker.stages.is_empty());
    }
    Ok(chosen)
}
