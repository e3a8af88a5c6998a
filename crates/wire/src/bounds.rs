//! What a request may ask for: names without control characters, numbers within their ranges.
//!
//! The rules cut some numbers down to what is possible. Over the wire nobody would see it, so a
//! request is refused instead, with the range.

use windrow_core::Refusal;
use windrow_core::limits::{COMMAND_ITEMS_MAX, DELAY_MAX_MS, LEASE_MAX_MS, LEASE_MIN_MS};

/// Longest wait of a claim; whoever wants to wait for longer asks again.
pub const WAIT_MAX_MS: u64 = 60_000;

/// Refuses control characters in a name: it stands in logs, tables and terminals.
pub fn plain(field: &'static str, name: &str) -> Result<(), Refusal> {
    // NUL is refused by the rules, with words of their own.
    if name.chars().any(|letter| letter.is_control() && letter != '\0') {
        return Err(Refusal::invalid(field, "must not have control characters"));
    }
    Ok(())
}

/// The same for a name that need not be there.
pub(crate) fn plain_if(field: &'static str, name: Option<&str>) -> Result<(), Refusal> {
    name.map_or(Ok(()), |name| plain(field, name))
}

fn range(field: &'static str, value: u64, least: u64, most: u64) -> Result<(), Refusal> {
    if !(least..=most).contains(&value) {
        return Err(Refusal::invalid(field, format!("must lie between {least} and {most}")));
    }
    Ok(())
}

/// How long a lease lasts.
pub(crate) fn lease(ms: Option<u64>) -> Result<(), Refusal> {
    ms.map_or(Ok(()), |ms| range("lease_ms", ms, LEASE_MIN_MS, LEASE_MAX_MS))
}

/// How long a claim waits.
pub(crate) fn wait(ms: u64) -> Result<(), Refusal> {
    range("wait_ms", ms, 0, WAIT_MAX_MS)
}

/// How many items a claim takes.
pub(crate) fn claimed(max: Option<u32>) -> Result<(), Refusal> {
    max.map_or(Ok(()), |max| range("max", max.into(), 1, COMMAND_ITEMS_MAX as u64))
}

/// How long an item is put off.
pub(crate) fn delay(field: &'static str, ms: Option<u64>) -> Result<(), Refusal> {
    ms.map_or(Ok(()), |ms| range(field, ms, 0, DELAY_MAX_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_outside_its_range_is_refused_with_the_range() {
        let said = |result: Result<(), Refusal>| result.map_err(|refusal| refusal.to_string());
        assert_eq!(said(lease(Some(1))), Ok(()));
        let range = "lease_ms: must lie between 1 and 43200000";
        assert_eq!(said(lease(Some(0))), Err(range.into()));
        assert_eq!(said(wait(60_001)), Err("wait_ms: must lie between 0 and 60000".into()));
        assert_eq!(said(claimed(Some(0))), Err("max: must lie between 1 and 1000".into()));
        assert_eq!(said(claimed(None)), Ok(()));
    }

    #[test]
    fn a_name_is_plain() {
        assert!(plain("queue", "größe 7").is_ok());
        assert!(plain("queue", "a\nb").is_err() && plain("queue", "\u{85}").is_err());
    }
}
