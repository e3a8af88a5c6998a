//! What handlers get, and what becomes of what they say.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::sync::Barrier;
use windrow_client::worker::{Done, Handled, Job, Raw, Running, Undone, Worker};
use windrow_core::Status;
use windrow_core::command::{NewChild, NewItem, RetryMode};
use windrow_core::item::{Body, Payload};
use windrow_core::queue::{Error, Queue, Seen};
use windrow_core::route::Route;
use windrow_core::tally::Bucket;
use windrow_core::trail::{Class, Ending};
use windrow_testkit::servers::queues;

use crate::bed::{Bed, QUEUE, add, is_done, item, pass, shared, try_again_soon, until};

#[derive(Deserialize)]
struct Sum {
    of: Vec<u32>,
}

#[derive(Serialize)]
struct Summed {
    sum: u32,
    attempt: u16,
}

async fn sum(job: Job<Sum>) -> Handled<Summed> {
    Ok(Summed { sum: job.payload.of.iter().sum(), attempt: job.attempt() })
}

async fn check_sums<Q: Queue>(worker: Worker<Q>, queue: &Q) {
    let ids = [add(queue, r#"{"of": [1, 2]}"#).await, add(queue, r#"{"of": []}"#).await];
    let endings = worker.drain().await.unwrap();
    assert_eq!(endings.to_string(), "completed 2");
    let seen = queue.inspect(ids[0]).await.unwrap().unwrap();
    assert_eq!(seen.result.as_deref(), Some(&br#"{"sum":3,"attempt":1}"#[..]));
    assert_eq!(queue.inspect(ids[1]).await.unwrap().unwrap().status, Status::Completed);
}

#[tokio::test]
async fn a_handler_gets_its_payload_and_what_it_makes_is_the_result_on_every_wire() {
    let bed = Bed::new().await;
    check_sums(bed.worker().concurrency(4).handle(sum), &bed.client).await;
    let http = bed.http();
    check_sums(Worker::on(http.clone()).queues([QUEUE]).handle(sum), &http).await;
    let blocking =
        |job: Job<Sum>| Ok(Summed { sum: job.payload.of.iter().sum(), attempt: job.attempt() });
    check_sums(bed.worker().concurrency(2).handle_blocking(blocking), &bed.client).await;
}

#[test]
fn it_is_the_same_on_an_engine_in_process() {
    let ground = queues::embedded().unwrap();
    ground.runtime.block_on(async {
        let worker =
            Worker::on_shared(ground.queue.clone()).queues([QUEUE]).concurrency(2).handle(sum);
        check_sums(worker, &*ground.queue).await;
    });
}

#[tokio::test]
async fn a_payload_that_is_not_understood_fails_as_bad_data_and_is_never_repeated() {
    let bed = Bed::new().await;
    let id = bed.add(r#"{"of": "hunter2"}"#).await;
    let (called, calls) = shared(AtomicUsize::new(0));
    let worker = bed.worker().handle(move |job: Job<Sum>| {
        called.fetch_add(1, Ordering::Relaxed);
        sum(job)
    });
    worker.drain().await.unwrap();
    let seen = bed.see(id).await;
    assert_eq!((seen.status, seen.attempts), (Status::Failed, 1));
    let error = seen.stages[0].error.clone().unwrap();
    let said = "its payload is not understood: it is not what was expected, at line 1, column 16";
    assert_eq!((error.class, error.message.as_str()), (Class::BadData, said));
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_panic_is_tried_again_with_its_words_as_the_error() {
    let bed = Bed::new().await;
    for is_blocking in [false, true] {
        let id = bed.add("7").await;
        let twice = |job: Job<u8>| match job.attempt() {
            1 => panic!("no luck with {}", job.payload),
            _ => Ok(job.payload),
        };
        let running = if is_blocking {
            bed.worker().handle_blocking(twice).start()
        } else {
            bed.worker().handle(move |job| async move { twice(job) }).start()
        };
        let seen = bed.until(id, is_done).await;
        running.unwrap().stop().await.unwrap();
        assert_eq!((seen.status, seen.attempts), (Status::Completed, 2));
        let first = &seen.log[0];
        assert_eq!(first.ending, Ending::Retried);
        let error = first.error.clone().unwrap();
        assert_eq!(error.message, "the handler panicked: no luck with 7");
    }
}

async fn as_told(job: Job<String>) -> Handled<Done> {
    let soon = SystemTime::now() + Duration::from_secs(3_600);
    match job.payload.as_str() {
        "retry" if job.attempt() == 1 => {
            Err(Undone::retry("slow down").class(Class::Resource).after(Duration::from_millis(2)))
        }
        "error" if job.attempt() == 1 => {
            let number: u8 = "x".parse()?;
            Ok(Done::complete().result(&number))
        }
        "fail" => Err(Undone::fail("not there").class(Class::Gone)),
        "skip" => Err(Undone::skip("nothing to do")),
        "release" => Err(Undone::release().after(Duration::from_secs(3_600))),
        "snooze" => Err(Undone::snooze(soon)),
        "spawn" => Ok(Done::complete().spawn(vec![item("\"spawned\"")])),
        "split" => {
            let child = |number| {
                let mut child = NewChild::new(number, "page", Route::single());
                child.payload = Payload::Inline(format!("\"child {number}\"").into());
                child
            };
            Ok(Done::split((0..1_200).map(child).collect()))
        }
        other => Ok(Done::complete().result(&other)),
    }
}

#[tokio::test]
async fn every_outcome_is_told() {
    let bed = Bed::new().await;
    let words = ["retry", "error", "fail", "skip", "release", "snooze", "spawn", "split"];
    let mut ids = Vec::new();
    for word in words {
        ids.push(bed.add(&format!("\"{word}\"")).await);
    }
    let worker = bed.worker().concurrency(3).prefetch(100).handle(as_told);
    let running = worker.start().unwrap();
    let [retry, error, fail, skip, release, snooze, spawn, split] = ids.try_into().unwrap();
    let seen = bed.until(retry, is_done).await;
    let fault = seen.log[0].error.clone().unwrap();
    assert_eq!((fault.class, fault.message.as_str()), (Class::Resource, "slow down"));
    assert_eq!((seen.status, seen.attempts), (Status::Completed, 2));
    let fault = bed.until(error, is_done).await.log[0].error.clone().unwrap();
    let digit = "invalid digit found in string";
    assert_eq!((fault.class, fault.message.as_str()), (Class::Other, digit));
    let fault = bed.until(fail, is_done).await.stages[0].error.clone().unwrap();
    assert_eq!((fault.class, fault.message.as_str()), (Class::Gone, "not there"));
    let seen = bed.until(skip, is_done).await;
    assert_eq!((seen.status, seen.reason.as_deref()), (Status::Skipped, Some("nothing to do")));
    for id in [release, snooze] {
        let seen = bed.until(id, |seen| seen.status == Status::Pending).await;
        assert_eq!(seen.attempts, 0, "it costs no attempt");
        assert!(seen.not_before.is_some(), "{seen:?}");
    }
    bed.until(spawn, is_done).await;
    let seen = bed.until(split, is_done).await;
    assert_eq!(seen.children.unwrap().all.of(Bucket::Completed), 1_200);
    let endings = running.stop().await.unwrap();
    assert_eq!((endings.of(Ending::Split), endings.of(Ending::Retried)), (1, 2));
    // The children, the spawned one, and those that completed themselves.
    assert_eq!(endings.of(Ending::Completed), 1_200 + 1 + 3);
}

/// Splits what it gets into a thousand children as large as children may be.
async fn in_large_pieces(_: Job<Raw>) -> Handled<Done> {
    let child = |number| {
        let mut child = NewChild::new(number, "page", Route::single());
        // No JSON, so that over HTTP it takes a third more.
        child.payload = Payload::Inline(vec![b'x'; 16 * 1024]);
        child.metadata = Some(format!("\"{}\"", "m".repeat(4_000)));
        child
    };
    Ok(Done::split((0..1_000).map(child).collect()))
}

#[tokio::test]
async fn a_split_that_is_larger_than_a_message_goes_in_slices_on_every_wire() {
    let bed = Bed::new().await;
    let check = async |id, worker: Result<Running, Error>| {
        let running = worker.unwrap();
        let split = |seen: &Seen| seen.children.as_ref().is_some_and(|all| !all.more);
        let seen = bed.until(id, |seen| is_done(seen) || split(seen)).await;
        running.stop().await.unwrap();
        assert_eq!(seen.children.map(|tally| tally.all.total()), Some(1_000), "{:?}", seen.stages);
    };
    let own = Body::new("acme", QUEUE).kind;
    let id = bed.add("").await;
    check(id, bed.worker().kinds([own.clone()]).handle(in_large_pieces).start()).await;
    let id = bed.add("").await;
    let worker = Worker::on(bed.http()).queues([QUEUE]).kinds([own]);
    check(id, worker.handle(in_large_pieces).start()).await;
}

#[tokio::test]
async fn what_a_stage_makes_is_the_input_of_the_next() {
    let bed = Bed::new().await;
    let mut new = item("1");
    new.body.route = Route::of(&["read", "write"]);
    let id = bed.client.enqueue(vec![new], None).await.unwrap().remove(0).unwrap().id;
    let handler = |job: Job<u32>| async move {
        let input: Option<u32> = job.input_as()?;
        Ok(job.payload + input.unwrap_or(10))
    };
    bed.worker().handle(handler).drain().await.unwrap();
    let seen = bed.until(id, is_done).await;
    assert_eq!(seen.result.as_deref(), Some(&b"12"[..]));
}

#[tokio::test]
async fn as_many_handlers_run_at_once_as_may_and_no_more() {
    const AT_ONCE: usize = 3;
    let bed = Bed::new().await;
    let items = vec![item(""); AT_ONCE * 7];
    bed.client.enqueue(items, None).await.unwrap();
    for is_blocking in [false, true] {
        let (running, _) = shared(AtomicUsize::new(0));
        let (most, seen) = shared(AtomicUsize::new(0));
        let enter = {
            let (running, most) = (running.clone(), most.clone());
            move || {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
            }
        };
        let worker = bed.worker().concurrency(AT_ONCE).prefetch(10);
        // Nobody leaves before as many as may have come.
        let endings = if is_blocking {
            let together = std::sync::Barrier::new(AT_ONCE);
            worker.handle_blocking(move |_: Job<Raw>| {
                enter();
                together.wait();
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            })
        } else {
            let (together, _) = shared(Barrier::new(AT_ONCE));
            worker.handle(move |_: Job<Raw>| {
                enter();
                let (running, together) = (running.clone(), together.clone());
                async move {
                    together.wait().await;
                    running.fetch_sub(1, Ordering::SeqCst);
                    Ok(())
                }
            })
        };
        let endings = endings.drain().await.unwrap();
        assert_eq!(endings.of(Ending::Completed), 21);
        assert_eq!(seen.load(Ordering::SeqCst), AT_ONCE);
        bed.client.enqueue(vec![item(""); AT_ONCE * 7], None).await.unwrap();
    }
}

#[tokio::test]
async fn a_payload_that_is_kept_apart_is_read_for_the_handler() {
    let bed = Bed::new().await;
    let text = "x".repeat(40_000);
    let http = bed.http();
    let mut body = Body::new("acme", QUEUE);
    body.payload = Payload::Inline(format!("\"{text}\"").into());
    let id = http.enqueue(vec![NewItem::new(body)], None).await.unwrap().remove(0).unwrap().id;
    let handler = |job: Job<String>| async move { Ok(job.payload.len()) };
    // Without a way to read it, it is tried again.
    let running = bed.worker().handle(handler).start().unwrap();
    let seen = bed.until(id, |seen| !seen.log.is_empty()).await;
    running.stop().await.unwrap();
    let error = seen.log[0].error.clone().unwrap();
    assert_eq!(error.class, Class::Infrastructure);
    assert!(error.message.starts_with("its payload cannot be read: "), "{error:?}");
    // Its attempts may be spent by now; else it waits for its next one anyway.
    let _reset = bed.client.retry(id, RetryMode::Reset, None, None).await;
    let running = bed.worker().big_payloads(http).handle(handler).start().unwrap();
    let seen = bed.until(id, is_done).await;
    running.stop().await.unwrap();
    assert_eq!(seen.result.as_deref(), Some(&b"40000"[..]), "{seen:?}");
}

#[tokio::test]
async fn an_outcome_that_is_refused_fails_its_item_and_says_why() {
    let bed = Bed::new().await;
    let id = bed.add("").await;
    let handler = |_: Job<Raw>| async { Ok("x".repeat(70_000)) };
    bed.worker().handle(handler).drain().await.unwrap();
    let seen = bed.see(id).await;
    let error = seen.stages[0].error.clone().unwrap();
    assert_eq!((seen.status, seen.attempts), (Status::Failed, 1));
    assert!(error.message.starts_with("its outcome was refused: "), "{error:?}");
}

#[test]
fn an_engine_in_process_keeps_what_was_retried() {
    let ground = queues::embedded().unwrap();
    ground.runtime.block_on(async {
        let queue = &*ground.queue;
        try_again_soon(queue).await;
        let id = add(queue, "1").await;
        let handler = |job: Job<u8>| async move {
            if job.attempt() == 1 { Err(Undone::retry("once more")) } else { Ok(()) }
        };
        let worker = Worker::on_shared(ground.queue.clone()).queues([QUEUE]).handle(handler);
        let running = worker.start().unwrap();
        assert_eq!(until(queue, id, is_done).await.attempts, 2);
        running.stop().await.unwrap();
    });
}

#[tokio::test]
async fn an_async_handler_that_blocks_its_thread_keeps_no_item_from_the_other_threads() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        eprintln!("SKIPPED: with one core there is no other thread");
        return;
    }
    let bed = Bed::new().await;
    let (free, blocked) = std::sync::mpsc::channel::<()>();
    let (blocked, _) = shared(std::sync::Mutex::new(blocked));
    let worker = bed.worker().concurrency(2 * cores).handle(move |job: Job<String>| {
        let blocked = blocked.clone();
        async move {
            if job.payload == "block" {
                job.progress(1, 1, "blocked");
                blocked.lock().unwrap().recv().unwrap();
            }
            Ok(())
        }
    });
    let running = worker.start().unwrap();
    let first = bed.add("\"block\"").await;
    bed.until(first, |seen| seen.progress.is_some()).await;
    // Whoever is called first, one of so many is on the thread that is blocked.
    for _ in 0..2 * cores {
        let id = bed.add("\"quick\"").await;
        bed.until(id, is_done).await;
    }
    free.send(()).unwrap();
    bed.until(first, is_done).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_blocking_handler_may_wait_for_a_future_of_its_own() {
    let bed = Bed::new().await;
    let id = bed.add("").await;
    let client = bed.client.clone();
    let handler = move |job: Job<Raw>| {
        let look = client.inspect(job.id());
        let seen = tokio::runtime::Handle::current().block_on(look).unwrap().unwrap();
        Ok(seen.attempts)
    };
    bed.worker().handle_blocking(handler).drain().await.unwrap();
    assert_eq!(bed.see(id).await.result.as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_worker_that_does_not_wait_for_work_asks_for_it_now_and_then() {
    let ground = queues::embedded().unwrap();
    ground.runtime.block_on(async {
        let claims = || {
            let all = ground.queue.figures().operations();
            let claims = all.into_iter().filter(|(verb, ..)| *verb == "claim");
            claims.map(|(.., reading)| reading.count).sum::<u64>()
        };
        let worker = Worker::on_shared(ground.queue.clone()).queues([QUEUE]).wait(Duration::ZERO);
        let running = worker.handle(sum).start().unwrap();
        let begun = std::time::Instant::now();
        // The time that passes is a claim too.
        pass(&*ground.queue, 1_000).await;
        let (asked, took) = (claims(), begun.elapsed());
        let id = add(&*ground.queue, r#"{"of": [1]}"#).await;
        until(&*ground.queue, id, is_done).await;
        running.stop().await.unwrap();
        assert!((4..20).contains(&asked), "{asked} claims in {took:?}");
    });
}
