//! The bytes of blobs, as files and as rows: nothing that an item refers to is ever without its
//! bytes, whatever fails and whenever, and what nobody needs goes.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::sync::Arc;

use windrow_core::command::{Claim, Command, NewItem, Outcome};
use windrow_core::item::{BlobRef, Body, Payload};
use windrow_core::ports::{Now, Store, StoreError};
use windrow_core::settings::Settings;
use windrow_core::{Answer, ItemId, Timestamp};
use windrow_store::blobs::{
    BlobError, Blobs, Keeper, NewUpload, Nobody, References, UNUSED_KEPT_MS, collect_dropped,
    collect_old, hash_of, put,
};
use windrow_store::embedded::Options;
use windrow_store::embedded::blobs::Files;
use windrow_store::embedded::disk::Disk as _;
use windrow_testkit::disk::SimDisk;
use windrow_testkit::servers::postgres::Version;
use windrow_testkit::servers::stores::Stores;
use windrow_testkit::stepped::Stepped;
use windrow_testkit::suite::block_on;

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const TENANT: &str = "t";
const LATER: Timestamp = Timestamp(NOW.0 + UNUSED_KEPT_MS + 1_000);

fn options() -> Options {
    Options { segment_bytes: 16 << 10, reserve_segments: 1, seed: Some(1), ..Options::default() }
}

fn open(disk: &SimDisk) -> Stepped {
    Stepped::open(Arc::new(disk.clone()), options()).unwrap()
}

fn files(disk: &SimDisk) -> Files {
    Files::on(Arc::new(disk.clone()))
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 % 251) as u8).collect()
}

/// Asks the queue, unless it has stopped.
fn ask<S: Store>(store: &S, command: Command) -> Option<Answer<windrow_core::ports::Work>> {
    block_on(store.submit(vec![command.into()], Now::Given(NOW))).ok()?.pop()
}

fn known<S: Store>(store: &S, blob: BlobRef) -> Option<()> {
    ask(store, Command::Blob { tenant: TENANT.into(), blob }).map(drop)
}

fn enqueue<S: Store>(store: &S, blob: BlobRef) -> Option<ItemId> {
    let payload = Payload::Blob(blob);
    let body = Body { payload, ..Body::new(TENANT, "q") };
    match ask(store, Command::Enqueue(vec![NewItem::new(body)]))? {
        Answer::Enqueued(each) => each[0].as_ref().ok().map(|enqueued| enqueued.id),
        _ => None,
    }
}

/// Works the next item off; the queue forgets it.
fn work_off<S: Store>(store: &S) -> Option<()> {
    let settings = Settings { forget_completed: true, ..Settings::default() };
    ask(store, Command::Configure { queue: "q".into(), settings: Box::new(settings) })?;
    let Answer::Claimed(Some(grant)) = ask(store, Command::Claim(Claim::new("w", "q", 1)))? else {
        return None;
    };
    let items = vec![(grant.items[0].item.id, Outcome::complete())];
    ask(store, Command::Settle { lease: grant.lease, items }).map(drop)
}

/// A blob's whole life; none from where the power went.
fn life(store: &Stepped, blobs: &Files) -> Option<()> {
    let tenant: Arc<str> = TENANT.into();
    let all = content(3_000);
    let new = NewUpload { tenant: Arc::clone(&tenant), len: 3_000, hash: None };
    let upload = block_on(blobs.begin(new, NOW)).ok()?;
    block_on(blobs.append(upload, 0, &all[..1_300], NOW)).ok()?;
    block_on(blobs.append(upload, 1_300, &all[1_300..], NOW)).ok()?;
    let blob = block_on(blobs.finish(upload, NOW)).ok()?;
    known(store, blob)?;
    block_on(blobs.touch(TENANT, blob, NOW)).ok()?;
    enqueue(store, blob)?;
    // Another that is the same brings the same bytes.
    let same = block_on(put(blobs, &tenant, &all, NOW)).ok()?;
    assert_eq!(same, blob);
    known(store, blob)?;
    enqueue(store, blob)?;
    work_off(store)?;
    block_on(collect_dropped(store, blobs, &Nobody)).ok()?;
    work_off(store)?;
    block_on(collect_dropped(store, blobs, &Nobody)).ok()?;
    Some(())
}

