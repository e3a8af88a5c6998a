//! Vectors of different embedders are not mixed.

use futures_util::future::join_all;
use windrow_pipelines::adapters::vectors::VectorsError;

use crate::bed::{Bed, Points, cases, document, everything, of_collection, of_tenant, point};

cases![list:
    a_collection_has_one_dimension_until_it_is_empty,
    a_put_that_does_not_fit_changes_nothing,
    only_what_a_query_is_compared_with_has_to_fit,
];

cases![transactional: of_two_dimensions_that_come_at_once_one_stays];

fn misfit(holds: usize, given: usize) -> VectorsError {
    let (tenant, collection) = ("other".to_owned(), "papers".to_owned());
    VectorsError::Dimension { tenant, collection, holds, given }
}

/// The direction of the last axis.
fn axis(dimension: usize) -> Vec<f32> {
    let mut vector = vec![0.0; dimension];
    vector[dimension - 1] = 1.0;
    vector
}

async fn a_collection_has_one_dimension_until_it_is_empty(bed: &Bed) {
    bed.put(&[(point(1, 2, 1), axis(2)), (point(2, 4, 1), axis(2))]).await;
    let other = [(point(3, 8, 1), axis(3))];
    assert_eq!(bed.store.put(&other).await, Err(misfit(2, 3)));
    bed.store.remove_generation(document(2), 1).await.unwrap();
    assert_eq!(bed.store.put(&other).await, Err(misfit(2, 3)), "one is left");
    bed.store.remove_generation(document(4), 1).await.unwrap();
    bed.put(&other).await;
    assert_eq!(bed.nearest(&axis(3), &everything(), 9).await, [3]);
    assert_eq!(bed.store.put(&[(point(1, 2, 1), axis(2))]).await, Err(misfit(3, 2)));
    let said = misfit(3, 2).to_string();
    for part in ["\"papers\"", "\"other\"", "3 dimensions", "has 2"] {
        assert!(said.contains(part), "{said}");
    }
}

async fn a_put_that_does_not_fit_changes_nothing(bed: &Bed) {
    // Both are of papers of the tenant other.
    let mixed = [(point(1, 2, 1), axis(2)), (point(2, 4, 1), axis(3))];
    assert_eq!(bed.store.put(&mixed).await, Err(misfit(2, 3)));
    assert_eq!(bed.count(&everything()).await, 0);
    bed.put(&mixed[..1]).await;
    // The first of these would fit, into notes.
    let some = [(point(5, 5, 1), axis(3)), (point(2, 4, 1), axis(3))];
    assert_eq!(bed.store.put(&some).await, Err(misfit(2, 3)));
    assert_eq!(bed.count(&everything()).await, 1);
    assert_eq!(bed.count(&of_collection("notes")).await, 0);
}

async fn only_what_a_query_is_compared_with_has_to_fit(bed: &Bed) {
    bed.put(&[(point(1, 2, 1), axis(2)), (point(5, 5, 1), axis(3)), (point(3, 3, 1), axis(3))])
        .await;
    let search = |filter, dimension| async move {
        bed.store.search(&axis(dimension), &filter, 9).await.map(|hits| hits.len())
    };
    assert_eq!(search(everything(), 3).await, Err(misfit(2, 3)));
    assert_eq!(search(of_tenant("other"), 3).await, Err(misfit(2, 3)));
    assert_eq!(search(of_collection("notes"), 3).await, Ok(2));
    assert_eq!(search(of_tenant("acme"), 3).await, Ok(1));
    assert_eq!(search(of_collection("papers"), 2).await, Ok(1));
    assert_eq!(search(of_collection("papers"), 4).await, Err(misfit(2, 4)));
    assert_eq!(search(of_tenant("nobody"), 4).await, Ok(0));
    assert_eq!(bed.count(&everything()).await, 3);
}

async fn of_two_dimensions_that_come_at_once_one_stays(bed: &Bed) {
    for round in 0..8 {
        let puts = (0..6u64).map(|n| async move {
            let store = bed.base.open().await.unwrap();
            let dimension = 2 + n as usize % 2;
            let points: Points = vec![(point(n, 2, 1), axis(dimension))];
            (dimension, store.put(&points).await)
        });
        let ended = join_all(puts).await;
        let mut stayed: Vec<usize> =
            ended.iter().filter(|(_, put)| put.is_ok()).map(|(dimension, _)| *dimension).collect();
        assert_eq!(stayed.len(), 3, "{round}: {ended:?}");
        stayed.dedup();
        let [holds] = stayed[..] else { panic!("{round}: {ended:?}") };
        for (dimension, put) in &ended {
            assert!(put.is_ok() || *put == Err(misfit(holds, *dimension)), "{round}: {put:?}");
        }
        assert_eq!(bed.count(&everything()).await, 3);
        bed.store.remove_document(document(2)).await.unwrap();
    }
}
