use windrow_core::Timestamp;
use windrow_store::postgres::Server;

use super::*;

const GIB: u64 = 1 << 30;

#[test]
fn too_little_room_is_a_problem_before_the_disk_is_full() {
    let level = |free, total| disk::room(free, total).status;
    assert_eq!(level(100 * GIB, 200 * GIB), Level::Ok);
    assert_eq!(level(9 * GIB, 200 * GIB), Level::Warn, "less than a twentieth");
    assert_eq!(level(GIB - 1, 4 * GIB), Level::Warn);
    assert_eq!(level(150 << 20, 4 * GIB), Level::Problem, "less than the store keeps");
    let said = disk::room(0, GIB);
    assert!(said.says.contains("in reserve") && said.fix.is_some(), "{said:?}");
}

#[test]
fn clocks_that_are_apart_are_said_and_which_way() {
    let at = |s: u64| Timestamp(s * 1_000);
    let apart = |theirs, ours, ms| machine::apart("the server's", at(theirs), at(ours), ms);
    assert_eq!(apart(100, 101, 0).status, Level::Ok);
    assert!(apart(160, 100, 0).says.contains("60 s ahead of"));
    assert!(apart(100, 160, 0).says.contains("60 s behind"));
    assert_eq!(apart(160, 100, 90_000).status, Level::Ok, "nobody knows when it was read");
    assert_eq!(machine::jumped(at(100), at(99)).status, Level::Ok);
    assert!(machine::jumped(at(400), at(100)).says.contains("300 s behind"));
}

#[test]
fn what_a_database_is_set_to_is_judged() {
    let good = Server {
        version: "18.0".to_owned(),
        version_number: 180_000,
        fsync: true,
        full_page_writes: true,
        synchronous_commit: "on".to_owned(),
        autovacuum: true,
        connections_max: 97,
        connections: 10,
        wanted: 5,
        now: Timestamp(1_000_000),
        held_back: Vec::new(),
    };
    let worst = |server: &Server| {
        let found = database::of(server, server.now, server.now);
        let ill: Vec<(String, Level)> = found
            .into_iter()
            .filter(|finding| finding.status != Level::Ok)
            .map(|finding| (finding.check, finding.status))
            .collect();
        ill
    };
    assert_eq!(worst(&good), []);
    let changed = |change: fn(&mut Server)| {
        let mut server = good.clone();
        change(&mut server);
        worst(&server)
    };
    let is = |check: &str, level| vec![(check.to_owned(), level)];
    assert_eq!(changed(|it| it.fsync = false), is("durability", Level::Problem));
    assert_eq!(changed(|it| it.full_page_writes = false), is("durability", Level::Warn));
    let late = changed(|it| it.synchronous_commit = "off".to_owned());
    assert_eq!(late, is("durability", Level::Warn));
    assert_eq!(changed(|it| it.autovacuum = false), is("autovacuum", Level::Problem));
    assert_eq!(changed(|it| it.connections_max = 8), is("connections", Level::Problem));
    assert_eq!(changed(|it| it.connections = 95), is("connections", Level::Warn));
    assert_eq!(changed(|it| it.version_number = 140_012), is("database", Level::Problem));
    assert_eq!(changed(|it| it.held_back = vec!["session 1".into()]), is("vacuum", Level::Warn));
}

#[test]
fn an_address_is_taken_apart_without_what_may_be_secret() {
    let host = |url| answers::host_of(url);
    assert_eq!(host("https://user:pw@a.example/hook?key=1"), Some(("a.example".into(), 443)));
    assert_eq!(host("http://[::1]:8080/x"), Some(("::1".into(), 8080)));
    assert_eq!(host("http://[::1]"), Some(("::1".into(), 80)));
    assert_eq!((host("ftp://a"), host("a.example"), host("http:///x")), (None, None, None));
}
