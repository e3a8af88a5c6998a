//! When to try again: the delay before an attempt, and the jitter that keeps retries apart.

use crate::id::ItemId;
use crate::settings::Backoff;
use crate::trail::Class;

/// How long an item waits after `attempts` failed attempts: 10, 20, 40 … 300 s, ± 10 %.
///
/// The jitter is a function of the item and the attempt, so deciding twice gives the same answer.
pub fn delay_ms(backoff: &Backoff, class: Class, attempts: u16, item: ItemId) -> u64 {
    let slow = class == Class::Infrastructure;
    let (base, cap) = if slow {
        (backoff.slow_base_ms, backoff.slow_cap_ms)
    } else {
        (backoff.base_ms, backoff.cap_ms)
    };
    let doublings = u32::from(attempts.max(1) - 1).min(40);
    let full = base.saturating_mul(1 << doublings).min(cap);
    let span = full / 5;
    full - span / 2 + spread(item, attempts) % (span + 1)
}

/// A number that looks random, from an item and an attempt.
fn spread(item: ItemId, attempts: u16) -> u64 {
    let mut x = item.serial() ^ u64::from(attempts) << 48 ^ 0x9e37_79b9_7f4a_7c15;
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::StoreTag;

    #[test]
    fn the_delay_doubles_from_ten_seconds_to_five_minutes_within_a_tenth() {
        let check = |class, attempts, want_s: u64| {
            for serial in 0..500 {
                let id = ItemId::from_serial(serial, StoreTag::default());
                let got = delay_ms(&Backoff::default(), class, attempts, id);
                let (low, high) = (want_s * 900, want_s * 1_100);
                assert!((low..=high).contains(&got), "attempt {attempts}: {got} ms");
            }
        };
        let table = [(1, 10), (2, 20), (3, 40), (4, 80), (5, 160), (6, 300), (7, 300)];
        for (attempts, want_s) in table {
            check(Class::Other, attempts, want_s);
        }
        check(Class::Other, u16::MAX, 300);
        check(Class::Infrastructure, 1, 60);
        check(Class::Infrastructure, 9, 3_600);
    }

    #[test]
    fn items_that_failed_together_do_not_come_back_together() {
        let delay = |serial| {
            let id = ItemId::from_serial(serial, StoreTag::default());
            delay_ms(&Backoff::default(), Class::Other, 1, id)
        };
        let mut delays: Vec<u64> = (0..100).map(delay).collect();
        delays.sort_unstable();
        delays.dedup();
        assert!(delays.len() > 80, "{} different delays", delays.len());
    }
}
