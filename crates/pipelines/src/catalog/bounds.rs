//! Bounds: what a catalog takes in, the same for every database.
//!
//! PostgreSQL stores no NUL in a text and indexes no long one; a row that one database takes and
//! another refuses would make them differ. So what is refused is refused here, before either.

use super::error::CatalogError;

/// Tenants, collections, kinds, phases: whatever is a name.
pub const NAME_BYTES_MAX: usize = 128;
/// What a document is found by again.
pub const SOURCE_BYTES_MAX: usize = 1_024;
/// What a document is shown as.
pub const TITLE_BYTES_MAX: usize = 512;
/// Where a document's bytes are.
pub const PLACE_BYTES_MAX: usize = 2_048;
/// Why something is not there, or what an entity is.
pub const REASON_BYTES_MAX: usize = 4_096;
/// The Markdown of one page.
pub const MARKDOWN_BYTES_MAX: usize = 16 << 20;
/// The text of one chunk.
pub const CHUNK_BYTES_MAX: usize = 256 << 10;
/// What a chunk carries beside its text.
pub const METADATA_BYTES_MAX: usize = 16 << 10;
/// What is remembered under one key.
pub const MEMO_BYTES_MAX: usize = 64 << 20;
/// Numbers in one vector.
pub const DIMENSIONS_MAX: usize = 16_384;
/// Pages of a document.
pub const PAGES_MAX: u32 = 1_000_000;
/// Chunks of a page, and rows in one call.
pub const BATCH_MAX: usize = 10_000;
/// Entities, and relationships, of one chunk.
pub const GRAPH_MAX: usize = 1_000;
/// Rows of one answer.
pub const LIMIT_MAX: u32 = 1_000;

/// A text that may be empty.
pub(super) fn text(what: &str, value: &str, bytes_max: usize) -> Result<(), CatalogError> {
    if value.len() > bytes_max {
        let length = value.len();
        let why = format!("{what} has {length} bytes, and at most {bytes_max} are taken");
        return Err(CatalogError::Bad { why });
    }
    if value.contains('\0') {
        return Err(CatalogError::bad(format!("{what} has a NUL in it")));
    }
    Ok(())
}

/// A text that something is called or found by.
pub(super) fn name(what: &str, value: &str, bytes_max: usize) -> Result<(), CatalogError> {
    if value.is_empty() {
        return Err(CatalogError::bad(format!("{what} is empty")));
    }
    text(what, value, bytes_max)
}

/// Texts that somebody looks for. One with a NUL is in no catalog, and no database need be asked.
pub(super) fn asked<'a>(values: impl IntoIterator<Item = &'a str>) -> Result<(), CatalogError> {
    values.into_iter().try_for_each(|value| text("what is asked for", value, usize::MAX))
}

/// As many rows as one answer has.
pub(super) fn rows(limit: u32) -> u32 {
    limit.clamp(1, LIMIT_MAX)
}

/// How many there are in one call.
pub(super) fn count(what: &str, given: usize, max: usize) -> Result<(), CatalogError> {
    if given > max {
        let why = format!("{given} {what} at once, and at most {max} are taken");
        return Err(CatalogError::Bad { why });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_database_should_see_is_refused_with_what_is_wrong() {
        let check = |result: Result<(), CatalogError>, part: &str| match result {
            Err(CatalogError::Bad { why }) => assert!(why.contains(part), "{why}"),
            other => panic!("{other:?}"),
        };
        check(name("a tenant", "", 8), "a tenant is empty");
        check(name("a tenant", "123456789", 8), "9 bytes, and at most 8");
        check(text("a text", "a\0b", 8), "a text has a NUL");
        check(count("chunks", 3, 2), "3 chunks at once, and at most 2");
        assert_eq!(text("a text", "", 8), Ok(()));
        assert_eq!(name("a tenant", "12345678", 8), Ok(()));
    }
}
