//! Points go in, once.

use windrow_pipelines::adapters::vectors::{Filter, Point};

use crate::bed::{
    Bed, Cloud, List, Points, at, cases, everything, is_bad, of_collection, of_tenant, point, unit,
};

cases![list:
    what_is_put_in_is_found_with_its_place,
    a_point_that_comes_again_is_replaced_and_counted_once,
    of_two_with_one_id_the_last_stays,
    a_bad_vector_changes_nothing,
    many_go_in_at_once,
    names_may_be_anything,
    another_server_sees_the_same,
];

async fn what_is_put_in_is_found_with_its_place(bed: &Bed) {
    bed.put(&[]).await;
    let points = [(point(1, 3, 2), at(0.0)), (point(2, 4, 1), at(60.0))];
    bed.put(&points).await;
    let hits = bed.store.search(&at(10.0), &everything(), 9).await.unwrap();
    let found: Vec<&Point> = hits.iter().map(|hit| &hit.point).collect();
    assert_eq!(found, [&points[0].0, &points[1].0]);
    for (hit, degrees) in hits.iter().zip([10.0_f64, 50.0]) {
        let expected = degrees.to_radians().cos();
        assert!((f64::from(hit.score) - expected).abs() < 1e-5, "{} {expected}", hit.score);
    }
    assert_eq!(bed.count(&everything()).await, 2);
}

async fn a_point_that_comes_again_is_replaced_and_counted_once(bed: &Bed) {
    let first = (point(1, 3, 1), at(0.0));
    bed.put(std::slice::from_ref(&first)).await;
    bed.put(std::slice::from_ref(&first)).await;
    assert_eq!(bed.count(&everything()).await, 1);
    // Another place, another owner, another vector.
    let moved = (Point { page: 9, ..point(1, 4, 2) }, at(90.0));
    bed.put(std::slice::from_ref(&moved)).await;
    let hits = bed.store.search(&at(90.0), &everything(), 9).await.unwrap();
    assert_eq!(hits.iter().map(|hit| &hit.point).collect::<Vec<_>>(), [&moved.0]);
    assert!((hits[0].score - 1.0).abs() < 1e-5, "{}", hits[0].score);
    assert_eq!(bed.count(&of_tenant("acme")).await, 0);
}

async fn of_two_with_one_id_the_last_stays(bed: &Bed) {
    let twice = [(point(1, 3, 1), at(0.0)), (point(2, 3, 1), at(5.0)), (point(1, 3, 2), at(80.0))];
    bed.put(&twice).await;
    assert_eq!(bed.count(&everything()).await, 2);
    let hits = bed.store.search(&at(80.0), &everything(), 1).await.unwrap();
    assert_eq!((&hits[0].point, hits[0].score > 0.999), (&twice[2].0, true));
}

async fn a_bad_vector_changes_nothing(bed: &Bed) {
    let good = (point(1, 1, 1), vec![1.0, 0.0]);
    for (bad, part) in
        [(vec![], "at least one"), (vec![f32::NAN, 1.0], "not NaN"), (vec![3.0, 4.0], "not 5")]
    {
        let points = [good.clone(), (point(2, 1, 1), bad.clone())];
        is_bad(bed.store.put(&points).await, part);
        is_bad(bed.store.search(&bad, &everything(), 1).await, part);
    }
    assert_eq!(bed.count(&everything()).await, 0);
}

/// More than one statement or request of any store, and more numbers than pgvector indexes.
async fn many_go_in_at_once(bed: &Bed) {
    let mut cloud = Cloud::new(3, 2_500);
    let points: Points = (0..450).map(|n| (point(n, n / 50, 1), cloud.vector())).collect();
    bed.put(&points).await;
    assert_eq!(bed.count(&everything()).await, 450);
    let mut list = List::default();
    list.put(&points);
    let query = cloud.vector();
    let hits = bed.store.search(&query, &everything(), 60).await.unwrap();
    list.check(&query, &everything(), 60, &hits);
}

async fn names_may_be_anything(bed: &Bed) {
    let names = ["", "a b", "O'Brien; --", "\"q\" \\ %_", "größe ☂", "null", "{}[]:,"];
    let odd = |n: usize, name: &str| Point {
        tenant: name.into(),
        collection: format!("{name}!").into(),
        ..point(n as u64, n as u64, 1)
    };
    let points: Points =
        names.iter().enumerate().map(|(n, name)| (odd(n, name), unit(&[1.0, 2.0]))).collect();
    bed.put(&points).await;
    for (n, name) in names.iter().enumerate() {
        let filter = Filter { collection: Some(format!("{name}!").into()), ..of_tenant(name) };
        let hits = bed.store.search(&unit(&[1.0, 2.0]), &filter, 9).await.unwrap();
        let found: Vec<&Point> = hits.iter().map(|hit| &hit.point).collect();
        assert_eq!(found, [&points[n].0], "{name:?}");
        assert_eq!(bed.count(&of_collection(&format!("{name}!"))).await, 1);
    }
}

async fn another_server_sees_the_same(bed: &Bed) {
    bed.put(&[(point(1, 3, 1), at(0.0))]).await;
    let other = Bed { store: bed.base.open().await.unwrap(), base: bed.base.clone() };
    assert_eq!(other.nearest(&at(1.0), &everything(), 9).await, [1]);
    other.put(&[(point(2, 3, 1), at(2.0))]).await;
    assert_eq!(bed.nearest(&at(3.0), &everything(), 9).await, [2, 1]);
}
