//! `bench documents`: what the pipeline adds to the tools it runs, and how far it goes.
//!
//! `tools.rs` is the measure of pages: the same programs in a shell loop. `texts.rs` makes the
//! texts of the other parts, and `server.rs` is how the real server is asked.

mod server;
mod texts;
mod tools;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::asked::{Asked, Words};
use super::machine;
use super::measure::{Latencies, median};
use super::report::{Bar, Row, Want, check, tell};
use crate::servers::windrow::{On, Windrow};
use server::Server;
pub(super) use texts::pages as text_of_pages;

pub const HELP: &str = "\
bench documents [--json] [--quick] [--only PARTS]
  Measures documents on a running server, as users have it: the built-in embedder, the plain
  extractor, every answer synced. pages: scanned and born-digital PDFs end to end, from the upload
  until they are found, in turns with the bare tools in a shell loop on the same files and as many
  at once as there are cores; the overhead is the median of the rounds. chunks: texts of 100,000
  chunks, from the first upload until all are embedded, linked and found. search: questions of two
  to five words over those, by words and vectors at once. trees: 10,000 pages as one document beside
  as many in documents of ten. Fails if a bar is not met. Run it at the root of the repository.

  --only PARTS  some of these, with commas between them: pages chunks search trees
                (search needs chunks)
  --quick       a tenth of it; indicates, proves nothing
  --json        the machine, all rows and all checks as one JSON object
";

const PARTS: [&str; 4] = ["pages", "chunks", "search", "trees"];

const BARS: [Bar; 4] = [
    most("overhead over the bare tools", "pages", "overhead", 0.10),
    most("100,000 chunks embedded and searchable, s", "chunks", "seconds", 60.0),
    most("hybrid search over them, p99 us", "search", "p99_us", 50_000.0),
    most("a page of 10,000 beside one of ten, times its cost", "trees", "ratio", 1.3),
];

const fn most(name: &'static str, row: &'static str, figure: &'static str, most: f64) -> Bar {
    Bar { name, row, figure, want: Want::AtMost(most) }
}

/// Chunks and pages of the large parts, and questions that are asked.
const CHUNKS: usize = 100_000;
const PAGES: usize = 10_000;
const QUESTIONS: usize = 400;

/// What is measured with.
struct Ground {
    program: PathBuf,
    asked: Asked,
}

impl Ground {
    /// A number, or a tenth of it if somebody is in a hurry.
    fn many(&self, many: usize) -> usize {
        if self.asked.quick { many / 10 } else { many }
    }

    fn server(&self) -> anyhow::Result<(Windrow, Server)> {
        let windrow = Windrow::start(&self.program, On::Directory)?;
        let server = Server::at(&windrow.url())?;
        Ok((windrow, server))
    }
}

/// Runs the bench; false if a bar was missed.
pub fn run(words: Vec<OsString>) -> anyhow::Result<bool> {
    let bench = Words { help: HELP, part: "part", parts: PARTS.to_vec() };
    let Some(asked) = bench.read(words, |_, _| Ok(false))? else {
        write!(std::io::stdout(), "{HELP}")?;
        return Ok(true);
    };
    let machine = machine::describe(&std::env::temp_dir())?;
    eprintln!("{machine}");
    let program = std::env::current_exe()?.with_file_name("windrow");
    anyhow::ensure!(program.is_file(), "{} is missing; build it first", program.display());
    let ground = Ground { program, asked };
    let mut rows = Vec::new();
    if ground.asked.wants("pages") {
        rows.push(pages(&ground).context("pages")?);
    }
    if ground.asked.wants("chunks") || ground.asked.wants("search") {
        rows.extend(chunks(&ground).context("chunks")?);
    }
    if ground.asked.wants("trees") {
        rows.push(trees(&ground).context("trees")?);
    }
    let asked = &ground.asked;
    let checks = check(&BARS, &rows, asked.only.is_none());
    tell(asked.json, asked.quick, &machine, &rows, &checks)?;
    Ok(checks.iter().all(|check| check.ok))
}

