//! What is on the screen, and what a key or an answer makes of it. Nothing here asks, draws or
//! reads a clock: what is to be asked is the answer.

use windrow_core::Timestamp;
use windrow_wire::filter;

use super::look::Look;

/// Lines that a page up or down moves by.
const PAGE: usize = 10;

/// A part of the screen with rows to choose from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pane {
    Queues,
    Stages,
    Workers,
    Items,
}

impl Pane {
    pub(super) const ALL: [Pane; 4] = [Pane::Queues, Pane::Stages, Pane::Workers, Pane::Items];

    fn at(self, by: usize) -> Pane {
        Pane::ALL[(self as usize + by) % Pane::ALL.len()]
    }
}

/// A key that was pressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Tab,
    BackTab,
    Enter,
    Escape,
    Erase,
    EraseAll,
    /// Ctrl-C.
    Interrupt,
    Letter(char),
}

/// Something that happened.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Event {
    Key(Key),
    /// The time, by our clock.
    Time(Timestamp),
    Looked(Box<Look>),
    /// The last look failed.
    Away(String),
    /// What was asked about something.
    Told {
        title: String,
        lines: Vec<String>,
    },
    /// Something was done, or refused.
    Did {
        said: String,
        well: bool,
    },
}

/// What is to be asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Wish {
    /// Look again, through this filter from now on.
    Filter(String),
    Item(String),
    Queue(String),
    Retry(String),
    Pause {
        queue: String,
        stage: Option<String>,
    },
    Resume {
        queue: String,
        stage: Option<String>,
    },
}

/// What follows from an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Next {
    Stay,
    Ask(Wish),
    Leave,
}

/// What stands before the panes.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Front {
    None,
    Help,
    Text {
        title: String,
        lines: Vec<String>,
        from: usize,
    },
    /// A question, and what a yes means.
    Question {
        words: String,
        wish: Wish,
    },
    /// A filter that is being typed, and why it is none yet.
    Typing {
        text: String,
        wrong: Option<String>,
    },
}

/// Items that ended in a second, between the last two looks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Rates {
    pub(super) well: f64,
    pub(super) failed: f64,
}

#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) pane: Pane,
    pub(super) look: Look,
    pub(super) rates: Option<Rates>,
    pub(super) front: Front,
    pub(super) filter: String,
    /// Why the last look failed; what is shown is older.
    pub(super) away: Option<String>,
    /// What was done last, and whether it went well.
    pub(super) did: Option<(String, bool)>,
    /// By our clock: now, and when the last look came.
    pub(super) now: Timestamp,
    pub(super) looked: Timestamp,
    pub(super) is_coloured: bool,
    chosen: [usize; 4],
}

impl State {
    pub(super) fn new(look: Look, filter: String, now: Timestamp, is_coloured: bool) -> State {
        State {
            pane: Pane::Queues,
            look,
            rates: None,
            front: Front::None,
            filter,
            away: None,
            did: None,
            now,
            looked: now,
            is_coloured,
            chosen: [0; 4],
        }
    }

    /// Takes in what happened.
    pub(super) fn on(&mut self, event: Event) -> Next {
        match event {
            Event::Key(key) => return self.pressed(key),
            Event::Time(now) => self.now = now,
            Event::Looked(look) => self.see(*look),
            Event::Away(why) => self.away = Some(why),
            Event::Told { title, lines } => self.front = Front::Text { title, lines, from: 0 },
            Event::Did { said, well } => self.did = Some((said, well)),
        }
        Next::Stay
    }

    /// How many rows a pane has.
    pub(super) fn rows(&self, pane: Pane) -> usize {
        match pane {
            Pane::Queues => self.look.queues.len(),
            Pane::Stages => self.look.stages.len(),
            Pane::Workers => self.look.workers.len(),
            Pane::Items => self.look.items.len(),
        }
    }

    /// The row that is chosen in a pane, if it has one.
    pub(super) fn chosen(&self, pane: Pane) -> Option<usize> {
        let last = self.rows(pane).checked_sub(1)?;
        Some(self.chosen[pane as usize].min(last))
    }

