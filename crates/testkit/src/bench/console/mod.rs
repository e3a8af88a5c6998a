//! `bench console`: how fast pages are over much, and what open pages cost the queue.

use std::ffi::OsString;
use std::io::Write as _;
use std::net::Shutdown;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::asked::{Asked, Words};
use super::documents::text_of_pages;
use super::http::Line;
use super::machine;
use super::measure::{Latencies, median};
use super::report::{Bar, Row, Want, check, tell};
use crate::servers::windrow::{On, Windrow};

pub const HELP: &str = "\
bench console [--json] [--quick] [--only PARTS]
  Measures the console on a running server. pages: every page over 1,000,000 items, some thousands
  of them failed, and a document of 10,000 pages: how long the server takes, and how long the page
  is. cost: items enqueued, claimed and settled by hundreds over HTTP, in turns without anybody who
  looks and with ten open consoles that are told what changes; what the consoles cost is the median
  of the rounds. Fails if a bar is not met.

  --only PARTS  some of these, with commas between them: pages cost
  --quick       a tenth of it; indicates, proves nothing
  --json        the machine, all rows and all checks as one JSON object
";

const PARTS: [&str; 2] = ["pages", "cost"];

const BARS: [Bar; 3] = [
    Bar {
        name: "the slowest page, p99 us",
        row: "pages",
        figure: "p99_us",
        want: Want::AtMost(200_000.0),
    },
    Bar {
        name: "the longest page, bytes",
        row: "pages",
        figure: "bytes",
        want: Want::AtMost(300_000.0),
    },
    Bar {
        name: "what ten open consoles cost",
        row: "cost",
        figure: "cost",
        want: Want::AtMost(0.05),
    },
];

const ITEMS: usize = 1_000_000;
const PAGES: usize = 10_000;
const FAILED: usize = 3_000;
/// Items in one request.
const BATCH: usize = 1_000;
/// How often each page is asked for.
const LOOKS: usize = 50;
/// Consoles that are open at once, and clients of the queue meanwhile.
const CONSOLES: usize = 10;
const CLIENTS: usize = 4;
const TOGETHER: usize = 100;
const ROUNDS: usize = 5;

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
    let mut rows = Vec::new();
    if asked.wants("pages") {
        rows.extend(pages(&program, &asked).context("pages")?);
    }
    if asked.wants("cost") {
        rows.push(cost(&program, &asked).context("cost")?);
    }
    let checks = check(&BARS, &rows, asked.only.is_none());
    tell(asked.json, asked.quick, &machine, &rows, &checks)?;
    Ok(checks.iter().all(|check| check.ok))
}

/// Enqueues so many items, by thousands, and gives the id of one.
fn fill(line: &mut Line, queue: &str, items: usize) -> anyhow::Result<String> {
    let (mut one, path) = (String::new(), format!("/queues/{queue}/items"));
    for from in (0..items).step_by(BATCH) {
        let new = |at: usize| {
            json!({
                "payload": { "path": format!("/inbox/{at}.png"), "size": at },
                "source_type": "file", "source_info": format!("inbox/{at}.png"),
            })
        };
        let batch: Vec<Value> = (from..items.min(from + BATCH)).map(new).collect();
        let said = line.call("POST", &path, &json!(batch))?;
        one = said[0]["id"].as_str().context("no id")?.to_owned();
        eprint!("\r{queue}: {} items ", from + batch.len());
    }
    eprintln!();
    Ok(one)
}

/// Claims and settles so many, in this manner.
fn settle(line: &mut Line, queue: &str, items: usize, outcome: &Value) -> anyhow::Result<()> {
    let mut left = items;
    while left > 0 {
        let claim = json!({ "queues": [queue], "worker": "bench", "max": left.min(TOGETHER) });
        let grant = line.call("POST", "/claims", &claim)?;
        let (lease, held) = (&grant["lease"], grant["items"].as_array().context("no items")?);
        let settled: Vec<Value> = held
            .iter()
            .map(|item| {
                let mut settled = outcome.clone();
                settled["id"] = item["id"].clone();
                settled
            })
            .collect();
        left -= settled.len();
        let path = format!("/leases/{}/settle", lease.as_str().context("no lease")?);
        line.call("POST", &path, &json!({ "items": settled }))?;
    }
    Ok(())
}

