//! The limit: what this machine gives a log that does nothing but become durable.
//!
//! Clients append records to one group in memory; one committer writes the group to a
//! preallocated, zero-written segment and syncs it, while the next group fills. A client goes on
//! when its group is durable. There is no index, no rule, no checksum and no read.

use std::convert::Infallible;
use std::fs::{File, OpenOptions};
use std::future::poll_fn;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use windrow_testkit::bench::limit::{Asked, SEGMENT_BYTES};
use windrow_testkit::bench::measure::{Latencies, cpu_us, noise};

const HEADER: [u8; 16] = [0x5a; 16];
const PAYLOAD_BYTES: usize = 256;
/// What a claim or a settle must at least say of the item that the header names.
const STATE_BYTES: usize = 8;

#[derive(Default)]
struct Group {
    number: u64,
    bytes: Vec<u8>,
    waiting: Vec<Waker>,
}

struct Log {
    open: Mutex<Group>,
    filled: Condvar,
    durable: AtomicU64,
    noise: Vec<u8>,
}

impl Log {
    /// Appends `batch` records with bodies of `bytes` and waits until they are durable.
    async fn append(&self, batch: usize, bytes: usize) {
        let mut group = None;
        poll_fn(|cx| {
            if let Some(group) = group {
                let is_durable = self.durable.load(Ordering::Acquire) >= group;
                return if is_durable { Poll::Ready(()) } else { Poll::Pending };
            }
            let mut open = self.open.lock();
            for _ in 0..batch {
                let from = open.bytes.len() % (self.noise.len() - PAYLOAD_BYTES);
                open.bytes.extend_from_slice(&HEADER);
                open.bytes.extend_from_slice(&self.noise[from..from + bytes]);
            }
            open.waiting.push(cx.waker().clone());
            group = Some(open.number);
            drop(open);
            self.filled.notify_one();
            Poll::Pending
        })
        .await;
    }

    /// The committer: one write and one sync per group, until the process ends.
    fn commit(&self, segments: &[File]) -> std::io::Result<Infallible> {
        let (mut segment, mut offset) = (0, 0);
        let mut spare = Group::default();
        loop {
            let mut open = self.open.lock();
            while open.bytes.is_empty() {
                self.filled.wait(&mut open);
            }
            spare.number = open.number + 1;
            let mut group = std::mem::replace(&mut *open, spare);
            drop(open);
            let len = group.bytes.len() as u64;
            if offset + len > SEGMENT_BYTES {
                (segment, offset) = ((segment + 1) % segments.len(), 0);
            }
            segments[segment].write_all_at(&group.bytes, offset)?;
            segments[segment].sync_data()?;
            offset += len;
            self.durable.store(group.number, Ordering::Release);
            group.waiting.drain(..).for_each(Waker::wake);
            group.bytes.clear();
            spare = group;
        }
    }
}

/// Segments of the store's size whose blocks are taken; made once, used by all rounds.
fn segments(dir: &Path) -> anyhow::Result<Vec<File>> {
    std::fs::create_dir_all(dir)?;
    let options = OpenOptions::new().write(true).create(true).truncate(false).clone();
    let open = |number: usize| {
        let file = options.open(dir.join(format!("limit-{number}.log")))?;
        if file.metadata()?.len() != SEGMENT_BYTES {
            // As the store writes them, which syncs faster than larger writes.
            let zeros = vec![0; 64 << 10];
            for at in (0..SEGMENT_BYTES).step_by(zeros.len()) {
                file.write_all_at(&zeros, at)?;
            }
            file.sync_all()?;
        }
        Ok(file)
    };
    (0..4).map(open).collect()
}

/// One client: a producer appends payloads, a worker appends a claim and then a settle.
async fn client(log: Arc<Log>, asked: Asked, produces: bool, until: Instant) -> (u64, Latencies) {
    let (mut items, mut latencies) = (0, Latencies::default());
    while Instant::now() < until {
        let begun = Instant::now();
        log.append(asked.batch, if produces { PAYLOAD_BYTES } else { STATE_BYTES }).await;
        latencies.add(begun.elapsed());
        if !produces {
            log.append(asked.batch, STATE_BYTES).await;
        }
        items += asked.batch as u64;
    }
    (items, latencies)
}

fn main() -> anyhow::Result<()> {
    let asked = Asked::from_words(std::env::args().skip(1))?;
    let segments = segments(&asked.dir)?;
    let (open, filled) = (Mutex::new(Group { number: 1, ..Group::default() }), Condvar::new());
    let log = Arc::new(Log { open, filled, durable: AtomicU64::new(0), noise: noise() });
    let committer = Arc::clone(&log);
    std::thread::spawn(move || {
        let Err(error) = committer.commit(&segments);
        eprintln!("limit: {error}");
        std::process::exit(1);
    });
    let runtime = windrow_testkit::bench::runtime()?;
    let (cpu, begun) = (cpu_us()?, Instant::now());
    let until = begun + Duration::from_secs_f64(asked.seconds);
    let spawn = |n| client(Arc::clone(&log), asked.clone(), n < asked.producers, until);
    let all = 0..asked.producers + asked.workers;
    let clients: Vec<_> = all.map(|n| runtime.spawn(spawn(n))).collect();
    let (mut items, mut latencies) = (0, Latencies::default());
    for client in clients {
        let (more, theirs) = runtime.block_on(client)?;
        items += more;
        latencies.merge(theirs);
    }
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), cpu_us()? - cpu);
    asked.answer(items, seconds, cpu, latencies)
}
