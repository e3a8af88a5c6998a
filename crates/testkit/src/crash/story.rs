//! The story of an item: every report that was ever made of it.

use std::path::Path;

use windrow_core::ItemId;

/// What a file of reports says of an item, a line for each.
pub(super) fn of_item(reports: &Path, id: ItemId) -> String {
    let id = format!("{:x}", id.0);
    let reports = std::fs::read_to_string(reports).unwrap_or_default();
    let own = reports.lines().filter(|line| line.contains(&id));
    own.map(|line| format!("  {}\n", shortened(line, &id))).collect()
}

/// The words of a report that say what it is and what it says of one item.
fn shortened(line: &str, id: &str) -> String {
    let words = line.split(' ').enumerate();
    let own = words.filter(|(at, word)| *at < 4 || word.contains(id)).map(|(_, word)| word);
    own.collect::<Vec<_>>().join(" ")
}
