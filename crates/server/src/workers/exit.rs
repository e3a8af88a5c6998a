//! What the end of a command means for its item.
//!
//! The codes are those of sysexits where it has one that fits: 0 completes, 65 and 66 fail for
//! good, 69 and 75 are tried again, 99 skips. Everything else went wrong in a way that may pass.

use windrow_core::command::Outcome;
use windrow_core::limits::{ERROR_MAX, RESULT_MAX};
use windrow_core::queue::Work;
use windrow_core::trail::Class;
use windrow_wire::bytes::Json;

use super::command::{Ended, Lost, Ran};

const BAD_DATA: i32 = 65;
const GONE: i32 = 66;
const UNAVAILABLE: i32 = 69;
const SKIPPED: i32 = 99;

/// How long somebody else may leave an item alone whose command could not be started here.
const NOT_STARTED_MS: u64 = 30_000;

/// What becomes of an item, unless it is not ours any more.
pub(super) fn outcome(work: &Work, ran: Ran) -> Result<Outcome, Lost> {
    let Ran { ended, said, words } = ran;
    let code = match ended {
        Ended::Lost(lost) => return Err(lost),
        // Nothing is wrong with the item: whoever can do it may have it.
        Ended::NotStarted => return Ok(Outcome::Release { delay_ms: NOT_STARTED_MS }),
        Ended::Stopped => return Ok(Outcome::Release { delay_ms: 0 }),
        Ended::Late(within) => {
            let message = explained(&format!("it took longer than {within:?}"), &words);
            return Ok(Outcome::Retry { class: Class::Resource, message, delay_ms: None });
        }
        Ended::Signal(number) => {
            let message = explained(&format!("the command was ended by signal {number}"), &words);
            return Ok(Outcome::Retry { class: Class::Other, message, delay_ms: None });
        }
        Ended::Code(code) => code,
    };
    let message = explained(&format!("the command ended with {code}"), &words);
    Ok(match code {
        0 => match said.and_then(|said| complete(work, said)) {
            Some(complete) => complete,
            None => {
                let message = format!("the command wrote more than {RESULT_MAX} bytes");
                Outcome::Fail { class: Class::BadData, message }
            }
        },
        BAD_DATA => Outcome::Fail { class: Class::BadData, message },
        GONE => Outcome::Fail { class: Class::Gone, message },
        UNAVAILABLE => Outcome::Retry { class: Class::Infrastructure, message, delay_ms: None },
        SKIPPED => Outcome::Skip { reason: if words.is_empty() { message } else { words } },
        // Also 75, which asks for it.
        _ => Outcome::Retry { class: Class::Other, message, delay_ms: None },
    })
}

/// What it wrote is the next stage's input, or the item's result after the last one. None if that
/// is more than is kept.
fn complete(work: &Work, said: Vec<u8>) -> Option<Outcome> {
    let said = Some(said).filter(|said| !said.is_empty());
    let is_last = work.body.route.stages.last().is_none_or(|last| last.name == work.stage);
    let (result, output) = if is_last { (said.map(shown), None) } else { (None, said) };
    let fits = result.as_ref().is_none_or(|result: &Vec<u8>| result.len() <= RESULT_MAX);
    fits.then_some(Outcome::Complete { result, output, spawn: Vec::new() })
}

/// A result is JSON, so that it can be read wherever items are shown. A text that is none becomes
/// one; other bytes stay as they are.
fn shown(said: Vec<u8>) -> Vec<u8> {
    let json = std::str::from_utf8(&said).ok().and_then(|text| Json::of(text.trim()));
    json.map_or(said, Json::into_bytes)
}

