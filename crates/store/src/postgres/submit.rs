//! A batch: one transaction, decided as often as it takes until nothing is missing.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio_postgres::Transaction;
use windrow_core::command::{Command, Grant, Request};
use windrow_core::limits::COMMAND_ITEMS_MAX;
use windrow_core::ports::{Now, StoreError, Work};
use windrow_core::settings::Settings;
use windrow_core::{Answer, Item, ItemId, Timestamp, decide};

use super::desk::{Desk, Sheet, Touched};
use super::needs::{Filter, Needs};
use super::{Error, Postgres, load, naming, save};

/// How often a batch that met another server's is tried again.
const TRIES: usize = 10;
/// How often a batch is loaded further. A tree is at most eight deep.
const ROUNDS: usize = 64;

impl Postgres {
    pub(super) async fn submit_batch(
        &self,
        batch: Vec<Request>,
        now: Now,
    ) -> Result<Vec<Answer<Work>>, StoreError> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.try_batch(&batch, now).await {
                Ok(answers) => return Ok(answers),
                Err(Failed::Before(error)) if tries < TRIES && may_repeat(&error) => {}
                Err(Failed::Before(error)) => return Err(error.into()),
                // If it was committed after all, requests with an id get their first answer.
                Err(Failed::AtCommit(error))
                    if tries < TRIES && (error.is_conflict() || is_repeatable(&batch)) => {}
                Err(Failed::AtCommit(error)) => {
                    return Err(StoreError::OutcomeUnknown(error.to_string()));
                }
            }
        }
    }

    async fn try_batch(&self, batch: &[Request], now: Now) -> Result<Vec<Answer<Work>>, Failed> {
        let mut client = self.shared.pool.get().await?;
        naming::number(&client, &self.shared.names, batch).await?;
        let tx = client.transaction().await.map_err(Error::from)?;
        let mut desk = self.desk(&tx, now).await?;
        let needs = foreseen(batch, &desk);
        let decide_all = |desk: &mut Desk| -> Vec<Answer> {
            let now = desk.now;
            batch.iter().map(|request| decide(desk, request.clone(), now)).collect()
        };
        let answers = self.consider(&tx, &mut desk, needs, decide_all).await?;
        let work = self.work(&tx, &mut desk, answers).await?;
        let ready = self.ready(&tx, &mut desk).await?;
        save::save(&tx, &desk, i16::from(self.shared.server)).await?;
        tx.commit().await.map_err(|error| Failed::AtCommit(error.into()))?;
        drop(client);
        *self.shared.turns.lock() = desk.turns.clone();
        self.tell(&desk.touched.happened, ready);
        Ok(work)
    }

    /// An empty desk, at the time of this batch.
    pub(super) async fn desk(&self, tx: &Transaction<'_>, now: Now) -> Result<Desk, Error> {
        let now = match now {
            Now::Given(now) => now,
            Now::Database => {
                let sql = "select (extract(epoch from clock_timestamp()) * 1000)::bigint";
                Timestamp(tx.query_one(sql, &[]).await?.get::<_, i64>(0) as u64)
            }
        };
        let known = self.shared.config.lock().clone();
        let config = match load::config(tx, &known).await? {
            Some(new) => {
                *self.shared.config.lock() = new.clone();
                new
            }
            None => known,
        };
        // A lane is named by numbers that this server may not have met.
        let unknown: Vec<i32> = {
            let names = self.shared.names.read();
            let numbers = config.lanes.iter().flat_map(|lane| [lane.queue, lane.stage, lane.kind]);
            numbers.filter(|no| names.text(*no).is_none()).map(|no| no as i32).collect()
        };
        naming::learn(tx, &self.shared.names, &unknown, &Vec::new()).await?;
        Ok(Desk {
            now,
            base: Sheet { config, ..Sheet::default() },
            view: Sheet::default(),
            touched: Touched::default(),
            missing: Default::default(),
            names: Arc::clone(&self.shared.names),
            routes: Default::default(),
            policies: Default::default(),
            groups: Default::default(),
            plain: Settings::default(),
            turns: self.shared.turns.lock().clone(),
            ids: Arc::clone(&self.shared.ids),
            given: Vec::new(),
            used: 0,
            aside: Default::default(),
            tag: self.shared.tag,
            random: rand::make_rng(),
        })
    }

    /// Asks something of a desk, loading whatever turns out to be missing, until nothing is.
    pub(super) async fn consider<T>(
        &self,
        tx: &Transaction<'_>,
        desk: &mut Desk,
        mut needs: Needs,
        ask: impl Fn(&mut Desk) -> T,
    ) -> Result<T, Error> {
        let mut aside = BTreeSet::new();
        for _ in 0..ROUNDS {
            needs.aside.clone_from(&aside);
            load::fetch(tx, desk, std::mem::take(&mut needs)).await?;
            let turns = self.shared.turns.lock().clone();
            desk.begin(&turns);
            let answer = ask(desk);
            needs = std::mem::take(&mut *desk.missing.lock());
            aside.append(&mut needs.aside);
            if needs.is_empty() {
                desk.return_ids();
                return Ok(answer);
            }
        }
        Err(Error::Endless)
    }

    /// What workers get: the bodies of what they claimed.
    async fn work(
        &self,
        tx: &Transaction<'_>,
        desk: &mut Desk,
        answers: Vec<Answer>,
    ) -> Result<Vec<Answer<Work>>, Error> {
        let claimed = answers.iter().filter_map(|answer| match answer {
            Answer::Claimed(Some(grant)) => Some(grant),
            _ => None,
        });
        let ids: Vec<ItemId> = claimed.flat_map(|grant| &grant.items).map(|item| item.id).collect();
        let missing = ids.into_iter().filter(|id| !desk.view.bodies.contains_key(id));
        let needs = Needs { bodies: missing.collect(), ..Needs::default() };
        if !needs.bodies.is_empty() {
            load::fetch(tx, desk, needs).await?;
        }
        answers.into_iter().map(|answer| answer.map(|grant| Ok(shown(desk, grant)))).collect()
    }
}

