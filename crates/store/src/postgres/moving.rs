//! Moving out of a database, and into one.
//!
//! What is moved in is laid on a desk as if it had been decided there, and saved as every batch is.
//! Until all of it has arrived, a mark (`mark.rs`) keeps servers from opening the store.

use std::collections::BTreeSet;
use std::sync::Arc;

use uuid::Uuid;
use windrow_core::command::Answer;
use windrow_core::id::StoreTag;
use windrow_core::item::{BlobRef, KindNo, Marks, QueueNo, RouteNo, TenantNo};
use windrow_core::limits::{REQUEST_KEPT_MS, REQUESTS_KEPT};
use windrow_core::note::Note;
use windrow_core::ports::{Now, Store as _, StoreError};
use windrow_core::{Body, Change, Item, ItemId, LeaseId, RequestId, Timestamp};

use super::alone::{LONER_NAME, ensure_unserved};
use super::desk::Desk;
use super::load::{Loading, unpack};
use super::loaded::Granted;
use super::naming::{self, Wanted};
use super::needs::Needs;
use super::pool::{Pool, Used};
use super::queries::note;
use super::save::{self, Saved};
use super::tx::{Failed, Step, Tx, step};
use super::{Error, Options, Postgres, health, mark};
use crate::embedded::codec::Pack as _;
use crate::moving::{self, Answered, Export, Import, MoveError, Moved, Progress, Record};

impl Options {
    /// For whoever moves, and is not taken for a server.
    pub fn for_move(self) -> Options {
        Options { name: LONER_NAME.into(), ..self }
    }
}

impl Postgres {
    /// Makes a database ready to be moved into by the store of that tag, or goes on with that, and
    /// opens it. From then on nobody else does.
    pub async fn open_to_receive(options: Options, tag: StoreTag) -> Result<Postgres, MoveError> {
        let options = Options { into_move: true, ..options.for_move() };
        let wrong = |error: Error| MoveError::Place(error.to_string());
        let pool = Pool::new(&options).map_err(wrong)?;
        let mut client = pool.get().await.map_err(wrong)?;
        health::begin(&client, options.accept_no_fsync).await.map_err(wrong)?;
        ensure_unserved(&client, &pool).await.map_err(wrong)?;
        let before = mark::make(client.client_mut(), &pool.address().shown(), tag).await?;
        // Whoever opened it before the mark was there does not know of it. They go on as if nobody
        // had come.
        if let Err(error) = ensure_unserved(&client, &pool).await {
            if let Some(before) = before {
                mark::take_back(client.client_mut(), before).await.map_err(wrong)?;
            }
            return Err(wrong(error));
        }
        drop(client);
        opened(options).await
    }

    /// Opens a store to be moved out of: it must be there, and no server may be at it.
    pub async fn open_to_move(options: Options) -> Result<Postgres, MoveError> {
        let options = Options { migrate: false, ..options.for_move() };
        let store = opened(options).await?;
        let client = store.shared.pool.get().await.map_err(StoreError::from)?;
        let alone = ensure_unserved(&client, &store.shared.pool).await;
        alone.map_err(|error| MoveError::Place(error.to_string()))?;
        drop(client);
        Ok(store)
    }

    /// Whether a move into a database was not finished. Changes nothing.
    pub async fn is_half_moved(options: &Options) -> Result<bool, Error> {
        let pool = Pool::new(&options.clone().for_move())?;
        mark::is_half_moved(&pool.get().await?).await
    }

    /// The small tables that no rule asks for as a whole.
    async fn blobs_and_orphans(&self) -> Result<Vec<Record>, Error> {
        let client = self.shared.pool.get().await?;
        let mut records = Vec::new();
        let blobs = "select tenant, hash, bytes, refs from windrow.blobs";
        for row in client.query(step!(blobs)).await? {
            let hash = row.get::<_, &[u8]>(1).try_into().map_err(|_| Error::Malformed)?;
            records.push(Record::Blob {
                tenant: row.get::<_, &str>(0).into(),
                blob: BlobRef { hash, len: row.get::<_, i64>(2) as u64 },
                references: row.get::<_, i32>(3) as u32,
            });
        }
        let notes = "select name, version, body, shelf from windrow.notes";
        for row in client.query(step!(notes)).await? {
            records.push(Record::Note { shelf: row.get::<_, &str>(3).into(), note: note(&row) });
        }
        let orphans = "select parent, generation from windrow.orphans";
        for row in client.query(step!(orphans)).await? {
            let parent = ItemId::from_serial(row.get::<_, i64>(0) as u64, self.shared.tag);
            records.push(Record::Orphan { parent, generation: row.get::<_, i32>(1) as u16 });
        }
        Ok(records)
    }

