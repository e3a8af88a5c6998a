//! Loading: what a batch needs, locked in a fixed order.
//!
//! Candidates and groups are taken only if nobody else has them; everything else is waited for, in
//! one order: leases, places in line, items. Candidates come last, because whoever has one of those
//! may be waited for by somebody who waits for a lease.
//!
//! What does not depend on each other is asked in one round trip. Rows are read after they are
//! locked, so that what is read is as young as the lock. Items are locked deepest first: a child
//! has a higher serial than its parent.

mod items;
mod lists;
mod offers;
mod rest;

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_postgres::Row;
use uuid::Uuid;
use windrow_core::change::Lease;
use windrow_core::command::Scope;
use windrow_core::resource::Resource;
use windrow_core::{ItemId, LeaseId, Timestamp};

use super::config::Config;
use super::desk::Desk;
use super::loaded::{Granted, Noted};
use super::needs::{Blob, GroupKey, Key, List, Needs, NoteName};
use super::seats::Seats;
use super::tx::{Step, Tx, step};
use super::{Error, naming};
use crate::embedded::codec::{Pack, Reader};

use offers::Asking;

pub(super) use offers::{came, show_due};
pub(super) use rest::{MEMBERS, groups};

pub(super) fn unpack<T: Pack>(bytes: &[u8]) -> Result<T, Error> {
    Reader::new(bytes).get().map_err(|_| Error::Malformed)
}

fn serials(ids: impl IntoIterator<Item = ItemId>) -> Vec<i64> {
    ids.into_iter().map(|id| id.serial() as i64).collect()
}

/// The lease in the first columns of a row.
pub(super) fn lease(row: &Row) -> Lease {
    let at = |column: usize| Timestamp(row.get::<_, i64>(column) as u64);
    Lease {
        id: LeaseId(row.get::<_, Uuid>(0).as_u128()),
        worker: row.get::<_, &str>(1).into(),
        granted: at(2),
        renewed: at(3),
        expires: at(4),
        lease_ms: at(5).0,
        items: row.get::<_, i32>(6) as u32,
    }
}

/// What is brought to a desk, and from where.
pub(super) struct Loading<'a> {
    pub(super) tx: &'a mut Tx,
    pub(super) desk: &'a mut Desk,
    pub(super) seats: &'a Mutex<Seats>,
    /// The time is the database's, read after locks are held.
    pub(super) reads_time: bool,
    /// What is read is to be changed.
    pub(super) locks: bool,
    /// Settings are to be changed, depending on what they are: nobody else may meanwhile.
    pub(super) configures: bool,
}

/// What a step was asked for.
enum Asked {
    Due,
    Offer(usize),
    Leases(BTreeSet<LeaseId>),
    Expired,
    Expiring(u64),
    KeyLocks,
    Keys(BTreeSet<Key>),
    KeptKeys(BTreeSet<Key>),
    Children,
    List(List, usize),
    Items,
    Bodies,
    GroupLocks(Vec<GroupKey>),
    Members(Vec<GroupKey>),
    Blob(Blob),
    Resource(Arc<str>),
    Note(NoteName),
    Requests,
    Live(Arc<str>),
    Waiting((u32, Arc<str>)),
    State,
}

impl Asked {
    /// Whether its rows are live items.
    fn is_items(&self) -> bool {
        matches!(self, Asked::Offer(_) | Asked::Items)
    }
}

/// Steps of one round trip, and what each is for.
#[derive(Default)]
struct Round {
    steps: Vec<Step>,
    asked: Vec<Asked>,
}

impl Round {
    fn ask(&mut self, asked: Asked, step: Step) {
        self.asked.push(asked);
        self.steps.push(step);
    }
}

const STATE: &str = "select configured, (extract(epoch from clock_timestamp()) * 1000)::bigint \
                     from windrow.store";
const STATE_LOCKED: &str = "select configured, \
                            (extract(epoch from clock_timestamp()) * 1000)::bigint \
                            from windrow.store for update";

