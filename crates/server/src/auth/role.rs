//! Roles: what a token lets its bearer do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What somebody may do. Each role may also do what the ones below it may; producers and workers
/// stand side by side.
///
/// ```text
///          admin
///            |
///         operator
///        /        \
///   producer    worker
///        \        /
///          viewer
/// ```
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema, Debug, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// Looks, and changes nothing.
    Viewer,
    /// Enqueues.
    Producer,
    /// Claims, renews, reports and settles.
    Worker,
    /// Mends: cancels, retries, removes, pauses, and says how queues behave.
    Operator,
    /// Gives and takes tokens, reads the audit, and says which folders are watched.
    Admin,
}

impl Role {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Producer => "producer",
            Role::Worker => "worker",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }

    /// Whether whoever has this role may do what asks for another.
    pub(crate) const fn may(self, asked: Role) -> bool {
        match self {
            Role::Admin => true,
            Role::Operator => !matches!(asked, Role::Admin),
            Role::Worker => matches!(asked, Role::Worker | Role::Viewer),
            Role::Producer => matches!(asked, Role::Producer | Role::Viewer),
            Role::Viewer => matches!(asked, Role::Viewer),
        }
    }

    /// Whether what asks for this role is written into the audit.
    pub(crate) const fn is_audited(self) -> bool {
        matches!(self, Role::Operator | Role::Admin)
    }
}

#[cfg(test)]
mod tests {
    use super::Role::{Admin, Operator, Producer, Viewer, Worker};

    #[test]
    fn a_role_may_do_what_the_ones_below_it_may_and_nothing_else() {
        let may = [
            (Viewer, [true, false, false, false, false]),
            (Producer, [true, true, false, false, false]),
            (Worker, [true, false, true, false, false]),
            (Operator, [true, true, true, true, false]),
            (Admin, [true, true, true, true, true]),
        ];
        for (role, may) in may {
            let asked = [Viewer, Producer, Worker, Operator, Admin];
            assert_eq!(asked.map(|asked| role.may(asked)), may, "{role:?}");
        }
    }
}
