use super::super::look::{Item, Part, Queue, Stage, Worker, Wrong};
use super::*;
use windrow_wire::time::Time;

/// A look at two queues, a worker and two failures.
pub(in super::super) fn look() -> Look {
    let at = |s: u64| Time(Timestamp(1_000_000 + s * 1_000));
    let queue = |name: &str, pending, failed| Queue {
        queue: name.to_owned(),
        pending,
        processing: 1,
        completed: 10,
        failed,
        waiting_since: Some(at(30)),
        ..Queue::default()
    };
    let item = |id: &str, why: &str| Item {
        id: format!("01a1e554-9c99-7000-8000-{id:0>12}"),
        status: "failed".to_owned(),
        queue: "thumbs".to_owned(),
        stage: "work".to_owned(),
        attempts: 3,
        updated_at: at(50),
        finished_at: Some(at(50)),
        not_before: None,
        key: None,
        error: Some(Wrong { message: why.to_owned() }),
        reason: None,
    };
    Look {
        source: "asking http://127.0.0.1:7117".to_owned(),
        at: at(60),
        is_alone: false,
        health: None,
        queues: vec![queue("mail", 5, 0), queue("thumbs", 7, 2)],
        stages: vec![
            Stage { queue: "mail".into(), stage: "work".into(), due: 5, ..Stage::default() },
            Stage { queue: "thumbs".into(), stage: "ocr".into(), delayed: 7, ..Stage::default() },
        ],
        partial: false,
        workers: vec![Worker {
            name: "w1".to_owned(),
            last_seen: Some(at(58)),
            waiting: 1,
            leases: 2,
            asked: true,
            queues: vec!["mail".to_owned()],
            stages: vec![],
            kinds: vec![],
            drained: false,
        }],
        items: vec![item("1", "no space"), item("2", "no light")],
        more: false,
    }
}

pub(in super::super) fn state() -> State {
    State::new(look(), String::new(), Timestamp(2_000_000), false)
}

fn press(state: &mut State, keys: &[Key]) -> Next {
    keys.iter().fold(Next::Stay, |_, key| state.on(Event::Key(*key)))
}

fn typed(state: &mut State, text: &str) {
    text.chars().for_each(|letter| {
        state.on(Event::Key(Key::Letter(letter)));
    });
}

#[test]
fn q_escape_and_ctrl_c_leave_and_ctrl_c_leaves_from_everywhere() {
    for key in [Key::Letter('q'), Key::Escape, Key::Interrupt] {
        assert_eq!(press(&mut state(), &[key]), Next::Leave);
    }
    for before in [Key::Letter('?'), Key::Letter('/'), Key::Letter('p')] {
        let mut state = state();
        assert_eq!(press(&mut state, &[before, Key::Escape]), Next::Stay, "{before:?}");
        assert_eq!(state.front, Front::None);
        assert_eq!(press(&mut state, &[before, Key::Interrupt]), Next::Leave, "{before:?}");
    }
}

#[test]
fn arrows_and_letters_choose_and_tab_goes_round() {
    let mut state = state();
    press(&mut state, &[Key::Letter('j'), Key::Down, Key::Down]);
    assert_eq!(state.chosen(Pane::Queues), Some(1), "it stays on the last one");
    press(&mut state, &[Key::Letter('k'), Key::Up]);
    assert_eq!(state.chosen(Pane::Queues), Some(0));
    press(&mut state, &[Key::End]);
    assert_eq!(state.chosen(Pane::Queues), Some(1));
    press(&mut state, &[Key::Tab, Key::Tab, Key::Tab]);
    assert_eq!(state.pane, Pane::Items);
    press(&mut state, &[Key::Tab, Key::BackTab]);
    assert_eq!(state.pane, Pane::Items);
}

#[test]
fn a_pause_is_done_only_after_a_yes_and_what_is_paused_is_resumed() {
    let mut state = state();
    press(&mut state, &[Key::Down]);
    assert_eq!(press(&mut state, &[Key::Letter('p')]), Next::Stay);
    assert_eq!(press(&mut state, &[Key::Enter]), Next::Stay, "no is what is meant by default");
    assert_eq!(state.did, Some(("nothing was changed".to_owned(), true)));
    let paused = Wish::Pause { queue: "thumbs".to_owned(), stage: None };
    let keys = [Key::Letter('p'), Key::Letter('y')];
    assert_eq!(press(&mut state, &keys), Next::Ask(paused));
    let mut after = look();
    after.queues[1].paused = vec![Part::default()];
    state.on(Event::Looked(Box::new(after)));
    let resumed = Wish::Resume { queue: "thumbs".to_owned(), stage: None };
    assert_eq!(press(&mut state, &keys), Next::Ask(resumed));
    press(&mut state, &[Key::Tab, Key::Down]);
    let stage = Wish::Pause { queue: "thumbs".to_owned(), stage: Some("ocr".to_owned()) };
    assert_eq!(press(&mut state, &keys), Next::Ask(stage));
    press(&mut state, &[Key::Tab]);
    assert_eq!(press(&mut state, &keys), Next::Stay, "a worker is not paused");
}

