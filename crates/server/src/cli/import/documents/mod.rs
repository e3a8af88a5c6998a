//! `windrow import documents`: the older tables of seed 001 come here.
//!
//! Every row becomes a file that says how its document, its pages and its chunks stood
//! ([`windrow_pipelines::documents::elsewhere`]), and that is added over the API as any file is:
//! what it leads to is done by the ordinary stages, on a server or in this process. So it does not
//! matter where the target is, to repeat it is no work, and an import that was interrupted goes on.

mod details;
mod expected;
mod folder;
mod follow;
mod plan;
mod source;
mod target;
mod verify;
mod words;

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use windrow_pipelines::documents::elsewhere::{Elsewhere, written};
use windrow_wire::document::{AddedOutcome, State};

use self::expected::{Counts, Is, phases};
use self::folder::Folder;
use self::follow::{Open, follow};
use self::plan::{Plan, plan};
use self::source::{Row, Source};
use self::target::{Known, Way, progress, sha256};
use crate::bars::Bars;
use crate::cli::exit::{Exit, Stop};
use crate::cli::reach::{Reach, Target};
use crate::cli::serve::Signals;
use crate::cli::show::{Table, say};
use crate::cli::{counted, runtime, with_target_or_new};

/// Between two lines where there is no terminal.
const TOLD_EVERY: Duration = Duration::from_secs(30);

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The database with the older tables, such as postgres://user@host/database. Nothing is
    /// written to it. A password that is not in it is taken from PGPASSWORD.
    #[arg(long, value_name = "URL")]
    from: String,
    /// A folder with what the tables only name: the Markdown of pages, and the files themselves.
    #[arg(long, value_name = "DIR")]
    files: Option<PathBuf>,
    /// The collection they belong to; `default` if nothing is said.
    #[arg(long, value_name = "NAME")]
    collection: Option<String>,
    /// Whose they are; by default your own tenant's.
    #[arg(long)]
    tenant: Option<String>,
    /// Make the store if there is none.
    #[arg(long, conflicts_with_all = ["verify", "dry_run"])]
    create: bool,
    /// Only read the tables, and say what would be taken over and what is not understood.
    #[arg(long, conflicts_with_all = ["verify", "detach"])]
    dry_run: bool,
    /// Import nothing: compare counts by status there and here, and end with 1 if they differ.
    #[arg(long, conflicts_with = "detach")]
    verify: bool,
    /// Do not wait until everything is done that can be.
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    reach: Reach,
}

const EXAMPLES: &str = "\
Examples:
  windrow import documents --from postgres://ocr@db.example/dots_ocr --dry-run
  windrow import documents --from postgres://ocr@db.example/dots_ocr --files /srv/ocr
      Takes over what `convert_status`, `index_status`, `ocr_details` and `indexing_details` say.
  windrow import documents --from postgres://ocr@db.example/dots_ocr --files /srv/ocr --verify
      Compares there and here; with the same --files.

What was converted and indexed there is completed here. Its text, where it is at hand, is embedded
and linked anew, because vectors of another embedder are of no use here. What failed there is
failed here, with its reason, and can be recovered; what was pending is done, or waits for its file.
To run it again is no work, and after an interruption it goes on. Ends with 7 if something was not
understood; docs/reference/import.md says what is.";

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let folder = Folder::open(args.files.as_deref())?;
    if args.dry_run {
        return runtime()?.block_on(async {
            let source = opened(args).await?;
            let mut done = Done::default();
            while let Some(rows) = slice(&source).await? {
                rows.iter().for_each(|row| done.plan(row, &folder));
            }
            done.end(args, &source)
        });
    }
    // A source that cannot be read leaves no store behind.
    runtime()?.block_on(opened(args))?;
    with_target_or_new(&args.reach, args.create, async |target| {
        let source = opened(args).await?;
        if args.verify {
            return verify::verify(args, &source, target, &folder).await;
        }
        let mut signals = Signals::new()?;
        let (mut done, mut bars) = (Done::default(), Bars::new(&["read"], TOLD_EVERY));
        target.keeps_time();
        let is_read = target.reads_documents();
        let way = (target, is_read);
        let is_stopped = tokio::select! {
            ended = import(args, &source, way, &folder, &mut done, &mut bars) => {
                ended.map(|()| false)
            }
            () = signals.next() => Ok(true),
        };
        bars.clear();
        if is_stopped? {
            say("stopped; run the same again to go on");
        }
        done.end(args, &source)
    })
}

