//! One look as text, or as JSON.

use std::io::Write as _;

use super::asker::Asker;
use super::look::{Health, Look};
use crate::cli::reach::Reach;
use crate::cli::show::{Cell, Table, printable, short, span};

/// Letters of an error that are shown.
const ERROR_MAX: usize = 60;

pub(super) async fn once(reach: &Reach, filter: &str) -> anyhow::Result<()> {
    let mut asker = Asker::new(reach, std::time::Duration::ZERO, filter);
    let looked = asker.look().await;
    asker.close().await;
    let (look, mut out) = (looked?, std::io::stdout().lock());
    if reach.json {
        writeln!(out, "{}", serde_json::to_string(&look)?)?;
    } else {
        print(&mut out, &look)?;
    }
    Ok(out.flush()?)
}

fn print(out: &mut impl std::io::Write, look: &Look) -> std::io::Result<()> {
    let health = look.health.as_ref().map_or("not told", |health| &health.status);
    write!(out, "health {health}")?;
    if let Some(since) = look.waiting_since() {
        write!(out, ", the oldest waits for {}", span(look.at.0.since(since)))?;
    }
    writeln!(out)?;
    if let Some(ill) = look.health.as_ref().and_then(Health::first_ill) {
        writeln!(out, "{}", printable(&ill))?;
    }
    writeln!(out)?;
    queues(look).print(out)?;
    for table in [stages(look), workers(look), items(look)] {
        if !table.is_empty() {
            writeln!(out)?;
            table.print(out)?;
        }
    }
    Ok(())
}

fn queues(look: &Look) -> Table {
    let head = ["QUEUE", "     DUE", " DELAYED", "PROCESSING", "  FAILED", "OLDEST", "PAUSED"];
    let mut table = Table::new(&head);
    for queue in &look.queues {
        let pauses: Vec<String> = queue.paused.iter().map(ToString::to_string).collect();
        let waits = queue.waiting_since.map(|since| span(look.at.0.since(since.0)));
        table.row([
            printable(&queue.queue).into(),
            format!("{:>8}", queue.pending.saturating_sub(queue.delayed)).into(),
            format!("{:>8}", many(queue.delayed, look.partial)).into(),
            format!("{:>10}", queue.processing).into(),
            format!("{:>8}", queue.failed).into(),
            waits.map(|waits| format!("{waits:4}")).unwrap_or_default().into(),
            printable(&pauses.join(", ")).into(),
        ]);
    }
    table
}

/// A count, and whether there may be more.
fn many(count: u64, partial: bool) -> String {
    if partial { format!("{count}+") } else { count.to_string() }
}

fn stages(look: &Look) -> Table {
    let mut table = Table::new(&["QUEUE", "STAGE", "     DUE", " DELAYED", "PROCESSING"]);
    for stage in &look.stages {
        table.row([
            printable(&stage.queue).into(),
            printable(&stage.stage).into(),
            format!("{:>8}", many(stage.due, look.partial)).into(),
            format!("{:>8}", many(stage.delayed, look.partial)).into(),
            format!("{:>10}", many(stage.processing, look.partial)).into(),
        ]);
    }
    table
}

fn workers(look: &Look) -> Table {
    let mut table = Table::new(&["WORKER", "LEASES", "WAITING", "SEEN", "QUEUES"]);
    for worker in &look.workers {
        table.row([
            worker.titled().into(),
            format!("{:>6}", worker.leases).into(),
            format!("{:>7}", worker.waiting).into(),
            format!("{:4}", worker.seen(look.at)).into(),
            printable(&worker.takes()).into(),
        ]);
    }
    table
}

fn items(look: &Look) -> Table {
    let mut table = Table::new(&["ID", "STATUS", "AGE", "QUEUE", "STAGE", "TRIES", "ERROR"]);
    for item in &look.items {
        table.row([
            item.id.clone().into(),
            Cell::status(&item.status),
            format!("{:4}", span(look.at.0.since(item.since()))).into(),
            printable(&item.queue).into(),
            printable(&item.stage).into(),
            format!("{:>5}", item.attempts).into(),
            short(item.why(), ERROR_MAX).into(),
        ]);
    }
    table
}