fn shown(desk: &Desk, grant: Grant<Item>) -> Grant<Work> {
    let Grant { lease, expires_at, items } = grant;
    let work = |item: Item| {
        let body = desk.view.bodies.get(&item.id).or_else(|| desk.base.bodies.get(&item.id))?;
        let trail = desk.view.trails.get(&item.id);
        let input = trail.and_then(|trail| trail.input_of(item.stage)).map(<[u8]>::to_vec);
        let stage = Arc::clone(&body.route.stage(item.stage).name);
        Some(Work { item, body: body.clone(), stage, input })
    };
    Grant { lease, expires_at, items: items.into_iter().filter_map(work).collect() }
}

/// What a batch will need for certain, so that most are decided once.
fn foreseen(batch: &[Request], desk: &Desk) -> Needs {
    let mut needs = Needs::default();
    for request in batch {
        needs.requests.extend(request.id);
        match &request.command {
            Command::Enqueue(items) => {
                for new in items {
                    let body = &new.body;
                    let hash = |key| super::key::KeyHash::new(&body.tenant, &body.queue, key);
                    needs.keys.extend(body.key.as_deref().map(hash));
                }
            }
            Command::Claim(claim) => {
                let most = claim.max.clamp(1, COMMAND_ITEMS_MAX);
                *needs.offers.entry(Filter::from(claim)).or_default() += most;
            }
            Command::Settle { lease, items } => {
                needs.leases.insert(*lease);
                needs.items.extend(items.iter().map(|(id, _)| *id));
            }
            Command::Progress { lease, items } => {
                needs.leases.insert(*lease);
                needs.items.extend(items.iter().map(|(id, _)| *id));
            }
            Command::Renew { lease, .. } => {
                needs.leases.insert(*lease);
            }
            Command::Cancel { items }
            | Command::Retry { items, .. }
            | Command::Delete { items }
            | Command::Prioritise { items, .. } => needs.items.extend(items.iter().copied()),
            _ => {}
        }
    }
    needs.items.retain(|id| id.tag() == desk.tag);
    needs
}

/// When a batch failed.
#[derive(Debug)]
enum Failed {
    /// Nothing was written.
    Before(Error),
    /// It was sent to be committed.
    AtCommit(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Before(error)
    }
}

/// Whether asking all of it again is harmless, even if it was done.
fn is_repeatable(batch: &[Request]) -> bool {
    batch.iter().all(|request| request.id.is_some())
}

fn may_repeat(error: &Error) -> bool {
    error.is_conflict() || error.is_lost_connection()
}
