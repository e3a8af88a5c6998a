//! Items with what lies beside them, live or ended, and what their producers said.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio_postgres::Row;
use uuid::Uuid;
use windrow_core::item::{BlobRef, End, KindNo, Marks, Payload, Place, QueueNo, RouteNo, TenantNo};
use windrow_core::trail::Progress;
use windrow_core::{Body, Item, ItemId, LeaseId, State, Timestamp};

use super::{Loading, serials, unpack};
use crate::postgres::desk::Desk;
use crate::postgres::needs::Needs;
use crate::postgres::tx::{Step, step};
use crate::postgres::{Error, naming, trail};

/// Where the columns of the views `live` and `ended` are, and those of an offer. All begin alike.
mod column {
    pub(super) const QUEUE: usize = 1;
    pub(super) const TENANT: usize = 2;
    pub(super) const LANE: usize = 3;
    pub(super) const ROUTE: usize = 4;
    pub(super) const STATE: usize = 18;
    pub(super) const NOT_BEFORE: usize = 19;
    pub(super) const LEASE: usize = 20;
    /// The trail, the tally and the successor.
    pub(super) const BESIDE_LIVE: usize = 21;
    pub(super) const PROGRESS: usize = 24;
    /// The lease that an item which is out is on.
    pub(super) const OUT_ON: usize = 29;
    pub(super) const OFFERED_NOT_BEFORE: usize = 18;
    pub(super) const OFFERED_PLACE: usize = 19;
    pub(super) const OFFERED_BODY: usize = 20;
    pub(super) const ENDED: usize = 18;
    pub(super) const FOLDED: usize = 19;
    pub(super) const BESIDE_ENDED: usize = 20;
}

const BODIES: &str = "select serial, op, collection, branch, source_type, source_info, reference, \
     content_type, payload, blob, blob_bytes, metadata, cloned_from \
     from windrow.bodies where serial = any ($1)";

pub(super) fn bodies(serials: Vec<i64>) -> Step {
    step!(BODIES, serials)
}

/// Items that are locked already.
pub(super) fn locked(serials: Vec<i64>) -> Step {
    step!("select * from windrow.live where serial = any ($1)", serials)
}

