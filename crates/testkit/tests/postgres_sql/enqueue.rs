//! `windrow.enqueue`: the same as the store's own, in an application's transaction.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use windrow_core::command::{EnqueueOutcome, NewItem};
use windrow_core::item::{Body, Payload, QueueNo};
use windrow_core::limits::{DELAY_MAX_MS, KEY_MAX, METADATA_MAX, NAME_MAX, TEXT_MAX};
use windrow_core::ports::{Happened, Inspected, Listener, Ready, Store as _};
use windrow_core::route::Route;
use windrow_core::settings::Unique;
use windrow_core::{ItemId, Timestamp};
use windrow_testkit::random::Splitmix;
use windrow_testkit::suite::{Draft as _, block_on, children, item, retry};

use crate::ground::{Ground, id, text};

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The call that enqueues the same.
fn call(new: &NewItem) -> String {
    let NewItem { body, priority, not_before, .. } = new;
    let Payload::Inline(bytes) = &body.payload else { panic!("no blobs here") };
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let stages: Vec<String> = body.route.stages.iter().map(|stage| quoted(&stage.name)).collect();
    let mut said = vec![
        format!("queue => {}", quoted(&body.queue)),
        format!("payload => '\\x{hex}'::bytea"),
        format!("tenant => {}", quoted(&body.tenant)),
        format!("kind => {}", quoted(&body.kind)),
        format!("op => {}", quoted(&body.op)),
        format!("priority => {priority}"),
        format!("route => array[{}]::text[]", stages.join(", ")),
    ];
    let optional: [(&str, Option<&str>); 9] = [
        ("key", body.key.as_deref()),
        ("grp", body.group.as_deref()),
        ("collection", body.collection.as_deref()),
        ("branch", body.branch.as_deref()),
        ("source_type", body.source_type.as_deref()),
        ("source_info", body.source_info.as_deref()),
        ("reference", body.reference.as_deref()),
        ("content_type", body.content_type.as_deref()),
        ("metadata", body.metadata.as_deref()),
    ];
    let optional = optional.iter().filter_map(|(name, said)| Some((name, (*said)?)));
    said.extend(optional.map(|(name, text)| format!("{name} => {}", quoted(text))));
    if *not_before > Timestamp::ZERO {
        said.push(format!("not_before => windrow.at({})", not_before.0));
    }
    format!("select * from windrow.enqueue({})", said.join(", "))
}

/// Enqueues in SQL.
fn enqueue(ground: &Ground, new: &NewItem) -> (ItemId, String) {
    let row = ground.one(&call(new));
    ground.set_clock();
    (id(&row, "id"), text(&row, "outcome"))
}

fn word(outcome: EnqueueOutcome) -> &'static str {
    match outcome {
        EnqueueOutcome::Created => "created",
        EnqueueOutcome::Duplicate => "duplicate",
        EnqueueOutcome::Replaced => "replaced",
        EnqueueOutcome::Successor => "successor",
    }
}

/// An item without what differs between two that were enqueued alike in two queues.
fn alike(mut seen: Inspected) -> Inspected {
    seen.item.id = ItemId(0);
    seen.item.queue = QueueNo(0);
    seen.item.group = None;
    seen.body.queue = "".into();
    seen.successor = None;
    seen.trail = Default::default();
    if let windrow_core::State::Pending { not_before } = &mut seen.item.state
        && seen.item.attempts > 0
    {
        *not_before = Timestamp::ZERO;
    }
    if let windrow_core::State::Leased { lease } = &mut seen.item.state {
        lease.0 = 0;
    }
    seen
}

fn any_item(random: &mut Splitmix, now: Timestamp) -> NewItem {
    let mut text = |most: usize| {
        let letters = ["a", "é", "'", "\"", "\\", "|", "{", " "];
        let long = random.below(most);
        (0..long).filter_map(|_| random.pick(&letters).copied()).collect::<String>()
    };
    let mut body = Body::new(format!("tenant {}", text(3)), "");
    body.kind = format!("kind{}", text(3)).into();
    body.op = format!("op{}", text(3)).into();
    body.key = Some(text(60)).filter(|key| !key.is_empty());
    body.group = Some(text(20).into()).filter(|_| body.key.is_some());
    body.collection = Some(text(20).into());
    body.branch = Some(text(20).into()).filter(|text: &Arc<str>| text.len() > 5);
    body.source_type = Some(text(9).into()).filter(|text: &Arc<str>| text.len() > 5);
    body.source_info = Some(text(90)).filter(|text| text.len() > 9);
    body.reference = Some(text(90)).filter(|text| text.len() > 9);
    body.content_type = Some(text(9).into()).filter(|text: &Arc<str>| text.len() > 5);
    body.metadata = Some(text(90)).filter(|text| text.len() > 9);
    let long = "s".repeat(random.below(120) + 9);
    let routes: [&[&str]; 3] = [&["work"], &["ocr", "chunk"], &["é", &long, "work"]];
    body.route = Route::of(routes[random.below(3)]);
    body.payload = Payload::Inline((0..random.below(40)).map(|_| random.draw() as u8).collect());
    let mut new = NewItem::new(body).priority(random.below(11) as u8);
    if random.percent(30) {
        new.not_before = now.plus(3_600_000);
    } else if random.percent(20) {
        new.not_before = Timestamp(now.0 - 5_000);
    }
    new
}

