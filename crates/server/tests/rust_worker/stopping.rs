//! How a worker stops.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use windrow_client::worker::{Event, Job, Raw};
use windrow_core::Status;
use windrow_core::trail::Ending;

use crate::bed::{Bed, is_done, shared};

#[tokio::test]
async fn what_runs_may_end_and_what_has_not_begun_is_handed_back() {
    let bed = Bed::new().await;
    let ids = [bed.add("").await, bed.add("").await, bed.add("").await];
    let (end, ends) = shared(Notify::new());
    let (begin, begun) = shared(Notify::new());
    let (heard, events) = shared(Mutex::new(Vec::new()));
    let worker = bed.worker().prefetch(5).told(move |event| heard.lock().unwrap().push(event));
    let worker = worker.handle(move |_: Job<Raw>| {
        let (begin, end) = (begin.clone(), end.clone());
        async move {
            begin.notify_one();
            end.notified().await;
            Ok(())
        }
    });
    let running = worker.start().unwrap();
    // All of them are in hand; one of them runs.
    for id in ids {
        bed.until(id, |seen| seen.lease.is_some()).await;
    }
    begun.notified().await;
    let stopped = tokio::join!(running.stop(), async {
        bed.until(ids[2], |seen| seen.status == Status::Pending).await;
        assert_eq!(bed.see(ids[0]).await.status, Status::Processing, "it may end");
        ends.notify_one();
    });
    assert_eq!(stopped.0.unwrap().to_string(), "completed 1, released 2");
    assert_eq!(bed.see(ids[0]).await.status, Status::Completed);
    for id in &ids[1..] {
        let seen = bed.see(*id).await;
        assert_eq!((seen.status, seen.attempts), (Status::Pending, 0), "no attempt is lost");
    }
    assert_eq!(*events.lock().unwrap(), [Event::HandedBack { items: 2, begun: 0 }]);
}

#[tokio::test]
async fn what_still_runs_after_the_grace_is_handed_back_and_costs_no_attempt() {
    let bed = Bed::new().await;
    for is_hurried in [false, true] {
        let id = bed.add("").await;
        let grace = if is_hurried { Duration::from_secs(600) } else { Duration::from_millis(50) };
        let (told, was_told) = shared(Notify::new());
        let (begin, begun) = shared(Notify::new());
        let worker = bed.worker().grace(grace).handle(move |job: Job<Raw>| {
            let (begin, told) = (begin.clone(), told.clone());
            async move {
                begin.notify_one();
                job.cancelled().await;
                told.notify_one();
                Ok("too late")
            }
        });
        let running = worker.start().unwrap();
        // What is in hand and has not begun is handed back too, and its handler never hears of it.
        begun.notified().await;
        let stopped = tokio::join!(running.stop(), async {
            if is_hurried {
                running.hurry();
            }
        });
        assert_eq!(stopped.0.unwrap().to_string(), "released 1");
        was_told.notified().await;
        let seen = bed.see(id).await;
        assert_eq!((seen.status, seen.attempts), (Status::Pending, 0));
        let done = bed.worker().handle(|_: Job<Raw>| async { Ok(()) }).drain().await.unwrap();
        assert_eq!(done.of(Ending::Completed), 1);
    }
}

#[tokio::test]
async fn a_worker_that_waits_for_work_stops_at_once() {
    let bed = Bed::new().await;
    let worker = bed.worker().wait(Duration::from_secs(60)).handle(|_: Job<Raw>| async { Ok(()) });
    let begun = Instant::now();
    let running = worker.start().unwrap();
    let id = bed.add("").await;
    bed.until(id, is_done).await;
    let endings = running.stop().await.unwrap();
    assert_eq!(endings.total(), 1);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    // What comes now is nobody's.
    let id = bed.add("").await;
    let seen = bed.see(id).await;
    assert_eq!((seen.status, seen.attempts), (Status::Pending, 0));
}

#[tokio::test]
async fn a_handler_that_hangs_keeps_nobody_from_stopping() {
    let bed = Bed::new().await;
    let id = bed.add("").await;
    let (hang, hangs) = std::sync::mpsc::channel::<()>();
    let hangs = Mutex::new(hangs);
    let (begin, begun) = shared(Notify::new());
    let worker = bed.worker().grace(Duration::ZERO).handle_blocking(move |_: Job<Raw>| {
        begin.notify_one();
        let _never = hangs.lock().map(|hangs| hangs.recv());
        Ok(())
    });
    let running = worker.start().unwrap();
    begun.notified().await;
    assert_eq!(running.stop().await.unwrap().to_string(), "released 1");
    assert_eq!(bed.see(id).await.attempts, 0);
    drop(hang);
}
