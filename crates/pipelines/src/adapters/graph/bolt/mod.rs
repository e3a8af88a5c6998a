//! The graph in a database that speaks Bolt and Cypher; tested on ArcadeDB.
//!
//! Decides how often something is tried again and whose fault a refusal is. All that one instance
//! does goes over one connection, one after another: writers that meet at the same entity would
//! only be refused by the database and have to begin again. Other processes may write as well.
//!
//! A late writer must not bring back what was removed. So whoever removes puts up a fence first and
//! then removes what is there, and whoever writes looks for a fence after writing and takes back
//! what it wrote: one of the two sees the other. Leaves out encryption: the database stands next to
//! us or behind something that encrypts.

mod address;
mod connection;
mod cypher;
mod pack;

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use self::address::Address;
pub use self::address::NotAnAddress;
use self::connection::{Connection, Rows, Trouble};
use self::pack::Value;
use super::{Graph, GraphError, Origin};
use crate::adapters::extract::Extracted;
use crate::catalog::{ChunkId, GenerationKey, Scope};

/// What can be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    pub user: String,
    pub password: Password,
    /// The database to write to. By default the one that the server has for this user.
    pub database: Option<String>,
    /// How long something may take, from connecting to the last byte of its answer.
    pub within: Duration,
}

/// A secret that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Options {
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Options {
        let (user, password) = (user.into(), Password(password.into()));
        Options { user, password, database: None, within: Duration::from_secs(30) }
    }
}

impl Password {
    /// A text without the password. A shorter one is a word that a text may hold for other reasons.
    fn hide(&self, text: &str) -> String {
        if self.0.len() < 4 { text.to_owned() } else { text.replace(&self.0, "…") }
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// A graph database.
#[derive(Debug)]
pub struct Bolt {
    address: Address,
    options: Options,
    /// The connection, while nobody uses it and none broke.
    idle: Mutex<Option<Connection>>,
}

/// How much there is of a collection. For tests and checks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    pub chunks: u64,
    pub entities: u64,
    pub mentions: u64,
    pub relationships: u64,
}

/// So often something is done again that met another writer, a little later each time.
const TRIES_MAX: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// So many chunks are removed in one transaction.
const REMOVED_AT_ONCE: i64 = 100;

impl Bolt {
    /// A database at an address such as `bolt://127.0.0.1:7687`. Nothing is sent yet.
    pub fn new(address: &str, options: Options) -> Result<Bolt, NotAnAddress> {
        Ok(Bolt { address: address.parse()?, options, idle: Mutex::default() })
    }

    /// How much there is of a collection. Reads all of it.
    pub async fn counts(&self, scope: &Scope) -> Result<Counts, GraphError> {
        match self.done(&Job::Count(scope)).await? {
            Done::Counted(counts) => Ok(counts),
            Done::Written | Done::Partly | Done::Gone => Ok(Counts::default()),
        }
    }

    /// Removes a generation or all of a document, some at a time, each within its time.
    async fn removed(&self, document: Uuid, generation: Option<u32>) -> Result<(), GraphError> {
        let job = Job::Remove { document, generation };
        while matches!(self.done(&job).await?, Done::Partly) {}
        Ok(())
    }

    /// Does it, within the time that there is for it.
    async fn done(&self, job: &Job<'_>) -> Result<Done, GraphError> {
        let within = self.options.within;
        let done = timeout(within, self.tried(job)).await;
        done.unwrap_or_else(|_| {
            let why = format!("no answer within {} ms", within.as_millis());
            Err(self.blamed(Trouble::Broken(why)))
        })
    }

