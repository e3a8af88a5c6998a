//! The memo: what is paid for once.

use windrow_core::Timestamp;
use windrow_pipelines::catalog::{BATCH_MAX, MemoKey, MemoOf, MemoStats};

use crate::bed::{Bed, cases, is_bad};

fn memo_key(n: u8) -> MemoKey {
    MemoKey::of(&[n; 32], "ocr", "tesseract", "5.3", "eng")
}

const HOUR: u64 = 60 * 60 * 1_000;

cases![
    what_was_put_is_found_and_stays_what_it_is,
    hits_and_misses_are_counted_by_phase,
    what_nobody_uses_is_swept_and_what_is_used_stays,
    what_is_too_much_is_refused
];

async fn what_was_put_is_found_and_stays_what_it_is(bed: &Bed) {
    let (of, now) = (MemoOf::new("t", "ocr"), Timestamp(1_000));
    let keys: Vec<MemoKey> = (0..4).map(memo_key).collect();
    let none = bed.catalog.memo_get(&of, keys.clone(), now).await.unwrap();
    assert_eq!(none, [const { None }; 4]);
    let two = vec![(keys[0], b"zero".to_vec()), (keys[2], Vec::new()), (keys[0], b"x".to_vec())];
    bed.catalog.memo_put(&of, two, now).await.unwrap();
    let other = vec![(keys[0], b"other".to_vec())];
    bed.catalog.memo_put(&of, other, now).await.unwrap();
    let found = bed.catalog.memo_get(&of, keys.clone(), now).await.unwrap();
    assert_eq!(found, [Some(b"zero".to_vec()), None, Some(Vec::new()), None]);
    assert!(bed.catalog.memo_get(&of, Vec::new(), now).await.unwrap().is_empty());
    let phase = MemoOf::new("t", "graph");
    assert_eq!(bed.catalog.memo_get(&phase, vec![keys[0]], now).await.unwrap(), [None]);
}

async fn hits_and_misses_are_counted_by_phase(bed: &Bed) {
    let (ocr, graph, now) = (MemoOf::new("t", "ocr"), MemoOf::new("t", "graph"), Timestamp(1_000));
    bed.catalog.memo_put(&ocr, vec![(memo_key(1), vec![7; 10])], now).await.unwrap();
    for n in [1, 1, 1, 2] {
        bed.catalog.memo_get(&ocr, vec![memo_key(n)], now).await.unwrap();
    }
    bed.catalog.memo_get(&graph, vec![memo_key(3), memo_key(4)], now).await.unwrap();
    let stats = bed.catalog.memo_stats("t").await.unwrap();
    let line = |phase: &str, entries, bytes, hits, misses| MemoStats {
        phase: phase.into(),
        entries,
        bytes,
        hits,
        misses,
    };
    assert_eq!(stats, [line("graph", 0, 0, 0, 2), line("ocr", 1, 10, 3, 1)]);
    assert!(bed.catalog.memo_stats("other").await.unwrap().is_empty());
}

async fn what_nobody_uses_is_swept_and_what_is_used_stays(bed: &Bed) {
    let of = MemoOf::new("t", "ocr");
    let put = (0..10).map(|n| (memo_key(n), vec![n])).collect();
    bed.catalog.memo_put(&of, put, Timestamp(HOUR)).await.unwrap();
    // Used once more, long after.
    let later = Timestamp(100 * HOUR);
    bed.catalog.memo_get(&of, vec![memo_key(3), memo_key(99)], later).await.unwrap();
    bed.catalog.memo_stats("t").await.unwrap();
    assert_eq!(bed.catalog.sweep_memos(Timestamp(HOUR), 100).await, Ok(0));
    assert_eq!(bed.catalog.sweep_memos(Timestamp(50 * HOUR), 4).await, Ok(4), "so many at most");
    assert_eq!(bed.catalog.sweep_memos(Timestamp(50 * HOUR), 100).await, Ok(5));
    let found = bed.catalog.memo_get(&of, (0..10).map(memo_key).collect(), later).await.unwrap();
    let left: Vec<Vec<u8>> = found.into_iter().flatten().collect();
    assert_eq!(left, [[3]]);
}

async fn what_is_too_much_is_refused(bed: &Bed) {
    let (of, now) = (MemoOf::new("t", "ocr"), Timestamp(1));
    is_bad(bed.catalog.memo_get(&of, vec![memo_key(1); BATCH_MAX + 1], now).await, "at most");
    let huge = vec![(memo_key(1), vec![0; 65 << 20])];
    is_bad(bed.catalog.memo_put(&of, huge, now).await, "at most");
    is_bad(bed.catalog.memo_put(&MemoOf::new("", "ocr"), Vec::new(), now).await, "empty");
}
