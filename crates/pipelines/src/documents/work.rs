//! The workers of documents, on any queue: one for the stages that split a document, and one for
//! each of the others.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use windrow_client::worker::{Endings, Event, Handled, Job, Made, Running, Unread, Worker};
use windrow_core::queue::{Error, Queue};

use super::{LEASE_MS, MAX_ATTEMPTS, Parts, QUEUE, Stages, stage, vector};

/// How long what is under way may go on after a stop.
const GRACE: Duration = Duration::from_secs(30);
/// Chunks that may wait in hand to be embedded or linked, beyond those that are.
const AHEAD: usize = 512;
/// Pages that are cut for each that is read: most of the time they wait for the catalog, which
/// commits once for all that wait.
const CUTS: usize = 4;

/// The stages in which a document is split.
const SPLITS: [&str; 4] = [stage::PAGES, stage::CUT, stage::EMBED, stage::LINK];

/// What is done, how much of it at once, and with how much patience.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The stages that are done; others are left to others.
    pub stages: Stages,
    /// Files that are opened, and pages that are read and cut.
    pub pages: usize,
    /// Chunks that wait for their vectors: the embedder gets them in batches.
    pub chunks: usize,
    /// Chunks that are read for what they are about: as many as a model is asked at once. What
    /// needs no model goes by `chunks`.
    pub links: usize,
    /// How long a page or a chunk is somebody's without a word of it.
    pub lease_ms: u64,
    /// How often a stage is tried; 0 for no limit.
    pub max_attempts: u16,
    /// How long what runs may take to end when the workers stop.
    pub grace: Duration,
}

impl Default for Plan {
    fn default() -> Plan {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let (lease_ms, max_attempts) = (LEASE_MS, MAX_ATTEMPTS);
        let (stages, grace) = (Stages::ALL, GRACE);
        Plan { stages, pages: cores, chunks: 256, links: 16, lease_ms, max_attempts, grace }
    }
}

/// Workers of stages, at work.
pub struct Workers {
    /// Each with its first stage.
    running: Vec<(&'static str, Running)>,
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.running).finish()
    }
}

/// What every worker is told.
struct Crew<Q> {
    queue: Arc<Q>,
    parts: Arc<Parts>,
    /// What the workers are called, before the name of their stage.
    name: String,
    plan: Plan,
    tell: Arc<dyn Fn(Event) + Send + Sync>,
    running: Vec<(&'static str, Running)>,
}

impl Workers {
    /// Begins to work, on the runtime that this is called on. Each worker is called by the name and
    /// its stage, as `name/ocr`.
    pub fn start<Q: Queue>(
        queue: Arc<Q>,
        parts: Parts,
        name: &str,
        plan: Plan,
        tell: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Workers, Error> {
        let (embedding, linking) = (parts.embedding(), parts.linking());
        // What asks nobody and costs nothing is linked as chunks are embedded.
        let is_paid = parts.extractor.as_ref().is_some_and(|extractor| extractor.is_paid());
        let (links, links_ahead) =
            if is_paid { (plan.links, plan.links) } else { (plan.chunks, AHEAD) };
        let (name, parts, tell) = (name.to_owned(), Arc::new(parts), Arc::new(tell));
        let mut crew = Crew { queue, parts, name, plan, tell, running: Vec::new() };
        crew.start(&SPLITS, 1, 0, |parts, job| async move {
            match job.stage() {
                stage::PAGES => parts.pages(&job).await,
                _ => parts.next_phase(&job).await,
            }
        })?;
        crew.start(&[stage::OCR], plan.pages, plan.pages, |parts, job| async move {
            parts.read_page(&job).await
        })?;
        let cuts = plan.pages * CUTS;
        crew.start(&[stage::CHUNK], cuts, cuts, |parts, job| async move { parts.cut(&job).await })?;
        crew.start(&[stage::VECTOR], plan.chunks, AHEAD, move |parts, job| {
            let embedding = embedding.clone();
            async move { vector::vector(&parts, &embedding, &job).await }
        })?;
        crew.start(&[stage::GRAPH], links, links_ahead, move |parts, job| {
            let linking = linking.clone();
            async move { parts.link(&linking, &job).await }
        })?;
        crew.start(&[stage::PUBLISH], 1, 0, |parts, job| async move { parts.publish(&job).await })?;
        Ok(Workers { running: crew.running })
    }

    /// Claims nothing more, lets what runs end within the grace, and hands back the rest. All do
    /// so at once, and each does whatever becomes of the others; the first error is given.
    pub async fn stop(&self) -> Result<(), Error> {
        let stops = self.running.iter().map(|(_, running)| running.stop());
        join_all(stops).await.into_iter().try_for_each(|stopped| stopped.map(drop))
    }

    /// Ends the grace of a stop that is under way.
    pub fn hurry(&self) {
        self.running.iter().for_each(|(_, running)| running.hurry());
    }

    /// Waits until one of them could not go on.
    pub async fn ended(&self) {
        if self.running.is_empty() {
            return std::future::pending().await;
        }
        select_all(self.running.iter().map(|(_, running)| Box::pin(running.ended()))).await;
    }

    /// What became of what they took, by stage.
    pub fn endings(&self) -> impl Iterator<Item = (&'static str, Endings)> {
        self.running.iter().map(|(stage, running)| (*stage, running.endings()))
    }
}

impl<Q: Queue> Crew<Q> {
    /// Begins with stages, if they are to be done.
    fn start<R, F, Fut>(
        &mut self,
        stages: &[&'static str],
        concurrency: usize,
        prefetch: usize,
        handler: F,
    ) -> Result<(), Error>
    where
        R: Made + 'static,
        F: Fn(Arc<Parts>, Job<Unread>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Handled<R>> + Send + 'static,
    {
        if !self.plan.stages.has(stages[0]) {
            return Ok(());
        }
        let (parts, tell) = (Arc::clone(&self.parts), Arc::clone(&self.tell));
        let running = Worker::on_shared(Arc::clone(&self.queue))
            .queues([QUEUE])
            .stages(stages.iter().copied())
            .name(format!("{}/{}", self.name, stages[0]))
            .concurrency(concurrency)
            .prefetch(prefetch)
            .lease(Duration::from_millis(self.plan.lease_ms))
            .grace(self.plan.grace)
            .told(move |event| tell(event))
            .handle(move |job: Job<Unread>| handler(Arc::clone(&parts), job))
            .start()?;
        self.running.push((stages[0], running));
        Ok(())
    }
}
