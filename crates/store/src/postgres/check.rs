//! Check: everything in a database against the rules. Only reads.
//!
//! Goes through all items once, in the order of their ids: a parent comes before its children, so
//! their shares are added up as they come. Leaves checksums to PostgreSQL, which has its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use windrow_core::invariants::sorted;
use windrow_core::item::{Marks, State};
use windrow_core::ports::{Count, Store as _, StoreError};
use windrow_core::tally::{Share, Tally};
use windrow_core::{ItemId, LeaseId};

use super::Postgres;
use super::tx::{Tx, step};
use crate::moving::{Export as _, Moved, PAGE, Record};

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checked {
    pub live: u64,
    pub ended: u64,
    pub trees: u64,
    pub leases: u64,
    /// What is wrong, in words. Empty if nothing is.
    pub faults: Vec<String>,
}

/// Who waits and can be claimed by nobody, and who can be claimed and does not wait.
const ASTRAY: &str = "with held as (\
       select held.serial from windrow.leases e, unnest(e.serials) held (serial)), \
     waits as (select serial, lane, class, tenant from windrow.items where state = 0 and spot = 1) \
     select w.serial, 'waits and is not in line' from waits w \
       left join windrow.line l on l.serial = w.serial \
       left join held h on h.serial = w.serial where l.serial is null and h.serial is null \
     union all \
     select l.serial, 'is in line and does not wait there' from windrow.line l \
       left join waits w on w.serial = l.serial and w.lane = l.lane and w.class = l.class \
         and w.tenant = l.tenant \
       left join held h on h.serial = l.serial \
       where w.serial is null or h.serial is not null \
     order by 1 limit 100";

#[derive(Default)]
struct Counting {
    checked: Checked,
    counts: BTreeMap<(String, String, &'static str), u64>,
    /// What parents know, and what was counted, of their present generation.
    trees: HashMap<(ItemId, u16), (Tally, Tally)>,
    held: BTreeMap<LeaseId, BTreeSet<ItemId>>,
}

impl Postgres {
    /// Counts everything again. No server may be at the store, or what it does meanwhile looks like
    /// a fault.
    pub async fn check(&self) -> Result<Checked, StoreError> {
        let mut counting = Counting::default();
        let mut after = None;
        loop {
            let page = self.moved(after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.item.id);
            page.iter().for_each(|moved| counting.take(moved));
        }
        counting.compare_trees();
        counting.compare_counts(self.counts().await?);
        counting.compare_leases(self.around().await?);
        let mut tx = Tx::to_read(self.shared.pool.get().await?);
        let steps = vec![step!("set local enable_hashjoin = on"), step!(ASTRAY)];
        for row in tx.run(steps).await?.into_iter().flatten() {
            let id = ItemId::from_serial(row.get::<_, i64>(0) as u64, self.shared.tag);
            counting.fault(format!("{id} {}", row.get::<_, &str>(1)));
        }
        tx.roll_back().await;
        Ok(counting.checked)
    }
}

impl Counting {
    fn fault(&mut self, what: String) {
        self.checked.faults.push(what);
    }

    fn take(&mut self, moved: &Moved) {
        let Moved { item, body, tally, folded, .. } = moved;
        let id = item.id;
        if item.is_done() {
            self.checked.ended += 1;
        } else {
            self.checked.live += 1;
        }
        let place = (body.queue.to_string(), body.tenant.to_string(), item.status().name());
        *self.counts.entry(place).or_default() += 1;
        match item.state {
            State::Leased { .. } if item.attempts == 0 => {
                self.fault(format!("Q4: {id} is leased and was never attempted"));
            }
            State::Leased { lease } => {
                self.held.entry(lease).or_default().insert(id);
            }
            State::Split if tally.is_none() => {
                self.fault(format!("Q5: {id} waits for children and has no counts"));
            }
            _ => {}
        }
        if item.has(Marks::PARENT) {
            self.checked.trees += u64::from(item.is_root());
            if let Some(known) = tally.as_ref().filter(|_| !folded) {
                let mut counted = Tally::new(known.stage, known.on_gaps);
                counted.more = known.more;
                self.trees.insert((id, item.generation), (known.clone(), counted));
            }
        }
        let parent = item.place.map(|place| (place.parent, place.generation));
        if let Some((_, counted)) = parent.and_then(|parent| self.trees.get_mut(&parent)) {
            let below = tally.as_ref().filter(|_| item.has(Marks::PARENT));
            counted.add(&Share::of(item, &body.route, below));
        }
    }

    fn compare_trees(&mut self) {
        let mut wrong: Vec<ItemId> = Vec::new();
        for ((id, _), (known, counted)) in self.trees.drain() {
            if sorted(known) != sorted(counted) {
                wrong.push(id);
            }
        }
        wrong.sort_unstable();
        for id in wrong {
            self.fault(format!("Q5: counts of {id} differ from a recount"));
        }
    }

    fn compare_counts(&mut self, known: Vec<Count>) {
        let mut counts = std::mem::take(&mut self.counts);
        for Count { queue, tenant, status, items } in known {
            let place = (queue.to_string(), tenant.to_string(), status.name());
            let counted = counts.remove(&place).unwrap_or(0);
            if counted != items {
                let (queue, tenant, status) = place;
                let what = format!("{status} items of {tenant} in {queue}");
                self.fault(format!("{items} {what} are known, and {counted} are there"));
            }
        }
        for ((queue, tenant, status), counted) in counts {
            self.fault(format!("{counted} {status} items of {tenant} in {queue} are not counted"));
        }
    }

    fn compare_leases(&mut self, around: Vec<Record>) {
        let mut held = std::mem::take(&mut self.held);
        for record in around {
            let Record::Lease { lease, holds } = record else { continue };
            self.checked.leases += 1;
            let found = held.remove(&lease.id).unwrap_or_default();
            if !found.iter().eq(&holds) {
                let (known, found) = (holds.len(), found.len());
                self.fault(format!("lease {} should hold {known} items, not {found}", lease.id));
            }
        }
        for (lease, items) in held {
            self.fault(format!("Q1: {} items are under lease {lease}, which ended", items.len()));
        }
    }
}
