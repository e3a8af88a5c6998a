//! Bars: how far something is, one bar for each part of it on a terminal, a line now and then
//! elsewhere. All of it goes to standard error.

use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// Progress, as a person sees it.
#[derive(Debug)]
pub(crate) struct Bars {
    screen: MultiProgress,
    parts: Vec<Part>,
    plain: bool,
    /// Between two lines where there is no terminal.
    every: Duration,
    said: Instant,
}

#[derive(Debug)]
struct Part {
    name: String,
    bar: ProgressBar,
    done: u64,
    total: u64,
}

impl Bars {
    /// With these parts, and whatever is named later.
    pub(crate) fn new(names: &[&str], every: Duration) -> Bars {
        let plain = !std::io::stderr().is_terminal();
        let (screen, parts, said) = (MultiProgress::new(), Vec::new(), Instant::now());
        let mut bars = Bars { screen, parts, plain, every, said };
        names.iter().for_each(|name| bars.add(name));
        bars
    }

    fn add(&mut self, name: &str) {
        let template = "  {prefix:<8} {bar:36} {pos:>6} of {len:<6} {msg}";
        let style = ProgressStyle::with_template(template)
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("━╸─");
        let bar = ProgressBar::new(0).with_style(style).with_prefix(name.to_owned());
        let bar = if self.plain { bar } else { self.screen.add(bar) };
        self.parts.push(Part { name: name.to_owned(), bar, done: 0, total: 0 });
    }

    /// Says how far a part is.
    pub(crate) fn set(&mut self, name: &str, done: u64, total: u64) {
        let known = self.parts.iter().position(|part| part.name == name);
        let at = known.unwrap_or_else(|| {
            self.add(name);
            self.parts.len() - 1
        });
        let part = &mut self.parts[at];
        (part.done, part.total) = (done, total);
        if !self.plain {
            part.bar.set_length(total);
            part.bar.set_position(done);
        }
    }

    /// Says where it stands, if there is no terminal and it was not said lately.
    pub(crate) fn tell(&mut self) {
        if self.plain && self.said.elapsed() > self.every {
            self.said = Instant::now();
            self.say(&self.line());
        }
    }

    fn line(&self) -> String {
        let each = self.parts.iter();
        let each = each.map(|Part { name, done, total, .. }| format!("{name} {done}/{total}"));
        each.collect::<Vec<String>>().join("  ")
    }

    /// How much of everything is done, of a thousand.
    pub(crate) fn thousandths(&self) -> u64 {
        let sum = |of: fn(&Part) -> u64| self.parts.iter().map(of).sum::<u64>();
        (sum(|part| part.done) * 1_000).checked_div(sum(|part| part.total)).unwrap_or(0)
    }

    /// Prints a line above the bars.
    pub(crate) fn say(&self, line: &str) {
        if self.plain {
            let _nobody_may_read = writeln!(std::io::stderr(), "{line}");
        } else {
            let _nobody_may_read = self.screen.println(line);
        }
    }

    /// The bars stay as they are.
    pub(crate) fn finish(&self) {
        if self.plain {
            self.say(&self.line());
        }
        self.parts.iter().for_each(|part| part.bar.abandon());
    }

    /// The bars go.
    pub(crate) fn clear(&self) {
        self.parts.iter().for_each(|part| part.bar.finish_and_clear());
    }
}