pub(crate) fn it_is_what_the_store_would_have_made(ground: &Ground) {
    let bed = &ground.bed;
    let mut random = Splitmix(11);
    for number in 0..40 {
        let new = any_item(&mut random, bed.now());
        let mine = bed.enqueue(new.clone().queue("rust"));
        let (theirs, outcome) = enqueue(ground, &new.clone().queue("sql"));
        assert_eq!(outcome, word(mine.outcome));
        let seen = [mine.id, theirs].map(|id| alike(bed.see(id)));
        assert_eq!(seen[0], seen[1], "{number}");
        let rows = [mine.id, theirs].map(|id| {
            let columns = "class, state, spot, lease, deferrals, grp, level, key";
            ground.one(&format!("select {columns} from items where serial = {}", id.serial()))
        });
        assert_eq!(rows[0], rows[1], "{number}");
        assert_eq!(bed.why(mine.id), bed.why(theirs));
    }
    let twice = "select 1 from routes group by stages having count(*) > 1";
    assert_eq!(ground.rows(twice), [] as [Value; 0], "routes are packed alike");
    // Both are handed out alike.
    loop {
        let claim = |queue| windrow_core::command::Claim::new("w", queue, 1);
        let grants = ["rust", "sql"].map(|queue| bed.try_claim(claim(queue)));
        match grants {
            [Some(mine), Some(theirs)] => {
                let seen = [mine, theirs].map(|grant| alike(bed.see(grant.items[0].item.id)));
                assert_eq!(seen[0], seen[1]);
            }
            [None, None] => break,
            other => panic!("one of them waits for longer: {other:?}"),
        }
    }
}

pub(crate) fn a_key_meets_what_it_would_meet_in_the_store(ground: &Ground) {
    let bed = &ground.bed;
    let both = |new: NewItem| {
        let mine = bed.enqueue(new.clone().queue("rust"));
        let (theirs, outcome) = enqueue(ground, &new.queue("sql"));
        assert_eq!(outcome, word(mine.outcome));
        let [seen, other] = [mine.id, theirs].map(|id| bed.see(id));
        assert_eq!(alike(seen), alike(other));
        outcome
    };
    for unique in [Unique::Live, Unique::Retained] {
        for queue in ["rust", "sql"] {
            bed.configure_queue(queue, |settings| settings.unique = unique);
        }
        let new = || item().key(&format!("{unique:?}")).payload(b"p");
        let take = || ["rust", "sql"].map(|queue| bed.take_from(queue));
        assert_eq!(both(new()), "created");
        assert_eq!(both(new().payload(b"other")), "duplicate");
        let held = take();
        assert_eq!(both(new()), "successor");
        assert_eq!(both(new()), "duplicate");
        held.iter().for_each(|held| bed.complete(held));
        assert_eq!(both(new()), "duplicate", "the successor waits in line");
        let held = take();
        held.iter().for_each(|held| drop(bed.split(held, children(0..1))));
        assert_eq!(both(new()), "successor", "a split item has its key");
        for queue in ["rust", "sql"] {
            bed.complete(&bed.take_from(queue));
            bed.complete(&bed.take_from(queue));
        }
        let again = both(new());
        assert_eq!(again, if unique == Unique::Live { "created" } else { "duplicate" });
        if unique == Unique::Live {
            let held = take();
            for held in &held {
                bed.settle(held, retry());
            }
            assert_eq!(both(new()), "duplicate", "it waits for its next attempt");
        }
    }
}