/// The same with the queue told before the bytes are there: what the check must catch.
fn careless(store: &Stepped, blobs: &Files) -> Option<()> {
    let all = content(3_000);
    let hash = sha(&all);
    let blob = BlobRef { hash, len: 3_000 };
    known(store, blob)?;
    enqueue(store, blob)?;
    block_on(put(blobs, &TENANT.into(), &all, NOW)).ok().map(drop)
}

fn sha(bytes: &[u8]) -> [u8; 32] {
    let disk = SimDisk::new(9);
    block_on(put(&files(&disk), &TENANT.into(), bytes, NOW)).unwrap().hash
}

/// Whether everything that an item refers to is there and what it should be.
fn is_whole<S: Store + References, B: Blobs>(store: &S, blobs: &B) -> bool {
    let items = block_on(store.items(None, 100)).unwrap();
    items.iter().all(|item| {
        let seen = block_on(store.inspect(item.id)).unwrap().unwrap();
        let Some(blob) = seen.body.payload.blob() else { return true };
        assert!(block_on(store.references(TENANT, blob)).unwrap() > Some(0));
        block_on(hash_of(blobs, TENANT, blob)) == Ok(blob.hash)
    })
}

/// Cuts the power at every step of a life in turn. Says at how many of them something that is
/// referred to was left without its bytes.
fn cut_everywhere(life: fn(&Stepped, &Files) -> Option<()>) -> usize {
    let mut broken = 0;
    for operations in 0.. {
        let disk = SimDisk::new(operations);
        let store = open(&disk);
        disk.cut_power_after(operations);
        let lived = life(&store, &files(&disk)).is_some();
        let after = disk.crash();
        let (store, blobs) = (open(&after), files(&after));
        broken += usize::from(!is_whole(&store, &blobs));
        // What is left behind goes after a day; what is needed stays.
        while block_on(collect_old(&store, &blobs, &Nobody, LATER)).unwrap() != Default::default() {
        }
        let left = after.list().unwrap();
        let left = left.iter().filter(|name| name.ends_with(".part") || name.ends_with(".blob"));
        let used = !block_on(store.items(None, 1)).unwrap().is_empty();
        assert!(left.count() <= usize::from(used), "after {operations}: {:?}", after.list());
        if lived {
            assert!(operations > 10, "{operations}");
            return broken;
        }
    }
    unreachable!("it ends when all of it was lived")
}

#[test]
fn a_power_cut_at_any_step_leaves_no_item_without_its_bytes() {
    assert_eq!(cut_everywhere(life), 0);
}

#[test]
fn a_queue_that_is_told_too_early_is_caught() {
    assert!(cut_everywhere(careless) > 0);
}

#[test]
fn what_a_power_cut_leaves_of_an_upload_is_what_was_answered_for() {
    let all = content(5_000);
    for cut in 0..12 {
        let disk = SimDisk::new(cut);
        let blobs = files(&disk);
        let new = NewUpload { tenant: TENANT.into(), len: 5_000, hash: None };
        let upload = block_on(blobs.begin(new, NOW)).unwrap();
        let mut answered = block_on(blobs.append(upload, 0, &all[..2_000], NOW)).unwrap();
        disk.cut_power_after(cut);
        for end in [3_000, 4_500] {
            let some = &all[answered as usize..end];
            let Ok(now) = block_on(blobs.append(upload, answered, some, NOW)) else { break };
            answered = now;
        }
        let after = files(&disk.crash());
        let offset = block_on(after.upload(upload)).unwrap().offset;
        assert!(offset >= answered, "{offset} of {answered}");
        let rest = &all[offset as usize..];
        block_on(after.append(upload, offset, rest, NOW)).unwrap();
        let blob = block_on(after.finish(upload, NOW)).unwrap();
        assert_eq!(block_on(after.read(TENANT, blob, 0, 5_000)).unwrap(), all, "cut {cut}");
    }
}

