//! What keeps an item with its worker, and what follows when it is lost.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::Notify;
use windrow_client::worker::{Event, Job, Raw};
use windrow_core::Status;
use windrow_core::command::{Claim, Outcome};
use windrow_core::queue::{Queue as _, Seen};
use windrow_core::trail::{Class, Ending};

use crate::bed::{Bed, QUEUE, is_done, pass, shared};

const LEASE: Duration = Duration::from_millis(500);

#[tokio::test]
async fn handlers_that_block_every_thread_keep_their_leases() {
    let bed = Bed::new().await;
    let at_once = 2 * std::thread::available_parallelism().map_or(2, usize::from);
    let mut ids = Vec::new();
    for _ in 0..at_once {
        ids.push(bed.add("").await);
    }
    let (tell, go_on) = mpsc::channel::<()>();
    let go_on = Mutex::new(go_on);
    let (begun, has_begun) = shared(Notify::new());
    let client = bed.client.clone();
    let worker = bed.worker().lease(LEASE).concurrency(at_once).prefetch(at_once);
    let worker = worker.handle(move |job: Job<Raw>| {
        let (client, begun, id) = (client.clone(), begun.clone(), job.id());
        let go_on = go_on.lock().is_ok_and(|all| all.recv_timeout(Duration::from_secs(60)).is_ok());
        begun.notify_one();
        async move {
            client.inspect(id).await?;
            Ok(go_on)
        }
    });
    let running = worker.start().unwrap();
    // Far longer than a lease.
    pass(&bed.client, 4 * LEASE.as_millis() as u64).await;
    for id in &ids {
        let seen = bed.see(*id).await;
        assert_eq!((seen.status, seen.attempts, seen.log.len()), (Status::Processing, 1, 0));
        let stage = &seen.stages[0];
        assert!(stage.renewed > stage.started, "{stage:?}");
    }
    (0..at_once).for_each(|_| tell.send(()).unwrap());
    has_begun.notified().await;
    for id in ids {
        let seen = bed.until(id, is_done).await;
        assert_eq!((seen.status, seen.attempts), (Status::Completed, 1));
        assert_eq!(seen.result.as_deref(), Some(&b"true"[..]));
    }
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_lease_that_is_lost_tells_the_handler_and_drops_its_outcome() {
    let bed = Bed::new().await;
    let id = bed.add("").await;
    let (lost, was_lost) = shared(AtomicBool::new(false));
    let (late, is_late) = shared(Notify::new());
    let (begin, begun) = shared(Notify::new());
    let (heard, events) = shared(Mutex::new(Vec::new()));
    let worker = bed.worker().lease(LEASE).told(move |event| heard.lock().unwrap().push(event));
    let worker = worker.handle(move |job: Job<Raw>| {
        let (begin, lost, late) = (begin.clone(), lost.clone(), late.clone());
        async move {
            if job.attempt() == 1 {
                begin.notify_one();
                job.cancelled().await;
                assert!(job.is_cancelled() && job.check().is_err());
                lost.store(true, Ordering::SeqCst);
                late.notified().await;
            }
            Ok("the first one")
        }
    });
    let running = worker.start().unwrap();
    begun.notified().await;
    // Somebody takes it away.
    let gone = vec![(id, Outcome::Fail { class: Class::Other, message: "taken".into() })];
    let lease = bed.see(id).await.lease.unwrap();
    bed.client.settle(lease, gone, None).await.unwrap().remove(0).unwrap();
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while !was_lost.load(Ordering::SeqCst) {
        assert!(std::time::Instant::now() < end, "nobody told the handler");
        pass(&bed.client, 20).await;
    }
    is_late.notify_one();
    let endings = running.stop().await.unwrap();
    assert_eq!(endings.total(), 0, "its outcome was not told: {endings}");
    assert_eq!(*events.lock().unwrap(), [Event::Lost(id)]);
    let seen = bed.see(id).await;
    assert_eq!((seen.status, seen.result), (Status::Failed, None));
}

#[tokio::test]
async fn an_item_that_is_cancelled_stops_a_blocking_handler_that_checks() {
    let bed = Bed::new().await;
    let id = bed.add("").await;
    let worker = bed.worker().lease(LEASE).handle_blocking(|job: Job<Raw>| {
        loop {
            job.check()?;
            std::thread::yield_now();
        }
        #[expect(unreachable_code, reason = "what it would make")]
        Ok(())
    });
    let running = worker.start().unwrap();
    bed.until(id, |seen| seen.lease.is_some()).await;
    bed.client.cancel(id, None).await.unwrap();
    // The only slot does the next one.
    let next = bed.add("").await;
    bed.until(next, |seen| seen.lease.is_some()).await;
    bed.client.cancel(next, None).await.unwrap();
    let endings = running.stop().await.unwrap();
    assert_eq!(endings.total(), 0, "{endings}");
    assert_eq!(bed.see(id).await.status, Status::Cancelled);
}

#[tokio::test]
async fn a_worker_that_is_dropped_lets_its_items_come_back() {
    let bed = Bed::new().await;
    let id = bed.add("").await;
    let worker = bed.worker().lease(LEASE).handle(|job: Job<Raw>| async move {
        job.cancelled().await;
        Ok(())
    });
    let running = worker.start().unwrap();
    bed.until(id, |seen| seen.lease.is_some()).await;
    drop(running);
    let claim = Claim::new("another", QUEUE, 1);
    let granted = bed.client.claim(claim, 30_000, None).await.unwrap().expect("it comes back");
    assert_eq!((granted.items[0].id, granted.items[0].attempt), (id, 2));
    assert_eq!(bed.see(id).await.log[0].ending, Ending::Expired);
}

#[tokio::test]
async fn progress_is_seen_while_the_handler_runs() {
    let bed = Bed::new().await;
    let id = bed.add("").await;
    let (seen_by_us, go_on) = shared(Notify::new());
    let worker = bed.worker().handle(move |job: Job<Raw>| {
        let seen_by_us = seen_by_us.clone();
        async move {
            job.progress(1, 40, "opened");
            job.progress(3, 40, "reading");
            seen_by_us.notified().await;
            Ok(())
        }
    });
    let running = worker.start().unwrap();
    // The first word may be heard on the way.
    let is_last = |seen: &Seen| seen.progress.as_ref().is_some_and(|said| said.current == 3);
    let progress = bed.until(id, is_last).await.progress.unwrap();
    assert_eq!((progress.total, &*progress.message), (40, "reading"));
    go_on.notify_one();
    bed.until(id, is_done).await;
    running.stop().await.unwrap();
}
