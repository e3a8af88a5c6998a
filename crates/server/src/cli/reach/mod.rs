//! Where a command does its work: a server, or a store that no server has open.
//!
//! Every command speaks the API's JSON. [`Target`] carries what it asks either over the wire, or to
//! the same router in this process, which then holds the store. So a command is written once, and
//! no rule is written twice. [`find`] chooses which of both it is.

mod announced;
mod find;
mod hand;
mod here;
mod profile;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use serde::de::DeserializeOwned;
use windrow_client::http::{Client, Reply};
use windrow_client::repeat::Missed;

pub(super) use crate::ask::Ask;
pub(super) use announced::{Announced, server_of};
pub(super) use find::{Whom, server_in};
pub(super) use hand::Hand;
pub(super) use here::Here;

use super::config::Source;
use super::exit::{Exit, Problem, Stop, missed};
use super::shell::as_word;
use super::show::say;
use crate::config::Layers;

/// How often a request that can be repeated is sent before it is given up.
const TRIES: u32 = 3;

/// Where the queue is. By default it is the one that `windrow serve` would use here.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Where the queue is")]
pub(super) struct Reach {
    /// A running server, such as http://127.0.0.1:7117 (also WINDROW_SERVER).
    #[arg(long, value_name = "URL", conflicts_with_all = ["data_dir", "store", "profile"])]
    server: Option<String>,
    /// A server by its name in your profiles (also WINDROW_PROFILE).
    #[arg(long, value_name = "NAME", conflicts_with_all = ["data_dir", "store"])]
    profile: Option<String>,
    /// A data directory: the server that uses it is found by itself, or it is opened here.
    #[arg(long, value_name = "DIR", conflicts_with = "store")]
    data_dir: Option<String>,
    /// A database, such as postgres://user@host/database.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// A file that holds the token; else it is WINDROW_TOKEN, or in the file WINDROW_TOKEN_FILE.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Certificates to trust over https instead of the system's, in PEM.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    #[command(flatten)]
    source: Source,
    /// Print JSON: one object, or one per line where there may be many.
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
    /// Say on standard error where the queue is.
    #[arg(long, short, help_heading = "Output")]
    verbose: bool,
}

/// Somebody who answers.
pub(super) enum Target {
    Wire(Box<Client>),
    Here(Box<Here>),
    /// A server that runs in this process.
    Own(Hand),
}

impl Reach {
    /// How the queue was named on this command line, for another one that is to find the same.
    pub(super) fn named(&self) -> String {
        let Reach { server, profile, data_dir, store, .. } = self;
        let flags = [("server", server), ("profile", profile), ("data-dir", data_dir)];
        let flags = flags.into_iter().chain([("store", store)]);
        let named = flags.filter_map(|(flag, place)| Some((flag, place.as_deref()?)));
        named.map(|(flag, place)| format!(" --{flag}={}", as_word(place))).collect()
    }

    /// Finds the queue, which must be there.
    pub(super) async fn target(&self) -> anyhow::Result<Target> {
        self.find(false, true).await
    }

    /// The same, and a data directory that holds no store becomes one.
    pub(super) async fn target_or_new(&self) -> anyhow::Result<Target> {
        self.find(true, true).await
    }

    /// The same for completions, which say nothing and create nothing.
    pub(super) async fn target_silently(&self) -> anyhow::Result<Target> {
        self.find(false, false).await
    }

    /// Says something to whoever wants to know more.
    pub(super) fn say(&self, words: &str) {
        if self.verbose {
            say(words);
        }
    }

    /// What a server here would be told, and by whom.
    pub(super) fn layers(&self) -> anyhow::Result<Layers> {
        find::layers(self)
    }

    /// Who is to answer.
    pub(super) fn whom(&self) -> anyhow::Result<Whom> {
        find::whom(self)
    }

    /// The file that the token is read from, if one is named.
    pub(super) fn token_file(&self) -> Option<&Path> {
        self.token_file.as_deref()
    }

    async fn find(&self, create: bool, may_say: bool) -> anyhow::Result<Target> {
        let target = find::find(self, create).await?;
        if may_say {
            self.say(&target.shown());
        }
        Ok(target)
    }
}

impl Target {
    /// Who answers, in words.
    pub(super) fn shown(&self) -> String {
        match self {
            Target::Wire(client) => format!("asking {}", client.address()),
            Target::Here(here) => format!("using {}", here.shown()),
            Target::Own(_) => "asking the server in this process".to_owned(),
        }
    }

    /// Asks, and gives the answer's body. What is a problem becomes the end of the command.
    pub(super) async fn ask(&self, ask: Ask) -> Result<Bytes, Stop> {
        let only_looks = ask.only_looks();
        let (status, body) = match self {
            Target::Here(here) => here.hand().ask(ask).await?,
            Target::Own(hand) => hand.ask(ask).await?,
            Target::Wire(client) => over_the_wire(client, ask).await?,
        };
        if (200..300).contains(&status) {
            return Ok(body);
        }
        let stop = refused(status, &body);
        Err(if only_looks { of_looking(stop) } else { stop })
    }

    /// The same, read.
    pub(super) async fn read<T: DeserializeOwned>(&self, ask: Ask) -> Result<T, Stop> {
        let body = self.ask(ask).await?;
        serde_json::from_slice(&body).map_err(|error| {
            Stop::new(Exit::Failed, format!("the server's answer is not understood: {error}"))
        })
    }

