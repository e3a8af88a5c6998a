//! What is past its keeping: ended roots that are too old, or of whose owner there are too many.
//!
//! They are looked for from the oldest on, some at a time, and what others keep is not walked over:
//! a chunk of history remembers when the first of its roots will be too old, and an owner in which
//! chunk its first root may be. Both may be too early, which costs a look, and are never too late.

use std::collections::BTreeSet;

use hashbrown::{HashMap, HashSet};
use windrow_core::Timestamp;

use super::owners::Owners;
use super::schedule::history::{Chunk, History};
use super::settings::QueueSettings;

/// The serials of at most `limit` roots that may go.
pub(crate) fn past_keeping(
    history: &History,
    owners: &Owners,
    settings: &QueueSettings,
    now: Timestamp,
    limit: usize,
) -> Vec<u64> {
    let mut excess = Excess::of(owners, settings);
    let shortest_ms = settings.shortest_age_ms();
    let mut due = Vec::new();
    for chunk in history.chunks() {
        if !may_be_due(chunk, &excess, now, shortest_ms) {
            continue;
        }
        let (mut seen, mut next_ms, due_before) = (HashSet::new(), u64::MAX, due.len());
        for entry in chunk.by_end().into_iter().filter(|entry| entry.root) {
            if due.len() >= limit {
                return due;
            }
            let max_age_ms = settings.keeps(owners.get(entry.owner).queue).max_age_ms;
            let until = Timestamp(entry.ended_s * 1_000).plus(max_age_ms);
            let is_one_too_many = excess.take(entry.owner, owners);
            if is_one_too_many {
                seen.insert(entry.owner);
            }
            if is_one_too_many || now > until {
                due.push(entry.serial);
            } else {
                next_ms = next_ms.min(until.0);
            }
        }
        // More may still come into the last one.
        if chunk.is_sealed() {
            if due.len() == due_before {
                chunk.due_ms.set(next_ms);
            }
            excess.pass(chunk.number(), &seen, owners);
        }
    }
    due
}

fn may_be_due(chunk: &Chunk, excess: &Excess, now: Timestamp, shortest_ms: u64) -> bool {
    let is_old = now > Timestamp(chunk.base_s() * 1_000).plus(shortest_ms);
    is_old && now.0 > chunk.due_ms.get() || excess.may_be_in(chunk.number())
}

/// Owners that keep too much.
struct Excess {
    /// How many roots of each have to go.
    left: HashMap<u32, u32>,
    /// The chunk in which the first root of each may be.
    first: BTreeSet<(u64, u32)>,
}

impl Excess {
    fn of(owners: &Owners, settings: &QueueSettings) -> Excess {
        let (mut left, mut first) = (HashMap::new(), BTreeSet::new());
        for no in owners.over().iter().copied() {
            let owner = owners.get(no);
            let many = owner.kept.saturating_sub(settings.keeps(owner.queue).max_per_tenant);
            if many > 0 {
                left.insert(no, many);
                first.insert((owner.first_chunk.get(), no));
            }
        }
        Excess { left, first }
    }

    fn may_be_in(&self, chunk: u64) -> bool {
        self.first.first().is_some_and(|(first, _)| *first <= chunk)
    }

    /// A root of an owner was come by: whether it is one too many.
    fn take(&mut self, owner: u32, owners: &Owners) -> bool {
        let Some(left) = self.left.get_mut(&owner) else { return false };
        *left -= 1;
        if *left == 0 {
            self.left.remove(&owner);
            self.first.remove(&(owners.get(owner).first_chunk.get(), owner));
        }
        true
    }

