//! Many at once, as workers on several machines are.

use futures_util::future::join_all;

use crate::bed::{Bed, Points, at, cases, document, everything, of_document, point};

cases![list:
    many_who_put_the_same_leave_it_once,
    whoever_removes_what_others_put_gets_in_nobodys_way,
];

/// The same two hundred points, in an order of each one's own.
fn some(from: u64) -> Points {
    let numbers = (0..200).map(|n| (n * 7 + from * 31) % 200);
    numbers.map(|n| (point(n, n % 5 + 1, 1), at(n as f64 / 3.0))).collect()
}

async fn many_who_put_the_same_leave_it_once(bed: &Bed) {
    let puts = (0..6).map(|from| async move {
        let store = bed.base.open().await.unwrap();
        for _ in 0..2 {
            store.put(&some(from)).await.unwrap();
        }
    });
    join_all(puts).await;
    assert_eq!(bed.count(&everything()).await, 200);
    assert_eq!(bed.nearest(&at(0.0), &everything(), 3).await, [0, 1, 2]);
}

async fn whoever_removes_what_others_put_gets_in_nobodys_way(bed: &Bed) {
    let puts = (0..4).map(|from| async move { bed.put(&some(from)).await });
    let removals = (1..=4).map(|of| async move {
        bed.store.remove_document(document(of)).await.unwrap();
    });
    futures_util::future::join(join_all(puts), join_all(removals)).await;
    // Whatever was removed before it was put in is there.
    assert_eq!(bed.count(&of_document(5)).await, 40);
    for of in 1..=4 {
        bed.store.remove_document(document(of)).await.unwrap();
    }
    assert_eq!(bed.count(&everything()).await, 40);
}
