//! `windrow up`: a server that reads what is in some folders, now and from now on.
//!
//! It begins the same server as `serve`, names each path as a source, and follows what becomes of
//! the files. Everything that it asks, it asks over the API, so that a server which uses the data
//! directory already is asked instead.

mod phases;
mod sources;
pub(super) mod stuck;
mod summary;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::add::files::rooted;
use super::counted;
use super::exit::{Exit, Stop};
use super::place::Place;
use super::reach::{Target, server_in};
use super::serve::{Flags, Running, Signals, place};
use super::show::{duration_ms, now, say};
use crate::bars::Bars;
use crate::config::{Config, Origin};
use crate::logs;
use phases::Phases;
use sources::{Looked, TENANT, Watched};
use stuck::{Live, Stuck, Wait, live};
use summary::Summary;

/// Between two looks while there is work, and while there is none.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const IDLE_EVERY: Duration = Duration::from_secs(1);
/// Between two lines where there is no terminal.
const TOLD_EVERY: Duration = Duration::from_secs(30);
/// So many looks in a row nothing may move before nothing can.
const STILL_LOOKS: u32 = 3;
/// So many looks in a row nothing may move before somebody is told why.
const SAID_LOOKS: u32 = 20;
/// How much is said of itself, unless somebody wants more: bars are drawn meanwhile.
const LEVEL: &str = "warn";

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow up ~/papers
      Serves the queue, reads every file in the folder, and watches for new and changed ones until
      Ctrl-C. In another terminal: windrow search 'what you look for'
  windrow up --once ~/papers
      Ends when everything is read, and says what came of it: every failure with its reason, and
      which package is missing if pages wait for a program.
  windrow up --once --strict ~/papers
      The same for scripts: ends with 7 if something failed or waits.
  windrow up --once --strict --timeout 10m ~/papers
      Ends with 6 if it is not through by then.
  windrow up inbox contracts --data-dir /var/lib/windrow

Each folder becomes a source (/sources), which stays: `windrow serve` watches it too. Takes the
flags of `windrow serve`. If a server uses the data directory already, it is asked to do it.")]
pub(super) struct Args {
    /// Folders, or files, to read and to watch.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// End when everything is read, and say what came of it.
    #[arg(long)]
    once: bool,
    /// End with 7 if something failed or waits.
    #[arg(long, requires = "once")]
    strict: bool,
    /// End with 6 if it takes longer than this, such as 10m; the same command goes on later.
    #[arg(long, value_name = "TIME", value_parser = duration_ms, requires = "once")]
    timeout: Option<u64>,
    #[command(flatten)]
    flags: Flags,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let paths: Result<Vec<String>, Stop> = args.paths.iter().map(|path| rooted(path)).collect();
    let paths = paths?;
    let usage = |error: anyhow::Error| Stop::usage(format!("{error:#}"));
    let layers = args.flags.layers().map_err(usage)?;
    let mut config = Config::new(&layers).map_err(usage)?;
    if !config.documents.enabled {
        let said = layers.origin("documents.enabled");
        let said = format!("documents.enabled is false ({said}), so nobody would read anything");
        return Err(Stop::usage(said).into());
    }
    if matches!(layers.origin("log.level"), Origin::Default)
        && let Ok(level) = LEVEL.parse()
    {
        config.log.1 = level;
    }
    logs::begin(config.log.0, config.log.1);
    let timeout = args.timeout.map(Duration::from_millis);
    let up = Up { paths, once: args.once, timeout, hint: args.flags.hint() };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(up.run(&config))?;
    match done {
        Some(summary) if summary.is_late => {
            let said = "the time is over, and not everything is read; the same command goes on \
                        where it was";
            Err(Stop::new(Exit::Nothing, said).into())
        }
        Some(summary) if args.strict && !summary.is_well() => {
            Err(Stop::silent(Exit::Partly).into())
        }
        None if args.once => {
            let said = "stopped before the end; the same command goes on where it was";
            Err(Stop::new(Exit::Failed, said).into())
        }
        _ => Ok(()),
    }
}

/// What is to be done.
struct Up {
    paths: Vec<String>,
    once: bool,
    /// How long it may take.
    timeout: Option<Duration>,
    /// What `windrow search` must be told to find this queue.
    hint: String,
}

impl Up {
    /// Does it here, or has it done by the server that is there. None if it was stopped.
    async fn run(&self, config: &Config) -> anyhow::Result<Option<Summary>> {
        let mut signals = Signals::new()?;
        if let Place::Directory(dir) = place(config)?
            && let Some(target) = server_in(&dir)?
        {
            say(&format!("a server uses {} already: {}", dir.display(), target.shown()));
            return tokio::select! {
                done = self.work(&target, false) => done.map(Some),
                () = signals.next() => {
                    say("stopped following; the server goes on");
                    Ok(None)
                }
            };
        }
        let running = Running::begin(config).await?;
        let target = Target::Own(running.hand());
        running.until(&mut signals, self.work(&target, true)).await?.transpose()
    }

