//! What tenants name: schedules, sources and the like.
//!
//! Such a thing is a note, called after its own name and its tenant. Decides which names there may
//! be, and what the note is called.

use windrow_core::{Refusal, text};

/// Bytes of a name.
const NAME_MAX: usize = 100;

/// Whose something is, and what it is called.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Name {
    pub(crate) tenant: String,
    pub(crate) name: String,
}

impl Name {
    /// Refuses what cannot be a name.
    pub(crate) fn new(tenant: &str, name: &str) -> Result<Name, Refusal> {
        check_name(name)?;
        text::name("tenant", tenant, true)?;
        Ok(Name { tenant: tenant.into(), name: name.into() })
    }

    /// What the note is called: tenants have names of their own.
    pub(crate) fn of_note(&self) -> String {
        format!("{}@{}", self.name, self.tenant)
    }

    pub(crate) fn parse(note: &str) -> Option<Name> {
        let (name, tenant) = note.split_once('@')?;
        Some(Name { tenant: tenant.into(), name: name.into() })
    }
}

/// Refuses what cannot be a name.
pub(crate) fn check_name(name: &str) -> Result<(), Refusal> {
    if !(1..=NAME_MAX).contains(&name.len()) || !name.bytes().all(is_plain) {
        let why = format!("must be 1 to {NAME_MAX} letters, digits, dots, dashes, underscores");
        return Err(Refusal::invalid("name", why));
    }
    Ok(())
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_called_after_a_name_and_its_tenant() {
        let name = Name::new("t", "nightly").expect("a name");
        assert_eq!(name.of_note(), "nightly@t");
        assert_eq!(Name::parse("nightly@t"), Some(name));
    }

    #[test]
    fn what_would_need_quotes_somewhere_is_no_name() {
        assert!(check_name("orders-to-crm").is_ok());
        for wrong in ["", "a b", "a@b", "a/b", "ü", &"a".repeat(NAME_MAX + 1)] {
            assert!(Name::new("t", wrong).is_err(), "{wrong}");
        }
    }
}
