//! What listeners are told: what can be claimed that could not before, and what happened.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_postgres::Transaction;
use windrow_core::ports::{Happened, Ready};
use windrow_core::rules::claim::admit;
use windrow_core::{Item, Ledger as _, State};

use super::desk::Desk;
use super::needs::Needs;
use super::notify::Lanes;
use super::turns::LaneName;
use super::{Error, Postgres, load};

/// How much is told of a pause that ended: more than that many do not wait for work.
const RESUMED_MAX: i64 = 10_000;

impl Postgres {
    /// What a batch made ready.
    pub(super) async fn ready(
        &self,
        tx: &Transaction<'_>,
        desk: &mut Desk,
    ) -> Result<Lanes, Error> {
        let mut lanes = came(tx, desk).await?;
        freed(tx, desk, &mut lanes).await?;
        resumed(tx, desk, &mut lanes).await?;
        Ok(lanes)
    }

    /// Tells who listens here, and other servers.
    pub(super) fn tell(&self, happened: &[Happened], lanes: Lanes) {
        let listener = self.shared.listener.read().clone();
        if let Some(listener) = listener {
            if !happened.is_empty() {
                listener.happened(happened);
            }
            let ready = self.in_words(&lanes);
            if !ready.is_empty() {
                listener.ready(&ready);
            }
        }
        if !lanes.is_empty() {
            // Nobody is there to send it only while the store is being dropped.
            let _last = self.shared.ready.send(lanes);
        }
    }

    fn in_words(&self, lanes: &Lanes) -> Vec<Ready> {
        let names = self.shared.names.read();
        let text = |no: u32| names.text(no).cloned();
        let ready = lanes.iter().filter_map(|((lane, tenant), count)| {
            let (queue, stage, kind) = (text(lane.queue)?, text(lane.stage)?, text(lane.kind)?);
            Some(Ready { queue, stage, kind, tenant: text(*tenant)?, count: *count })
        });
        ready.collect()
    }
}

/// Items that this batch put in line.
async fn came(tx: &Transaction<'_>, desk: &mut Desk) -> Result<Lanes, Error> {
    let waits = |item: &Item| match item.state {
        State::Pending { not_before } => not_before <= desk.now,
        _ => false,
    };
    let came: Vec<Item> = desk
        .touched
        .items
        .iter()
        .filter_map(|id| {
            let is = desk.view.items.get(id).copied().flatten().filter(waits)?;
            let was = desk.base.items.get(id).copied().flatten();
            (!was.is_some_and(|was| waits(&was) && was.stage == is.stage)).then_some(is)
        })
        .collect();
    // How full their groups are is looked up; that may be old by a moment, which harms nobody.
    let limited = came.iter().filter(|item| desk.is_limited(item));
    let unknown = limited.filter_map(|item| desk.group_key(item));
    let unknown = unknown.filter(|key| !desk.view.groups.contains_key(key));
    let needs = Needs { groups: unknown.collect(), ..Needs::default() };
    for key in &needs.groups {
        load::group(tx, desk, key).await?;
    }
    let mut lanes = Lanes::new();
    let mut groups: BTreeMap<_, u32> = BTreeMap::new();
    for item in came {
        let Some(lane) = desk.lane(&item) else { continue };
        if admit(desk, &item, desk.now).is_err() {
            continue;
        }
        if desk.is_limited(&item)
            && let Some(key) = desk.group_key(&item)
        {
            // A group has room for so many and no more.
            let limit = desk.policy(&item).group_limit.unwrap_or(1);
            let told = groups.entry(key).or_insert_with(|| desk.group_load(&item));
            if *told >= limit {
                continue;
            }
            *told += 1;
        }
        *lanes.entry((lane, item.tenant.0)).or_default() += 1;
    }
    Ok(lanes)
}

/// Items of groups that have room now.
async fn freed(tx: &Transaction<'_>, desk: &Desk, lanes: &mut Lanes) -> Result<(), Error> {
    for key in &desk.touched.freed {
        let sql = "select kind, count(*) from windrow.items where queue = $1 and stage_name = $2 \
             and tenant = $3 and grp = $4 and spot in (1, 3) group by kind";
        let (queue, stage, tenant) = (key.queue as i32, key.stage as i32, key.tenant as i32);
        for row in tx.query(sql, &[&queue, &stage, &tenant, &&*key.group]).await? {
            let kind = row.get::<_, i32>(0) as u32;
            let lane = LaneName { queue: key.queue, stage: key.stage, kind };
            *lanes.entry((lane, key.tenant)).or_default() += 1;
        }
    }
    Ok(())
}

/// Items that a pause or a gate held back.
async fn resumed(tx: &Transaction<'_>, desk: &Desk, lanes: &mut Lanes) -> Result<(), Error> {
    let resumed = desk.touched.paused.iter().filter(|(_, paused)| !**paused);
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
        let sql = "select stage_name, kind, tenant, count(*) from (\
             select stage_name, kind, tenant from windrow.items where queue = $1 and spot = 1 \
             and ($2::int is null or stage_name = $2) and ($3::int is null or tenant = $3) \
             limit $4) w group by 1, 2, 3";
        let rows = tx.query(sql, &[&(queue as i32), &stage, &tenant, &RESUMED_MAX]).await?;
        for row in rows {
            let no = |at: usize| row.get::<_, i32>(at) as u32;
            let lane = LaneName { queue, stage: no(0), kind: no(1) };
            *lanes.entry((lane, no(2))).or_default() += row.get::<_, i64>(3) as usize;
        }
    }
    Ok(())
}
