//! A session with a database, for the statements of tests: `psql` without a process and a
//! connection for each of them, which cost more than most statements.
//!
//! Decides what a statement leaves behind for the next one: nothing, as if it had been alone.

use std::sync::{Arc, mpsc};

use anyhow::{Context as _, anyhow};
use tokio::runtime::Handle;
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage};

#[derive(Debug)]
pub(super) struct Session {
    client: Arc<Client>,
    runtime: Handle,
}

impl Session {
    /// Opens one whose connection lives in this runtime.
    pub(super) fn open(runtime: &Handle, url: &str) -> anyhow::Result<Session> {
        let wanted = url.to_owned();
        let client = done(runtime, async move {
            let (client, connection) = tokio_postgres::connect(&wanted, NoTls).await?;
            // How it ends is told to whoever asks next.
            tokio::spawn(connection);
            Ok(client)
        });
        let client = Arc::new(client.with_context(|| format!("cannot reach {url}"))?);
        Ok(Session { client, runtime: runtime.clone() })
    }

    /// Whether the server, or somebody there, has ended it.
    pub(super) fn is_over(&self) -> bool {
        self.client.is_closed()
    }

    /// Runs statements in one transaction. Answers rows as lines, with `|` between the columns.
    pub(super) fn ask(&self, sql: &str) -> anyhow::Result<String> {
        let (client, asked) = (Arc::clone(&self.client), sql.to_owned());
        let answer = done(&self.runtime, async move {
            let answer = client.simple_query(&asked).await;
            // A transaction that it began, what it set and what it locked go with it.
            for forget in ["rollback", "discard all"] {
                let _gone_with_the_session = client.batch_execute(forget).await;
            }
            answer
        });
        let messages = answer.with_context(|| format!("cannot run {sql}"))?;
        let lines: Vec<String> = messages.iter().filter_map(line).collect();
        Ok(lines.join("\n").trim_end().to_owned())
    }
}

/// A row as `psql` shows it without headings.
fn line(message: &SimpleQueryMessage) -> Option<String> {
    let SimpleQueryMessage::Row(row) = message else { return None };
    let columns = (0..row.len()).map(|column| row.get(column).unwrap_or_default());
    Some(columns.collect::<Vec<_>>().join("|"))
}

/// Waits for something that is done in a runtime, from wherever: also from inside of it.
fn done<T: Send + 'static>(
    runtime: &Handle,
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> anyhow::Result<T> {
    let (answer, answered) = mpsc::channel();
    runtime.spawn(async move {
        let _nobody_waits_any_more = answer.send(work.await);
    });
    let answer = answered.recv().context("the runtime is gone")?;
    answer.map_err(|error| match error.as_db_error() {
        Some(said) => anyhow!("{said}"),
        None => error.into(),
    })
}
