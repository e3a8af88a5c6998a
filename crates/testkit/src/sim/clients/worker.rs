//! Workers claim, hold, renew and settle: mostly well, sometimes late, twice, or not at all.

use windrow_core::command::{Claim, Grant, Outcome};
use windrow_core::ports::Work;
use windrow_core::tally::OnGaps;
use windrow_core::trail::{Class, Progress};
use windrow_core::{ItemId, LeaseId, RequestId};

use super::{Client, Doing, Stopped};
use crate::sim::plan::{new_child, new_claim, new_item, one};

impl Client {
    pub(super) async fn work(mut self) {
        let name = format!("worker-{}", self.number);
        // It stops with the store.
        let Err(Stopped) = self.work_for_ever(&name).await;
    }

    async fn work_for_ever(&mut self, name: &str) -> Result<std::convert::Infallible, Stopped> {
        loop {
            self.rest(200).await;
            let claim = new_claim(&mut self.dice, name);
            let Some(grant) = self.claim(claim).await? else { continue };
            if self.dice.percent(4) {
                // It dies; its lease has to run out.
                self.sleep(2_000).await;
                continue;
            }
            self.hold(&grant).await?;
            self.settle_all(grant).await?;
        }
    }

    async fn claim(&mut self, claim: Claim) -> Result<Option<Grant<Work>>, Stopped> {
        let wait_ms = if self.dice.percent(60) { self.dice.below(15_000) as u64 } else { 0 };
        let request: Option<RequestId> =
            (wait_ms == 0 && self.dice.percent(10)).then(|| self.desk.next_request());
        let engine = self.desk.engine.clone();
        if wait_ms == 0 {
            return Ok(self.ask("claim", engine.claim(claim, 0, request)).await?.flatten());
        }
        let worker = claim.worker.clone();
        let before = self.desk.ledger.lock().claims_of(&worker);
        self.does(Doing::Waiting { claim: claim.clone(), until: self.now().plus(wait_ms) });
        let claimed = engine.claim(claim, wait_ms, None).await;
        let mut ledger = self.desk.ledger.lock();
        // The first look, one for each call, and one at the end if none was of use.
        let looks = ledger.claims_of(&worker) - before;
        let in_vain = looks.saturating_sub(2);
        let useful = matches!(claimed, Ok(Some(_))) && looks > 1;
        ledger.sometimes.woken += in_vain + u64::from(useful);
        ledger.sometimes.woken_in_vain += in_vain;
        drop(ledger);
        match claimed {
            Ok(grant) => Ok(grant),
            Err(windrow_engine::Failure::Store(_)) => self.or_stopped(),
            Err(_) => Ok(None),
        }
    }

    /// Works on it for a while, and says so or not.
    async fn hold(&mut self, grant: &Grant<Work>) -> Result<(), Stopped> {
        let engine = self.desk.engine.clone();
        for _ in 0..self.dice.below(3) {
            self.rest(4_000).await;
            if self.dice.percent(50) {
                let lease_ms = self.dice.percent(50).then(|| 500 + self.dice.below(20_000) as u64);
                self.ask("renew", engine.renew(grant.lease, lease_ms)).await?;
            } else if self.dice.percent(30) {
                let progress = Progress { current: 1, total: 3, message: "so far".into() };
                let items: Vec<_> =
                    grant.items.iter().map(|work| (work.item.id, progress.clone())).collect();
                self.ask("progress", engine.progress(grant.lease, items)).await?;
            }
        }
        Ok(())
    }

    async fn settle_all(&mut self, grant: Grant<Work>) -> Result<(), Stopped> {
        let Grant { lease, items, .. } = grant;
        let mut left = items;
        while !left.is_empty() {
            let some = left.split_off(self.dice.below(left.len()));
            let mut batch = Vec::new();
            for work in &some {
                batch.push((work.item.id, self.outcome(work)));
            }
            self.settle(lease, batch, &some).await?;
            if self.dice.percent(10) {
                // It forgets the rest.
                return Ok(());
            }
            self.rest(500).await;
        }
        Ok(())
    }

