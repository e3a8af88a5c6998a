//! The workers that a server is told of.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

use super::Layers;
use super::layers::array;
use crate::auth::Book;
use crate::workers::Declared;
use crate::workers::{CLEANUP, Plan};

/// The longest budget, time-out and wait, in seconds: as long as a lease may last.
const SECONDS_MAX: u64 = 12 * 3_600;
/// The most that one worker does at once, or when it is called.
const ITEMS_MAX: usize = 1_000;

/// Everything about workers, checked.
pub(super) fn plan(layers: &Layers, drain: Duration) -> anyhow::Result<Plan> {
    let heartbeat = seconds(layers, "workers.heartbeat_s")?;
    let stale = seconds(layers, "queue.page_lease_s")?;
    anyhow::ensure!(
        heartbeat * 2 < stale,
        "workers.heartbeat_s ({}) is {} and queue.page_lease_s ({}) is {}: whoever misses one \
         sign of life would be taken for dead; let the first be less than half of the second",
        layers.origin("workers.heartbeat_s"),
        heartbeat.as_secs(),
        layers.origin("queue.page_lease_s"),
        stale.as_secs(),
    );
    let secret = layers.get("workers.secret").map(str::to_owned);
    if let Some(secret) = &secret {
        let origin = layers.origin("workers.secret");
        Book::check_given(secret)
            .map_err(|why| anyhow::anyhow!("workers.secret ({origin}): {why}"))?;
    }
    let mut declared = std::collections::BTreeMap::new();
    for name in layers.names("workers") {
        anyhow::ensure!(name != CLEANUP, "workers.{name}: that one is there already, and sweeps");
        let worker = worker(layers, &name, heartbeat, stale)?;
        declared.insert(Arc::clone(&worker.name), Arc::new(worker));
    }
    Ok(Plan {
        declared,
        enabled: layers.flag("workers.enabled")?,
        poll: seconds(layers, "workers.poll_s")?,
        secret,
        drain,
    })
}

fn worker(
    layers: &Layers,
    name: &str,
    heartbeat: Duration,
    lease: Duration,
) -> anyhow::Result<Declared> {
    let key = |last: &str| format!("workers.{name}.{last}");
    let names = |last: &str| -> anyhow::Result<Vec<Arc<str>>> {
        Ok(layers.list(&key(last))?.into_iter().map(Arc::from).collect())
    };
    let timeout = match layers.get(&key("timeout_s")) {
        Some(_) => Some(seconds(layers, &key("timeout_s"))?),
        None => None,
    };
    Ok(Declared {
        name: name.into(),
        queues: names("queues")?,
        kinds: names("kinds")?,
        stages: names("stages")?,
        tenants: Vec::new(),
        command: command(layers, &key("command"))?,
        max_jobs: count(layers, &key("max_jobs"))?,
        budget: seconds(layers, &key("budget_s"))?,
        timeout,
        concurrency: count(layers, &key("concurrency"))?,
        heartbeat,
        lease,
        payload_in_file: false,
    })
}

/// A program with its arguments, or a line for the shell.
fn command(layers: &Layers, key: &str) -> anyhow::Result<Vec<String>> {
    let how = "say what does the work, as [\"program\", \"argument\"] or as a line for the shell";
    let text = layers.get(key).with_context(|| format!("{key} is missing: {how}"))?;
    let argv = match array(text) {
        Some(argv) => argv.with_context(|| format!("{key} ({})", layers.origin(key)))?,
        None => ["sh", "-c", text].map(str::to_owned).to_vec(),
    };
    let is_empty = argv.first().is_none_or(String::is_empty) || text.trim().is_empty();
    anyhow::ensure!(!is_empty, "{key} ({}) is empty: {how}", layers.origin(key));
    Ok(argv)
}

