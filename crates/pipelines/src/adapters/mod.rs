//! Adapters: what a pipeline uses of the world, each behind a small trait.
//!
//! `pdf/` looks into files, `ocr/` reads pictures of text, and `tool/` is how either runs a program
//! of others; `reader.rs` reads any file with them. `embed/` makes vectors of texts, `vectors/`
//! finds the nearest ones again, `extract/` reads what a text is about, `graph/` keeps it, and
//! `endpoint/` is how an adapter talks to a model or a store behind HTTP. Which implementation
//! stands behind a trait is for the configuration to say.

pub mod embed;
pub mod endpoint;
pub mod extract;
pub mod graph;
pub mod ocr;
pub mod pdf;
pub mod reader;
pub mod tool;
pub mod vectors;
