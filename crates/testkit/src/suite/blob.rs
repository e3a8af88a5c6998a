//! Blobs: a payload kept apart must be there before anything refers to it, and goes with its last
//! reference.

use windrow_core::command::{Command, NewChild};
use windrow_core::item::{BlobRef, Payload};
use windrow_core::limits::BLOB_MAX;
use windrow_core::{Answer, Refusal};

use super::*;

fn child_with(number: u32, blob: BlobRef) -> NewChild {
    NewChild { payload: Payload::Blob(blob), ..child(number) }
}

cases! {
    fn an_item_is_refused_until_its_blob_is_here(bed) {
        let payload = blob(1, 100_000);
        assert_eq!(refused(bed.try_enqueue(item().with_blob(payload))), "blob_missing");
        bed.upload(payload);
        bed.add(item().with_blob(payload));
        assert_eq!(bed.take().work.body.payload, Payload::Blob(payload));
    }

    fn a_blob_belongs_to_one_tenant(bed) {
        bed.upload(blob(1, 100));
        let foreign = item().tenant("u").with_blob(blob(1, 100));
        assert_eq!(refused(bed.try_enqueue(foreign)), "blob_missing");
    }

    fn a_blob_goes_with_its_last_reference(bed) {
        let payload = blob(1, 100);
        bed.upload(payload);
        let ids = [bed.add(item().with_blob(payload)), bed.add(item().with_blob(payload))];
        for id in ids {
            bed.enqueue(item().with_blob(payload).key("probe"));
            bed.cancel(bed.everything().last().expect("the probe").item.id);
            bed.try_delete(bed.everything().last().expect("the probe").item.id).expect("deleted");
            bed.cancel(id);
            bed.try_delete(id).expect("it is deleted");
        }
        assert_eq!(refused(bed.try_enqueue(item().with_blob(payload))), "blob_missing");
    }

    fn a_failed_item_keeps_its_blob_for_a_retry(bed) {
        bed.upload(blob(1, 100));
        let id = bed.add(item().with_blob(blob(1, 100)));
        bed.settle(&bed.take(), fail());
        bed.retry(id);
        assert_eq!(bed.take().work.body.payload, Payload::Blob(blob(1, 100)));
    }

    fn a_replaced_payload_gives_up_its_blob(bed) {
        bed.upload(blob(1, 100));
        bed.upload(blob(2, 100));
        bed.add(item().key("k").with_blob(blob(1, 100)));
        bed.add(item().key("k").with_blob(blob(2, 100)).replacing());
        assert_eq!(refused(bed.try_enqueue(item().with_blob(blob(1, 100)))), "blob_missing");
        bed.add(item().key("k").with_blob(blob(2, 100)).replacing());
        bed.add(item().key("k").payload(b"inline").replacing());
        assert_eq!(refused(bed.try_enqueue(item().with_blob(blob(2, 100)))), "blob_missing");
    }

    fn a_clone_holds_on_to_the_blob_by_itself(bed) {
        bed.upload(blob(1, 100));
        let first = bed.add(item().with_blob(blob(1, 100)));
        bed.settle(&bed.take(), fail());
        let copy = bed.clone_item(first);
        bed.try_delete(first).expect("it is deleted");
        let held = bed.take();
        assert_eq!((held.id, held.work.body.payload.clone()), (copy, Payload::Blob(blob(1, 100))));
        bed.complete(&held);
        bed.add(item().with_blob(blob(1, 100)));
    }

    fn children_may_share_a_blob_and_need_it_to_be_here(bed) {
        let parent = bed.add(item());
        let held = bed.take();
        let three = || (0..3).map(|n| child_with(n, blob(1, 100))).collect::<Vec<_>>();
        assert_eq!(refused(bed.try_settle(&held, split(three()))), "blob_missing");
        bed.upload(blob(1, 100));
        bed.split(&held, three());
        bed.drain();
        bed.add(item().with_blob(blob(1, 100)));
        bed.complete(&bed.take());
        bed.try_delete(parent).expect("the tree is deleted");
        let left = bed.everything()[0].item.id;
        bed.add(item().with_blob(blob(1, 100)));
        bed.complete(&bed.take());
        bed.try_delete(left).expect("it is deleted");
        let last = bed.everything()[0].item.id;
        bed.try_delete(last).expect("it is deleted");
        assert_eq!(refused(bed.try_enqueue(item().with_blob(blob(1, 100)))), "blob_missing");
    }

    fn a_forgotten_item_gives_up_its_blob(bed) {
        bed.configure(|settings| settings.forget_completed = true);
        bed.upload(blob(1, 100));
        bed.add(item().with_blob(blob(1, 100)));
        bed.complete(&bed.take());
        assert_eq!(bed.everything(), []);
        assert_eq!(refused(bed.try_enqueue(item().with_blob(blob(1, 100)))), "blob_missing");
    }

    fn a_folded_tree_gives_up_its_blobs(bed) {
        bed.upload(blob(1, 100));
        let parent = bed.add(item());
        bed.split(&bed.take(), vec![child_with(0, blob(1, 100)), child_with(1, blob(1, 100))]);
        bed.drain();
        bed.advance(windrow_core::limits::FOLD_AFTER_MS + 1_001);
        assert_eq!(bed.sweep().folded, 1);
        bed.see(parent);
        assert_eq!(refused(bed.try_enqueue(item().with_blob(blob(1, 100)))), "blob_missing");
    }

    fn a_blob_that_nothing_refers_to_is_kept_until_it_is_forgotten(bed) {
        let forget = |blob| bed.ask(Command::ForgetBlob { tenant: TENANT.into(), blob });
        bed.upload(blob(1, 100));
        bed.advance(100 * 86_400_000);
        bed.sweep();
        let id = bed.add(item().with_blob(blob(1, 100)));
        assert_eq!(forget(blob(1, 100)), Answer::Done);
        assert_eq!(bed.take().work.body.payload, Payload::Blob(blob(1, 100)), "it is in use");
        bed.add(item().with_blob(blob(1, 100)));
        bed.see(id);
        bed.upload(blob(2, 100));
        assert_eq!(forget(blob(2, 100)), Answer::Done);
        assert_eq!(refused(bed.try_enqueue(item().with_blob(blob(2, 100)))), "blob_missing");
        assert_eq!(forget(blob(3, 100)), Answer::Done, "it is not there");
        assert_eq!(refused(bed.try_enqueue(item().with_blob(blob(3, 100)))), "blob_missing");
    }

    fn a_blob_has_at_most_64_mebibytes(bed) {
        let upload = |len| bed.ask(Command::Blob { tenant: TENANT.into(), blob: blob(1, len) });
        assert_eq!(upload(BLOB_MAX), Answer::Done);
        assert!(matches!(upload(BLOB_MAX + 1), Answer::Refused(Refusal::Invalid { .. })));
    }
}
