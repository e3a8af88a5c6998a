//! Disasters of several servers on one PostgreSQL, with the same names, load, ledger and check as
//! the embedded store's.
//!
//! [`child`] is one server: an engine over the store, its producers and workers, which reach it
//! through [`client`]. [`fleet`] is the three of them with their pipes. [`proxy`] is the network
//! between them and PostgreSQL, which can be cut around a COMMIT ([`wire`] sees it go by).
//! [`disaster`] is what can happen in a round, [`campaign`] the rounds and their checks, [`holds`]
//! the audit of group limits, and [`program`] the whole run with its control.

pub mod campaign;
pub mod child;
pub mod client;
pub mod disaster;
pub mod fleet;
pub mod holds;
pub mod program;
pub mod proxy;
pub mod wire;
