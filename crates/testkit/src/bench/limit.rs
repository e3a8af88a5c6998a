//! The limit, asked for a round: the program `limit` in a process of its own.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use lexopt::prelude::*;
use serde_json::{Value, json};

use super::clients::Load;
use super::measure::{Latencies, Round};

/// The size of the store's segments, which the limit uses too.
pub const SEGMENT_BYTES: u64 = 64 << 20;

/// What the limit is asked to do.
#[derive(Clone, Debug)]
pub struct Asked {
    pub dir: PathBuf,
    pub producers: usize,
    pub workers: usize,
    pub batch: usize,
    pub seconds: f64,
}

impl Asked {
    pub fn from_words(words: impl IntoIterator<Item = String>) -> anyhow::Result<Asked> {
        let (producers, workers) = (0, 0);
        let mut asked = Asked { dir: "limit".into(), producers, workers, batch: 1, seconds: 1.0 };
        let mut words = lexopt::Parser::from_args(words);
        while let Some(word) = words.next()? {
            match word {
                Long("dir") => asked.dir = words.value()?.into(),
                Long("producers") => asked.producers = words.value()?.parse()?,
                Long("workers") => asked.workers = words.value()?.parse()?,
                Long("batch") => asked.batch = words.value()?.parse()?,
                Long("seconds") => asked.seconds = words.value()?.parse()?,
                word => return Err(word.unexpected().into()),
            }
        }
        Ok(asked)
    }

    /// Prints what was measured, as one line of JSON.
    pub fn answer(
        &self,
        items: u64,
        seconds: f64,
        cpu_us: f64,
        latencies: Latencies,
    ) -> anyhow::Result<()> {
        let round = Round::new(items, seconds, latencies);
        let answer = json!({
            "items_per_s": round.items_per_s,
            "p50_us": round.p50_us,
            "p99_us": round.p99_us,
            "worst_us": round.worst_us,
            "cpu_us_per_item": cpu_us / items.max(1) as f64,
        });
        Ok(writeln!(std::io::stdout(), "{answer}")?)
    }
}

/// The program, and where it keeps its segments.
#[derive(Clone, Debug)]
pub struct Limit {
    program: PathBuf,
    dir: PathBuf,
}

impl Limit {
    /// The limit that was built beside this program.
    pub fn beside_us(dir: &Path) -> anyhow::Result<Limit> {
        let program = std::env::current_exe()?.with_file_name("limit");
        anyhow::ensure!(
            program.exists(),
            "{} is missing; `cargo xtask bench` builds it",
            program.display()
        );
        Ok(Limit { program, dir: dir.join("limit") })
    }

    /// One round with as many clients and the same batches.
    pub fn round(&self, load: &Load, seconds: f64) -> anyhow::Result<Round> {
        let mut command = Command::new(&self.program);
        command.arg("--dir").arg(&self.dir);
        for (name, value) in [
            ("--producers", load.producers.to_string()),
            ("--workers", load.workers.to_string()),
            ("--batch", load.batch.to_string()),
            ("--seconds", seconds.to_string()),
        ] {
            command.arg(name).arg(value);
        }
        let output = command.stderr(Stdio::inherit()).output().context("cannot run the limit")?;
        anyhow::ensure!(output.status.success(), "the limit failed ({})", output.status);
        let answer: Value = serde_json::from_slice(&output.stdout)?;
        let figure = |name: &str| {
            answer[name].as_f64().with_context(|| format!("the limit did not tell {name}"))
        };
        Ok(Round {
            items_per_s: figure("items_per_s")?,
            p50_us: figure("p50_us")?,
            p99_us: figure("p99_us")?,
            worst_us: figure("worst_us")?,
            cpu_us_per_item: figure("cpu_us_per_item")?,
            ..Round::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_uses_segments_of_the_size_of_the_stores() {
        let options = windrow_store::embedded::Options::default();
        assert_eq!(u64::from(options.segment_bytes), SEGMENT_BYTES);
    }

    #[test]
    fn what_is_asked_is_read_from_words() {
        let words = ["--dir", "d", "--producers", "4", "--batch", "100", "--seconds", "0.5"];
        let asked = Asked::from_words(words.map(String::from)).unwrap();
        assert_eq!((asked.producers, asked.workers, asked.batch), (4, 0, 100));
        assert!(Asked::from_words(["--what".to_owned()]).is_err());
    }
}