impl Loading<'_> {
    /// Puts what is missing on the desk.
    pub(super) async fn fetch(&mut self, mut needs: Needs) -> Result<(), Error> {
        let mut offers = self.begin_offers(&mut needs).await?;
        loop {
            let mut round = Round::default();
            let wanted = self.ask(std::mem::take(&mut needs), &mut round);
            self.ask_offers(&offers, &mut round);
            let state = if self.configures { STATE_LOCKED } else { STATE };
            round.ask(Asked::State, step!(state));
            let Round { steps, asked } = round;
            let answers = self.tx.run(steps).await?;
            let rows = asked.iter().zip(&answers).filter(|(asked, _)| asked.is_items());
            self.know_names(rows.flat_map(|(_, rows)| rows)).await?;
            let mut bodies = Vec::new();
            for (asked, rows) in asked.into_iter().zip(answers) {
                match asked {
                    Asked::Bodies => bodies = rows,
                    Asked::Due => self.came_due(&mut offers, &rows),
                    Asked::Offer(at) => self.offered(&mut offers[at], &rows, &mut needs)?,
                    Asked::State => self.state(&rows, &mut offers).await?,
                    other => self.put(other, &rows, &mut needs)?,
                }
            }
            self.look_for_ended(&wanted).await?;
            self.bodies(&bodies);
            self.ask_further(&mut offers).await?;
            if needs.is_empty() && !offers.iter().any(Asking::asks) {
                if self.locks {
                    self.check_keys()?;
                }
                self.end_offers(offers);
                return Ok(());
            }
        }
    }

    /// The steps for everything but offers, in the order in which things are locked. Says which
    /// items are asked for.
    fn ask(&mut self, needs: Needs, round: &mut Round) -> Vec<ItemId> {
        let known = self.desk.leases.loaded().chain(&needs.leases);
        let known: Vec<Uuid> = known.map(|id| Uuid::from_u128(id.0)).collect();
        self.ask_leases(&needs, round);
        self.ask_keys(&needs, round);
        lists::ask_children(&needs, round);
        for (list, count) in needs.lists {
            round.ask(Asked::List(list, count), self.list(list, count));
        }
        let unknown: BTreeSet<ItemId> = {
            let all = needs.items.iter().chain(&needs.bodies).copied();
            all.filter(|id| !self.desk.items.is_known(id)).collect()
        };
        let mut unknown: Vec<ItemId> = unknown.into_iter().collect();
        if !unknown.is_empty() {
            round.ask(Asked::Items, self.live(serials(unknown.iter().copied()), known));
        }
        if !needs.beside.is_empty() {
            round.ask(Asked::Items, items::locked(serials(needs.beside)));
        }
        if !needs.bodies.is_empty() {
            round.ask(Asked::Bodies, items::bodies(serials(needs.bodies)));
        }
        self.ask_groups(&needs.groups, round);
        unknown.extend(needs.ended);
        self.ask_notes(needs.notes, round);
        self.ask_resources(needs.resources, round);
        self.ask_rest(needs.blobs, needs.requests, needs.live, needs.waiting, round);
        unknown
    }

    fn put(&mut self, asked: Asked, rows: &[Row], needs: &mut Needs) -> Result<(), Error> {
        match asked {
            Asked::Leases(ids) => {
                rows.iter().for_each(|row| {
                    self.lease(row);
                });
                for id in ids {
                    if self.desk.leases.was(&id).is_none() {
                        self.trust_only(id, &[]);
                        self.desk.leases.load_none(id);
                    }
                }
            }
            Asked::Expired => {
                let expired: Vec<LeaseId> = rows.iter().map(|row| self.lease(row)).collect();
                let held = expired.iter().filter_map(|id| self.desk.leases.get(id));
                needs.items.extend(held.flat_map(|granted| granted.items.iter().copied()));
                self.desk.expired = Some(expired);
            }
            Asked::Expiring(until) => {
                let expiring = rows.iter().map(|row| self.lease(row)).collect();
                self.desk.expiring = Some((until, expiring));
            }
            Asked::Keys(keys) => self.keys(keys, rows, needs),
            Asked::KeptKeys(keys) => self.kept_keys(keys, rows),
            Asked::Children => self.children(rows),
            Asked::List(list, count) => self.listed(list, count, rows, needs),
            Asked::Items => self.items(rows)?,
            Asked::GroupLocks(keys) => self.group_locks(&keys, rows),
            Asked::Members(keys) => self.members(&keys, rows),
            Asked::Blob(name) => {
                let references = rows.first().map(|row| row.get::<_, i32>(0) as u32);
                self.desk.blobs.load(name, references);
            }
            Asked::Note(name) => {
                let version = rows.first().map(|row| row.get::<_, i64>(0) as u64);
                self.desk.notes.load(name, version.map(|version| Noted { version, body: None }));
            }
            Asked::Resource(name) => {
                let state = rows.first().map(resource).transpose()?;
                self.desk.resources.load(name, state);
            }
            Asked::Requests => self.requests(rows)?,
            Asked::Live(queue) => {
                let live = rows.first().map_or(0, |row| row.get::<_, i64>(0));
                self.desk.live.load(queue, Some(live.max(0) as u64));
            }
            Asked::Waiting(at) => {
                let waiting = rows.first().map_or(0, |row| row.get::<_, i64>(0));
                self.desk.waiting.insert(at, waiting as u64);
            }
            Asked::Due | Asked::Offer(_) | Asked::Bodies | Asked::KeyLocks | Asked::State => {}
        }
        Ok(())
    }

    fn lease(&mut self, row: &Row) -> LeaseId {
        let lease = lease(row);
        let id = lease.id;
        let serials: Vec<i64> = row.get(7);
        let items: Vec<ItemId> = serials.into_iter().map(|serial| self.desk.id(serial)).collect();
        let is_changed = row.get(8);
        self.trust_only(id, if is_changed { &[] } else { &items });
        self.desk.leases.load(id, Some(Granted { lease, items, is_changed }));
        id
    }

    /// Whatever else was thought to be held by a lease is read after all.
    fn trust_only(&mut self, lease: LeaseId, held: &[ItemId]) {
        let desk = &mut *self.desk;
        let Some(trusted) = desk.trusted.get_mut(&lease) else { return };
        trusted.retain(|id| {
            let is_held = held.contains(id);
            if !is_held {
                desk.items.unload(id);
            }
            is_held
        });
    }

    /// The time, if it is the database's, and whether what this server knows of settings is old.
    async fn state(&mut self, rows: &[Row], offers: &mut [Asking]) -> Result<(), Error> {
        let (row, before) = (rows.first().ok_or(Error::Malformed)?, self.desk.now);
        if self.reads_time {
            self.desk.now = Timestamp(row.get::<_, i64>(1) as u64);
        }
        let is_other = row.get::<_, i64>(0) != self.desk.config.version;
        if is_other {
            self.desk.config = Arc::new(config(self.tx, self.desk).await?);
            let notifies = self.desk.config.settings.values().any(|of| !of.notify.is_empty());
            // Who only looks leaves no deliveries.
            if notifies && self.locks && !naming::knows_deliveries(&self.desk.names.read()) {
                self.desk.unnamed = true;
                return Err(Error::Unnumbered);
            }
        }
        // A resource may have opened since the time that was taken for now.
        if is_other || self.desk.config.opens(before, self.desk.now).next().is_some() {
            for asking in offers {
                self.ask_anew(asking).await?;
            }
        }
        Ok(())
    }
}

