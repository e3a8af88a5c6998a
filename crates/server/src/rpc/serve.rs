//! Connections are accepted, and each goes to the next of a few threads.

use std::future::Future;
use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::{JoinSet, LocalSet};

use super::Shared;
use super::connection::{self, Deadlines};

/// Connections at once.
const CONNECTIONS_MAX: usize = 10_000;
/// Threads that serve them at most: what they do beside is waited for elsewhere.
const THREADS_MAX: usize = 4;

/// A connection, and its place among those that there may be.
type Accepted = (std::net::TcpStream, OwnedSemaphorePermit);

/// Serves until the server closes, then lets what is under way come to its end, for a while.
pub(crate) async fn serve(
    shared: Shared,
    listener: TcpListener,
    deadlines: Deadlines,
    drain: Duration,
) -> io::Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = (cores / 2).clamp(1, THREADS_MAX);
    let threads = (0..threads).map(|_| Thread::start(shared.clone(), deadlines));
    let threads: Vec<Thread> = threads.collect::<Result<_, _>>()?;
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    for thread in threads.iter().cycle() {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { break };
        let Some(stream) = accept(&listener, shared.app.closes()).await else { break };
        // If its thread is gone, so is the connection.
        let _gone = thread.sender.send((stream, place));
    }
    drop(listener);
    let drained = async {
        for Thread { sender, ended } in threads {
            drop(sender);
            let _ended = ended.await;
        }
    };
    // What is not done by then was not acknowledged.
    let _in_time = tokio::time::timeout(shared.app.left_of(drain), drained).await;
    Ok(())
}

/// The next connection; none when the server closes.
async fn accept(
    listener: &TcpListener,
    closes: impl Future<Output = ()>,
) -> Option<std::net::TcpStream> {
    let accepting = async {
        loop {
            match listener.accept().await.and_then(|(stream, _)| stream.into_std()) {
                Ok(stream) => return stream,
                // Too many open files, most likely: it passes.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    tokio::select! {
        stream = accepting => Some(stream),
        () = closes => None,
    }
}

/// A thread with connections.
struct Thread {
    sender: UnboundedSender<Accepted>,
    /// Told when it has no connection left and will get none.
    ended: oneshot::Receiver<()>,
}

impl Thread {
    fn start(shared: Shared, deadlines: Deadlines) -> io::Result<Thread> {
        let (sender, accepted) = mpsc::unbounded_channel();
        let (tell, ended) = oneshot::channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("rpc".into()).spawn(move || {
            LocalSet::new().block_on(&runtime, async {
                connections(accepted, &shared, deadlines).await;
                // Nobody may hear it.
                let _told = tell.send(());
                // The store may have begun something here that others still need.
                std::future::pending::<()>().await;
            });
        })?;
        Ok(Thread { sender, ended })
    }
}

/// Serves what is accepted until there is no more.
async fn connections(
    mut accepted: UnboundedReceiver<Accepted>,
    shared: &Shared,
    deadlines: Deadlines,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            next = accepted.recv() => {
                let Some((stream, place)) = next else { break };
                // A socket that cannot be watched cannot be served.
                let Ok(stream) = TcpStream::from_std(stream) else { continue };
                let serving = connection::one(shared.clone(), stream, deadlines);
                connections.spawn_local(async move {
                    serving.await;
                    drop(place);
                });
            }
            Some(_ended) = connections.join_next() => {}
        }
    }
    while connections.join_next().await.is_some() {}
}