    /// All of a chunk was looked at: those of whom it had nothing begin after it.
    fn pass(&mut self, chunk: u64, seen: &HashSet<u32>, owners: &Owners) {
        let until = (chunk, u32::MAX);
        let begun: Vec<_> = self.first.range(..=until).copied().collect();
        for (first, owner) in begun.into_iter().filter(|(_, owner)| !seen.contains(owner)) {
            self.first.remove(&(first, owner));
            self.first.insert((chunk + 1, owner));
            owners.get(owner).first_chunk.set(chunk + 1);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng};
    use windrow_core::item::End;
    use windrow_core::settings::{Retention, Settings};

    use super::super::log::Loc;
    use super::super::schedule::history::Entry;
    use super::*;

    const START_S: u64 = 1_000_000;

    /// What is kept, changed as the store changes it.
    #[derive(Default)]
    struct Kept {
        history: History,
        owners: Owners,
        settings: QueueSettings,
        serial: u64,
        /// The same, to look through from the beginning.
        entries: Vec<Entry>,
    }

    impl Kept {
        fn end(&mut self, (queue, tenant): (u32, u32), ended_s: u64, root: bool) {
            self.serial += 1;
            let (serial, end, owner) =
                (self.serial, End::Completed, self.owners.number(queue, tenant));
            let entry = Entry { serial, at: Loc::new(1, 8).unwrap(), owner, end, root, ended_s };
            self.history.push(entry);
            self.entries.push(entry);
            if root {
                self.owners.kept(owner, true, self.settings.keeps(queue).max_per_tenant);
            }
        }

        fn remove(&mut self, serial: u64) {
            let entry = self.history.remove(serial).unwrap();
            self.entries.retain(|known| known.serial != serial);
            if entry.root {
                let queue = self.owners.get(entry.owner).queue;
                self.owners.kept(entry.owner, false, self.settings.keeps(queue).max_per_tenant);
            }
        }

        fn keep(&mut self, queue: u32, max_age_s: u64, max_per_tenant: u32) {
            let retention = Retention { max_age_ms: max_age_s * 1_000, max_per_tenant };
            let settings = Settings { retention, ..Settings::default() };
            self.settings.say(queue, &format!("queue {queue}"), Arc::new(settings));
            self.owners.review(|queue| self.settings.keeps(queue).max_per_tenant);
            self.history.forget_ages();
        }

        fn due(&self, now_s: u64, limit: usize) -> Vec<u64> {
            let now = Timestamp(now_s * 1_000);
            past_keeping(&self.history, &self.owners, &self.settings, now, limit)
        }

        /// The same, found by looking at everything.
        fn expected(&self, now_s: u64, limit: usize) -> Vec<u64> {
            let many = |no: u32| {
                let owner = self.owners.get(no);
                owner.kept.saturating_sub(self.settings.keeps(owner.queue).max_per_tenant)
            };
            let mut come_by: HashMap<u32, u32> = HashMap::new();
            let mut is_due = |entry: &&Entry| {
                let max_age_ms = self.settings.keeps(self.owners.get(entry.owner).queue).max_age_ms;
                let before = come_by.entry(entry.owner).or_default();
                *before += 1;
                *before <= many(entry.owner) || now_s * 1_000 > entry.ended_s * 1_000 + max_age_ms
            };
            let roots = self.entries.iter().filter(|entry| entry.root);
            roots.filter(|entry| is_due(entry)).take(limit).map(|entry| entry.serial).collect()
        }

        /// How many chunks are looked at.
        fn looked_at(&self, now_s: u64) -> usize {
            let excess = Excess::of(&self.owners, &self.settings);
            let (now, shortest_ms) = (Timestamp(now_s * 1_000), self.settings.shortest_age_ms());
            let may = |chunk: &&Chunk| may_be_due(chunk, &excess, now, shortest_ms);
            self.history.chunks().filter(may).count()
        }
    }

    #[test]
    fn what_is_found_is_what_a_look_at_everything_finds() {
        let (mut kept, mut random) = (Kept::default(), StdRng::seed_from_u64(7));
        kept.keep(0, 4_000, 400);
        kept.keep(1, 900, 5_000);
        let mut now_s = START_S;
        for round in 0..400 {
            for _ in 0..random.random_range(0..250) {
                // Some are busy and some are not.
                let busy: u32 = random.random_range(0..40);
                let owner = (busy % 3, busy * busy / 100);
                kept.end(owner, now_s, random.random_ratio(9, 10));
                now_s += u64::from(random.random_ratio(1, 20));
            }
            for _ in 0..random.random_range(0..4) {
                if let Some(entry) = kept.entries.get(random.random_range(0..50_000usize)) {
                    kept.remove(entry.serial);
                }
            }
            if round % 60 == 59 {
                let max = random.random_range(50..600);
                kept.keep(random.random_range(0..3), random.random_range(300..6_000), max);
            }
            for _ in 0..random.random_range(0..3) {
                let limit = random.random_range(1..300);
                let due = kept.due(now_s, limit);
                assert_eq!(due, kept.expected(now_s, limit), "round {round}");
                due.into_iter().for_each(|serial| kept.remove(serial));
            }
        }
        assert!(kept.serial > 30_000, "{} are too few for several chunks", kept.serial);
    }

    #[test]
    fn what_others_keep_is_not_walked_over_again() {
        let mut kept = Kept::default();
        kept.keep(9, 10, 5_000);
        for number in 0..100_000 {
            kept.end((0, number % 100), START_S, true);
        }
        for _ in 0..10_000 {
            kept.end((1, 0), START_S, true);
        }
        let now_s = START_S + 1_000;
        assert!(kept.looked_at(now_s) > 30, "nobody knows yet");
        let due = kept.due(now_s, 1_000);
        assert_eq!((due.len(), due[0]), (1_000, 100_001));
        due.into_iter().for_each(|serial| kept.remove(serial));
        assert!(kept.looked_at(now_s) < 6, "{} chunks", kept.looked_at(now_s));
        kept.due(now_s, 4_000).into_iter().for_each(|serial| kept.remove(serial));
        assert!(kept.due(now_s, 1_000).is_empty());
        assert!(kept.looked_at(now_s) < 2, "{} chunks", kept.looked_at(now_s));
    }
}