/// Settings, pauses, gates and lanes as they are in the database.
async fn config(tx: &mut Tx, desk: &Desk) -> Result<Config, Error> {
    let steps = vec![
        step!("select configured from windrow.store"),
        step!(
            "select n.name, s.settings from windrow.settings s \
             join windrow.names n on n.no = s.queue"
        ),
        step!("select queue, stage, tenant from windrow.pauses"),
        step!("select closed_until, state, resource from windrow.gates"),
    ];
    let mut answers = tx.run(steps).await?.into_iter();
    let mut next = || answers.next().unwrap_or_default();
    let version = next().first().ok_or(Error::Malformed)?.get(0);
    let mut config = Config { version, ..Config::default() };
    for row in next() {
        let queue: &str = row.get(0);
        config.settings.insert(queue.into(), Arc::new(unpack(row.get(1))?));
    }
    for row in next() {
        let text = |at: usize| row.get::<_, Option<&str>>(at).map(Arc::from);
        let queue: &str = row.get(0);
        config.paused.insert(Scope { queue: queue.into(), stage: text(1), tenant: text(2) });
    }
    for row in next() {
        let name: &str = row.get(2);
        config.gates.insert(name.into(), resource(&row)?);
    }
    // After the version was read: a lane that comes later raises it again.
    naming::learn_lanes(tx.client(), &desk.names).await?;
    config.resolve(&desk.names.read());
    Ok(config)
}

/// A resource. One that was closed before there was more to know has no more.
pub(super) fn resource(row: &Row) -> Result<Resource, Error> {
    let closed_until = Timestamp(row.get::<_, i64>(0) as u64);
    match row.get::<_, Option<&[u8]>>(1) {
        Some(state) => Ok(Resource { closed_until, ..unpack(state)? }),
        None => Ok(Resource { closed_until, ..Resource::default() }),
    }
}
