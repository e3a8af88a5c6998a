//! `windrow import queueber`: drains a server of seed 002 through its own protocol.
//!
//! An item is leased there, enqueued here, and removed there only when it is durable here. Each is
//! enqueued under a request id made of its own id: whatever is interrupted, and however often this
//! runs again, an item arrives once (within a day, for which a server remembers request ids).

use std::io::Write as _;

use anyhow::Context as _;
use futures_util::future::join_all;
use indicatif::{ProgressBar, ProgressStyle};
use sha2::{Digest as _, Sha256};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;
use windrow_wire::queue_capnp::{poll_response, queue, windrow};

use crate::cli::counted;
use crate::rpc::client::connect;

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The server to empty.
    #[arg(value_name = "HOST:PORT")]
    from: String,
    /// The Windrow server that takes the items, where it listens for RPC.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7118")]
    to: String,
    /// The queue that they go to. The default is that of the plain calls, so that the clients of
    /// the old server find them here.
    #[arg(long, value_name = "NAME", default_value = "rpc")]
    queue: String,
    /// How long the server to empty must show nothing before it counts as empty.
    #[arg(long, value_name = "SECONDS", default_value = "5")]
    wait: std::num::NonZero<u64>,
}

const EXAMPLES: &str = "\
Examples:
  windrow import queueber 127.0.0.1:9090
  windrow import queueber old.example:9090 --to 127.0.0.1:7118 --queue jobs

Items that are delayed or leased there cannot be seen. Stop its workers, and run
this again later for what became visible; nothing arrives twice. With Ctrl-C it
finishes the items at hand and stops; a second one stops at once, and what was
at hand is visible there again after five minutes.";

/// How long the items at hand are leased: long enough for a slow disk, short enough to wait for.
const LEASE_SECS: u64 = 300;
/// Items at hand.
const BATCH: u32 = 200;

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = LocalSet::new().block_on(&runtime, import(args))?;
    let out = &mut std::io::stdout().lock();
    writeln!(out, "imported {} into queue {}", counted(done.imported, "item"), args.queue)?;
    if done.came_back > 0 {
        let items = counted(done.came_back, "item");
        writeln!(out, "{items} took too long and will show there again; run this again")?;
    }
    if done.is_interrupted {
        writeln!(out, "stopped before it was empty; run this again to go on")?;
    }
    let Some(why) = done.refused.first() else { return Ok(()) };
    let items = counted(done.refused.len() as u64, "item");
    anyhow::bail!("{items} could not be taken and stayed there; the first: {why}")
}

/// What was done.
#[derive(Default, Debug)]
struct Done {
    imported: u64,
    /// Here, but its lease there was over before it could be removed.
    came_back: u64,
    /// Why items were not taken.
    refused: Vec<String>,
    is_interrupted: bool,
}

async fn import(args: &Args) -> anyhow::Result<Done> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let (told, mut is_told) = tokio::sync::watch::channel(false);
    tokio::task::spawn_local(async move {
        interrupted.recv().await;
        eprintln!("windrow: finishing the items at hand; a second Ctrl-C stops at once");
        told.send_replace(true);
        interrupted.recv().await;
        std::process::exit(130);
    });
    let from: queue::Client = connect(&args.from).await?;
    let to: queue::Client = connect(&args.to).await?;
    let opened = to.open_request().send().promise.await;
    let opened = opened.with_context(|| format!("{} is not a Windrow server", args.to))?;
    let to = opened.get()?.get_queue()?;

    let style = ProgressStyle::with_template("  {spinner} {pos} items imported, {per_sec}");
    let bar = ProgressBar::new_spinner();
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    let mut done = Done::default();
    loop {
        if *is_told.borrow_and_update() {
            done.is_interrupted = true;
            break;
        }
        let mut poll = from.poll_request();
        let mut request = poll.get().init_req();
        request.set_lease_validity_secs(LEASE_SECS);
        request.set_num_items(BATCH);
        request.set_timeout_secs(args.wait.get());
        let polled = poll.send().promise.await;
        let polled = polled.with_context(|| format!("{} did not answer", args.from))?;
        let polled = polled.get()?.get_resp()?;
        if polled.get_items()?.is_empty() {
            break;
        }
        bring(args, &from, &to, polled, &mut done).await?;
        bar.set_position(done.imported);
    }
    bar.finish_and_clear();
    Ok(done)
}

/// Brings the items at hand over: all are enqueued at once, and removed once that is durable.
async fn bring(
    args: &Args,
    from: &queue::Client,
    to: &windrow::Client,
    polled: poll_response::Reader<'_>,
    done: &mut Done,
) -> anyhow::Result<()> {
    let mut enqueues = Vec::new();
    for item in polled.get_items()? {
        enqueues.push(enqueue(to, &args.queue, item.get_id()?, item.get_contents()?)?);
    }
    let mut removes = Vec::new();
    for (item, refused) in polled.get_items()?.iter().zip(join_all(enqueues).await) {
        match refused.with_context(|| format!("{} did not answer", args.to))? {
            Some(why) => done.refused.push(why),
            None => {
                done.imported += 1;
                let mut remove = from.remove_request();
                let mut request = remove.get().init_req();
                request.set_id(item.get_id()?);
                request.set_lease(polled.get_lease()?);
                removes.push(remove.send().promise);
            }
        }
    }
    for removed in join_all(removes).await {
        let removed = removed.with_context(|| format!("{} did not answer", args.from))?;
        if !removed.get()?.get_resp()?.get_removed() {
            done.came_back += 1;
        }
    }
    Ok(())
}

/// Enqueues one item; why it was refused, if it was.
fn enqueue(
    to: &windrow::Client,
    queue: &str,
    id: &[u8],
    contents: &[u8],
) -> anyhow::Result<impl Future<Output = capnp::Result<Option<String>>> + use<>> {
    let mut enqueue = to.enqueue_request();
    let mut request = enqueue.get();
    request.set_request_id(&request_id(id));
    request.set_queue(queue);
    request.init_items(1).get(0).set_payload(contents);
    let shown: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let answer = enqueue.send().promise;
    Ok(async move {
        let answer = answer.await?;
        let answer = answer.get()?;
        let each = answer.get_each()?;
        let refused = match each.iter().next() {
            _ if answer.has_refused() => answer.get_refused()?,
            Some(one) if one.has_refused() => one.get_refused()?,
            Some(_) => return Ok(None),
            None => return Err(capnp::Error::failed("there was no answer".into())),
        };
        let (code, detail) = (refused.get_code()?.to_str()?, refused.get_detail()?.to_str()?);
        Ok(Some(format!("item {shown}: {code}: {detail}")))
    })
}

/// The same for the same item, whenever and in whatever company it comes.
fn request_id(id: &[u8]) -> [u8; 16] {
    let hash: [u8; 32] =
        Sha256::new().chain_update("import queueber ").chain_update(id).finalize().into();
    std::array::from_fn(|at| hash[at])
}
