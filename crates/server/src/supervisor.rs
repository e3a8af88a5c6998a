//! The service manager that started this server, if one did: it is told when the server is ready,
//! when it stops, and that it lives.
//!
//! This is systemd's protocol (`Type=notify`): words sent to the socket that `NOTIFY_SOCKET` names.
//! Without that variable nothing is said. A manager that cannot be reached does not stop a server
//! that works, so nothing here fails.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Where to say it.
#[derive(Debug)]
pub(crate) struct Supervisor {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// How often it wants to hear that we live.
    watchdog: Option<Duration>,
}

impl Supervisor {
    pub(crate) fn from_environment() -> Supervisor {
        let watched = std::env::var("WATCHDOG_USEC").ok().and_then(|usec| usec.parse().ok());
        // For another process of the same unit, perhaps.
        let is_ours =
            std::env::var("WATCHDOG_PID").map_or(true, |pid| pid.parse() == Ok(std::process::id()));
        Supervisor {
            socket: std::env::var_os("NOTIFY_SOCKET")
                .and_then(|name| Some((UnixDatagram::unbound().ok()?, address(name.as_bytes())?))),
            watchdog: watched.filter(|_| is_ours).map(Duration::from_micros),
        }
    }

    pub(crate) fn ready(&self, status: &str) {
        self.say(&format!("READY=1\nSTATUS={status}"));
    }

    pub(crate) fn stopping(&self) {
        self.say("STOPPING=1");
    }

    /// Says at the pace that was asked for that the server lives, for as long as it is polled:
    /// whoever polls it must be what has to live.
    pub(crate) async fn alive(&self) {
        let Some(every) = self.watchdog.filter(|_| self.socket.is_some()) else {
            return std::future::pending().await;
        };
        let mut beat = tokio::time::interval(every / 2);
        loop {
            beat.tick().await;
            self.say("WATCHDOG=1");
        }
    }

    fn say(&self, words: &str) {
        if let Some((socket, to)) = &self.socket {
            let _unheard = socket.send_to_addr(words.as_bytes(), to);
        }
    }
}

/// A path, or with `@` in front a name that is not in the file system.
fn address(name: &[u8]) -> Option<SocketAddr> {
    match name {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
        [b'/', ..] => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name)).ok(),
        _ => None,
    }
}
