//! A batch: one transaction, decided as often as it takes until nothing is missing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windrow_core::command::{Command, EnqueueOutcome, Enqueued, Grant, NewItem, Request};
use windrow_core::limits::{COMMAND_ITEMS_MAX, KEY_MAX};
use windrow_core::ports::{Now, StoreError, Work};
use windrow_core::text::fits;
use windrow_core::{Answer, Item, ItemId, LeaseId, Refusal, decide};

use super::desk::{Desk, Setting};
use super::load::{self, Loading};
use super::needs::{Filter, Key, Needs};
use super::save::{self, Saved};
use super::tx::{Failed, Tx, step};
use super::{Error, Postgres, naming};

/// How often a batch that met another server's is tried again.
const TRIES: usize = 10;
/// How long to wait before a database that cannot be reached is tried again, and each time as much
/// longer: two seconds in all.
const AGAIN: Duration = Duration::from_millis(45);
/// How often a batch is loaded further. A tree is at most eight deep.
const ROUNDS: usize = 64;

/// A transaction that writes nothing waits for nobody. What it saw may be here and not yet on a
/// synchronous standby, if the one who wrote it was ended while it waited; so this one writes a
/// little and waits for the standby too.
const WAIT_FOR_STANDBY: &str = "select pg_logical_emit_message(true, 'windrow', '') \
     where current_setting('synchronous_standby_names') <> ''";

/// How many batches look up keys after one was not free.
const DOUBTS: u64 = 256;

impl Postgres {
    pub(super) async fn submit_batch(
        &self,
        batch: Vec<Request>,
        now: Now,
    ) -> Result<Vec<Answer<Work>>, StoreError> {
        let mut tries = 0;
        // An earlier try was sent to be committed, and nobody knows what became of it.
        let mut unknown = false;
        let mut given = Vec::new();
        loop {
            tries += 1;
            // A batch that failed is read in full.
            let trusts = tries == 1;
            match self.try_batch(&batch, now, trusts, &mut given).await {
                Ok(answers) => return Ok(answers),
                Err(Failed::Before(Error::Unreachable { .. })) if tries < TRIES => {
                    self.shared.pool.pause(AGAIN * tries as u32).await;
                }
                Err(Failed::Before(error)) if tries < TRIES && may_repeat(&error) => {}
                Err(Failed::Before(error)) if unknown => {
                    return Err(StoreError::OutcomeUnknown(error.to_string()));
                }
                Err(Failed::Before(error)) => return Err(error.into()),
                Err(Failed::AtCommit(error)) if tries < TRIES && error.is_conflict() => {}
                // If it was committed after all, requests with an id get their first answer.
                Err(Failed::AtCommit(_)) if tries < TRIES && is_repeatable(&batch) => {
                    unknown = true;
                }
                Err(Failed::AtCommit(error)) => {
                    return Err(StoreError::OutcomeUnknown(error.to_string()));
                }
            }
        }
    }

    async fn try_batch(
        &self,
        batch: &[Request],
        now: Now,
        trusts: bool,
        given: &mut Vec<ItemId>,
    ) -> Result<Vec<Answer<Work>>, Failed> {
        let client = self.shared.pool.get().await?;
        naming::number(&client, &self.shared.names, batch).await?;
        let mut tx = Tx::new(client);
        let mut desk = self.desk(now);
        desk.given = std::mem::take(given);
        let needs = self.foreseen(batch, &mut desk, trusts);
        match self.decide_batch(&mut tx, &mut desk, needs, batch, now).await {
            Ok((work, ready, Saved { steps, freed })) => {
                let written = tx.commit(steps).await;
                let answers = match written {
                    Ok(answers) => answers,
                    Err(failed) => {
                        self.took_nothing(&desk);
                        self.doubt(&failed);
                        if !matches!(&failed, Failed::Before(error) if error.is_of_id()) {
                            *given = desk.given;
                        }
                        return Err(failed);
                    }
                };
                let back = freed.and_then(|at| answers.get(at)).map(Vec::as_slice);
                self.took(&desk, back.unwrap_or_default());
                self.tell(&desk.decided.happened, ready);
                Ok(work)
            }
            Err(error) => {
                tx.roll_back().await;
                self.took_nothing(&desk);
                self.number_lanes(&desk).await?;
                *given = desk.given;
                Err(error.into())
            }
        }
    }

    async fn decide_batch(
        &self,
        tx: &mut Tx,
        desk: &mut Desk,
        needs: Needs,
        batch: &[Request],
        now: Now,
    ) -> Result<(Vec<Answer<Work>>, super::notify::Came, Saved), Error> {
        let decide_all = |desk: &mut Desk| -> Vec<Answer> {
            let now = desk.now;
            batch.iter().map(|request| decide(desk, request.clone(), now)).collect()
        };
        let mut loading = self.loading(tx, desk, now == Now::Database);
        loading.configures = configures(batch);
        let answers = self.consider(&mut loading, needs, decide_all).await?;
        let missing = bodies_of(&answers, desk);
        if !missing.is_empty() {
            let needs = Needs { bodies: missing, ..Needs::default() };
            self.loading(tx, desk, false).fetch(needs).await?;
        }
        let shown = |answer: Answer| answer.map(|grant| Ok(shown(desk, grant)));
        let work = answers.into_iter().map(shown).collect::<Result<Vec<_>, Error>>()?;
        let ready = self.ready(tx, desk).await?;
        let mut saved = save::save(desk, self.slot(tx))?;
        if leans_on_others(batch, desk, &work) {
            saved.steps.push(step!(WAIT_FOR_STANDBY));
        }
        Ok((work, ready, saved))
    }

