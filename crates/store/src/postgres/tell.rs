//! What listeners are told: what can be claimed that could not before, and what happened.

use std::collections::BTreeMap;
use std::sync::Arc;

use windrow_core::ports::{Happened, Ready};
use windrow_core::rules::claim::admit;
use windrow_core::{Item, ItemId, Ledger as _, State};

use super::desk::Desk;
use super::load::{MEMBERS, groups};
use super::loaded::Members;
use super::needs::GroupKey;
use super::notify::{Came, add};
use super::tx::{Tx, step};
use super::{Error, Postgres, Shared, resources};

/// How much is told of a pause that ended: more than that many do not wait for work.
pub(super) const RESUMED_MAX: i64 = 10_000;

const FREED: &str = "select i.lane, i.class, i.tenant, min(i.serial), count(*) \
     from unnest($1::int[], $2::int[], $3::int[], $4::text[]) g (queue, stage_name, tenant, grp) \
     join windrow.items i on i.queue = g.queue and i.tenant = g.tenant and i.grp = g.grp \
       and i.spot in (1, 3) \
     join windrow.lanes l on l.no = i.lane and l.stage_name = g.stage_name \
     left join windrow.line w on w.lane = i.lane and w.class = i.class \
       and w.tenant = i.tenant and w.serial = i.serial \
     where i.spot = 3 or w.serial is not null group by 1, 2, 3, g.grp";

const RESUMED: &str = "select lane, class, tenant, min(serial), count(*) from (\
       select i.lane, i.class, i.tenant, i.serial from windrow.lanes l \
       join windrow.line i on i.lane = l.no \
       where l.queue = $1 and ($2::int is null or l.stage_name = $2) \
         and ($3::int is null or i.tenant = $3) limit $4) w group by 1, 2, 3";

impl Postgres {
    /// What a batch made ready.
    pub(super) async fn ready(&self, tx: &mut Tx, desk: &mut Desk) -> Result<Came, Error> {
        let mut ready = came(tx, desk).await?;
        for (spot, id) in desk.due.iter().filter(|(_, id)| !desk.items.is_changed(id)) {
            add(&mut ready, *spot, id.serial(), 1);
        }
        freed(tx, desk, &mut ready).await?;
        resumed(tx, desk, &mut ready).await?;
        resources::opened(tx, desk, &mut ready).await?;
        Ok(ready)
    }

    /// Tells who listens here, and other servers.
    pub(super) fn tell(&self, happened: &[Happened], came: Came) {
        self.shared.watch.happened(happened);
        let listener = self.shared.listener.read().clone();
        if let Some(listener) = listener {
            if !happened.is_empty() {
                listener.happened(happened);
            }
            let ready = self.shared.in_words(&came);
            if !ready.is_empty() {
                listener.ready(&ready);
            }
        }
        if !came.is_empty() {
            // Nobody is there to send it only while the store is being dropped.
            let _last = self.shared.ready.send(came);
        }
    }
}

impl Shared {
    pub(super) fn in_words(&self, came: &Came) -> Vec<Ready> {
        let names = self.names.read();
        let text = |no: u32| names.text(no).cloned();
        let ready = came.iter().filter_map(|((lane, _, tenant), arrived)| {
            let lane = names.lane(*lane)?;
            let (queue, stage, kind) = (text(lane.queue)?, text(lane.stage)?, text(lane.kind)?);
            Some(Ready { queue, stage, kind, tenant: text(*tenant)?, count: arrived.count })
        });
        ready.collect()
    }
}

