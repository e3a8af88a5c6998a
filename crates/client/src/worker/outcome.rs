//! What a handler says became of its item.
//!
//! A handler returns what it made, which is anything that can be written as JSON, or a [`Done`]
//! that says more; or an [`Undone`], which any error turns into with `?`.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use windrow_core::Timestamp;
use windrow_core::command::{NewChild, NewItem, Outcome};
use windrow_core::limits::{COMMAND_ITEMS_MAX, ERROR_MAX, TEXT_MAX};
use windrow_core::tally::OnGaps;
use windrow_core::text::kept;
use windrow_core::trail::Class;

/// A settle is not larger than this. The server takes four times as much, of which the wire has its
/// part: base64 alone takes a third more than what it says.
pub(super) const SETTLE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What a handler returns.
pub type Handled<T = ()> = Result<T, Undone>;

/// What the work came to, where a result alone does not say it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Done {
    result: Option<Vec<u8>>,
    output: Option<Vec<u8>>,
    spawn: Vec<NewItem>,
    children: Option<Vec<NewChild>>,
    on_gaps: OnGaps,
    /// What could not be written as JSON, and why.
    unwritten: Option<String>,
}

impl Done {
    /// The stage is done.
    pub fn complete() -> Done {
        Done::default()
    }

    /// The work is in these children, as many as there are; the item goes on when all have ended.
    pub fn split(children: Vec<NewChild>) -> Done {
        Done { children: Some(children), ..Done::default() }
    }

    /// Stays with the item. An item that is split has none.
    #[must_use]
    pub fn result(self, made: &impl Serialize) -> Done {
        match serde_json::to_vec(made) {
            Ok(bytes) => self.result_bytes(bytes),
            Err(error) => self.unwritten("result", &error),
        }
    }

    /// The same, of any bytes. Readers expect JSON.
    #[must_use]
    pub fn result_bytes(mut self, bytes: Vec<u8>) -> Done {
        self.result = Some(bytes);
        self
    }

    /// Goes to the next stage.
    #[must_use]
    pub fn output(self, made: &impl Serialize) -> Done {
        match serde_json::to_vec(made) {
            Ok(bytes) => self.output_bytes(bytes),
            Err(error) => self.unwritten("output", &error),
        }
    }

    /// The same, of any bytes.
    #[must_use]
    pub fn output_bytes(mut self, bytes: Vec<u8>) -> Done {
        self.output = Some(bytes);
        self
    }

    /// Items of their own that are enqueued in the same commit. One that is split spawns none.
    #[must_use]
    pub fn spawn(mut self, items: Vec<NewItem>) -> Done {
        self.spawn = items;
        self
    }

    /// What becomes of a split item some of whose children failed.
    #[must_use]
    pub fn on_gaps(mut self, on_gaps: OnGaps) -> Done {
        self.on_gaps = on_gaps;
        self
    }

    fn unwritten(mut self, what: &str, error: &serde_json::Error) -> Done {
        self.unwritten = Some(format!("its {what} cannot be written as JSON: {error}"));
        self
    }

    fn told(self) -> Told {
        if let Some(message) = self.unwritten {
            return Told::of(Outcome::Fail { class: Class::Other, message });
        }
        let (output, on_gaps) = (self.output, self.on_gaps);
        let Some(mut rest) = self.children else {
            return Told::of(Outcome::Complete { result: self.result, output, spawn: self.spawn });
        };
        let mut fitting = fitting_of(&rest);
        if fitting < rest.len()
            && let Some(ordinal) = twice(&rest)
        {
            // The queue cannot tell: what it knows from an earlier slice it takes for a repeat.
            let message = format!("the ordinal {ordinal} is there twice; each child has its own");
            return Told::of(Outcome::Fail { class: Class::Other, message });
        }
        let mut before = Vec::new();
        while fitting < rest.len() {
            let after = rest.split_off(fitting);
            let children = std::mem::replace(&mut rest, after);
            before.push(Outcome::Split { children, more: true, on_gaps, output: None });
            fitting = fitting_of(&rest);
        }
        Told { before, last: Outcome::Split { children: rest, more: false, on_gaps, output } }
    }
}

/// How many of the first of these children one settle takes.
fn fitting_of(children: &[NewChild]) -> usize {
    let mut bytes = 0;
    let fitting = children.iter().take(COMMAND_ITEMS_MAX).take_while(|child| {
        bytes += child.weight();
        bytes <= SETTLE_BYTES_MAX
    });
    // One that is too large by itself goes alone, and the queue says so.
    fitting.count().max(1)
}