    /// Replaces what was seen. Whatever was chosen stays so, wherever it is now.
    fn see(&mut self, look: Look) {
        self.rates = rates(&self.look, &look);
        let before: Vec<Option<String>> = Pane::ALL
            .iter()
            .map(|pane| self.chosen(*pane).map(|at| self.name(*pane, at)))
            .collect();
        self.look = look;
        for (pane, name) in Pane::ALL.into_iter().zip(before) {
            let Some(name) = name else { continue };
            let same = (0..self.rows(pane)).find(|at| self.name(pane, *at) == name);
            if let Some(at) = same {
                self.chosen[pane as usize] = at;
            }
        }
        (self.away, self.looked) = (None, self.now);
    }

    /// What tells a row from the others of its pane.
    fn name(&self, pane: Pane, at: usize) -> String {
        match pane {
            Pane::Queues => self.look.queues[at].queue.clone(),
            Pane::Stages => {
                let stage = &self.look.stages[at];
                format!("{}\u{0}{}", stage.queue, stage.stage)
            }
            Pane::Workers => self.look.workers[at].name.clone(),
            Pane::Items => self.look.items[at].id.clone(),
        }
    }

    fn pressed(&mut self, key: Key) -> Next {
        if key == Key::Interrupt {
            return Next::Leave;
        }
        match std::mem::replace(&mut self.front, Front::None) {
            Front::None => self.browse(key),
            // Any key takes it away.
            Front::Help => Next::Stay,
            Front::Text { title, lines, from } => self.read(key, title, lines, from),
            Front::Question { words, wish } => self.answer(key, words, wish),
            Front::Typing { text, .. } => self.typed(key, text),
        }
    }

    fn browse(&mut self, key: Key) -> Next {
        self.did = None;
        match key {
            Key::Letter('q') | Key::Escape => return Next::Leave,
            Key::Tab => self.pane = self.pane.at(1),
            Key::BackTab => self.pane = self.pane.at(Pane::ALL.len() - 1),
            Key::Letter('?' | 'h') => self.front = Front::Help,
            Key::Letter('/') => {
                self.front = Front::Typing { text: self.filter.clone(), wrong: None };
            }
            Key::Letter('r') => self.retry(),
            Key::Letter('p') => self.pause(),
            Key::Enter => return self.open(),
            key => self.go(key),
        }
        Next::Stay
    }

    fn go(&mut self, key: Key) {
        let Some(at) = self.chosen(self.pane) else { return };
        let last = self.rows(self.pane) - 1;
        self.chosen[self.pane as usize] = moved(key, at, last);
    }

    /// Shows what is chosen.
    fn open(&mut self) -> Next {
        let Some(at) = self.chosen(self.pane) else { return Next::Stay };
        let look = &self.look;
        match self.pane {
            Pane::Queues => Next::Ask(Wish::Queue(look.queues[at].queue.clone())),
            Pane::Items => Next::Ask(Wish::Item(look.items[at].id.clone())),
            Pane::Stages => {
                let stage = &look.stages[at];
                let quoted = |name: &str| name.replace('\\', "\\\\").replace('"', "\\\"");
                let (queue, stage) = (quoted(&stage.queue), quoted(&stage.stage));
                self.filter =
                    format!("status:pending,processing queue:\"{queue}\" stage:\"{stage}\"");
                self.pane = Pane::Items;
                Next::Ask(Wish::Filter(self.filter.clone()))
            }
            Pane::Workers => {
                let worker = &look.workers[at];
                let all = |names: &[String]| match names {
                    [] if !worker.asked => "not known here".to_owned(),
                    [] => "all".to_owned(),
                    names => names.join(", "),
                };
                let seen = worker.last_seen.map(|seen| seen.0.to_string());
                let lines = vec![
                    format!("last seen  {}", seen.as_deref().unwrap_or("it is away")),
                    format!("leases     {}", worker.leases),
                    format!("waiting    {} claims", worker.waiting),
                    format!("queues     {}", all(&worker.queues)),
                    format!("stages     {}", all(&worker.stages)),
                    format!("kinds      {}", all(&worker.kinds)),
                    format!("drained    {}", if worker.drained { "yes" } else { "no" }),
                ];
                self.front = Front::Text { title: worker.name.clone(), lines, from: 0 };
                Next::Stay
            }
        }
    }

    fn retry(&mut self) {
        match self.chosen(Pane::Items).filter(|_| self.pane == Pane::Items) {
            Some(at) => {
                let item = &self.look.items[at];
                let words = format!("Retry {} of queue {}? [y/N] ", item.id, item.queue);
                self.front = Front::Question { words, wish: Wish::Retry(item.id.clone()) };
            }
            None => {
                let said = "choose an item first: Tab goes to the lowest pane".to_owned();
                self.did = Some((said, false));
            }
        }
    }

