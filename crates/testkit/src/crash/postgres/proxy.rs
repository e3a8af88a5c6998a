//! The network between servers and PostgreSQL. It can be cut where it hurts most: around a COMMIT.

use std::collections::VecDeque;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinSet};

use super::wire::{Commits, Messages, is_committed};

/// Where around a COMMIT the connection is cut. In none of them does the client hear of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// The client has sent it, and it never arrives: certainly not committed.
    Unsent,
    /// It was passed on and everything closed at once: nobody knows.
    Sent,
    /// PostgreSQL has answered: certainly committed.
    Answered,
}

impl Cut {
    pub const ALL: [Cut; 3] = [Cut::Unsent, Cut::Sent, Cut::Answered];
}

/// A port that leads to PostgreSQL.
#[derive(Clone, Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Where PostgreSQL listens.
    target: AtomicU16,
    armed: Mutex<VecDeque<Cut>>,
    /// How long nobody gets through after a cut, and until when that is.
    away: Mutex<Away>,
    /// Cuts that were made.
    made: Mutex<Vec<Cut>>,
    connections: Mutex<Vec<AbortHandle>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Away {
    lasts: Duration,
    until: Option<Instant>,
}

impl Proxy {
    /// Listens for as long as the runtime lives.
    pub fn start(runtime: &Handle, target: u16) -> io::Result<Proxy> {
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            target: AtomicU16::new(target),
            armed: Mutex::default(),
            away: Mutex::default(),
            made: Mutex::default(),
            connections: Mutex::default(),
        });
        runtime.spawn(listen(listener, Arc::clone(&shared)));
        Ok(Proxy { port, shared })
    }

    /// Where clients find a database.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }

    /// From now on leads elsewhere; what was connected is cut off.
    pub fn aim(&self, target: u16) {
        self.shared.target.store(target, Ordering::Relaxed);
        self.cut_all();
    }

    pub fn cut_all(&self) {
        let connections = std::mem::take(&mut *self.shared.connections.lock());
        connections.iter().for_each(AbortHandle::abort);
    }

    /// The next commits are cut like this, one each, and after each nobody gets through for a
    /// while: whoever wants to ask what became of it cannot.
    pub fn arm(&self, cuts: impl IntoIterator<Item = Cut>, away: Duration) {
        *self.shared.away.lock() = Away { lasts: away, until: None };
        self.shared.armed.lock().extend(cuts);
    }

    /// No commit is cut any more.
    pub fn disarm(&self) {
        self.shared.armed.lock().clear();
        *self.shared.away.lock() = Away::default();
    }

    pub fn is_armed(&self) -> bool {
        !self.shared.armed.lock().is_empty()
    }

    /// How often it was cut like this.
    pub fn made(&self, cut: Cut) -> usize {
        self.shared.made.lock().iter().filter(|made| **made == cut).count()
    }
}

async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let task = tokio::spawn(connect(client, Arc::clone(&shared)));
        let mut connections = shared.connections.lock();
        connections.retain(|connection| !connection.is_finished());
        connections.push(task.abort_handle());
    }
}

/// One connection. It ends, with both sides, when either side ends or is cut.
async fn connect(client: TcpStream, shared: Arc<Shared>) {
    let target = shared.target.load(Ordering::Relaxed);
    if shared.away.lock().until.is_some_and(|until| Instant::now() < until) {
        return;
    }
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await else { return };
    for side in [&client, &server] {
        // Slower without it, not wrong.
        let _slower = side.set_nodelay(true);
    }
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    let withheld = Arc::new(AtomicBool::new(false));
    let mut both = JoinSet::new();
    both.spawn(pass_on(from_server, to_client, Arc::clone(&shared), Arc::clone(&withheld)));
    both.spawn(pass_to_server(from_client, to_server, shared, withheld));
    let _either = both.join_next().await;
}

async fn pass_to_server(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: Arc<Shared>,
    withheld: Arc<AtomicBool>,
) -> io::Result<()> {
    let (mut messages, mut commits) = (Messages::of_client(), Commits::default());
    let mut bytes = vec![0; 1 << 16];
    loop {
        let read = from.read(&mut bytes).await?;
        if read == 0 {
            return Ok(());
        }
        messages.push(&bytes[..read]);
        while let Some(message) = messages.next_whole() {
            let cut = match commits.is_commit(&message) {
                true => shared.armed.lock().pop_front(),
                false => None,
            };
            match cut {
                Some(Cut::Unsent) => return shared.note(Cut::Unsent),
                Some(Cut::Answered) => withheld.store(true, Ordering::Relaxed),
                Some(Cut::Sent) | None => {}
            }
            to.write_all(&message).await?;
            if cut == Some(Cut::Sent) {
                return shared.note(Cut::Sent);
            }
        }
    }
}

async fn pass_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: Arc<Shared>,
    withheld: Arc<AtomicBool>,
) -> io::Result<()> {
    let mut messages = Messages::of_server();
    let mut bytes = vec![0; 1 << 16];
    loop {
        let read = from.read(&mut bytes).await?;
        if read == 0 {
            return Ok(());
        }
        messages.push(&bytes[..read]);
        while let Some(message) = messages.next_whole() {
            if withheld.load(Ordering::Relaxed) && is_committed(&message) {
                return shared.note(Cut::Answered);
            }
            to.write_all(&message).await?;
        }
    }
}

impl Shared {
    fn note(&self, cut: Cut) -> io::Result<()> {
        self.made.lock().push(cut);
        let mut away = self.away.lock();
        away.until = (!away.lasts.is_zero()).then(|| Instant::now() + away.lasts);
        Ok(())
    }
}
