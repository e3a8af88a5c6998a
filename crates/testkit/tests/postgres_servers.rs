//! Several servers on one PostgreSQL: nothing is lost, nothing done twice, no limit passed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use parking_lot::Mutex;
use windrow_core::command::{Claim, NewItem, Outcome};
use windrow_core::item::{Body, Status};
use windrow_core::ports::{Happened, Lead, Listener, Now, Ready, Store as _, Work};
use windrow_core::settings::{Policy, Settings};
use windrow_core::{Answer, Command, ItemId, Timestamp};
use windrow_store::postgres::Postgres;
use windrow_testkit::crash::postgres::holds::Holds;
use windrow_testkit::servers::postgres::Version;
use windrow_testkit::servers::process::until;
use windrow_testkit::servers::stores::Stores;

const GROUP_LIMIT: u32 = 2;
const GROUPS: u32 = 5;
const PRODUCERS: u32 = 4;
const BATCHES: u32 = 20;
const BATCH: u32 = 5;
const WORKERS: usize = 8;
const ITEMS: usize = (PRODUCERS * BATCHES * BATCH) as usize;
const PATIENCE: Duration = Duration::from_secs(120);

/// What the clients saw.
#[derive(Debug, Default)]
struct Seen {
    created: BTreeSet<ItemId>,
    completed: BTreeSet<ItemId>,
    /// Items of groups in the hands of workers.
    holds: Holds,
}

async fn ask(store: &Postgres, command: Command) -> anyhow::Result<Answer<Work>> {
    let answers = store.submit(vec![command.into()], Now::Database).await?;
    answers.into_iter().next().context("a command has an answer")
}

async fn produce(store: Postgres, seen: Arc<Mutex<Seen>>, producer: u32) -> anyhow::Result<()> {
    for batch in 0..BATCHES {
        let item = |number: u32| {
            let mut body = Body::new("t", "q");
            body.key = Some(format!("{producer}/{batch}/{number}"));
            body.group = Some(format!("g{}", (producer + batch + number) % GROUPS).into());
            NewItem::new(body)
        };
        let answer = ask(&store, Command::Enqueue((0..BATCH).map(item).collect())).await?;
        let Answer::Enqueued(each) = answer else { anyhow::bail!("answered {answer:?}") };
        for one in each {
            let id = one?.id;
            ensure!(seen.lock().created.insert(id), "{id} was given out twice");
        }
    }
    Ok(())
}

/// Microseconds since the test began: finer than what a clock of the queue tells.
fn moment(begun: Instant) -> Timestamp {
    Timestamp(begun.elapsed().as_micros() as u64)
}

async fn work(
    store: Postgres,
    seen: Arc<Mutex<Seen>>,
    worker: usize,
    begun: Instant,
) -> anyhow::Result<()> {
    let group = |work: &Work| work.body.group.as_deref().unwrap_or_default().to_owned();
    while seen.lock().completed.len() < ITEMS {
        ensure!(begun.elapsed() < PATIENCE, "{} completed", seen.lock().completed.len());
        let claim = Claim::new(format!("w{worker}"), "q", 3);
        let Answer::Claimed(grant) = ask(&store, Command::Claim(claim)).await? else {
            anyhow::bail!("a claim has a grant")
        };
        let Some(grant) = grant else {
            continue;
        };
        for work in &grant.items {
            let (item, from) = ((grant.lease, work.item.id), moment(begun));
            seen.lock().holds.begin(&group(work), item, from, Timestamp::NEVER);
        }
        tokio::task::yield_now().await;
        // They count as held until the store is asked: from then on it may hand out others.
        for work in &grant.items {
            seen.lock().holds.end((grant.lease, work.item.id), moment(begun));
        }
        let items = grant.items.iter().map(|work| (work.item.id, Outcome::complete())).collect();
        let Answer::Settled(each) =
            ask(&store, Command::Settle { lease: grant.lease, items }).await?
        else {
            anyhow::bail!("a settle has answers")
        };
        for one in each {
            let id = one?.id;
            ensure!(seen.lock().completed.insert(id), "{id} was settled twice");
        }
    }
    Ok(())
}

