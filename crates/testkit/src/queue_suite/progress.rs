//! Progress: how far work is, for whoever looks.

use windrow_core::ItemId;
use windrow_core::trail::Progress;

use super::only;

fn far(current: u64, message: &str) -> Progress {
    Progress { current, total: 10, message: message.into() }
}

cases! {
    fn progress_is_shown(bed) {
        bed.add(bed.item());
        let held = bed.take();
        let said = far(3, "page 3, Grüße 🌾");
        let told = bed.get(bed.port.progress(held.lease, vec![(held.id(), said.clone())]));
        assert_eq!(only(told), Ok(()));
        assert_eq!(bed.seen(held.id()).progress, Some(said));
    }

    fn progress_of_several_answers_for_each(bed) {
        let ids = bed.add_some(2);
        let granted = bed.claim(bed.asks(2)).expect("work");
        let unknown = ItemId(ids[0].0 ^ 1);
        let said = vec![(ids[0], far(1, "")), (unknown, far(1, "")), (ids[1], far(2, ""))];
        let told = bed.get(bed.port.progress(granted.lease, said));
        assert_eq!([told[0].is_ok(), told[1].is_ok(), told[2].is_ok()], [true, false, true]);
        assert_eq!(bed.seen(ids[1]).progress.map(|far| far.current), Some(2));
    }

    fn an_item_that_nobody_reported_on_shows_nothing(bed) {
        let id = bed.add(bed.item());
        assert_eq!(bed.seen(id).progress, None);
    }
}
