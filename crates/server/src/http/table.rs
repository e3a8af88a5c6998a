//! The table of operations, and what is made of it.

use std::sync::Arc;

use axum::Router;
use axum::http::Method;
use axum::routing::MethodRouter;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::App;
pub(super) use super::gate::LetsIn;
use super::gate::Rules;
pub(super) use crate::auth::Role;
use crate::console;

/// Everything the API can do lies under this.
pub(super) const BASE: &str = "/api/v1";

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
    pub(super) lets_in: LetsIn,
    pub(super) summary: &'static str,
    pub(super) takes: Option<Shape>,
    /// Other bodies that are taken, by their content type.
    pub(super) also_takes: Vec<(&'static str, Shape)>,
    /// An empty body is not taken for `{}`.
    pub(super) needs_body: bool,
    /// It is done once under an `Idempotency-Key`, however often it is sent.
    pub(super) is_repeatable: bool,
    /// It changes nothing, though its method may, and is no deed to be written down.
    pub(super) only_looks: bool,
    pub(super) gives: Option<Shape>,
    pub(super) status: u16,
    /// Other answers, by their status.
    pub(super) also_gives: Vec<(u16, Shape)>,
    /// It gives bytes, or a range of them.
    pub(super) gives_bytes: bool,
    /// Parameters after the question mark, with what they are.
    pub(super) parameters: &'static [(&'static str, &'static str)],
    /// Headers that must be there and hold a number, with what they are.
    pub(super) heads: &'static [(&'static str, &'static str)],
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
            lets_in: LetsIn::default(),
            summary,
            takes: None,
            also_takes: Vec::new(),
            needs_body: false,
            is_repeatable: false,
            only_looks: false,
            gives: None,
            status: 200,
            also_gives: Vec::new(),
            gives_bytes: false,
            parameters: &[],
            heads: &[],
            streams: false,
            handler,
        }
    }

    pub(super) fn lets_in(self, lets_in: LetsIn) -> Operation {
        Operation { lets_in, ..self }
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

    pub(super) fn only_looks(self) -> Operation {
        Operation { only_looks: true, ..self }
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

    pub(super) fn heads(self, heads: &'static [(&'static str, &'static str)]) -> Operation {
        Operation { heads, ..self }
    }

    pub(super) fn asks(self, parameters: &'static [(&'static str, &'static str)]) -> Operation {
        Operation { parameters, ..self }
    }
}

/// A route that is no operation: it is not under [`BASE`] and not in the OpenAPI document.
pub(super) struct Plain {
    pub(super) method: Method,
    pub(super) path: &'static str,
    /// None if everybody may, without a token too.
    pub(super) role: Option<Role>,
    pub(super) lets_in: LetsIn,
    /// It is for people, who are told in a page what went wrong.
    pub(super) is_page: bool,
    pub(super) handler: MethodRouter<Arc<App>>,
}

impl Plain {
    pub(super) fn new(
        path: &'static str,
        role: Option<Role>,
        handler: MethodRouter<Arc<App>>,
    ) -> Plain {
        let (method, lets_in) = (Method::GET, LetsIn::default());
        Plain { method, path, role, lets_in, is_page: false, handler }
    }

    pub(super) fn lets_in(self, lets_in: LetsIn) -> Plain {
        Plain { lets_in, ..self }
    }
}

impl From<console::Route> for Plain {
    fn from(route: console::Route) -> Plain {
        let console::Route { method, path, role, handler } = route;
        Plain { method, path, role, lets_in: LetsIn::default(), is_page: true, handler }
    }
}

/// Routes for all operations, under `/api/v1` and, as the seeds have them, under `/api`, and plain
/// ones; with what each needs.
pub(super) fn routes(operations: Vec<Operation>, plain: Vec<Plain>) -> (Router<Arc<App>>, Rules) {
    let (mut router, mut rules) = (Router::new(), Rules::default());
    for Operation { path, method, role, lets_in, only_looks, handler, .. } in operations {
        for base in [BASE, "/api"] {
            let full = format!("{base}{path}");
            let rule = rules.add(&full, method.clone(), Some(role), path);
            (rule.lets_in, rule.only_looks) = (lets_in, rule.only_looks || only_looks);
            router = router.route(&full, handler.clone());
        }
    }
    for Plain { method, path, role, lets_in, is_page, handler } in plain {
        let rule = rules.add(path, method, role, path);
        (rule.lets_in, rule.is_page) = (lets_in, is_page);
        router = router.route(path, handler);
    }
    (router, rules)
}