    /// Settings, pauses, gates and leases, as a desk has them.
    async fn laid_out(&self) -> Result<Vec<Record>, Error> {
        let client = self.shared.pool.get().await?;
        let rows = client.query(step!("select id from windrow.leases")).await?;
        let id = |row| LeaseId(tokio_postgres::Row::get::<_, Uuid>(row, 0).as_u128());
        let leases: BTreeSet<LeaseId> = rows.iter().map(id).collect();
        let needs = Needs { leases: leases.clone(), ..Needs::default() };
        let desk = self.looked_at(client, needs, Now::Database).await?;
        let config = &desk.config;
        let mut records = vec![Record::Clock(desk.now)];
        for (queue, settings) in &config.settings {
            let (queue, settings) = (Arc::clone(queue), Box::new((**settings).clone()));
            records.push(Record::Settings { queue, settings });
        }
        records.extend(config.paused.iter().cloned().map(Record::Paused));
        for (resource, state) in &config.gates {
            records.push(Record::Gate { resource: Arc::clone(resource), state: *state });
        }
        for granted in leases.iter().filter_map(|id| desk.leases.get(id)) {
            let (lease, mut holds) = (granted.lease.clone(), granted.items.clone());
            holds.sort_unstable();
            records.push(Record::Lease { lease, holds });
        }
        Ok(records)
    }

    /// A desk with what is asked for, all as it was at one moment.
    async fn looked_at(&self, client: Used, needs: Needs, now: Now) -> Result<Desk, Error> {
        let mut tx = Tx::to_read(client);
        let mut desk = self.desk(now);
        let loading = self.loading(&mut tx, &mut desk, now == Now::Database);
        let fetched = Loading { locks: false, ..loading }.fetch(needs).await;
        tx.roll_back().await;
        fetched?;
        self.knows(&desk);
        Ok(desk)
    }

    /// Keeps what a desk learned of settings and lanes, so that the next need not.
    fn knows(&self, desk: &Desk) {
        let mut config = self.shared.config.lock();
        if desk.config.version > config.version {
            *config = Arc::clone(&desk.config);
        }
    }

    async fn page(&self, after: Option<ItemId>, limit: usize) -> Result<Vec<Moved>, Error> {
        let ids = self.ids(after, limit).await?;
        let bodies: BTreeSet<ItemId> = ids.iter().copied().collect();
        let needs = Needs { bodies, ..Needs::default() };
        let client = self.shared.pool.get().await?;
        let desk = self.looked_at(client, needs, Now::Given(Timestamp::ZERO)).await?;
        let one = |id: ItemId| {
            let item = desk.items.get(&id).copied().ok_or(Error::Malformed)?;
            let body = desk.bodies.get(&id).cloned().ok_or(Error::Malformed)?;
            let tally = desk.tallies.get(&id).filter(|_| item.has(Marks::PARENT)).cloned();
            let (trail, successor) = (desk.trails.get(&id), desk.successors.get(&id));
            let folded = desk.loaded_folded.contains(&id);
            Ok(Moved::new(item, body, trail.cloned(), tally, successor.copied(), folded))
        };
        ids.into_iter().map(one).collect()
    }

    /// Answers that would still be given, by request.
    async fn remembered(
        &self,
        mut after: Option<RequestId>,
        limit: usize,
    ) -> Result<Vec<Answered>, Error> {
        let client = self.shared.pool.get().await?;
        let mut answers = Vec::new();
        while answers.len() < limit {
            let sql = "select id, at, fingerprint, answer from windrow.requests \
                 where at >= (select max(at) from windrow.requests) - $1 \
                 and ($2::uuid is null or id > $2) order by id limit $3";
            let id = after.map(|id| Uuid::from_u128(id.0));
            let (kept, most) = (REQUEST_KEPT_MS as i64, limit.min(REQUESTS_KEPT) as i64);
            let rows = client.query(step!(sql, kept, id, most)).await?;
            let Some(last) = rows.last() else { break };
            after = Some(RequestId(last.get::<_, Uuid>(0).as_u128()));
            for row in &rows {
                let answer: Answer = unpack(row.get(3))?;
                let one = Answered {
                    request: RequestId(row.get::<_, Uuid>(0).as_u128()),
                    at: Timestamp(row.get::<_, i64>(1) as u64),
                    fingerprint: row.get::<_, i64>(2) as u64,
                    answer,
                };
                answers.extend(Some(one).filter(Answered::moves));
            }
        }
        answers.truncate(limit);
        Ok(answers)
    }
}

impl Export for Postgres {
    fn tag(&self) -> StoreTag {
        self.shared.tag
    }

