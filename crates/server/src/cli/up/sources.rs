//! The folders that were named, as sources of the server.

use serde_json::json;
use windrow_wire::source::{Problem, Source, State, Sum};

use crate::cli::exit::{Exit, Stop};
use crate::cli::reach::{Ask, Target};

/// Whose they are.
pub(super) const TENANT: &str = "default";
/// Letters of a name.
const NAME_MAX: usize = 60;

/// A folder that is watched.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) collection: String,
    /// What the server had done when this command began.
    before: Sum,
    /// Looks after which everything that was there at the beginning is seen.
    scans: u64,
    /// What it has done since.
    pub(super) sum: Sum,
    pub(super) files: u64,
    pub(super) left_out: Vec<(String, u64)>,
    pub(super) problems: Vec<Problem>,
    /// Why the folder cannot be read.
    pub(super) failure: Option<String>,
}

/// What a look at a source came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Looked {
    /// Its files are being looked at.
    Under,
    /// They are all taken in, or it is known why not.
    Through {
        /// Something was taken in since the last look.
        has_news: bool,
    },
}

impl Watched {
    /// Has a path watched. One that is watched already is found again by its path.
    pub(super) async fn register(
        target: &Target,
        path: &str,
        is_own: bool,
    ) -> Result<Watched, Stop> {
        let ask = Ask::get(&["sources"]).with("tenant", Some(TENANT));
        let known: Vec<Source> = target.read(ask).await?;
        let source = match known.iter().find(|source| source.path == path) {
            Some(source) => source.clone(),
            None => {
                let name = free(&fitting(path), |name| known.iter().any(|it| it.name == name));
                let ask = Ask::put(&["sources", &name]).with("tenant", Some(TENANT));
                let ask = ask.json(&json!({ "path": path }));
                let ask = ask.map_err(|error| Stop::new(Exit::Failed, error.to_string()))?;
                target.read(ask).await?
            }
        };
        match source.state {
            State::Elsewhere => {
                let said = format!("{path} is watched by a server on {}", source.host);
                return Err(Stop::new(Exit::Failed, said));
            }
            State::Paused => {
                let ask = Ask::post(&["sources", &source.name, "resume"]);
                target.ask(ask.with("tenant", Some(TENANT))).await?;
            }
            _ => {}
        }
        // A server that began with this command has done nothing before. In another one a look may
        // be under way that began before a file came; the one after sees everything.
        let before = if is_own { Sum::default() } else { source.since_start.unwrap_or_default() };
        let scans = if is_own { 1 } else { before.scans + 2 };
        Ok(Watched {
            name: source.name,
            path: source.path,
            collection: source.collection,
            before,
            scans,
            sum: Sum::default(),
            files: 0,
            left_out: Vec::new(),
            problems: Vec::new(),
            failure: None,
        })
    }

    /// What was done so far was told.
    pub(super) fn rest(&mut self) {
        let sum = std::mem::take(&mut self.sum);
        self.before.added += sum.added;
        self.before.changed += sum.changed;
        self.before.removed += sum.removed;
    }

    /// Looks how far it is.
    pub(super) async fn look(&mut self, target: &Target) -> Result<Looked, Stop> {
        let ask = Ask::get(&["sources", &self.name]).with("tenant", Some(TENANT));
        let source: Source = target.read(ask).await?;
        let (total, scan) = (source.since_start.unwrap_or_default(), source.scan);
        let since = |now: u64, before: u64| now.saturating_sub(before);
        let sum = Sum {
            scans: since(total.scans, self.before.scans),
            added: since(total.added, self.before.added),
            changed: since(total.changed, self.before.changed),
            removed: since(total.removed, self.before.removed),
        };
        let is_like =
            |a: &Sum, b: &Sum| (a.added, a.changed, a.removed) == (b.added, b.changed, b.removed);
        let has_news = !is_like(&sum, &self.sum);
        self.sum = sum;
        self.failure = source.last_error;
        let is_seen = total.scans >= self.scans && source.state != State::Scanning;
        let scan = match scan {
            _ if self.failure.is_some() && is_seen => return Ok(Looked::Through { has_news }),
            Some(scan) if is_seen && scan.unsettled == 0 => scan,
            _ => return Ok(Looked::Under),
        };
        self.files = scan.files;
        self.left_out = scan.left_out.into_iter().collect();
        self.problems = scan.problems;
        Ok(Looked::Through { has_news })
    }
}

/// A name that is made of the last part of a path.
fn fitting(path: &str) -> String {
    let last = path.rsplit('/').next().unwrap_or_default();
    let plain = |letter: char| match letter {
        letter if letter.is_ascii_alphanumeric() || "-_.".contains(letter) => letter,
        _ => '-',
    };
    let name: String = last.chars().take(NAME_MAX).map(plain).collect();
    if name.chars().all(|letter| letter == '-') { "source".to_owned() } else { name }
}

/// The name, or one with a number if it is taken.
fn free(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| !is_taken(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_called_after_its_folder_and_no_two_alike() {
        assert_eq!(fitting("/srv/inbox"), "inbox");
        assert_eq!(fitting("/srv/Meine Akten (alt)"), "Meine-Akten--alt-");
        assert_eq!(fitting("/srv/éé"), "source");
        let taken = ["inbox", "inbox-2"];
        assert_eq!(free("inbox", |name| taken.contains(&name)), "inbox-3");
        assert_eq!(free("other", |name| taken.contains(&name)), "other");
    }
}