/// Pages end to end, in turns with the bare tools.
fn pages(ground: &Ground) -> anyhow::Result<Row> {
    let (rounds, copies) = if ground.asked.quick { (1, 2) } else { (3, 8) };
    let (_windrow, server) = ground.server()?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    let mut pages = 0;
    for round in 0..rounds {
        let files = tools::Files::make(&PathBuf::from("examples/inbox"), copies, round)?;
        let began = Instant::now();
        for file in files.all() {
            server.add(file)?;
        }
        pages = server.until_done()?;
        ours.push(began.elapsed().as_secs_f64());
        bare.push(files.through_the_tools()?);
        eprintln!("pages: {pages} done; {:.1} s, bare {:.1} s", ours[round], bare[round]);
    }
    let overhead = median(ours.iter().zip(&bare).map(|(ours, bare)| ours / bare - 1.0));
    let of_a_round = (pages / rounds) as f64;
    Ok(Row::new("pages")
        .with("items_per_s", of_a_round / median(ours))
        .with("limit_per_s", of_a_round / median(bare))
        .with("overhead", overhead))
}

/// Many chunks, and questions about them.
fn chunks(ground: &Ground) -> anyhow::Result<Vec<Row>> {
    let (_windrow, server) = ground.server()?;
    let wanted = ground.many(CHUNKS);
    let texts = texts::Texts::of_chunks(wanted);
    let began = Instant::now();
    let mut chunks = 0;
    for (name, text) in texts.files() {
        server.add_text(&name, text.as_bytes())?;
        let (all, embedded) = server.chunks()?;
        eprint!("\rchunks: {embedded} of {all} embedded ");
        chunks = all;
    }
    loop {
        let is_done = server.is_done()?;
        let (all, embedded) = server.chunks()?;
        eprint!("\rchunks: {embedded} of {all} embedded ");
        chunks = chunks.max(all);
        if is_done {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    // Search takes in what it has not seen yet; until then it is not searchable.
    server.search(&texts.question(0))?;
    let seconds = began.elapsed().as_secs_f64();
    eprintln!("\rchunks: {chunks} in {seconds:.1} s          ");
    anyhow::ensure!(chunks >= wanted * 9 / 10, "only {chunks} chunks came of it");
    // What it takes for as many as the bar names, if it were not just so many.
    let for_all = seconds * wanted as f64 / chunks as f64;
    let mut rows = vec![
        Row::new("chunks")
            .with("items_per_s", chunks as f64 / seconds)
            .with("chunks", chunks as f64)
            .with("seconds", for_all),
    ];
    if ground.asked.wants("search") {
        let mut latencies = Latencies::default();
        for number in 0..ground.many(QUESTIONS) {
            let began = Instant::now();
            let found = server.search(&texts.question(number))?;
            latencies.add(began.elapsed());
            anyhow::ensure!(found > 0, "nothing is found for {}", texts.question(number));
        }
        let (p50, p99) = (latencies.percentile_us(50.0), latencies.percentile_us(99.0));
        rows.push(Row::new("search").with("p50_us", p50).with("p99_us", p99));
    }
    Ok(rows)
}

/// What a page costs in a tree of many, beside one in a tree of few.
fn trees(ground: &Ground) -> anyhow::Result<Row> {
    let pages = ground.many(PAGES);
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for round in 0..3 {
        for (of, took) in [(10, &mut few), (pages, &mut many)] {
            let (_windrow, server) = ground.server()?;
            let began = Instant::now();
            for number in 0..pages / of {
                let text = texts::pages(of, (round * pages / of + number) as u64);
                server.add_text(&format!("tree-{number}.txt"), text.as_bytes())?;
            }
            let done = server.until_done()?;
            anyhow::ensure!(done == pages, "{done} pages instead of {pages}");
            took.push(began.elapsed().as_secs_f64());
            eprintln!("trees: {pages} pages by {of} in {:.1} s", took[round]);
        }
    }
    let ratio = median(many.iter().zip(&few).map(|(many, few)| many / few));
    Ok(Row::new("trees").with("items_per_s", pages as f64 / median(many)).with("ratio", ratio))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_held_against_parts_that_exist_and_the_help_names() {
        for bar in &BARS {
            assert!(PARTS.contains(&bar.row), "{}", bar.row);
        }
        for part in PARTS {
            assert!(HELP.contains(part), "{part}");
        }
    }
}
