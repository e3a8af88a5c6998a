//! PostgreSQL: what everything that a pipeline keeps in a database shares.
//!
//! A pool of connections (`pool.rs`), statements that go to the database whole (`value.rs`), a
//! schema that only goes forward (`migrate.rs`), and what is made of trouble. Leaves out what is
//! kept, which is for the catalog and the stores of vectors to say.

pub(crate) mod migrate;
pub(crate) mod pool;
pub(crate) mod value;

use tokio_postgres::error::SqlState;

pub use self::migrate::{Applied, State, Step};
pub use self::pool::{Connect, Options};
use crate::catalog::CatalogError;

/// So often a transaction begins again that met another one.
const TRIES: usize = 8;

/// What stops a transaction: a reason of ours, or one of the database's.
#[derive(Debug)]
pub(crate) enum Trouble<E = CatalogError> {
    Ours(E),
    Theirs(tokio_postgres::Error),
}

impl From<CatalogError> for Trouble {
    fn from(error: CatalogError) -> Trouble {
        Trouble::Ours(error)
    }
}

impl<E> From<tokio_postgres::Error> for Trouble<E> {
    fn from(error: tokio_postgres::Error) -> Trouble<E> {
        Trouble::Theirs(error)
    }
}

impl From<Trouble> for CatalogError {
    fn from(trouble: Trouble) -> CatalogError {
        match trouble {
            Trouble::Ours(error) => error,
            Trouble::Theirs(error) => match said(&error) {
                Said::Passing(why) => CatalogError::transient(why),
                Said::Refused(why) => CatalogError::Bad { why },
            },
        }
    }
}

/// What a database says of a statement that it did not do.
pub(crate) enum Said {
    /// It can work later.
    Passing(String),
    /// A database that refuses a statement would refuse it again.
    Refused(String),
}

pub(crate) fn said(error: &tokio_postgres::Error) -> Said {
    let Some(said) = error.as_db_error() else {
        let why = std::error::Error::source(error).map(ToString::to_string);
        return Said::Passing(why.unwrap_or_else(|| error.to_string()));
    };
    // Connections, transactions, resources, locks, an operator, a system: all that passes.
    let passes = ["08", "25006", "40", "53", "55", "57", "58"];
    let mend = match *said.code() {
        SqlState::INSUFFICIENT_PRIVILEGE => {
            "; the role must own the database, or have been granted this by its owner"
        }
        _ => "",
    };
    let why = format!("{} ({}){mend}", said.message(), said.code().code());
    match passes.iter().any(|class| said.code().code().starts_with(class)) {
        true => Said::Passing(why),
        false => Said::Refused(why),
    }
}

/// Does it again as long as that can help.
pub(crate) async fn again<T, E, F>(once: impl Fn() -> F) -> Result<T, E>
where
    E: From<Trouble<E>>,
    F: Future<Output = Result<T, Trouble<E>>>,
{
    for _ in 1..TRIES {
        match once().await {
            Err(Trouble::Theirs(error)) if helps(&error) => {}
            other => return Ok(other?),
        }
    }
    Ok(once().await?)
}

/// Whether a transaction was ended for another one, or found its connection gone.
fn helps(error: &tokio_postgres::Error) -> bool {
    let met = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
    error.is_closed() || error.code().is_some_and(|code| met.contains(code))
}
