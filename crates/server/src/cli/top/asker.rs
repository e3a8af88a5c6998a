//! Does what is wished: looks from time to time, explains, retries, pauses.
//!
//! A server that went away is looked for again each time, by the same words that found it first: it
//! may come back at another port, or not at all, and then its data directory is opened. That is
//! held only as long as a look takes, and for a small part of the time.

use std::sync::mpsc::Sender;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use super::look::Look;
use super::state::{Event, Wish};
use crate::cli::items::{attempts, described, explained};
use crate::cli::reach::{Ask, Reach, Target};
use crate::cli::show::{Told, text};

/// A store that is opened for each look is let go for so many times as long.
const LET_GO: u32 = 20;

pub(super) struct Asker<'a> {
    reach: &'a Reach,
    interval: Duration,
    filter: String,
    target: Option<Target>,
    /// How long the last look took, if it had a store for itself.
    held: Duration,
}

impl<'a> Asker<'a> {
    pub(super) fn new(reach: &'a Reach, interval: Duration, filter: &str) -> Asker<'a> {
        let filter = filter.to_owned();
        Asker { reach, interval, filter, target: None, held: Duration::ZERO }
    }

    /// Looks now.
    pub(super) async fn look(&mut self) -> anyhow::Result<Look> {
        let (begun, filter) = (Instant::now(), self.filter.clone());
        let looked = self.with(async |target| Ok(Look::at(target, &filter).await?)).await;
        let is_alone = looked.as_ref().is_ok_and(|look| look.is_alone);
        self.held = if is_alone { begun.elapsed() } else { Duration::ZERO };
        looked
    }

    /// Looks and answers until nobody wishes anything any more.
    pub(super) async fn answer(
        &mut self,
        mut wishes: UnboundedReceiver<Wish>,
        tell: &Sender<Event>,
    ) {
        loop {
            let pause = self.interval.max(self.held * LET_GO);
            let event = tokio::select! {
                wish = wishes.recv() => match wish {
                    Some(wish) => self.grant(wish).await,
                    None => return,
                },
                () = tokio::time::sleep(pause) => None,
            };
            // Whoever looked at the screen may have gone.
            let _told = event.map(|event| tell.send(event));
            let looked = match self.look().await {
                Ok(look) => Event::Looked(Box::new(look)),
                Err(error) => Event::Away(format!("{error:#}")),
            };
            let _told = tell.send(looked);
        }
    }

    pub(super) async fn close(&mut self) {
        if let Some(target) = self.target.take() {
            target.close().await;
        }
    }

    /// Does something with the queue. One that did not answer is looked for again the next time,
    /// and one that nobody else can use meanwhile is let go.
    async fn with<T>(
        &mut self,
        ask: impl AsyncFnOnce(&Target) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let target = match self.target.take() {
            Some(target) => target,
            None => self.reach.target_silently().await?,
        };
        let done = ask(&target).await;
        if done.is_err() || target.is_alone() {
            target.close().await;
        } else {
            self.target = Some(target);
        }
        done
    }

    async fn grant(&mut self, wish: Wish) -> Option<Event> {
        let done = match wish {
            Wish::Filter(filter) => {
                self.filter = filter;
                return None;
            }
            Wish::Item(id) => self.with(async |target| item(target, &id).await).await,
            Wish::Queue(name) => self.with(async |target| queue(target, &name).await).await,
            Wish::Retry(id) => self.with(async |target| retry(target, &id).await).await,
            Wish::Pause { queue, stage } => {
                self.with(async |target| scope(target, "pause", &queue, stage).await).await
            }
            Wish::Resume { queue, stage } => {
                self.with(async |target| scope(target, "resume", &queue, stage).await).await
            }
        };
        Some(done.unwrap_or_else(|error| Event::Did { said: format!("{error:#}"), well: false }))
    }
}

/// Why an item is where it is, and everything about it.
async fn item(target: &Target, id: &str) -> anyhow::Result<Event> {
    let why: Value = target.read(Ask::get(&["queue", id, "explain"])).await?;
    let told = Told::read(&target.ask(Ask::get(&["queue", id])).await?)?;
    let mut lines = explained(&why);
    lines.push(String::new());
    lines.extend(described(&told).lines());
    let attempts = attempts(&told.seen["log"]);
    if !attempts.is_empty() {
        lines.push(String::new());
        lines.extend(attempts.lines());
    }
    Ok(Event::Told { title: format!("item {id}"), lines })
}

/// How a queue stands: what holds it up, and its settings.
async fn queue(target: &Target, name: &str) -> anyhow::Result<Event> {
    let settings: Value = target.read(Ask::get(&["queues", name, "settings"])).await?;
    let queues: Vec<super::look::Queue> = target.read(Ask::get(&["queues"])).await?;
    let mut lines = Vec::new();
    if let Some(queue) = queues.iter().find(|queue| queue.queue == name) {
        lines.push(format!(
            "{} pending, {} processing, {} completed, {} failed, {} cancelled, {} skipped",
            queue.pending,
            queue.processing,
            queue.completed,
            queue.failed,
            queue.cancelled,
            queue.skipped
        ));
        lines.extend(queue.paused.iter().map(ToString::to_string));
    }
    // It is about all tenants: whoever may not know is told the rest.
    if let Ok(health) = target.read::<Value>(Ask::get(&["health"])).await {
        let checks = health["checks"].as_array().into_iter().flatten();
        for check in checks.filter(|check| check["of"] == name) {
            lines.push(format!("{}: {}", text(check, "check"), text(check, "says")));
            lines.extend(check["remedy"].as_str().map(|remedy| format!("  {remedy}")));
        }
    }
    lines.push(String::new());
    lines.extend(format!("{settings:#}").lines().map(str::to_owned));
    Ok(Event::Told { title: format!("queue {name}"), lines })
}

async fn retry(target: &Target, id: &str) -> anyhow::Result<Event> {
    let ask = Ask::post(&["queue", id, "retry"]).json(&json!({ "mode": "reset" }))?;
    target.ask(ask.once()).await?;
    Ok(Event::Did { said: format!("{id} is retried"), well: true })
}

async fn scope(
    target: &Target,
    verb: &str,
    queue: &str,
    stage: Option<String>,
) -> anyhow::Result<Event> {
    let ask = Ask::post(&["queues", queue, verb]).json(&json!({ "stage": stage }))?;
    target.ask(ask).await?;
    let of = stage.map_or(String::new(), |stage| format!(", stage {stage}"));
    Ok(Event::Did { said: format!("{queue}{of}: {verb}d"), well: true })
}
