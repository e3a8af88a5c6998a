//! The laws of handing out: claims, renewals and settles, and who may do what when.

use std::sync::Arc;

use windrow_core::command::{Claim, Grant, Outcome, Renewed};
use windrow_core::item::Marks;
use windrow_core::limits::{LEASE_MAX_MS, LEASE_MIN_MS};
use windrow_core::ports::Work;
use windrow_core::refusal::Refusal;
use windrow_core::settings::Policy;
use windrow_core::trail::Ending;
use windrow_core::{End, ItemId, LeaseId, State, Timestamp};

use super::fact::{Ended, Holder, Lease};
use super::{Finding, Lawful, Ledger, What};

impl Ledger {
    pub(super) fn claimed(
        &mut self,
        claim: &Claim,
        grant: Grant<Work>,
        now: Timestamp,
        certain: bool,
    ) -> Lawful {
        let Grant { lease: id, expires_at, items } = grant;
        if !certain {
            // Granted some time ago, to somebody who was not told; how long it lasts is not known.
            let items = items.iter().map(|work| work.item.id).collect();
            let (least, most) = (Timestamp::ZERO, Timestamp::NEVER);
            self.leases.insert(id, Lease { least, most, length_ms: (0, LEASE_MAX_MS), items });
            self.strays = true;
            return Ok(());
        }
        if self.leases.contains_key(&id) || self.spent.contains(&id) {
            return Err(Finding::general(format!("lease {id} was granted twice")));
        }
        if items.is_empty() {
            return Err(Finding::general("a claim got a lease over nothing"));
        }
        self.check_length(claim, &items[0], expires_at, now)?;
        let alone = items.iter().any(|work| work.item.has(Marks::ALONE));
        if alone && items.len() > 1 {
            return Err(Finding::of(items[0].item.id, "it was to be handed out alone"));
        }
        self.sometimes.alone += u64::from(alone);
        self.sometimes.claimed += items.len() as u64;
        let ids = items.iter().map(|work| work.item.id).collect();
        let length_ms = (expires_at.since(now), expires_at.since(now));
        let (least, most) = (expires_at, expires_at);
        self.leases.insert(id, Lease { least, most, length_ms, items: ids });
        items.into_iter().try_for_each(|work| self.handed_out(claim, id, &work, now))
    }

