//! The table of operations, and what is made of it.

use std::sync::Arc;

use axum::Router;
use axum::http::Method;
use axum::routing::MethodRouter;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::App;

/// Everything the API can do lies under this.
pub(super) const BASE: &str = "/api/v1";

/// Who may do something. There are no tokens yet, so that whoever reaches the server may do all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Role {
    Viewer,
    Producer,
    Worker,
    Operator,
}

impl Role {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Producer => "producer",
            Role::Worker => "worker",
            Role::Operator => "operator",
        }
    }
}

/// What a body looks like.
pub(super) type Shape = fn(&mut SchemaGenerator) -> Schema;

pub(super) fn shape<T: JsonSchema>(of: &mut SchemaGenerator) -> Schema {
    of.subschema_for::<T>()
}

/// One thing that can be asked.
pub(super) struct Operation {
    pub(super) method: Method,
    /// Below [`BASE`], with parameters in braces.
    pub(super) path: &'static str,
    pub(super) role: Role,
    pub(super) summary: &'static str,
    pub(super) takes: Option<Shape>,
    /// Other bodies that are taken, by their content type.
    pub(super) also_takes: Vec<(&'static str, Shape)>,
    /// An empty body is not taken for `{}`.
    pub(super) needs_body: bool,
    /// It is done once under an `Idempotency-Key`, however often it is sent.
    pub(super) is_repeatable: bool,
    pub(super) gives: Option<Shape>,
    pub(super) status: u16,
    /// Other answers, by their status.
    pub(super) also_gives: Vec<(u16, Shape)>,
    /// It gives bytes, or a range of them.
    pub(super) gives_bytes: bool,
    /// Parameters after the question mark, with what they are.
    pub(super) parameters: &'static [(&'static str, &'static str)],
    /// It answers with server-sent events that have no end.
    pub(super) streams: bool,
    pub(super) handler: MethodRouter<Arc<App>>,
}

impl Operation {
    pub(super) fn new(
        method: Method,
        path: &'static str,
        role: Role,
        summary: &'static str,
        handler: MethodRouter<Arc<App>>,
    ) -> Operation {
        Operation {
            method,
            path,
            role,
            summary,
            takes: None,
            also_takes: Vec::new(),
            needs_body: false,
            is_repeatable: false,
            gives: None,
            status: 200,
            also_gives: Vec::new(),
            gives_bytes: false,
            parameters: &[],
            streams: false,
            handler,
        }
    }

    pub(super) fn takes<T: JsonSchema>(self) -> Operation {
        Operation { takes: Some(shape::<T>), ..self }
    }

    /// Takes a body that must be there.
    pub(super) fn needs<T: JsonSchema>(self) -> Operation {
        Operation { needs_body: true, ..self.takes::<T>() }
    }

    pub(super) fn also_takes<T: JsonSchema>(mut self, kind: &'static str) -> Operation {
        self.also_takes.push((kind, shape::<T>));
        self
    }

    pub(super) fn repeatable(self) -> Operation {
        Operation { is_repeatable: true, ..self }
    }

    pub(super) fn also_gives<T: JsonSchema>(mut self, status: u16) -> Operation {
        self.also_gives.push((status, shape::<T>));
        self
    }

    pub(super) fn gives<T: JsonSchema>(self, status: u16) -> Operation {
        Operation { gives: Some(shape::<T>), status, ..self }
    }

    pub(super) fn streams(self) -> Operation {
        Operation { streams: true, ..self }
    }

    pub(super) fn gives_bytes(self) -> Operation {
        Operation { gives_bytes: true, ..self }
    }

    pub(super) fn asks(self, parameters: &'static [(&'static str, &'static str)]) -> Operation {
        Operation { parameters, ..self }
    }
}

/// Routes for all operations, under `/api/v1` and, as the seeds have them, under `/api`.
pub(super) fn routes(operations: Vec<Operation>) -> Router<Arc<App>> {
    operations.into_iter().fold(Router::new(), |router, operation| {
        let Operation { path, handler, .. } = operation;
        router
            .route(&format!("{BASE}{path}"), handler.clone())
            .route(&format!("/api{path}"), handler)
    })
}