    /// Follows what becomes of the files: to the end, or for as long as it is polled.
    async fn work(&self, target: &Target, is_own: bool) -> anyhow::Result<Summary> {
        let (began, started, mut is_first) = (now(), Instant::now(), true);
        let mut since = Some(started);
        let mut watched = Vec::new();
        for path in &self.paths {
            let source = Watched::register(target, path, is_own).await?;
            say(&format!("watching {path} (collection {})", source.collection));
            watched.push(source);
        }
        let mut before = summary::memo(target).await?;
        stuck::wake(target, TENANT).await?;
        let mut follow = Follow::new(target, began, Phases::begin(target).await?);
        loop {
            let looked = follow.look(&mut watched).await?;
            let is_late = self.timeout.is_some_and(|timeout| started.elapsed() >= timeout);
            if !looked.is_over && !is_late {
                since.get_or_insert_with(Instant::now);
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            }
            let took = since.take().map(|since| since.elapsed()).unwrap_or_default();
            // What was there before is told once, also if there is nothing to do with it.
            if std::mem::take(&mut is_first) || follow.has_news {
                let (has_worked, waits) = (follow.has_news, looked.waits);
                follow.rest().await?;
                let mut summary = Summary::gather(target, &watched, &before, waits).await?;
                summary.has_worked = has_worked;
                summary.is_late = !looked.is_over;
                summary.print(&mut std::io::stdout().lock(), took, &self.hint)?;
                if self.once {
                    if !is_own {
                        let names = watched.iter().map(|source| source.name.as_str());
                        for name in names.collect::<BTreeSet<_>>() {
                            let ends = format!("windrow sources forget {name}{}", self.hint);
                            say(&format!("the server goes on watching {name}; `{ends}` ends that"));
                        }
                    }
                    return Ok(summary);
                }
                say("watching for new and changed files; Ctrl-C stops");
                // From here on only what is new is told.
                watched.iter_mut().for_each(Watched::rest);
                before = summary::memo(target).await?;
            }
            tokio::time::sleep(IDLE_EVERY).await;
        }
    }
}

/// What a look at everything came to.
struct Now {
    /// Nothing can move any more, for now.
    is_over: bool,
    /// What waits for programs that are not installed.
    waits: Vec<Wait>,
}

/// Follows work, and shows how far it is.
struct Follow<'a> {
    target: &'a Target,
    began: windrow_core::Timestamp,
    phases: Phases,
    bars: Option<Bars>,
    /// Whether there was work since the last summary.
    has_news: bool,
    /// What was there at the last look, and since how many looks.
    last: (Live, u32),
    /// What had not ended and what had at the last summary: who looks for a program in vain now
    /// and then is no news.
    rested: Option<[u64; 2]>,
    /// What was said of why nothing moves.
    said: Option<String>,
}

impl<'a> Follow<'a> {
    fn new(target: &'a Target, began: windrow_core::Timestamp, phases: Phases) -> Follow<'a> {
        let (bars, last, rested) = (None, ([0; 3], 0), None);
        Follow { target, began, phases, bars, has_news: false, last, rested, said: None }
    }

    async fn look(&mut self, watched: &mut [Watched]) -> anyhow::Result<Now> {
        let mut is_through = true;
        for source in watched.iter_mut() {
            match source.look(self.target).await? {
                Looked::Under => is_through = false,
                Looked::Through { has_news } => self.has_news |= has_news,
            }
        }
        let live = live(self.target, TENANT).await?;
        let is_still = live == self.last.0;
        self.last = (live, if is_still { self.last.1 + 1 } else { 0 });
        if live[0] + live[1] == 0 {
            return Ok(Now { is_over: is_through, waits: Vec::new() });
        }
        if self.rested != Some([live[0] + live[1], live[2]]) {
            self.show().await?;
        }
        if !is_through || self.last.1 < STILL_LOOKS {
            return Ok(Now { is_over: false, waits: Vec::new() });
        }
        match stuck::look(self.target, TENANT, self.began).await? {
            Stuck::Waits(waits) => return Ok(Now { is_over: true, waits }),
            Stuck::Because(why) => self.say_once(why),
            moves if self.last.1.is_multiple_of(SAID_LOOKS) => {
                let why = stuck::why(self.target, &moves).await?;
                why.into_iter().for_each(|why| self.say_once(why));
            }
            Stuck::Moves(_) => {}
        }
        Ok(Now { is_over: false, waits: Vec::new() })
    }

    async fn show(&mut self) -> anyhow::Result<()> {
        let phases = self.phases.look(self.target).await?;
        self.has_news = true;
        let bars = self.bars.get_or_insert_with(|| Bars::new(&[], TOLD_EVERY));
        for (name, done, total) in phases {
            bars.set(name, done, total);
        }
        bars.tell();
        Ok(())
    }

    /// Says why nothing moves, unless that was said.
    fn say_once(&mut self, why: String) {
        if self.said.as_ref() == Some(&why) {
            return;
        }
        match &self.bars {
            Some(bars) => bars.say(&format!("windrow: {why}")),
            None => say(&why),
        }
        self.said = Some(why);
    }

    /// There is nothing to follow for now.
    async fn rest(&mut self) -> anyhow::Result<()> {
        // What was done between two looks is shown too.
        if self.bars.is_some() || self.has_news {
            self.show().await?;
        }
        if let Some(bars) = self.bars.take() {
            bars.finish();
        }
        let [pending, processing, ended] = self.last.0;
        self.rested = Some([pending + processing, ended]);
        (self.has_news, self.said) = (false, None);
        Ok(())
    }
}

/// A number of things and what is done with them, unless there are none: `3 added`.
fn some(count: u64, what: &str) -> Option<String> {
    (count > 0).then(|| format!("{count} {what}"))
}

/// Parts that are there, with commas.
fn listed(parts: impl IntoIterator<Item = Option<String>>) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Lines under a heading, if there are any.
fn under(out: &mut impl std::io::Write, head: &str, lines: &[String]) -> std::io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "{head}")?;
    lines.iter().try_for_each(|line| writeln!(out, "  {line}"))
}

/// `1 page`, `2 pages`; the same as elsewhere.
fn pages(count: u64) -> String {
    counted(count, "page")
}