/// What happened, with what the command said of it last.
fn explained(what: &str, words: &str) -> String {
    let mut text = match words {
        "" => what.to_owned(),
        words => format!("{what}: {words}"),
    };
    let mut end = text.len().min(ERROR_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windrow_core::ItemId;
    use windrow_core::item::Body;
    use windrow_core::route::Route;

    use super::*;

    fn work(stages: &[&str], at: &str) -> Work {
        let mut body = Body::new("t", "q");
        body.route = Route::of(stages);
        Work {
            id: ItemId(1),
            body,
            stage: at.into(),
            attempt: 1,
            priority: 5,
            parent: None,
            input: None,
        }
    }

    fn check(ended: Ended, said: &[u8], words: &str) -> Result<Outcome, Lost> {
        let ran = Ran { ended, said: Some(said.to_vec()), words: words.into() };
        outcome(&work(&["one"], "one"), ran)
    }

    #[test]
    fn a_code_says_what_becomes_of_the_item() {
        let done = |result: &[u8]| {
            Ok(Outcome::Complete { result: Some(result.into()), output: None, spawn: vec![] })
        };
        assert_eq!(check(Ended::Code(0), b"a \"b\"\n", "words"), done(br#""a \"b\"""#));
        assert_eq!(check(Ended::Code(0), b"{\"a\": 1}\n", ""), done(b"{\"a\": 1}"));
        assert_eq!(check(Ended::Code(0), &[255, 0], ""), done(&[255, 0]));
        assert_eq!(check(Ended::Code(0), b"", ""), Ok(Outcome::complete()));
        let fail = |class, message: &str| Ok(Outcome::Fail { class, message: message.into() });
        let bad = fail(Class::BadData, "the command ended with 65: no header");
        assert_eq!(check(Ended::Code(65), b"", "no header"), bad);
        assert_eq!(check(Ended::Code(66), b"", ""), fail(Class::Gone, "the command ended with 66"));
        let class = |ended| match check(ended, b"", "") {
            Ok(Outcome::Retry { class, delay_ms: None, .. }) => class,
            other => panic!("{other:?}"),
        };
        assert_eq!(class(Ended::Code(69)), Class::Infrastructure);
        assert_eq!(class(Ended::Code(75)), Class::Other);
        assert_eq!(class(Ended::Code(1)), Class::Other);
        assert_eq!(class(Ended::Signal(9)), Class::Other);
        assert_eq!(class(Ended::Late(Duration::from_secs(5))), Class::Resource);
        let skipped = Outcome::Skip { reason: "empty".into() };
        assert_eq!(check(Ended::Code(99), b"", "empty"), Ok(skipped));
    }

    #[test]
    fn what_was_not_done_costs_no_attempt_and_what_was_lost_nothing() {
        assert_eq!(check(Ended::Lost(Lost("x")), b"", ""), Err(Lost("x")));
        assert_eq!(check(Ended::Stopped, b"", ""), Ok(Outcome::Release { delay_ms: 0 }));
        let later = Outcome::Release { delay_ms: NOT_STARTED_MS };
        assert_eq!(check(Ended::NotStarted, b"", ""), Ok(later));
    }

    #[test]
    fn what_a_stage_writes_goes_to_the_next_one() {
        let ran = || Ran { ended: Ended::Code(0), said: Some(b"x".into()), words: String::new() };
        let Ok(Outcome::Complete { result, output, .. }) =
            outcome(&work(&["one", "two"], "one"), ran())
        else {
            panic!("it completes")
        };
        assert_eq!((result, output), (None, Some(b"x".to_vec())));
        let Ok(Outcome::Complete { result, output, .. }) =
            outcome(&work(&["one", "two"], "two"), ran())
        else {
            panic!("it completes")
        };
        assert_eq!((result, output), (Some(b"\"x\"".to_vec()), None));
    }

    #[test]
    fn too_much_output_fails_instead_of_being_cut() {
        let ran = Ran { ended: Ended::Code(0), said: None, words: String::new() };
        let failed = outcome(&work(&["one"], "one"), ran);
        assert!(matches!(failed, Ok(Outcome::Fail { class: Class::BadData, .. })));
        // Written as JSON it is longer than it was.
        let lines = "\n\"".repeat(RESULT_MAX / 2 - 1);
        let failed = check(Ended::Code(0), format!("x{lines}").as_bytes(), "");
        assert!(matches!(failed, Ok(Outcome::Fail { class: Class::BadData, .. })));
    }

    #[test]
    fn an_error_is_cut_to_what_is_kept_of_one() {
        let text = explained("x", &"ä".repeat(ERROR_MAX));
        assert!(text.len() <= ERROR_MAX && text.len() > ERROR_MAX - 4);
    }
}
