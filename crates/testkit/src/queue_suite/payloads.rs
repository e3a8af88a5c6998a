//! Payloads, results and outputs: bytes that arrive as they were sent.

use windrow_core::command::Outcome;
use windrow_core::item::Payload;
use windrow_core::limits::PAYLOAD_INLINE_MAX;

use super::{Bed, only};
use crate::suite::{Draft as _, complete_with};

/// Bytes that are easily taken for something else on their way.
const BYTES: [&[u8]; 14] = [
    b"",
    b"null",
    b"true",
    b"7",
    b"12345678901234567890123.4500",
    b"\"text\"",
    b"{\"b\":1,\"a\":1.10,\"a\":2}",
    b" {\"spaced\": 1 } ",
    b"{broken",
    b"\xff\xfe\x00\x01",
    b"\0",
    "Grüße, 世界 🌾".as_bytes(),
    b"\"\\u00e9\\ud83c\\udf3e\"",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
];

fn sent<Q: windrow_core::queue::Queue>(bed: &Bed<Q>, content_type: Option<&str>) {
    for bytes in BYTES {
        bed.add(bed.item().payload(bytes).draft(|new| {
            new.body.content_type = content_type.map(Into::into);
        }));
        let held = bed.take();
        assert_eq!(held.work.body.payload.inline(), Some(bytes), "{bytes:?}");
        let seen = bed.seen(held.id());
        assert_eq!(seen.body.payload.inline(), Some(bytes), "{bytes:?}");
        if content_type.is_some() {
            assert_eq!(seen.body.content_type.as_deref(), content_type);
        }
        bed.complete(&held);
    }
}

cases! {
    fn bytes_arrive_as_they_were_sent(bed) {
        sent(bed, None);
    }

    fn bytes_of_some_type_arrive_as_they_were_sent(bed) {
        sent(bed, Some("application/octet-stream"));
    }

    fn bytes_that_are_said_to_be_json_arrive_as_they_were_sent(bed) {
        sent(bed, Some("application/json"));
    }

    fn every_byte_may_be_in_a_payload(bed) {
        let bytes: Vec<u8> = (0..=255).collect();
        bed.add(bed.item().payload(&bytes));
        assert_eq!(bed.take().work.body.payload.inline(), Some(&*bytes));
    }

    /// Over a wire what is too large for an item is kept apart.
    fn a_payload_has_a_largest_size(bed) {
        let largest = vec![b'x'; PAYLOAD_INLINE_MAX];
        bed.add(bed.item().payload(&largest));
        assert_eq!(bed.take().work.body.payload.inline(), Some(&*largest));
        let larger = vec![b'x'; PAYLOAD_INLINE_MAX + 1];
        match only(bed.try_add(vec![bed.item().payload(&larger)])) {
            Ok(_) => {
                let kept = bed.take().work.body.payload;
                assert!(matches!(kept, Payload::Blob(blob) if blob.len == larger.len() as u64));
            }
            Err(refused) => {
                assert_eq!(&*refused.code, "invalid");
                assert!(refused.message.contains("payload"), "{refused}");
            }
        }
    }

    fn results_stay_as_they_were_told(bed) {
        for bytes in BYTES.into_iter().filter(|bytes| !bytes.is_empty()) {
            let id = bed.ended(Outcome::Complete {
                result: Some(bytes.to_vec()),
                output: None,
                spawn: Vec::new(),
            });
            assert_eq!(bed.seen(id).result.as_deref(), Some(bytes), "{bytes:?}");
        }
    }

    fn outputs_reach_the_next_stage_as_they_were_told(bed) {
        for bytes in BYTES.into_iter().filter(|bytes| !bytes.is_empty()) {
            bed.add(bed.item().route(windrow_core::route::Route::of(&["a", "b"])));
            bed.settle(&bed.take(), complete_with(bytes));
            let held = bed.take();
            assert_eq!((&*held.work.stage, held.work.input.as_deref()), ("b", Some(bytes)));
            bed.complete(&held);
        }
    }

    fn names_and_keys_may_be_in_any_script(bed) {
        let name = format!("{}/Grüße 世界?#%20..&=+\"\\", bed.name);
        let new = bed.item().queue(&name).tenant(&name).kind("Ünïcode").key("ключ/🌾");
        let id = bed.add(new.clone());
        let mut claim = windrow_core::command::Claim::new("работник", &*name, 1);
        claim.tenants = vec![name.as_str().into()];
        let granted = bed.claim(claim).expect("work");
        assert_eq!((granted.items[0].id, &granted.items[0].body), (id, &new.body));
        bed.get(bed.port.settle(granted.lease, vec![(id, Outcome::complete())], None));
        assert_eq!(bed.seen(id).stages[0].worker.as_deref(), Some("работник"));
        let scope = windrow_core::command::Scope {
            queue: name.as_str().into(),
            stage: None,
            tenant: Some(name.as_str().into()),
        };
        bed.get(bed.port.pause(scope.clone()));
        let second = bed.add(bed.item().queue(&name).tenant(&name));
        assert!(bed.why(second).contains(&"paused".to_owned()));
        bed.get(bed.port.resume(scope));
    }
}
