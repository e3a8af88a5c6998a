//! The queue suite: in process, and over HTTP and RPC against the real binary, each on both stores.

use std::path::Path;

use libtest_mimic::Arguments;
use windrow_client::{http, rpc};
use windrow_testkit::queue_suite::{Ground, trials};
use windrow_testkit::servers::Version;
use windrow_testkit::servers::queues::{self, Served, Wired};

fn main() {
    let program = Path::new(env!("CARGO_BIN_EXE_windrow"));
    let (old, new) = (Version::V15, Version::V18);
    let all = [
        trials("embedded::engine", || queues::embedded().expect("an engine")),
        trials("postgres::engine", move || queues::postgres(old).expect("an engine")),
        trials("embedded::http", || embedded::<http::Client>(program)),
        trials("postgres::http", move || postgres::<http::Client>(program, new)),
        trials("embedded::rpc", || embedded::<rpc::Client>(program)),
        trials("postgres::rpc", move || postgres::<rpc::Client>(program, new)),
    ];
    let all = all.into_iter().flatten().collect();
    libtest_mimic::run(&Arguments::from_args(), all).exit();
}

fn embedded<C: Wired>(program: &Path) -> Ground<C, Served> {
    queues::served_embedded(program).expect("a server")
}

fn postgres<C: Wired>(program: &Path, version: Version) -> Ground<C, Served> {
    queues::served_postgres(program, version).expect("a server")
}
