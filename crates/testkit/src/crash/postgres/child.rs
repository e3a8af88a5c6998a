//! One server: an engine over PostgreSQL with its producers and workers, until somebody kills it.
//!
//! Runs in a process of its own. Reports go to standard output, each with the time at which it was
//! made, so that the parent can put those of several servers in order. Orders come on standard
//! input; when that ends, so does the process.

use std::io::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use tokio::sync::RwLock;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use windrow_core::Timestamp;
use windrow_core::ports::StoreError;
use windrow_engine::{Clock, Engine, Limits};
use windrow_store::postgres::{Options, Postgres};

use super::super::ack::Ack;
use super::super::load::{Did, Producer, Told, Worker};
use super::client::Client;
use crate::random::Splitmix;

/// So many producers of each server have names of their own.
pub const PRODUCERS: u8 = 2;
const WORKERS: u8 = 4;
const BATCH_MAX: usize = 6;
const CONNECTIONS: usize = 4;
/// How long a producer rests after a batch: more rounds tell more than more items.
const REST: Duration = Duration::from_millis(60);
/// How long somebody who was not served waits.
const AGAIN: Duration = Duration::from_millis(25);

/// What a server is told by its parent.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    pub url: String,
    pub server: u8,
    pub life: u32,
    pub seed: u64,
    pub ahead_ms: u64,
}

/// What it is told later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Produce and work.
    Work,
    /// Work, and produce no more.
    Drain,
    /// Do nothing, and say so once nothing is under way.
    Halt,
    /// The clock is so far ahead of the machine's.
    Ahead(u64),
}

impl Order {
    pub fn line(self) -> String {
        match self {
            Order::Work => "work\n".to_owned(),
            Order::Drain => "drain\n".to_owned(),
            Order::Halt => "halt\n".to_owned(),
            Order::Ahead(ms) => format!("ahead {ms}\n"),
        }
    }

    fn parse(line: &str) -> Option<Order> {
        match line {
            "work" => Some(Order::Work),
            "drain" => Some(Order::Drain),
            "halt" => Some(Order::Halt),
            _ => line.strip_prefix("ahead ")?.parse().ok().map(Order::Ahead),
        }
    }
}

/// Microseconds since 1970.
pub fn wall_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_micros() as u64
}

/// Reports go to standard output, each in one call.
#[derive(Clone, Copy, Debug)]
struct Report;

impl Told for Report {
    fn tell(&self, ack: Ack) {
        let mut out = std::io::stdout().lock();
        let line = format!("{:x} {}", wall_us(), ack.line());
        // A parent that no longer reads has died; so does the server.
        if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
            std::process::exit(3);
        }
    }
}

/// The machine's clock, and a little more where the parent lets time pass.
#[derive(Clone, Debug, Default)]
struct Hurried {
    ahead_ms: Arc<AtomicU64>,
}

impl Clock for Hurried {
    fn now(&self) -> Timestamp {
        Timestamp(wall_us() / 1_000).plus(self.ahead_ms.load(Ordering::Relaxed))
    }

    fn sleep_until(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(at.since(self.now()))))
    }
}

/// Serves until it is killed, or until its standard input ends.
pub fn run(orders: &Orders) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    // A panic ends one task, and the others would hide it.
    std::panic::set_hook(Box::new(|panic| Report.tell(Ack::Wrong(format!("it panics: {panic}")))));
    let (send, receive) = unbounded_channel();
    std::thread::spawn(move || listen(&send));
    runtime.block_on(serve(orders, receive));
    Ok(())
}

fn listen(send: &UnboundedSender<Order>) {
    for line in std::io::stdin().lines() {
        let Ok(line) = line else { break };
        match Order::parse(&line) {
            Some(order) if send.send(order).is_ok() => {}
            _ => Report.tell(Ack::Wrong(format!("no such order: {line}"))),
        }
    }
    std::process::exit(0);
}

/// One server, and what everybody in it shares.
struct Server {
    engine: Arc<Engine<Postgres, Hurried>>,
    clock: Hurried,
    /// Held by everybody while a step lasts, so that halting can wait for all of them.
    steps: Arc<RwLock<()>>,
    draining: Arc<AtomicBool>,
    /// How many of a hundred commands get a request id: a batch can be asked again by its store
    /// only if all of it can.
    careful: u64,
}

