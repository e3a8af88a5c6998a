//! What happens to an item while housekeeping moves it, at every step of the move.
//!
//! An item's records lie in the first segment, which is being reclaimed: they are copied, the
//! copies become durable, they count, and the segment is dropped. Each story happens to the item
//! before the first step, before the second, and so on until the segment is gone. Whatever was the
//! order, the store that is opened from the disk must hold what the one in memory held.

use std::sync::Arc;

use windrow_core::command::{Claim, Command, NewItem, OnDuplicate, Outcome, RetryMode};
use windrow_core::item::{Body, Payload};
use windrow_core::ports::{Now, Store as _, Work};
use windrow_core::settings::Settings;
use windrow_core::trail::Class;
use windrow_core::{Answer, ItemId, Timestamp};
use windrow_store::embedded::Options;
use windrow_store::embedded::disk::Disk as _;

use crate::clock::SimClock;
use crate::disk::SimDisk;
use crate::dump::dump;
use crate::stepped::Stepped;
use crate::suite::block_on;

/// Something that happens to an item.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Cancel,
    Retry,
    /// A newer one of its key takes its place.
    Replace,
    /// A worker tries it in vain, which leaves a trail.
    Try,
}

use Deed::{Cancel, Replace, Retry, Try};

/// What happened to the item before, and what happens in the middle of the move.
const STORIES: [(&[Deed], &[Deed]); 8] = [
    (&[], &[]),
    (&[], &[Cancel]),
    (&[], &[Cancel, Retry]),
    (&[], &[Replace]),
    (&[Try], &[Try]),
    (&[Try], &[Cancel, Retry]),
    (&[Cancel], &[Retry]),
    (&[Try, Cancel], &[Retry, Cancel]),
];

/// More steps than any move takes.
const ENOUGH: usize = 1_000;

/// Tells every story at every step and counts the runs that went well.
pub fn explore(runs: &mut u64) -> Result<(), String> {
    for (before, during) in STORIES {
        for steps in 0..ENOUGH {
            let what = format!("{before:?}, then {during:?} after {steps} steps");
            let mut scene = Scene::new();
            before.iter().for_each(|deed| scene.happens(*deed));
            (0..steps).for_each(|_| scene.step());
            if scene.is_moved() {
                break;
            }
            during.iter().for_each(|deed| scene.happens(*deed));
            scene.compare().map_err(|wrong| format!("{what}: {wrong}"))?;
            *runs += 1;
        }
    }
    Ok(())
}

/// A small store with one item that stays, and others that come and go.
struct Scene {
    disk: SimDisk,
    store: Stepped,
    now: Timestamp,
    item: ItemId,
}

impl Scene {
    fn new() -> Scene {
        let (disk, now) = (SimDisk::new(1), SimClock::default().now());
        let store = open(&disk).expect("an empty disk can be opened");
        let settings = Box::new(Settings { forget_completed: true, ..Settings::default() });
        let mut scene = Scene { disk, store, now, item: ItemId(0) };
        scene.ask(Command::Configure { queue: "brief".into(), settings });
        scene.item = scene.enqueue(keyed(1));
        scene
    }

    fn ask(&self, command: Command) -> Answer<Work> {
        let asked = self.store.submit(vec![command.into()], Now::Given(self.now));
        block_on(asked).expect("the store answers").remove(0)
    }

    fn enqueue(&self, new: NewItem) -> ItemId {
        let answer = self.ask(Command::Enqueue(vec![new]));
        let Answer::Enqueued(each) = &answer else { panic!("{answer:?}") };
        each[0].as_ref().expect("it is taken").id
    }

    fn work(&self, queue: &str, outcome: Outcome) {
        let claimed = self.ask(Command::Claim(Claim::new("w", queue, 1)));
        let Answer::Claimed(Some(grant)) = claimed else { panic!("{claimed:?}") };
        let items = vec![(grant.items[0].item.id, outcome)];
        self.ask(Command::Settle { lease: grant.lease, items });
    }

    fn happens(&mut self, deed: Deed) {
        let items = vec![self.item];
        match deed {
            Cancel => {
                let cancelled = self.ask(Command::Cancel { items });
                assert!(matches!(&cancelled, Answer::Cancelled(each) if each[0].is_ok()));
            }
            Retry => {
                let (mode, from_stage) = (RetryMode::Reset, None);
                let retried = self.ask(Command::Retry { items, mode, from_stage });
                assert!(matches!(&retried, Answer::Retried(each) if each[0].is_ok()));
            }
            Replace => {
                let new = NewItem { on_duplicate: OnDuplicate::Replace, ..keyed(2) };
                assert_eq!(self.enqueue(new), self.item);
            }
            Try => {
                let (class, message) = (Class::Other, "in vain".to_owned());
                self.work("q", Outcome::Retry { class, message, delay_ms: Some(0) });
            }
        }
    }

    /// Another item comes and goes, and housekeeping takes one step.
    fn step(&self) {
        let mut body = Body::new("t", "brief");
        body.payload = Payload::Inline(vec![7; 900]);
        self.enqueue(NewItem::new(body));
        self.work("brief", Outcome::complete());
        self.store.store.keep_step();
    }

    /// Whether the first segment is gone, and with it where the item was.
    fn is_moved(&self) -> bool {
        let files = self.disk.list().expect("it can be listed");
        !files.contains(&"segment-0000000001.log".to_owned())
    }

    /// Lets the move end and no more: when a copy is moved in its turn, all may be well again.
    fn compare(self) -> Result<(), String> {
        for _ in 0..ENOUGH {
            if self.is_moved() {
                break;
            }
            // As far as it goes without a sync.
            if !self.store.store.keep_step() {
                self.step();
            }
        }
        if !self.is_moved() {
            return Err("the first segment is never reclaimed".into());
        }
        // Before anything is read, because readers wait for what they saw to be durable.
        let disks = [self.disk.kill(), self.disk.crash()];
        let before = dump(&self.store).map_err(|error| format!("not readable: {error}"))?;
        assert!(before.items.contains_key(&self.item), "it stays");
        for disk in disks {
            let again = open(&disk)?;
            let found = dump(&again).map_err(|error| format!("opened again: {error}"))?;
            if let Some(difference) = before.difference(&found) {
                return Err(format!("opened again: {difference}"));
            }
        }
        Ok(())
    }
}

fn keyed(mark: u8) -> NewItem {
    let mut body = Body::new("t", "q");
    body.key = Some("k".into());
    body.payload = Payload::Inline(vec![mark; 50]);
    NewItem::new(body)
}

fn open(disk: &SimDisk) -> Result<Stepped, String> {
    let options = Options {
        segment_bytes: 16 << 10,
        reserve_segments: 1,
        snapshot_bytes: 24 << 10,
        slack_bytes: 8 << 10,
        seed: Some(1),
        ..Options::default()
    };
    Stepped::open(Arc::new(disk.clone()), options).map_err(|error| error.to_string())
}
