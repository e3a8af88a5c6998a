//! A word that is said once, and heard by whoever waits for it or looks.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(super) struct Token {
    is_said: AtomicBool,
    heard: Notify,
}

impl Token {
    pub(super) fn say(&self) {
        self.is_said.store(true, Ordering::Release);
        self.heard.notify_waiters();
    }

    pub(super) fn is_said(&self) -> bool {
        self.is_said.load(Ordering::Acquire)
    }

    pub(super) async fn said(&self) {
        let mut heard = pin!(self.heard.notified());
        // From here on it cannot be missed.
        heard.as_mut().enable();
        if !self.is_said() {
            heard.await;
        }
    }
}
