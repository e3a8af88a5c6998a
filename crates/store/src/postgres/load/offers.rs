//! What is first in line for claims.

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::Row;
use windrow_core::command::Scope;
use windrow_core::{ItemId, Timestamp};

use super::{Asked, Loading, Round, serials};
use crate::postgres::Error;
use crate::postgres::ledger::matches;
use crate::postgres::line::Spot;
use crate::postgres::names::{LaneName, Names};
use crate::postgres::needs::{Filter, Needs, Wanted};
use crate::postgres::seats::{Ask, Look};
use crate::postgres::tx::{Step, step};

/// A claim that is being looked for.
pub(super) struct Asking {
    filter: Filter,
    lanes: Vec<Open>,
    only: Option<Vec<u32>>,
    wanted: usize,
    /// Lanes that are left out.
    without: BTreeSet<u32>,
    not_serials: Vec<i64>,
    /// What is asked in the next round trip.
    asks: Vec<Ask>,
    /// What was asked of each seat so far.
    asked: BTreeMap<(u32, u8, u32), Ask>,
    found: BTreeSet<ItemId>,
    has_looked: bool,
}

/// A lane that is not paused as a whole, and the tenants that are.
struct Open {
    lane: u32,
    closed_to: Vec<u32>,
}

impl Asking {
    pub(super) fn asks(&self) -> bool {
        !self.asks.is_empty()
    }

    fn is_open(&self, open: &Open, tenant: u32) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&tenant))
            && !open.closed_to.contains(&tenant)
    }
}

const DUE: &str = "with due as (update windrow.items set spot = 1 where serial in (\
         select serial from windrow.items where spot = 2 and not_before <= \
           coalesce($1, (extract(epoch from clock_timestamp()) * 1000)::bigint) \
         order by not_before limit 10000 for update skip locked) \
       returning lane, class, tenant, serial) \
     insert into windrow.line select * from due returning lane, class, tenant, serial";

/// The first items in line at some seats, their places locked. Nobody waits: what another claim
/// looks at is left out. A place is locked as it is now; item and body are as they were when the
/// statement began, which is the same while the place is. What lies beside is read later.
const OFFER: &str = "select i.serial, i.queue, i.tenant, i.lane, i.route, i.stage, i.priority, \
       i.attempts, i.deferrals, i.generation, i.skipped, i.marks, i.grp, i.parent, \
       i.place_generation, i.ordinal, i.level, i.key, i.not_before, i.at, \
       b.op, b.collection, b.branch, b.source_type, b.source_info, b.reference, b.content_type, \
       b.payload, b.blob, b.blob_bytes, b.metadata, b.cloned_from \
     from unnest($1::int[], $2::smallint[], $3::int[], $4::bigint[], $5::int[]) \
       s (lane, class, tenant, first, most) \
     cross join lateral (select i.*, l.ctid as at from windrow.line l \
       join windrow.items i on i.serial = l.serial and i.lane = l.lane and i.class = l.class \
         and i.tenant = l.tenant \
       where l.lane = s.lane and l.class = s.class and l.tenant = s.tenant \
         and l.serial >= s.first and l.serial <> all ($6::bigint[]) \
       order by l.serial limit s.most for update of l skip locked) i \
     join windrow.bodies b on b.serial = i.serial";

/// Puts items in line whose time has come, by the database's clock if none is given.
pub(in crate::postgres) fn show_due(now: Option<Timestamp>) -> Step {
    step!(DUE, now.map(|now| now.0 as i64))
}

/// Where an item that came in line stands, and its serial.
pub(in crate::postgres) fn came(row: &Row) -> (Spot, u64) {
    let no = |at: usize| row.get::<_, i32>(at) as u32;
    let spot = Spot { lane: no(0), class: row.get::<_, i16>(1) as u8, tenant: no(2) };
    (spot, row.get::<_, i64>(3) as u64)
}