#[test]
fn only_an_item_is_retried_and_only_after_a_yes() {
    let mut state = state();
    assert_eq!(press(&mut state, &[Key::Letter('r'), Key::Letter('y')]), Next::Stay);
    press(&mut state, &[Key::BackTab, Key::Down]);
    let id = state.look.items[1].id.clone();
    assert_eq!(press(&mut state, &[Key::Letter('r'), Key::Letter('n')]), Next::Stay);
    let keys = [Key::Letter('r'), Key::Letter('Y')];
    assert_eq!(press(&mut state, &keys), Next::Ask(Wish::Retry(id)));
}

#[test]
fn enter_opens_what_is_chosen() {
    let mut state = state();
    assert_eq!(press(&mut state, &[Key::Enter]), Next::Ask(Wish::Queue("mail".to_owned())));
    press(&mut state, &[Key::Tab, Key::Tab, Key::Enter]);
    assert!(matches!(&state.front, Front::Text { title, .. } if title == "w1"));
    press(&mut state, &[Key::Escape, Key::Tab]);
    let id = state.look.items[0].id.clone();
    assert_eq!(press(&mut state, &[Key::Enter]), Next::Ask(Wish::Item(id)));
    press(&mut state, &[Key::BackTab, Key::BackTab, Key::Down]);
    let filter = "status:pending,processing queue:\"thumbs\" stage:\"ocr\"".to_owned();
    assert_eq!(press(&mut state, &[Key::Enter]), Next::Ask(Wish::Filter(filter)));
    assert_eq!(state.pane, Pane::Items);
}

#[test]
fn a_filter_is_typed_and_one_that_is_none_is_not_taken() {
    let mut state = state();
    typed(&mut state, "/quuee:x");
    assert_eq!(press(&mut state, &[Key::Enter]), Next::Stay);
    let Front::Typing { wrong: Some(wrong), .. } = &state.front else { panic!("{state:?}") };
    assert!(wrong.contains("queue: is meant"), "{wrong}");
    for _ in 0.."quuee:x".len() {
        press(&mut state, &[Key::Erase]);
    }
    typed(&mut state, "status:pendng");
    assert_eq!(press(&mut state, &[Key::Enter]), Next::Stay);
    let Front::Typing { wrong: Some(wrong), .. } = &state.front else { panic!("{state:?}") };
    assert!(wrong.contains("it is no status"), "{wrong}");
    press(&mut state, &[Key::EraseAll]);
    // Letters that mean something elsewhere are letters here.
    typed(&mut state, "queue:pqr");
    let filter = Wish::Filter("queue:pqr".to_owned());
    assert_eq!(press(&mut state, &[Key::Enter]), Next::Ask(filter));
    assert_eq!(state.filter, "queue:pqr");
    press(&mut state, &[Key::Letter('/'), Key::Letter('x'), Key::Escape]);
    assert_eq!(state.filter, "queue:pqr", "what was typed and left is not taken");
}

#[test]
fn what_is_chosen_stays_so_when_others_come_and_go() {
    let mut state = state();
    press(&mut state, &[Key::Down, Key::BackTab, Key::Down]);
    let mut after = look();
    let (first, second) = (after.items[0].clone(), after.items[1].clone());
    let third = Item { id: "third".to_owned(), ..first.clone() };
    after.items = vec![third, second.clone(), first];
    after.queues.remove(0);
    state.on(Event::Looked(Box::new(after)));
    let at = state.chosen(Pane::Items).expect("a row");
    assert_eq!(state.look.items[at].id, second.id);
    assert_eq!(state.chosen(Pane::Queues), Some(0));
    let none = Look { queues: vec![], items: vec![], ..look() };
    state.on(Event::Looked(Box::new(none)));
    assert_eq!((state.chosen(Pane::Queues), state.chosen(Pane::Items)), (None, None));
    assert_eq!(press(&mut state, &[Key::Down, Key::Enter]), Next::Stay, "there is nothing");
}

#[test]
fn rates_are_of_what_ended_since_the_look_before() {
    let mut state = state();
    let mut after = look();
    after.at = Time(Timestamp(look().at.0.0 + 2_000));
    (after.queues[0].completed, after.queues[0].skipped) = (20, 1);
    after.queues[1].failed = 3;
    // Swept meanwhile: that is not work undone.
    after.queues[1].completed = 0;
    state.on(Event::Looked(Box::new(after)));
    assert_eq!(state.rates, Some(Rates { well: 5.5, failed: 0.5 }));
}

#[test]
fn a_server_that_is_away_is_said_until_it_answers() {
    let mut state = state();
    state.on(Event::Away("it cannot be reached".to_owned()));
    assert_eq!(state.away.as_deref(), Some("it cannot be reached"));
    assert_eq!(state.look, look(), "what was seen last stays");
    state.on(Event::Looked(Box::new(look())));
    assert_eq!(state.away, None);
}
