//! Points go, by whatever they belong to.

use crate::bed::{Bed, Points, at, cases, document, everything, id, of_document, point};

cases![list:
    a_generation_goes_and_the_others_stay,
    a_document_goes_with_all_its_generations,
    chunks_go_one_by_one,
    what_is_not_there_is_removed_without_an_error,
    what_was_removed_may_come_again,
];

/// Twelve points: three generations of the documents 1 to 4.
async fn twelve(bed: &Bed) {
    let points: Points =
        (0..12).map(|n| (point(n, n % 4 + 1, n as u32 / 4 + 1), at(n as f64))).collect();
    bed.put(&points).await;
}

async fn a_generation_goes_and_the_others_stay(bed: &Bed) {
    twelve(bed).await;
    for _ in 0..2 {
        bed.store.remove_generation(document(2), 1).await.unwrap();
        assert_eq!(bed.nearest(&at(0.0), &of_document(2), 9).await, [5, 9]);
        assert_eq!(bed.count(&everything()).await, 11);
    }
}

async fn a_document_goes_with_all_its_generations(bed: &Bed) {
    twelve(bed).await;
    for _ in 0..2 {
        bed.store.remove_document(document(3)).await.unwrap();
        assert_eq!(bed.count(&of_document(3)).await, 0);
        assert_eq!(bed.nearest(&at(0.0), &everything(), 4).await, [0, 1, 3, 4]);
        assert_eq!(bed.count(&everything()).await, 9);
    }
}

async fn chunks_go_one_by_one(bed: &Bed) {
    twelve(bed).await;
    for _ in 0..2 {
        bed.store.remove_chunks(&[id(0), id(2), id(99), id(2)]).await.unwrap();
        assert_eq!(bed.nearest(&at(0.0), &everything(), 3).await, [1, 3, 4]);
        assert_eq!(bed.count(&everything()).await, 10);
    }
    bed.store.remove_chunks(&[]).await.unwrap();
    assert_eq!(bed.count(&everything()).await, 10);
}

async fn what_is_not_there_is_removed_without_an_error(bed: &Bed) {
    for _ in 0..2 {
        bed.store.remove_generation(document(1), 1).await.unwrap();
        bed.store.remove_document(document(1)).await.unwrap();
        bed.store.remove_chunks(&[id(1)]).await.unwrap();
        bed.put(&[(point(7, 7, 7), at(0.0))]).await;
    }
    assert_eq!(bed.count(&everything()).await, 1);
}

async fn what_was_removed_may_come_again(bed: &Bed) {
    twelve(bed).await;
    for of in 1..=4 {
        bed.store.remove_document(document(of)).await.unwrap();
    }
    assert_eq!(bed.count(&everything()).await, 0);
    twelve(bed).await;
    assert_eq!(bed.nearest(&at(0.0), &everything(), 2).await, [0, 1]);
    assert_eq!(bed.count(&everything()).await, 12);
}