/// An ordinal that two of these children have.
fn twice(children: &[NewChild]) -> Option<u32> {
    let mut seen = HashSet::with_capacity(children.len());
    children.iter().map(|child| child.ordinal).find(|ordinal| !seen.insert(*ordinal))
}

/// The work was not done, and what becomes of the item.
///
/// Any error is one, by `?`: it is tried again, with the error's words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Undone(Outcome);

impl Undone {
    /// It went wrong and may be tried again; failed if no attempt is left.
    pub fn retry(error: impl fmt::Display) -> Undone {
        let message = words(error.to_string(), ERROR_MAX);
        Undone(Outcome::Retry { class: Class::Other, message, delay_ms: None })
    }

    /// It went wrong for good.
    pub fn fail(error: impl fmt::Display) -> Undone {
        let message = words(error.to_string(), ERROR_MAX);
        Undone(Outcome::Fail { class: Class::Other, message })
    }

    /// There is nothing to do in this stage.
    pub fn skip(reason: impl fmt::Display) -> Undone {
        Undone(Outcome::Skip { reason: kept(reason.to_string(), TEXT_MAX) })
    }

    /// It was not tried; somebody else may. Costs no attempt.
    pub fn release() -> Undone {
        Undone(Outcome::Release { delay_ms: 0 })
    }

    /// It is to be tried at that time. Costs no attempt.
    pub fn snooze(until: SystemTime) -> Undone {
        let since = until.duration_since(UNIX_EPOCH).unwrap_or_default();
        Undone(Outcome::Snooze { until: Timestamp(milliseconds(since)) })
    }

    /// What kind of error it was, for a retry or a fail.
    #[must_use]
    pub fn class(mut self, of: Class) -> Undone {
        if let Outcome::Retry { class, .. } | Outcome::Fail { class, .. } = &mut self.0 {
            *class = of;
        }
        self
    }

    /// Not before so long, for a retry or a release.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Undone {
        match &mut self.0 {
            Outcome::Retry { delay_ms, .. } => *delay_ms = Some(milliseconds(delay)),
            Outcome::Release { delay_ms } => *delay_ms = milliseconds(delay),
            _ => {}
        }
        self
    }

    /// The outcome that it is.
    pub fn outcome(&self) -> &Outcome {
        &self.0
    }
}

impl<E: Error> From<E> for Undone {
    fn from(error: E) -> Undone {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            text = format!("{text}: {error}");
            source = error.source();
        }
        Undone::retry(text)
    }
}

/// What a handler may make: anything that serde writes, or a [`Done`].
///
/// Something is the item's result, or the next stage's input if there is one. Nothing (`()`, or
/// whatever is `null` in JSON) is neither.
pub trait Made {
    /// What is told of it.
    #[doc(hidden)]
    fn told(self, is_last_stage: bool) -> Told;
}

impl<T: Serialize> Made for T {
    fn told(self, is_last_stage: bool) -> Told {
        let done = Done::complete();
        let done = if is_last_stage { done.result(&self) } else { done.output(&self) };
        let something = |bytes: &Vec<u8>| bytes != b"null";
        let (result, output) = (done.result.filter(something), done.output.filter(something));
        Done { result, output, ..done }.told()
    }
}

impl Made for Done {
    fn told(self, _: bool) -> Told {
        self.told()
    }
}

/// An outcome on its way to the server: several for a large split.
#[doc(hidden)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    pub(super) before: Vec<Outcome>,
    pub(super) last: Outcome,
}

impl Told {
    pub(super) const fn of(last: Outcome) -> Told {
        Told { before: Vec::new(), last }
    }

    pub(super) fn handled<T: Made>(handled: Handled<T>, is_last_stage: bool) -> Told {
        match handled {
            Ok(made) => made.told(is_last_stage),
            Err(undone) => Told::of(undone.0),
        }
    }

    /// About how many bytes it takes to say.
    pub(super) fn weight(&self) -> usize {
        self.last.weight()
    }
}