    /// Does it, again if it met another writer or a connection that had broken unnoticed. A
    /// connection that is in use is in nobody else's hands; if we are dropped, it is too.
    async fn tried(&self, job: &Job<'_>) -> Result<Done, GraphError> {
        let mut idle = self.idle.lock().await;
        let mut tries = 0;
        loop {
            let (mut connection, is_new) = match idle.take() {
                Some(connection) => (connection, false),
                None => (self.connect().await.map_err(|why| self.blamed(why))?, true),
            };
            let trouble = match self.work(&mut connection, job).await {
                Ok(done) => {
                    *idle = Some(connection);
                    return Ok(done);
                }
                Err(trouble) => trouble,
            };
            match &trouble {
                Trouble::Broken(_) if !is_new => {}
                Trouble::Broken(_) => return Err(self.blamed(trouble)),
                Trouble::Said { code, .. } => {
                    *idle = Some(connection);
                    tries += 1;
                    if !is_contended(code) || tries == TRIES_MAX {
                        return Err(self.blamed(trouble));
                    }
                    sleep(FIRST_PAUSE * (1 << tries)).await;
                }
            }
        }
    }

    async fn connect(&self) -> Result<Connection, Trouble> {
        let Options { user, password, .. } = &self.options;
        let mut connection = Connection::open(&self.address, user, &password.0).await?;
        for statement in cypher::schema() {
            let made = connection.run(self.database(), &[statement]).await;
            // Another process may be making the same.
            made.or_else(|trouble| match trouble {
                Trouble::Said { code, .. } if is_contended(&code) => Ok(Vec::new()),
                trouble => Err(trouble),
            })?;
        }
        Ok(connection)
    }

    fn database(&self) -> Option<&str> {
        self.options.database.as_deref()
    }

    async fn work(&self, connection: &mut Connection, job: &Job<'_>) -> Result<Done, Trouble> {
        match job {
            Job::Put { at, chunk, statements } => {
                let chunks = [Value::from(&**chunk)];
                let before = connection.begin(self.database(), &cypher::mentioned(&chunks)).await?;
                let mut all = cypher::forget(&chunks).to_vec();
                if statements.is_empty() {
                    all.push(cypher::drop_chunks(&chunks));
                }
                all.extend_from_slice(statements);
                all.push(cypher::drop_orphans(ids(&before)));
                connection.commit(&all).await?;
                let fences = connection.run(self.database(), &[cypher::fences(*at)]).await?;
                if number(fences.first())? == 0 {
                    return Ok(Done::Written);
                }
                self.remove(connection, &chunks).await?;
                Ok(Done::Gone)
            }
            Job::Remove { document, generation } => {
                let fence = cypher::fence(*document, *generation);
                connection.run(self.database(), &[fence]).await?;
                let some = cypher::chunks(*document, *generation, REMOVED_AT_ONCE);
                let found = connection.run(self.database(), &[some]).await?;
                let chunks = found.first().map(ids).unwrap_or_default();
                if chunks.is_empty() {
                    return Ok(Done::Written);
                }
                self.remove(connection, &chunks).await?;
                Ok(Done::Partly)
            }
            Job::Forget(chunks) => {
                self.remove(connection, chunks).await?;
                Ok(Done::Written)
            }
            Job::Count(scope) => {
                let rows = connection.run(self.database(), &cypher::counts(scope)).await?;
                let count = |nth: usize| number(rows.get(nth));
                let (chunks, entities) = (count(0)?, count(1)?);
                let (mentions, relationships) = (count(2)?, count(3)?);
                Ok(Done::Counted(Counts { chunks, entities, mentions, relationships }))
            }
        }
    }

    /// Removes chunks with all that they say.
    async fn remove(&self, connection: &mut Connection, chunks: &[Value]) -> Result<(), Trouble> {
        let before = connection.begin(self.database(), &cypher::mentioned(chunks)).await?;
        let mut all = cypher::forget(chunks).to_vec();
        all.push(cypher::drop_chunks(chunks));
        all.push(cypher::drop_orphans(ids(&before)));
        connection.commit(&all).await
    }