/// Items that this batch put in line.
async fn came(tx: &mut Tx, desk: &mut Desk) -> Result<Came, Error> {
    let waits = |item: &Item| match item.state {
        State::Pending { not_before } => not_before <= desk.now,
        _ => false,
    };
    let mut put: Vec<Item> = desk
        .items
        .decided()
        .filter_map(|(id, is)| {
            let is = is.filter(|item| waits(item))?;
            let was = desk.items.was(id);
            (!was.is_some_and(|was| waits(was) && was.stage == is.stage)).then_some(*is)
        })
        .collect();
    put.sort_unstable_by_key(|item| item.id);
    // How full their groups are is looked up; that may be old by a moment, which harms nobody.
    let limited = put.iter().filter(|item| desk.is_limited(item));
    let unknown = limited.filter_map(|item| desk.group_key(item));
    let mut unknown: Vec<GroupKey> = unknown.filter(|key| desk.groups.get(key).is_none()).collect();
    unknown.sort_unstable();
    unknown.dedup();
    look_at_groups(tx, desk, &unknown).await?;
    let mut came = Came::new();
    let mut told: BTreeMap<_, u32> = BTreeMap::new();
    for item in put {
        let Some(spot) = desk.spot(&item) else { continue };
        if admit(desk, &item, desk.now).is_err() {
            continue;
        }
        if desk.is_limited(&item)
            && let Some(key) = desk.group_key(&item)
        {
            // A group has room for so many and no more.
            let limit = desk.policy(&item).group_limit.unwrap_or(1);
            let told = told.entry(key).or_insert_with(|| desk.group_load(&item));
            if *told >= limit {
                continue;
            }
            *told += 1;
        }
        add(&mut came, spot, item.id.serial(), 1);
    }
    Ok(came)
}

/// Who of groups is in their stages, with what was decided.
async fn look_at_groups(tx: &mut Tx, desk: &mut Desk, keys: &[GroupKey]) -> Result<(), Error> {
    if keys.is_empty() {
        return Ok(());
    }
    let mut all: Vec<Members> = vec![Members::default(); keys.len()];
    for row in tx.query(groups(MEMBERS, keys)).await? {
        let Some(members) = all.get_mut(row.get::<_, i64>(0) as usize - 1) else { continue };
        let id = desk.id(row.get(1));
        members.live.insert(id);
        if row.get(2) {
            members.leased.insert(id);
        }
    }
    for (key, mut members) in keys.iter().zip(all) {
        let changed: Vec<ItemId> = desk.items.changed();
        for id in changed {
            members.live.remove(&id);
            members.leased.remove(&id);
            let is = desk.items.get(&id);
            if let Some(item) = is.filter(|item| desk.group_key(item).as_ref() == Some(key)) {
                if item.lease().is_some() {
                    members.leased.insert(id);
                }
                if !item.is_done() {
                    members.live.insert(id);
                }
            }
        }
        desk.groups.load(key.clone(), Some(members));
    }
    Ok(())
}

/// Items of groups that have room now: one of each.
async fn freed(tx: &mut Tx, desk: &Desk, came: &mut Came) -> Result<(), Error> {
    if desk.decided.freed.is_empty() {
        return Ok(());
    }
    for row in tx.query(groups(FREED, &desk.decided.freed)).await? {
        let (spot, first) = super::load::came(&row);
        add(came, spot, first, 1);
    }
    Ok(())
}

/// Items that a pause held back.
async fn resumed(tx: &mut Tx, desk: &Desk, came: &mut Came) -> Result<(), Error> {
    let resumed = desk.decided.paused.iter().filter(|(_, paused)| !**paused);
    for (scope, _) in resumed {
        let numbers = {
            let names = desk.names.read();
            let find = |text: &Option<Arc<str>>| match text {
                Some(text) => names.find(text).map(|no| Some(no as i32)),
                None => Some(None),
            };
            (names.find(&scope.queue), find(&scope.stage), find(&scope.tenant))
        };
        let (Some(queue), Some(stage), Some(tenant)) = numbers else { continue };
        for row in tx.query(step!(RESUMED, queue as i32, stage, tenant, RESUMED_MAX)).await? {
            let (spot, first) = super::load::came(&row);
            add(came, spot, first, row.get::<_, i64>(4) as usize);
        }
    }
    Ok(())
}