    /// Where counts are added, by this server on this connection.
    pub(super) fn slot(&self, tx: &Tx) -> i32 {
        i32::from(self.shared.server) * i32::from(super::pool::SLOTS) + i32::from(tx.slot())
    }

    /// A key that was taken to be free was not: for a while they are looked up.
    fn doubt(&self, failed: &Failed) {
        if let Failed::Before(error) = failed
            && error.is_double()
        {
            self.shared.doubts.store(DOUBTS, Ordering::Relaxed);
        }
    }

    /// An empty desk.
    pub(super) fn desk(&self, now: Now) -> Desk {
        let shared = &self.shared;
        let now = match now {
            Now::Given(now) => now,
            // Until it is read, what is due by this server's clock is.
            Now::Database => shared.latest(),
        };
        Desk::new(Setting {
            now,
            config: Arc::clone(&shared.config.lock()),
            turns: shared.turns.lock().clone(),
            names: Arc::clone(&shared.names),
            ids: Arc::clone(&shared.ids),
            tag: shared.tag,
        })
    }

    pub(super) fn loading<'a>(
        &'a self,
        tx: &'a mut Tx,
        desk: &'a mut Desk,
        reads_time: bool,
    ) -> Loading<'a> {
        let seats = &self.shared.seats;
        Loading { tx, desk, seats, reads_time, locks: true, configures: false }
    }

    /// Asks something of a desk, loading whatever turns out to be missing, until nothing is.
    pub(super) async fn consider<T>(
        &self,
        loading: &mut Loading<'_>,
        mut needs: Needs,
        ask: impl Fn(&mut Desk) -> T,
    ) -> Result<T, Error> {
        let mut aside = BTreeSet::new();
        for _ in 0..ROUNDS {
            needs.aside.clone_from(&aside);
            loading.fetch(std::mem::take(&mut needs)).await?;
            let turns = self.shared.turns.lock().clone();
            let desk = &mut *loading.desk;
            // An item may have been enqueued by SQL, which numbers only the lane that it is in.
            let unnumbered = std::mem::take(&mut desk.missing.lock().lanes);
            if !unnumbered.is_empty() {
                desk.unnumbered = unnumbered;
                return Err(Error::Unnumbered);
            }
            desk.begin(&turns);
            let answer = ask(desk);
            needs = std::mem::take(&mut *desk.missing.lock());
            if !needs.lanes.is_empty() {
                desk.unnumbered = needs.lanes;
                return Err(Error::Unnumbered);
            }
            aside.append(&mut needs.aside);
            if needs.is_empty() {
                desk.return_ids();
                return Ok(answer);
            }
        }
        Err(Error::Endless)
    }

    /// Gives numbers to the lanes that had none when a desk needed them.
    pub(super) async fn number_lanes(&self, desk: &Desk) -> Result<(), Error> {
        if desk.unnumbered.is_empty() && !desk.unnamed {
            return Ok(());
        }
        let client = self.shared.pool.get().await?;
        if desk.unnamed {
            naming::number_deliveries(&client, &self.shared.names).await?;
        }
        naming::number_lanes(&client, &self.shared.names, &desk.unnumbered).await
    }

    /// What a batch will need for certain, so that most are decided once. If it trusts, new keys
    /// are taken to be free, and what is held to be as it was handed out.
    fn foreseen(&self, batch: &[Request], desk: &mut Desk, trusts: bool) -> Needs {
        let mut needs = Needs::default();
        let mut settled: Vec<(LeaseId, ItemId)> = Vec::new();
        for request in batch {
            needs.requests.extend(request.id);
            match &request.command {
                Command::Enqueue(items) => {
                    let trusts = trusts && self.shared.trusts_keys();
                    for key in keys_of(items, desk) {
                        if desk.keeps_keys(key.queue) {
                            needs.kept_keys.insert(key.clone());
                            needs.keys.insert(key);
                        } else if trusts {
                            desk.keys.load_none(key);
                        } else {
                            needs.keys.insert(key);
                        }
                    }
                }
                Command::Claim(claim) => {
                    let most = claim.max.clamp(1, COMMAND_ITEMS_MAX);
                    let wanted = needs.offers.entry(Filter::from(claim)).or_default();
                    wanted.most += most;
                    wanted.without = desk.closed_lanes();
                }
                Command::Settle { lease, items } => {
                    needs.leases.insert(*lease);
                    settled.extend(items.iter().map(|(id, _)| (*lease, *id)));
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
        let held = self.shared.held.lock();
        for (lease, id) in settled {
            if !trusts || needs.items.contains(&id) || !held.put(desk, lease, id) {
                needs.items.insert(id);
            }
        }
        needs.items.retain(|id| id.tag() == desk.tag);
        needs
    }

    /// Takes note of what a batch that was committed left in line.
    fn took(&self, desk: &Desk, back: &[tokio_postgres::Row]) {
        let shared = &self.shared;
        shared.saw(desk.now);
        shared.turns.lock().take(&desk.turns);
        {
            let mut config = shared.config.lock();
            if desk.config.version > config.version {
                *config = Arc::clone(&desk.config);
            }
        }
        shared.held.lock().took(desk);
        let mut seats = shared.seats.lock();
        for (ask, found) in &desk.asked {
            let stays = |id: &&ItemId| {
                desk.items.get(*id).and_then(|item| desk.spot(item)) == Some(ask.spot)
                    && !desk.is_parked(**id)
            };
            let left = match found.iter().find(stays) {
                Some(first) => {
                    // Another claim that found it locked may have taken the seat for empty.
                    seats.came(ask.spot, first.serial());
                    continue;
                }
                None if found.len() < ask.most => None,
                None => found.last().map(|last| last.serial() + 1),
            };
            seats.left(ask, left, desk.now);
        }
        for (spot, id) in &desk.due {
            seats.came(*spot, id.serial());
        }
        for (id, item) in desk.items.decided() {
            if let Some(spot) = item.and_then(|item| desk.spot(item)) {
                seats.came(spot, id.serial());
            }
        }
        for (spot, serial) in back.iter().map(load::came) {
            seats.came(spot, serial);
        }
        for queue in &desk.decided.settings {
            let no = desk.names.read().find(queue);
            let lanes = desk.config.lanes.iter().filter(|(_, lane)| Some(lane.name.queue) == no);
            lanes.for_each(|(lane, _)| seats.forget(*lane));
        }
    }

    /// A batch came to nothing: what it looked at is in line for others.
    fn took_nothing(&self, desk: &Desk) {
        self.shared.held.lock().forget(desk.trusted.keys().copied());
        let mut seats = self.shared.seats.lock();
        for (ask, found) in &desk.asked {
            seats.came(ask.spot, found.first().map_or(ask.first, |first| first.serial()));
        }
    }
}

/// The keys of new items, as far as their names have numbers and the rules will not refuse them:
/// the database must not see those.
fn keys_of(items: &[NewItem], desk: &Desk) -> Vec<Key> {
    let names = desk.names.read();
    let key = |new: &NewItem| {
        let (body, key) = (&new.body, new.body.key.as_deref()?);
        fits("key", key, KEY_MAX).ok()?;
        let (queue, tenant) = (names.find(&body.queue)?, names.find(&body.tenant)?);
        Some(Key { queue, tenant, key: key.into() })
    };
    items.iter().filter_map(key).collect()
}

/// What was claimed whose bodies are not on the desk.
fn bodies_of(answers: &[Answer], desk: &Desk) -> BTreeSet<ItemId> {
    let claimed = answers.iter().filter_map(|answer| match answer {
        Answer::Claimed(Some(grant)) => Some(grant),
        _ => None,
    });
    let ids = claimed.flat_map(|grant| &grant.items).map(|item| item.id);
    ids.filter(|id| desk.bodies.get(id).is_none()).collect()
}

fn shown(desk: &Desk, grant: Grant<Item>) -> Grant<Work> {
    let Grant { lease, expires_at, items } = grant;
    let work = |item: Item| {
        let body = desk.bodies.get(&item.id)?;
        let trail = desk.trails.get(&item.id);
        let input = trail.and_then(|trail| trail.input_of(item.stage)).map(<[u8]>::to_vec);
        let stage = Arc::clone(&body.route.stage(item.stage).name);
        Some(Work { item, body: body.clone(), stage, input })
    };
    Grant { lease, expires_at, items: items.into_iter().filter_map(work).collect() }
}

/// Whether an answer vouches for what an earlier batch wrote.
fn leans_on_others(batch: &[Request], desk: &Desk, answers: &[Answer<Work>]) -> bool {
    let known = |id| desk.requests.was(&id).is_some();
    let repeats = batch.iter().any(|request| request.id.is_some_and(known));
    let finds = |each: &[Result<Enqueued, Refusal>]| {
        each.iter().flatten().any(|one| one.outcome == EnqueueOutcome::Duplicate)
    };
    let found = answers.iter().any(|a| matches!(a, Answer::Enqueued(each) if finds(each)));
    repeats || found
}

/// Whether asking all of it again is harmless, even if it was done.
fn is_repeatable(batch: &[Request]) -> bool {
    batch.iter().all(|request| request.id.is_some())
}

/// Whether a batch makes new settings of those that are there.
fn configures(batch: &[Request]) -> bool {
    let changes = |command: &Command| {
        matches!(
            command,
            Command::Configure { .. } | Command::Introduce { .. } | Command::Notify { .. }
        )
    };
    batch.iter().any(|request| changes(&request.command))
}

fn may_repeat(error: &Error) -> bool {
    matches!(error, Error::Unnumbered | Error::Changed)
        || error.is_conflict()
        || error.is_lost_connection()
}
