//! Codes: vectors in a quarter of their bytes, and how far a score made of them can be wrong.
//!
//! A vector becomes whole numbers of eight bits and a scale. What rounding took away is kept as a
//! length, from which follows an interval that surely holds the exact score; so whoever scans codes
//! knows which vectors have to be looked at exactly, and the result is that of looking at all.
//! Loops are written so that the compiler makes vector instructions of them.

const CODE_MAX: f32 = 127.0;

/// The codes of a row begin at multiples of this, which is also what a loop takes at once.
const CODE_LANES: usize = 32;
const LANES: usize = 16;

/// How many codes a row of this dimension takes.
pub(super) fn stride(dimension: usize) -> usize {
    dimension.next_multiple_of(CODE_LANES)
}

/// What codes are multiplied by to give back the vector, nearly, and the length of what is missing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Coded {
    pub(super) scale: f32,
    pub(super) missing: f32,
}

/// Appends the codes of a vector.
pub(super) fn encode(vector: &[f32], codes: &mut Vec<i8>) -> Coded {
    let scale = scale(vector, CODE_MAX);
    let mut missing = 0.0;
    for x in vector {
        let code = (x / scale).round().clamp(-CODE_MAX, CODE_MAX);
        let lost = f64::from(*x) - f64::from(code) * f64::from(scale);
        missing += lost * lost;
        codes.push(code as i8);
    }
    codes.resize(codes.len() + stride(vector.len()) - vector.len(), 0);
    Coded { scale, missing: missing.sqrt() as f32 }
}

fn scale(vector: &[f32], code_max: f32) -> f32 {
    let largest = vector.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
    if largest > 0.0 { largest / code_max } else { 1.0 }
}

/// A query, for scans over codes and for exact scores.
#[derive(Debug)]
pub(super) struct Query {
    exact: Vec<f32>,
    /// Of more bits than those of rows have: they cost nothing here.
    codes: Vec<i16>,
    scale: f32,
    /// By how much a score may be wrong because of what the query and the arithmetic lost.
    slack: f32,
}

/// What a row's length is at most, given that what went in is nearly of length one.
const LENGTH_MAX: f32 = 1.01;

impl Query {
    pub(super) fn new(vector: &[f32]) -> Query {
        let dimension = vector.len();
        // So that no sum of products leaves 32 bits.
        let room = i32::MAX as usize / (CODE_MAX as usize * stride(dimension));
        let code_max = room.min(i16::MAX as usize) as f32;
        let scale = scale(vector, code_max);
        let mut missing = 0.0;
        let mut codes = Vec::with_capacity(stride(dimension));
        for x in vector {
            let code = (x / scale).round().clamp(-code_max, code_max);
            let lost = f64::from(*x) - f64::from(code) * f64::from(scale);
            missing += lost * lost;
            codes.push(code as i16);
        }
        codes.resize(stride(dimension), 0);
        let rounding = dimension as f32 * f32::EPSILON;
        // The row's codes stand for something a little longer than the row.
        let slack = missing.sqrt() as f32 * (LENGTH_MAX + 0.5) + rounding;
        Query { exact: vector.to_vec(), codes, scale, slack }
    }

    pub(super) fn dimension(&self) -> usize {
        self.exact.len()
    }

    /// What the score of a row is, and by how much it may be wrong either way.
    pub(super) fn about(&self, codes: &[i8], coded: Coded) -> (f32, f32) {
        let sum = dot_codes(codes, &self.codes);
        let score = sum as f32 * (coded.scale * self.scale);
        (score, coded.missing * LENGTH_MAX + self.slack)
    }

    /// The score of a row.
    pub(super) fn exactly(&self, row: &[f32]) -> f32 {
        dot(row, &self.exact)
    }
}

fn dot_codes(row: &[i8], query: &[i16]) -> i32 {
    let mut sums = [0i32; CODE_LANES];
    for (row, query) in row.chunks_exact(CODE_LANES).zip(query.chunks_exact(CODE_LANES)) {
        for lane in 0..CODE_LANES {
            sums[lane] += i32::from(i16::from(row[lane])) * i32::from(query[lane]);
        }
    }
    sums.iter().sum()
}

fn dot(row: &[f32], query: &[f32]) -> f32 {
    let mut sums = [0f32; LANES];
    let (rows, queries) = (row.chunks_exact(LANES), query.chunks_exact(LANES));
    let rest = rows.remainder().iter().zip(queries.remainder());
    let rest: f32 = rest.map(|(row, query)| row * query).sum();
    for (row, query) in rows.zip(queries) {
        for lane in 0..LANES {
            sums[lane] += row[lane] * query[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};

    use super::*;

    fn unit(random: &mut StdRng, dimension: usize, spread: i32) -> Vec<f32> {
        // Powers make some numbers much larger than others, which is hard on codes.
        let vector: Vec<f64> =
            (0..dimension).map(|_| random.random_range(-1.0f64..1.0).powi(spread)).collect();
        let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
        vector.iter().map(|x| (x / length) as f32).collect()
    }

    #[test]
    fn the_exact_score_lies_where_the_codes_say() {
        let mut random = StdRng::seed_from_u64(7);
        let mut widest = 0.0f32;
        for dimension in [1, 2, 15, 16, 17, 100, 384, 1_000, 1_536, 4_096, 16_384] {
            for spread in [1, 3, 9] {
                for _ in 0..20 {
                    let row = unit(&mut random, dimension, spread);
                    let mut query = unit(&mut random, dimension, spread);
                    if random.random_bool(0.3) {
                        query.clone_from(&row);
                    }
                    let mut codes = Vec::new();
                    let coded = encode(&row, &mut codes);
                    let both = row.iter().zip(&query);
                    let exact: f64 = both.map(|(r, q)| f64::from(*r) * f64::from(*q)).sum();
                    let query = Query::new(&query);
                    let (score, wrong) = query.about(&codes, coded);
                    let is_inside = (f64::from(score) - exact).abs() <= f64::from(wrong);
                    assert!(is_inside, "{dimension} {spread}: {exact} {score} {wrong}");
                    let told = query.exactly(&row);
                    assert!((f64::from(told) - exact).abs() < 1e-5, "{dimension}: {exact} {told}");
                    if dimension == 384 && spread == 1 {
                        widest = widest.max(wrong);
                    }
                }
            }
        }
        // Codes that say nothing would be right always.
        assert!(widest < 0.01, "{widest}");
    }

    #[test]
    fn the_largest_codes_do_not_overflow() {
        for dimension in [384, 4_096, 16_384] {
            let x = (1.0 / dimension as f32).sqrt();
            let row = vec![x; dimension];
            let mut codes = Vec::new();
            let coded = encode(&row, &mut codes);
            assert_eq!(codes.len(), stride(dimension));
            let (score, _) = Query::new(&row).about(&codes, coded);
            assert!((score - 1.0).abs() < 0.01, "{dimension}: {score}");
        }
    }
}