async fn opened(args: &Args) -> anyhow::Result<Source> {
    Source::open(&args.from).await
}

async fn slice(source: &Source) -> anyhow::Result<Option<Vec<Row>>> {
    let rows = source.next().await?;
    Ok((!rows.is_empty()).then_some(rows))
}

/// What became of a row.
#[derive(Serialize, Debug)]
struct Taken {
    /// Theirs.
    id: String,
    filename: String,
    /// Ours.
    document: Option<String>,
    /// `planned`, `created`, `changed`, `unchanged` or `refused`.
    outcome: &'static str,
    pages: usize,
    chunks: usize,
    /// What was not understood, or why it was refused.
    problems: Vec<String>,
    /// What is not at hand.
    notes: Vec<String>,
}

/// What was done so far.
#[derive(Default, Debug)]
struct Done {
    taken: Vec<Taken>,
    /// Documents, and pages and chunks that are known one by one, as they stood there by phase.
    documents: [Counts; 3],
    parts: [Counts; 3],
}

impl Done {
    fn refuse(&mut self, row: &Row, why: String) {
        self.note(row, None, "refused", &Elsewhere::default(), (vec![why], Vec::new()));
    }

    fn note(
        &mut self,
        row: &Row,
        document: Option<String>,
        outcome: &'static str,
        of: &Elsewhere,
        (problems, notes): (Vec<String>, Vec<String>),
    ) {
        let chunks = of.pages.iter().filter_map(|page| page.chunks.as_ref()).map(Vec::len).sum();
        let (id, filename) = (row.id.clone(), row.filename.clone());
        let pages = of.pages.len();
        self.taken.push(Taken { id, filename, document, outcome, pages, chunks, problems, notes });
        if outcome == "refused" {
            return;
        }
        for (at, phase) in phases(of).iter().enumerate() {
            self.documents[at].add(phase.is, 1);
            if phase.is_known {
                Is::ALL.iter().for_each(|is| self.parts[at].add(*is, phase.counts.of(*is)));
            }
        }
    }

    fn plan(&mut self, row: &Row, folder: &Folder) {
        match plan(row, folder) {
            Ok(Plan { document, problems, notes }) => {
                self.note(row, None, "planned", &document, (problems, notes));
            }
            Err(why) => self.refuse(row, why),
        }
    }