    async fn size(&self) -> Result<u64, StoreError> {
        Ok(self.counts().await?.iter().map(|count| count.items).sum())
    }

    async fn around(&self) -> Result<Vec<Record>, StoreError> {
        let mut records = self.laid_out().await?;
        records.extend(self.blobs_and_orphans().await?);
        Ok(records)
    }

    async fn moved(&self, after: Option<ItemId>, limit: usize) -> Result<Vec<Moved>, StoreError> {
        Ok(self.page(after, limit).await?)
    }

    async fn answered(
        &self,
        after: Option<RequestId>,
        limit: usize,
    ) -> Result<Vec<Answered>, StoreError> {
        Ok(self.remembered(after, limit).await?)
    }
}

/// A database that is being filled.
#[derive(Debug)]
struct Incoming {
    store: Postgres,
    is_whole: bool,
}

/// Moves everything into a database without a store, or with an empty one, or goes on with that.
/// `beside` moves what somebody else keeps there, while no server can open the store.
pub async fn receive<S: Export>(
    source: &S,
    options: Options,
    wall: Timestamp,
    progress: &mut (dyn FnMut(Progress) + Send),
    beside: impl Future<Output = Result<(), MoveError>>,
) -> Result<moving::Report, MoveError> {
    let target = Incoming::begin(options, source.tag()).await?;
    let mut report = moving::Report::default();
    if !target.is_whole {
        moving::copy(source, &target, progress).await?;
        report = moving::compare(source, &target.store, progress).await?;
        target.say("update windrow.moving set whole = true").await?;
    }
    beside.await?;
    report.released = moving::release(source, &target.store, wall, Now::Database).await?;
    target.say("drop table windrow.moving").await?;
    Ok(report)
}

async fn opened(options: Options) -> Result<Postgres, MoveError> {
    let opened = Postgres::open(options).await;
    opened.map_err(|error| MoveError::Place(error.to_string()))
}

impl Incoming {
    async fn begin(options: Options, tag: StoreTag) -> Result<Incoming, MoveError> {
        let store = Postgres::open_to_receive(options, tag).await?;
        let client = store.shared.pool.get().await.map_err(StoreError::from)?;
        let row = client.query_one(step!("select whole from windrow.moving")).await;
        let is_whole = row.map_err(StoreError::from)?.get(0);
        drop(client);
        Ok(Incoming { store, is_whole })
    }

    async fn say(&self, sql: &'static str) -> Result<(), MoveError> {
        let client = self.store.shared.pool.get().await.map_err(StoreError::from)?;
        client.query(step!(sql)).await.map_err(StoreError::from)?;
        Ok(())
    }

    async fn take(&self, records: Vec<Record>) -> Result<(), Error> {
        let store = &self.store;
        self.number(&records).await?;
        let mut tx = Tx::new(store.shared.pool.get().await?);
        let slot = store.slot(&tx);
        let mut desk = store.desk(Now::Database);
        // A move that goes on meets what it had brought before.
        let mut needs = Needs::default();
        for record in &records {
            match record {
                Record::Lease { lease, .. } => {
                    needs.leases.insert(lease.id);
                }
                Record::Blob { tenant, blob, .. } => needs.blob(tenant, blob),
                _ => {}
            }
        }
        store.loading(&mut tx, &mut desk, true).fetch(needs).await?;
        let mut answers = Vec::new();
        for record in records {
            match record {
                Record::Item(moved) => lay_item(&mut desk, *moved)?,
                Record::Answered(answered) => answers.push(*answered),
                other => lay(&mut desk, other),
            }
        }
        let Saved { mut steps, .. } = save::save(&desk, slot)?;
        steps.extend(remember(&answers));
        tx.commit(steps).await.map_err(Failed::into_inner)?;
        store.knows(&desk);
        Ok(())
    }

    /// Gives numbers to names, routes and lanes.
    async fn number(&self, records: &[Record]) -> Result<(), Error> {
        let (store, names) = (&self.store, &self.store.shared.names);
        let mut bodies = Vec::new();
        let wanted = {
            let names = names.read();
            let mut wanted = Wanted::default();
            // What was moved before may ask for some.
            wanted.deliveries(&names);
            for record in records {
                match record {
                    Record::Item(moved) => {
                        wanted.body(&names, &moved.body);
                        bodies.push(&moved.body);
                    }
                    Record::Settings { queue, .. } => wanted.text(&names, queue),
                    _ => {}
                }
            }
            wanted
        };
        let client = store.shared.pool.get().await?;
        naming::number_all(&client, names, wanted).await?;
        drop(client);
        let mut desk = store.desk(Now::Database);
        bodies.into_iter().try_for_each(|body| know(&mut desk, body).map(drop))?;
        desk.unnumbered = std::mem::take(&mut desk.missing.lock().lanes);
        store.number_lanes(&desk).await
    }
}

