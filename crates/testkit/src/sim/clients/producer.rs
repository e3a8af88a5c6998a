//! Producers enqueue, sometimes twice, and send again what an earlier life left unanswered.

use windrow_core::command::Command;
use windrow_core::{Request, RequestId};

use super::{Client, Stopped};
use crate::sim::plan::{alike, new_item};

impl Client {
    pub(super) async fn produce(mut self) {
        // It stops with the store.
        let Err(Stopped) = self.produce_for_ever().await;
    }

    async fn produce_for_ever(&mut self) -> Result<std::convert::Infallible, Stopped> {
        loop {
            self.rest(600).await;
            if self.dice.percent(20) {
                self.send_again().await?;
            }
            if self.desk.live.get() > self.desk.plan.crowd {
                self.sleep(300).await;
                continue;
            }
            self.enqueue().await?;
        }
    }

    async fn enqueue(&mut self) -> Result<(), Stopped> {
        let count = 1 + self.dice.below(4);
        let now = self.now();
        let items: Vec<_> = {
            let mut ledger = self.desk.ledger.lock();
            match self.dice.percent(20) {
                true => alike(&mut self.dice, &mut ledger, count),
                false => (0..count).map(|_| new_item(&mut self.dice, &mut ledger, now)).collect(),
            }
        };
        let request: Option<RequestId> = self.dice.percent(40).then(|| self.desk.next_request());
        let engine = self.desk.engine.clone();
        let first = self.ask("enqueue", engine.enqueue(items.clone(), request)).await?;
        if let Some(each) = &first {
            assert_eq!(each.len(), count, "one answer for each item");
            self.desk.live.set(self.desk.live.get() + count as u64);
        }
        if request.is_some() && self.dice.percent(20) {
            let again = self.ask("enqueue", engine.enqueue(items, request)).await?;
            if let (Some(first), Some(again)) = (first, again) {
                assert_eq!(first, again, "a repeated request gets its first answer");
            }
        }
        Ok(())
    }

    async fn send_again(&mut self) -> Result<(), Stopped> {
        let unanswered = self.desk.ledger.lock().take_unanswered();
        let Some(Request { id, command: Command::Enqueue(items) }) = unanswered else {
            return Ok(());
        };
        let engine = self.desk.engine.clone();
        self.ask("enqueue", engine.enqueue(items, id)).await?;
        Ok(())
    }
}