/// Passes on what it is told.
struct Ear(Mutex<std::sync::mpsc::Sender<Ready>>);

impl Listener for Ear {
    fn ready(&self, ready: &[Ready]) {
        for one in ready {
            self.0.lock().send(one.clone()).expect("somebody hears it");
        }
    }

    fn happened(&self, _happened: &[Happened]) {}
}

#[test]
fn what_is_enqueued_at_one_server_is_told_at_the_other() {
    let stores = Stores::start(Version::V15).expect("the server starts");
    let [here, there] = [stores.open(), stores.open_again()].map(|s| s.expect("a store opens"));
    let (send, told) = std::sync::mpsc::channel();
    there.listen(Arc::new(Ear(Mutex::new(send))));
    let begun = Instant::now();
    // The other may not be listening yet; then the next one is told.
    let ready = loop {
        let items = vec![NewItem::new(Body::new("t", "q")); 3];
        stores.runtime().block_on(ask(&here, Command::Enqueue(items))).expect("it is enqueued");
        match told.recv_timeout(Duration::from_secs(1)) {
            Ok(ready) => break ready,
            Err(_) => assert!(begun.elapsed() < PATIENCE, "nobody is told"),
        }
    };
    assert_eq!((&*ready.queue, &*ready.stage, &*ready.tenant), ("q", "work", "t"));
    assert!(ready.count >= 3, "{ready:?}");
}

#[test]
fn a_server_that_could_not_hear_for_a_while_looks_for_what_waits() {
    // It listened again and nobody told it what had been told meanwhile: its claims slept beside
    // their work until something else arrived.
    let stores = Stores::start(Version::V15).expect("the server starts");
    let [here, there] = [stores.open(), stores.open_again()].map(|s| s.expect("a store opens"));
    let (send, told) = std::sync::mpsc::channel();
    there.listen(Arc::new(Ear(Mutex::new(send))));
    let enqueue = |queue: &str| {
        let items = vec![NewItem::new(Body::new("t", queue))];
        stores.runtime().block_on(ask(&here, Command::Enqueue(items))).expect("it is enqueued");
    };
    let listening = "from pg_stat_activity where query like 'listen %'";
    let are_two = || stores.psql(&format!("select count(*) {listening}")).expect("it answers");
    assert!(until(PATIENCE, || are_two() == "2"), "both listen");
    stores.psql(&format!("select pg_terminate_backend(pid) {listening}")).expect("they end");
    enqueue("missed");
    let heard = || told.recv_timeout(PATIENCE).expect("it is told in the end");
    while &*heard().queue != "missed" {}
}

#[test]
fn a_servers_first_claim_begins_with_the_oldest_also_if_it_heard_of_younger_ones_first() {
    // It knew of the lane by what it had been told, and never looked at what lay before.
    let stores = Stores::start(Version::V15).expect("the server starts");
    let here = stores.open().expect("a store opens");
    let enqueue = |count: usize| {
        let items = vec![NewItem::new(Body::new("t", "q")); count];
        let answer = stores.runtime().block_on(ask(&here, Command::Enqueue(items)));
        let Ok(Answer::Enqueued(each)) = answer else { panic!("they are enqueued") };
        each.into_iter().map(|one| one.expect("it is new").id).collect::<Vec<ItemId>>()
    };
    let oldest = enqueue(40);
    let there = stores.open_again().expect("a store opens");
    let (send, told) = std::sync::mpsc::channel();
    there.listen(Arc::new(Ear(Mutex::new(send))));
    let listening = "select count(*) from pg_stat_activity where query like 'listen %'";
    assert!(until(PATIENCE, || stores.psql(listening).expect("it answers") == "2"), "both listen");
    enqueue(6);
    told.recv_timeout(PATIENCE).expect("it is told of them");
    let claim = Command::Claim(Claim::new("w", "q", 5));
    let answer = stores.runtime().block_on(ask(&there, claim));
    let Ok(Answer::Claimed(Some(grant))) = answer else { panic!("there is work") };
    let claimed: Vec<ItemId> = grant.items.iter().map(|work| work.item.id).collect();
    assert_eq!(claimed, oldest[..5]);
}

