//! What follows from each command: if it was answered, and if it was not.

use std::collections::BTreeSet;
use std::sync::Arc;

use windrow_core::command::{
    Command, EnqueueOutcome, Enqueued, NewItem, OnDuplicate, OnSplit, Reclaimed, RetryMode, Scope,
    Swept,
};
use windrow_core::limits::{FOLD_AFTER_MS, GRACE_MS};
use windrow_core::ports::Work;
use windrow_core::refusal::{Full, Refusal};
use windrow_core::settings::Settings;
use windrow_core::{Answer, End, ItemId, LeaseId, Timestamp};

use super::fact::Ended;
use super::{Fact, Finding, Keeping, Lawful, Ledger, What};
use crate::sim::payload::number_in;

impl Ledger {
    /// A command was answered. Without `certain` it may have happened long before, so that its
    /// answer says how it was then.
    pub(super) fn happened(
        &mut self,
        command: Command,
        answer: Answer<Work>,
        now: Timestamp,
        certain: bool,
    ) -> Lawful {
        self.note_refusals(&answer);
        match (command, answer) {
            (_, Answer::Refused(Refusal::Internal)) => Err(Finding::general("a rule failed")),
            (Command::Renew { lease, .. }, Answer::Refused(_)) => self.renew_refused(lease, now),
            (_, Answer::Refused(_)) => Ok(()),
            (Command::Enqueue(items), Answer::Enqueued(each)) => {
                let mut pairs = items.into_iter().zip(each);
                pairs.try_for_each(|(new, one)| self.enqueued(&new, one, now, certain))
            }
            (Command::Claim(_), Answer::Claimed(None)) => Ok(()),
            (Command::Claim(claim), Answer::Claimed(Some(grant))) => {
                self.claimed(&claim, grant, now, certain)
            }
            (Command::Renew { lease, lease_ms }, Answer::Renewed(renewed)) => {
                self.renewed(lease, lease_ms, &renewed, now)
            }
            (Command::Progress { .. }, Answer::Progressed(_)) => Ok(()),
            (Command::Settle { lease, items }, Answer::Settled(each)) => {
                let mut pairs = items.into_iter().zip(each);
                pairs.try_for_each(|((id, outcome), one)| match one {
                    Ok(settled) => self.settled(lease, id, &outcome, settled.ending, now),
                    Err(refusal) => self.settle_refused(lease, id, &refusal, now),
                })
            }
            (Command::Cancel { items }, Answer::Cancelled(each)) => {
                let mut pairs = items.into_iter().zip(each);
                pairs.try_for_each(|(id, one)| match one {
                    Ok(cancelled) => self.cancelled(id, cancelled.ongoing, now),
                    Err(refusal) => self.cancel_refused(id, &refusal),
                })
            }
            (Command::Retry { items, mode, .. }, Answer::Retried(each)) => {
                for (id, one) in items.into_iter().zip(each) {
                    match mode {
                        RetryMode::Reset => self.retried(id, now),
                        RetryMode::Clone => self.cloned(id, one.ok().map(|copy| copy.id), certain),
                    }
                }
                Ok(())
            }
            (Command::Delete { items }, Answer::Deleted(each)) => {
                let mut pairs = items.into_iter().zip(each);
                pairs.try_for_each(|(id, one)| match one {
                    Ok(deleted) => self.deleted(id, deleted.more),
                    Err(_) => Ok(()),
                })
            }
            (Command::Prioritise { .. }, Answer::Prioritised(_)) => Ok(()),
            (Command::Pause(scope), Answer::Done) => self.set_paused(scope, Some(true)),
            (Command::Resume(scope), Answer::Done) => self.set_paused(scope, Some(false)),
            (Command::Configure { queue, settings }, Answer::Done) => {
                self.configured(queue, *settings, true)
            }
            (Command::Gate { closed_until, .. }, Answer::Done) => {
                self.gate = Some(closed_until);
                Ok(())
            }
            (Command::Reclaim { .. }, Answer::Reclaimed(reclaimed)) => {
                self.reclaimed(Some(reclaimed), now)
            }
            (Command::Grace { until }, Answer::Done) => self.grace(until, now, true),
            (Command::Sweep { .. }, Answer::Swept(swept)) => self.swept(swept),
            (command, answer) => {
                let what = format!("{} was answered {answer:?}", command.verb());
                Err(Finding::general(what))
            }
        }
    }

