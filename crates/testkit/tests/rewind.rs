//! Copies of a store at work, taken back in time: every second of them is as it was.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windrow_core::command::{Claim, Command, NewItem, Outcome};
use windrow_core::item::{Body, Payload};
use windrow_core::ports::{Now, Store as _};
use windrow_core::settings::{Retention, Settings};
use windrow_core::{Answer, ItemId, Status, Timestamp};
use windrow_store::embedded::backup::{Held, RewindError, rewind};
use windrow_store::embedded::blobs::Files;
use windrow_store::embedded::disk::{Disk, RealDisk};
use windrow_store::embedded::{Embedded, Options};
use windrow_testkit::suite::block_on;

const SECONDS: u64 = 90;

fn at(second: u64) -> Timestamp {
    Timestamp(1_800_000_000_000 + second * 1_000)
}

/// Small, so that segments are dropped and snapshots are taken all the time.
fn options() -> Options {
    Options {
        segment_bytes: 64 << 10,
        reserve_segments: 1,
        snapshot_bytes: 96 << 10,
        slack_bytes: 64 << 10,
        seed: Some(7),
        ..Options::default()
    }
}

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("windrow-{name}-{}", std::process::id()));
        let _nothing_left = std::fs::remove_dir_all(&path);
        Place(path)
    }

    fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(RealDisk::open(&self.0).unwrap())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

type Seen = BTreeMap<ItemId, Status>;

fn seen(store: &Embedded) -> Seen {
    let (mut all, mut after) = (Seen::new(), None);
    loop {
        let page = block_on(store.items(after, 500)).unwrap();
        let Some(last) = page.last() else { return all };
        after = Some(last.id);
        all.extend(page.iter().map(|item| (item.id, item.status())));
    }
}

fn ask(store: &Embedded, command: Command, second: u64) -> Answer<windrow_core::ports::Work> {
    block_on(store.submit(vec![command.into()], Now::Given(at(second)))).unwrap().remove(0)
}

/// Some come, some end, and some are removed.
fn work(store: &Embedded, second: u64) {
    let new = |_| {
        let mut new = NewItem::new(Body::new("t", "q"));
        new.body.payload = Payload::Inline(vec![7; 600]);
        new
    };
    ask(store, Command::Enqueue((0..20).map(new).collect()), second);
    if let Answer::Claimed(Some(granted)) =
        ask(store, Command::Claim(Claim::new("w", "q", 19)), second)
    {
        let items = granted.items.iter().map(|item| (item.item.id, Outcome::complete())).collect();
        ask(store, Command::Settle { lease: granted.lease, items }, second);
    }
    ask(store, Command::Sweep { limit: 100 }, second);
}

/// Copies what is held beside what was copied before, as an archive keeps it.
fn copy(store: &Embedded, blobs: &Arc<Files>, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    let held = Held::begin(store, blobs, || Ok(None)).unwrap();
    for (name, bytes, size) in held.files("") {
        let path = to.join(name);
        std::fs::write(&path, held.read(name, 0, bytes as usize).unwrap().unwrap()).unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(size).unwrap();
    }
}

fn copied(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// How many files of a directory have names that begin so.
fn count(dir: &Path, start: &str) -> usize {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with(start)).count()
}

#[test]
fn a_copy_can_be_taken_back_to_any_second_across_snapshots_and_dropped_segments() {
    let (place, beside, archive) =
        (Place::new("rewind"), Place::new("blobs"), Place::new("copies"));
    let blobs = Arc::new(Files::on(beside.disk()));
    let running = Embedded::open(place.disk(), options()).unwrap().run().unwrap();
    let store = (*running).clone();
    // A log without a second segment begins one for a sweep, whose worst may not fit into what is
    // left; then there would be a snapshot in the first second already.
    while count(&place.0, "segment-") < 2 {
        std::thread::yield_now();
    }
    let retention = Retention { max_per_tenant: 30, ..Retention::default() };
    let settings = Box::new(Settings { retention, ..Settings::default() });
    ask(&store, Command::Configure { queue: "q".into(), settings }, 0);
    let mut known = Vec::new();
    for second in 0..SECONDS {
        work(&store, second);
        known.push(seen(&store));
        copy(&store, &blobs, &archive.0);
    }
    assert!(count(&archive.0, "snapshot-") > 2, "there are snapshots to choose from");
    let (all, kept) = (count(&archive.0, "segment-"), count(&place.0, "segment-"));
    assert!(all > kept + 2, "segments were dropped");
    drop(running);
    for second in (0..SECONDS).step_by(3).chain([SECONDS - 1, SECONDS + 5]) {
        let to = Place::new("taken-back");
        copied(&archive.0, &to.0);
        let rewound = rewind(&to.disk(), at(second)).unwrap();
        let there = second.min(SECONDS - 1);
        assert_eq!((rewound.at, rewound.cut), (at(there), second < SECONDS - 1), "{second}");
        let store = Embedded::open(to.disk(), options()).unwrap();
        assert_eq!(seen(&store), known[there as usize], "second {second}");
    }
    let to = Place::new("too-early");
    copied(&archive.0, &to.0);
    let early = rewind(&to.disk(), Timestamp(at(0).0 - 5_000)).unwrap_err();
    assert!(matches!(early, RewindError::TooEarly { earliest } if earliest == at(0)), "{early}");
    // With its beginning lost, it reaches back to its first snapshot.
    std::fs::remove_file(to.0.join("segment-0000000001.log")).unwrap();
    let early = rewind(&to.disk(), at(0)).unwrap_err();
    assert!(matches!(early, RewindError::TooEarly { earliest } if earliest > at(0)), "{early}");
}
