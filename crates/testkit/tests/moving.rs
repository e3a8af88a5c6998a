//! Moving a store: out of a directory, into PostgreSQL and back, with nothing lost or changed.

use std::future::ready;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use windrow_core::command::{Command, NewItem};
use windrow_core::item::{Body, Marks, State};
use windrow_core::ports::{Now, Store as _};
use windrow_core::{ItemId, Timestamp};
use windrow_store::embedded::{self, Embedded, OpenError, Options};
use windrow_store::moving::{Export, MoveError, Progress, Record, Report, compare, release};
use windrow_store::postgres;
use windrow_testkit::disk::SimDisk;
use windrow_testkit::filling::fill;
use windrow_testkit::servers::postgres::Version;
use windrow_testkit::servers::stores::Stores;
use windrow_testkit::stepped::Stepped;
use windrow_testkit::suite::{block_on, check_everything};

/// More of them with `WINDROW_MOVED=200000`.
const ITEMS: usize = 3_000;

/// Where every item is looked at by itself, which takes a database its time.
const FEW: usize = 700;

fn items() -> usize {
    let asked = std::env::var("WINDROW_MOVED").ok();
    asked.and_then(|items| items.parse().ok()).unwrap_or(ITEMS)
}

fn options() -> Options {
    Options { segment_bytes: 4 << 20, reserve_segments: 1, seed: Some(3), ..Options::default() }
}

/// A full store on a disk, closed and opened again as a move finds it.
fn filled(items: usize) -> (Stepped, Timestamp) {
    let disk = Arc::new(SimDisk::new(3));
    let store = Stepped::open(disk, options()).expect("it opens");
    let now = fill(3, items, &store);
    (store, now)
}

fn quietly(_: Progress) {}

fn said(begun: std::time::Instant, what: &str) {
    eprintln!("{what}: {:.1} s", begun.elapsed().as_secs_f64());
}

/// Out of the directory, into the database, and into another directory.
fn there_and_back(version: Version) {
    let stores = Stores::start(version).expect("the server starts");
    drop(stores.open().expect("a store opens"));
    let begun = std::time::Instant::now();
    let (source, now) = filled(items());
    said(begun, "filled");
    // So that what is compared at the end had no lease to lose.
    let outgoing = source.store.outgoing();
    let released = block_on(release(&outgoing, &source, now, Now::Given(now)));
    let released = released.expect("leases are released");
    assert!(released > 0, "somebody held something");

    let begun = std::time::Instant::now();
    let report = into_database(&stores, &source, now).expect("it moves");
    assert!(report.items as usize >= items() && report.others > 5, "{report:?}");
    said(begun, "into the database, and compared");

    let database = stores.open_to_move().expect("the database opens");
    let begun = std::time::Instant::now();
    let disk = Arc::new(SimDisk::new(4));
    let back = stores.runtime().block_on(into_directory(&database, &disk, now));
    let back = back.expect("it moves back");
    said(begun, "into a directory, and compared");
    assert_eq!(back, report);

    let target = Stepped::open(disk, options()).expect("it opens");
    check_same(&source, &target);
}

async fn into_directory<S: Export>(
    source: &S,
    disk: &Arc<SimDisk>,
    now: Timestamp,
) -> Result<Report, MoveError> {
    let disk: Arc<SimDisk> = Arc::clone(disk);
    embedded::receive(source, disk, options(), "there", now, &mut quietly, ready(Ok(()))).await
}

fn into_database(stores: &Stores, source: &Stepped, now: Timestamp) -> Result<Report, MoveError> {
    into_one(stores, stores.options().expect("there is a database"), source, now)
}

fn into_one(
    stores: &Stores,
    options: postgres::Options,
    source: &Stepped,
    now: Timestamp,
) -> Result<Report, MoveError> {
    let outgoing = source.store.outgoing();
    stores.runtime().block_on(postgres::receive(
        &outgoing,
        options,
        now,
        &mut quietly,
        ready(Ok(())),
    ))
}

fn check_same(source: &Stepped, target: &Stepped) {
    let (ours, theirs) = (source.store.outgoing(), target.store.outgoing());
    block_on(compare(&ours, &theirs, &mut quietly)).expect("they are the same");
    let counts = |store: &Stepped| {
        let mut counts = block_on(store.counts()).expect("they are counted");
        counts.retain(|count| count.items > 0);
        counts
    };
    assert_eq!(counts(source), counts(target));
    if items() <= ITEMS {
        check_everything(target);
    }
}

#[test]
fn a_store_moves_to_postgres_15_and_back_and_is_the_same() {
    there_and_back(Version::V15);
}

#[test]
fn a_store_moves_to_postgres_18_and_back_and_is_the_same() {
    there_and_back(Version::V18);
}