#[test]
fn two_servers_share_a_queue() {
    let stores = Stores::start(Version::V15).expect("the server starts");
    let servers = [stores.open(), stores.open_again()].map(|store| store.expect("a store opens"));
    let runtime = stores.runtime();
    let defaults = Policy { group_limit: Some(GROUP_LIMIT), ..Policy::default() };
    let settings = Box::new(Settings { defaults, ..Settings::default() });
    let configure = Command::Configure { queue: "q".into(), settings };
    runtime.block_on(ask(&servers[0], configure)).expect("it is configured");

    let seen = Arc::new(Mutex::new(Seen::default()));
    let begun = Instant::now();
    let server = |no: usize| servers[no % servers.len()].clone();
    let producers =
        (0..PRODUCERS).map(|no| runtime.spawn(produce(server(no as usize), Arc::clone(&seen), no)));
    let workers =
        (0..WORKERS).map(|no| runtime.spawn(work(server(no), Arc::clone(&seen), no, begun)));
    for task in producers.chain(workers).collect::<Vec<_>>() {
        runtime.block_on(task).expect("a client does not panic").expect("a client is served");
    }

    let mut seen = seen.lock();
    assert_eq!((seen.created.len(), &seen.created), (ITEMS, &seen.completed));
    let audited = seen.holds.audit(GROUP_LIMIT as usize).expect("no group held more");
    assert_eq!(audited.holds, ITEMS as u64);
    let counts = runtime.block_on(servers[1].counts()).expect("they are counted");
    let all: Vec<(Status, u64)> = counts.iter().map(|count| (count.status, count.items)).collect();
    assert_eq!(all, [(Status::Completed, ITEMS as u64)]);
    let leases = runtime.block_on(servers[0].leases()).expect("leases are listed");
    assert!(leases.is_empty(), "{leases:?}");
}

#[test]
fn an_audit_finds_that_two_servers_without_a_limit_held_more() {
    let stores = Stores::start(Version::V15).expect("the server starts");
    let servers = [stores.open(), stores.open_again()].map(|store| store.expect("a store opens"));
    let asked = |no: usize, command| stores.runtime().block_on(ask(&servers[no], command));
    let mut body = Body::new("t", "q");
    body.group = Some("g".into());
    asked(0, Command::Enqueue(vec![NewItem::new(body); 4])).expect("they are enqueued");
    let mut holds = Holds::default();
    for no in 0..2 {
        let claim = Command::Claim(Claim::new(format!("w{no}"), "q", 2));
        let Ok(Answer::Claimed(Some(grant))) = asked(no, claim) else { panic!("there is work") };
        for work in &grant.items {
            holds.begin("g", (grant.lease, work.item.id), Timestamp(no as u64), Timestamp::NEVER);
        }
    }
    let found = holds.audit(GROUP_LIMIT as usize).expect_err("four were held");
    assert!(found.what.starts_with("4 items of group g"), "{found}");
}

#[test]
fn one_server_leads_and_the_next_takes_over_when_it_is_gone() {
    let stores = Stores::start(Version::V15).expect("the server starts");
    let [first, second] = [stores.open(), stores.open_again()].map(|s| s.expect("a store opens"));
    let lead = |store: &Postgres| stores.runtime().block_on(store.lead()).expect("it answers");
    let is_led = |store: &Postgres| {
        let vitals = stores.runtime().block_on(store.vitals(Timestamp::ZERO));
        vitals.expect("it answers").is_led
    };
    assert_eq!(is_led(&second), Some(false));
    assert!(matches!(lead(&first), Lead::Leads { idle_ms } if idle_ms > 60_000), "nobody did");
    assert_eq!(is_led(&second), Some(true));
    assert_eq!(lead(&second), Lead::Follows);
    assert!(matches!(lead(&first), Lead::Leads { idle_ms } if idle_ms < 5_000), "it goes on");
    drop(first);
    let begun = Instant::now();
    let mut taken_over = lead(&second);
    assert!(until(PATIENCE, || {
        taken_over = lead(&second);
        taken_over != Lead::Follows
    }));
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert!(matches!(taken_over, Lead::Leads { idle_ms } if idle_ms >= 3_000), "{taken_over:?}");
}

