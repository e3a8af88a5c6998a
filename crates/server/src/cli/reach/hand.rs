//! The API of this process, asked without a socket by somebody who may do everything.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use tower_service::Service as _;

use super::Ask;
use crate::cli::exit::{Exit, Stop};
use crate::http::{App, ByHand, router};

/// Bytes of an answer that are read.
const ANSWER_MAX: usize = 256 * 1024 * 1024;

/// Whoever has the store itself in hand.
#[derive(Clone, Debug)]
pub(crate) struct Hand(Router);

impl Hand {
    pub(crate) fn of(app: &Arc<App>) -> Hand {
        Hand(router(Arc::clone(app)))
    }

    pub(super) async fn open(&self, ask: Ask) -> Result<(u16, Body), Stop> {
        let wrong = |error: axum::http::Error| Stop::usage(error.to_string());
        let mut request = ask.request().map_err(wrong)?;
        request.extensions_mut().insert(ByHand);
        match self.0.clone().call(request).await {
            Ok(response) => {
                let (head, body) = response.into_parts();
                Ok((head.status.as_u16(), body))
            }
            Err(never) => match never {},
        }
    }

    pub(in crate::cli) async fn ask(&self, ask: Ask) -> Result<(u16, Bytes), Stop> {
        let (status, body) = self.open(ask).await?;
        let body = axum::body::to_bytes(body, ANSWER_MAX).await;
        let body = body.map_err(|error| Stop::new(Exit::Failed, error.to_string()))?;
        Ok((status, body))
    }
}