    /// A command was not answered: whatever it could have changed is not certain any more.
    pub(super) fn may_have_happened(&mut self, command: &Command, now: Timestamp) -> Lawful {
        let verb = command.verb();
        match command {
            Command::Enqueue(items) => {
                self.batch_may_be_there(items);
                items.iter().for_each(|new| self.may_be_enqueued(new, now));
            }
            Command::Renew { lease, lease_ms } => self.may_be_renewed(*lease, *lease_ms, now),
            Command::Settle { lease, items } => {
                for (id, outcome) in items {
                    self.tell(Some(*id), What::Lost { verb });
                    self.may_be_settled(*lease, *id, outcome, now);
                }
            }
            Command::Cancel { items } => {
                for id in items {
                    self.tell(Some(*id), What::Lost { verb });
                    self.unsettle(*id, now);
                }
            }
            Command::Retry { items, mode: RetryMode::Reset, .. } => {
                for id in items {
                    self.tell(Some(*id), What::Lost { verb });
                    self.rerun(*id, now);
                }
            }
            Command::Delete { items } => {
                for id in items {
                    self.tell(Some(*id), What::Lost { verb });
                    self.doom(*id);
                }
            }
            Command::Pause(scope) | Command::Resume(scope) => {
                self.paused.insert(scope.clone(), None);
            }
            Command::Configure { queue, settings } => {
                self.configured(queue.clone(), Settings::clone(settings), false)?;
            }
            Command::Gate { .. } => self.gate = None,
            Command::Reclaim { .. } => self.reclaimed(None, now)?,
            Command::Grace { until } => self.grace(*until, now, false)?,
            Command::Claim(_) => self.strays = true,
            Command::Retry { .. }
            | Command::Progress { .. }
            | Command::Prioritise { .. }
            | Command::Blob { .. }
            | Command::ForgetBlob { .. }
            | Command::Limit { .. }
            | Command::Introduce { .. }
            | Command::Note(_)
            | Command::Notify { .. }
            | Command::Sweep { .. } => {}
        }
        Ok(())
    }

    fn note_refusals(&mut self, answer: &Answer<Work>) {
        let full = |refusal: &Refusal| matches!(refusal, Refusal::StoreFull { .. });
        let refusals: Vec<&Refusal> = match answer {
            Answer::Enqueued(each) => each.iter().filter_map(|one| one.as_ref().err()).collect(),
            Answer::Refused(refusal) => vec![refusal],
            _ => return,
        };
        for refusal in refusals.into_iter().filter(|refusal| full(refusal)) {
            match refusal {
                Refusal::StoreFull { what: Full::Disk, .. } => self.sometimes.refused_disk += 1,
                _ => self.sometimes.refused_memory += 1,
            }
        }
    }

    fn key_of(&self, new: &NewItem) -> Vec<ItemId> {
        let body = &new.body;
        body.key.as_ref().map_or(Vec::new(), |key| self.with_key(&body.tenant, &body.queue, key))
    }

    fn enqueued(
        &mut self,
        new: &NewItem,
        one: Result<Enqueued, Refusal>,
        now: Timestamp,
        certain: bool,
    ) -> Lawful {
        self.may_replace(new, now);
        let Enqueued { id, outcome } = match one {
            Ok(enqueued) => enqueued,
            Err(Refusal::Internal) => return Err(Finding::general("an enqueue failed inside")),
            Err(_) => return Ok(()),
        };
        if !certain {
            // It happened now, or when its first answer was lost.
            self.may_be_enqueued(new, now);
            return Ok(());
        }
        let Some(number) = number_in(&new.body.payload) else { return Ok(()) };
        self.tell(Some(id), What::Enqueued { outcome, number });
        let known = self.facts.contains_key(&id);
        match outcome {
            EnqueueOutcome::Created | EnqueueOutcome::Successor => {
                if known || self.graves.contains(&id) {
                    return Err(Finding::of(id, "an id was given twice"));
                }
                self.add(id, number, &new.body, None);
            }
            _ if self.graves.contains(&id) => {
                return Err(Finding::of(id, "it coalesced into an item that is gone"));
            }
            EnqueueOutcome::Duplicate if known => return self.is_in_line(id),
            EnqueueOutcome::Duplicate => {
                self.add(id, 0, &new.body, None);
                self.unsure(id);
                return Ok(());
            }
            EnqueueOutcome::Replaced if known => self.is_in_line(id)?,
            EnqueueOutcome::Replaced => {
                self.add(id, number, &new.body, None);
                self.unsure(id);
            }
        }
        if let Some(fact) = self.facts.get_mut(&id) {
            fact.number = number;
            fact.others.clear();
            fact.earliest = new.not_before;
            fact.floor = 0;
        }
        Ok(())
    }

