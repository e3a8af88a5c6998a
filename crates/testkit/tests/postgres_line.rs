//! The line in PostgreSQL: claims lock places in it and not items, and what they hand out is in no
//! row but their lease's. So whatever else happens to an item at the same moment must be seen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use parking_lot::Mutex;
use windrow_core::command::{Claim, Grant, NewItem, OnDuplicate, Outcome};
use windrow_core::item::{Body, Payload, Status};
use windrow_core::ports::{Now, Store as _, Work};
use windrow_core::trail::Ending;
use windrow_core::{Answer, Command, ItemId, LeaseId, Refusal};
use windrow_store::postgres::Postgres;
use windrow_testkit::random::Splitmix;
use windrow_testkit::servers::postgres::Version;
use windrow_testkit::servers::stores::Stores;

const ITEMS: usize = 400;
const PATIENCE: Duration = Duration::from_secs(60);

async fn ask(store: &Postgres, command: Command) -> anyhow::Result<Answer<Work>> {
    let answers = store.submit(vec![command.into()], Now::Database).await?;
    answers.into_iter().next().context("a command has an answer")
}

fn keyed(number: usize, version: u64) -> NewItem {
    let mut body = Body::new("t", "q");
    body.key = Some(number.to_string());
    body.payload = Payload::Inline(version.to_string().into_bytes());
    NewItem { on_duplicate: OnDuplicate::Replace, ..NewItem::new(body) }
}

async fn enqueue(store: &Postgres, items: Vec<NewItem>) -> anyhow::Result<Vec<ItemId>> {
    let Answer::Enqueued(each) = ask(store, Command::Enqueue(items)).await? else {
        anyhow::bail!("an enqueue has answers")
    };
    each.into_iter().map(|one| Ok(one?.id)).collect()
}

async fn claim(store: &Postgres, most: usize) -> anyhow::Result<Option<Grant<Work>>> {
    match ask(store, Command::Claim(Claim::new("w", "q", most))).await? {
        Answer::Claimed(grant) => Ok(grant),
        answer => anyhow::bail!("answered {answer:?}"),
    }
}

async fn settle(
    store: &Postgres,
    lease: LeaseId,
    items: Vec<(ItemId, Outcome)>,
) -> anyhow::Result<Vec<Result<Ending, Refusal>>> {
    match ask(store, Command::Settle { lease, items }).await? {
        Answer::Settled(each) => Ok(each.into_iter().map(|one| Ok(one?.ending)).collect()),
        answer => anyhow::bail!("answered {answer:?}"),
    }
}

/// Claims and completes until all have ended; says what each was when it was handed out.
async fn work(
    store: Postgres,
    handed: Arc<Mutex<BTreeMap<ItemId, Work>>>,
    begun: Instant,
) -> anyhow::Result<()> {
    loop {
        ensure!(begun.elapsed() < PATIENCE, "{} were handed out", handed.lock().len());
        let Some(grant) = claim(&store, 3).await? else {
            let counts = store.counts().await?;
            let is_live = |status| matches!(status, Status::Pending | Status::Processing);
            let live = counts.iter().filter(|count| is_live(count.status));
            if live.map(|count| count.items).sum::<u64>() == 0 {
                return Ok(());
            }
            continue;
        };
        let items = grant.items.iter().map(|work| (work.item.id, Outcome::complete())).collect();
        for work in grant.items {
            let again = handed.lock().insert(work.item.id, work);
            ensure!(again.is_none(), "{again:?} was handed out twice");
        }
        for status in settle(&store, grant.lease, items).await? {
            // It may have been cancelled in its worker's hands.
            ensure!(matches!(status, Ok(_) | Err(Refusal::LeaseLost { .. })), "{status:?}");
        }
    }
}

/// Changes what waits: bodies, priorities; and cancels a little.
async fn change(store: Postgres, ids: Arc<Vec<ItemId>>, seed: u64) -> anyhow::Result<()> {
    let mut random = Splitmix(seed);
    for round in 0..300 {
        let number = random.below(ITEMS);
        let items = vec![ids[number]];
        let command = match random.below(8) {
            0 => Command::Cancel { items },
            1..4 => Command::Prioritise { items, priority: random.below(10) as u8 },
            _ => {
                // Once it has ended its key is free, and this would be another item.
                let ended = store.inspect(ids[number]).await?.is_none_or(|it| it.item.is_done());
                if ended {
                    continue;
                }
                Command::Enqueue(vec![keyed(number, round + seed * 1_000)])
            }
        };
        ask(&store, command).await?;
    }
    Ok(())
}

/// Changes everything at once, while it is being taken away.
async fn change_all(store: Postgres, ids: Arc<Vec<ItemId>>) -> anyhow::Result<()> {
    for round in 0..20 {
        let items = ids.to_vec();
        ask(&store, Command::Prioritise { items, priority: round % 10 }).await?;
    }
    Ok(())
}

