//! The conformance suite on PostgreSQL, each version that we support.

use std::process::ExitCode;
use std::sync::Arc;

use windrow_testkit::servers::postgres::Version;
use windrow_testkit::servers::stores::Stores;
use windrow_testkit::suite;

fn main() -> ExitCode {
    for version in Version::ALL {
        let stores = Arc::new(Stores::start(version).expect("the server starts"));
        let conclusion = suite::run(move || stores.open().expect("a store opens"));
        if conclusion.has_failed() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
