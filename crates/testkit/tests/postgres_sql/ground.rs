//! A store and its database side by side.

use std::sync::Arc;

use serde_json::Value;
use windrow_core::{ItemId, LeaseId, Timestamp};
use windrow_store::postgres::Postgres;
use windrow_testkit::servers::stores::Stores;
use windrow_testkit::suite::Bed;

pub(crate) struct Ground {
    pub(crate) stores: Arc<Stores>,
    pub(crate) bed: Bed<Postgres>,
}

impl Ground {
    /// An empty store whose clock shows what the database's does.
    pub(crate) fn new(stores: Arc<Stores>) -> Ground {
        let bed = Bed::new(Arc::new(stores.open().expect("a store opens")));
        let ground = Ground { stores, bed };
        ground.set_clock();
        ground
    }

    /// Lets the clock catch up with the database's.
    pub(crate) fn set_clock(&self) {
        let now = self.one("select windrow.now_ms() as now")["now"].as_u64().unwrap();
        self.bed.clock.set(Timestamp(now));
    }

    /// The rows of a query.
    pub(crate) fn rows(&self, query: &str) -> Vec<Value> {
        self.try_rows(query).unwrap_or_else(|error| panic!("{query}: {error:#}"))
    }

    pub(crate) fn try_rows(&self, query: &str) -> anyhow::Result<Vec<Value>> {
        let query = query.trim().trim_end_matches(';');
        let sql = format!(
            "set timezone = 'UTC'; set search_path = windrow; \
             select coalesce(json_agg(t), '[]') from ({query}) t"
        );
        Ok(serde_json::from_str(&self.stores.psql(&sql)?)?)
    }

    /// The only row of a query.
    pub(crate) fn one(&self, query: &str) -> Value {
        let mut rows = self.rows(query);
        assert_eq!(rows.len(), 1, "{query}: {rows:?}");
        rows.remove(0)
    }

    /// The row of an item in a view.
    pub(crate) fn shown(&self, view: &str, id: ItemId) -> Value {
        self.one(&format!("select * from {view} where serial = {}", id.serial()))
    }
}

/// A column that is a text.
pub(crate) fn text(row: &Value, column: &str) -> String {
    row[column].as_str().unwrap_or_else(|| panic!("{column} of {row}")).to_owned()
}

pub(crate) fn id(row: &Value, column: &str) -> ItemId {
    text(row, column).parse().unwrap()
}

pub(crate) fn lease(row: &Value, column: &str) -> LeaseId {
    text(row, column).parse().unwrap()
}

/// A time as the database says it in JSON.
pub(crate) fn time(at: Timestamp) -> Value {
    let text = at.to_string();
    let text = text.trim_end_matches('Z').trim_end_matches('0').trim_end_matches('.');
    Value::from(format!("{text}+00:00"))
}

/// The same, or nothing.
pub(crate) fn time_of(at: Option<Timestamp>) -> Value {
    at.map_or(Value::Null, time)
}