    /// It exists, but what happened to it so far nobody knows.
    fn unsure(&mut self, id: ItemId) {
        if let Some(fact) = self.facts.get_mut(&id) {
            fact.may_end = Some(Timestamp::ZERO);
        }
    }

    /// Only an item that waits takes in another with its key.
    fn is_in_line(&self, id: ItemId) -> Lawful {
        if self.holder(id).is_some() {
            return Err(Finding::of(id, "a newer item coalesced into it while it was held"));
        }
        Ok(())
    }

    /// Somebody may have enqueued this.
    pub(super) fn may_be_enqueued(&mut self, new: &NewItem, now: Timestamp) {
        self.may_replace(new, now);
        for id in self.key_of(new) {
            self.tell(Some(id), What::Lost { verb: "enqueue" });
            if let Some(fact) = self.facts.get_mut(&id) {
                fact.earliest = Timestamp::ZERO;
                fact.others.extend(number_in(&new.body.payload));
            }
        }
    }

    /// An enqueue may have replaced a waiting item of its key, or cancelled a split one.
    fn may_replace(&mut self, new: &NewItem, now: Timestamp) {
        let replaces = new.on_duplicate == OnDuplicate::Replace;
        if !replaces && new.on_split != OnSplit::Supersede {
            return;
        }
        for id in self.key_of(new) {
            if self.holder(id).is_none() {
                self.unsettle(id, now);
            }
        }
    }

    fn cancelled(&mut self, id: ItemId, ongoing: bool, now: Timestamp) -> Lawful {
        self.tell(Some(id), What::Cancelled { ongoing });
        self.unsettle(id, now);
        let Some(fact) = self.facts.get_mut(&id) else { return Ok(()) };
        if fact.end.is_some() {
            return Err(Finding::of(id, "it was cancelled although it had ended"));
        }
        fact.cancelled = ongoing;
        if !ongoing {
            fact.end = Some(Ended::As(End::Cancelled));
        }
        Ok(())
    }

    fn cancel_refused(&mut self, id: ItemId, refusal: &Refusal) -> Lawful {
        if self.holder(id).is_some() {
            let what = format!("a cancel was refused although it is held: {refusal}");
            return Err(Finding::of(id, what));
        }
        Ok(())
    }

    /// What was refused may have reset some descendants before.
    fn retried(&mut self, id: ItemId, now: Timestamp) {
        self.tell(Some(id), What::Retried);
        self.rerun(id, now);
    }

    fn cloned(&mut self, id: ItemId, copy: Option<ItemId>, certain: bool) {
        let (Some(copy), Some(fact), true) = (copy, self.facts.get(&id).cloned(), certain) else {
            return;
        };
        self.sometimes.cloned += 1;
        let mut body = windrow_core::Body::new(fact.tenant, fact.queue);
        (body.key, body.group) = (fact.key, fact.group);
        self.tell(Some(copy), What::Learned { number: fact.number });
        self.add(copy, fact.number, &body, None);
    }

    fn deleted(&mut self, id: ItemId, more: bool) -> Lawful {
        self.sometimes.deleted += 1;
        self.tell(Some(id), What::Deleted);
        for member in self.tree_of(id) {
            let live = self.facts.get(&member).is_some_and(|fact| fact.may_end.is_none());
            if live {
                return Err(Finding::of(member, "it was deleted although it had not ended"));
            }
        }
        self.doom(id);
        if !more {
            self.tree_of(id).into_iter().for_each(|member| self.bury(member));
            self.graves.insert(id);
        }
        Ok(())
    }

