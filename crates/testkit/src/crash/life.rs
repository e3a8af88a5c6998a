//! A life: one child from its start to its sudden death, and all that it reported.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::ack::Ack;
use super::child::{Orders, Plant};

/// What a child left.
#[derive(Debug)]
pub struct Life {
    /// Its reports, whole lines only, in order.
    pub lines: Vec<String>,
    /// It ended by itself before it was killed.
    pub ended_early: bool,
}

impl Life {
    /// The acks in the reports; an error names a line that is none.
    pub fn acks(&self) -> Result<Vec<Ack>, String> {
        let parse = |line: &String| Ack::parse(line).ok_or_else(|| format!("not a report: {line}"));
        self.lines.iter().map(parse).collect()
    }
}

/// Starts a child, lets it work for a while, stops it by `death`, and kills it.
pub fn live(
    orders: &Orders,
    lasts: Duration,
    death: impl FnOnce() -> io::Result<()>,
) -> io::Result<Life> {
    let mut child = start(orders)?;
    let out = child.stdout.take().ok_or_else(|| io::Error::other("the child has no output"))?;
    let reader = std::thread::spawn(move || whole_lines(BufReader::new(out)));
    std::thread::sleep(lasts);
    let ended_early = child.try_wait()?.is_some();
    let died = death();
    // It may be gone already: a store without a disk stops by itself.
    let _gone_is_fine = child.kill();
    child.wait()?;
    died?;
    let lines = reader.join().map_err(|_| io::Error::other("the reader panicked"))??;
    Ok(Life { lines, ended_early })
}

/// The same program again, with the hidden verb.
fn start(orders: &Orders) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("child").arg("--dir").arg(&orders.dir);
    command.args(["--life", &orders.life.to_string(), "--seed", &orders.seed.to_string()]);
    match orders.plant {
        Plant::Nothing => {}
        Plant::NoSync => drop(command.arg("--no-sync")),
        Plant::AckEarly => drop(command.arg("--ack-early")),
    }
    // What it complains of belongs to the reports: a child that loses its disk complains a lot.
    let complaints = File::options().create(true).append(true).open(&orders.complaints)?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(complaints).spawn()
}

/// Lines with their end; a line that was cut when the child died is none.
fn whole_lines(mut from: impl io::BufRead) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(lines);
        }
        match line.strip_suffix('\n') {
            Some(whole) => lines.push(whole.to_owned()),
            None => return Ok(lines),
        }
    }
}

/// The bytes of all files in a data directory.
pub fn size(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}

fn names(dir: &Path) -> impl Iterator<Item = String> {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    files.filter_map(|file| file.file_name().into_string().ok())
}

/// The name of the newest snapshot in a data directory.
pub fn newest_snapshot(dir: &Path) -> Option<String> {
    names(dir).filter(|name| name.starts_with("snapshot-")).max()
}

/// The number of the oldest segment in a data directory.
pub fn first_segment(dir: &Path) -> Option<u32> {
    let number = |name: String| name.strip_prefix("segment-")?.strip_suffix(".log")?.parse().ok();
    names(dir).filter_map(number).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_line_does_not_count() {
        let lines = whole_lines(&b"O 1\nR 2\nE - 1 c:"[..]).unwrap();
        assert_eq!(lines, ["O 1", "R 2"]);
    }
}
