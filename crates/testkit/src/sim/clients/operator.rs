//! Operators do to items and queues whatever an operator may.

use windrow_core::ItemId;
use windrow_core::command::{Command, RetryMode};

use super::{Client, Stopped};
use crate::sim::plan::{QUEUES, RESOURCE, STAGES, new_scope, new_settings, one};

impl Client {
    pub(super) async fn operate(mut self) {
        // It stops with the store.
        let Err(Stopped) = self.operate_for_ever().await;
    }

    async fn operate_for_ever(&mut self) -> Result<std::convert::Infallible, Stopped> {
        loop {
            self.rest(1_500).await;
            self.operate_once().await?;
        }
    }

    async fn operate_once(&mut self) -> Result<(), Stopped> {
        let engine = self.desk.engine.clone();
        match self.dice.below(100) {
            0..22 => {
                let items = self.some();
                self.ask("cancel", engine.cancel(items)).await?;
            }
            22..55 => self.retry().await?,
            55..63 => {
                if let Some(item) = self.some().pop() {
                    self.ask("delete", engine.delete(item, None)).await?;
                }
            }
            63..69 => {
                let (items, priority) = (self.some(), one(&mut self.dice, &[0, 5, 10]));
                self.ask("prioritise", engine.prioritise(items, priority)).await?;
            }
            69..74 => {
                let scope = new_scope(&mut self.dice);
                self.ask("pause", engine.pause(scope)).await?;
            }
            74..84 => {
                let paused = self.desk.ledger.lock().paused();
                if let Some(scope) = self.dice.pick(&paused) {
                    self.ask("resume", engine.resume(scope.clone())).await?;
                }
            }
            84..90 => {
                let settings = new_settings(&mut self.dice);
                let queue = one(&mut self.dice, &QUEUES);
                self.ask("configure", engine.configure(queue, settings)).await?;
            }
            90..95 => {
                let closed_until = self.now().plus(self.dice.below(8_000) as u64);
                let gate = Command::Gate { resource: RESOURCE.into(), closed_until };
                self.ask("gate", engine.submit(gate)).await?;
            }
            _ => {
                if let Some(item) = self.some().pop() {
                    self.ask("explain", engine.explain(item)).await?;
                }
            }
        }
        Ok(())
    }

    async fn retry(&mut self) -> Result<(), Stopped> {
        let Some(item) = self.some().pop() else { return Ok(()) };
        let mode = one(&mut self.dice, &[RetryMode::Reset, RetryMode::Reset, RetryMode::Clone]);
        let from_stage = self.dice.percent(35).then(|| one(&mut self.dice, &STAGES).into());
        let engine = self.desk.engine.clone();
        self.ask("retry", engine.retry(item, mode, from_stage, None)).await?;
        Ok(())
    }

    /// One or two items that are known, newer ones more often.
    fn some(&mut self) -> Vec<ItemId> {
        let newest = if self.dice.percent(70) { 30 } else { usize::MAX };
        let ledger = self.desk.ledger.lock();
        let known: Vec<ItemId> = ledger.known().rev().take(newest).map(|(id, _)| *id).collect();
        drop(ledger);
        let count = 1 + self.dice.below(2);
        (0..count).filter_map(|_| self.dice.pick(&known).copied()).collect()
    }
}
