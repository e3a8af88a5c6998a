//! The conformance suite on the model store.

use windrow_testkit::model::Model;
use windrow_testkit::suite;

fn main() {
    suite::run(|| Model::new(1)).exit();
}