#[test]
fn the_filling_has_everything_in_it() {
    let (source, _) = filled(ITEMS);
    let outgoing = source.store.outgoing();
    let all = block_on(outgoing.moved(None, usize::MAX)).expect("it is read");
    let has = |is: &dyn Fn(&State) -> bool| all.iter().any(|one| is(&one.item.state));
    assert!(has(&|state| matches!(state, State::Pending { not_before } if not_before.0 == 0)));
    assert!(has(&|state| matches!(state, State::Held { .. })));
    assert!(has(&|state| matches!(state, State::Leased { .. })));
    assert!(has(&|state| matches!(state, State::Split)));
    for end in ["Completed", "Failed", "Cancelled", "Skipped"] {
        assert!(has(&|state| format!("{state:?}").contains(end)), "{end}");
    }
    assert!(all.iter().any(|one| one.folded) && all.iter().any(|one| one.successor.is_some()));
    let grouped = all.iter().filter(|one| one.item.group.is_some()).count();
    let trails = all.iter().filter(|one| one.item.has(Marks::TRAIL)).count();
    assert!(grouped > 100 && trails > 100, "{grouped} grouped, {trails} with a trail");
    let around = block_on(outgoing.around()).expect("it is read");
    for kind in ["Settings", "Paused", "Gate", "Blob", "Note", "Lease"] {
        assert!(around.iter().any(|record| format!("{record:?}").starts_with(kind)), "{kind}");
    }
    assert!(!block_on(outgoing.answered(None, 10)).expect("they are read").is_empty());
}

#[test]
fn leases_are_released_and_the_attempt_is_given_back() {
    let stores = Stores::start(Version::V15).expect("the server starts");
    drop(stores.open().expect("a store opens"));
    let (source, now) = filled(FEW);
    let around = block_on(source.store.outgoing().around()).expect("it is read");
    let held = around.iter().flat_map(|record| match record {
        Record::Lease { holds, .. } => holds.clone(),
        _ => Vec::new(),
    });
    let held: Vec<ItemId> = held.collect();
    let report = into_database(&stores, &source, now).expect("it moves");
    assert_eq!(report.released, held.len() as u64);
    let target = stores.open_again().expect("the database opens");
    assert!(block_on(target.leases()).expect("leases are listed").is_empty());
    for id in held {
        let before = block_on(source.store.inspect(id)).expect("it is read").expect("it is there");
        let after = block_on(target.inspect(id)).expect("it is read").expect("it is there");
        assert!(matches!(after.item.state, State::Pending { .. }), "{after:?}");
        assert!(after.item.attempts < before.item.attempts || after.item.deferrals > 1);
    }
    check_everything(&target);
}

#[test]
fn an_interrupted_move_into_a_directory_goes_on() {
    let (source, now) = filled(ITEMS);
    let disk = Arc::new(SimDisk::new(5));
    let outgoing = source.store.outgoing();
    for cut in [600, 1_200, 1_900] {
        let mut stop = |progress| match progress {
            Progress::Copied { items, .. } if items > cut => panic!("the power is cut"),
            _ => {}
        };
        let moving = embedded::receive(
            &outgoing,
            disk.clone(),
            options(),
            "there",
            now,
            &mut stop,
            ready(Ok(())),
        );
        catch_unwind(AssertUnwindSafe(|| block_on(moving))).expect_err("it is interrupted");
        let opened = Embedded::open(disk.clone(), options());
        assert!(matches!(opened, Err(OpenError::HalfMoved)), "nobody else opens it");
    }
    let report = block_on(into_directory(&outgoing, &disk, now)).expect("it goes on");
    let target = Stepped::open(disk.clone(), options()).expect("it opens");
    assert_eq!(block_on(target.store.outgoing().size()).ok(), Some(report.items));

    // It is a store like any other now.
    let again = block_on(into_directory(&outgoing, &disk, now));
    assert!(matches!(again, Err(MoveError::NotEmpty { .. })), "{again:?}");
}

#[test]
fn an_interrupted_move_into_a_database_goes_on_and_nobody_opens_it_meanwhile() {
    let stores = Stores::start(Version::V15).expect("the server starts");
    drop(stores.open().expect("a store opens"));
    let (source, now) = filled(ITEMS);
    let outgoing = source.store.outgoing();
    let mut stop = |progress| match progress {
        Progress::Copied { items, .. } if items > 1_000 => panic!("the power is cut"),
        _ => {}
    };
    let moving =
        postgres::receive(&outgoing, stores.options().expect("one"), now, &mut stop, ready(Ok(())));
    let moving = AssertUnwindSafe(|| stores.runtime().block_on(moving));
    catch_unwind(moving).expect_err("it is interrupted");
    let refused = stores.open_again().expect_err("half a store").to_string();
    assert!(refused.contains("was not finished"), "{refused}");

    let (other, _) = {
        let store =
            Stepped::open(Arc::new(SimDisk::new(9)), Options { seed: Some(9), ..options() });
        (store.expect("it opens"), now)
    };
    let foreign = into_database(&stores, &other, now);
    assert!(matches!(foreign, Err(MoveError::OtherMove { .. })), "{foreign:?}");

    let report = into_database(&stores, &source, now).expect("it goes on");
    assert!(report.items as usize >= ITEMS);
    drop(stores.open_again().expect("it opens"));
    let again = into_database(&stores, &source, now).expect_err("it is full").to_string();
    assert!(again.contains("is not empty, it holds items, settings of queues"), "{again}");
}

