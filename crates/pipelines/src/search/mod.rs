//! Search: what finds a passage again, by its words and by what it means.
//!
//! `hybrid.rs` asks the catalog for words and the vectors for meaning, `fuse.rs` makes one ranking
//! of both, and `index.rs` keeps the built-in vectors up to date with the catalog.

pub mod fuse;
pub mod hybrid;
pub mod index;
