//! A transaction: steps that are sent together and answered together.
//!
//! A round trip costs more than most statements, so what does not depend on each other's rows goes
//! in one: the beginning with the first loads, the commit with the last writes. Statements are
//! prepared once per connection, and behind a pooler not at all.

use futures_util::future::join_all;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use super::Error;
use super::address::PLANS;
use super::pool::Used;

/// A value that a step sends.
pub(super) type Value = Box<dyn Sent + Sync + Send>;

/// What says its own type, so that nobody need ask the database for it.
pub(super) trait Sent: ToSql {
    fn sql_type(&self) -> Type;
}

macro_rules! sent {
    ($($rust:ty => $one:ident, $many:ident;)*) => {$(
        impl Sent for $rust {
            fn sql_type(&self) -> Type {
                Type::$one
            }
        }
        impl Sent for Option<$rust> {
            fn sql_type(&self) -> Type {
                Type::$one
            }
        }
        impl Sent for Vec<$rust> {
            fn sql_type(&self) -> Type {
                Type::$many
            }
        }
        impl Sent for Vec<Option<$rust>> {
            fn sql_type(&self) -> Type {
                Type::$many
            }
        }
    )*};
}

sent! {
    bool => BOOL, BOOL_ARRAY;
    i16 => INT2, INT2_ARRAY;
    i32 => INT4, INT4_ARRAY;
    i64 => INT8, INT8_ARRAY;
    String => TEXT, TEXT_ARRAY;
    Uuid => UUID, UUID_ARRAY;
    Vec<u8> => BYTEA, BYTEA_ARRAY;
    Tid => TID, TID_ARRAY;
}

/// Where a row is, for as long as it is locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tid([u8; 6]);

impl<'a> FromSql<'a> for Tid {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Tid, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Tid(raw.try_into()?))
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::TID
    }
}

impl ToSql for Tid {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::TID
    }

    to_sql_checked!();
}

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

    pub(super) fn sql(&self) -> &'static str {
        self.sql
    }

    pub(super) fn values(self) -> impl ExactSizeIterator<Item = Box<dyn ToSql + Sync + Send>> {
        self.values.into_iter().map(|value| -> Box<dyn ToSql + Sync + Send> { value })
    }

    pub(super) fn typed(self) -> impl Iterator<Item = (Box<dyn ToSql + Sync + Send>, Type)> {
        let types: Vec<Type> = self.values.iter().map(|value| value.sql_type()).collect();
        self.values().zip(types)
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
    pub(super) fn client(&self) -> &Used {
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
        let first = self.first();
        let before = first.len();
        let ready = self.prepare(first.into_iter().chain(steps)).await?;
        self.begun = true;
        let mut answers = self.send(ready).await;
        answers.drain(..before).collect::<Result<Vec<_>, _>>()?;
        answers.into_iter().collect()
    }

    /// Sends the last steps and commits; gives the rows of each step.
    pub(super) async fn commit(mut self, steps: Vec<Step>) -> Result<Vec<Vec<Row>>, Failed> {
        let first = self.first();
        let before = first.len();
        let all = first.into_iter().chain(steps).chain([plain(COMMIT)]);
        let ready = self.prepare(all).await?;
        let mut answers = self.send(ready).await;
        let committed = answers.pop().transpose().map(drop);
        let mut rows = Vec::with_capacity(answers.len());
        for answer in answers.into_iter().skip(before) {
            match answer {
                Ok(some) => rows.push(some),
                // The server said no to a step, so it undid the rest when it came to the commit.
                Err(error) if committed.is_ok() => {
                    self.client.is_unfinished = false;
                    return Err(Failed::Before(error));
                }
                // A pooler says so itself when it lost the server, perhaps after the commit.
                Err(error) if error.is_from_server() && !self.client.pooled => {
                    return Err(Failed::Before(error));
                }
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

    /// What comes before the first step.
    fn first(&self) -> Vec<Step> {
        let mut first = Vec::new();
        if !self.begun {
            first.push(plain(self.begin));
            if self.client.pooled {
                let (names, values): (Vec<String>, Vec<String>) = PLANS
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into_iter()
                    .unzip();
                first.push(step!(PLANNED, names, values));
            }
        }
        first
    }

    async fn prepare(
        &mut self,
        steps: impl Iterator<Item = Step>,
    ) -> Result<Vec<(Option<Statement>, Step)>, Error> {
        let mut ready = Vec::new();
        for step in steps {
            ready.push((self.client.statement(step.sql).await?, step));
        }
        Ok(ready)
    }

    async fn send(
        &mut self,
        ready: Vec<(Option<Statement>, Step)>,
    ) -> Vec<Result<Vec<Row>, Error>> {
        self.client.is_unfinished = true;
        let client = &self.client;
        // They are polled in order, and each is sent when it is first polled.
        join_all(ready.into_iter().map(|(statement, step)| async move {
            match statement {
                Some(statement) => client.run(&statement, step).await,
                None => client.query(step).await,
            }
        }))
        .await
    }
}

const PLANNED: &str = "select set_config(name, value, true) \
     from unnest($1::text[], $2::text[]) p (name, value)";
const COMMIT: &str = "commit";
const ROLLBACK: &str = "rollback";

fn plain(sql: &'static str) -> Step {
    Step { sql, values: Vec::new() }
}
