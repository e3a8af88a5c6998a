//! Progress: how far the holder of a lease says it is.

use windrow_core::command::Command;
use windrow_core::limits::TEXT_MAX;
use windrow_core::trail::Progress;
use windrow_core::{Answer, ItemId};

use super::*;

fn shown<S: windrow_core::ports::Store>(bed: &Bed<S>, id: ItemId) -> Option<(u64, u64)> {
    bed.trail(id).progress.map(|progress| (progress.current, progress.total))
}

cases! {
    fn progress_is_shown(bed) {
        let id = bed.add(item());
        let held = bed.take();
        bed.try_progress(&held, 3, 10).expect("it is held");
        let progress = bed.trail(id).progress.expect("it was said");
        assert_eq!((progress.current, progress.total, &*progress.message), (3, 10, "working"));
    }

    fn progress_never_goes_back_within_an_attempt(bed) {
        let id = bed.add(item());
        let held = bed.take();
        for (said, want) in [(3, 3), (2, 3), (7, 7), (0, 7)] {
            bed.try_progress(&held, said, 10).expect("it is held");
            assert_eq!(shown(bed, id), Some((want, 10)));
        }
        bed.try_progress(&held, 1, 20).expect("it is held");
        assert_eq!(shown(bed, id), Some((1, 20)), "another total is another count");
    }

    fn a_new_attempt_begins_to_count_anew(bed) {
        let id = bed.add(item());
        let held = bed.take();
        bed.try_progress(&held, 9, 10).expect("it is held");
        bed.settle(&held, retry());
        assert_eq!(shown(bed, id), None);
        bed.advance(60_000);
        bed.try_progress(&bed.take(), 1, 10).expect("it is held");
        assert_eq!(shown(bed, id), Some((1, 10)));
    }

    fn only_the_current_lease_may_say_how_far_it_is(bed) {
        let id = bed.add(item());
        let old = bed.take();
        bed.clock.advance(300_000);
        assert_eq!(refused(bed.try_progress(&old, 1, 10)), "lease_lost");
        bed.reclaim();
        bed.advance(60_000);
        let new = bed.take();
        assert_eq!(refused(bed.try_progress(&old, 1, 10)), "lease_lost");
        assert_eq!(shown(bed, id), None);
        bed.complete(&new);
        assert_eq!(refused(bed.try_progress(&new, 1, 10)), "lease_lost");
    }

    fn progress_of_many_answers_for_each(bed) {
        bed.add_many(2);
        let held = bed.claim(2);
        bed.complete(&held[0]);
        let items = held.iter().map(|h| (h.id, Progress::default())).collect();
        let answer = bed.ask(Command::Progress { lease: held[0].lease, items });
        let Answer::Progressed(each) = answer else { panic!("{answer:?}") };
        assert!(each[0].is_err() && each[1].is_ok(), "{each:?}");
    }

    fn a_long_message_is_cut_at_a_character(bed) {
        let id = bed.add(item());
        let held = bed.take();
        let message = format!("x{}", "é".repeat(TEXT_MAX));
        let items = vec![(id, Progress { current: 0, total: 0, message })];
        bed.ask(Command::Progress { lease: held.lease, items });
        assert_eq!(bed.trail(id).progress.expect("it was said").message.len(), TEXT_MAX - 1);
    }
}
