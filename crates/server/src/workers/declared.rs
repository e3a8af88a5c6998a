//! A worker as it is declared, and where payloads are that do not come with their item.

use std::sync::Arc;
use std::time::Duration;

use windrow_core::LeaseId;
use windrow_core::queue::Work;

/// A worker as it is declared.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub(crate) name: Arc<str>,
    /// What it takes; everything where nothing is named.
    pub(crate) queues: Vec<Arc<str>>,
    pub(crate) kinds: Vec<Arc<str>>,
    pub(crate) stages: Vec<Arc<str>>,
    pub(crate) tenants: Vec<Arc<str>>,
    /// The program that does the work, with its arguments.
    pub(crate) command: Vec<String>,
    /// How many items it does when it is called, and how long it may take for all of them.
    pub(crate) max_jobs: usize,
    pub(crate) budget: Duration,
    /// How long it may take for one.
    pub(crate) timeout: Option<Duration>,
    /// How many items it does at once by itself.
    pub(crate) concurrency: usize,
    /// How often it says that it is still there, and how long it is believed to be without that.
    pub(crate) heartbeat: Duration,
    pub(crate) lease: Duration,
    /// The command gets the payload as a file, and not on standard input.
    pub(crate) payload_in_file: bool,
}

/// Where the bytes of a payload are that is too large to come with its item.
pub(crate) trait Payloads: Send + Sync {
    /// All of them, or why not.
    fn read(
        &self,
        lease: LeaseId,
        work: &Work,
    ) -> impl Future<Output = Result<Vec<u8>, String>> + Send;
}
