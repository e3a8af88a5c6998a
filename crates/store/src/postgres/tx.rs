//! A transaction: steps that are sent together and answered together.
//!
//! A round trip costs more than most statements, so what does not depend on each other's rows goes
//! in one: the beginning with the first loads, the commit with the last writes. Statements are
//! prepared once per connection.

use futures_util::TryStreamExt as _;
use futures_util::future::join_all;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::Error;
use super::pool::Used;

/// A value that a step sends.
pub(super) type Value = Box<dyn ToSql + Sync + Send>;

/// One statement with its values.
pub(super) struct Step {
    sql: &'static str,
    values: Vec<Value>,
}

/// `step!("select …", value, value)`
macro_rules! step {
    ($sql:expr $(, $value:expr)* $(,)?) => {
        $crate::postgres::tx::Step::new($sql, vec![$(Box::new($value)),*])
    };
}
pub(super) use step;

impl Step {
    pub(super) fn new(sql: &'static str, values: Vec<Value>) -> Step {
        Step { sql, values }
    }
}

/// How a commit failed.
#[derive(Debug)]
pub(super) enum Failed {
    /// Nothing was written.
    Before(Error),
    /// It was sent to be committed, and it is not known whether it was.
    AtCommit(Error),
}

impl Failed {
    /// The error, where repeating is harmless either way.
    pub(super) fn into_inner(self) -> Error {
        match self {
            Failed::Before(error) | Failed::AtCommit(error) => error,
        }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Before(error)
    }
}

/// A transaction on a connection of its own. If it is dropped half way, so is the connection, and
/// the server rolls back.
pub(super) struct Tx {
    client: Used,
    begin: &'static str,
    begun: bool,
}

impl Tx {
    /// Begins with its first steps.
    pub(super) fn new(client: Used) -> Tx {
        Tx { client, begin: "begin", begun: false }
    }

    /// One that changes nothing and sees everything as it was at one moment.
    pub(super) fn to_read(client: Used) -> Tx {
        Tx { client, begin: "begin isolation level repeatable read read only", begun: false }
    }

    /// For what is asked by itself.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Which of the pool's connections this is.
    pub(super) fn slot(&self) -> u16 {
        self.client.slot()
    }

    /// Runs one step.
    pub(super) async fn query(&mut self, step: Step) -> Result<Vec<Row>, Error> {
        let mut answers = self.run(vec![step]).await?;
        Ok(answers.pop().unwrap_or_default())
    }

    /// Sends all steps, in order, and gives the rows of each.
    pub(super) async fn run(&mut self, steps: Vec<Step>) -> Result<Vec<Vec<Row>>, Error> {
        if steps.is_empty() {
            return Ok(Vec::new());
        }
        let begins = !self.begun;
        let first = begins.then(|| plain(self.begin));
        let ready = self.prepare(first.into_iter().chain(steps)).await?;
        self.begun = true;
        let mut answers = self.send(ready).await.into_iter();
        if begins {
            answers.next().transpose()?;
        }
        answers.collect()
    }

    /// Sends the last steps and commits; gives the rows of each step.
    pub(super) async fn commit(mut self, steps: Vec<Step>) -> Result<Vec<Vec<Row>>, Failed> {
        let begins = !self.begun;
        let first = begins.then(|| plain(self.begin));
        let all = first.into_iter().chain(steps).chain([plain(COMMIT)]);
        let ready = self.prepare(all).await?;
        let mut answers = self.send(ready).await;
        let committed = answers.pop().transpose().map(drop);
        let mut rows = Vec::with_capacity(answers.len());
        for answer in answers.into_iter().skip(usize::from(begins)) {
            match answer {
                Ok(some) => rows.push(some),
                // The server said no to a step, so it undid the rest when it came to the commit.
                Err(error) if committed.is_ok() => {
                    self.client.is_unfinished = false;
                    return Err(Failed::Before(error));
                }
                Err(error) if error.is_from_server() => return Err(Failed::Before(error)),
                Err(error) => return Err(Failed::AtCommit(error)),
            }
        }
        committed.map_err(Failed::AtCommit)?;
        self.client.is_unfinished = false;
        Ok(rows)
    }

    /// Undoes everything. If that fails, the connection is not used again.
    pub(super) async fn roll_back(mut self) {
        let Ok(ready) = self.prepare([plain(ROLLBACK)].into_iter()).await else { return };
        let answers = self.send(ready).await;
        self.client.is_unfinished = answers.iter().any(Result::is_err);
    }

    async fn prepare(
        &mut self,
        steps: impl Iterator<Item = Step>,
    ) -> Result<Vec<(Statement, Vec<Value>)>, Error> {
        let mut ready = Vec::new();
        for Step { sql, values } in steps {
            ready.push((self.client.statement(sql).await?, values));
        }
        Ok(ready)
    }

    async fn send(&mut self, ready: Vec<(Statement, Vec<Value>)>) -> Vec<Result<Vec<Row>, Error>> {
        self.client.is_unfinished = true;
        let client = &self.client;
        // They are polled in order, and each is sent when it is first polled.
        join_all(ready.into_iter().map(|(statement, values)| async move {
            let rows = client.query_raw(&statement, values).await?;
            Ok(rows.try_collect().await?)
        }))
        .await
    }
}

const COMMIT: &str = "commit";
const ROLLBACK: &str = "rollback";

fn plain(sql: &'static str) -> Step {
    Step { sql, values: Vec::new() }
}
