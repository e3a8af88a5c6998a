//! Where a message ends in a stream of bytes.
//!
//! A message begins with the number of its segments less one and the length of each, 32 bits wide
//! and padded to whole words of 8 bytes; then come their words.

/// Segments of a message. Who writes one needs a few.
const SEGMENTS_MAX: u64 = 512;

/// How long the message is that these bytes begin with, once they tell. One that is longer than
/// `max` is refused as soon as that shows.
pub fn length(bytes: &[u8], max: u64) -> Result<Option<usize>, String> {
    let entry = |at: usize| {
        let four = bytes.get(at * 4..at * 4 + 4)?;
        four.try_into().ok().map(|four| u64::from(u32::from_le_bytes(four)))
    };
    let Some(count) = entry(0).map(|less_one| less_one + 1) else { return Ok(None) };
    if count > SEGMENTS_MAX {
        return Err(format!("a message has {count} segments; at most {SEGMENTS_MAX}"));
    }
    let mut all = (count + 1).div_ceil(2) * 8;
    for at in 1..=count {
        let Some(words) = entry(at as usize) else { return Ok(None) };
        all += words * 8;
        if all > max {
            return Err(format!("a message has {all} bytes or more; at most {max}"));
        }
    }
    Ok(Some(all as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 1 << 20;

    fn head(lengths: &[u32]) -> Vec<u8> {
        let mut bytes = (lengths.len() as u32 - 1).to_le_bytes().to_vec();
        lengths.iter().for_each(|length| bytes.extend(length.to_le_bytes()));
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn a_message_is_as_long_as_its_head_says() {
        for lengths in [&[3][..], &[1, 2], &[1, 0, 2], &[0, 1, 2, 3], &[0]] {
            let head = head(lengths);
            let words: u32 = lengths.iter().sum();
            let whole = head.len() + words as usize * 8;
            for at in 0..4 * (lengths.len() + 1) {
                assert_eq!(length(&head[..at], MAX), Ok(None), "{lengths:?}, {at}");
            }
            assert_eq!(length(&head, MAX), Ok(Some(whole)), "{lengths:?}");
            let more = [&head[..], &[7; 100]].concat();
            assert_eq!(length(&more, MAX), Ok(Some(whole)), "whatever follows {lengths:?}");
        }
    }

    #[test]
    fn a_message_that_is_too_large_is_refused_by_its_head() {
        let largest = (MAX / 8) as u32 - 1;
        assert!(length(&head(&[largest]), MAX).is_ok());
        for lengths in [&[largest + 1][..], &[largest, 3], &[u32::MAX], &[1, 1, u32::MAX, 1]] {
            assert!(length(&head(lengths), MAX).is_err(), "{lengths:?}");
        }
        assert!(length(&[0xff; 8], MAX).is_err());
        assert!(length(&head(&[u32::MAX, 1])[..8], MAX).is_err(), "before the rest of the head");
    }
}
