//! What is found in texts, and that no text is too much.

use super::*;

const ENGINE: &str = "\
# The Analytical Engine

Charles Babbage designed the Analytical Engine in London. Lady Lovelace wrote notes on the
Analytical Engine, and Babbage praised the notes. The notes were printed by the Royal Society.
Later NASA studied the notes of Lovelace. Engines need steam; steam needs coal, and coal needs
steam.

```
let Secret = Hidden;
```
";

fn found(extracted: &Extracted) -> Vec<(&str, &str)> {
    let mut all: Vec<_> = extracted.entities.iter().map(|one| (&*one.name, &*one.kind)).collect();
    all.sort_unstable();
    all
}

fn weight(extracted: &Extracted, one: &str, other: &str) -> Option<u8> {
    let ends = [(one, other), (other, one)];
    let mut all = extracted.relationships.iter();
    all.find(|r| ends.contains(&(&*r.source, &*r.target))).map(|r| r.weight)
}

#[test]
fn names_acronyms_and_frequent_words_are_found_with_their_neighbours() {
    let read = Cooccurrence::default().read(ENGINE);
    let expected = [
        ("Analytical Engine", "name"),
        ("Charles Babbage", "name"),
        ("Lady Lovelace", "name"),
        ("London", "name"),
        ("NASA", "acronym"),
        ("Royal Society", "name"),
        ("notes", "term"),
        ("steam", "term"),
    ];
    assert_eq!(found(&read), expected);
    assert_eq!(weight(&read, "Charles Babbage", "Analytical Engine"), Some(2));
    assert_eq!(weight(&read, "Lady Lovelace", "NASA"), Some(1));
    assert_eq!(weight(&read, "London", "NASA"), None);
    let engine = read.entities.iter().find(|one| one.name == "Analytical Engine").unwrap();
    assert_eq!(engine.description, "# The Analytical Engine");
    assert!(read.relationships.iter().all(|one| one.description.contains("named together in")));
}

#[test]
fn two_people_of_one_last_name_are_not_taken_for_each_other() {
    let text = "So Ada Byron met George Byron. Then Byron left. Then Byron came.";
    let read = Cooccurrence::default().read(text);
    let expected = [("Ada Byron", "name"), ("Byron", "name"), ("George Byron", "name")];
    assert_eq!(found(&read), expected);
}

#[test]
fn limits_hold() {
    let text: String =
        ('A'..='Z').map(|c| format!("then {c}{c}x Yes{c} Inc came. ", c = c)).collect();
    let limits = Limits { entities_max: 3, relationships_max: 1, ..Limits::default() };
    let read = Cooccurrence::new(limits).read(&text);
    assert_eq!(read.entities.len(), 3);
    assert!(read.relationships.len() <= 1);
    let none = Cooccurrence::new(Limits { score_min: 100, ..Limits::default() }).read(ENGINE);
    assert_eq!(none, Extracted::default());
}

#[test]
fn a_text_about_nothing_has_nothing() {
    for text in ["", " \n\t", "...", "it was so and it is so", "日本語の文章です。", "12 34 56"]
    {
        assert_eq!(Cooccurrence::default().read(text), Extracted::default(), "{text}");
    }
}

/// Each of these would take minutes if anything in here were quadratic.
#[test]
fn no_text_is_too_much() {
    let many = |part: &str| part.repeat((1 << 17) / part.len());
    let distinct = |from: &dyn Fn(u32) -> String| (0..10_000).map(from).collect::<String>();
    let names = |nth: u32| format!("Name{} ", letters(nth));
    for text in [
        many("A"),
        many("Ab "),
        many("Ab. "),
        many("AB "),
        many("|"),
        many("| Ab "),
        format!("{}{}", "Ab ".repeat(20_000), "|".repeat(60_000)),
        many("```\n"),
        many("#\n"),
        many("Ab of "),
        many("."),
        many("a.a-a'"),
        many("é"),
        many("Ada Lovelace met Charles Babbage "),
        many("\u{202e}\u{0}Ab\u{feff} "),
        distinct(&names),
        distinct(&|nth| format!("so Name{} Same. ", letters(nth))),
        distinct(&|nth| format!("Same Name{} ", letters(nth))),
    ] {
        let read = Cooccurrence::default().read(&text);
        assert!(read.entities.len() <= 15 && read.relationships.len() <= 40);
        assert_eq!(read, Cooccurrence::default().read(&text), "it says the same again");
    }
}

/// A number as a word.
fn letters(mut number: u32) -> String {
    let mut text = String::new();
    loop {
        text.push(char::from(b'a' + (number % 26) as u8));
        number /= 26;
        if number == 0 {
            return text;
        }
    }
}
