//! A frame: what the state says, on as many cells as there are.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table, TableState, Wrap};

use super::look::Health;
use super::state::{Front, Pane, State};
use crate::cli::show::{printable, span};

/// From so many columns on, panes stand side by side.
const WIDE: u16 = 100;
/// With fewer lines than these only the pane with the focus is drawn.
const LOW: u16 = 20;
/// Lines of the head that say what is not well, at most.
const ILL_MAX: u16 = 3;
/// A look that is older than this is said to be old.
const OLD_MS: u64 = 10_000;

pub(super) const HELP: [&str; 16] = [
    "up, down, j, k   choose a row; PgUp, PgDn, Home and End go further",
    "Tab, Shift-Tab   go to the next pane, or to the one before",
    "Enter            on a queue: how it stands, its settings, what holds it up",
    "                 on an item: what it is, why it is where it is, every attempt",
    "                 on a stage: list what is in it; on a worker: what it asks for",
    "r                retry the item that is chosen",
    "p                pause the queue or stage that is chosen, or resume it",
    "/                filter, as in `windrow list`: status:failed queue:thumbs no space;",
    "                 an empty one lists all failures again",
    "q, Esc, Ctrl-C   leave",
    "",
    "r and p ask first. Waiting items are DUE, or DELAYED until their time comes; a number",
    "with + is of the newest 1,000 items only. Rates are of items that ended since the look",
    "before.",
    "",
    "Any key goes back.",
];

/// Colours, or none.
struct Paint(bool);

impl Paint {
    fn of(&self, colour: Color) -> Style {
        if self.0 { Style::new().fg(colour) } else { Style::new() }
    }

    fn status(&self, status: &str) -> Style {
        match status {
            "green" | "completed" => self.of(Color::Green),
            "yellow" | "cancelled" | "skipped" => self.of(Color::Yellow),
            "red" | "failed" => self.of(Color::Red).add_modifier(Modifier::BOLD),
            "processing" => self.of(Color::Blue),
            _ => Style::new(),
        }
    }
}

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State) {
    let ill = state.look.health.as_ref().and_then(Health::first_ill);
    let head = 2 + rows_for(ill.as_deref(), frame.area());
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(head), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    let paint = Paint(state.is_coloured);
    summary(frame, head, state, ill, &paint);
    for (pane, area) in panes(body, state.pane) {
        one_pane(frame, area, pane, state, &paint);
    }
    footer(frame, foot, state, &paint);
    match &state.front {
        Front::Help => {
            let lines: Vec<String> = HELP.iter().map(|line| (*line).to_owned()).collect();
            front(frame, body, "Keys", &lines, 0);
        }
        Front::Text { title, lines, from } => front(frame, body, title, lines, *from),
        Front::None | Front::Question { .. } | Front::Typing { .. } => {}
    }
}

/// Lines that what is not well takes in the head: as many as it needs, and no more than are spare.
fn rows_for(ill: Option<&str>, area: Rect) -> u16 {
    let Some(ill) = ill else { return 0 };
    let needs = ill.chars().count().div_ceil(usize::from(area.width.max(1)));
    let spare = if area.height < LOW { 1 } else { ILL_MAX };
    u16::try_from(needs).unwrap_or(spare).clamp(1, spare)
}

/// Where panes are.
fn panes(body: Rect, focus: Pane) -> Vec<(Pane, Rect)> {
    if body.height < LOW - 3 {
        return vec![(focus, body)];
    }
    if body.width < WIDE {
        let shares = [3, 2, 2, 3].map(Constraint::Fill);
        let areas: [Rect; 4] = Layout::vertical(shares).areas(body);
        return Pane::ALL.into_iter().zip(areas).collect();
    }
    let [upper, items] = Layout::vertical([3, 2].map(Constraint::Fill)).areas(body);
    let [queues, right] = Layout::horizontal([3, 2].map(Constraint::Fill)).areas(upper);
    let [stages, workers] = Layout::vertical([1, 1].map(Constraint::Fill)).areas(right);
    let areas = [queues, stages, workers, items];
    Pane::ALL.into_iter().zip(areas).collect()
}

