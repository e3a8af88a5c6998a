//! The queue of a Windrow server, as a program elsewhere uses it.
//!
//! [`http::Client`] and [`rpc::Client`] are a [`windrow_core::queue::Queue`], as the engine is in
//! process: whoever programs against that port does not notice where the queue runs. A client keeps
//! its connections open, gives every request an id, and repeats by itself what it got no answer to.
//! A call ends with an answer, a refusal, or an error that says whether anything was written.
//!
//! [`address`] and [`options`] say where the server is and how patient the client is, [`repeat`]
//! decides what follows an attempt, and `http/` and `rpc/` carry a call to a server and its answer
//! back, each in its own way. [`worker`] is a worker's loop over any of them.

pub mod address;
pub mod http;
pub mod options;
pub mod repeat;
pub mod rpc;
pub mod trust;
pub mod worker;

pub use address::{Address, Finder, NotAnAddress};
pub use options::{Options, Token};

/// The guide, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/rust-client.md")]
pub struct Guide;
