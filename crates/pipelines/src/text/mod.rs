//! Text: what documents are made of once somebody has read them.
//!
//! Bytes become text and text becomes Markdown ([`plain`], [`html`], [`csv`]), as do words that lie
//! on a page ([`layout`]); Markdown is seen as blocks ([`markdown`]), cut into chunks ([`chunk`]),
//! and looked at for what a phase would gain nothing from ([`skip`]).
//!
//! All of it is pure: no I/O, no clock, the same answer for the same input. All of it reads what
//! strangers wrote: nothing panics, everything is done in time linear in the input
//! (words on a page are sorted), nothing
//! recurses, and no output is more than a small multiple of its input.

pub mod chunk;
pub mod csv;
pub mod html;
pub mod layout;
mod lines;
pub mod markdown;
pub mod plain;
pub mod skip;