    fn doom(&mut self, id: ItemId) {
        for member in self.tree_of(id) {
            if let Some(fact) = self.facts.get_mut(&member) {
                fact.doomed = true;
            }
        }
    }

    fn set_paused(&mut self, scope: Scope, paused: Option<bool>) -> Lawful {
        self.paused.insert(scope, paused);
        Ok(())
    }

    fn configured(&mut self, queue: Arc<str>, settings: Settings, certain: bool) -> Lawful {
        let age_ms = settings.retention.max_age_ms.min(FOLD_AFTER_MS);
        let early = forgets(&settings);
        let keeping = self.keeping.entry(queue.clone()).or_insert(Keeping { age_ms, early });
        keeping.age_ms = keeping.age_ms.min(age_ms);
        keeping.early |= early;
        self.settings.insert(queue, certain.then_some(settings));
        Ok(())
    }

    /// Leases that ran out may have been taken back.
    fn reclaimed(&mut self, reclaimed: Option<Reclaimed>, now: Timestamp) -> Lawful {
        let run_out: Vec<LeaseId> =
            self.leases.iter().filter(|(_, of)| of.least <= now).map(|(id, _)| *id).collect();
        let held = run_out.iter().flat_map(|lease| &self.leases[lease].items).copied();
        let mut over: BTreeSet<ItemId> = held.collect();
        if self.strays {
            over.extend(self.facts.keys());
        }
        for id in over {
            match self.facts.get(&id) {
                Some(Fact { holder: None, end: None, .. }) => self.unsettle(id, now),
                Some(Fact { holder: Some(by), .. }) if run_out.contains(&by.lease) => {
                    self.tell(Some(id), What::Expired);
                    self.unsettle(id, now);
                }
                _ => {}
            }
        }
        if reclaimed.is_some_and(|done| !done.more) {
            for id in run_out {
                if self.leases.get(&id).is_some_and(|lease| lease.most <= now) {
                    self.leases.remove(&id);
                    self.spent.insert(id);
                }
            }
        }
        self.sometimes.reclaimed += reclaimed.map_or(0, |done| u64::from(done.items));
        Ok(())
    }

    fn grace(&mut self, until: Timestamp, now: Timestamp, certain: bool) -> Lawful {
        let until = until.min(now.plus(GRACE_MS));
        for lease in self.leases.values_mut() {
            let (least, most) = lease.length_ms;
            let (least, most) = (until.min(now.plus(least)), until.min(now.plus(most)));
            self.sometimes.grace += u64::from(certain && most > lease.most);
            lease.most = lease.most.max(most);
            if certain {
                lease.least = lease.least.max(least);
            }
        }
        Ok(())
    }

    fn swept(&mut self, swept: Swept) -> Lawful {
        self.sometimes.swept += u64::from(swept.cancelled);
        self.sometimes.folded += u64::from(swept.folded);
        self.sometimes.removed += u64::from(swept.removed);
        Ok(())
    }

    /// A batch without keys happened wholly or not at all, and if it did then just now, unless its
    /// queue takes or keeps only some of it.
    fn batch_may_be_there(&mut self, items: &[NewItem]) {
        let takes_all = |settings: &Settings| settings.live_max.is_none() && !forgets(settings);
        let plain = |new: &NewItem| {
            let settings = self.settings.get(&new.body.queue);
            let whole = settings.is_none_or(|known| known.as_ref().is_some_and(takes_all));
            new.body.key.is_none() && whole
        };
        if self.crashing && !self.cramped && items.len() > 1 && items.iter().all(plain) {
            let numbers = items.iter().filter_map(|new| number_in(&new.body.payload));
            self.batches.push(numbers.collect());
        }
    }
}

/// Whether ended items may go before they are old.
fn forgets(settings: &Settings) -> bool {
    settings.forget_completed || settings.retention.max_per_tenant < 1_000
}