/// As much of somebody's words as is kept; never none.
pub(super) fn words(text: String, max: usize) -> String {
    let text = kept(text, max);
    if text.is_empty() { "no message".to_owned() } else { text }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use windrow_core::item::Payload;
    use windrow_core::route::Route;

    use super::*;

    fn complete(result: Option<&[u8]>, output: Option<&[u8]>) -> Told {
        let (result, output) = (result.map(<[u8]>::to_vec), output.map(<[u8]>::to_vec));
        Told::of(Outcome::Complete { result, output, spawn: Vec::new() })
    }

    #[test]
    fn what_was_made_is_the_result_of_the_last_stage_and_the_input_of_the_next() {
        assert_eq!(Told::handled(Ok(7), true), complete(Some(b"7"), None));
        assert_eq!(Told::handled(Ok("x"), false), complete(None, Some(b"\"x\"")));
        assert_eq!(Told::handled(Ok(()), true), complete(None, None));
        let done = Done::complete().output_bytes(b"raw".into()).result(&1);
        assert_eq!(Told::handled(Ok(done), true), complete(Some(b"1"), Some(b"raw")));
    }

    #[test]
    fn what_is_no_json_fails_and_says_so() {
        let odd = std::collections::BTreeMap::from([(vec![1], 2)]);
        let told = Told::handled(Ok(odd), true);
        let Outcome::Fail { message, .. } = &told.last else { panic!("{told:?}") };
        assert!(message.contains("its result cannot be written as JSON"), "{message}");
    }

    #[test]
    fn an_error_is_tried_again_with_the_words_of_all_that_caused_it() {
        #[derive(Debug, thiserror::Error)]
        #[error("no thumb")]
        struct NoThumb(#[source] std::num::ParseIntError);
        let cause = "x".parse::<u8>().expect_err("no number");
        let undone = Undone::from(NoThumb(cause));
        assert_eq!(undone, Undone::retry("no thumb: invalid digit found in string"));
        assert_eq!(Undone::fail(""), Undone::fail("no message"));
    }

    #[test]
    fn class_and_delay_change_only_what_has_them() {
        let later = Undone::retry("x").class(Class::RateLimit).after(Duration::from_secs(2));
        let (message, delay_ms) = ("x".to_owned(), Some(2_000));
        assert_eq!(later.0, Outcome::Retry { class: Class::RateLimit, message, delay_ms });
        let released = Undone::release().class(Class::Gone).after(Duration::from_millis(5));
        assert_eq!(released.0, Outcome::Release { delay_ms: 5 });
        let skipped = Undone::skip("x");
        assert_eq!(skipped.clone().after(Duration::from_secs(1)), skipped);
        let at = UNIX_EPOCH + Duration::from_millis(1_234);
        assert_eq!(Undone::snooze(at).0, Outcome::Snooze { until: Timestamp(1_234) });
    }

    #[test]
    fn a_large_split_goes_in_slices_that_keep_the_lease() {
        let child = |number| NewChild::new(number, "page", Route::single());
        let children: Vec<NewChild> = (0..2_500).map(child).collect();
        let told = Done::split(children).on_gaps(OnGaps::Stop).told();
        let slice = |outcome: &Outcome| match outcome {
            Outcome::Split { children, more, on_gaps: OnGaps::Stop, .. } => {
                (children[0].ordinal, children.len(), *more)
            }
            other => panic!("{other:?}"),
        };
        let slices: Vec<_> = told.before.iter().chain([&told.last]).map(slice).collect();
        assert_eq!(slices, [(0, 1_000, true), (1_000, 1_000, true), (2_000, 500, false)]);
    }

    /// A child with a payload of so many bytes.
    fn heavy(ordinal: u32, bytes: usize) -> NewChild {
        let mut child = NewChild::new(ordinal, "page", Route::single());
        child.payload = Payload::Inline(vec![b'x'; bytes]);
        child
    }

    #[test]
    fn no_slice_of_a_split_is_larger_than_a_settle_may_be() {
        // A page that is refused whatever we do stands among those that fit.
        let bytes = |ordinal| if ordinal == 7 { SETTLE_BYTES_MAX + 1 } else { 16 * 1024 };
        let children: Vec<NewChild> = (0..900).map(|number| heavy(number, bytes(number))).collect();
        let told = Done::split(children.clone()).output(&1).told();
        let mut all = Vec::new();
        for (at, slice) in told.before.iter().chain([&told.last]).enumerate() {
            let Outcome::Split { children, more, output, .. } = slice else { panic!("{slice:?}") };
            let is_last = at == told.before.len();
            assert_eq!((*more, output.is_some()), (!is_last, is_last));
            assert!(!children.is_empty());
            assert!(children.len() == 1 || slice.weight() <= SETTLE_BYTES_MAX);
            all.extend(children.clone());
        }
        assert_eq!(all, children, "each child once, in their order");
        assert_eq!(told.before.len() + 1, 2 + 4, "as few slices as there may be");
    }

    #[test]
    fn a_number_that_two_children_have_is_found_though_they_go_in_two_slices() {
        let mut children: Vec<NewChild> = (0..1_500).map(|number| heavy(number, 1)).collect();
        children[1_400].ordinal = 3;
        let told = Done::split(children).told();
        let Outcome::Fail { message, .. } = &told.last else { panic!("{told:?}") };
        assert!(message.contains("the ordinal 3 is there twice"), "{message}");
        assert!(told.before.is_empty(), "and none of them was created");
    }
}
