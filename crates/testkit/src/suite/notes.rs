//! Notes: what servers keep for themselves, versioned.

use windrow_core::limits::NOTE_MAX;
use windrow_core::note::{Expects, Note, WriteNote};
use windrow_core::{Answer, Command, Refusal};

use super::*;

fn write(shelf: &str, name: &str, expects: Expects, body: Option<&str>) -> Command {
    let body = body.map(|text| text.as_bytes().into());
    Command::Note(WriteNote { shelf: shelf.into(), name: name.into(), expects, body })
}

fn put<S: Store>(bed: &Bed<S>, shelf: &str, name: &str, expects: Expects, body: &str) -> u64 {
    match bed.ask(write(shelf, name, expects, Some(body))) {
        Answer::Noted(version) => version,
        other => panic!("not written: {other:?}"),
    }
}

fn on<S: Store>(bed: &Bed<S>, shelf: &str) -> Vec<(String, String)> {
    let notes = block_on(bed.store.notes(shelf)).expect("notes are read");
    let text = |note: Note| {
        (note.name.to_string(), String::from_utf8(note.body.to_vec()).expect("a text"))
    };
    notes.into_iter().map(text).collect()
}

cases! {
    fn a_note_lies_on_its_shelf_until_it_is_taken_away(bed) {
        put(bed, "tokens", "b", Expects::Nothing, "two");
        put(bed, "tokens", "a", Expects::Anything, "one");
        put(bed, "schedules", "a", Expects::Nothing, "other");
        let pairs = |all: &[(&str, &str)]| -> Vec<(String, String)> {
            all.iter().map(|(name, body)| ((*name).into(), (*body).into())).collect()
        };
        assert_eq!(on(bed, "tokens"), pairs(&[("a", "one"), ("b", "two")]));
        assert!(matches!(bed.ask(write("tokens", "a", Expects::Anything, None)), Answer::Noted(_)));
        assert_eq!(on(bed, "tokens"), pairs(&[("b", "two")]));
        assert_eq!(on(bed, "schedules"), pairs(&[("a", "other")]));
        assert_eq!(on(bed, "nothing"), pairs(&[]));
    }

    fn whoever_read_an_old_version_is_told(bed) {
        let first = put(bed, "s", "n", Expects::Nothing, "1");
        let second = put(bed, "s", "n", Expects::Version(first), "2");
        assert!(second > first);
        let changed = Answer::Refused(Refusal::Changed { version: second });
        assert_eq!(bed.ask(write("s", "n", Expects::Version(first), Some("3"))), changed);
        assert_eq!(bed.ask(write("s", "n", Expects::Nothing, Some("3"))), changed);
        assert_eq!(bed.ask(write("s", "n", Expects::Version(first), None)), changed);
        assert_eq!(on(bed, "s"), [("n".to_owned(), "2".to_owned())]);
        let versions = block_on(bed.store.notes("s")).expect("notes are read");
        assert_eq!(versions.first().map(|note| note.version), Some(second));
    }

    fn one_that_went_and_came_back_is_not_taken_for_the_first(bed) {
        let first = put(bed, "s", "n", Expects::Nothing, "1");
        bed.advance(5);
        bed.ask(write("s", "n", Expects::Version(first), None));
        let gone = Answer::Refused(Refusal::Changed { version: 0 });
        assert_eq!(bed.ask(write("s", "n", Expects::Version(first), Some("2"))), gone);
        assert!(put(bed, "s", "n", Expects::Nothing, "2") > first);
    }

    fn a_write_of_a_note_is_repeated_by_its_request_id(bed) {
        let ask = || bed.ask_as(request(9), write("s", "n", Expects::Nothing, Some("1")));
        let first = ask();
        assert!(matches!(first, Answer::Noted(_)));
        assert_eq!(ask(), first);
    }

    fn notes_are_bounded(bed) {
        let large = "x".repeat(NOTE_MAX + 1);
        let refused = |command| match bed.ask(command) {
            Answer::Refused(refusal) => refusal.code(),
            other => panic!("it was done: {other:?}"),
        };
        assert_eq!(refused(write("s", "n", Expects::Anything, Some(&large))), "invalid");
        assert_eq!(refused(write("", "n", Expects::Anything, None)), "invalid");
        assert_eq!(refused(write("s", "", Expects::Anything, None)), "invalid");
        assert_eq!(refused(write("s", "a\0b", Expects::Anything, None)), "invalid");
        put(bed, "s", "n", Expects::Anything, &large[..NOTE_MAX]);
    }
}
