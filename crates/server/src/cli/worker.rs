//! `windrow worker`: work of a server, on a machine of its own.
//!
//! `[workers.NAME]` says which command does the items of which stages. A server runs them inside;
//! this runs them anywhere, against any server. What no command is declared for and is a stage of
//! documents is done by the pipeline itself (`stages/`).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use windrow_pipelines::documents::Stages;

use super::exit::{Exit, Stop};
use super::meant::Named;
use super::reach::Reach;
use super::show::{duration_ms, say};
use super::stages::Doing;
use super::with_target;
use super::work::{Crew, is_there, tell_if_alone, why_not};
use crate::config::Config;
use crate::workers::Declared;
use crate::workers::shift::Quota;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow worker --stages ocr,vector --concurrency 4 --server https://queue.example
      Reads pages and makes vectors of documents, four pages at once.
  windrow worker --config gpu.toml --server http://10.0.0.5:7117
      Every worker that the file declares.

A stage that a worker declares is done by its command. The stages of documents (pages, ocr, chunk,
vector, graph, publish) that no worker declares are done here as on the server, with the documents.*
settings of this machine; a server leaves some to others with documents.stages. Vectors are made by
the embedder that the server searches with, or nothing is begun.

Commands are declared as for a server, in windrow.toml or by --config:
  [workers.ocr]
  stages = [\"ocr\"]
  command = [\"./ocr.sh\", \"--lang\", \"eng\"]
Exit codes, environment and progress are those of `windrow work`. Ctrl-C or SIGTERM takes nothing
more, asks commands to end, and hands their items back: no attempt is lost.")]
pub(super) struct Args {
    /// Only these stages: of workers that are declared, and of documents. All that workers declare
    /// if none is named.
    #[arg(long, value_name = "STAGE", value_delimiter = ',', add = super::complete::stages())]
    stages: Vec<String>,
    /// How many items each worker does at once; as it is declared if this is not given. Vectors are
    /// made many at a time in any case.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrency: Option<u16>,
    /// How long commands may go on after Ctrl-C or SIGTERM before they are asked to end.
    #[arg(long, value_name = "TIME", value_parser = duration_ms, default_value = "0s")]
    drain: u64,
    /// End when there is nothing to do, and nothing on its way through the stages of documents
    /// before.
    #[arg(long)]
    until_empty: bool,
    /// Where copies of documents are kept while they are read, at most about a gigabyte; by default
    /// below your own caches.
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let config = args.reach.layers().and_then(|layers| Config::new(&layers));
    let config = config.map_err(|error| Stop::usage(format!("{error:#}")))?;
    let (workers, stages) = chosen(config.workers.declared.values(), &args.stages)?;
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
            let said = format!("workers.{}: {}", worker.name, why_not(program));
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
        place: args.reach.named(),
        // What it is declared for may come only later.
        named: Named::default(),
    };
    let doing = Doing {
        stages,
        config: config.documents,
        at_once: args.concurrency.map(usize::from),
        drain: Duration::from_millis(args.drain),
        until_empty: args.until_empty,
        cache: args.cache.clone(),
    };
    with_target(&args.reach, async |target| {
        tell_if_alone(target, args.until_empty);
        match (crew.workers.is_empty(), stages.is_empty()) {
            (_, true) => crew.work(target).await,
            (true, _) => doing.work(target).await,
            // A signal is heard by both.
            _ => {
                let (ran, did) = tokio::join!(crew.work(target), doing.work(target));
                let exit = |ended: &anyhow::Error| Some(ended.downcast_ref::<Stop>()?.exit);
                match (ran, did) {
                    // That commands are drained is said already, and says nothing of the stages.
                    (Err(ran), did) if exit(&ran) == Some(Exit::Nothing) => did,
                    (Err(ran), Err(did)) if ran.to_string().is_empty() => Err(did),
                    (ran, did) => ran.and(did),
                }
            }
        }
    })
}

/// The workers of these stages, each for those of them that it declares; and the stages of
/// documents that none declares.
fn chosen<'a>(
    declared: impl Iterator<Item = &'a Arc<Declared>> + Clone,
    stages: &[String],
) -> Result<(Vec<Declared>, Stages), Stop> {
    let known: Vec<&str> =
        declared.clone().flat_map(|worker| &worker.stages).map(|stage| &**stage).collect();
    let ours = stages.iter().filter(|stage| !known.contains(&stage.as_str()));
    let ours = Stages::named(ours).map_err(|unknown| {
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Stop::usage(format!("{unknown}; workers declare: {known}"))
    })?;
    if stages.is_empty() && declared.clone().next().is_none() {
        return Err(Stop::usage(
            "no worker is declared, and no stage is named; name stages of documents, such as \
             --stages ocr,vector, or write [workers.NAME] with its command into windrow.toml, or \
             give a file with --config",
        ));
    }
    let mut chosen: Vec<Declared> = declared.map(|worker| (**worker).clone()).collect();
    if !stages.is_empty() {
        for worker in &mut chosen {
            worker.stages.retain(|stage| stages.iter().any(|named| **named == **stage));
        }
        chosen.retain(|worker| !worker.stages.is_empty());
    }
    Ok((chosen, ours))
}
