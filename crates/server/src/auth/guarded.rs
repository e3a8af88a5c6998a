//! The queue, kept from whoever is nobody, and the secret that is mixed into what others are told.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use windrow_core::Refusal;
use windrow_core::note::{Expects, OWN, WriteNote};
use windrow_core::ports::Store as _;
use windrow_engine::Failure;

use super::Denied;
use super::session::Sealing;
use super::token::random;
use crate::store::Queue;

/// The queue, which nobody gets at but as somebody.
#[derive(Debug)]
pub(crate) struct Guarded {
    queue: Arc<Queue>,
    secret: [u8; 32],
}

impl Guarded {
    /// Guards a queue, with a secret that all servers of its store share. A new one is only kept if
    /// `keeps`: who looks at a store by hand has no use for it, and would leave something there.
    pub(crate) async fn open(queue: Arc<Queue>, keeps: bool) -> Result<Guarded, Denied> {
        let (shelf, name) = OWN;
        loop {
            let notes = queue.store().notes(shelf).await?;
            let note = notes.iter().find(|note| *note.name == *name);
            if let Some(secret) = note.and_then(|note| note.body.as_ref().try_into().ok()) {
                return Ok(Guarded { queue, secret });
            }
            let secret = random::<32>()?;
            if !keeps {
                return Ok(Guarded { queue, secret });
            }
            let body = Some(secret.as_slice().into());
            let expects = note.map_or(Expects::Nothing, |note| Expects::Version(note.version));
            let write = WriteNote { shelf: shelf.into(), name: name.into(), expects, body };
            match queue.note(write).await {
                // Another server may have been faster; then it is that one's.
                Ok(_) | Err(Failure::Refused(Refusal::Changed { .. })) => {}
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    /// The queue itself, for what the server does by itself and not for a caller.
    pub(crate) fn for_the_server(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// What sessions are sealed with.
    pub(super) fn sealing(&self) -> Sealing {
        let key = Sha256::new().chain_update(self.secret).chain_update("session").finalize();
        Sealing::new(key.into())
    }

    /// A number for each tenant that nobody can guess.
    pub(super) fn mask(&self, tenant: &str) -> u128 {
        let hash = Sha256::new().chain_update(self.secret).chain_update(tenant).finalize();
        let hash: [u8; 32] = hash.into();
        u128::from_be_bytes(std::array::from_fn(|at| hash[at]))
    }
}
