//! Stages of documents, done by this process for a server: `windrow worker --stages ocr,vector`.
//!
//! The pipeline is the one that a server has. What it reads and writes is at the server
//! (`keeping.rs`), files come from there (`line.rs`) and stay for a while; who reads, embeds and
//! extracts is what `documents.*` says on this machine. Vectors and the graph go to the server too,
//! which puts them where it has them, so that only one machine must reach those.

mod empty;
mod keeping;
mod line;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use windrow_client::worker::{Event, default_name};
use windrow_core::queue::{Error, Queue, Refused};
use windrow_core::trail::Ending;
use windrow_pipelines::documents::{Parts, Plan, Stages, Workers, stage};
use windrow_wire::stage::{StagesHere, VERSION};

use self::keeping::AtServer;
use self::line::Line;
use super::exit::{Exit, Stop};
use super::reach::{Ask, Target};
use super::serve::Signals;
use super::show::say;
use super::work::{concluded, working};
use crate::config;
use crate::documents::files::Copies;
use crate::documents::{Misfit, elsewhere};

/// How often it is looked whether there is anything left to do.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Stages to be done, and how.
#[derive(Debug)]
pub(super) struct Doing {
    pub(super) stages: Stages,
    /// What this machine does them with.
    pub(super) config: config::Documents,
    /// How many items of a stage at once; as it is configured if nobody says.
    pub(super) at_once: Option<usize>,
    /// How long what is in hand may go on after a signal.
    pub(super) drain: Duration,
    pub(super) until_empty: bool,
    /// Where copies of files are; below the user's caches if nobody says.
    pub(super) cache: Option<PathBuf>,
}

impl Doing {
    /// Does them until it is told to stop, or there is nothing left.
    pub(super) async fn work(self, target: &Target) -> anyhow::Result<()> {
        let here: StagesHere =
            target.read(Ask::get(&["documents", "stages"])).await.map_err(older)?;
        speaks(here.version)?;
        let plan = self.plan();
        let line = Line::new(target, Duration::from_millis(plan.lease_ms));
        let files = Copies::new(Arc::new(line.clone()), self.cache.clone().or_else(cache));
        let keeping = Arc::new(AtServer(line.clone()));
        let misfit = |error: Misfit| Stop::usage(error.to_string());
        let (parts, reader) = elsewhere(&self.config, keeping, Arc::new(files)).map_err(misfit)?;
        if self.stages.has(stage::VECTOR) {
            same_embedder(&parts, &here)?;
        }
        self.tell(&parts, &here);
        if self.stages.has(stage::OCR) || self.stages.has(stage::PAGES) {
            reader.missing().iter().for_each(|missing| say(missing));
        }
        target.keeps_time();
        match target {
            Target::Here(here) => self.run(Arc::clone(here.queue()), target, parts, line).await,
            Target::Wire(client) => {
                let queue = Arc::new(working(client));
                self.run(queue, target, parts, line).await
            }
            Target::Own(_) => unreachable!("only `windrow up` has a server of its own"),
        }
    }

    fn plan(&self) -> Plan {
        let plan = self.config.plan;
        Plan {
            stages: self.stages,
            pages: self.at_once.unwrap_or(plan.pages),
            links: self.at_once.unwrap_or(plan.links),
            grace: self.drain,
            ..plan
        }
    }

    /// Says what is done, with what, and by whom else.
    fn tell(&self, parts: &Parts, here: &StagesHere) {
        for stage in self.stages.names() {
            let with = match stage {
                stage::OCR => format!(" with {}", parts.reader.version()),
                stage::VECTOR => format!(" with {}", named(&*parts.embedder)),
                stage::GRAPH => match &parts.extractor {
                    Some(extractor) => {
                        format!(" with {} {}", extractor.name(), extractor.version())
                    }
                    None => ", which documents.extract turns off".to_owned(),
                },
                _ => String::new(),
            };
            let too = here.stages.iter().any(|theirs| theirs == stage);
            let too = if too { "; the server does it too, see documents.stages" } else { "" };
            say(&format!("the documents pipeline does {stage}{with}{too}"));
        }
    }