    fn pause(&mut self) {
        let (queue, stage) = match (self.pane, self.chosen(self.pane)) {
            (Pane::Queues, Some(at)) => (self.look.queues[at].queue.clone(), None),
            (Pane::Stages, Some(at)) => {
                let stage = &self.look.stages[at];
                (stage.queue.clone(), Some(stage.stage.clone()))
            }
            _ => {
                let said = "choose a queue or a stage first: Tab goes there".to_owned();
                self.did = Some((said, false));
                return;
            }
        };
        let known = self.look.queues.iter().find(|known| known.queue == queue);
        let is_paused = known.is_some_and(|known| match &stage {
            Some(stage) => known.pauses_stage(stage),
            None => known.is_paused(),
        });
        let of = match &stage {
            Some(stage) => format!("stage {stage} of queue {queue}"),
            None => format!("queue {queue}"),
        };
        let (words, wish) = match is_paused {
            true => (format!("Resume {of}? [y/N] "), Wish::Resume { queue, stage }),
            false => (
                format!("Pause {of}, so that nothing of it is handed out? [y/N] "),
                Wish::Pause { queue, stage },
            ),
        };
        self.front = Front::Question { words, wish };
    }

    fn answer(&mut self, key: Key, words: String, wish: Wish) -> Next {
        match key {
            Key::Letter('y' | 'Y') => return Next::Ask(wish),
            // Whoever slips does not decide.
            Key::Up | Key::Down | Key::PageUp | Key::PageDown | Key::Home | Key::End => {
                self.front = Front::Question { words, wish };
            }
            _ => self.did = Some(("nothing was changed".to_owned(), true)),
        }
        Next::Stay
    }

    fn typed(&mut self, key: Key, mut text: String) -> Next {
        match key {
            Key::Escape => return Next::Stay,
            Key::Enter => {
                let read = filter::parse(&text);
                let read = read.map_err(|wrong| format!("{:?}: {}", wrong.word, wrong.why));
                let read = read.and_then(|read| read.to_core().map_err(|why| why.to_string()));
                let Err(wrong) = read else {
                    self.filter = text.trim().to_owned();
                    return Next::Ask(Wish::Filter(self.filter.clone()));
                };
                self.front = Front::Typing { text, wrong: Some(wrong) };
                return Next::Stay;
            }
            Key::Erase => {
                text.pop();
            }
            Key::EraseAll => text.clear(),
            Key::Letter(letter) => text.push(letter),
            _ => {}
        }
        self.front = Front::Typing { text, wrong: None };
        Next::Stay
    }

    fn read(&mut self, key: Key, title: String, lines: Vec<String>, from: usize) -> Next {
        if matches!(key, Key::Escape | Key::Enter | Key::Letter('q')) {
            return Next::Stay;
        }
        let from = moved(key, from, lines.len().saturating_sub(1));
        self.front = Front::Text { title, lines, from };
        Next::Stay
    }
}

/// Where a key leads from a place among many.
fn moved(key: Key, at: usize, last: usize) -> usize {
    match key {
        Key::Up | Key::Letter('k') => at.saturating_sub(1),
        Key::Down | Key::Letter('j') => (at + 1).min(last),
        Key::PageUp => at.saturating_sub(PAGE),
        Key::PageDown => (at + PAGE).min(last),
        Key::Home | Key::Letter('g') => 0,
        Key::End | Key::Letter('G') => last,
        _ => at,
    }
}

/// How many items ended between two looks. What was retried, swept or deleted meanwhile is not
/// counted against it.
fn rates(before: &Look, after: &Look) -> Option<Rates> {
    let ms = after.at.0.since(before.at.0);
    if ms == 0 || before.queues.is_empty() {
        return None;
    }
    let (mut well, mut failed) = (0, 0);
    for (queue, more_well, more_failed) in after.ended() {
        let known = before.ended().find(|(name, ..)| *name == queue);
        let (_, was_well, was_failed) = known.unwrap_or((queue, 0, 0));
        well += more_well.saturating_sub(was_well);
        failed += more_failed.saturating_sub(was_failed);
    }
    let seconds = ms as f64 / 1_000.0;
    Some(Rates { well: well as f64 / seconds, failed: failed as f64 / seconds })
}

#[cfg(test)]
pub(super) mod tests;
