//! Servers that go away and come back, or do not let a worker in.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;
use windrow_client::worker::{Event, Job, Raw, Worker};
use windrow_client::{Options, rpc};
use windrow_core::Status;
use windrow_core::queue::{Error, Queue};

use crate::bed::{Bed, QUEUE, is_done, shared};

/// Impatient, so that the worker hears of a server that is away.
fn options() -> Options {
    Options { within: Duration::from_millis(300), ..Options::default() }
}

async fn check_restart<Q: Queue>(mut bed: Bed, queue: Q) {
    let id = bed.add("").await;
    let (end, ends) = shared(Notify::new());
    let (begin, begun) = shared(Notify::new());
    let (heard, events) = shared(Mutex::new(Vec::new()));
    let (away, is_away) = shared(Notify::new());
    let worker = Worker::on(queue).queues([QUEUE]).concurrency(2).told(move |event| {
        if matches!(event, Event::Away(_)) {
            away.notify_one();
        }
        heard.lock().unwrap().push(event);
    });
    let worker = worker.handle(move |_: Job<Raw>| {
        let (begin, end) = (begin.clone(), end.clone());
        async move {
            begin.notify_one();
            end.notified().await;
            Ok(())
        }
    });
    let running = worker.start().unwrap();
    begun.notified().await;
    bed.server.kill().unwrap();
    is_away.notified().await;
    // The work ends while nobody is there to be told.
    ends.notify_one();
    bed.server.start_again().unwrap();
    let seen = bed.until(id, is_done).await;
    assert_eq!((seen.status, seen.attempts), (Status::Completed, 1));
    let next = bed.add("").await;
    ends.notify_one();
    assert_eq!(bed.until(next, is_done).await.attempts, 1);
    assert_eq!(running.stop().await.unwrap().to_string(), "completed 2");
    let events = events.lock().unwrap();
    assert!(matches!(events[..], [Event::Away(_), Event::Back]), "{events:?}");
}

#[tokio::test]
async fn a_server_that_is_killed_and_comes_back_over_rpc_costs_nothing() {
    let bed = Bed::new().await;
    let queue = rpc::Client::new(&bed.server.rpc_url(), options()).unwrap();
    check_restart(bed, queue).await;
}

#[tokio::test]
async fn a_server_that_is_killed_and_comes_back_over_http_costs_nothing() {
    let bed = Bed::new().await;
    let queue = windrow_client::http::Client::new(&bed.server.url(), options()).unwrap();
    check_restart(bed, queue).await;
}

#[tokio::test]
async fn what_cannot_be_told_before_the_lease_has_run_out_is_lost() {
    let mut bed = Bed::new().await;
    let id = bed.add("").await;
    let queue = rpc::Client::new(&bed.server.rpc_url(), options()).unwrap();
    let (told, was_told) = shared(Notify::new());
    let (begin, begun) = shared(Notify::new());
    let worker = Worker::on(queue).queues([QUEUE]).lease(Duration::from_secs(1));
    let worker = worker.handle(move |job: Job<Raw>| {
        let (begin, told) = (begin.clone(), told.clone());
        async move {
            begin.notify_one();
            job.cancelled().await;
            told.notify_one();
            Ok(())
        }
    });
    let running = worker.start().unwrap();
    begun.notified().await;
    bed.server.kill().unwrap();
    // Nobody answers for as long as the lease is good.
    was_told.notified().await;
    drop(running);
    bed.server.start_again().unwrap();
    assert_eq!(bed.see(id).await.result, None);
}

#[tokio::test]
async fn a_claim_that_is_refused_for_good_ends_the_worker() {
    let bed = Bed::new().await;
    let worker = bed.worker().queues(["x".repeat(1_000)]);
    let ended = worker.handle(|_: Job<Raw>| async { Ok(()) }).run().await;
    let Err(Error::Refused(refused)) = ended else { panic!("{ended:?}") };
    assert_eq!(refused.code, "invalid");
}
