//! Answers and refusals on disk, so that a repeated request gets its first answer.

use windrow_core::change::Lease;
use windrow_core::command::{
    Answer, Cancelled, Deleted, EnqueueOutcome, Enqueued, Grant, Reclaimed, Renewed, Retried,
    Scope, Settled, Swept,
};
use windrow_core::item::{
    BlobRef, End, GroupNo, Item, KindNo, Marks, Place, QueueNo, RouteNo, State, Status, TenantNo,
};
use windrow_core::refusal::{Full, Refusal};
use windrow_core::trail::Ending;
use windrow_core::{ItemId, LeaseId, RequestId, Timestamp};

use super::{Malformed, Pack, Reader, pack_enum, pack_lists, pack_newtype, pack_struct};

pack_newtype!(Timestamp ItemId LeaseId RequestId QueueNo TenantNo KindNo GroupNo RouteNo);

pack_enum! {
    End { 0 = Completed, 1 = Failed, 2 = Cancelled, 3 = Skipped }
    Status {
        0 = Pending, 1 = Processing, 2 = Completed, 3 = Failed, 4 = Cancelled, 5 = Skipped,
    }
    State {
        0 = Pending { not_before }, 1 = Held { not_before }, 2 = Leased { lease }, 3 = Split,
        4 = Done(end),
    }
    Ending {
        0 = Completed, 1 = Split, 2 = Retried, 3 = Failed, 4 = Skipped, 5 = Released,
        6 = Snoozed, 7 = Expired, 8 = Cancelled,
    }
    EnqueueOutcome { 0 = Created, 1 = Duplicate, 2 = Replaced, 3 = Successor }
    Full { 0 = Memory, 1 = Disk }
}

pack_struct! {
    Place { parent, generation, ordinal, level }
    Item {
        id, queue, tenant, kind, group, route, priority, stage, state, attempts, deferrals,
        generation, skipped, place, marks,
    }
    Lease { id, worker, granted, renewed, expires, lease_ms, items }
    Scope { queue, stage, tenant }
    Enqueued { id, outcome }
    Renewed { expires_at, held }
    Settled { id, ending }
    Cancelled { id, ongoing }
    Retried { id, reset, more }
    Deleted { removed, more }
    Reclaimed { leases, items, more }
    Swept { cancelled, folded, removed, more }
}

pack_lists! {
    ItemId,
    Item,
    Result<Enqueued, Refusal>,
    Result<Settled, Refusal>,
    Result<Cancelled, Refusal>,
    Result<Retried, Refusal>,
    Result<Deleted, Refusal>,
    Result<(), Refusal>,
}

impl Pack for Marks {
    fn put(&self, out: &mut Vec<u8>) {
        self.bits().put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Marks, Malformed> {
        from.get().map(Marks::from_bits)
    }
}

impl Pack for BlobRef {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.hash);
        self.len.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<BlobRef, Malformed> {
        let hash = from.take(32)?.try_into().map_err(|_| Malformed)?;
        Ok(BlobRef { hash, len: from.get()? })
    }
}

impl Pack for Grant<Item> {
    fn put(&self, out: &mut Vec<u8>) {
        self.lease.put(out);
        self.expires_at.put(out);
        self.items.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Grant<Item>, Malformed> {
        Ok(Grant { lease: from.get()?, expires_at: from.get()?, items: from.get()? })
    }
}

/// Field names in refusals are static; on disk they are text.
fn known_field(text: &str) -> &'static str {
    const FIELDS: &[&str] = &[
        "blob",
        "branch",
        "bytes",
        "children",
        "collection",
        "content_type",
        "from_stage",
        "group",
        "items",
        "key",
        "kind",
        "lease_ms",
        "metadata",
        "name",
        "not_before",
        "note",
        "op",
        "ordinal",
        "outcome",
        "output",
        "payload",
        "priority",
        "queue",
        "rate",
        "ref",
        "resource",
        "rest_max_ms",
        "rest_ms",
        "result",
        "route",
        "scope",
        "shelf",
        "source_info",
        "source_type",
        "spawn",
        "stage",
        "tenant",
        "tenants",
        "verb",
        "webhook",
        "window_ms",
        "worker",
    ];
    FIELDS.iter().find(|field| **field == text).copied().unwrap_or("field")
}

type Answered = Answer<Item>;

pack_enum! {
    Answered {
        0 = Enqueued(each), 1 = Claimed(grant), 2 = Renewed(renewed), 3 = Progressed(each),
        4 = Settled(each), 5 = Cancelled(each), 6 = Retried(each), 7 = Deleted(each),
        8 = Prioritised(each), 9 = Done, 10 = Reclaimed(reclaimed), 11 = Swept(swept),
        12 = Refused(refusal), 13 = Noted(version),
    }
}

impl Pack for &'static str {
    fn put(&self, out: &mut Vec<u8>) {
        super::put_bytes(out, self.as_bytes());
    }
    fn get(from: &mut Reader<'_>) -> Result<&'static str, Malformed> {
        from.text().map(known_field)
    }
}

pack_enum! {
    Refusal {
        0 = Invalid { field, why },
        1 = NotFound { item },
        2 = LeaseLost { lease },
        3 = AlreadyDone { item, status },
        4 = StillLive { item, status },
        5 = NotResettable { item, status },
        6 = KeyInUse { by },
        7 = UnderCancelled { ancestor },
        8 = NotARoot { item },
        9 = NoSuchStage { item, stage },
        10 = QueueFull { live, max, retry_after_ms },
        11 = StoreFull { what, retry_after_ms },
        12 = BlobMissing,
        13 = RequestReused,
        14 = Unreadable { item, what },
        15 = Internal,
        16 = Changed { version },
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The fields that the rules name where they refuse, by their sources.
    fn named(folder: &Path, into: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                named(&path, into);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a text");
            for rest in text.split("Refusal::invalid(\"").skip(1) {
                into.extend(rest.split('"').next().map(str::to_owned));
            }
        }
    }

    #[test]
    fn every_field_that_the_rules_refuse_is_read_as_it_was_written() {
        let mut fields = Vec::new();
        named(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src"), &mut fields);
        assert!(fields.len() > 15, "{fields:?}");
        for field in fields {
            assert_eq!(known_field(&field), field, "add it to FIELDS");
        }
    }
}
