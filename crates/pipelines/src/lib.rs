//! Pipelines: what is made of items.
//!
//! A pipeline sees the queue only as its port, so that the same worker runs inside the server or on
//! another machine. What it makes it writes to the catalog before it settles the item, and every
//! such write may be repeated.

pub mod adapters;
pub mod catalog;
pub mod documents;
pub mod postgres;
pub mod search;
pub mod text;