    /// A lease lasts as long as the claim says, or else as the settings do.
    fn check_length(
        &self,
        claim: &Claim,
        first: &Work,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Lawful {
        let policy = self.policy(first);
        let Some(lease_ms) = claim.lease_ms.or(policy.map(|policy| policy.lease_ms)) else {
            return Ok(());
        };
        let expected = now.plus(lease_ms.clamp(LEASE_MIN_MS, LEASE_MAX_MS));
        if expires_at != expected {
            let what = format!("its lease lasts until {expires_at:?}, not {expected:?}");
            return Err(Finding::of(first.item.id, what));
        }
        Ok(())
    }

    /// The policy for a piece of work, if the settings of its queue are certain.
    fn policy(&self, work: &Work) -> Option<Policy> {
        let settings = match self.settings.get(&work.body.queue) {
            Some(settings) => settings.clone()?,
            None => Default::default(),
        };
        Some(settings.policy(&work.stage, &work.body.kind))
    }

    fn handed_out(&mut self, claim: &Claim, lease: LeaseId, work: &Work, now: Timestamp) -> Lawful {
        let (item, id) = (&work.item, work.item.id);
        self.tell(Some(id), What::Claimed { lease, attempt: item.attempts });
        let broken = |what: String| Err(Finding::of(id, what));
        if item.state != (State::Leased { lease }) {
            return broken(format!("it was handed out, and is {:?}", item.state));
        }
        self.learn(item, &work.body)?;
        self.check_filters(claim, work)?;
        self.check_gates(work, now)?;
        if let Some(other) = self.holder(id) {
            return broken(format!("Q1: it was handed out while {} holds it", other.lease));
        }
        let Some(fact) = self.facts.get_mut(&id) else { return Ok(()) };
        if let Some(end) = fact.end {
            return broken(format!("it was handed out after it had ended {end:?}"));
        }
        if fact.earliest > now {
            return broken(format!("it was handed out before {:?}", fact.earliest));
        }
        if item.attempts <= fact.floor {
            let (floor, attempts) = (fact.floor, item.attempts);
            return broken(format!("attempt {attempts} after {floor} attempts"));
        }
        fact.may_end = None;
        fact.holder = Some(Holder::of(lease, item, &work.body));
        self.check_group(work)?;
        self.check_key(id)
    }

    fn check_filters(&self, claim: &Claim, work: &Work) -> Lawful {
        let wants = |names: &[Arc<str>], name: &Arc<str>| names.is_empty() || names.contains(name);
        let fits = wants(&claim.queues, &work.body.queue)
            && wants(&claim.stages, &work.stage)
            && wants(&claim.kinds, &work.body.kind)
            && wants(&claim.tenants, &work.body.tenant);
        if !fits {
            return Err(Finding::of(work.item.id, format!("it does not fit {claim:?}")));
        }
        Ok(())
    }

    /// Nothing that is paused, behind a closed gate or under a cancelled item is handed out.
    fn check_gates(&self, work: &Work, now: Timestamp) -> Lawful {
        let id = work.item.id;
        let paused = self.paused.iter().find(|(scope, paused)| {
            **paused == Some(true)
                && scope.queue == work.body.queue
                && scope.stage.as_ref().is_none_or(|stage| *stage == work.stage)
                && scope.tenant.as_ref().is_none_or(|tenant| *tenant == work.body.tenant)
        });
        if let Some((scope, _)) = paused {
            return Err(Finding::of(id, format!("it was handed out although paused: {scope:?}")));
        }
        let gated = self.policy(work).is_some_and(|policy| policy.resource.is_some());
        if gated && self.gate.is_some_and(|until| until > now) {
            return Err(Finding::of(id, "it was handed out while its resource is closed"));
        }
        for above in self.ancestors(id) {
            if self.facts.get(&above).is_some_and(|fact| fact.cancelled || fact.end.is_some()) {
                return Err(Finding::of(
                    id,
                    format!("it was handed out below {above}, which ended"),
                ));
            }
        }
        Ok(())
    }

    /// A group's limit counts what is certainly held in the same stage.
    fn check_group(&self, work: &Work) -> Lawful {
        let (Some(group), Some(policy)) = (&work.body.group, self.policy(work)) else {
            return Ok(());
        };
        let limit = if policy.ordered { Some(1) } else { policy.group_limit };
        let Some(limit) = limit else { return Ok(()) };
        let together = self.facts.values().filter(|fact| {
            fact.group.as_ref() == Some(group)
                && (&fact.queue, &fact.tenant) == (&work.body.queue, &work.body.tenant)
                && fact.holder.as_ref().is_some_and(|holder| holder.stage == work.stage)
        });
        let held = together.count();
        if held > limit as usize {
            let what = format!("{held} of its group are held, and {limit} may be");
            return Err(Finding::of(work.item.id, what));
        }
        Ok(())
    }

    /// One identity never runs twice at once.
    fn check_key(&self, id: ItemId) -> Lawful {
        let Some(fact) = self.facts.get(&id) else { return Ok(()) };
        let Some(key) = &fact.key else { return Ok(()) };
        for other in self.with_key(&fact.tenant, &fact.queue, key) {
            if other != id && self.holder(other).is_some() {
                return Err(Finding::of(id, format!("{other} with the same key is held as well")));
            }
        }
        Ok(())
    }

    pub(super) fn renewed(
        &mut self,
        id: LeaseId,
        lease_ms: Option<u64>,
        renewed: &Renewed,
        now: Timestamp,
    ) -> Lawful {
        let Renewed { expires_at, held } = renewed;
        let kept: Vec<ItemId> = self.held_by(id, now);
        let Some(lease) = self.leases.get_mut(&id) else {
            return Err(Finding::general(format!("lease {id}, never granted, was renewed")));
        };
        if lease.most <= now {
            return Err(Finding::general(format!("lease {id} was renewed after it expired")));
        }
        if *expires_at < lease.least {
            return Err(Finding::general(format!("a renewal shortened lease {id}")));
        }
        if let Some(ms) = lease_ms {
            lease.length_ms = (ms, ms);
        }
        (lease.least, lease.most) = (*expires_at, *expires_at);
        if let Some(missing) = kept.iter().find(|item| !held.contains(item)) {
            return Err(Finding::of(*missing, format!("lease {id} lost it without a reason")));
        }
        for item in held {
            let settled = self.ending_of(*item, id).is_some();
            if settled {
                return Err(Finding::of(*item, format!("lease {id} holds it although settled")));
            }
        }
        Ok(())
    }

    /// Items that a lease certainly holds at a time.
    fn held_by(&self, id: LeaseId, now: Timestamp) -> Vec<ItemId> {
        let items = self.leases.get(&id).map_or(Vec::new(), |lease| lease.items.clone());
        let held = |item: &ItemId| self.holds(*item, now).is_some_and(|held| held.lease == id);
        items.into_iter().filter(held).collect()
    }

    pub(super) fn renew_refused(&mut self, id: LeaseId, now: Timestamp) -> Lawful {
        match self.held_by(id, now).first() {
            Some(item) => Err(Finding::of(*item, format!("lease {id} holds it and was refused"))),
            None => Ok(()),
        }
    }

    pub(super) fn may_be_renewed(&mut self, id: LeaseId, lease_ms: Option<u64>, now: Timestamp) {
        if let Some(lease) = self.leases.get_mut(&id) {
            let (least, most) = lease.length_ms;
            let ms = lease_ms.unwrap_or(most);
            lease.length_ms = (least.min(ms), most.max(ms));
            lease.most = lease.most.max(now.plus(ms));
        }
    }

    /// How a lease's attempt on an item was settled, if it was; none inside if that is not known.
    fn ending_of(&self, item: ItemId, lease: LeaseId) -> Option<Option<Ending>> {
        let endings = &self.facts.get(&item)?.endings;
        endings.iter().rev().find(|(of, _)| *of == lease).map(|(_, ending)| *ending)
    }

    pub(super) fn settled(
        &mut self,
        lease: LeaseId,
        id: ItemId,
        outcome: &Outcome,
        ending: Ending,
        now: Timestamp,
    ) -> Lawful {
        self.tell(Some(id), What::Settled { lease, ending });
        if self.graves.contains(&id) {
            return Err(Finding::of(id, "it was settled after it was gone"));
        }
        match self.ending_of(id, lease) {
            Some(Some(first)) if first == ending => return Ok(()),
            Some(Some(first)) => {
                let what = format!("lease {lease} settled it {first:?}, then {ending:?}");
                return Err(Finding::of(id, what));
            }
            Some(None) => {
                // This one, or the one whose answer was lost.
                self.unsettle(id, now);
                self.may_spawn(outcome, now);
                return Ok(());
            }
            None => {}
        }
        self.check_settle(lease, id, outcome, ending, now)?;
        self.may_spawn(outcome, now);
        self.end_attempt(lease, id, outcome, ending, now);
        Ok(())
    }

    /// Only the lease that holds an item settles it, and only while it lasts.
    fn check_settle(
        &self,
        lease: LeaseId,
        id: ItemId,
        outcome: &Outcome,
        ending: Ending,
        now: Timestamp,
    ) -> Lawful {
        let broken = |what: String| Err(Finding::of(id, what));
        if self.spent.contains(&lease) {
            return broken(format!("lease {lease} settled it after it had let it go"));
        }
        let known = self.leases.get(&lease);
        if !known.is_some_and(|known| known.items.contains(&id)) {
            return broken(format!("lease {lease} settled it and was never granted it"));
        }
        if known.is_some_and(|known| known.most <= now) {
            return broken(format!("lease {lease} settled it after it had expired"));
        }
        if let Some(holder) = self.holder(id).filter(|holder| holder.lease != lease) {
            return broken(format!("Q2: lease {lease} settled it, and {} holds it", holder.lease));
        }
        if let Some(end) = self.facts.get(&id).and_then(|fact| fact.end) {
            return broken(format!("it was settled {ending:?} after it had ended {end:?}"));
        }
        use Ending::{Completed, Failed, Released, Retried, Skipped, Snoozed, Split};
        let lawful: &[Ending] = match outcome {
            Outcome::Complete { .. } => &[Completed, Split],
            Outcome::Split { .. } => &[Split],
            Outcome::Retry { .. } => &[Retried, Failed, Released],
            Outcome::Fail { .. } => &[Failed],
            Outcome::Skip { .. } => &[Skipped, Split],
            Outcome::Release { .. } => &[Released, Retried, Failed],
            Outcome::Snooze { .. } => &[Snoozed, Retried, Failed],
        };
        if !lawful.contains(&ending) {
            return broken(format!("{outcome:?} was settled {ending:?}"));
        }
        Ok(())
    }

    fn end_attempt(
        &mut self,
        lease: LeaseId,
        id: ItemId,
        outcome: &Outcome,
        ending: Ending,
        now: Timestamp,
    ) {
        if matches!(outcome, Outcome::Split { more: true, .. }) {
            return;
        }
        let holder = self.facts.get_mut(&id).and_then(|fact| fact.holder.take());
        for above in self.ancestors(id) {
            if let Some(fact) = self.facts.get_mut(&above) {
                fact.may_end.get_or_insert(now);
            }
        }
        if ending == Ending::Failed {
            // What it had begun to split is left behind.
            self.unsettle(id, now);
        }
        let Some(fact) = self.facts.get_mut(&id) else { return };
        fact.endings.push((lease, Some(ending)));
        let attempt = holder.as_ref().map_or(0, |holder| holder.attempt);
        let was_last = holder.is_some_and(|holder| holder.is_last_stage);
        fact.floor = 0;
        match ending {
            Ending::Completed if was_last => fact.end = Some(Ended::As(End::Completed)),
            Ending::Skipped if was_last => fact.end = Some(Ended::Somehow),
            Ending::Failed => fact.end = Some(Ended::As(End::Failed)),
            Ending::Retried => fact.floor = attempt,
            Ending::Released | Ending::Snoozed => fact.floor = attempt.saturating_sub(1),
            _ => {}
        }
        if matches!(ending, Ending::Completed | Ending::Skipped | Ending::Split | Ending::Failed) {
            fact.may_end.get_or_insert(now);
        }
        fact.earliest = match outcome {
            Outcome::Retry { delay_ms: Some(ms), .. } if ending == Ending::Retried => now.plus(*ms),
            Outcome::Release { delay_ms } if ending == Ending::Released => now.plus(*delay_ms),
            Outcome::Snooze { until } if ending == Ending::Snoozed => *until,
            _ => Timestamp::ZERO,
        };
    }

    pub(super) fn settle_refused(
        &mut self,
        lease: LeaseId,
        id: ItemId,
        refusal: &Refusal,
        now: Timestamp,
    ) -> Lawful {
        self.tell(Some(id), What::Refused { code: refusal.code() });
        let holds = self.holds(id, now).is_some_and(|holder| holder.lease == lease);
        let ours = matches!(
            refusal,
            Refusal::LeaseLost { .. } | Refusal::NotFound { .. } | Refusal::Internal
        );
        if holds && ours {
            return Err(Finding::of(id, format!("its holder was refused: {refusal}")));
        }
        if matches!(refusal, Refusal::Internal | Refusal::Unreadable { .. }) {
            return Err(Finding::of(id, format!("a settle was refused: {refusal}")));
        }
        Ok(())
    }

    /// What a completed item spawns was not told by name.
    fn may_spawn(&mut self, outcome: &Outcome, now: Timestamp) {
        if let Outcome::Complete { spawn, .. } = outcome {
            spawn.iter().for_each(|new| self.may_be_enqueued(new, now));
        }
    }

    pub(super) fn may_be_settled(
        &mut self,
        lease: LeaseId,
        id: ItemId,
        outcome: &Outcome,
        now: Timestamp,
    ) {
        self.may_spawn(outcome, now);
        let held = self.leases.get(&lease).is_some_and(|lease| lease.items.contains(&id));
        if !held || matches!(self.ending_of(id, lease), Some(Some(_))) {
            return;
        }
        self.unsettle(id, now);
        if let Some(fact) = self.facts.get_mut(&id) {
            fact.endings.push((lease, None));
            fact.earliest = Timestamp::ZERO;
        }
    }
}
