//! The plain calls, as the clients of seed 002 rely on them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::bed::{Data, Polled, Server, connect, run};
use crate::seed_capnp::seed_queue;

const NOTHING: Polled = Polled { lease: Vec::new(), items: Vec::new() };

#[test]
fn what_is_added_is_polled_and_removed_for_good() {
    let data = Data::new("life");
    let server = Server::start(&data.0);
    run(async {
        let client = server.client().await;
        let ids = client.adds(&[(b"one", 0), (b"\0\xff two", 0), (b"", 0)]).await.unwrap();
        assert!(ids.len() == 3 && ids.iter().all(|id| id.len() == 16), "{ids:?}");
        let polled = client.polls(60, 10, 0).await.unwrap();
        assert_eq!(polled.lease.len(), 16);
        let want: Vec<(Vec<u8>, Vec<u8>)> =
            [b"one".to_vec(), b"\0\xff two".to_vec(), vec![]].into_iter().zip(ids).collect();
        assert_eq!(polled.items, want);
        for (_, id) in &polled.items {
            assert!(client.removes(id, &polled.lease).await.unwrap());
            assert!(!client.removes(id, &polled.lease).await.unwrap(), "it is gone");
        }
        assert!(!client.extends(&polled.lease, 60).await.unwrap(), "the lease holds nothing");
    });
    let stats = server.stats();
    for status in ["pending", "processing", "completed", "failed", "cancelled", "skipped"] {
        assert_eq!(stats[status], 0, "nothing is kept: {stats}");
    }
}

#[test]
fn what_is_wrong_is_an_error_and_changes_nothing() {
    let data = Data::new("wrong");
    let server = Server::start(&data.0);
    run(async {
        let client = server.client().await;
        client.adds(&[(b"x", 0), (b"y", 0)]).await.unwrap();
        let said = |error: capnp::Error| error.to_string();
        let error = said(client.polls(0, 1, 1).await.unwrap_err());
        assert!(error.contains("invalid: leaseValiditySecs: must not be 0"), "{error}");
        let polled = client.polls(60, 0, 1).await.unwrap();
        assert_eq!(polled.items.len(), 1, "0 means 1");
        let id = &polled.items[0].1;
        for lease in [&b""[..], &polled.lease[..15], &[7; 17]] {
            let error = said(client.removes(id, lease).await.unwrap_err());
            assert!(error.contains("lease: has ") && error.contains("and not 16"), "{error}");
            said(client.extends(lease, 60).await.unwrap_err());
        }
        said(client.extends(&polled.lease, 0).await.unwrap_err());
        let large = vec![b'x'; 16 * 1024 + 1];
        let error = said(client.adds(&[(b"z", 0), (&large, 0)]).await.unwrap_err());
        assert!(error.contains("nothing was added"), "{error}");
        assert!(client.removes(id, &polled.lease).await.unwrap(), "it is still held");
    });
    let stats = server.stats();
    assert_eq!((&stats["pending"], &stats["processing"]), (&1.into(), &0.into()), "{stats}");
}

#[test]
fn a_lease_that_is_wrong_unknown_or_over_is_false() {
    let data = Data::new("lease");
    let server = Server::start(&data.0);
    run(async {
        let client = server.client().await;
        client.adds(&[(b"a", 0), (b"b", 0)]).await.unwrap();
        let first = client.polls(60, 1, 0).await.unwrap();
        let second = client.polls(1, 1, 0).await.unwrap();
        let (a, b) = (&first.items[0].1, &second.items[0].1);
        assert!(!client.removes(a, &second.lease).await.unwrap(), "another's lease");
        assert!(!client.removes(a, &[7; 16]).await.unwrap(), "an unknown lease");
        assert!(!client.removes(&[7; 16], &first.lease).await.unwrap(), "an unknown item");
        assert!(!client.removes(b"short", &first.lease).await.unwrap(), "no item's id");
        assert!(!client.extends(&[7; 16], 60).await.unwrap());
        // The second lease ends after a second, and then its item comes to whoever waits.
        let again = client.polls(60, 10, 0).await.unwrap();
        assert_eq!(again.items, [(b"b".to_vec(), b.clone())]);
        assert!(!client.removes(b, &second.lease).await.unwrap(), "an expired lease");
        assert!(!client.extends(&second.lease, 60).await.unwrap(), "an expired lease");
        assert!(client.removes(b, &again.lease).await.unwrap());
        assert!(client.removes(a, &first.lease).await.unwrap());
    });
}