    /// Asks for something that has no end.
    pub(super) async fn follow(&self, ask: Ask) -> Result<Body, Stop> {
        let (status, body) = match self {
            Target::Here(here) => here.hand().open(ask).await?,
            Target::Own(hand) => hand.open(ask).await?,
            Target::Wire(client) => {
                let (head, body) = client.open(ask.into()).await.map_err(missed)?.into_parts();
                (head.status.as_u16(), Body::new(body))
            }
        };
        if status == 200 {
            return Ok(body);
        }
        let body = axum::body::to_bytes(body, 1 << 20).await.unwrap_or_default();
        Err(refused(status, &body))
    }

    /// Whether whoever answers most likely sees the files that this command sees.
    pub(super) fn is_of_this_machine(&self) -> bool {
        match self {
            Target::Wire(client) => is_of_this_machine(client.address().host()),
            Target::Here(_) | Target::Own(_) => true,
        }
    }

    /// Whether nobody else can use the store as long as this is open.
    pub(super) fn is_alone(&self) -> bool {
        matches!(self, Target::Here(here) if here.queue().store().is_alone())
    }

    /// Lets operations be done that this command begins. A server does so anyway.
    pub(super) fn runs_operations(&self) {
        if let Target::Here(here) = self {
            here.runs_operations();
        }
    }

    /// Ends what is below items that were cancelled, level by level, if nobody else will: a server
    /// does so by itself, and soon.
    pub(super) async fn ends_trees(&self) -> Result<(), Stop> {
        while self.is_alone() {
            let swept: serde_json::Value = self.read(Ask::post(&["sweep"])).await?;
            if swept["handled"] == 0 && swept["more"] == false {
                break;
            }
        }
        Ok(())
    }

    /// Lets happen what happens by itself as time passes, for as long as this command lasts.
    pub(super) fn keeps_time(&self) {
        if let Target::Here(here) = self {
            here.keeps_time();
        }
    }

    /// Lets documents be read, for as long as this command lasts. A server does so anyway. False
    /// if that is switched off here.
    pub(super) fn reads_documents(&self) -> bool {
        match self {
            Target::Here(here) => here.reads_documents(),
            Target::Wire(_) | Target::Own(_) => true,
        }
    }

    /// Ends: what was begun here comes to its end.
    pub(super) async fn close(self) {
        if let Target::Here(here) = self {
            here.close().await;
        }
    }
}

/// Asks a server. What can be repeated is, a few times, if the connection is lost; one that hangs
/// is not asked again.
async fn over_the_wire(client: &Client, ask: Ask) -> Result<(u16, Bytes), Stop> {
    let longest = if ask.only_looks() { LOOK } else { ATTEMPT };
    let (client, begun) = (client.clone().attempts(longest), Instant::now());
    let mut tries = if ask.is_repeatable() { TRIES } else { 1 };
    loop {
        tries -= 1;
        match told_if_slow(&client, ask.clone()).await {
            Ok(reply) => return Ok((reply.status.as_u16(), reply.body)),
            Err(Missed::Lost(_)) if tries > 0 && begun.elapsed() < longest => {}
            Err(Missed::Lost(why)) if ask.only_looks() => {
                let said = format!("{} does not answer ({why})", client.address());
                let remedy = "is it Windrow's, and stopped or very busy? `windrow doctor` looks";
                return Err(Stop::new(Exit::Unreachable, format!("{said}; {remedy}")));
            }
            Err(error) => return Err(missed(error)),
        }
    }
}

/// Asks once, and says so if that takes long.
async fn told_if_slow(client: &Client, ask: Ask) -> Result<Reply, Missed> {
    let quiet = SLOW + ask.longest_wait();
    let mut asking = std::pin::pin!(client.send(ask.into()));
    if let Ok(answered) = tokio::time::timeout(quiet, &mut asking).await {
        return answered;
    }
    say(&format!("{} takes its time to answer; waiting for it", client.address()));
    asking.await
}

/// Who only looks did not want to write anything, and is not told that nothing was.
fn of_looking(stop: Stop) -> Stop {
    let said = stop.message.as_str();
    let said = said.strip_prefix("nothing was written: ").unwrap_or(said);
    let message = said.strip_suffix("; nothing was written").unwrap_or(said).to_owned();
    Stop { message, ..stop }
}

fn refused(status: u16, body: &[u8]) -> Stop {
    match serde_json::from_slice::<Problem>(body) {
        Ok(problem) => problem.into(),
        Err(_) => Stop::new(
            Exit::Failed,
            format!("something that is not Windrow answered with {status}; is the address right?"),
        ),
    }
}

/// Whether a host is this one, as far as its address says; a tunnel may lead elsewhere.
fn is_of_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// How long one attempt over the wire may take, besides waiting on purpose: to do something, which
/// may send a lot, and to look.
const ATTEMPT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_secs(20);
/// After how long somebody is told that there is no answer yet.
const SLOW: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    /// `windrow list` began with it when PostgreSQL was down.
    #[test]
    fn who_only_looks_is_not_told_that_nothing_was_written() {
        let said = |detail: &str| {
            let body =
                format!(r#"{{"status": 503, "code": "store_failed", "detail": "{detail}"}}"#);
            of_looking(refused(503, body.as_bytes())).message
        };
        let away = "PostgreSQL cannot be reached at h:5432/q: connection refused";
        assert_eq!(said(&format!("nothing was written: {away}")), away);
        assert_eq!(said(away), away);
    }
}
