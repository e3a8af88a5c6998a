//! Trace context: which trace an item's producer was in, kept with the item.
//!
//! It stands in the item's metadata, a JSON object, as its first member `traceparent`, in the form
//! of W3C Trace Context. What the producer wrote there itself is left as it is. A request that is
//! repeated comes from another span; that does not make it another request, so that a fingerprint
//! is taken without it.

use std::borrow::Cow;

use crate::limits::METADATA_MAX;

/// How metadata with a trace context begins.
const BEFORE: &str = "{\"traceparent\":\"";
/// `00-` trace id `-` span id `-` flags.
const LENGTH: usize = 55;

/// Whether a text is a trace context that can be kept: version 00, and neither id is zero.
pub fn is_valid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [version, trace, span, flags] = parts[..] else { return false };
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_some = |id: &str| id.bytes().any(|byte| byte != b'0');
    version == "00"
        && is_hex(trace, 32)
        && is_hex(span, 16)
        && is_hex(flags, 2)
        && is_some(trace)
        && is_some(span)
}

/// Metadata that keeps a trace context as well. What is no object or large already has no place for
/// it, and what names one keeps that.
pub fn keep(metadata: Option<String>, trace: &str) -> Option<String> {
    let len = metadata.as_ref().map_or(0, String::len);
    if !is_valid(trace) || len + BEFORE.len() + LENGTH + 2 > METADATA_MAX {
        return metadata;
    }
    let Some(text) = metadata else { return Some(format!("{BEFORE}{trace}\"}}")) };
    let inside = text.trim_start().strip_prefix('{').filter(|_| !text.contains("\"traceparent\""));
    let Some(inside) = inside else { return Some(text) };
    let comma = if inside.trim_start().starts_with('}') { "" } else { "," };
    Some(format!("{BEFORE}{trace}\"{comma}{inside}"))
}

/// The trace context that metadata keeps.
pub fn kept(metadata: &str) -> Option<&str> {
    let (trace, _) = metadata.strip_prefix(BEFORE)?.split_at_checked(LENGTH)?;
    is_valid(trace).then_some(trace)
}

/// Metadata as the producer gave it, without the trace context that was put there.
pub(crate) fn without(metadata: Option<&str>) -> Option<Cow<'_, str>> {
    let metadata = metadata?;
    let Some(trace) = kept(metadata) else { return Some(metadata.into()) };
    let rest = metadata.get(BEFORE.len() + trace.len()..)?.strip_prefix('"')?;
    rest.strip_prefix(',').map(|rest| Cow::Owned(format!("{{{rest}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_context_is_kept_in_front_and_found_again() {
        for (given, want) in [
            (None, format!("{{\"traceparent\":\"{TRACE}\"}}")),
            (Some("{}"), format!("{{\"traceparent\":\"{TRACE}\"}}")),
            (Some(r#" { "a" : 1}"#), format!("{{\"traceparent\":\"{TRACE}\", \"a\" : 1}}")),
        ] {
            let kept_in = keep(given.map(str::to_owned), TRACE).expect("it is there");
            assert_eq!(kept_in, want);
            assert_eq!(kept(&kept_in), Some(TRACE));
        }
    }

    #[test]
    fn what_has_no_place_for_it_or_one_already_stays_as_it_is() {
        for given in ["[1]", "7", "\"text\"", r#"{"traceparent":"mine"}"#] {
            assert_eq!(keep(Some(given.to_owned()), TRACE).as_deref(), Some(given));
        }
        let large = Some(format!("{{\"a\":\"{}\"}}", "x".repeat(METADATA_MAX - 20)));
        assert_eq!(keep(large.clone(), TRACE), large);
        for wrong in ["", "00-0-0-01", &TRACE.to_uppercase(), &TRACE.replace("00-", "ff-")] {
            assert_eq!(keep(None, wrong), None, "{wrong}");
        }
        assert!(!is_valid("00-00000000000000000000000000000000-b7ad6b7169203331-01"));
    }

    #[test]
    fn without_it_metadata_is_what_the_producer_gave() {
        for given in [None, Some(r#"{"a":1}"#), Some(r#"{ "a" : 1 }"#), Some("[1]")] {
            let kept_in = keep(given.map(str::to_owned), TRACE);
            assert_eq!(without(kept_in.as_deref()).as_deref(), given);
            assert_eq!(without(given).as_deref(), given);
        }
    }
}
