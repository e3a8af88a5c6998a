//! What came of it: documents, pages and chunks, how they were read, what was not paid for twice,
//! and every failure with its reason.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use windrow_wire::document::{
    Document, Documents, Manifest, ManifestLine, Memo, PageOutcome, Progress, State,
};

use super::sources::Watched;
use super::stuck::Wait;
use super::{listed, pages, some, under};
use crate::cli::add::ended;
use crate::cli::counted;
use crate::cli::exit::{Exit, Stop};
use crate::cli::reach::{Ask, Target};
use crate::cli::show::printable;

/// Documents that are asked about at once.
const AT_ONCE: usize = 8;
/// What is read.
const READS: &str = "text, Markdown, HTML, PDF, PNG, JPEG and TIFF are read, whatever their names";
/// What a document is that is neither found nor given up.
const UNFINISHED: &str = "unfinished";

/// Everything that is said at the end.
#[derive(Debug, Default)]
pub(super) struct Summary {
    /// Where it was looked.
    paths: Vec<String>,
    files: u64,
    /// The time was over before everything was read.
    pub(super) is_late: bool,
    /// Whether there was something to do.
    pub(super) has_worked: bool,
    /// What was taken in by this run.
    added: u64,
    changed: u64,
    removed: u64,
    states: BTreeMap<&'static str, u64>,
    chunks: u64,
    /// Pages by how they were read.
    read: BTreeMap<String, u64>,
    /// What was remembered instead of done, by phase.
    reused: BTreeMap<String, u64>,
    left_out: BTreeMap<String, u64>,
    failures: Vec<String>,
    waits: Vec<Wait>,
}

/// What is remembered, before or after.
pub(super) async fn memo(target: &Target) -> Result<Vec<Memo>, Stop> {
    target.read(Ask::get(&["documents", "memo"])).await
}

impl Summary {
    /// Asks about everything that is in some folders.
    pub(super) async fn gather(
        target: &Target,
        watched: &[Watched],
        before: &[Memo],
        waits: Vec<Wait>,
    ) -> Result<Summary, Stop> {
        let mut summary = Summary { waits, ..Summary::default() };
        for source in watched {
            summary.add_source(source);
            let documents = documents(target, source).await?;
            let told = futures_util::stream::iter(documents.into_iter().map(|document| async {
                let told = Told::of(target, &document).await?;
                Ok::<_, Stop>((document, told))
            }));
            let mut told = std::pin::pin!(told.buffered(AT_ONCE));
            while let Some((document, told)) = told.try_next().await? {
                summary.add(&document, told);
            }
        }
        for now in memo(target).await? {
            let was = before.iter().find(|was| was.phase == now.phase).map_or(0, |was| was.hits);
            summary.reused.insert(now.phase, now.hits.saturating_sub(was));
        }
        Ok(summary)
    }

    /// Whether everything can be found.
    pub(super) fn is_well(&self) -> bool {
        let is_finished = !self.states.contains_key(UNFINISHED);
        is_finished && self.failures.is_empty() && self.waits.is_empty()
    }

    /// Files without those that are left out, which are counted for themselves.
    fn to_read(&self) -> u64 {
        self.files.saturating_sub(self.left_out.values().sum())
    }

    fn add_source(&mut self, source: &Watched) {
        self.paths.push(source.path.clone());
        self.files += source.files;
        self.added += source.sum.added;
        self.changed += source.sum.changed;
        self.removed += source.sum.removed;
        for (why, count) in &source.left_out {
            *self.left_out.entry(why.clone()).or_default() += count;
        }
        for problem in &source.problems {
            self.failures.push(format!("{}: {}", problem.path, problem.reason));
        }
        self.failures.extend(source.failure.clone());
    }

    fn add(&mut self, document: &Document, told: Told) {
        let state = match document.state {
            State::Building | State::Updating => UNFINISHED,
            State::Live => "live",
            State::Failed => "failed",
            State::Deleting => "going",
        };
        *self.states.entry(state).or_default() += 1;
        if document.state == State::Failed {
            let why = document.failure.as_deref().unwrap_or("nobody knows why");
            self.failures.push(format!("{}: {why}", document.name));
        }
        for line in told.pages {
            self.chunks += u64::from(line.chunks.unwrap_or_default());
            match line.outcome {
                PageOutcome::Read => {
                    *self.read.entry(line.how.unwrap_or_default()).or_default() += 1
                }
                PageOutcome::Without => {
                    let why = line.reason.unwrap_or_default();
                    self.failures.push(format!("{}, page {}: {why}", document.name, line.number));
                }
                PageOutcome::Waiting => {}
            }
        }
        let ended = told.ended.map(|why| format!("{}: {why}", document.name));
        self.failures.extend(ended);
        self.failures.extend(told.gaps.into_iter().map(|gap| format!("{}, {gap}", document.name)));
    }

