//! The overlay: what is written on it shows, and the disk below never changes.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;

use windrow_store::embedded::disk::Disk;
use windrow_store::embedded::overlay::Overlay;
use windrow_testkit::disk::SimDisk;
use windrow_testkit::random::Splitmix;

fn read(disk: &dyn Disk, name: &str) -> Vec<u8> {
    let file = disk.open(name).unwrap();
    let mut bytes = vec![0xee; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn contents(disk: &dyn Disk) -> BTreeMap<String, Vec<u8>> {
    let names = disk.list().unwrap().into_iter();
    names.map(|name| (name.clone(), read(disk, &name))).collect()
}

/// One change of a disk, drawn.
fn change(disk: &dyn Disk, dice: &mut Splitmix) -> Result<(), ErrorKind> {
    let names = ["a", "b", "c"];
    let name = names[dice.below(3)];
    let changed = match dice.below(8) {
        0 => disk.create(name).map(drop),
        1 => disk.rename(name, names[dice.below(3)]),
        2 => disk.remove(name),
        3 => disk.open(name).and_then(|file| file.set_len(dice.below(90) as u64)),
        _ => {
            let bytes = vec![dice.below(255) as u8 + 1; dice.below(30) + 1];
            let at = dice.below(60) as u64;
            disk.open(name).and_then(|file| file.write_at(&bytes, at))
        }
    };
    changed.map_err(|error| error.kind())
}

#[test]
fn an_overlay_behaves_as_a_disk_does_and_leaves_the_one_below_alone() {
    for seed in 0..300 {
        let (below, alike) = (SimDisk::new(seed), SimDisk::new(seed));
        let dice = &mut Splitmix(seed);
        let twice = |one: &dyn Disk, other: &dyn Disk, dice: &mut Splitmix| {
            let mut again = Splitmix(dice.0);
            let (here, there) = (change(one, dice), change(other, &mut again));
            assert_eq!(here, there, "seed {seed}");
        };
        (0..20).for_each(|_| twice(&below, &alike, dice));
        let before = contents(&below);
        let overlay = Overlay::over(Arc::new(below.clone()));
        for _ in 0..60 {
            twice(&overlay, &alike, dice);
            assert_eq!(contents(&overlay), contents(&alike), "seed {seed}");
        }
        assert_eq!(contents(&below), before, "seed {seed}");
    }
}

#[test]
fn a_read_past_the_end_fails_and_an_open_handle_outlives_its_name() {
    let below = SimDisk::new(1);
    below.create("a").unwrap().write_at(b"windrow", 0).unwrap();
    let overlay = Overlay::over(Arc::new(below));
    let file = overlay.open("a").unwrap();
    overlay.remove("a").unwrap();
    assert_eq!(overlay.open("a").unwrap_err().kind(), ErrorKind::NotFound);
    let mut bytes = [0; 7];
    file.read_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"windrow");
    assert_eq!(file.read_at(&mut bytes, 1).unwrap_err().kind(), ErrorKind::UnexpectedEof);
}