fn seconds(layers: &Layers, key: &str) -> anyhow::Result<Duration> {
    let seconds: u64 = layers.parse(key)?;
    anyhow::ensure!(
        (1..=SECONDS_MAX).contains(&seconds),
        "{key} ({}) must lie between 1 and {SECONDS_MAX}",
        layers.origin(key)
    );
    Ok(Duration::from_secs(seconds))
}

fn count(layers: &Layers, key: &str) -> anyhow::Result<usize> {
    let count: usize = layers.parse(key)?;
    anyhow::ensure!(
        (1..=ITEMS_MAX).contains(&count),
        "{key} ({}) must lie between 1 and {ITEMS_MAX}",
        layers.origin(key)
    );
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(said: &[(&str, &str)]) -> anyhow::Result<Plan> {
        let said = said.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        plan(&Layers::new().with_environment(said)?, Duration::ZERO)
    }

    fn wrong(said: &[(&str, &str)]) -> String {
        format!("{:#}", planned(said).expect_err("it is wrong"))
    }

    const COMMAND: (&str, &str) = ("WINDROW_WORKERS__LOAD__COMMAND", "./load.sh --all");

    #[test]
    fn a_worker_is_declared_by_its_command_and_has_defaults() {
        let said = [
            COMMAND,
            ("WINDROW_WORKERS__SUM__COMMAND", r#"["python3", "sum it.py"]"#),
            ("WINDROW_WORKERS__SUM__QUEUES", "a, b"),
        ];
        let plan = planned(&said).expect("it is read");
        let load = &plan.declared["load"];
        assert_eq!(load.command, ["sh", "-c", "./load.sh --all"]);
        assert_eq!((load.max_jobs, load.budget.as_secs(), load.queues.len()), (3, 60, 0));
        let sum = &plan.declared["sum"];
        assert_eq!(sum.command, ["python3", "sum it.py"]);
        assert_eq!(sum.queues.iter().map(|queue| &**queue).collect::<Vec<_>>(), ["a", "b"]);
        assert!(!plan.enabled && plan.secret.is_none());
    }

    #[test]
    fn what_cannot_work_is_refused_with_who_said_it() {
        let missing = wrong(&[("WINDROW_WORKERS__LOAD__QUEUES", "a")]);
        assert!(missing.contains("workers.load.command is missing"), "{missing}");
        let short = wrong(&[("CRON_SECRET", "short")]);
        assert!(short.contains("workers.secret (from CRON_SECRET): it has 5"), "{short}");
        assert!(wrong(&[("CRON_SECRET", "")]).contains("it is empty"));
        let half = wrong(&[COMMAND, ("WINDROW_WORKERS__LOAD__QUEUES", "[\"a\", b]")]);
        assert!(half.ends_with("is not an array of texts; write [\"a\", \"b c\"]"), "{half}");
        let none = wrong(&[COMMAND, ("WINDROW_WORKERS__LOAD__MAX_JOBS", "0")]);
        assert!(none.contains("must lie between 1 and 1000"), "{none}");
        let yes = wrong(&[("TASK_QUEUE_ENABLED", "yes please")]);
        assert!(yes.contains("workers.enabled (from TASK_QUEUE_ENABLED)"), "{yes}");
        for yes in ["True", "1", "yes"] {
            assert!(planned(&[("TASK_QUEUE_ENABLED", yes)]).expect(yes).enabled);
        }
        let taken = wrong(&[("WINDROW_WORKERS__CLEANUP__COMMAND", "true")]);
        assert!(taken.contains("workers.cleanup: that one is there already"), "{taken}");
    }

    #[test]
    fn a_heartbeat_of_half_the_stale_time_or_more_is_refused() {
        let said = [("HEARTBEAT_INTERVAL", "60"), ("STALE_TASK_TIMEOUT", "120")];
        let half = wrong(&said);
        assert!(half.contains("from HEARTBEAT_INTERVAL") && half.contains("is 120"), "{half}");
        planned(&[("HEARTBEAT_INTERVAL", "59"), ("STALE_TASK_TIMEOUT", "120")]).expect("less");
    }
}
