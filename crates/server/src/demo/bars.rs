//! The demo's bars: one per phase on a terminal, a line now and then elsewhere.

use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::world::PHASES;

/// Progress, as a person sees it.
pub(super) struct Bars {
    screen: MultiProgress,
    bars: Vec<ProgressBar>,
    counts: [(u64, u64); PHASES.len()],
    plain: bool,
    said: Option<Instant>,
}

/// Between two lines where there is no terminal.
const EVERY: Duration = Duration::from_secs(1);

impl Bars {
    pub(super) fn new() -> Bars {
        let plain = !std::io::stderr().is_terminal();
        let screen = MultiProgress::new();
        let style =
            ProgressStyle::with_template("  {prefix:<8} {bar:36} {pos:>6} of {len:<6} {msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("━╸─");
        let bars = PHASES.iter().map(|phase| {
            let bar = ProgressBar::new(0).with_style(style.clone()).with_prefix(*phase);
            if plain { bar } else { screen.add(bar) }
        });
        let bars = bars.collect();
        Bars { screen, bars, counts: [(0, 0); PHASES.len()], plain, said: None }
    }

    pub(super) fn set(&mut self, phase: &str, done: u64, total: u64) {
        let Some(index) = PHASES.iter().position(|name| *name == phase) else { return };
        self.counts[index] = (done, total);
        if !self.plain {
            self.bars[index].set_length(total);
            self.bars[index].set_position(done);
        } else if index == PHASES.len() - 1 && self.said.is_none_or(|said| said.elapsed() > EVERY) {
            self.said = Some(Instant::now());
            self.say(&self.line());
        }
    }

    fn line(&self) -> String {
        let each = PHASES.iter().zip(self.counts);
        let each = each.map(|(phase, (done, total))| format!("{phase} {done}/{total}"));
        each.collect::<Vec<String>>().join("  ")
    }

    /// How much of everything is done, of a thousand.
    pub(super) fn thousandths(&self) -> u64 {
        let sum = |of: fn(&(u64, u64)) -> u64| self.counts.iter().map(of).sum::<u64>();
        (sum(|count| count.0) * 1_000).checked_div(sum(|count| count.1)).unwrap_or(0)
    }

    /// Prints a line above the bars.
    pub(super) fn say(&self, line: &str) {
        if self.plain {
            let _nobody_may_read = writeln!(std::io::stderr(), "{line}");
        } else {
            let _nobody_may_read = self.screen.println(line);
        }
    }

    pub(super) fn finish(&self) {
        if self.plain {
            self.say(&self.line());
        }
        self.bars.iter().for_each(ProgressBar::abandon);
    }
}
