//! Measuring: processor time, memory, bytes and latencies of this process, and medians of rounds.

use std::time::Duration;

use anyhow::Context as _;

use crate::random::Splitmix;

/// Microseconds of processor time that the threads of this process have used. Those that ended are
/// not counted, so ask while they live.
pub fn cpu_us() -> anyhow::Result<f64> {
    let mut total_ns = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        // A thread that ends between the listing and the look is none of ours to measure.
        let Ok(text) = std::fs::read_to_string(task?.path().join("schedstat")) else { continue };
        let ns = text.split_whitespace().next().context("an empty schedstat")?;
        total_ns += ns.parse::<u64>()?;
    }
    Ok(total_ns as f64 / 1e3)
}

/// Memory of this process that is no file's: heap, stacks, tables.
pub fn rss_anon_bytes() -> anyhow::Result<u64> {
    field("/proc/self/status", "RssAnon:").map(|kib| kib * 1024)
}

/// What the kernel says this process caused to be written. It charges a small overwrite inside a
/// large folio as the whole folio, so this is an upper bound.
pub fn kernel_written_bytes() -> anyhow::Result<u64> {
    field("/proc/self/io", "\nwrite_bytes:")
}

/// The number after a name in a file of /proc.
pub fn field(path: &str, name: &str) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(path)?;
    let value = text.split(name).nth(1).and_then(|rest| rest.split_whitespace().next());
    Ok(value.with_context(|| format!("{path} has no {name}"))?.parse()?)
}

/// Bytes that do not compress, to cut payloads from.
pub fn noise() -> Vec<u8> {
    let mut draws = Splitmix(0x77_69_6e_64_72_6f_77);
    (0..8192).flat_map(|_| draws.draw().to_le_bytes()).collect()
}

/// How long operations took.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// In tenths of a microsecond.
    ticks: Vec<u32>,
}

impl Latencies {
    pub fn add(&mut self, took: Duration) {
        self.ticks.push(u32::try_from(took.as_nanos() / 100).unwrap_or(u32::MAX));
    }

    pub fn merge(&mut self, mut others: Latencies) {
        self.ticks.append(&mut others.ticks);
    }

    pub fn is_empty(&self) -> bool {
        self.ticks.is_empty()
    }

    /// The latency in microseconds that `percent` of the operations did not exceed.
    pub fn percentile_us(&mut self, percent: f64) -> f64 {
        if self.ticks.is_empty() {
            return 0.0;
        }
        let last = self.ticks.len() - 1;
        let index = ((last as f64 * percent / 100.0).round() as usize).min(last);
        let (_, tick, _) = self.ticks.select_nth_unstable(index);
        f64::from(*tick) / 10.0
    }

    pub fn worst_us(&self) -> f64 {
        self.ticks.iter().max().map_or(0.0, |tick| f64::from(*tick) / 10.0)
    }
}

/// What one short round measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct Round {
    pub items_per_s: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub worst_us: f64,
    pub cpu_us_per_item: f64,
    /// Handed to the disk, whatever the kernel made of it.
    pub bytes_per_item: f64,
    pub kernel_bytes_per_item: f64,
}

impl Round {
    /// A round of `items` in `seconds`, with the latencies of the operation that matters.
    pub fn new(items: u64, seconds: f64, mut latencies: Latencies) -> Round {
        Round {
            items_per_s: items as f64 / seconds,
            p50_us: latencies.percentile_us(50.0),
            p99_us: latencies.percentile_us(99.0),
            worst_us: latencies.worst_us(),
            ..Round::default()
        }
    }

    /// The median of what each round did of the one that ran beside it: a slow moment of the disk
    /// meets both.
    pub fn ratio(ours: &[Round], others: &[Round]) -> f64 {
        let pairs = ours.iter().zip(others);
        median(pairs.map(|(ours, other)| ours.items_per_s / other.items_per_s))
    }

    /// The rounds as one: medians, and the worst of all.
    pub fn median(rounds: &[Round]) -> Round {
        let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure));
        Round {
            items_per_s: of(|r| r.items_per_s),
            p50_us: of(|r| r.p50_us),
            p99_us: of(|r| r.p99_us),
            worst_us: rounds.iter().map(|r| r.worst_us).fold(0.0, f64::max),
            cpu_us_per_item: of(|r| r.cpu_us_per_item),
            bytes_per_item: of(|r| r.bytes_per_item),
            kernel_bytes_per_item: of(|r| r.kernel_bytes_per_item),
        }
    }
}

/// The middle one; the mean of the two in the middle if there is none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_and_a_percentile_is_not_exceeded() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        let mut latencies = Latencies::default();
        (1..=101).for_each(|us| latencies.add(Duration::from_micros(us)));
        assert_eq!(latencies.percentile_us(50.0), 51.0);
        assert_eq!(latencies.percentile_us(99.0), 100.0);
        assert_eq!(latencies.worst_us(), 101.0);
    }

    #[test]
    fn this_process_uses_memory_and_processor_time() {
        assert!(rss_anon_bytes().unwrap() > 0);
        assert!(cpu_us().unwrap() > 0.0);
        kernel_written_bytes().unwrap();
    }
}