impl Loading<'_> {
    /// Live items. The leases are those that are locked already.
    pub(super) fn live(&self, serials: Vec<i64>, leases: Vec<Uuid>) -> Step {
        if self.locks {
            step!("select * from windrow.lock_items($1, $2)", serials, leases)
        } else {
            locked(serials)
        }
    }

    fn ended(&self, serials: Vec<i64>) -> Step {
        if self.locks {
            step!("select * from windrow.lock_ended($1)", serials)
        } else {
            step!("select * from windrow.ended where serial = any ($1)", serials)
        }
    }

    /// Puts live items on the desk.
    pub(super) fn items(&mut self, rows: &[Row]) -> Result<(), Error> {
        rows.iter().try_for_each(|row| self.item(row).map(drop))
    }

    fn item(&mut self, row: &Row) -> Result<Item, Error> {
        let not_before = Timestamp(row.get::<_, i64>(column::NOT_BEFORE) as u64);
        let lease = |at| row.get::<_, Option<Uuid>>(at).map(|id| LeaseId(id.as_u128()));
        let out_on = lease(column::OUT_ON);
        let state = match (row.get::<_, i16>(column::STATE), out_on.or(lease(column::LEASE))) {
            (0 | 2, Some(lease)) => State::Leased { lease },
            (0, None) => State::Pending { not_before },
            (1, _) => State::Held { not_before },
            (3, _) => State::Split,
            _ => return Err(Error::Malformed),
        };
        let mut item = self.place(row, state)?;
        if out_on.is_some() {
            item.attempts = item.attempts.saturating_add(1);
            self.desk.items.load(item.id, Some(item));
        }
        self.beside(item.id, row, column::BESIDE_LIVE)?;
        if let Some(message) = row.get::<_, Option<&str>>(column::PROGRESS + 2) {
            let number = |at: usize| row.get::<_, Option<i64>>(at).unwrap_or(0) as u64;
            let (current, total) = (number(column::PROGRESS), number(column::PROGRESS + 1));
            let progress = Progress { current, total, message: message.into() };
            self.desk.progress.load(item.id, Some(progress));
        }
        Ok(item)
    }

    /// Puts an item that may be claimed on the desk, with its body.
    pub(super) fn work(&mut self, row: &Row, needs: &mut Needs) -> Result<ItemId, Error> {
        let not_before = Timestamp(row.get::<_, i64>(column::OFFERED_NOT_BEFORE) as u64);
        let item = self.place(row, State::Pending { not_before })?;
        self.desk.places.insert(item.id, row.get(column::OFFERED_PLACE));
        if [Marks::TRAIL, Marks::PARENT, Marks::SUCCEEDED].iter().any(|mark| item.has(*mark)) {
            needs.beside.insert(item.id);
        }
        let body = read_body(self.desk, &item, row, column::OFFERED_BODY);
        self.desk.bodies.load(item.id, Some(body.ok_or(Error::Malformed)?));
        Ok(item.id)
    }

    /// Looks among the ended for items that are not live. What is found in neither place, looked
    /// for twice, is nowhere: it could have moved from one to the other once between.
    pub(super) async fn look_for_ended(&mut self, wanted: &[ItemId]) -> Result<(), Error> {
        for again in [true, false] {
            let missing = |desk: &Desk| -> Vec<i64> {
                serials(wanted.iter().copied().filter(|id| !desk.items.is_known(id)))
            };
            let unknown = missing(self.desk);
            if unknown.is_empty() {
                return Ok(());
            }
            let rows = self.tx.query(self.ended(unknown)).await?;
            self.know_names(&rows).await?;
            for row in rows {
                const ENDS: [End; 4] = [End::Completed, End::Failed, End::Cancelled, End::Skipped];
                let end = ENDS.get(row.get::<_, i16>(column::ENDED) as usize);
                let state = State::Done(*end.ok_or(Error::Malformed)?);
                let item = self.place(&row, state)?;
                self.beside(item.id, &row, column::BESIDE_ENDED)?;
                if row.get(column::FOLDED) {
                    self.desk.loaded_folded.insert(item.id);
                }
            }
            let unknown = missing(self.desk);
            if again && !unknown.is_empty() {
                let rows = self.tx.query(self.live(unknown, Vec::new())).await?;
                self.know_names(&rows).await?;
                self.items(&rows)?;
            }
        }
        for id in wanted {
            self.desk.items.load_none(*id);
        }
        Ok(())
    }

    /// Puts an item on the desk.
    fn place(&mut self, row: &Row, state: State) -> Result<Item, Error> {
        let no = |at: usize| row.get::<_, i32>(at) as u32;
        let half = |at: usize| row.get::<_, i32>(at) as u16;
        let byte = |at: usize| row.get::<_, i16>(at) as u8;
        let id = self.desk.id(row.get(0));
        let (queue, tenant) = (no(column::QUEUE), no(column::TENANT));
        let (lane, route) = (no(column::LANE), no(column::ROUTE));
        let kind = self.desk.names.read().lane(lane).ok_or(Error::Malformed)?.kind;
        let group = row.get::<_, Option<&str>>(12).map(Arc::from);
        let group = group.map(|name| self.desk.group_number(tenant, &name));
        let place = row.get::<_, Option<i64>>(13).map(|parent| Place {
            parent: self.desk.id(parent),
            generation: half(14),
            ordinal: row.get::<_, i64>(15) as u32,
            level: byte(16),
        });
        let item = Item {
            id,
            queue: QueueNo(queue),
            tenant: TenantNo(tenant),
            kind: KindNo(kind),
            group,
            route: RouteNo(route),
            priority: byte(6),
            stage: byte(5),
            state,
            attempts: half(7),
            deferrals: half(8),
            generation: half(9),
            skipped: half(10),
            place,
            marks: Marks::from_bits(half(11)),
        };
        self.desk.know_route(queue, kind, route);
        let desk = &mut *self.desk;
        desk.items.load(id, Some(item));
        if let Some(key) = row.get::<_, Option<&str>>(17) {
            desk.keyed.load(id, Some(key.into()));
        }
        Ok(item)
    }

    /// Puts what lies beside an item on the desk: its trail, its tally and its successor.
    fn beside(&mut self, id: ItemId, row: &Row, first: usize) -> Result<(), Error> {
        let desk = &mut *self.desk;
        if let Some(json) = row.get::<_, Option<&str>>(first) {
            desk.trails.load(id, Some(trail::read(json)?));
        }
        if let Some(tally) = row.get::<_, Option<&[u8]>>(first + 1) {
            desk.tallies.load(id, Some(unpack(tally)?));
        }
        if let Some(serial) = row.get::<_, Option<i64>>(first + 2) {
            let successor = desk.id(serial);
            desk.successors.load(id, Some(successor));
        }
        Ok(())
    }

    /// Names, routes and lanes that another server gave numbers.
    pub(super) async fn know_names<'r>(
        &mut self,
        rows: impl IntoIterator<Item = &'r Row>,
    ) -> Result<(), Error> {
        let (mut texts, mut routes) = (BTreeSet::new(), BTreeSet::new());
        let mut knows_lanes = true;
        {
            let names = self.desk.names.read();
            for row in rows {
                let numbers = [column::QUEUE, column::TENANT].map(|at| row.get::<_, i32>(at));
                let unknown = |no: &i32| names.text(*no as u32).is_none();
                texts.extend(numbers.into_iter().filter(unknown));
                let route = row.get::<_, i32>(column::ROUTE);
                if names.route(route as u32).is_none() {
                    routes.insert(route);
                }
                let lane = row.get::<_, i32>(column::LANE) as u32;
                knows_lanes &= self.desk.config.lanes.contains_key(&lane);
            }
        }
        let (texts, routes): (Vec<i32>, Vec<i32>) =
            (texts.into_iter().collect(), routes.into_iter().collect());
        naming::learn(self.tx.client(), &self.desk.names, &texts, &routes).await?;
        if !knows_lanes {
            naming::learn_lanes(self.tx.client(), &self.desk.names).await?;
            let names = Arc::clone(&self.desk.names);
            Arc::make_mut(&mut self.desk.config).resolve(&names.read());
        }
        Ok(())
    }

    /// Puts the bodies of items that are on the desk beside them.
    pub(super) fn bodies(&mut self, rows: &[Row]) {
        for row in rows {
            let id = self.desk.id(row.get(0));
            let item = self.desk.items.get(&id);
            if let Some(body) = item.and_then(|item| read_body(self.desk, item, row, 1)) {
                self.desk.bodies.load(id, Some(body));
            }
        }
    }
}