#[test]
fn a_full_disk_refuses_bytes_and_keeps_nothing_of_them() {
    let disk = SimDisk::new(1);
    let blobs = files(&disk);
    let tenant: Arc<str> = TENANT.into();
    let kept = block_on(put(&blobs, &tenant, &content(10_000), NOW)).unwrap();
    let used = disk.used();
    disk.set_capacity(Some(used + 8_192));
    let large = vec![5; 50_000];
    assert_eq!(block_on(put(&blobs, &tenant, &large, NOW)), Err(BlobError::Full));
    assert_eq!(disk.used(), used, "nothing is left");
    let new = NewUpload { tenant, len: 50_000, hash: None };
    let upload = block_on(blobs.begin(new, NOW)).unwrap();
    assert_eq!(block_on(blobs.append(upload, 0, &large, NOW)), Err(BlobError::Full));
    assert_eq!(block_on(blobs.upload(upload)).unwrap().offset, 0);
    disk.set_capacity(None);
    assert_eq!(block_on(blobs.append(upload, 0, &large, NOW)), Ok(50_000), "there is room again");
    assert_eq!(block_on(hash_of(&blobs, TENANT, kept)), Ok(kept.hash));
}

#[test]
fn after_a_failed_sync_nothing_of_an_upload_is_believed() {
    let disk = SimDisk::new(2);
    let blobs = files(&disk);
    let new = NewUpload { tenant: TENANT.into(), len: 4_000, hash: None };
    let upload = block_on(blobs.begin(new, NOW)).unwrap();
    disk.fail_sync(1);
    let failed = block_on(blobs.append(upload, 0, &content(4_000), NOW));
    assert!(matches!(failed, Err(BlobError::Failed(_))), "{failed:?}");
    assert_eq!(block_on(blobs.upload(upload)), Err(BlobError::NotFound));
}