async fn serve(orders: &Orders, mut received: UnboundedReceiver<Order>) {
    let started = Instant::now();
    let clock = Hurried::default();
    clock.ahead_ms.store(orders.ahead_ms, Ordering::Relaxed);
    let store = open(&orders.url).await;
    let engine = Engine::new(store, clock.clone(), Limits::default(), CONNECTIONS);
    Report.tell(Ack::Opened { took_ms: started.elapsed().as_millis() as u64 });
    let server = Server {
        engine: Arc::new(engine),
        clock,
        steps: Arc::default(),
        draining: Arc::default(),
        careful: if orders.seed.is_multiple_of(2) { 100 } else { 50 },
    };
    server.begin(orders);
    let mut keeper = Some(server.keep());
    let mut halted = None;
    while let Some(order) = received.recv().await {
        match order {
            Order::Ahead(ms) => server.clock.ahead_ms.store(ms, Ordering::Relaxed),
            Order::Drain => server.draining.store(true, Ordering::Relaxed),
            Order::Halt => {
                if let Some(keeper) = keeper.take() {
                    keeper.abort();
                    let _aborted = keeper.await;
                }
                halted = Some(Arc::clone(&server.steps).write_owned().await);
                Report.tell(Ack::Halted);
            }
            Order::Work => {
                server.draining.store(false, Ordering::Relaxed);
                drop(halted.take());
                keeper.get_or_insert_with(|| server.keep());
            }
        }
    }
}

/// Opens the store as soon as PostgreSQL can be reached.
async fn open(url: &str) -> Postgres {
    loop {
        let mut options = Options::new(url);
        options.connections = CONNECTIONS;
        // The clock is ours, so that time can pass quickly.
        options.keeps_time = false;
        match Postgres::open(options).await {
            Ok(store) => return store,
            Err(error) => eprintln!("not opened yet: {error}"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

impl Server {
    fn begin(&self, orders: &Orders) {
        let mut dice = Splitmix(orders.seed);
        for number in 0..PRODUCERS {
            let number = orders.server * PRODUCERS + number;
            let producer = Producer::new(number, orders.life, BATCH_MAX, dice.draw());
            tokio::spawn(produce(self.client(&mut dice), self.ways(), producer));
        }
        for number in 0..WORKERS {
            let worker = Worker::new(orders.server * WORKERS + number, BATCH_MAX, dice.draw());
            tokio::spawn(labour(self.client(&mut dice), self.ways(), worker));
        }
    }

    fn client(&self, dice: &mut Splitmix) -> Client<Hurried, Report> {
        let dice = Mutex::new(Splitmix(dice.draw()));
        Client { engine: Arc::clone(&self.engine), told: Report, dice, careful: self.careful }
    }

    fn ways(&self) -> Ways {
        Ways { steps: Arc::clone(&self.steps), draining: Arc::clone(&self.draining) }
    }

    /// What an engine does by itself. It goes on whatever happens to the database.
    fn keep(&self) -> JoinHandle<()> {
        let engine = Arc::clone(&self.engine);
        tokio::spawn(async move {
            let ended = engine.run().await;
            Report.tell(Ack::Wrong(format!("the engine ended: {ended}")));
        })
    }
}

/// When to do something.
struct Ways {
    steps: Arc<RwLock<()>>,
    draining: Arc<AtomicBool>,
}

async fn produce(client: Client<Hurried, Report>, ways: Ways, mut producer: Producer) {
    loop {
        let step = ways.steps.read().await;
        if !ways.draining.load(Ordering::Relaxed)
            && let Err(error) = producer.step(&client, Timestamp::ZERO, &Report).await
        {
            complain(&error);
        }
        drop(step);
        tokio::time::sleep(REST).await;
    }
}

async fn labour(client: Client<Hurried, Report>, ways: Ways, mut worker: Worker) {
    loop {
        let step = ways.steps.read().await;
        let done = worker.step(&client, Timestamp::ZERO, &Report).await;
        drop(step);
        match done {
            Ok(Did::Something) => {}
            Ok(Did::Nothing) => tokio::task::yield_now().await,
            Err(error) => {
                complain(&error);
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// That the database is away is no news; that the store has ended would be.
fn complain(error: &StoreError) {
    match error {
        StoreError::NotApplied(_) | StoreError::OutcomeUnknown(_) => eprintln!("{error}"),
        StoreError::Closed | StoreError::Poisoned(_) => Report.tell(Ack::Wrong(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_understood() {
        for order in [Order::Work, Order::Drain, Order::Halt, Order::Ahead(35_000)] {
            assert_eq!(Order::parse(order.line().trim_end()), Some(order));
        }
        assert_eq!(Order::parse("rest"), None);
    }
}
