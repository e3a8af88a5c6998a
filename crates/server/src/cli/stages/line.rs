//! The line to a server: asks until there is an answer, however long the server is away.
//!
//! Everything that is asked here may be repeated. Who is refused for good (a token was revoked, the
//! server has another embedder now) gets no answer at all: [`Line::refused`] tells whoever runs the
//! workers, who hands back what they have in hand.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use windrow_client::http::Client;
use windrow_client::repeat::{Attempts, Missed, Next};
use windrow_core::item::BlobRef;
use windrow_core::queue::{Error, Refused};
use windrow_store::blobs::Hex;

use crate::cli::exit::Problem;
use crate::cli::reach::{Ask, Hand, Target};
use crate::documents::files::Source;

/// Bytes of a file that are asked for at once.
const PIECE: u64 = 4 << 20;

/// Somebody who answers, some time.
#[derive(Clone, Debug)]
pub(super) struct Line {
    to: To,
    /// How long an answer is waited for: then what it is for has become somebody else's.
    within: Duration,
    refused: Arc<watch::Sender<Option<Refused>>>,
}

#[derive(Clone, Debug)]
enum To {
    Wire(Box<Client>),
    Here(Hand),
}

impl Line {
    pub(super) fn new(target: &Target, within: Duration) -> Line {
        let to = match target {
            Target::Wire(client) => To::Wire(client.clone()),
            Target::Here(here) => To::Here(here.hand().clone()),
            Target::Own(hand) => To::Here(hand.clone()),
        };
        Line { to, within, refused: Arc::new(watch::Sender::new(None)) }
    }

    /// Waits until something was refused for good.
    pub(super) async fn refused(&self) -> Refused {
        let mut told = self.refused.subscribe();
        let found = told.wait_for(Option::is_some).await.ok().and_then(|found| found.clone());
        match found {
            Some(refused) => refused,
            None => std::future::pending().await,
        }
    }

    /// What is answered. Fails with what may pass, or with what is too much.
    pub(super) async fn ask(&self, ask: Ask) -> Result<Bytes, Error> {
        let (mut attempts, until) = (Attempts::default(), Instant::now() + self.within);
        loop {
            let missed = match self.once(ask.clone()).await {
                Ok(body) => return Ok(body),
                Err(missed) => missed,
            };
            let left = until.saturating_duration_since(Instant::now());
            match attempts.after(missed, left, rand::random()) {
                Next::Again { after } => sleep(after).await,
                Next::End(Error::Refused(refused)) if is_final(&refused) => {
                    self.refused.send_replace(Some(refused));
                    return std::future::pending().await;
                }
                Next::End(error) => return Err(error),
            }
        }
    }

    async fn once(&self, ask: Ask) -> Result<Bytes, Missed> {
        let (status, body) = match &self.to {
            To::Wire(client) => {
                let reply = client.send(ask.into()).await?;
                (reply.status.as_u16(), reply.body)
            }
            To::Here(hand) => {
                let asked = hand.ask(ask).await;
                asked.map_err(|stop| Missed::NotSent(stop.message))?
            }
        };
        if (200..300).contains(&status) {
            return Ok(body);
        }
        // What stands between us and the server may answer in its place.
        let strange = || format!("something that is not Windrow answered {status}");
        let problem: Result<Problem, _> = serde_json::from_slice(&body);
        let unknown = |_| Missed::Unknown { why: strange(), retry_after_ms: None };
        let Problem { code, detail, .. } = problem.map_err(unknown)?;
        let (code, message) = (code.into(), detail);
        Err(Missed::by(Refused { code, message, retry_after_ms: None }))
    }
}

/// Whether nothing that is asked will be answered. What is too large, or gone, is about one thing.
fn is_final(refused: &Refused) -> bool {
    !matches!(&*refused.code, "too_large" | "not_found" | "blob_missing")
}

impl Source for Line {
    fn piece<'a>(
        &'a self,
        tenant: &'a str,
        file: BlobRef,
        at: u64,
    ) -> BoxFuture<'a, Result<Vec<u8>, String>> {
        Box::pin(async move {
            let ask = Ask::get(&["blobs", &Hex(&file.hash).to_string()]);
            let ask = ask.with("tenant", Some(tenant)).range(at, file.len.min(at + PIECE));
            let piece = self.ask(ask).await.map_err(|error| error.to_string())?;
            Ok(piece.to_vec())
        })
    }
}
