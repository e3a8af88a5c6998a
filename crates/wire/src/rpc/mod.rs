//! Messages of Cap'n Proto RPC: read into commands of the core, and answers written.
//!
//! Bytes go straight from a message into a command and from an answer into a message. Names that
//! repeat within a message become one shared text. What a message must not hold is a [`Wrong`];
//! everything else is left to the rules.
//!
//! [`new`], [`settle`] and [`work`] read what the server is asked, [`shown`] writes what it
//! answers; [`asked`] and [`told`] are the same from the caller's side. [`frame`] says where a
//! message ends.

pub mod asked;
pub mod frame;
pub mod new;
pub mod settle;
pub mod shown;
pub mod told;
pub mod work;

use std::sync::Arc;

use windrow_core::ports::StoreError;
use windrow_core::{ItemId, LeaseId, Refusal, RequestId};

use crate::problem::{Code, Problem};
use crate::queue_capnp::refused;

/// Bytes of a message, as of a body over HTTP.
pub const MESSAGE_MAX: u64 = 16 * 1024 * 1024;
/// Children of an item on one page at most.
pub const PAGE_MAX: usize = 200;

/// Why something was not read or not done.
#[derive(Clone, Debug)]
pub struct Wrong(pub Problem);

impl Wrong {
    pub fn new(code: Code, detail: impl Into<String>) -> Wrong {
        Wrong(Problem::new(code, detail))
    }

    pub fn write(&self, mut into: refused::Builder<'_>) {
        into.set_code(self.0.code.name());
        into.set_detail(&*self.0.detail);
        into.set_retry_after_ms(self.0.retry_after_ms.unwrap_or_default());
    }
}

impl From<capnp::Error> for Wrong {
    fn from(error: capnp::Error) -> Wrong {
        Wrong::new(Code::Malformed, error.to_string())
    }
}

impl From<capnp::NotInSchema> for Wrong {
    fn from(error: capnp::NotInSchema) -> Wrong {
        Wrong::new(Code::Malformed, format!("{} is not a value of its kind", error.0))
    }
}

impl From<std::str::Utf8Error> for Wrong {
    fn from(error: std::str::Utf8Error) -> Wrong {
        Wrong::new(Code::Malformed, format!("a text is not UTF-8: {error}"))
    }
}

impl From<Refusal> for Wrong {
    fn from(refusal: Refusal) -> Wrong {
        Wrong(Problem::from(&refusal))
    }
}

impl From<StoreError> for Wrong {
    fn from(error: StoreError) -> Wrong {
        Wrong(Problem::from(&error))
    }
}

/// The number in 16 bytes.
fn sixteen(field: &'static str, bytes: &[u8]) -> Result<u128, Refusal> {
    let wrong = |_| Refusal::invalid(field, format!("has {} bytes and not 16", bytes.len()));
    bytes.try_into().map(u128::from_be_bytes).map_err(wrong)
}

pub fn item_id(bytes: &[u8]) -> Result<ItemId, Refusal> {
    sixteen("id", bytes).map(ItemId)
}

pub fn lease_id(bytes: &[u8]) -> Result<LeaseId, Refusal> {
    sixteen("lease", bytes).map(LeaseId)
}

/// The id by which a request may be repeated, if it has one.
pub fn request_id(bytes: &[u8]) -> Result<Option<RequestId>, Refusal> {
    if bytes.is_empty() {
        return Ok(None);
    }
    sixteen("requestId", bytes).map(|id| Some(RequestId(id)))
}

/// The ids in a list.
pub fn item_ids(list: capnp::data_list::Reader<'_>) -> Result<Vec<ItemId>, Wrong> {
    list.iter().map(|bytes| Ok(item_id(bytes?)?)).collect()
}

/// A text that is often the same as the one before, shared with it.
#[derive(Debug)]
pub(crate) struct Repeated(Arc<str>);

impl Repeated {
    fn new(text: impl Into<Arc<str>>) -> Repeated {
        Repeated(text.into())
    }

    fn get(&mut self, text: &str) -> Arc<str> {
        if *self.0 != *text {
            self.0 = text.into();
        }
        Arc::clone(&self.0)
    }
}

/// Names in a list.
pub fn names(list: capnp::text_list::Reader<'_>) -> Result<Vec<Arc<str>>, Wrong> {
    list.iter().map(|name| Ok(Arc::from(name?.to_str()?))).collect()
}

/// Reads an optional text: `None` if the field is not there.
macro_rules! optional {
    ($from:expr, $has:ident, $get:ident) => {
        if $from.$has() { Some($from.$get()?.to_str()?) } else { None }
    };
}
pub(crate) use optional;

/// Reads optional bytes in the same way.
macro_rules! bytes {
    ($from:expr, $has:ident, $get:ident) => {
        if $from.$has() { Some($from.$get()?.to_vec()) } else { None }
    };
}
pub(crate) use bytes;

/// Writes a text if there is one.
macro_rules! set {
    ($into:expr, $set:ident, $text:expr) => {
        if let Some(text) = &$text {
            $into.$set(&text[..]);
        }
    };
}
pub(crate) use set;
