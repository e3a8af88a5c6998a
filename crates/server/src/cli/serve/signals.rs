//! Whoever tells the process to stop.
//!
//! Some say so twice at once: GNU `timeout` signals its command, and then the process group that
//! the command is in. That is one wish, and not the second one which stops at once.

use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// So long after a signal the same one is its echo.
const ECHO: Duration = Duration::from_millis(300);

pub(in crate::cli) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    heard: Heard,
}

impl Signals {
    pub(in crate::cli) fn new() -> std::io::Result<Signals> {
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        let (interrupt, terminate) = (signal(interrupt)?, signal(terminate)?);
        Ok(Signals { interrupt, terminate, heard: Heard::default() })
    }

    pub(in crate::cli) async fn next(&mut self) {
        loop {
            let kind = tokio::select! {
                _ = self.interrupt.recv() => SignalKind::interrupt(),
                _ = self.terminate.recv() => SignalKind::terminate(),
            };
            if self.heard.is_new(kind, Instant::now()) {
                return;
            }
        }
    }
}

/// The last signal that was no echo.
#[derive(Default)]
struct Heard(Option<(SignalKind, Instant)>);

impl Heard {
    fn is_new(&mut self, kind: SignalKind, now: Instant) -> bool {
        let is_echo = |(last, at): (SignalKind, Instant)| last == kind && now < at + ECHO;
        let is_new = !self.0.is_some_and(is_echo);
        if is_new {
            self.0 = Some((kind, now));
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_signal_twice_at_once_is_one() {
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        let (mut heard, begin) = (Heard::default(), Instant::now());
        let mut is_new = |kind, ms| heard.is_new(kind, begin + Duration::from_millis(ms));
        assert!(is_new(terminate, 0));
        assert!(!is_new(terminate, 1), "its echo");
        assert!(!is_new(terminate, 299), "another");
        assert!(is_new(terminate, 300), "somebody is impatient; an echo has none of its own");
        assert!(is_new(interrupt, 301), "another signal is none");
        assert!(is_new(terminate, 302));
    }
}
