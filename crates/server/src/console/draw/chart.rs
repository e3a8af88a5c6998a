//! Charts, drawn here: lines over the last minutes, with the same as a table below.

use std::fmt::Write as _;

use maud::{Markup, html};

/// One line of a chart. What is not known is a gap.
#[derive(Clone, Debug)]
pub(in crate::console) struct Line<'a> {
    pub(in crate::console) name: &'static str,
    /// How it is drawn: a class of the stylesheet.
    pub(in crate::console) class: &'static str,
    pub(in crate::console) values: &'a [Option<f64>],
}

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 140.0;

/// A chart of some lines over the same minutes.
pub(in crate::console) fn chart(
    title: &str,
    unit: &str,
    minutes: &[String],
    lines: &[Line<'_>],
) -> Markup {
    let most = top(lines.iter().flat_map(|line| line.values.iter().flatten().copied()));
    let last = |line: &Line<'_>| line.values.iter().rev().flatten().next().copied();
    html! {
        figure.chart {
            figcaption {
                span.title { (title) }
                @for line in lines {
                    span.key.(line.class) {
                        (line.name)
                        @if let Some(last) = last(line) { " " b { (said(last)) } " " (unit) }
                    }
                }
            }
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img"
                aria-label={ (title) " of the last " (minutes.len()) " minutes, at most "
                    (said(most)) " " (unit) } {
                @for at in [0.25, 0.5, 0.75] {
                    line.grid x1="0" x2=(WIDTH) y1=(HEIGHT * at) y2=(HEIGHT * at) {}
                }
                @for line in lines {
                    path.line.(line.class) d=(path(line.values, most, WIDTH, HEIGHT)) {}
                }
            }
            p.scale { span { (minutes.len()) " min ago" } span { "top: " (said(most)) " " (unit) }
                span { "now" } }
            details {
                summary { "Show as table" }
                div.scrolls {
                    table {
                        thead {
                            tr {
                                th scope="col" { "Minute" }
                                @for line in lines { th.number scope="col" { (line.name) } }
                            }
                        }
                        tbody {
                            @for (at, minute) in minutes.iter().enumerate().rev() {
                                tr {
                                    th scope="row" { (minute) }
                                    @for line in lines {
                                        td.number {
                                            @match line.values.get(at).copied().flatten() {
                                                Some(value) => (said(value)),
                                                None => "–",
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A line without anything around it, for a row of a table.
pub(in crate::console) fn spark(values: &[f64], says: &str) -> Markup {
    let most = top(values.iter().copied());
    let values: Vec<Option<f64>> = values.iter().copied().map(Some).collect();
    html! {
        svg.spark viewBox="0 0 100 20" preserveAspectRatio="none" role="img" aria-label=(says) {
            path.line d=(path(&values, most, 100.0, 20.0)) {}
        }
    }
}

/// The top of the scale: a round number that is not below any value.
fn top(values: impl Iterator<Item = f64>) -> f64 {
    let most = values.fold(0.0, f64::max);
    if most <= 1.0 {
        return 1.0;
    }
    let step = 10f64.powf(most.log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0].map(|times| times * step);
    round.into_iter().find(|round| *round >= most).unwrap_or(most)
}

fn path(values: &[Option<f64>], most: f64, width: f64, height: f64) -> String {
    let step = width / (values.len().max(2) - 1) as f64;
    let (mut path, mut is_down) = (String::new(), false);
    for (at, value) in values.iter().enumerate() {
        let Some(value) = value else {
            is_down = false;
            continue;
        };
        // A line of its own width stays inside.
        let (x, y) = (at as f64 * step, height - 1.0 - value / most * (height - 2.0));
        let is_alone = !is_down && values.get(at + 1).is_none_or(Option::is_none);
        let _infallible = match (is_alone, is_down) {
            // A single minute is as long as it lasted.
            (true, _) => write!(path, "M{:.1} {y:.1}h{step:.1}", (x - step).max(0.0)),
            (false, true) => write!(path, "L{x:.1} {y:.1}"),
            (false, false) => write!(path, "M{x:.1} {y:.1}"),
        };
        is_down = true;
    }
    path
}

fn said(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value < 10.0 && value.fract() != 0.0 => format!("{value:.1}"),
        value => super::grouped(value.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_is_round_and_holds_everything() {
        let tops = [0.0, 0.4, 1.5, 7.0, 20.0, 21.0, 999.0].map(|most| top([most].into_iter()));
        assert_eq!(tops, [1.0, 1.0, 2.0, 10.0, 20.0, 50.0, 1_000.0]);
    }

    #[test]
    fn a_line_stays_inside_and_leaves_gaps() {
        let line = path(&[Some(0.0), Some(10.0), None, Some(5.0)], 10.0, 30.0, 12.0);
        assert_eq!(line, "M0.0 11.0L10.0 1.0M20.0 6.0h10.0");
    }
}
