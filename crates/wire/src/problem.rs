//! Problems: errors as RFC 9457 has them, each with a stable code that has a page in
//! `docs/errors/`.

use schemars::JsonSchema;
use serde::Serialize;
use windrow_core::Refusal;
use windrow_core::ports::StoreError;

macro_rules! codes {
    ($($code:ident $name:literal $status:literal $title:literal;)*) => {
        /// What went wrong, by a name that does not change.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Debug)]
        pub enum Code {
            $(#[serde(rename = $name)] $code,)*
        }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$code),*];

            pub const fn name(self) -> &'static str {
                match self { $(Code::$code => $name),* }
            }

            /// The HTTP status that it comes with.
            pub const fn status(self) -> u16 {
                match self { $(Code::$code => $status),* }
            }

            pub const fn title(self) -> &'static str {
                match self { $(Code::$code => $title),* }
            }
        }
    };
}

codes! {
    Invalid "invalid" 422 "Something in the request is not allowed";
    Malformed "malformed" 400 "The request cannot be read";
    WrongStatus "wrong_status" 400 "The job's status does not allow that";
    Unauthorized "unauthorized" 401 "A token is needed";
    Forbidden "forbidden" 403 "This token may not do that";
    NotFound "not_found" 404 "There is nothing here";
    MethodNotAllowed "method_not_allowed" 405 "This cannot be done here";
    Timeout "timeout" 408 "The request took too long to arrive";
    LeaseLost "lease_lost" 409 "The lease does not hold this";
    AlreadyDone "already_done" 409 "The item has ended";
    StillLive "still_live" 409 "The work has not ended";
    NotResettable "not_resettable" 409 "The item cannot be reset";
    KeyInUse "key_in_use" 409 "The item's key is in use";
    UnderCancelled "under_cancelled" 409 "Something above the item was cancelled";
    NotARoot "not_a_root" 409 "The item is part of a tree";
    Changed "changed" 409 "Somebody else changed this meanwhile";
    RequestReused "request_reused" 409 "The request id was used for another request";
    BlobMissing "blob_missing" 409 "The blob is not here";
    OffsetMismatch "offset_mismatch" 409 "The upload stands somewhere else";
    TooLarge "too_large" 413 "The request is too large";
    UnsupportedType "unsupported_type" 415 "The content type is not understood";
    ExpectationFailed "expectation_failed" 417 "This is not done on request";
    RangeNotSatisfiable "range_not_satisfiable" 416 "There are no such bytes";
    MisdirectedHost "misdirected_host" 421 "This server is not called that";
    HashMismatch "hash_mismatch" 422 "The bytes are not those that were announced";
    NoSuchStage "no_such_stage" 422 "The item has no such stage";
    QueueFull "queue_full" 429 "The queue is full";
    Overloaded "overloaded" 429 "Too much is under way";
    HeadersTooLarge "headers_too_large" 431 "The headers are too large";
    Internal "internal" 500 "A bug of ours";
    Unreadable "unreadable" 500 "The item cannot be read";
    StoreFull "store_full" 503 "There is no room";
    StoreFailed "store_failed" 503 "The store did not do it";
    OutcomeUnknown "outcome_unknown" 503 "It is not known whether it was done";
    Stopping "stopping" 503 "The server is stopping";
}

/// An error, as a body of type `application/problem+json`.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Problem {
    /// A page about it, on the server that says so.
    #[serde(rename = "type")]
    pub page: String,
    pub title: &'static str,
    pub status: u16,
    pub code: Code,
    /// What it was this time, and what to do.
    pub detail: String,
    /// How long to wait before asking again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl Code {
    pub fn of(refusal: &Refusal) -> Code {
        match refusal {
            Refusal::Invalid { .. } => Code::Invalid,
            Refusal::NotFound { .. } => Code::NotFound,
            Refusal::LeaseLost { .. } => Code::LeaseLost,
            Refusal::AlreadyDone { .. } => Code::AlreadyDone,
            Refusal::StillLive { .. } => Code::StillLive,
            Refusal::NotResettable { .. } => Code::NotResettable,
            Refusal::KeyInUse { .. } => Code::KeyInUse,
            Refusal::UnderCancelled { .. } => Code::UnderCancelled,
            Refusal::NotARoot { .. } => Code::NotARoot,
            Refusal::NoSuchStage { .. } => Code::NoSuchStage,
            Refusal::QueueFull { .. } => Code::QueueFull,
            Refusal::StoreFull { .. } => Code::StoreFull,
            Refusal::BlobMissing => Code::BlobMissing,
            Refusal::RequestReused => Code::RequestReused,
            Refusal::Changed { .. } => Code::Changed,
            Refusal::Unreadable { .. } => Code::Unreadable,
            Refusal::Internal => Code::Internal,
        }
    }
}

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem {
            page: format!("/docs/errors/{}.md", code.name()),
            title: code.title(),
            status: code.status(),
            code,
            detail: detail.into(),
            retry_after_ms: None,
        }
    }

    #[must_use]
    pub fn retry_after(self, ms: u64) -> Problem {
        Problem { retry_after_ms: Some(ms), ..self }
    }
}

impl From<&Refusal> for Problem {
    fn from(refusal: &Refusal) -> Problem {
        let retry_after_ms = refusal.retry_after_ms();
        Problem { retry_after_ms, ..Problem::new(Code::of(refusal), refusal.to_string()) }
    }
}

impl From<&StoreError> for Problem {
    fn from(error: &StoreError) -> Problem {
        let code = match error {
            // What was under way when the store stopped may be on disk.
            StoreError::OutcomeUnknown(_) | StoreError::Poisoned(_) => Code::OutcomeUnknown,
            StoreError::Closed => Code::Stopping,
            StoreError::NotApplied(_) => Code::StoreFailed,
        };
        Problem::new(code, error.to_string()).retry_after(1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_spelt_as_the_rules_spell_them() {
        let queue_full = Refusal::QueueFull { live: 9, max: 9, retry_after_ms: 5 };
        for refusal in [Refusal::invalid("queue", "is wrong"), Refusal::BlobMissing, queue_full] {
            assert_eq!(Code::of(&refusal).name(), refusal.code());
            assert_eq!(Problem::from(&refusal).retry_after_ms, refusal.retry_after_ms());
        }
    }

    #[test]
    fn every_code_has_a_page() {
        for code in Code::ALL {
            let page =
                format!("{}/../../docs/errors/{}.md", env!("CARGO_MANIFEST_DIR"), code.name());
            assert!(std::path::Path::new(&page).is_file(), "{page} is missing");
        }
    }
}
