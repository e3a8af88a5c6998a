//! Introduce: how a queue behaves of which nobody has said so.

use windrow_core::settings::Settings;
use windrow_core::{Answer, Command};

use super::*;

fn introduce(queue: &str, live_max: u64) -> Command {
    let settings = Settings { live_max: Some(live_max), ..Settings::default() };
    Command::Introduce { queue: queue.into(), settings: Box::new(settings) }
}

fn configure(queue: &str, settings: Settings) -> Command {
    Command::Configure { queue: queue.into(), settings: Box::new(settings) }
}

fn said<S: Store>(bed: &Bed<S>, queue: &str) -> Option<Option<u64>> {
    let all = block_on(bed.store.configured()).expect("it can be read").settings;
    all.into_iter().find(|(name, _)| **name == *queue).map(|(_, settings)| settings.live_max)
}

cases! {
    fn a_queue_that_nobody_configured_behaves_as_it_is_introduced(bed) {
        assert_eq!(bed.ask(introduce(QUEUE, 1)), Answer::Done);
        assert_eq!(said(bed, QUEUE), Some(Some(1)));
        bed.add(item());
        assert_eq!(refused(bed.try_enqueue(item())), "queue_full");
        // Who comes second changes nothing.
        assert_eq!(bed.ask(introduce(QUEUE, 2)), Answer::Done);
        assert_eq!(said(bed, QUEUE), Some(Some(1)));
        bed.configure(|settings| settings.live_max = Some(3));
        assert_eq!(said(bed, QUEUE), Some(Some(3)));
    }

    /// What an operator said at the same moment was overwritten once.
    fn what_somebody_has_said_stands(bed) {
        bed.configure(|settings| settings.live_max = Some(9));
        assert_eq!(bed.ask(introduce(QUEUE, 1)), Answer::Done);
        assert_eq!(said(bed, QUEUE), Some(Some(9)));
        // Also if it is what queues do by themselves, and if both come together.
        bed.ask(configure("plain", Settings::default()));
        bed.ask(introduce("plain", 1));
        assert_eq!(said(bed, "plain"), Some(None));
        let both = vec![configure("both", Settings::default()).into(), introduce("both", 1).into()];
        assert_eq!(bed.ask_all(both), [Answer::Done, Answer::Done]);
        assert_eq!(said(bed, "both"), Some(None));
    }

    fn what_can_be_no_queue_is_not_introduced(bed) {
        for name in ["", "a\0b"] {
            let answer = bed.ask(introduce(name, 1));
            assert!(matches!(answer, Answer::Refused(_)), "{name:?}: {answer:?}");
        }
    }
}
