//! Values that say their own type, so that a statement goes to the database whole: its text, its
//! values and their types at once, and nothing is left there that a pooler could mix up.

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row, Transaction};
use uuid::Uuid;

/// What can be sent.
pub(crate) trait Sent: Sync {
    fn sql(&self) -> (&(dyn ToSql + Sync), Type);
}

macro_rules! sent {
    ($($rust:ty => $one:ident, $many:ident;)*) => {$(
        sent!(one $rust, $one);
        sent!(one Option<$rust>, $one);
        sent!(one Vec<$rust>, $many);
        sent!(one Vec<Option<$rust>>, $many);
    )*};
    (one $rust:ty, $kind:ident) => {
        impl Sent for $rust {
            fn sql(&self) -> (&(dyn ToSql + Sync), Type) {
                (self, Type::$kind)
            }
        }
    };
}

sent! {
    bool => BOOL, BOOL_ARRAY;
    i32 => INT4, INT4_ARRAY;
    i64 => INT8, INT8_ARRAY;
    f32 => FLOAT4, FLOAT4_ARRAY;
    f64 => FLOAT8, FLOAT8_ARRAY;
    String => TEXT, TEXT_ARRAY;
    &str => TEXT, TEXT_ARRAY;
    Uuid => UUID, UUID_ARRAY;
    Vec<u8> => BYTEA, BYTEA_ARRAY;
    &[u8] => BYTEA, BYTEA_ARRAY;
}

/// `values![one, another]` for the `$1` and `$2` of a statement.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        &[$(&$value as &dyn $crate::postgres::value::Sent),*]
    };
}
pub(crate) use values;

/// A transaction. It is undone unless it is committed.
pub(crate) struct Tx<'a>(pub(crate) Transaction<'a>);

impl Tx<'_> {
    pub(crate) async fn rows(&self, sql: &str, values: &[&dyn Sent]) -> Result<Vec<Row>, Error> {
        let typed: Vec<_> = values.iter().map(|value| value.sql()).collect();
        self.0.query_typed(sql, &typed).await
    }

    pub(crate) async fn one(&self, sql: &str, values: &[&dyn Sent]) -> Result<Row, Error> {
        let typed: Vec<_> = values.iter().map(|value| value.sql()).collect();
        self.0.query_typed_one(sql, &typed).await
    }

    pub(crate) async fn row(&self, sql: &str, values: &[&dyn Sent]) -> Result<Option<Row>, Error> {
        let typed: Vec<_> = values.iter().map(|value| value.sql()).collect();
        self.0.query_typed_opt(sql, &typed).await
    }

    pub(crate) async fn commit(self) -> Result<(), Error> {
        self.0.commit().await
    }

    /// Says how many rows it touched.
    pub(crate) async fn run(&self, sql: &str, values: &[&dyn Sent]) -> Result<u64, Error> {
        let typed: Vec<_> = values.iter().map(|value| value.sql()).collect();
        self.0.execute_typed(sql, &typed).await
    }
}

/// A statement that is put together, with its values.
#[derive(Default)]
pub(crate) struct Built {
    pub(crate) sql: String,
    values: Vec<Box<dyn Sent + Send>>,
}

impl Built {
    /// A statement as far as it is known.
    pub(crate) fn of(sql: impl Into<String>) -> Built {
        Built { sql: sql.into(), ..Built::default() }
    }

    /// Adds a condition with one value, which stands where the `?` is.
    pub(crate) fn with(&mut self, condition: &str, value: impl Sent + Send + 'static) {
        self.values.push(Box::new(value));
        self.sql += &condition.replacen('?', &format!("${}", self.values.len()), 1);
    }

    pub(crate) fn values(&self) -> Vec<&dyn Sent> {
        self.values.iter().map(|value| -> &dyn Sent { &**value }).collect()
    }
}

/// A number of ours. Those that are larger than the database's were refused before.
pub(crate) fn int(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// A number of the database.
pub(crate) fn nat(number: i32) -> u32 {
    number.unsigned_abs()
}
