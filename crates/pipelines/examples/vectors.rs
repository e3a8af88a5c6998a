//! Prints how fast the built-in embedder and the built-in index are on this machine.
//!
//! `cargo run --release -p windrow-pipelines --example vectors [CHUNKS]`

#![expect(clippy::print_stdout, reason = "it prints figures")]

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use uuid::Uuid;
use windrow_pipelines::adapters::embed::hashed;
use windrow_pipelines::adapters::vectors::built_in::{BuiltIn, Row};
use windrow_pipelines::adapters::vectors::{Filter, Point, Vectors as _};

const CHUNK_LETTERS: usize = 1_500;
const CHUNKS_PER_DOCUMENT: usize = 40;
const SEARCHES: usize = 500;
const LIMIT: usize = 50;

fn main() {
    let said = std::env::args().nth(1);
    let chunks: usize = said.map_or(100_000, |said| said.parse().expect("how many chunks"));
    let mut words = Words { random: 7 };

    let texts: Vec<String> = (0..2_000).map(|_| words.text(CHUNK_LETTERS)).collect();
    let begun = Instant::now();
    let made = texts.iter().filter(|text| hashed::vector(text).is_ok()).count();
    let seconds = begun.elapsed().as_secs_f64();
    println!("embedding, one core: {:.0} chunks of {CHUNK_LETTERS}/s", made as f64 / seconds);

    let vector = |text: &str| hashed::vector(text).expect("words");
    let mut row = |nth: usize| {
        let vector = vector(&words.text(400));
        Row { sequence: nth as u64, point: point(nth), vector }
    };
    let rows: Vec<Row> = (1..=chunks).map(&mut row).collect();
    let plain: Vec<f32> = rows.iter().flat_map(|row| row.vector.clone()).collect();
    let index = BuiltIn::default();
    let begun = Instant::now();
    assert_eq!(index.feed(rows), 0, "good rows");
    println!("taking in {chunks}: {:.0} ms", ms(begun.elapsed()));

    let begun = Instant::now();
    let more: Vec<(Point, Vec<f32>)> =
        (chunks + 1..=chunks + 2_000).map(|nth| (point(nth), vector("one more of them"))).collect();
    for one in &more {
        now(index.put(std::slice::from_ref(one))).expect("a good point");
    }
    println!("2000 more, one by one: {:.0} ms", ms(begun.elapsed()));

    let all = Filter::default();
    let documents = chunks / CHUNKS_PER_DOCUMENT + 60;
    let live: HashSet<_> = (0..documents).map(document).map(|document| (document, 1)).collect();
    let live = Filter { live: Some(Arc::new(live)), ..Filter::default() };
    let tenth = Filter { collection: Some("3".into()), ..Filter::default() };
    let one = Filter { document: Some(document(5)), ..Filter::default() };
    let mut words = Words { random: 8 };
    for (name, filter) in
        [("all", &all), ("all, live", &live), ("a tenth", &tenth), ("one document", &one)]
    {
        figures(name, || {
            let query = vector(&words.text(60));
            let begun = Instant::now();
            let hits = now(index.search(&query, filter, LIMIT)).expect("a good query");
            assert!(!hits.is_empty());
            begun.elapsed()
        });
    }
    figures("all, f32 on one core, for comparison", || {
        let query = vector(&words.text(60));
        let begun = Instant::now();
        let mut scores: Vec<(f32, usize)> = plain
            .chunks_exact(hashed::DIMENSION)
            .enumerate()
            .map(|(nth, row)| (dot(row, &query), nth))
            .collect();
        let nth = LIMIT.min(chunks - 1);
        scores.select_nth_unstable_by(nth, |one, other| other.0.total_cmp(&one.0));
        begun.elapsed()
    });
}

/// The end of a future that never waits outside of a runtime.
fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("it does not wait")
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

fn figures(name: &str, mut search: impl FnMut() -> Duration) {
    let mut times: Vec<Duration> = (0..SEARCHES).map(|_| search()).collect();
    times.sort_unstable();
    let at = |part: f64| ms(times[((SEARCHES - 1) as f64 * part) as usize]);
    println!("search {name}: p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms", at(0.5), at(0.99), at(1.0));
}

fn dot(row: &[f32], query: &[f32]) -> f32 {
    let mut sums = [0f32; 16];
    for (row, query) in row.chunks_exact(16).zip(query.chunks_exact(16)) {
        for lane in 0..16 {
            sums[lane] += row[lane] * query[lane];
        }
    }
    sums.iter().sum()
}

fn document(nth: usize) -> Uuid {
    Uuid::from_u128(nth as u128 + 1)
}

fn point(nth: usize) -> Point {
    let document_nth = nth / CHUNKS_PER_DOCUMENT;
    Point {
        id: (nth as u128).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835).to_be_bytes(),
        document: document(document_nth),
        generation: 1,
        page: (nth % CHUNKS_PER_DOCUMENT / 4) as u32 + 1,
        tenant: "acme".into(),
        collection: (document_nth % 10).to_string().into(),
    }
}

/// Texts of words that were never written: some often, most seldom, as in real ones.
struct Words {
    random: u64,
}

impl Words {
    fn next(&mut self) -> u64 {
        self.random =
            self.random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767);
        self.random >> 33
    }

    fn text(&mut self, letters: usize) -> String {
        const SYLLABLES: [&str; 16] = [
            "ba", "ren", "tor", "mi", "sal", "ko", "und", "pre", "lin", "gus", "wa", "fel", "ni",
            "dor", "che", "is",
        ];
        let mut text = String::with_capacity(letters + 16);
        while text.len() < letters {
            let range = 1 << (self.next() % 15);
            let mut word = self.next() % range;
            loop {
                text.push_str(SYLLABLES[(word % 16) as usize]);
                word /= 16;
                if word == 0 {
                    break;
                }
            }
            text.push(' ');
        }
        text
    }
}