/// A document of many pages, until it is found. Gives its id.
fn document(line: &mut Line, pages: usize) -> anyhow::Result<String> {
    let text = text_of_pages(pages, 7);
    let path = "/api/v1/documents?name=long.txt";
    let added = line.ask("POST", path, "application/octet-stream", text.as_bytes())?;
    let added: Value = serde_json::from_slice(&added.body)?;
    let id = added["id"].as_str().context("no document")?.to_owned();
    loop {
        let document = line.call("GET", &format!("/documents/{id}"), &Value::Null)?;
        anyhow::ensure!(document["state"] != "failed", "it could not be built: {document}");
        if document["state"] == "live" {
            return Ok(id);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Every page, over much.
fn pages(program: &Path, asked: &Asked) -> anyhow::Result<Vec<Row>> {
    let many = |many: usize| if asked.quick { many / 10 } else { many };
    let windrow = Windrow::start(program, On::Directory)?;
    let mut line = Line::to(&windrow.url())?;
    let failed = fill(&mut line, "failing", FAILED)?;
    let error = json!({ "outcome": "fail", "error": "no space left on device 7" });
    settle(&mut line, "failing", FAILED, &error)?;
    let one = fill(&mut line, "many", many(ITEMS))?;
    eprintln!("a document of {} pages", many(PAGES));
    let document = document(&mut line, many(PAGES))?;
    let far = many(PAGES) / 2;
    let all = [
        "/".to_owned(),
        "/queue".to_owned(),
        "/queue?filter=status%3Afailed".to_owned(),
        "/queue?filter=queue%3Amany".to_owned(),
        "/queue?filter=nothing-is-called-so".to_owned(),
        format!("/queue/{one}"),
        format!("/queue/{failed}"),
        "/admin/queue-monitor".to_owned(),
        "/documents".to_owned(),
        format!("/documents/{document}"),
        format!("/documents/{document}?from={far}"),
        format!("/documents/{document}/pages/{far}"),
        "/documents/graph".to_owned(),
        "/search?q=the+quiet+river".to_owned(),
        "/sources".to_owned(),
        "/workers".to_owned(),
        "/schedules".to_owned(),
        "/admin/system".to_owned(),
        "/admin/settings".to_owned(),
    ];
    let mut rows = Vec::new();
    let (mut slowest, mut longest) = (0.0f64, 0.0f64);
    for page in &all {
        let (mut latencies, mut bytes) = (Latencies::default(), 0);
        for _ in 0..LOOKS {
            let began = Instant::now();
            let answer = line.ask("GET", page, "text/html", b"")?;
            latencies.add(began.elapsed());
            anyhow::ensure!(answer.status == 200, "{page}: {}", answer.status);
            bytes = answer.body.len();
        }
        let (p50, p99) = (latencies.percentile_us(50.0), latencies.percentile_us(99.0));
        eprintln!("{p99:>9.0} us  {bytes:>7} bytes  {page}");
        (slowest, longest) = (slowest.max(p99), longest.max(bytes as f64));
        rows.push(
            Row::new(page).with("p50_us", p50).with("p99_us", p99).with("bytes", bytes as f64),
        );
    }
    rows.push(Row::new("pages").with("p99_us", slowest).with("bytes", longest));
    Ok(rows)
}

/// What open consoles cost those who work.
fn cost(program: &Path, asked: &Asked) -> anyhow::Result<Row> {
    let windrow = Windrow::start(program, On::Directory)?;
    let url = windrow.url();
    let mut line = Line::to(&url)?;
    let one = fill(&mut line, "shown", 2 * TOGETHER)?;
    let seconds = if asked.quick { 2.0 } else { 8.0 };
    let looked_at = ["", "queue", "admin%2Fqueue-monitor", "workers", "admin%2Fsystem"];
    let (mut alone, mut watched) = (Vec::new(), Vec::new());
    // The first is to warm up.
    work(&url, 1.0)?;
    for round in 0..ROUNDS {
        alone.push(work(&url, seconds)?);
        let mut hands = Vec::new();
        for at in 0..CONSOLES {
            let page = match at {
                0 => format!("queue%2F{one}"),
                at => looked_at[at % looked_at.len()].to_owned(),
            };
            let mut console = Line::to(&url)?;
            let path = format!("/live?page={page}");
            let (status, _) = console.begin("GET", &path, "text/event-stream", b"")?;
            anyhow::ensure!(status == 200, "{path}: {status}");
            hands.push(console.hand()?);
            std::thread::spawn(move || console.drain());
        }
        watched.push(work(&url, seconds)?);
        hands.iter().for_each(|hand| drop(hand.shutdown(Shutdown::Both)));
        eprintln!("alone {:.0}/s, watched {:.0}/s", alone[round], watched[round]);
    }
    let cost = median(watched.iter().zip(&alone).map(|(watched, alone)| 1.0 - watched / alone));
    Ok(Row::new("cost")
        .with("items_per_s", median(watched))
        .with("limit_per_s", median(alone))
        .with("cost", cost))
}

/// Items that live their whole life in a second, by some clients at once.
fn work(url: &str, seconds: f64) -> anyhow::Result<f64> {
    let (until, done) = (Instant::now() + Duration::from_secs_f64(seconds), AtomicU64::new(0));
    let began = Instant::now();
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let done = &done;
        let client = |at: usize| {
            scope.spawn(move || -> anyhow::Result<()> {
                let mut line = Line::to(url)?;
                let queue = format!("work-{at}");
                let batch = json!(vec![json!({ "payload": { "a": 1 } }); TOGETHER]);
                let complete = json!({ "outcome": "complete" });
                while Instant::now() < until {
                    line.call("POST", &format!("/queues/{queue}/items"), &batch)?;
                    settle(&mut line, &queue, TOGETHER, &complete)?;
                    done.fetch_add(TOGETHER as u64, Ordering::Relaxed);
                }
                Ok(())
            })
        };
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        for client in clients {
            client.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
        }
        Ok(())
    })?;
    Ok(done.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64())
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