fn summary(frame: &mut Frame<'_>, area: Rect, state: &State, ill: Option<String>, paint: &Paint) {
    let look = &state.look;
    let sum = |of: fn(&super::look::Queue) -> u64| look.queues.iter().map(of).sum::<u64>();
    let health = look.health.as_ref().map_or("not told", |health| &health.status);
    let mut words = vec![
        Span::raw("windrow  "),
        Span::styled(format!("health {health}"), paint.status(health)),
        Span::raw(format!("  pending {}", sum(|queue| queue.pending))),
        Span::raw(format!("  processing {}", sum(|queue| queue.processing))),
        Span::raw(format!("  failed {}", sum(|queue| queue.failed))),
    ];
    if let Some(rates) = state.rates {
        words.push(Span::raw(format!("  done {:.1}/s", rates.well)));
        let style = if rates.failed > 0.0 { paint.status("failed") } else { Style::new() };
        words.push(Span::styled(format!("  failing {:.1}/s", rates.failed), style));
    }
    if let Some(since) = look.waiting_since() {
        words.push(Span::raw(format!("  oldest waits {}", span(look.at.0.since(since)))));
    }
    let second = match &state.away {
        Some(why) => {
            let ago = span(state.now.since(state.looked));
            let said = format!("AWAY, this is {ago} old; trying again. {}", printable(why));
            Line::styled(said, paint.status("red"))
        }
        None => Line::raw(source(state)),
    };
    let mut lines = vec![Line::from(words)];
    lines.extend(ill.map(|ill| Line::styled(printable(&ill), paint.status(health))));
    let [upper, lower] = Layout::vertical([Constraint::Min(0), Constraint::Length(1)]).areas(area);
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }), upper);
    frame.render_widget(Paragraph::new(second), lower);
}

/// Who answers, and what is listed.
fn source(state: &State) -> String {
    let mut said = printable(&state.look.source);
    if state.look.is_alone {
        said.push_str(" (no server runs: nothing moves by itself)");
    }
    let age = state.now.since(state.looked);
    if age >= OLD_MS {
        said.push_str(&format!("; no answer for {}", span(age)));
    }
    if !state.filter.is_empty() {
        said.push_str(&format!("; filter {}", printable(&state.filter)));
    }
    said
}

fn footer(frame: &mut Frame<'_>, area: Rect, state: &State, paint: &Paint) {
    let line = match (&state.front, &state.did) {
        (Front::Question { words, .. }, _) => {
            Line::styled(printable(words), Style::new().add_modifier(Modifier::BOLD))
        }
        (Front::Typing { text, wrong: Some(wrong) }, _) => {
            let said = format!("/{}   {}", printable(text), printable(wrong));
            Line::styled(said, paint.status("red"))
        }
        (Front::Typing { text, wrong: None }, _) => {
            Line::raw(format!("/{}_   Enter filters, Esc goes back", printable(text)))
        }
        (_, Some((said, true))) => Line::styled(printable(said), paint.status("green")),
        (_, Some((said, false))) => Line::styled(printable(said), paint.status("red")),
        (Front::Text { .. }, None) => Line::raw("up, down: read on   Esc: back"),
        _ => Line::raw(
            "Tab pane   Enter explain   r retry   p pause/resume   / filter   ? help   q leave",
        ),
    };
    frame.render_widget(Paragraph::new(line), area);
}

/// The heads, the widths and the rows of a pane.
struct Rows {
    title: String,
    head: Vec<&'static str>,
    widths: Vec<Constraint>,
    rows: Vec<Row<'static>>,
}

fn one_pane(frame: &mut Frame<'_>, area: Rect, pane: Pane, state: &State, paint: &Paint) {
    let Rows { title, head, widths, rows } = match pane {
        Pane::Queues => queues(state, paint),
        Pane::Stages => stages(state),
        Pane::Workers => workers(state),
        Pane::Items => items(state, paint),
    };
    let has_focus = state.pane == pane;
    let style = match has_focus {
        true => paint.of(Color::Cyan).add_modifier(Modifier::BOLD),
        false => Style::new(),
    };
    let mark = if has_focus { "*" } else { " " };
    let block = Block::bordered().title(format!("{mark}{title} ")).border_style(style);
    let head = Row::new(head).style(Style::new().add_modifier(Modifier::UNDERLINED));
    let chosen = Style::new().add_modifier(Modifier::REVERSED);
    let mut table = Table::new(rows, widths).header(head).block(block);
    if has_focus {
        table = table.row_highlight_style(chosen);
    }
    let mut at = TableState::default().with_selected(state.chosen(pane));
    frame.render_stateful_widget(table, area, &mut at);
}

/// A number, aligned to the right under a heading of that width.
fn number(count: u64, width: usize) -> Cell<'static> {
    Cell::from(format!("{count:>width$}"))
}