impl Loading<'_> {
    pub(super) async fn begin_offers(&mut self, needs: &mut Needs) -> Result<Vec<Asking>, Error> {
        let aside = std::mem::take(&mut needs.aside);
        let not_serials = serials(aside);
        let offers = std::mem::take(&mut needs.offers);
        let mut all: Vec<Asking> = offers
            .into_iter()
            .map(|(filter, wanted)| self.asking(filter, wanted, not_serials.clone()))
            .collect();
        for asking in &mut all {
            self.look_if_due(asking).await?;
            self.ask_more(asking);
        }
        Ok(all)
    }

    /// Now and then everything is looked at, also while there is enough; and always before a lane
    /// is asked for the first time, because who came there since we listen is not the oldest.
    async fn look_if_due(&mut self, asking: &mut Asking) -> Result<(), Error> {
        let due = |open: &&Open| self.seats.lock().look(open.lane, self.desk.now) == Look::All;
        let due: Vec<u32> = asking.lanes.iter().filter(due).map(|open| open.lane).collect();
        self.look(asking, &due).await
    }

    fn asking(&self, filter: Filter, wanted: Wanted, not_serials: Vec<i64>) -> Asking {
        let Wanted { most: wanted, without } = wanted;
        let names = self.desk.names.read();
        let numbers = || filter.tenants.iter().filter_map(|text| names.find(text)).collect();
        let only: Option<Vec<u32>> = (!filter.tenants.is_empty()).then(numbers);
        let lanes = self.desk.config.lanes.iter();
        let lanes = lanes.filter(|(_, lane)| matches(&filter, lane.name, |text| names.find(text)));
        let lanes = lanes.filter(|(no, _)| !without.contains(*no));
        let lanes = lanes.filter_map(|(no, lane)| self.open(*no, lane.name, &names)).collect();
        let (asks, asked, found) = Default::default();
        let has_looked = false;
        Asking { filter, lanes, only, wanted, without, not_serials, asks, asked, found, has_looked }
    }

    /// Begins again, after settings or pauses turned out to be others.
    pub(super) async fn ask_anew(&mut self, asking: &mut Asking) -> Result<(), Error> {
        let not_serials = std::mem::take(&mut asking.not_serials);
        let wanted = Wanted { most: asking.wanted, without: self.desk.closed_lanes() };
        *asking = self.asking(asking.filter.clone(), wanted, not_serials);
        self.look_if_due(asking).await
    }

    /// A lane, unless it is closed as a whole.
    fn open(&self, no: u32, name: LaneName, names: &Names) -> Option<Open> {
        let (queue, stage) = (names.text(name.queue)?, names.text(name.stage)?);
        let here = |scope: &&Scope| {
            scope.queue == *queue && scope.stage.as_ref().is_none_or(|only| only == stage)
        };
        let mut closed_to = Vec::new();
        for scope in self.desk.config.paused.iter().filter(here) {
            closed_to.extend(names.find(scope.tenant.as_deref()?));
        }
        Some(Open { lane: no, closed_to })
    }

    /// Decides what to ask next, lane by lane: each must show as many as are wanted, since all of
    /// them may come from there.
    fn ask_more(&self, asking: &mut Asking) {
        let mut found: BTreeMap<Spot, BTreeSet<u64>> = BTreeMap::new();
        for id in &asking.found {
            if let Some(spot) = self.seat(id) {
                found.entry(spot).or_default().insert(id.serial());
            }
        }
        let asks = asking.lanes.iter().flat_map(|open| self.ask_lane(asking, open, &found));
        asking.asks = asks.collect();
    }

    fn ask_lane(
        &self,
        asking: &Asking,
        open: &Open,
        found: &BTreeMap<Spot, BTreeSet<u64>>,
    ) -> Vec<Ask> {
        let here = (open.lane, 0, 0)..=(open.lane, u8::MAX, u32::MAX);
        let asked: Vec<Ask> = asking.asked.range(here).map(|(_, ask)| *ask).collect();
        let mut known: BTreeSet<(u8, u32)> =
            asked.iter().map(|ask| (ask.spot.class, ask.spot.tenant)).collect();
        let is_open = |tenant| asking.is_open(open, tenant);
        let full =
            asked.iter().filter(|ask| found.get(&ask.spot).is_some_and(|n| n.len() >= ask.most));
        let full: Vec<Ask> = full.copied().collect();
        let in_lane = || found.iter().filter(|(spot, _)| spot.lane == open.lane);
        let (turns, seats) = (&self.desk.turns, self.seats.lock());
        let mut asks = Vec::new();

        // The highest class that may hold more, be it in seats that were not asked or in those that
        // gave all that was asked of them. What was found counts from that class on.
        let unasked = seats.next_class(open.lane, is_open, &known);
        let next = unasked.max(full.iter().map(|ask| ask.spot.class).max());
        let sure = in_lane().filter(|(spot, _)| Some(spot.class) >= next).map(|(_, all)| all.len());
        let short = asking.wanted.saturating_sub(sure.sum());
        if next.is_some() && short > 0 {
            if unasked == next {
                asks.extend(seats.ask(open.lane, turns, is_open, short, &known));
            } else {
                asks.extend(
                    full.iter().filter(|ask| Some(ask.spot.class) == next).map(|a| a.more()),
                );
            }
        }

        // Those whose turn comes because they are the oldest, wherever they are.
        let oldest = turns.oldest_among(open.lane, asking.wanted);
        if oldest > 0 {
            let mut all: Vec<u64> = in_lane().flat_map(|(_, all)| all.iter().copied()).collect();
            all.sort_unstable();
            // By the time of the last such turn all others may have been had, old ones among them.
            let than = asking.wanted.checked_sub(1).and_then(|last| all.get(last)).copied();
            known.extend(asks.iter().map(|ask| (ask.spot.class, ask.spot.tenant)));
            asks.extend(seats.ask_oldest(open.lane, is_open, oldest, than, &known));
            let hides_older = |ask: &&Ask| {
                let last = found.get(&ask.spot).and_then(|all| all.last());
                last.is_some_and(|last| than.is_none_or(|than| *last < than))
            };
            let is_new = |ask: &&Ask| asks.iter().all(|known| known.spot != ask.spot);
            let more: Vec<Ask> =
                full.iter().filter(hides_older).filter(is_new).map(|ask| ask.more()).collect();
            asks.extend(more);
        }
        asks
    }

    pub(super) fn ask_offers(&self, offers: &[Asking], round: &mut Round) {
        if offers.iter().any(|asking| asking.asked.is_empty() && !asking.has_looked) {
            let now = (!self.reads_time).then_some(self.desk.now);
            round.ask(Asked::Due, show_due(now));
        }
        for (at, asking) in offers.iter().enumerate().filter(|(_, asking)| asking.asks()) {
            let asks = asking.asks.iter();
            let lanes: Vec<i32> = asks.clone().map(|ask| ask.spot.lane as i32).collect();
            let classes: Vec<i16> = asks.clone().map(|ask| i16::from(ask.spot.class)).collect();
            let tenants: Vec<i32> = asks.clone().map(|ask| ask.spot.tenant as i32).collect();
            let firsts: Vec<i64> = asks.clone().map(|ask| ask.first as i64).collect();
            let mosts: Vec<i32> = asks.map(|ask| ask.most as i32).collect();
            let not_serials = asking.not_serials.clone();
            let step = step!(OFFER, lanes, classes, tenants, firsts, mosts, not_serials);
            round.ask(Asked::Offer(at), step);
        }
    }

    /// What became due in this batch is in line, where it was perhaps not asked for.
    pub(super) fn came_due(&mut self, offers: &mut [Asking], rows: &[Row]) {
        let mut seats = self.seats.lock();
        for (spot, serial) in rows.iter().map(came) {
            seats.came(spot, serial);
            self.desk.due.push((spot, self.desk.id(serial as i64)));
            for asking in offers.iter_mut() {
                asking.asks.retain(|ask| ask.spot != spot || ask.first <= serial);
            }
        }
    }

    pub(super) fn offered(
        &mut self,
        asking: &mut Asking,
        rows: &[Row],
        needs: &mut Needs,
    ) -> Result<(), Error> {
        for ask in std::mem::take(&mut asking.asks) {
            let spot = ask.spot;
            asking.asked.insert((spot.lane, spot.class, spot.tenant), ask);
        }
        for row in rows {
            let item = self.work(row, needs)?;
            asking.found.insert(item);
        }
        Ok(())
    }

    /// Claims that came short ask further, and look for what this server does not know of.
    pub(super) async fn ask_further(&mut self, offers: &mut [Asking]) -> Result<(), Error> {
        for asking in offers.iter_mut().filter(|asking| !asking.asks()) {
            self.ask_more(asking);
            if asking.asks() || asking.has_looked || asking.found.len() >= asking.wanted {
                continue;
            }
            asking.has_looked = true;
            let lanes: Vec<u32> = asking.lanes.iter().map(|open| open.lane).collect();
            self.look(asking, &lanes).await?;
            self.ask_more(asking);
        }
        Ok(())
    }

    /// Looks for seats that this server does not know of, or knows wrongly.
    async fn look(&mut self, asking: &mut Asking, lanes: &[u32]) -> Result<(), Error> {
        let now = self.desk.now;
        let mut all: Vec<u32> = Vec::new();
        let mut young: Option<(u64, Vec<u32>)> = None;
        for lane in lanes {
            match self.seats.lock().look(*lane, now) {
                Look::All => all.push(*lane),
                Look::Young(from) => {
                    let (first, lanes) = young.get_or_insert((from, Vec::new()));
                    *first = from.min(*first);
                    lanes.push(*lane);
                }
            }
        }
        let numbers = |lanes: &[u32]| -> Vec<i32> { lanes.iter().map(|no| *no as i32).collect() };
        let (mut steps, mut looked) = (Vec::new(), Vec::new());
        if !all.is_empty() {
            let sql = "select l.no, s.class, s.tenant, s.first from unnest($1::int[]) l (no) \
                       cross join lateral windrow.seats(l.no) s";
            steps.push(step!(sql, numbers(&all)));
            looked.push((Look::All, all));
        }
        if let Some((from, lanes)) = young {
            let sql = "select l.lane, l.class, l.tenant, min(l.serial) from windrow.items i \
                       join windrow.line l on l.lane = i.lane and l.class = i.class \
                         and l.tenant = i.tenant and l.serial = i.serial \
                       where i.serial >= $1 and i.lane = any ($2) group by 1, 2, 3";
            steps.push(step!(sql, from as i64, numbers(&lanes)));
            looked.push((Look::Young(from), lanes));
        }
        let answers = self.tx.run(steps).await?;
        let mut seats = self.seats.lock();
        for ((look, lanes), rows) in looked.into_iter().zip(answers) {
            for (spot, serial) in rows.iter().map(came) {
                seats.came(spot, serial);
                let seat = (spot.lane, spot.class, spot.tenant);
                if asking.asked.get(&seat).is_some_and(|ask| serial < ask.first) {
                    asking.asked.remove(&seat);
                }
            }
            lanes.into_iter().for_each(|lane| seats.looked(lane, look, now));
        }
        Ok(())
    }

    /// Where in line an item was found. An earlier decision may have handed it out: that is decided
    /// again.
    fn seat(&self, id: &ItemId) -> Option<Spot> {
        self.desk.items.was(id).and_then(|item| self.desk.spot(item))
    }

    /// What claims were offered, and what was asked of seats for it.
    pub(super) fn end_offers(&mut self, offers: Vec<Asking>) {
        for asking in offers {
            let Asking { filter, wanted, without, not_serials, asked, found, .. } = asking;
            for ask in asked.into_values() {
                let here = found.iter().copied().filter(|id| self.seat(id) == Some(ask.spot));
                let here: BTreeSet<ItemId> = here.collect();
                let known = self.desk.asked.iter_mut().find(|(known, _)| known.spot == ask.spot);
                match known {
                    Some((known, all)) => {
                        all.extend(here);
                        known.first = known.first.min(ask.first);
                        known.most = known.most.max(ask.most);
                    }
                    None => self.desk.asked.push((ask, here)),
                }
            }
            let more = found.len() >= wanted;
            let offer = self.desk.offers.entry(filter).or_default();
            // What was offered before of lanes that are left out now still is.
            let aside: BTreeSet<i64> = not_serials.into_iter().collect();
            offer.items.retain(|id| !aside.contains(&(id.serial() as i64)));
            offer.items.extend(found);
            (offer.asked, offer.more, offer.without) = (wanted, more, without);
        }
    }
}
