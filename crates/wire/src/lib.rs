//! The public contract: what goes over the wire.
//!
//! These types are neither the domain's nor the disk's. They say what a body looks like in JSON,
//! turn it into commands of the core and answers back into bodies, and nothing else: no rule is
//! here.
//! What a text may hold is checked by the rules, which name the field as it is spelt here.

pub mod answer;
pub mod bounds;
pub mod bytes;
pub mod claim;
pub mod item;
pub mod list;
pub mod new;
pub mod object;
pub mod problem;
pub mod read;
pub mod settings;
pub mod settle;
pub mod time;
mod unread;