fn queues(state: &State, paint: &Paint) -> Rows {
    let look = &state.look;
    let widths = [16, 8, 8, 10, 8, 6].into_iter().enumerate();
    let mut widths: Vec<Constraint> = widths
        .map(|(at, width)| match at {
            0 => Constraint::Fill(2),
            _ => Constraint::Length(width),
        })
        .collect();
    widths.push(Constraint::Fill(1));
    let rows = look.queues.iter().map(|queue| {
        let waits = queue.waiting_since.map(|since| span(look.at.0.since(since.0)));
        let failed = if queue.failed > 0 { paint.status("failed") } else { Style::new() };
        let pauses: Vec<String> = queue.paused.iter().map(ToString::to_string).collect();
        Row::new(vec![
            Cell::from(printable(&queue.queue)),
            number(queue.pending.saturating_sub(queue.delayed), 8),
            delayed(queue.delayed, look.partial),
            number(queue.processing, 10),
            number(queue.failed, 8).style(failed),
            Cell::from(format!("{:>6}", waits.unwrap_or_default())),
            Cell::from(printable(&pauses.join(", "))).style(paint.of(Color::Yellow)),
        ])
    });
    let head = vec!["QUEUE", "     DUE", " DELAYED", "PROCESSING", "  FAILED", "OLDEST", "PAUSED"];
    let title = match (look.queues.is_empty(), state.filter.is_empty()) {
        (true, true) => "queues: none yet; `windrow enqueue QUEUE` makes one",
        (true, false) => "queues: the filter admits none",
        (false, _) => "queues",
    };
    let title = title.to_owned();
    Rows { title, head, widths, rows: rows.collect() }
}

fn delayed(count: u64, partial: bool) -> Cell<'static> {
    let said = if partial { format!("{count}+") } else { count.to_string() };
    Cell::from(format!("{said:>8}"))
}

fn stages(state: &State) -> Rows {
    let look = &state.look;
    let rows = look.stages.iter().map(|stage| {
        Row::new(vec![
            Cell::from(printable(&stage.queue)),
            Cell::from(printable(&stage.stage)),
            number(stage.due, 6),
            number(stage.delayed, 7),
            number(stage.processing, 10),
        ])
    });
    let widths = [Constraint::Fill(1), Constraint::Fill(1)].into_iter();
    let widths = widths.chain([6, 7, 10].map(Constraint::Length)).collect();
    let title = if look.partial { "stages, of the newest 1,000 items" } else { "stages" };
    let head = vec!["QUEUE", "STAGE", "   DUE", "DELAYED", "PROCESSING"];
    Rows { title: title.to_owned(), head, widths, rows: rows.collect() }
}

fn workers(state: &State) -> Rows {
    let look = &state.look;
    let rows = look.workers.iter().map(|worker| {
        Row::new(vec![
            Cell::from(worker.titled()),
            number(worker.leases, 6),
            number(worker.waiting, 7),
            Cell::from(format!("{:>5}", worker.seen(look.at))),
            Cell::from(printable(&worker.takes())),
        ])
    });
    let widths = vec![
        Constraint::Fill(2),
        Constraint::Length(6),
        Constraint::Length(7),
        Constraint::Length(5),
        Constraint::Fill(1),
    ];
    let title = match look.workers.is_empty() {
        true => "workers: none is here; `windrow work` is one".to_owned(),
        false => format!("workers ({})", look.workers.len()),
    };
    let head = vec!["WORKER", "LEASES", "WAITING", " SEEN", "QUEUES"];
    Rows { title, head, widths, rows: rows.collect() }
}

fn items(state: &State, paint: &Paint) -> Rows {
    let look = &state.look;
    let rows = look.items.iter().map(|item| {
        Row::new(vec![
            Cell::from(item.id.clone()),
            Cell::from(item.status.clone()).style(paint.status(&item.status)),
            Cell::from(format!("{:>4}", span(look.at.0.since(item.since())))),
            Cell::from(printable(&item.queue)),
            Cell::from(printable(&item.stage)),
            number(item.attempts, 5),
            Cell::from(printable(item.why())),
        ])
    });
    let widths = vec![
        Constraint::Length(36),
        Constraint::Length(10),
        Constraint::Length(4),
        Constraint::Fill(1),
        Constraint::Length(8),
        Constraint::Length(5),
        Constraint::Fill(4),
    ];
    let all_failed = look.items.iter().all(|item| item.status == "failed");
    let what = if all_failed && !state.filter.contains("status:") { "failures" } else { "items" };
    let count = look.items.len();
    let title = match (count, look.more) {
        (0, _) => format!("{what}: none"),
        (_, true) => format!("{what}, the newest {count}"),
        (_, false) => format!("{what} ({count})"),
    };
    let head = vec!["ID", "STATUS", " AGE", "QUEUE", "STAGE", "TRIES", "ERROR"];
    Rows { title, head, widths, rows: rows.collect() }
}

/// A text before everything else.
fn front(frame: &mut Frame<'_>, body: Rect, title: &str, lines: &[String], from: usize) {
    frame.render_widget(Clear, body);
    let block = Block::bordered().title(format!(" {} ", printable(title)));
    let lines: Vec<Line<'_>> = lines.iter().map(|line| Line::raw(printable(line))).collect();
    let text = Paragraph::new(lines).wrap(Wrap { trim: false });
    let from = u16::try_from(from).unwrap_or(u16::MAX);
    frame.render_widget(text.block(block).scroll((from, 0)), body);
}

#[cfg(test)]
mod tests;
