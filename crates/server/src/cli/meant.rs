//! Slips in names: what a command names that is not there, and what is meant, perhaps.
//!
//! Any name may be right before its first item comes, so nothing here refuses.

use std::collections::BTreeSet;

use serde_json::Value;
use windrow_core::Status;
use windrow_wire::filter;
use windrow_wire::read::nearest;

use super::reach::{Ask, Target};
use super::shell::as_word;
use super::show::text;

/// What a command says that it takes.
#[derive(Clone, Default, Debug)]
pub(super) struct Named {
    pub(super) queues: Vec<String>,
    pub(super) stages: Vec<String>,
    pub(super) kinds: Vec<String>,
    pub(super) tenants: Vec<String>,
}

impl Named {
    /// Which of these stages, kinds and tenants may be slips, as far as the newest items, what is
    /// in line and the counts say. Not everybody may know, and then nothing is said.
    pub(super) async fn slips(&self, target: &Target) -> Vec<String> {
        let mut told = Vec::new();
        if !self.stages.is_empty() || !self.kinds.is_empty() {
            let newest = Ask::get(&["queue"]).with("limit", Some("200"));
            let newest: Value = target.read(newest).await.unwrap_or_default();
            let newest = newest["items"].as_array().cloned().unwrap_or_default();
            let mut stages = names_in(&newest, "stage");
            let now: Result<Vec<Value>, _> = target.read(Ask::get(&["stages"])).await;
            let knows_stages = now.is_ok();
            stages.extend(names_in(&now.unwrap_or_default(), "stage"));
            if knows_stages {
                told.extend(slips(&self.stages, &stages, |name| {
                    format!("nothing is in stage {name} now")
                }));
            }
            told.extend(slips(&self.kinds, &names_in(&newest, "kind"), |name| {
                format!("none of the newest items is of kind {name}")
            }));
        }
        if !self.tenants.is_empty() {
            told.extend(slips(&self.tenants, &tenants(target).await, unknown_tenant));
        }
        told
    }
}

/// Which of these names are not among those that are known. Where nothing is, none is a slip but
/// what looks like several.
fn slips(names: &[String], known: &BTreeSet<String>, said: impl Fn(&str) -> String) -> Vec<String> {
    let is_slip = |name: &&String| !known.contains(*name) && (!known.is_empty() || has_comma(name));
    let slip = |name: &String| with_meant(said(name), name, known.iter().map(String::as_str));
    names.iter().filter(is_slip).map(slip).collect()
}

fn names_in(all: &[Value], field: &str) -> BTreeSet<String> {
    all.iter().filter_map(|of| of[field].as_str().map(str::to_owned)).collect()
}

/// Those that have items.
async fn tenants(target: &Target) -> BTreeSet<String> {
    let stats: Value = target.read(Ask::get(&["queue", "stats"])).await.unwrap_or_default();
    names_in(stats["queues"].as_array().map_or(&[][..], Vec::as_slice), "tenant")
}

fn unknown_tenant(name: &str) -> String {
    format!("no item of tenant {name} is known here")
}

fn has_comma(name: &str) -> bool {
    name.contains(',')
}

/// What is said of a name that is not known, with what is meant, perhaps.
fn with_meant<'a>(said: String, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    match nearest(name, known) {
        _ if has_comma(name) => format!("{said}; a comma is part of a name: say each by itself"),
        Some(near) => format!("{said}; {near} is meant, perhaps"),
        None => said,
    }
}

/// Says that a queue is not among those that are known, and which is meant, perhaps.
pub(super) fn unknown_queue<'a>(
    name: &str,
    mut known: impl Iterator<Item = &'a str> + Clone,
) -> Option<String> {
    let said = with_meant(format!("no queue {name} is known here"), name, known.clone());
    (!known.any(|known| known == name)).then_some(said)
}

/// What may be wrong with a filter that admits nothing: a slip in a queue or a tenant, or a queue
/// or a status that is not called one.
pub(super) async fn meant(target: &Target, filter: &str) -> Option<String> {
    let read = filter::parse(filter).ok()?;
    if read.queue.is_some() || read.tenant.is_some() {
        return meant_by(target, read.queue.as_deref(), read.tenant.as_deref()).await;
    }
    let word = read.q?;
    let known = queues(target).await.unwrap_or_default();
    if known.iter().any(|queue| text(queue, "queue") == word) {
        return Some(format!("there is a queue {word}: `windrow list queue:{}`", as_word(&word)));
    }
    let status = Status::parse(&word.to_lowercase())?;
    Some(format!("status:{} is meant, perhaps", status.name()))
}

/// What may be wrong with a queue and a tenant in which nothing is.
pub(super) async fn meant_by(
    target: &Target,
    queue: Option<&str>,
    tenant: Option<&str>,
) -> Option<String> {
    if let Some(queue) = queue {
        let known = queues(target).await?;
        let unknown = unknown_queue(queue, known.iter().map(|queue| text(queue, "queue")));
        if unknown.is_some() {
            return unknown;
        }
    }
    let tenant = tenant.map(str::to_owned)?;
    slips(&[tenant], &tenants(target).await, unknown_tenant).pop()
}

async fn queues(target: &Target) -> Option<Vec<Value>> {
    target.read(Ask::get(&["queues"])).await.ok()
}