impl Import for Incoming {
    async fn reached(&self) -> Result<Option<(ItemId, u64)>, StoreError> {
        let count = self.store.size().await?;
        let client = self.store.shared.pool.get().await?;
        // A page is one transaction, so what is there is whole.
        let sql = "select greatest((select max(serial) from windrow.items), \
                   (select max(serial) from windrow.history))";
        let last: Option<i64> = client.query_one(step!(sql)).await?.get(0);
        Ok(last.map(|serial| (ItemId::from_serial(serial as u64, self.store.shared.tag), count)))
    }

    async fn put(&self, records: Vec<Record>) -> Result<(), StoreError> {
        Ok(self.take(records).await?)
    }
}

/// The numbers of what a body names, whose route is then known to the desk.
fn know(desk: &mut Desk, body: &Body) -> Result<(QueueNo, TenantNo, KindNo, RouteNo), Error> {
    let (numbers, route) = {
        let names = desk.names.read();
        let numbers = [&body.queue, &body.tenant, &body.kind].map(|text| names.find(text));
        (numbers, names.find_route(&body.route))
    };
    let ([Some(queue), Some(tenant), Some(kind)], Some(route)) = (numbers, route) else {
        return Err(Error::Malformed);
    };
    desk.know_route(queue, kind, route);
    Ok((QueueNo(queue), TenantNo(tenant), KindNo(kind), RouteNo(route)))
}

/// Lays an item on a desk, as if it had just come to be what it is.
fn lay_item(desk: &mut Desk, moved: Moved) -> Result<(), Error> {
    let Moved { item, body, trail, tally, successor, folded } = moved;
    let id = item.id;
    let (queue, tenant, kind, route) = know(desk, &body)?;
    let group = body.group.as_ref().map(|group| desk.group_number(tenant.0, group));
    desk.items.set(id, Some(Item { queue, tenant, kind, group, route, ..item }));
    if let Some(key) = body.key.as_deref() {
        desk.keyed.set(id, Some(key.into()));
    }
    desk.bodies.set(id, Some(body));
    if let Some(trail) = trail {
        desk.trails.set(id, Some(trail));
    }
    if let Some(tally) = tally {
        desk.tallies.set(id, Some(tally));
    }
    if let Some(successor) = successor {
        desk.successors.set(id, Some(successor));
    }
    if folded {
        // It was folded before; there is nothing below it to be taken away.
        desk.loaded_folded.insert(id);
    }
    Ok(())
}

fn lay(desk: &mut Desk, record: Record) {
    let change = match record {
        Record::Settings { queue, settings } => Change::Settings { queue, settings },
        Record::Paused(scope) => Change::Paused { scope, paused: true },
        Record::Gate { resource, state } => Change::Gate { resource, state: Some(state) },
        Record::Blob { tenant, blob, references } => {
            Change::Blob { tenant, blob, references: Some(references) }
        }
        Record::Note { shelf, note: Note { name, version, body } } => {
            Change::Note { shelf, name, version, body: Some(body) }
        }
        Record::Orphan { parent, generation } => Change::Orphan { parent, generation, over: false },
        // What it holds comes later, without what its holder said of how far it is.
        Record::Lease { lease, holds } => {
            let granted = Granted { lease, items: holds, is_changed: true };
            return desk.leases.set(granted.lease.id, Some(granted));
        }
        // The database has its own clock, and the others are taken elsewhere.
        Record::Clock(_) | Record::Item(_) | Record::Answered(_) => return,
    };
    desk.take(change, desk.now);
}

/// Answers keep the time at which they were given, so that they are forgotten in time.
fn remember(answers: &[Answered]) -> Option<Step> {
    if answers.is_empty() {
        return None;
    }
    let ids: Vec<Uuid> = answers.iter().map(|one| Uuid::from_u128(one.request.0)).collect();
    let times: Vec<i64> = answers.iter().map(|one| one.at.0 as i64).collect();
    let prints: Vec<i64> = answers.iter().map(|one| one.fingerprint as i64).collect();
    let pack = |one: &Answered| {
        let mut bytes = Vec::new();
        one.answer.put(&mut bytes);
        bytes
    };
    let packed: Vec<Vec<u8>> = answers.iter().map(pack).collect();
    let sql = "insert into windrow.requests (id, at, fingerprint, answer) \
         select * from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bytea[]) \
         on conflict (id) do nothing";
    Some(step!(sql, ids, times, prints, packed))
}
