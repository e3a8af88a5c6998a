//! Payloads that say which draft they came from, and of which every byte can be checked.

use windrow_core::item::Payload;

use crate::random::Splitmix;

const HEAD: usize = 8;

/// The payload of a draft: its number, and filling that follows from it.
pub(crate) fn payload_of(number: u64) -> Payload {
    let mut random = Splitmix(number);
    let filling = match random.below(20) {
        0 => random.below(3_000),
        1..6 => random.below(400),
        _ => random.below(64),
    };
    let mut bytes = Vec::with_capacity(HEAD + filling);
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend((0..filling).map(|_| random.draw() as u8));
    Payload::Inline(bytes)
}

/// The number of the draft that a payload came from; none if any byte of it is wrong.
pub(crate) fn number_in(payload: &Payload) -> Option<u64> {
    let Payload::Inline(bytes) = payload else { return None };
    let number = u64::from_le_bytes(bytes.get(..HEAD)?.try_into().ok()?);
    (payload_of(number) == *payload).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_names_its_draft_and_any_wrong_byte_is_noticed() {
        for number in 0..200 {
            let payload = payload_of(number);
            assert_eq!(number_in(&payload), Some(number));
            let Payload::Inline(mut bytes) = payload else { unreachable!("it is inline") };
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            assert_eq!(number_in(&Payload::Inline(bytes)), None, "{number}");
        }
    }
}
