//! `windrow top`: queues, stages, workers and failures as they are, on a terminal.
//!
//! `look` asks the queue, `state` says what a key or an answer changes, `draw` makes a frame of
//! that, `asker` does what is wished, and `screen` is the terminal. State and frames know neither
//! the terminal nor the clock.

mod asker;
mod draw;
mod look;
mod plain;
mod screen;
mod state;

use std::io::IsTerminal as _;
use std::time::Duration;

use super::exit::Stop;
use super::items::filter_of;
use super::reach::Reach;
use super::runtime;
use super::show::{duration_ms, is_coloured, now};
use state::State;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow top
      Choose with the arrows, go between panes with Tab, explain with Enter, retry with r, pause
      and resume with p, filter with /, and leave with q. ? shows all keys.
  windrow top queue:thumbs no space
      Of one queue, and only failures with that text.
  windrow top --server https://queue.example:7117 --interval 500ms
  windrow top --once
      One look as text, for scripts and mails; it needs no terminal.
  windrow top --once --json | jq '.queues[] | select(.failed > 0) | .queue'

While a server is away the last look stays, says so, and goes on when the server is back. A data
directory without a server is opened for each look and let go, so that a server can start.")]
pub(super) struct Args {
    /// What to show, as in `windrow list`; failures if no status is named.
    #[arg(value_name = "FILTER", add = super::complete::filters())]
    filter: Vec<String>,
    /// How long to wait between two looks.
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "2s")]
    interval: u64,
    /// Print one look as text, or as JSON with --json, and end.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    reach: Reach,
}

fn interval(text: &str) -> Result<u64, String> {
    match duration_ms(text)? {
        ms @ 100..=3_600_000 => Ok(ms),
        _ => Err("must lie between 100ms and 1h".to_owned()),
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let filter = filter_of(&args.filter)?;
    if args.once {
        return runtime()?.block_on(plain::once(&args.reach, &filter));
    }
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    if !is_terminal || is_dumb {
        let said = "this is not a terminal to draw on; `windrow top --once` prints one look";
        return Err(Stop::usage(said).into());
    }
    if args.reach.json {
        return Err(Stop::usage("--json goes with --once; `windrow events` follows").into());
    }
    runtime()?.block_on(async {
        let interval = Duration::from_millis(args.interval);
        let mut asker = asker::Asker::new(&args.reach, interval, &filter);
        // What is wrong from the start is said, and not shown.
        let look = asker.look().await?;
        let state = State::new(look, filter.clone(), now(), is_coloured());
        let answer = async |wishes, tell| asker.answer(wishes, &tell).await;
        let ended = screen::run(state, answer).await;
        asker.close().await;
        ended
    })
}