    /// Says it all.
    pub(super) fn print(&self, out: &mut impl Write, took: Duration, hint: &str) -> io::Result<()> {
        let done = listed([
            some(self.added, "added"),
            some(self.changed, "changed"),
            some(self.removed, "removed"),
        ]);
        let (took, files) = (took.as_secs_f64(), self.to_read());
        match done.as_str() {
            "" if self.has_worked => writeln!(out, "went on with what waited, for {took:.1} s")?,
            "" if self.is_late => writeln!(out, "nothing was taken in for {took:.1} s")?,
            "" if files == 0 && self.failures.is_empty() => {
                writeln!(out, "there is no file to read in {}; {READS}", self.paths.join(", "))?
            }
            "" if files == 1 => writeln!(out, "nothing was to be done: the file is as it was")?,
            "" => writeln!(out, "nothing was to be done: {files} files are as they were")?,
            done => writeln!(out, "{done} in {took:.1} s")?,
        }
        let states = self.states.iter().map(|(state, count)| some(*count, state));
        let read: u64 = self.read.values().sum();
        let documents = counted(self.states.values().sum(), "document");
        let chunks = counted(self.chunks, "chunk");
        if !self.states.is_empty() {
            writeln!(out, "{documents} ({}): {}, {chunks}", listed(states), pages(read))?;
        }
        let how = |(how, count): (&String, &u64)| match how.as_str() {
            "text_layer" => format!("{count} by their text layer"),
            "text" => format!("{count} as text"),
            "elsewhere" => format!("{count} elsewhere"),
            "elsewhere_without_text" => format!("{count} elsewhere, without the text"),
            how => format!("{count} by {how}"),
        };
        let mut about = vec![listed(self.read.iter().map(how).map(Some))];
        about.retain(|line| !line.is_empty());
        if let Some(line) = about.first_mut() {
            *line = format!("pages were read: {line}");
        }
        let reused = self.reused.iter().map(|(phase, count)| match phase.as_str() {
            "ocr" => some(*count, if *count == 1 { "page" } else { "pages" }),
            "vector" => some(*count, if *count == 1 { "vector" } else { "vectors" }),
            "graph" => some(*count, "of what chunks are about"),
            phase => some(*count, phase),
        });
        let reused = listed(reused);
        if !reused.is_empty() {
            about.push(format!("remembered from before, and not done again: {reused}"));
        }
        let left_out = listed(self.left_out.iter().map(|(why, count)| some(*count, why)));
        if !left_out.is_empty() {
            about.push(format!("left out: {left_out}"));
        }
        about.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
        let failures: Vec<String> = self.failures.iter().map(|line| printable(line)).collect();
        under(out, "failed:", &failures)?;
        let waits: Vec<String> = self.waits.iter().map(waiting).collect();
        under(out, "waiting:", &waits)?;
        if self.states.is_empty() {
            return Ok(());
        }
        writeln!(out, "search it: windrow search 'what you look for'{hint}")
    }
}

/// What waits for a program, and what to do.
fn waiting(wait: &Wait) -> String {
    format!("{}, and run this again", wait.said())
}

/// What is asked about one document.
#[derive(Default)]
struct Told {
    pages: Vec<ManifestLine>,
    /// Why nobody goes on with it although it is unfinished.
    ended: Option<String>,
    /// What of it failed and is in no page.
    gaps: Vec<String>,
}

impl Told {
    async fn of(target: &Target, document: &Document) -> Result<Told, Stop> {
        let mut told = Told::default();
        if matches!(document.state, State::Building | State::Updating) {
            told.ended = ended(target, &document.id).await?;
        }
        if document.pages.is_none() {
            return Ok(told);
        }
        let mut after = None::<u32>;
        loop {
            let ask = Ask::get(&["documents", &document.id, "manifest"]);
            let ask = ask.with("after", after.map(|after| after.to_string()));
            let manifest: Manifest = match target.read(ask.with("limit", Some("200"))).await {
                // It went meanwhile.
                Err(stop) if stop.exit == Exit::NotFound => return Ok(told),
                manifest => manifest?,
            };
            told.pages.extend(manifest.pages);
            after = manifest.next;
            if after.is_none() {
                break;
            }
        }
        let progress = Ask::get(&["documents", &document.id, "progress"]);
        let progress: Progress = match target.read(progress).await {
            Err(stop) if stop.exit == Exit::NotFound => return Ok(told),
            progress => progress?,
        };
        let is_said = |page: u32| {
            let is_it = |line: &&ManifestLine| line.number == page;
            let line = told.pages.iter().find(is_it);
            line.is_some_and(|line| line.outcome == PageOutcome::Without)
        };
        for gap in progress.gaps.iter().filter(|gap| !is_said(gap.page)) {
            let chunk = gap.chunk.map(|chunk| format!(", chunk {}", chunk + 1));
            let (chunk, why) = (chunk.unwrap_or_default(), gap.reason.as_deref());
            let why = why.unwrap_or("nobody knows why");
            told.gaps.push(format!("page {}{chunk} ({}): {why}", gap.page, gap.phase));
        }
        Ok(told)
    }
}

/// The documents of a source's files.
async fn documents(target: &Target, source: &Watched) -> Result<Vec<Document>, Stop> {
    let (mut all, mut cursor) = (Vec::new(), None::<String>);
    let below = format!("{}/", source.path);
    loop {
        let ask = Ask::get(&["documents"]).with("collection", Some(&source.collection));
        let ask = ask.with("limit", Some("200")).with("cursor", cursor.as_ref());
        let page: Documents = target.read(ask).await?;
        let is_its = |document: &Document| {
            document.source == source.path || document.source.starts_with(&below)
        };
        all.extend(page.documents.into_iter().filter(is_its));
        cursor = page.next;
        if cursor.is_none() {
            all.sort_by(|one, other| one.source.cmp(&other.source));
            return Ok(all);
        }
    }
}
