//! The queue suite: in process and over HTTP against the real binary, each on either store.

use std::path::Path;

use libtest_mimic::Arguments;
use windrow_testkit::queue_suite::trials;
use windrow_testkit::servers::{Version, queues};

fn main() {
    let program = Path::new(env!("CARGO_BIN_EXE_windrow"));
    let (old, new) = (Version::V15, Version::V18);
    let all = [
        trials("embedded::engine", || queues::embedded().expect("an engine")),
        trials("postgres::engine", move || queues::postgres(old).expect("an engine")),
        trials("embedded::http", || queues::http_embedded(program).expect("a server")),
        trials("postgres::http", move || queues::http_postgres(program, new).expect("a server")),
    ];
    let all = all.into_iter().flatten().collect();
    libtest_mimic::run(&Arguments::from_args(), all).exit();
}