    async fn settle(
        &mut self,
        lease: LeaseId,
        batch: Vec<(ItemId, Outcome)>,
        some: &[Work],
    ) -> Result<(), Stopped> {
        let engine = self.desk.engine.clone();
        let lease = if self.dice.percent(2) { self.foreign_lease(lease) } else { lease };
        let sliced = batch.iter().any(|(_, o)| matches!(o, Outcome::Split { more: true, .. }));
        let answer = self.ask("settle", engine.settle(lease, batch.clone())).await?;
        if let Some(each) = &answer {
            assert_eq!(each.len(), batch.len(), "one answer for each item");
        }
        if self.dice.percent(8) {
            self.ask("settle", engine.settle(lease, batch)).await?;
        }
        if sliced && self.dice.percent(85) {
            self.rest(300).await;
            let batch = some.iter().map(|work| (work.item.id, self.last_slice(work))).collect();
            self.ask("settle", engine.settle(lease, batch)).await?;
        }
        Ok(())
    }

    /// A lease that somebody else was granted, as a confused worker would use.
    fn foreign_lease(&mut self, own: LeaseId) -> LeaseId {
        let ledger = self.desk.ledger.lock();
        let mut leases: Vec<LeaseId> = ledger.leases().map(|(id, _)| *id).collect();
        drop(ledger);
        leases.sort_unstable();
        *self.dice.pick(&leases).unwrap_or(&own)
    }

    fn outcome(&mut self, work: &Work) -> Outcome {
        let splits = matches!(&*work.stage, "pages" | "chunk");
        if splits && self.dice.percent(75) {
            return self.split(work);
        }
        let message = "by chance".to_owned();
        match self.dice.below(100) {
            0..62 => self.complete(),
            62..74 => {
                let class = one(&mut self.dice, &Class::ALL);
                let delay_ms = self.dice.percent(30).then(|| self.dice.below(3_000) as u64);
                Outcome::Retry { class, message, delay_ms }
            }
            74..82 => Outcome::Fail { class: Class::Other, message },
            82..88 => Outcome::Skip { reason: message },
            88..94 => Outcome::Release { delay_ms: self.dice.below(3_000) as u64 },
            _ => Outcome::Snooze { until: self.now().plus(self.dice.below(8_000) as u64) },
        }
    }

    fn complete(&mut self) -> Outcome {
        let output = self.dice.percent(40).then(|| vec![self.dice.draw() as u8; 40]);
        let result = self.dice.percent(20).then(|| vec![self.dice.draw() as u8; 20]);
        let now = self.now();
        let mut spawn = Vec::new();
        if self.dice.percent(4) {
            spawn.push(new_item(&mut self.dice, &mut self.desk.ledger.lock(), now));
        }
        Outcome::Complete { result, output, spawn }
    }

    fn split(&mut self, work: &Work) -> Outcome {
        let count = self.dice.below(4) as u32;
        // Ordinals repeat now and then, as when a worker splits again after a crash.
        let from = self.dice.below(3) as u32;
        let mut ledger = self.desk.ledger.lock();
        let parent = (work.item.id, &work.body);
        let children = (from..from + count)
            .map(|ordinal| new_child(&mut self.dice, &mut ledger, parent, ordinal))
            .collect();
        drop(ledger);
        Outcome::Split {
            children,
            more: self.dice.percent(30),
            on_gaps: one(&mut self.dice, &[OnGaps::Continue, OnGaps::Continue, OnGaps::Stop]),
            output: self.dice.percent(30).then(|| vec![7; 30]),
        }
    }

    fn last_slice(&mut self, work: &Work) -> Outcome {
        match self.split(work) {
            Outcome::Split { children, on_gaps, output, .. } => {
                Outcome::Split { children, more: false, on_gaps, output }
            }
            other => other,
        }
    }
}
