//! Rows, bars and checks, as a table for people and as JSON for programs.

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use super::measure::Round;

/// One line of a bench: a name and what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub name: String,
    figures: Map<String, Value>,
}

/// Figures that have a column of their own: key, title, digits after the point.
const COLUMNS: [(&str, &str, usize); 10] = [
    ("items_per_s", "items/s", 0),
    ("limit_per_s", "limit/s", 0),
    ("ratio", "ratio", 2),
    ("p50_us", "p50 us", 0),
    ("p99_us", "p99 us", 0),
    ("worst_ms", "worst ms", 1),
    ("cpu_us_per_item", "cpu us", 2),
    ("limit_cpu_us_per_item", "lim. cpu", 2),
    ("bytes_per_item", "bytes", 0),
    ("kernel_bytes_per_item", "krn bytes", 0),
];

impl Row {
    pub fn new(name: impl Into<String>) -> Row {
        Row { name: name.into(), figures: Map::new() }
    }

    #[must_use]
    pub fn with(mut self, figure: &str, value: f64) -> Row {
        // Four digits after the point are more than any of this is worth.
        let value = (value * 1e4).round() / 1e4;
        self.figures.insert(figure.to_owned(), json!(value));
        self
    }

    /// The figures of a round, or of the median of some.
    #[must_use]
    pub fn with_round(self, round: &Round) -> Row {
        let mut row = self.with("items_per_s", round.items_per_s);
        for (figure, value) in [
            ("p50_us", round.p50_us),
            ("p99_us", round.p99_us),
            ("worst_ms", round.worst_us / 1e3),
            ("cpu_us_per_item", round.cpu_us_per_item),
            ("bytes_per_item", round.bytes_per_item),
            ("kernel_bytes_per_item", round.kernel_bytes_per_item),
        ] {
            if value > 0.0 {
                row = row.with(figure, value);
            }
        }
        row
    }

    /// Rounds, and what the limit did beside each of them.
    #[must_use]
    pub fn beside(self, ours: &[Round], limits: &[Round]) -> Row {
        let limit = Round::median(limits);
        self.with_round(&Round::median(ours))
            .with("limit_per_s", limit.items_per_s)
            .with("ratio", Round::ratio(ours, limits))
            .with("limit_worst_ms", limit.worst_us / 1e3)
            .with("limit_cpu_us_per_item", limit.cpu_us_per_item)
    }

    pub fn figure(&self, figure: &str) -> Option<f64> {
        self.figures.get(figure)?.as_f64()
    }

    pub fn to_json(&self) -> Value {
        let mut all = Map::new();
        all.insert("name".into(), json!(self.name));
        all.extend(self.figures.clone());
        Value::Object(all)
    }

    pub fn from_json(value: Value) -> anyhow::Result<Row> {
        let Value::Object(mut figures) = value else { anyhow::bail!("a row is an object") };
        let name = figures.remove("name").context("a row has a name")?;
        let name = name.as_str().context("a name is text")?.to_owned();
        Ok(Row { name, figures })
    }
}

/// The table of all rows. What has no column stands at the end of its line.
pub fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let mut text = format!("{:width$}", "");
    for (_, title, _) in COLUMNS {
        let _ = write!(text, " {title:>9}");
    }
    for row in rows {
        let _ = write!(text, "\n{:width$}", row.name);
        for (figure, _, digits) in COLUMNS {
            let value = row.figure(figure).map(|value| number(value, digits)).unwrap_or_default();
            let _ = write!(text, " {value:>9}");
        }
        for (name, value) in &row.figures {
            if !COLUMNS.iter().any(|(figure, ..)| figure == name) {
                let value = value.as_f64().unwrap_or(0.0);
                let digits = if value >= 1e4 { 0 } else { 2 };
                let _ = write!(text, "  {name} {}", number(value, digits));
            }
        }
    }
    text.push('\n');
    text
}

/// A number with thousands set apart.
fn number(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_once('.').map_or((&*text, ""), |(whole, rest)| (whole, rest));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if rest.is_empty() { grouped } else { format!("{grouped}.{rest}") }
}

/// What is demanded of the rows.
#[derive(Clone, Debug)]
pub struct Bar {
    pub name: &'static str,
    pub row: &'static str,
    pub figure: &'static str,
    pub want: Want,
}

#[derive(Clone, Debug)]
pub enum Want {
    AtLeast(f64),
    AtMost(f64),
    /// At most the larger of a number and so many times another figure of the row.
    AtMostOr {
        value: f64,
        times: f64,
        of: &'static str,
    },
}