fn race(version: Version) -> anyhow::Result<()> {
    let stores = Stores::start(version)?;
    let [here, there] = [stores.open()?, stores.open_again()?];
    stores.runtime().block_on(async {
        let first = (0..ITEMS).map(|number| keyed(number, 0)).collect();
        let ids = Arc::new(enqueue(&here, first).await?);
        let (handed, begun) = (Arc::default(), Instant::now());
        let changes = [1, 2, 3].map(|seed| {
            let store = if seed == 1 { here.clone() } else { there.clone() };
            tokio::spawn(change(store, Arc::clone(&ids), seed))
        });
        let workers = [&here, &there, &here].map(|store| {
            let handed: &Arc<Mutex<BTreeMap<ItemId, Work>>> = &handed;
            tokio::spawn(work(store.clone(), Arc::clone(handed), begun))
        });
        let all = tokio::spawn(change_all(there.clone(), Arc::clone(&ids)));
        for task in changes.into_iter().chain(workers).chain([all]) {
            task.await??;
        }
        // What was handed out is not replaced any more: whoever worked on it saw the last of it.
        let handed = std::mem::take(&mut *handed.lock());
        for (id, work) in handed {
            let Some(is) = here.inspect(id).await? else { anyhow::bail!("{id} is gone") };
            ensure!(is.body.payload == work.body.payload, "{id} was handed out with an old body");
            let status = is.item.status();
            ensure!(matches!(status, Status::Completed | Status::Cancelled), "{id} is {status}");
        }
        let checked = here.check().await?;
        ensure!(checked.faults.is_empty(), "{:?}", checked.faults);
        Ok(())
    })
}

#[test]
fn what_changes_while_it_is_claimed_is_handed_out_as_it_is() {
    for version in Version::ALL {
        race(version).unwrap_or_else(|error| panic!("{version}: {error:#}"));
    }
}

#[test]
fn whoever_settles_learns_what_happened_at_another_server() -> anyhow::Result<()> {
    let stores = Stores::start(Version::V15)?;
    let [here, there] = [stores.open()?, stores.open_again()?];
    stores.runtime().block_on(async {
        enqueue(&here, (0..3).map(|number| keyed(number, 0)).collect()).await?;
        let grant = claim(&here, 3).await?.context("three wait")?;
        let [cancelled, released, stays] = [0, 1, 2].map(|at| grant.items[at].item.id);

        // What this server remembers of its lease is old after each of these.
        ask(&there, Command::Cancel { items: vec![cancelled] }).await?;
        let back = vec![(released, Outcome::Release { delay_ms: 0 })];
        let statuses = settle(&there, grant.lease, back).await?;
        ensure!(matches!(statuses[..], [Ok(Ending::Released)]), "{statuses:?}");
        let again = claim(&there, 1).await?.context("one was given back")?;
        ensure!(again.items[0].item.id == released);

        let all = [cancelled, released, stays].map(|id| (id, Outcome::complete()));
        let statuses = settle(&here, grant.lease, all.into()).await?;
        // Cancelling took the first from its holder; the second was settled as something else.
        let [Err(Refusal::LeaseLost { .. }), Err(Refusal::Invalid { .. }), Ok(Ending::Completed)] =
            &statuses[..]
        else {
            anyhow::bail!("{statuses:?}")
        };
        let last = vec![(released, Outcome::complete())];
        let statuses = settle(&there, again.lease, last).await?;
        ensure!(matches!(statuses[..], [Ok(Ending::Completed)]), "{statuses:?}");
        let checked = here.check().await?;
        ensure!(checked.faults.is_empty(), "{:?}", checked.faults);
        Ok(())
    })
}

#[test]
fn a_check_finds_who_waits_where_nobody_looks() -> anyhow::Result<()> {
    let stores = Stores::start(Version::V15)?;
    let store = stores.open()?;
    let ids = stores.runtime().block_on(enqueue(&store, vec![keyed(1, 0), keyed(2, 0)]))?;
    stores
        .psql("delete from windrow.line where serial = (select min(serial) from windrow.items)")?;
    stores.psql("update windrow.line set tenant = tenant + 1")?;
    let checked = stores.runtime().block_on(store.check())?;
    let wanted = [
        format!("{} waits and is not in line", ids[0]),
        format!("{} is in line and does not wait there", ids[1]),
    ];
    ensure!(checked.faults == wanted, "{:?}", checked.faults);
    Ok(())
}

#[test]
fn whatever_changes_in_line_gets_another_place() -> anyhow::Result<()> {
    // A claim that looked before must not find it: it would hand out what it saw then.
    let stores = Stores::start(Version::V15)?;
    let store = stores.open()?;
    let ask = |command| stores.runtime().block_on(ask(&store, command));
    let place = || stores.psql("select ctid from windrow.line");
    let items = stores.runtime().block_on(enqueue(&store, vec![keyed(1, 0)]))?;
    let mut places = vec![place()?];
    for command in [
        Command::Enqueue(vec![keyed(1, 1)]),
        Command::Prioritise { items: items.clone(), priority: 9 },
        Command::Enqueue(vec![NewItem { priority: 2, ..keyed(1, 2) }]),
    ] {
        ask(command)?;
        let now = place()?;
        ensure!(!places.contains(&now), "{now} after {places:?}");
        places.push(now);
    }
    Ok(())
}
