//! The conformance suite on the embedded store.

use std::sync::Arc;

use windrow_store::embedded::Options;
use windrow_testkit::disk::SimDisk;
use windrow_testkit::stepped::Stepped;

fn open() -> Stepped {
    let options = Options { segment_bytes: 1 << 20, seed: Some(1), ..Options::default() };
    Stepped::open(Arc::new(SimDisk::new(1)), options).expect("an empty disk can be opened")
}

fn main() {
    windrow_testkit::suite::run(open).exit();
}