#[test]
fn what_an_operator_says_at_one_server_is_not_undone_by_the_first_item_at_another() {
    // Both saw a queue without settings, and the last one to write was right.
    let stores = Stores::start(Version::V15).expect("the server starts");
    let servers = [stores.open(), stores.open_again()].map(|store| store.expect("a store opens"));
    let settings =
        |live_max: u64| Box::new(Settings { live_max: Some(live_max), ..Settings::default() });
    let all = async {
        for round in 0..60 {
            let queue: Arc<str> = format!("q{round}").into();
            let said = Command::Configure { queue: Arc::clone(&queue), settings: settings(9) };
            let new = Command::Introduce { queue, settings: settings(1) };
            let server = servers[1].clone();
            let new = tokio::spawn(async move { ask(&server, new).await });
            let said = ask(&servers[0], said).await?;
            ensure!((said, new.await??) == (Answer::Done, Answer::Done), "both are answered");
        }
        anyhow::Ok(servers[0].configured().await?.settings)
    };
    let known = stores.runtime().block_on(all).expect("all are said");
    assert_eq!(known.len(), 60);
    let undone = known.iter().filter(|(_, settings)| settings.live_max != Some(9)).count();
    assert_eq!(undone, 0, "settings that an operator had said");
}

#[test]
fn time_is_the_databases() {
    let stores = Stores::start(Version::V15).expect("the server starts");
    let store = stores.open().expect("a store opens");
    let item = NewItem::new(Body::new("t", "q"));
    let enqueue = Command::Enqueue(vec![item]);
    let submit = |command: Command| {
        let answers = store.submit(vec![command.into()], Now::Database);
        stores.runtime().block_on(answers).expect("it is done").pop().expect("an answer")
    };
    submit(enqueue);
    let Answer::Claimed(Some(grant)) = submit(Command::Claim(Claim::new("w", "q", 1))) else {
        panic!("an item waits");
    };
    let sql = "select (extract(epoch from clock_timestamp()) * 1000)::bigint";
    let there: u64 = stores.psql(sql).expect("it answers").parse().expect("a number");
    let lease = stores.runtime().block_on(store.leases()).expect("it answers").remove(0);
    assert_eq!(lease.expires, grant.expires_at);
    assert!(lease.granted.0.abs_diff(there) < 60_000, "{} and {there}", lease.granted);
    // It passes while leases are looked up, and what is asked for is reckoned from it.
    assert_eq!(submit(Command::Grace { until: Timestamp::NEVER }), Answer::Done);
}

#[test]
fn names_that_nobody_used_before_may_come_all_at_once() {
    // One batch read the names twice, and between the two another waited to write them: both hung.
    let stores = Stores::start(Version::V15).expect("the server starts");
    let store = stores.open().expect("a store opens");
    let adding = |worker: usize| {
        let store = store.clone();
        async move {
            for round in 0..40 {
                let mut body = Body::new(format!("t{worker}"), format!("q{worker}-{round}"));
                body.key = Some("k".into());
                ask(&store, Command::Enqueue(vec![NewItem::new(body)])).await?;
                ask(&store, Command::Claim(Claim::new("w", format!("q{worker}-{round}"), 1)))
                    .await?;
            }
            anyhow::Ok(())
        }
    };
    let all = async {
        let tasks: Vec<_> = (0..8).map(|worker| tokio::spawn(adding(worker))).collect();
        for task in tasks {
            task.await??;
        }
        anyhow::Ok(())
    };
    let runtime = stores.runtime();
    let done = runtime.block_on(async { tokio::time::timeout(PATIENCE, all).await });
    done.expect("nobody hangs").expect("all are added");
}