    /// Says what became of everything, and how the command ends.
    fn end(&self, args: &Args, source: &Source) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        if args.reach.json {
            for taken in &self.taken {
                writeln!(out, "{}", serde_json::to_string(taken)?)?;
            }
        } else {
            self.table().print(&mut out)?;
        }
        let mut outcomes = BTreeMap::<&str, u64>::new();
        let (mut problems, mut notes) = (0, 0);
        for taken in &self.taken {
            *outcomes.entry(taken.outcome).or_default() += 1;
            (problems, notes) = (problems + taken.problems.len(), notes + taken.notes.len());
            if !args.reach.json {
                let all = taken.problems.iter().chain(&taken.notes);
                all.for_each(|what| say(&format!("{} ({}): {what}", taken.filename, taken.id)));
            }
        }
        if !source.lacking.is_empty() {
            say(&format!("the table has no {}", source.lacking.join(", ")));
        }
        if source.deleted > 0 {
            say(&format!("left out: {} deleted there", source.deleted));
        }
        let each = outcomes.iter().map(|(outcome, count)| format!("{count} {outcome}"));
        let each = each.collect::<Vec<_>>().join(", ");
        let documents = counted(self.taken.len() as u64, "document");
        let each = if each.is_empty() { each } else { format!(": {each}") };
        say(&format!("{documents}{each}; {problems} not understood, {notes} not at hand"));
        if problems > 0 {
            return Err(Stop::silent(Exit::Partly).into());
        }
        Ok(())
    }

    /// How everything stood there.
    fn table(&self) -> Table {
        let mut table = Table::new(&["WHAT", "COMPLETED", "PENDING", "FAILED"]);
        let documents = ["documents, ocr", "documents, vector", "documents, graphrag"];
        let parts = ["pages, ocr", "chunks, vector", "chunks, graphrag"];
        let rows = documents.iter().zip(&self.documents).chain(parts.iter().zip(&self.parts));
        for (what, counts) in rows.filter(|(_, counts)| counts.total() > 0) {
            let [completed, pending, failed] = Is::ALL.map(|is| counts.of(is).to_string().into());
            table.row([(*what).into(), completed, pending, failed]);
        }
        table
    }
}

async fn import(
    args: &Args,
    source: &Source,
    (target, is_read): (&Target, bool),
    folder: &Folder,
    done: &mut Done,
    bars: &mut Bars,
) -> anyhow::Result<()> {
    let way = Way::of(&source.name, args.collection.as_deref(), args.tenant.as_deref());
    let known = way.known(target).await?;
    let mut sent = Vec::new();
    bars.set("read", 0, source.total);
    while let Some(rows) = slice(source).await? {
        for row in &rows {
            sent.extend(take(&way, target, &known, (row, folder), done).await?);
            bars.set("read", done.taken.len() as u64, source.total);
            bars.tell();
        }
    }
    source.close().await?;
    if args.detach {
        return Ok(());
    }
    if !is_read {
        say("documents are switched off here (documents.enabled); a server has to read them");
        return Ok(());
    }
    Ok(follow(target, sent, bars).await?)
}

/// Takes a row over; gives the document if there is something to be done.
async fn take(
    way: &Way,
    target: &Target,
    known: &HashMap<String, Known>,
    (row, folder): (&Row, &Folder),
    done: &mut Done,
) -> anyhow::Result<Option<Open>> {
    let Plan { document, problems, notes } = match plan(row, folder) {
        Ok(plan) => plan,
        Err(why) => {
            done.refuse(row, why);
            return Ok(None);
        }
    };
    let (file, source) = (written(&document)?, way.source(&row.id));
    if let Some(here) = known.get(&source).filter(|here| here.sha256 == sha256(&file))
        && is_begun(target, here).await?
    {
        done.note(row, Some(here.id.clone()), "unchanged", &document, (problems, notes));
        let is_open = matches!(here.state, State::Building | State::Updating);
        return Ok(is_open.then(|| Open::new(here.id.clone(), &document)));
    }
    match way.send(target, (&source, &row.filename), file).await {
        Ok(added) => {
            let outcome = match added.outcome {
                AddedOutcome::Created => "created",
                AddedOutcome::Changed => "changed",
                AddedOutcome::Unchanged => "unchanged",
            };
            done.note(row, Some(added.id.clone()), outcome, &document, (problems, notes));
            Ok(Some(Open::new(added.id, &document)))
        }
        // The next one would fare no better.
        Err(stop) if matches!(stop.exit, Exit::Denied | Exit::Unreachable) => Err(stop.into()),
        Err(stop) => {
            done.refuse(row, stop.message);
            Ok(None)
        }
    }
}

/// Whether a document that is here has an item, or needs none any more.
async fn is_begun(target: &Target, here: &Known) -> Result<bool, Stop> {
    if !matches!(here.state, State::Building | State::Updating) {
        return Ok(here.state != State::Deleting);
    }
    Ok(progress(target, &here.id).await?.is_some_and(|progress| progress.item.is_some()))
}
