//! Items whose payloads no backup has.
//!
//! The log has every moment between two backups, but a blob is a file beside it: one that came
//! after the first and was deleted before the second is in neither. Sees a store as it was restored
//! and writes nothing; whether such a store counts is decided by whoever restores it.

use std::collections::HashSet;
use std::sync::Arc;

use windrow_core::item::BlobRef;
use windrow_core::{ItemId, Timestamp};
use windrow_store::moving::Export;

use crate::cli::counted;

/// Items that are looked at in one go.
const PAGE: usize = 1_000;
/// Items that a line names. JSON names all of them.
const NAMED: usize = 5;

/// The items that refer to any of these blobs, by id, and the blobs to which none does: of those
/// the count is wrong.
pub(super) async fn items_of<S: Export>(
    store: &S,
    blobs: Vec<(Arc<str>, BlobRef)>,
) -> anyhow::Result<(Vec<ItemId>, Vec<(Arc<str>, BlobRef)>)> {
    let blobs: HashSet<(Arc<str>, BlobRef)> = blobs.into_iter().collect();
    let (mut items, mut after, mut nobodys) = (Vec::new(), None, blobs.clone());
    while !blobs.is_empty() {
        let page = store.moved(after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.item.id);
        for moved in &page {
            let Some(blob) = moved.body.payload.blob() else { continue };
            let blob = (Arc::clone(&moved.body.tenant), blob);
            if blobs.contains(&blob) {
                items.push(moved.item.id);
                nobodys.remove(&blob);
            }
        }
    }
    Ok((items, nobodys.into_iter().collect()))
}

/// The first of them, and how many more there are.
pub(super) fn named(items: &[ItemId]) -> String {
    let mut names: Vec<String> = items.iter().take(NAMED).map(ToString::to_string).collect();
    if let Some(more) = items.len().checked_sub(NAMED).filter(|more| *more > 0) {
        names.push(format!("and {more} more"));
    }
    names.join(", ")
}

/// Why nothing is restored, unless these may go without their payloads. Between two backups this is
/// no damage; at the moment of one it is, unless the store itself had lost them.
pub(super) fn refused(items: &[ItemId], moment: Option<Timestamp>) -> anyhow::Error {
    let (count, names) = (counted(items.len() as u64, "item"), named(items));
    let (why, instead) = match moment {
        Some(at) => (
            format!(
                "at {at}, {count} had payloads that no backup has ({names}): what is above 16 KiB \
                 is kept apart, and came and went between two backups"
            ),
            ". The moment of a backup has all of them; --list shows which there are",
        ),
        None => (
            format!(
                "{count} have payloads that no backup has ({names}): the archive lost them, or the \
                 store itself had"
            ),
            "",
        ),
    };
    anyhow::anyhow!(
        "nothing is restored: {why}. With --without-lost-blobs all else is restored, and those \
         items without their payloads{instead}"
    )
}

#[cfg(test)]
mod tests {
    use windrow_core::id::StoreTag;

    use super::*;

    #[test]
    fn a_line_names_a_few_items_and_counts_the_others() {
        let items: Vec<ItemId> =
            (1..=7).map(|serial| ItemId::from_serial(serial, StoreTag::new(1))).collect();
        assert!(named(&items).ends_with(", and 2 more"), "{}", named(&items));
        assert_eq!(named(&items[..5]).split(", ").count(), 5);
        assert_eq!(named(&[]), "");
    }
}
