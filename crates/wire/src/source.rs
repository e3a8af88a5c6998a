//! Sources: folders that a server watches, and whose files become documents.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// A folder, and what becomes of its files.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct NewSource {
    /// Where it is on the machine of the server that is asked: a folder, or one file.
    #[schemars(length(min = 1, max = 1000))]
    pub path: String,
    /// The collection of its documents; the folder's name, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub collection: Option<String>,
    #[serde(default)]
    pub on_missing: OnMissing,
    /// Files and folders that are left out: by their name, or by an ending that begins with a dot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub ignore: Vec<String>,
}

/// What becomes of a document whose file is gone.
#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub enum OnMissing {
    /// It stays.
    #[default]
    Keep,
    /// It goes, once two looks found others and not it. Not while the folder itself is gone, cannot
    /// be read, is another than when it was named, or has no file at all.
    Remove,
}

/// A source, with what became of its files.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Source {
    pub name: String,
    pub tenant: String,
    pub path: String,
    pub collection: String,
    pub on_missing: OnMissing,
    pub ignore: Vec<String>,
    /// The machine that it is on.
    pub host: String,
    pub state: State,
    /// Why it failed.
    pub last_error: Option<String>,
    /// When the last look ended, and when the next one begins.
    pub last_scan: Option<Time>,
    pub next_scan: Option<Time>,
    /// What the last look found, or the one that is under way has found so far.
    pub scan: Option<Scan>,
    /// What all looks came to since the server began to watch it.
    pub since_start: Option<Sum>,
}

/// What a source is doing.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nobody has looked at it yet.
    Waiting,
    /// It is being looked at.
    Scanning,
    /// Everything was looked at; the next look comes by itself.
    Watching,
    Paused,
    /// It cannot be looked at. It is tried again by itself.
    Failed,
    /// It is on another machine, whose server looks at it.
    Elsewhere,
}

impl State {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Scanning => "scanning",
            State::Watching => "watching",
            State::Paused => "paused",
            State::Failed => "failed",
            State::Elsewhere => "elsewhere",
        }
    }
}

/// What one look found.
#[derive(Clone, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Scan {
    /// Files that are there, those that were left out included.
    pub files: u64,
    /// Files that became documents.
    pub added: u64,
    /// Files that became new versions of documents.
    pub changed: u64,
    pub unchanged: u64,
    /// Documents that were let go because their files are gone.
    pub removed: u64,
    /// Files that are looked at again, because somebody writes them just now.
    pub unsettled: u64,
    /// How many were left out, by reason.
    pub left_out: BTreeMap<String, u64>,
    /// Files that were not taken in although they should be. The first hundred are named.
    pub not_taken: u64,
    pub problems: Vec<Problem>,
}

/// A file that was not taken in, and why.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Problem {
    pub path: String,
    pub reason: String,
}

/// What many looks came to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Sum {
    pub scans: u64,
    pub added: u64,
    pub changed: u64,
    pub removed: u64,
}