/// A bar, and whether it was met.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    pub name: String,
    pub want: String,
    pub got: String,
    pub ok: bool,
}

impl Bar {
    /// Holds the bar against the rows; none if its row was not run.
    pub fn check(&self, rows: &[Row]) -> Option<Check> {
        let row = rows.iter().find(|row| row.name == self.row)?;
        let got = row.figure(self.figure)?;
        let (ok, want) = match self.want {
            Want::AtLeast(least) => (got >= least, format!(">= {least}")),
            Want::AtMost(most) => (got <= most, format!("<= {most}")),
            Want::AtMostOr { value, times, of } => {
                let most = value.max(times * row.figure(of)?);
                (got <= most, format!("<= {}", number(most, 1)))
            }
        };
        let digits = if got >= 100.0 { 1 } else { 2 };
        Some(Check { name: self.name.into(), want, got: number(got, digits), ok })
    }
}

impl Check {
    pub fn to_json(&self) -> Value {
        json!({ "name": self.name, "want": self.want, "got": self.got, "ok": self.ok })
    }
}

/// Every bar against the rows. One whose row lacks its figure was not met; in a whole run, neither
/// was one whose row was not measured.
pub fn check(bars: &[Bar], rows: &[Row], whole: bool) -> Vec<Check> {
    let missing = |bar: &Bar| Check {
        name: bar.name.into(),
        want: "a figure".into(),
        got: "not measured".into(),
        ok: false,
    };
    let checks = bars.iter().filter_map(|bar| {
        let wanted = whole || rows.iter().any(|row| row.name == bar.row);
        bar.check(rows).or_else(|| wanted.then(|| missing(bar)))
    });
    checks.collect()
}

/// Prints everything: a table and a line per check, or JSON.
pub fn tell(
    as_json: bool,
    quick: bool,
    machine: &Value,
    rows: &[Row],
    checks: &[Check],
) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if as_json {
        let rows: Vec<Value> = rows.iter().map(Row::to_json).collect();
        let checks: Vec<Value> = checks.iter().map(Check::to_json).collect();
        let whole = json!({ "machine": machine, "rows": rows, "checks": checks });
        return Ok(writeln!(out, "{whole}")?);
    }
    writeln!(out, "\n{machine}\n\n{}\n{}", table(rows), lines(checks))?;
    if quick {
        writeln!(out, "quick: sizes are scaled down; this indicates and proves nothing")?;
    }
    Ok(())
}

/// One line per check.
pub fn lines(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let verdict = if check.ok { "ok" } else { "FALLS SHORT" };
        let Check { name, want, got, .. } = check;
        let _ = writeln!(text, "{name:width$}  want {want:<10} got {got:<10} {verdict}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(want: Want) -> Bar {
        Bar { name: "bar", row: "row", figure: "ratio", want }
    }

    #[test]
    fn a_bar_is_met_on_its_edge_and_missed_beyond_it() {
        let rows = [Row::new("row").with("ratio", 0.7).with("limit_worst_ms", 2.0)];
        let check = |want, ok| assert_eq!(bar(want).check(&rows).unwrap().ok, ok);
        check(Want::AtLeast(0.7), true);
        check(Want::AtLeast(0.71), false);
        check(Want::AtMost(0.7), true);
        check(Want::AtMost(0.69), false);
        let most = |value, times| Want::AtMostOr { value, times, of: "limit_worst_ms" };
        check(most(0.5, 0.4), true);
        check(most(0.5, 0.3), false);
        assert_eq!(bar(Want::AtLeast(0.0)).check(&[]), None);
    }

    #[test]
    fn a_bar_without_its_figure_is_missed_and_one_without_its_row_only_in_a_whole_run() {
        let bars = [bar(Want::AtLeast(1.0))];
        let row = Row::new("row").with("other", 2.0);
        assert!(!check(&bars, &[row], false)[0].ok);
        assert!(check(&bars, &[], false).is_empty());
        assert!(!check(&bars, &[], true)[0].ok);
    }

    #[test]
    fn a_row_comes_back_from_json_as_it_was() {
        let row = Row::new("enqueue").with("items_per_s", 1234.5).with("other", 2.0);
        assert_eq!(Row::from_json(row.to_json()).unwrap(), row);
        assert!(table(&[row]).contains("1,234") && number(-1234.0, 0) == "-1,234");
    }
}