    async fn run<Q: Queue>(
        self,
        queue: Arc<Q>,
        target: &Target,
        parts: Parts,
        line: Line,
    ) -> anyhow::Result<()> {
        // Before anything is taken, so that nothing is lost to a signal.
        let mut signals = Signals::new()?;
        let away = Away::default();
        let workers = Workers::start(queue, parts, &default_name(), self.plan(), move |event| {
            away.tell(event)
        })?;
        let refused = tokio::select! {
            () = signals.next() => {
                say("stopping: what is in hand is handed back; a second signal stops at once");
                None
            }
            () = workers.ended() => None,
            refused = line.refused() => Some(refused),
            () = self.is_over(target) => None,
        };
        if refused.is_some() {
            // What waits for an answer waits in vain.
            workers.hurry();
        }
        let stopped = tokio::select! {
            stopped = workers.stop() => stopped,
            never = async {
                loop {
                    signals.next().await;
                    workers.hurry();
                }
            } => never,
        };
        self.conclude(&workers, refused, stopped)
    }

    /// Ends when there is nothing to do, if that is wanted.
    async fn is_over(&self, target: &Target) {
        if !self.until_empty {
            return std::future::pending().await;
        }
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // A server that is away may have something.
            if empty::is_empty(target, self.stages).await.unwrap_or(false) {
                return;
            }
        }
    }

    /// Says what came of it.
    fn conclude(
        &self,
        workers: &Workers,
        refused: Option<Refused>,
        stopped: Result<(), Error>,
    ) -> anyhow::Result<()> {
        let mut failed = 0;
        for (stage, endings) in workers.endings() {
            failed += endings.of(Ending::Failed);
            say(&format!("{stage}: {endings}"));
        }
        concluded(refused.map(Error::Refused).or_else(|| stopped.err()), failed)
    }
}

/// That the queue is away concerns all workers, and is said once.
#[derive(Default, Debug)]
struct Away(std::sync::atomic::AtomicBool);

impl Away {
    fn tell(&self, event: Event) {
        use std::sync::atomic::Ordering::Relaxed;
        let is_news = match &event {
            Event::Away(_) => !self.0.swap(true, Relaxed),
            Event::Back => self.0.swap(false, Relaxed),
            _ => true,
        };
        if is_news {
            say(&event.to_string());
        }
    }
}

fn named(embedder: &dyn windrow_pipelines::adapters::embed::Embedder) -> String {
    format!("{} {}", embedder.name(), embedder.version())
}

/// A server that does not know of stages elsewhere takes the word for the id of a document.
fn older(stop: Stop) -> Stop {
    match stop.exit {
        Exit::NotFound => Stop::new(
            Exit::Failed,
            "this server is older than this windrow and has no stages for others; run the same \
             version here and there",
        ),
        _ => stop,
    }
}

fn speaks(theirs: u16) -> Result<(), Stop> {
    if theirs == VERSION {
        return Ok(());
    }
    let which = if theirs > VERSION { "newer" } else { "older" };
    Err(Stop::new(
        Exit::Failed,
        format!(
            "this server is {which} than this windrow: it speaks stage calls of version {theirs}, \
             and this one {VERSION}; run the same version here and there"
        ),
    ))
}

/// Vectors of one embedder cannot be found by the words of another.
fn same_embedder(parts: &Parts, here: &StagesHere) -> Result<(), Stop> {
    let (ours, theirs) = (&parts.embedder, &here.embedder);
    if ours.name() == theirs.name && ours.version() == theirs.version {
        return Ok(());
    }
    Err(Stop::usage(format!(
        "the server searches with {} {}, and documents.embed makes vectors with {} here, which it \
         could not find; set documents.embed as on the server; nothing was claimed",
        theirs.name,
        theirs.version,
        named(&**ours)
    )))
}

/// Where copies are if nobody says; none where there is no home.
fn cache() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty());
    let home = || named("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let base = named("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    base.map(|base| base.join("windrow/files"))
}
