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
use crate::postgres::{Error, naming};

const ITEM: &str = "serial, queue, tenant, kind, route, stage, priority, attempts, deferrals, \
                    generation, skipped, marks, grp, parent, place_generation, ordinal, level";

/// An item and everything above it.
const WITH_ANCESTORS: &str = "with recursive up (serial, parent) as (\
     select serial, parent from windrow.items where serial = any ($1) \
     union select i.serial, i.parent from windrow.items i join up on i.serial = up.parent)";

impl Loading<'_, '_> {
    pub(super) async fn items(&mut self, ids: &BTreeSet<ItemId>) -> Result<(), Error> {
        let mut wanted = serials(ids.iter().copied());
        for _ in 0..3 {
            if wanted.is_empty() {
                return Ok(());
            }
            self.live_items(&wanted).await?;
            self.unknown(&mut wanted);
            if wanted.is_empty() {
                return Ok(());
            }
            self.ended_items(&wanted).await?;
            self.unknown(&mut wanted);
        }
        // Looked for in both places, twice: it moved from one to the other between, or is nowhere.
        for serial in wanted {
            let id = self.desk.id(serial);
            self.desk.base.items.insert(id, None);
        }
        Ok(())
    }

    fn unknown(&self, serials: &mut Vec<i64>) {
        serials.retain(|serial| !self.desk.base.items.contains_key(&self.desk.id(*serial)));
    }

    async fn live_items(&mut self, serials: &Vec<i64>) -> Result<(), Error> {
        let lock = format!(
            "{WITH_ANCESTORS} select serial from windrow.items \
             where serial in (select serial from up) order by serial desc for update"
        );
        self.tx.execute(&lock, &[serials]).await?;
        let columns: Vec<String> = ITEM.split(", ").map(|column| format!("i.{column}")).collect();
        let read = format!(
            "{WITH_ANCESTORS} select {}, i.state, i.not_before, i.lease, t.trail, y.tally, \
             s.is_serial, p.current, p.total, p.message \
             from windrow.items i left join windrow.trails t using (serial) \
             left join windrow.tallies y using (serial) \
             left join windrow.progress p using (serial) \
             left join windrow.successors s on s.of_serial = i.serial \
             where i.serial in (select serial from up)",
            columns.join(", ")
        );
        let rows = self.tx.query(&read, &[serials]).await?;
        self.know_names(&rows).await?;
        for row in rows {
            let not_before = Timestamp(row.get::<_, i64>(18) as u64);
            let lease = row.get::<_, Option<Uuid>>(19).map(|id| LeaseId(id.as_u128()));
            let state = match (row.get::<_, i16>(17), lease) {
                (0, _) => State::Pending { not_before },
                (1, _) => State::Held { not_before },
                (2, Some(lease)) => State::Leased { lease },
                (3, _) => State::Split,
                _ => return Err(Error::Malformed),
            };
            self.put(&row, state, 20)?;
        }
        Ok(())
    }

    async fn ended_items(&mut self, serials: &Vec<i64>) -> Result<(), Error> {
        let lock = "select serial from windrow.history where serial = any ($1) \
                    order by serial desc for update";
        self.tx.execute(lock, &[serials]).await?;
        let columns: Vec<String> = ITEM.split(", ").map(|column| format!("i.{column}")).collect();
        let read = format!(
            "select {}, i.ended, i.folded, t.trail, y.tally, s.is_serial, \
             p.current, p.total, p.message \
             from windrow.history i left join windrow.trails t using (serial) \
             left join windrow.tallies y using (serial) \
             left join windrow.progress p using (serial) \
             left join windrow.successors s on s.of_serial = i.serial \
             where i.serial = any ($1)",
            columns.join(", ")
        );
        let rows = self.tx.query(&read, &[serials]).await?;
        self.know_names(&rows).await?;
        for row in rows {
            const ENDS: [End; 4] = [End::Completed, End::Failed, End::Cancelled, End::Skipped];
            let end = ENDS.get(row.get::<_, i16>(17) as usize).ok_or(Error::Malformed)?;
            let id = self.put(&row, State::Done(*end), 19)?;
            if row.get(18) {
                self.desk.base.folded.insert(id);
            }
        }
        Ok(())
    }

