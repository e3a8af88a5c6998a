//! Counts the words of text files: one item per file, and a worker that does them.
#![allow(clippy::print_stdout, reason = "a program for people")]

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use windrow_client::http::Client;
use windrow_client::worker::{Handled, Job, Undone, Worker};
use windrow_client::{Options, Token};
use windrow_core::ItemId;
use windrow_core::command::NewItem;
use windrow_core::item::{Body, Payload};
use windrow_core::queue::Queue;
use windrow_core::trail::Class;

const QUEUE: &str = "count-words";

const HELP: &str = "\
count-words add FILE...     puts the files into the queue, and says their ids
count-words work            counts until it is stopped, with Ctrl-C
count-words work --drain    counts until there is nothing left
count-words show ID...      what was counted
";

/// What an item is about.
#[derive(Serialize, Deserialize)]
struct File {
    path: PathBuf,
}

/// What becomes of it.
#[derive(Serialize, Deserialize)]
struct Counted {
    words: usize,
    most: Option<(String, usize)>,
}

/// Counts one file. What it returns stays with the item.
fn count(job: Job<File>) -> Handled<Counted> {
    let path = job.payload.path.display();
    let bytes = match std::fs::read(&job.payload.path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Undone::fail(format!("{path} does not exist")).class(Class::Gone));
        }
        // Any other error is tried again.
        read => read?,
    };
    let text = String::from_utf8(bytes)
        .map_err(|why| Undone::fail(format!("{path} is not text: {why}")).class(Class::BadData))?;
    let lines = text.lines().count() as u64;
    let (mut words, mut times) = (0, HashMap::<String, usize>::new());
    for (number, line) in text.lines().enumerate() {
        for word in line.split_whitespace() {
            words += 1;
            *times.entry(word.to_lowercase()).or_default() += 1;
        }
        if number % 10_000 == 0 {
            job.check()?;
            job.progress(number as u64, lines, "lines");
        }
    }
    let most = times.into_iter().max_by_key(|(word, times)| (*times, word.clone()));
    Ok(Counted { words, most })
}

async fn work(client: Client, drains: bool) -> anyhow::Result<()> {
    let worker = Worker::on(client)
        .queues([QUEUE])
        .concurrency(4)
        .told(|event| eprintln!("{event}"))
        .handle_blocking(count);
    let endings = if drains { worker.drain().await? } else { worker.run().await? };
    println!("settled: {endings}");
    Ok(())
}

/// The path is the key: a file that waits already is not added twice.
async fn add(client: Client, paths: &[String]) -> anyhow::Result<()> {
    let mut items = Vec::new();
    for path in paths {
        let path = std::path::absolute(path)?;
        let mut body = Body::new("default", QUEUE);
        body.key = Some(path.display().to_string());
        body.payload = Payload::Inline(serde_json::to_vec(&File { path })?);
        items.push(NewItem::new(body));
    }
    for (answer, path) in client.enqueue(items, None).await?.into_iter().zip(paths) {
        let enqueued = answer.with_context(|| format!("{path} was refused"))?;
        println!("{:<12} {}  {path}", format!("{:?}", enqueued.outcome), enqueued.id);
    }
    Ok(())
}

async fn show(client: Client, ids: &[String]) -> anyhow::Result<()> {
    for id in ids {
        let id: ItemId = id.parse()?;
        let item = client.inspect(id).await?.with_context(|| format!("no item {id}"))?;
        let name = item.body.key.as_deref().unwrap_or("?");
        let error = item.stages.iter().find_map(|stage| stage.error.as_ref());
        match (&item.result, error) {
            (Some(result), _) => {
                let counted: Counted = serde_json::from_slice(result)?;
                println!("{:>9}  {name}", counted.words);
            }
            (None, Some(error)) => println!("{:>9}  {name}  {}", item.status.name(), error.message),
            (None, None) => println!("{:>9}  {name}", item.status.name()),
        }
    }
    Ok(())
}

/// A client of the server that WINDROW_SERVER names, with the token of WINDROW_TOKEN.
fn client() -> anyhow::Result<Client> {
    let server = std::env::var("WINDROW_SERVER");
    let server = server.unwrap_or_else(|_| "http://127.0.0.1:7117".to_owned());
    let token = std::env::var("WINDROW_TOKEN").ok().map(Token::new).transpose()?;
    Ok(Client::new(&server, Options { token, ..Options::default() })?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [verb, rest @ ..] = &words[..] else { anyhow::bail!("what shall it do?\n\n{HELP}") };
    match (verb.as_str(), rest) {
        ("add", files) => add(client()?, files).await,
        ("work", []) => work(client()?, false).await,
        ("work", [flag]) if flag == "--drain" => work(client()?, true).await,
        ("show", ids) => show(client()?, ids).await,
        _ => anyhow::bail!("that is not understood\n\n{HELP}"),
    }
}
