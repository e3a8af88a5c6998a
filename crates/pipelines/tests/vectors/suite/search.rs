//! The nearest are found, of what a filter admits.

use std::sync::Arc;

use rand::RngExt as _;
use windrow_pipelines::adapters::vectors::{Filter, Live};

use crate::bed::{
    Bed, Cloud, List, Points, at, cases, document, everything, live, of_collection, of_document,
    of_tenant, point, unit,
};

cases![list:
    an_empty_store_finds_nothing,
    no_more_come_than_were_asked_for,
    of_equally_near_points_the_smaller_ids_come_first,
    a_filter_admits_what_meets_all_of_it,
    only_live_generations_are_found_and_as_many_as_were_asked_for,
    whatever_is_put_in_and_removed_the_nearest_are_found,
];

async fn an_empty_store_finds_nothing(bed: &Bed) {
    assert!(bed.nearest(&at(0.0), &everything(), 9).await.is_empty());
    assert_eq!(bed.count(&everything()).await, 0);
    assert_eq!(bed.count(&live(&[(1, 1)])).await, 0);
}

async fn no_more_come_than_were_asked_for(bed: &Bed) {
    let points: Points = (0..5).map(|n| (point(n, 1, 1), at(n as f64))).collect();
    bed.put(&points).await;
    for (limit, expected) in
        [(0, &[][..]), (1, &[0]), (3, &[0, 1, 2]), (5, &[0, 1, 2, 3, 4]), (99, &[0, 1, 2, 3, 4])]
    {
        assert_eq!(bed.nearest(&at(-1.0), &everything(), limit).await, expected, "{limit}");
    }
}

async fn of_equally_near_points_the_smaller_ids_come_first(bed: &Bed) {
    for n in [7u64, 3, 9, 1, 5] {
        bed.put(&[(point(n, 1, 1), unit(&[1.0, 2.0]))]).await;
    }
    assert_eq!(bed.nearest(&unit(&[2.0, 1.0]), &everything(), 3).await, [1, 3, 5]);
}

async fn a_filter_admits_what_meets_all_of_it(bed: &Bed) {
    // Of the tenant acme are documents 0, 3 and 6; of papers 0, 2, 4 and 6.
    let points: Points =
        (0..7).map(|n| (point(n, n, n as u32 % 2 + 1), at(n as f64 * 10.0))).collect();
    bed.put(&points).await;
    let both = Filter { tenant: Some("acme".into()), ..of_collection("papers") };
    let none = Filter { tenant: Some("acme".into()), ..of_document(1) };
    let alive = [(0, 1), (1, 1), (3, 2), (6, 2), (99, 1)];
    for (filter, expected) in [
        (everything(), &[0, 1, 2, 3, 4, 5, 6][..]),
        (of_tenant("acme"), &[0, 3, 6]),
        (of_tenant("nobody"), &[]),
        (of_collection("papers"), &[0, 2, 4, 6]),
        (both.clone(), &[0, 6]),
        (of_document(3), &[3]),
        (none, &[]),
        (live(&alive), &[0, 3]),
        (Filter { live: live(&alive).live, ..both }, &[0]),
        (live(&[]), &[]),
    ] {
        assert_eq!(bed.nearest(&at(0.0), &filter, 9).await, expected, "{filter:?}");
        assert_eq!(bed.count(&filter).await, expected.len() as u64, "{filter:?}");
    }
}

/// Old generations that nobody has removed yet lie nearer than what is live.
async fn only_live_generations_are_found_and_as_many_as_were_asked_for(bed: &Bed) {
    let old = (0..300).map(|n| (point(n, n % 10, 1), at(n as f64 / 100.0)));
    let new = (300..360).map(|n| (point(n, n % 10, 2), at(n as f64 / 100.0)));
    bed.put(&old.chain(new).collect::<Points>()).await;
    let generations: Vec<(u64, u32)> = (0..10).map(|of| (of, 2)).collect();
    let expected: Vec<u128> = (300..350).collect();
    assert_eq!(bed.nearest(&at(0.0), &live(&generations), 50).await, expected);
}

async fn whatever_is_put_in_and_removed_the_nearest_are_found(bed: &Bed) {
    for (seed, dimension) in [(1, 3), (2, 16), (3, 40), (4, 384)] {
        let mut cloud = Cloud::new(seed, dimension);
        let mut list = List::default();
        for _ in 0..12 {
            match cloud.random.random_range(0..10) {
                0..6 => put_some(bed, &mut cloud, &mut list).await,
                6..8 => remove_some(bed, &mut cloud, &mut list).await,
                _ => {}
            }
            let filter = some_filter(&mut cloud);
            let limit = [1, 3, 10, 1_000][cloud.random.random_range(0..4)];
            let query = cloud.vector();
            let hits = bed.store.search(&query, &filter, limit).await.unwrap();
            list.check(&query, &filter, limit, &hits);
            assert_eq!(bed.count(&filter).await, list.admitted(&filter).count() as u64);
        }
        for of in 0..12 {
            bed.store.remove_document(document(of)).await.unwrap();
        }
        assert_eq!(bed.count(&everything()).await, 0);
    }
}

async fn put_some(bed: &Bed, cloud: &mut Cloud, list: &mut List) {
    let many = cloud.random.random_range(0..50);
    let mut one = |_| {
        // Often one that is there already, sometimes twice in one batch.
        let n = cloud.random.random_range(0..600u64);
        (point(n, n % 12, n as u32 / 12 % 3 + 1), cloud.vector())
    };
    let some: Points = (0..many).map(&mut one).collect();
    bed.put(&some).await;
    list.put(&some);
}

async fn remove_some(bed: &Bed, cloud: &mut Cloud, list: &mut List) {
    let of = cloud.random.random_range(0..12);
    let generation = cloud.random.random_range(1..4);
    bed.store.remove_generation(document(of), generation).await.unwrap();
    list.0.retain(|_, (point, _)| (point.document, point.generation) != (document(of), generation));
}

fn some_filter(cloud: &mut Cloud) -> Filter {
    let random = &mut cloud.random;
    let mut maybe = |odds| random.random_bool(odds);
    let tenant = maybe(0.3).then(|| "acme".into());
    let collection = maybe(0.3).then(|| "papers".into());
    let (has_document, has_live) = (maybe(0.2), maybe(0.4));
    let document_of = has_document.then(|| document(random.random_range(0..12)));
    let live = has_live.then(|| {
        let all = (0..12).map(|n| (document(n), random.random_range(1..4)));
        Arc::new(all.collect::<Live>())
    });
    Filter { tenant, collection, document: document_of, live }
}