    /// Whose fault it is.
    fn blamed(&self, trouble: Trouble) -> GraphError {
        let (address, hide) = (&self.address, |text: &str| self.options.password.hide(text));
        let (code, message) = match trouble {
            Trouble::Broken(why) => {
                let why = format!("{address}: {}", hide(&why));
                return GraphError::Transient { why, retry_after_ms: None };
            }
            Trouble::Said { code, message } => (hide(&code), hide(&message)),
        };
        let about = match &*code {
            "Neo.ClientError.Security.Unauthorized" => "refuses our user or password",
            code if code.starts_with("Neo.ClientError.Security.") => "does not let us",
            code if code.starts_with("Neo.ClientError.Database.") => "has no such database",
            code if code.starts_with("Neo.ClientError.Statement.") => {
                let why = format!("{address} refuses it ({code}): {message}");
                return GraphError::Bad { why };
            }
            _ => "cannot do it now",
        };
        let why = format!("{address} {about} ({code}): {message}");
        GraphError::Transient { why, retry_after_ms: None }
    }
}

impl Graph for Bolt {
    fn name(&self) -> &str {
        "bolt"
    }

    fn put<'a>(
        &'a self,
        origin: &'a Origin,
        said: &'a Extracted,
    ) -> BoxFuture<'a, Result<(), GraphError>> {
        Box::pin(async move {
            let is_silent = said.entities.is_empty();
            let statements =
                if is_silent { Vec::new() } else { cypher::say(origin, said)?.to_vec() };
            let job = Job::Put { at: origin.at, chunk: origin.chunk.to_string(), statements };
            match self.done(&job).await? {
                Done::Gone => Err(GraphError::Gone { what: origin.at.to_string() }),
                Done::Written | Done::Partly | Done::Counted(_) => Ok(()),
            }
        })
    }

    fn remove_chunks<'a>(&'a self, chunks: &'a [ChunkId]) -> BoxFuture<'a, Result<(), GraphError>> {
        Box::pin(async move {
            for some in chunks.chunks(REMOVED_AT_ONCE as usize) {
                let some = some.iter().map(|chunk| Value::from(&*chunk.to_string())).collect();
                self.done(&Job::Forget(some)).await?;
            }
            Ok(())
        })
    }

    fn remove_generation(&self, at: GenerationKey) -> BoxFuture<'_, Result<(), GraphError>> {
        Box::pin(self.removed(at.document, Some(at.generation)))
    }

    fn remove_document(&self, document: Uuid) -> BoxFuture<'_, Result<(), GraphError>> {
        Box::pin(self.removed(document, None))
    }
}

/// What is to be done, as often as it takes.
enum Job<'a> {
    Put {
        at: GenerationKey,
        chunk: String,
        statements: Vec<connection::Statement>,
    },
    /// Some of it.
    Remove {
        document: Uuid,
        generation: Option<u32>,
    },
    Forget(Vec<Value>),
    Count(&'a Scope),
}

enum Done {
    Written,
    /// There may be more.
    Partly,
    Gone,
    Counted(Counts),
}

/// Whether it may go well if it is done again at once: another writer was there. That includes two
/// who make the same entity, of which a constraint lets one through.
fn is_contended(code: &str) -> bool {
    code.starts_with("Neo.TransientError.")
        || code == "Neo.ClientError.Schema.ConstraintValidationFailed"
}

/// Ids, one in each row.
fn ids(rows: &Rows) -> Vec<Value> {
    let id = |row: &Vec<Value>| row.first().and_then(Value::text).map(str::to_owned);
    let mut ids: Vec<String> = rows.iter().filter_map(id).collect();
    ids.sort_unstable();
    ids.into_iter().map(Value::from).collect()
}

/// The number in the first row.
fn number(rows: Option<&Rows>) -> Result<u64, Trouble> {
    let number = rows.and_then(|rows| rows.first()?.first()?.int());
    let number = number.and_then(|number| u64::try_from(number).ok());
    number.ok_or_else(|| Trouble::Broken("it answered no number where it was asked for one".into()))
}