/// What must hold of the bytes beside any store.
fn check<S: Store + References, B: Blobs>(store: &S, blobs: &B) {
    let tenant: Arc<str> = TENANT.into();
    let all = content(600_000);
    let blob = block_on(put(blobs, &tenant, &all, NOW)).unwrap();
    for (from, len) in [(0, 600_000), (262_143, 2), (524_288, 75_712), (599_999, 9), (600_000, 5)] {
        let part = &all[from..(from + len).min(all.len())];
        assert_eq!(block_on(blobs.read(TENANT, blob, from as u64, len)).unwrap(), part, "{from}");
    }
    assert_eq!(block_on(blobs.find("other", blob.hash)).unwrap(), None);

    // What somebody stores again is not removed by whoever saw it before.
    let seen = block_on(blobs.find(TENANT, blob.hash)).unwrap().unwrap();
    assert_eq!((seen.blob, seen.since), (blob, NOW));
    block_on(blobs.touch(TENANT, blob, NOW)).unwrap();
    assert!(!block_on(blobs.remove(&seen)).unwrap());
    let seen = block_on(blobs.find(TENANT, blob.hash)).unwrap().unwrap();
    assert!(seen.since > NOW);

    // One that the queue knows stays a day without references, and for ever with one.
    known(store, blob).unwrap();
    let soon = Timestamp(LATER.0 - 2_000);
    assert_eq!(block_on(collect_old(store, blobs, &Nobody, soon)).unwrap().blobs, 0);
    enqueue(store, blob).unwrap();
    let far = Timestamp(LATER.0 * 2);
    assert_eq!(block_on(collect_old(store, blobs, &Nobody, far)).unwrap().blobs, 0);
    assert_eq!(block_on(collect_dropped(store, blobs, &Nobody)).unwrap(), 0);
    work_off(store).unwrap();
    assert_eq!(block_on(collect_dropped(store, blobs, &Nobody)).unwrap(), 1);
    assert_eq!(block_on(blobs.find(TENANT, blob.hash)).unwrap(), None);

    // The queue forgets one that nothing ever referred to, and then its bytes go.
    let unused = block_on(put(blobs, &tenant, b"unused", NOW)).unwrap();
    known(store, unused).unwrap();
    assert_eq!(block_on(collect_old(store, blobs, &Nobody, LATER)).unwrap().blobs, 1);
    assert_eq!(block_on(store.references(TENANT, unused)).unwrap(), None);
    assert!(enqueue(store, unused).is_none());

    // Uploads that nobody goes on with.
    let new = NewUpload { tenant, len: 9, hash: None };
    let idle = block_on(blobs.begin(new.clone(), NOW)).unwrap();
    let busy = block_on(blobs.begin(new, NOW)).unwrap();
    block_on(blobs.append(busy, 0, b"1234", LATER)).unwrap();
    assert_eq!(block_on(collect_old(store, blobs, &Nobody, LATER)).unwrap().uploads, 1);
    assert_eq!(block_on(blobs.upload(idle)), Err(BlobError::NotFound));
    assert_eq!(block_on(blobs.upload(busy)).unwrap().offset, 4);
    let wrong = block_on(blobs.append(busy, 3, b"45", NOW));
    assert_eq!(wrong, Err(BlobError::WrongOffset { offset: 4 }));
    let missing = block_on(blobs.finish(busy, NOW));
    assert_eq!(missing, Err(BlobError::Incomplete { missing: 5 }));
    let long = block_on(blobs.append(busy, 4, b"567890", NOW));
    assert_eq!(long, Err(BlobError::TooLong { len: 9 }));
    assert_eq!(block_on(blobs.append(busy, 4, b"56789", NOW)), Ok(9));
    block_on(blobs.finish(busy, NOW)).unwrap();
    assert!(block_on(blobs.finish(busy, NOW)).is_err(), "it is no upload any more");
}

#[test]
fn files_keep_bytes() {
    let disk = SimDisk::new(4);
    let apart = SimDisk::new(5);
    check(&open(&disk), &files(&apart));
    assert_eq!(apart.list().unwrap().len(), 1, "{:?}", apart.list());
}

#[test]
fn rows_keep_bytes() {
    let stores = Stores::start(Version::V15).unwrap();
    let store = stores.open().unwrap();
    check(&store, &store);
    let left = stores.psql("select count(distinct upload) from windrow.pieces").unwrap();
    assert_eq!(left.trim(), "1");
    let uploads = stores.psql("select count(*) from windrow.uploads").unwrap();
    assert_eq!(uploads.trim(), "0");
}

/// Keeps whatever is one byte long.
struct Short;

impl Keeper for Short {
    async fn keeps(&self, _: &str, blob: BlobRef) -> Result<bool, StoreError> {
        Ok(blob.len == 1)
    }
}

/// Only the first thousand rows were looked at, and those that somebody keeps stayed the first.
#[test]
fn what_nobody_needs_is_found_behind_many_that_somebody_keeps() {
    let stores = Stores::start(Version::V15).unwrap();
    let store = stores.open().unwrap();
    let many = "insert into windrow.contents (tenant, hash, bytes, upload, since) \
         select 't' || n % 3, sha256(n::text::bytea), 1, gen_random_uuid(), 0 \
         from generate_series(1, 2500) n";
    stores.psql(many).unwrap();
    for (tenant, bytes) in [("a", "first"), ("t1", "amidst"), ("z", "last")] {
        block_on(put(&store, &tenant.into(), bytes.as_bytes(), NOW)).unwrap();
    }
    assert_eq!(block_on(collect_old(&store, &store, &Short, LATER)).unwrap().blobs, 3);
    let left = stores.psql("select count(*) from windrow.contents").unwrap();
    assert_eq!(left.trim(), "2500");
}
