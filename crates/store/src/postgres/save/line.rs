//! The line: who leaves it and who comes.

use windrow_core::{Item, ItemId, State};

use super::{OUT_OF_LINE, Saving, serials};
use crate::postgres::tx::{Tid, step};

/// Of rows that this transaction has locked.
const TAKEN: &str = "delete from windrow.line where ctid = any ($1)";

const COMES: &str = "insert into windrow.line \
     select * from unnest($1::int[], $2::smallint[], $3::int[], $4::bigint[])";

impl Saving<'_> {
    /// What was claimed or changed leaves its place, before its row says that it is elsewhere.
    pub(super) fn out_of_line(&mut self) {
        let desk = self.desk;
        let waited = |id: &&ItemId| {
            let was = desk.items.was(*id);
            was.is_some_and(|item| matches!(item.state, State::Pending { .. }))
        };
        let changed = desk.items.decided().map(|(id, _)| id);
        let changed = changed.filter(|id| !desk.decided.removed.contains(*id));
        let (mut taken, mut others): (Vec<Tid>, Vec<ItemId>) = (Vec::new(), Vec::new());
        for id in changed.filter(waited) {
            match desk.places.get(id) {
                Some(place) => taken.push(*place),
                None => others.push(*id),
            }
        }
        if !taken.is_empty() {
            self.step(step!(TAKEN, taken));
        }
        if !others.is_empty() {
            self.step(step!(OUT_OF_LINE, serials(&others)));
        }
    }

    /// What waits now and may be claimed. Also what only changed gets another row: a body, too, is
    /// never replaced without its item.
    pub(super) fn in_line(&mut self) {
        let desk = self.desk;
        let mut come: Vec<(&Item, _)> = desk
            .items
            .decided()
            .filter_map(|(_, item)| item.and_then(|item| Some((item, desk.spot(item)?))))
            .collect();
        if come.is_empty() {
            return;
        }
        come.sort_unstable_by_key(|(item, _)| item.id);
        let lanes: Vec<i32> = come.iter().map(|(_, spot)| spot.lane as i32).collect();
        let classes: Vec<i16> = come.iter().map(|(_, spot)| i16::from(spot.class)).collect();
        let tenants: Vec<i32> = come.iter().map(|(_, spot)| spot.tenant as i32).collect();
        let items = serials(come.iter().map(|(item, _)| &item.id));
        self.step(step!(COMES, lanes, classes, tenants, items));
    }

    /// Whether all that happened to an item that was in line is that somebody claimed it. Then its
    /// lease says so, and its row need not.
    pub(super) fn goes_out(&self, was: &Item, is: &Item) -> bool {
        let attempts = was.attempts.saturating_add(1);
        let claimed = Item { state: is.state, attempts, ..*was };
        is.lease().is_some() && claimed == *is && self.desk.places.contains_key(&is.id)
    }
}
