//! Connections for whatever else lives in the store's database, made as the store makes its own.

use tokio_postgres::Client;

use super::address::Address;
use super::{Error, Options};

/// Makes connections to the database of a store.
#[derive(Clone, Debug)]
pub struct Connector {
    address: Address,
}

impl Connector {
    /// To the same database as a store with these options.
    pub fn new(options: &Options) -> Result<Connector, Error> {
        Ok(Connector { address: options.address()? })
    }

    /// Whether a pooler gives each transaction another connection.
    pub fn is_pooled(&self) -> bool {
        self.address.pooled
    }

    /// A new connection, driven by the runtime that this is called on.
    pub async fn connect(&self) -> Result<Client, Error> {
        let (client, connection) = self.address.connect().await?;
        tokio::spawn(async move {
            // Whoever uses it is told the same by its next query.
            let _ended = connection.await;
        });
        Ok(client)
    }
}
