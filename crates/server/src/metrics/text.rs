//! The text format of Prometheus, version 0.0.4, as far as it is needed.

use std::fmt::Write as _;

use windrow_engine::histogram::Reading;

/// What is served with it.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a metric counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// One metric: its name, what it is, and what it is about.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) help: &'static str,
}

/// A label and its value.
pub(super) type Label<'a> = (&'static str, &'a str);

/// A page that is being written.
#[derive(Debug, Default)]
pub(super) struct Page {
    text: String,
}

impl Page {
    /// Begins a metric; its samples follow.
    pub(super) fn family(&mut self, family: &Family) {
        let Family { name, kind, help } = family;
        let kind = kind.name();
        let _infallible = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    pub(super) fn sample(&mut self, name: &str, labels: &[Label<'_>], value: f64) {
        self.text.push_str(name);
        for (at, (label, value)) in labels.iter().enumerate() {
            self.text.push(if at == 0 { '{' } else { ',' });
            let _infallible = write!(self.text, "{label}=\"");
            escape(value, &mut self.text);
            self.text.push('"');
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _infallible = writeln!(self.text, "{end} {value}");
    }

    /// A histogram whose values are counted in parts of a unit: microseconds of seconds.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        labels: &[Label<'_>],
        parts: f64,
        read: &Reading,
    ) {
        let bucket = format!("{name}_bucket");
        let bounds = read
            .buckets
            .iter()
            .map(|(bound, count)| (format!("{}", *bound as f64 / parts), *count));
        for (bound, count) in bounds.chain([("+Inf".to_owned(), read.count)]) {
            let labels: Vec<Label<'_>> = labels.iter().copied().chain([("le", &*bound)]).collect();
            self.sample(&bucket, &labels, count as f64);
        }
        self.sample(&format!("{name}_sum"), labels, read.sum as f64 / parts);
        self.sample(&format!("{name}_count"), labels, read.count as f64);
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// A value between quotation marks. A queue may have any name.
fn escape(value: &str, into: &mut String) {
    for letter in value.chars() {
        match letter {
            '\\' => into.push_str("\\\\"),
            '"' => into.push_str("\\\""),
            '\n' => into.push_str("\\n"),
            letter => into.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_one_line_whatever_its_labels_hold() {
        let mut page = Page::default();
        page.sample("m", &[("queue", "a\"b\\c\nd"), ("status", "x")], 1.5);
        page.sample("m", &[], 3.0);
        assert_eq!(page.into_text(), "m{queue=\"a\\\"b\\\\c\\nd\",status=\"x\"} 1.5\nm 3\n");
    }

    #[test]
    fn a_histogram_is_in_its_base_unit_and_ends_with_all() {
        let read = Reading { buckets: vec![(100, 1), (2_500, 2)], count: 3, sum: 5_000_000 };
        let mut page = Page::default();
        page.histogram("t_seconds", &[("verb", "claim")], 1e6, &read);
        let want = "t_seconds_bucket{verb=\"claim\",le=\"0.0001\"} 1\n\
                    t_seconds_bucket{verb=\"claim\",le=\"0.0025\"} 2\n\
                    t_seconds_bucket{verb=\"claim\",le=\"+Inf\"} 3\n\
                    t_seconds_sum{verb=\"claim\"} 5\n\
                    t_seconds_count{verb=\"claim\"} 3\n";
        assert_eq!(page.into_text(), want);
    }
}