#[test]
fn a_database_is_of_the_move_before_anything_was_copied() {
    let stores = Stores::start(Version::V15).expect("the server starts");
    let (source, now) = filled(FEW);
    let (options, tag) = (stores.options().expect("one"), source.store.outgoing().tag());
    let begun = postgres::Postgres::open_to_receive(options, tag);
    drop(stores.runtime().block_on(begun).expect("it is made ready"));
    let refused = stores.open_again().expect_err("it is not of anybody else").to_string();
    assert!(refused.contains("was not finished"), "{refused}");
    into_database(&stores, &source, now).expect("it goes on");
    drop(stores.open_again().expect("it opens"));
}

/// As servers behind a pooler have it, whose connections nobody sees.
fn behind_a_pooler(stores: &Stores) -> postgres::Options {
    let mut options = stores.options().expect("there is a database");
    options.url.push_str("?pooler=transaction");
    options
}

/// The mark was made first. It stayed, and a second try did not look any more whether the database
/// was empty.
#[test]
fn a_move_that_is_refused_because_somebody_serves_leaves_no_mark() {
    let stores = Stores::start(Version::V15).expect("the server starts");
    drop(stores.open().expect("a store opens"));
    let psql = |sql: &str| stores.psql(sql).expect("it is asked");
    psql("insert into windrow.notes values ('keys', 'ids', 3, 'secret')");
    let seen = "select tag, (select version || convert_from(body, 'utf8') from windrow.notes), \
                to_regclass('windrow.moving') is null from windrow.store";
    let before = psql(seen);
    let (source, now) = filled(FEW);
    let tag = source.store.outgoing().tag();
    let refused = || {
        let begun = postgres::Postgres::open_to_receive(behind_a_pooler(&stores), tag);
        let error = stores.runtime().block_on(begun).expect_err("it is served").to_string();
        assert!(error.contains("stop the servers"), "{error}");
        assert_eq!(psql(seen), before);
    };
    psql("update windrow.leader set leads_until = 1e15");
    refused();
    // One that begins to lead in the moment of the mark.
    psql(
        "update windrow.leader set leads_until = 0; \
          create function lead() returns trigger language plpgsql as $$ begin \
            update windrow.leader set leads_until = 1e15; return null; end $$; \
          create trigger lead after update on windrow.store execute function lead()",
    );
    refused();
    psql("drop trigger lead on windrow.store; update windrow.leader set leads_until = 0");
    into_one(&stores, behind_a_pooler(&stores), &source, now).expect("it moves once nobody serves");
}

/// What a server took in under the mark was taken for what the move had brought.
#[test]
fn a_move_does_not_go_on_behind_what_somebody_else_put_there() {
    let stores = Stores::start(Version::V15).expect("the server starts");
    let server = stores.open().expect("a store opens");
    let (source, now) = filled(FEW);
    let (tag, options) = (source.store.outgoing().tag(), behind_a_pooler(&stores));
    let begun = postgres::Postgres::open_to_receive(options.clone(), tag);
    drop(stores.runtime().block_on(begun).expect("it is made ready"));
    let item = NewItem::new(Body::new("t", "q"));
    let taken = server.submit(vec![Command::Enqueue(vec![item]).into()], Now::Database);
    stores.runtime().block_on(taken).expect("it is taken in");
    let refused = into_one(&stores, options, &source, now).expect_err("it differs").to_string();
    assert!(refused.contains("is too many"), "{refused}");
    assert_eq!(stores.psql("select count(*) from windrow.items").expect("it is asked"), "1");
}

#[test]
fn what_was_changed_on_the_way_is_noticed() {
    let stores = Stores::start(Version::V15).expect("the server starts");
    drop(stores.open().expect("a store opens"));
    let (source, now) = filled(ITEMS);
    let outgoing = source.store.outgoing();
    let mut change = |progress| {
        if let Progress::Copied { items, of } = progress
            && items == of
        {
            stores
                .psql(
                    "update windrow.bodies set op = 'other' where serial = \
                 (select max(serial) from windrow.bodies)",
                )
                .expect("it is changed");
        }
    };
    let options = stores.options().expect("there is a database");
    let moving = postgres::receive(&outgoing, options, now, &mut change, ready(Ok(())));
    let differs = stores.runtime().block_on(moving);
    assert!(matches!(differs, Err(MoveError::Differs { .. })), "{differs:?}");
}