    /// Puts an item on the desk with what is joined to it from column `beside` on.
    fn put(&mut self, row: &Row, state: State, beside: usize) -> Result<ItemId, Error> {
        let no = |at: usize| row.get::<_, i32>(at) as u32;
        let half = |at: usize| row.get::<_, i32>(at) as u16;
        let byte = |at: usize| row.get::<_, i16>(at) as u8;
        let id = self.desk.id(row.get(0));
        let (queue, tenant, kind, route) = (no(1), no(2), no(3), no(4));
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
        let base = &mut self.desk.base;
        base.items.insert(id, Some(item));
        if let Some(trail) = row.get::<_, Option<&[u8]>>(beside) {
            base.trails.insert(id, unpack(trail)?);
        }
        if let Some(tally) = row.get::<_, Option<&[u8]>>(beside + 1) {
            base.tallies.insert(id, unpack(tally)?);
        }
        if let Some(serial) = row.get::<_, Option<i64>>(beside + 2) {
            let successor = self.desk.id(serial);
            self.desk.base.successors.insert(id, successor);
        }
        if let Some(message) = row.get::<_, Option<&str>>(beside + 5) {
            let number = |at: usize| row.get::<_, Option<i64>>(at).unwrap_or(0) as u64;
            let (current, total) = (number(beside + 3), number(beside + 4));
            let progress = Progress { current, total, message: message.into() };
            self.desk.base.progress.insert(id, progress);
        }
        Ok(id)
    }

    /// Names and routes that another server gave numbers.
    async fn know_names(&mut self, rows: &[Row]) -> Result<(), Error> {
        let (mut texts, mut routes) = (BTreeSet::new(), BTreeSet::new());
        {
            let names = self.desk.names.read();
            for row in rows {
                let numbers = (1..4).map(|at| row.get::<_, i32>(at));
                texts.extend(numbers.filter(|no| names.text(*no as u32).is_none()));
                let route = row.get::<_, i32>(4);
                if names.route(route as u32).is_none() {
                    routes.insert(route);
                }
            }
        }
        let (texts, routes): (Vec<i32>, Vec<i32>) =
            (texts.into_iter().collect(), routes.into_iter().collect());
        naming::learn(self.tx, &self.desk.names, &texts, &routes).await
    }

    pub(super) async fn bodies(&mut self, ids: &BTreeSet<ItemId>) -> Result<(), Error> {
        if ids.is_empty() {
            return Ok(());
        }
        self.items(ids).await?;
        let sql = "select serial, op, key, collection, branch, source_type, source_info, \
                   reference, content_type, payload, blob, blob_bytes, metadata, cloned_from \
                   from windrow.bodies where serial = any ($1)";
        for row in self.tx.query(sql, &[&serials(ids.iter().copied())]).await? {
            let id = self.desk.id(row.get(0));
            if let Some(item) = self.desk.base.items.get(&id).copied().flatten()
                && let Some(body) = body(self.desk, &item, &row)
            {
                self.desk.base.bodies.insert(id, body);
            }
        }
        Ok(())
    }
}

fn body(desk: &Desk, item: &Item, row: &Row) -> Option<Body> {
    let names = desk.names.read();
    let shared = |at: usize| row.get::<_, Option<&str>>(at).map(Arc::from);
    let own = |at: usize| row.get::<_, Option<&str>>(at).map(str::to_owned);
    let payload = match (row.get::<_, Option<&[u8]>>(10), row.get::<_, Option<i64>>(11)) {
        (Some(hash), Some(len)) => {
            Payload::Blob(BlobRef { hash: hash.try_into().ok()?, len: len as u64 })
        }
        _ => Payload::Inline(row.get::<_, Option<&[u8]>>(9)?.to_vec()),
    };
    Some(Body {
        tenant: names.text(item.tenant.0)?.clone(),
        queue: names.text(item.queue.0)?.clone(),
        kind: names.text(item.kind.0)?.clone(),
        op: row.get::<_, &str>(1).into(),
        key: own(2),
        group: item.group.and_then(|group| desk.group_name(group).cloned()),
        collection: shared(3),
        branch: shared(4),
        source_type: shared(5),
        source_info: own(6),
        reference: own(7),
        route: names.route(item.route.0)?.clone(),
        content_type: shared(8),
        payload,
        metadata: own(12),
        cloned_from: row.get::<_, Option<Uuid>>(13).map(|id| ItemId(id.as_u128())),
    })
}
