//! The workers of documents, on any queue: one for the stages that split a document, and one for
//! each of the others.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use windrow_client::worker::{Event, Handled, Job, Made, Running, Unread, Worker};
use windrow_core::queue::{Error, Queue};

use super::{LEASE_MS, MAX_ATTEMPTS, Parts, QUEUE, stage, vector};

/// Chunks that may wait in hand to be embedded, beyond those that are.
const AHEAD: usize = 512;

/// The stages in which a document is split.
const SPLITS: [&str; 4] = [stage::PAGES, stage::CUT, stage::EMBED, stage::LINK];

/// How much is done at once, by stage, and with how much patience.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Files that are opened, and pages that are read and cut.
    pub pages: usize,
    /// Chunks that wait for their vectors: the embedder gets them in batches.
    pub chunks: usize,
    /// Chunks that are read for what they are about: as many as a model is asked at once.
    pub links: usize,
    /// How long a page or a chunk is somebody's without a word of it.
    pub lease_ms: u64,
    /// How often a stage is tried; 0 for no limit.
    pub max_attempts: u16,
}

impl Default for Plan {
    fn default() -> Plan {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let (lease_ms, max_attempts) = (LEASE_MS, MAX_ATTEMPTS);
        Plan { pages: cores, chunks: 256, links: 16, lease_ms, max_attempts }
    }
}

/// Workers of all stages, at work.
pub struct Workers {
    running: Vec<Running>,
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
    lease: Duration,
    tell: Arc<dyn Fn(Event) + Send + Sync>,
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
        let embedding = parts.embedding();
        let (name, lease) = (name.to_owned(), Duration::from_millis(plan.lease_ms));
        let crew = Crew { queue, parts: Arc::new(parts), name, lease, tell: Arc::new(tell) };
        let running =
            vec![
                crew.start(&SPLITS, 1, 0, |parts, job| async move {
                    match job.stage() {
                        stage::PAGES => parts.pages(&job).await,
                        _ => parts.next_phase(&job).await,
                    }
                })?,
                crew.start(&[stage::OCR], plan.pages, plan.pages, |parts, job| async move {
                    parts.read_page(&job).await
                })?,
                crew.start(&[stage::CHUNK], plan.pages, plan.pages, |parts, job| async move {
                    parts.cut(&job).await
                })?,
                crew.start(&[stage::VECTOR], plan.chunks, AHEAD, move |parts, job| {
                    let embedding = embedding.clone();
                    async move { vector::vector(&parts, &embedding, &job).await }
                })?,
                crew.start(&[stage::GRAPH], plan.links, plan.links, |parts, job| async move {
                    parts.link(&job).await
                })?,
                crew.start(&[stage::PUBLISH], 1, 0, |parts, job| async move {
                    parts.publish(&job).await
                })?,
            ];
        Ok(Workers { running })
    }

    /// Claims nothing more, lets what runs end, and hands back the rest.
    pub async fn stop(&self) -> Result<(), Error> {
        for running in &self.running {
            running.stop().await?;
        }
        Ok(())
    }
}

impl<Q: Queue> Crew<Q> {
    fn start<R, F, Fut>(
        &self,
        stages: &[&str],
        concurrency: usize,
        prefetch: usize,
        handler: F,
    ) -> Result<Running, Error>
    where
        R: Made + 'static,
        F: Fn(Arc<Parts>, Job<Unread>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Handled<R>> + Send + 'static,
    {
        let (parts, tell) = (Arc::clone(&self.parts), Arc::clone(&self.tell));
        Worker::on_shared(Arc::clone(&self.queue))
            .queues([QUEUE])
            .stages(stages.iter().copied())
            .name(format!("{}/{}", self.name, stages[0]))
            .concurrency(concurrency)
            .prefetch(prefetch)
            .lease(self.lease)
            .told(move |event| tell(event))
            .handle(move |job: Job<Unread>| handler(Arc::clone(&parts), job))
            .start()
    }
}
