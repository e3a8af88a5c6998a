//! The schedule: everything that waits, in memory, in the order in which it is to be handed out.
//!
//! A claim pops the head of a lane; its cost does not depend on how much waits. All of this is
//! rebuilt at open, so nothing here is written to disk as such.

pub(crate) mod groups;
pub(crate) mod history;
pub(crate) mod lanes;
pub(crate) mod leases;
pub(crate) mod line;
pub(crate) mod names;
pub(crate) mod order;
pub(crate) mod pieces;
pub(crate) mod requests;
pub(crate) mod row;
pub(crate) mod slab;
pub(crate) mod table;
pub(crate) mod trees;