/// The body of an item, from the columns of a row from `first` on.
fn read_body(desk: &Desk, item: &Item, row: &Row, first: usize) -> Option<Body> {
    let names = desk.names.read();
    let shared = |at: usize| row.get::<_, Option<&str>>(first + at).map(Arc::from);
    let own = |at: usize| row.get::<_, Option<&str>>(first + at).map(str::to_owned);
    let blob = row.get::<_, Option<&[u8]>>(first + 8);
    let payload = match (blob, row.get::<_, Option<i64>>(first + 9)) {
        (Some(hash), Some(len)) => {
            Payload::Blob(BlobRef { hash: hash.try_into().ok()?, len: len as u64 })
        }
        _ => Payload::Inline(row.get::<_, Option<&[u8]>>(first + 7)?.to_vec()),
    };
    Some(Body {
        tenant: names.text(item.tenant.0)?.clone(),
        queue: names.text(item.queue.0)?.clone(),
        kind: names.text(item.kind.0)?.clone(),
        op: row.get::<_, &str>(first).into(),
        key: desk.keyed.get(&item.id).map(|key| key.to_string()),
        group: item.group.and_then(|group| desk.group_name(group).cloned()),
        collection: shared(1),
        branch: shared(2),
        source_type: shared(3),
        source_info: own(4),
        reference: own(5),
        route: names.route(item.route.0)?.clone(),
        content_type: shared(6),
        payload,
        metadata: own(10),
        cloned_from: row.get::<_, Option<Uuid>>(first + 11).map(|id| ItemId(id.as_u128())),
    })
}