#[test]
fn extending_keeps_the_whole_lease() {
    let data = Data::new("extend");
    let server = Server::start(&data.0);
    run(async {
        let client = server.client().await;
        client.adds(&[(b"a", 0), (b"b", 0)]).await.unwrap();
        let polled = client.polls(1, 2, 0).await.unwrap();
        assert_eq!(polled.items.len(), 2);
        assert!(client.extends(&polled.lease, 60).await.unwrap());
        assert_eq!(client.polls(60, 2, 2).await.unwrap(), NOTHING, "nothing came back");
        for (_, id) in &polled.items {
            assert!(client.removes(id, &polled.lease).await.unwrap());
        }
    });
}

#[test]
fn a_poll_waits_for_what_becomes_visible_and_no_longer_than_it_may() {
    let data = Data::new("waits");
    let server = Server::start(&data.0);
    run(async {
        let client = server.client().await;
        let begun = Instant::now();
        assert_eq!(client.polls(60, 1, 1).await.unwrap(), NOTHING);
        assert!(begun.elapsed() >= Duration::from_millis(990), "{:?}", begun.elapsed());

        let begun = Instant::now();
        let waiting = client.polls(60, 1, 0);
        let adding = async {
            server.until_waiting(1).await;
            client.adds(&[(b"later", 1)]).await.unwrap();
        };
        let (polled, ()) = tokio::join!(waiting, adding);
        assert_eq!(polled.unwrap().items[0].0, b"later");
        assert!(begun.elapsed() >= Duration::from_millis(990), "not before it is visible");

        let waiting = client.polls(60, 1, 0);
        let adding = async {
            server.until_waiting(1).await;
            client.adds(&[(b"now", 0)]).await.unwrap();
        };
        let (polled, ()) = tokio::join!(waiting, adding);
        assert_eq!(polled.unwrap().items[0].0, b"now");
    });
}

#[test]
fn two_thousand_polls_of_one_connection_wait_and_each_gets_its_item() {
    let data = Data::new("many");
    let server = Server::start(&data.0);
    run(async {
        let (client, other) = (server.client().await, server.client().await);
        let polls: Vec<_> = (0..2_000)
            .map(|_| {
                let client = client.clone();
                tokio::task::spawn_local(async move { client.polls(60, 1, 0).await.unwrap() })
            })
            .collect();
        server.until_waiting(2_000).await;
        // Others are served meanwhile, with more than fits one command.
        let items: Vec<(&[u8], u64)> = vec![(b"x", 0); 2_000];
        let added: BTreeSet<Vec<u8>> = other.adds(&items).await.unwrap().into_iter().collect();
        let mut got = BTreeSet::new();
        for poll in polls {
            let polled = poll.await.unwrap();
            assert_eq!(polled.items.len(), 1);
            assert!(got.insert(polled.items[0].1.clone()), "nobody shares an item");
        }
        assert_eq!(got, added);
    });
}

#[test]
fn a_poll_whose_connection_ends_takes_nothing() {
    let data = Data::new("gone");
    let server = Server::start(&data.0);
    run(async {
        let (client, connection) = connect::<seed_queue::Client>(&server.rpc).await;
        for _ in 0..20 {
            let client = client.clone();
            tokio::task::spawn_local(async move { client.polls(60, 1, 0).await });
        }
        let other = server.client().await;
        server.until_waiting(20).await;
        connection.abort();
        drop(client);
        server.until_waiting(0).await;
        let ids = other.adds(&[(b"x", 0)]).await.unwrap();
        assert_eq!(other.polls(60, 1, 5).await.unwrap().items, [(b"x".to_vec(), ids[0].clone())]);
    });
}

#[test]
fn what_was_added_is_there_after_a_kill() {
    let data = Data::new("kill");
    let server = Server::start(&data.0);
    run(async {
        let client = server.client().await;
        client.adds(&[(b"kept", 0), (b"held", 0)]).await.unwrap();
        assert_eq!(client.polls(1, 1, 0).await.unwrap().items[0].0, b"kept");
    });
    server.signal("-KILL");
    drop(server);
    let server = Server::start(&data.0);
    run(async {
        let client = server.client().await;
        let mut got = BTreeSet::new();
        while got.len() < 2 {
            let polled = client.polls(3_600, 10, 0).await.unwrap();
            got.extend(polled.items.into_iter().map(|(contents, _)| contents));
        }
        assert_eq!(got, BTreeSet::from([b"kept".to_vec(), b"held".to_vec()]));
    });
}