pub(crate) fn it_is_refused_in_the_words_of_the_rules(ground: &Ground) {
    let bed = &ground.bed;
    bed.configure_queue("full", |settings| settings.live_max = Some(0));
    let long = |bytes: usize| "x".repeat(bytes + 1);
    let mut wrong = vec![
        item().priority(11),
        item().at(bed.later(DELAY_MAX_MS + 3_600_000)),
        item().tenant(""),
        item().queue(&long(NAME_MAX)),
        item().kind(""),
        item().op(&long(NAME_MAX)),
        item().group(&long(NAME_MAX)),
        item().key(&long(KEY_MAX)),
        item().key(""),
        item().payload(long(16 * 1024).as_bytes()),
        item().route(Route::of(&[])),
        item().route(Route::of(&["a", "a"])),
        item().route(Route::of(&["a", ""])),
        item().queue("full"),
    ];
    type Change<'a> = &'a dyn Fn(&mut Body);
    let changes: [Change<'_>; 7] = [
        &|body| body.collection = Some(long(NAME_MAX).into()),
        &|body| body.branch = Some(long(NAME_MAX).into()),
        &|body| body.source_type = Some(long(NAME_MAX).into()),
        &|body| body.source_info = Some(long(TEXT_MAX)),
        &|body| body.reference = Some(long(TEXT_MAX)),
        &|body| body.content_type = Some(long(NAME_MAX).into()),
        &|body| body.metadata = Some(long(METADATA_MAX)),
    ];
    wrong.extend(changes.iter().map(|change| item().draft(|new| change(&mut new.body))));
    for new in wrong {
        let refusal = bed.try_enqueue(new.clone()).expect_err("it is refused").to_string();
        let error = format!("{:#}", ground.try_rows(&call(&new)).expect_err("it is refused"));
        assert!(error.contains(&refusal), "{error}\n{refusal}");
    }
    assert_eq!(bed.everything(), []);
}

pub(crate) fn it_is_undone_with_the_transaction(ground: &Ground) {
    let bed = &ground.bed;
    let psql = |sql: &str| ground.stores.psql(sql).expect("it runs");
    psql(
        "begin; create table orders (no int); insert into orders values (1); \
         select windrow.enqueue('new', 'x', key => 'k'); rollback",
    );
    assert_eq!(bed.everything(), []);
    assert_eq!(block_on(bed.store.counts()).unwrap(), []);
    psql(
        "begin; create table orders (no int); insert into orders values (1); \
         select windrow.enqueue('new', '{\"order\": 1}'::jsonb, key => 'k'); \
         savepoint s; select windrow.enqueue('new', 'y'); rollback to s; commit",
    );
    let all = bed.everything();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].body.payload, Payload::Inline(br#"{"order": 1}"#.to_vec()));
    assert_eq!(&*all[0].body.tenant, "default");
    bed.complete(&bed.take_from("new"));
    psql("drop table orders");
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

pub(crate) fn a_waiting_claimer_is_told(ground: &Ground) {
    let (send, told) = std::sync::mpsc::channel();
    ground.bed.store.listen(Arc::new(Ear(Mutex::new(send))));
    let begun = Instant::now();
    // It may not be listening yet; then the next one is told.
    let mut ready = loop {
        ground.rows("select windrow.enqueue('q', 'x', tenant => 't') from generate_series(1, 7)");
        match told.recv_timeout(Duration::from_secs(1)) {
            Ok(ready) => break ready,
            Err(_) => assert!(begun.elapsed() < Duration::from_secs(60), "nobody is told"),
        }
    };
    assert_eq!((&*ready.queue, &*ready.stage, &*ready.kind), ("q", "work", "item"));
    // Seven of one transaction are told in three notes.
    let mut notes = vec![ready.count];
    while notes.iter().sum::<usize>() < 7 {
        ready = told.recv_timeout(Duration::from_secs(60)).expect("all are told");
        notes.push(ready.count);
    }
    assert_eq!(notes, [1, 2, 4]);
    assert!(ground.bed.claim(100).len() >= 7);
}

pub(crate) fn servers_and_sql_never_make_the_same_id(ground: &Ground) {
    let others: Vec<_> = (0..3).map(|_| ground.stores.open_again().expect("it opens")).collect();
    ground.rows("select setval('windrow.servers', 62)");
    let last = ground.stores.open_again().expect("it opens");
    for store in others.iter().chain([&last]) {
        let new = windrow_core::Command::Enqueue(vec![item(); 3]);
        block_on(store.submit(vec![new.into()], windrow_core::ports::Now::Database)).unwrap();
    }
    ground.rows("select windrow.enqueue('q', 'x') from generate_series(1, 300)");
    let row = ground.one(
        "select count(*) filter (where serial >> 10 & 63 = 63) as sql, count(*) as all from items",
    );
    assert_eq!(row, json!({"sql": 300, "all": 312}));
}
