//! Completions: commands and flags from their table, and ids, queues, stages and workers from the
//! queue itself, if it answers soon. What goes wrong is passed over in silence.

use std::ffi::OsStr;
use std::io::Write as _;
use std::sync::mpsc;
use std::time::Duration;

use clap::{CommandFactory as _, Parser as _};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use serde_json::Value;
use windrow_core::item::Status;
use windrow_wire::filter::KEYS;

use super::exit::Stop;
use super::reach::{Ask, Reach};
use super::{Cli, runtime};

/// The variable by which a shell asks for completions.
const VARIABLE: &str = "WINDROW_COMPLETE";
/// How long the queue may take. On a busy machine it is worth a wait; a server that hangs is not.
const WITHIN: Duration = Duration::from_secs(3);

/// Answers a shell that asks what may come next; comes back if none does.
pub(crate) fn answer() {
    CompleteEnv::with_factory(Cli::command).var(VARIABLE).complete();
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  source <(windrow completions bash)
      In ~/.bashrc; for zsh the same in ~/.zshrc.
  windrow completions fish > ~/.config/fish/completions/windrow.fish

Ids, queues and stages are asked from the queue that the command line, the environment or your
configuration names.")]
pub(super) struct Args {
    /// bash, zsh, fish, elvish or powershell.
    shell: String,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(&args.shell) else {
        let known = shells.names().collect::<Vec<_>>().join(", ");
        return Err(Stop::usage(format!("{:?} is not known; there are {known}", args.shell)).into());
    };
    let mut out = std::io::stdout().lock();
    shell.write_registration(VARIABLE, "windrow", "windrow", "windrow", &mut out)?;
    Ok(out.flush()?)
}

/// The ids of items.
pub(super) fn items() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| candidates(typed, ids()))
}

pub(super) fn queues() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| candidates(typed, names("queues", "queue")))
}

pub(super) fn stages() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| candidates(typed, names("items", "stage")))
}

pub(super) fn workers() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| candidates(typed, names("workers", "name")))
}

pub(super) fn sources() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| candidates(typed, names("sources", "name")))
}

/// The words of a filter.
pub(super) fn filters() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| candidates(typed, words(typed)))
}

/// An id, or a word of a filter.
pub(super) fn either() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let mut all = words(typed);
        all.extend(ids());
        candidates(typed, all)
    })
}

/// What begins as it was typed.
fn candidates(typed: &OsStr, all: Vec<(String, String)>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let fits = all.into_iter().filter(|(value, _)| value.starts_with(&*typed));
    fits.map(|(value, help)| CompletionCandidate::new(value).help(Some(help.into()))).collect()
}

fn words(typed: &OsStr) -> Vec<(String, String)> {
    let typed = typed.to_string_lossy();
    match typed.split_once(':') {
        Some(("status", _)) => {
            let word = |status: Status| (format!("status:{}", status.name()), String::new());
            Status::ALL.map(word).to_vec()
        }
        Some((key @ ("queue" | "stage" | "kind" | "tenant"), _)) => {
            let of = if key == "queue" { "queues" } else { "items" };
            let named = names(of, key).into_iter();
            named.map(|(name, help)| (format!("{key}:{name}"), help)).collect()
        }
        Some(_) => Vec::new(),
        None => KEYS.iter().map(|(key, what)| (format!("{key}:"), (*what).to_owned())).collect(),
    }
}

fn ids() -> Vec<(String, String)> {
    let shown = |item: &Value| {
        let of = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
        (of("id"), format!("{} in {}", of("status"), of("queue")))
    };
    newest().iter().map(shown).collect()
}

/// The values of a field of all things of a kind; of items, of the newest.
fn names(of: &str, field: &str) -> Vec<(String, String)> {
    let all = match of {
        "items" => newest(),
        of => match look(Ask::get(&[of])) {
            Some(Value::Array(all)) => all,
            _ => Vec::new(),
        },
    };
    let mut names: Vec<String> =
        all.iter().filter_map(|of| of[field].as_str().map(str::to_owned)).collect();
    names.sort();
    names.dedup();
    names.into_iter().map(|name| (name, String::new())).collect()
}

fn newest() -> Vec<Value> {
    let page = look(Ask::get(&["queue"]).with("limit", Some("200")));
    page.and_then(|page| page["items"].as_array().cloned()).unwrap_or_default()
}

/// The flags that say where the queue is, alone.
#[derive(clap::Parser, Debug)]
struct Where {
    #[command(flatten)]
    reach: Reach,
}

/// Asks the queue that the command line so far names.
fn look(ask: Ask) -> Option<Value> {
    const FLAGS: [&str; 7] =
        ["--server", "--profile", "--data-dir", "--store", "--token-file", "--ca", "--config"];
    let typed: Vec<String> =
        std::env::args_os().filter_map(|word| word.into_string().ok()).collect();
    let mut said = vec!["windrow".to_owned()];
    for (at, word) in typed.iter().enumerate() {
        let is_alone = FLAGS.contains(&word.as_str());
        let has_value = FLAGS.iter().any(|flag| word.starts_with(&format!("{flag}=")));
        if is_alone && typed.len() > at + 1 {
            said.extend([word.clone(), typed[at + 1].clone()]);
        } else if has_value {
            said.push(word.clone());
        }
    }
    let (heard, answer) = mpsc::channel();
    std::thread::spawn(move || {
        let at = Where::try_parse_from(said).ok()?;
        let body = runtime().ok()?.block_on(async {
            let target = at.reach.target_silently().await.ok()?;
            let body = target.ask(ask).await.ok();
            target.close().await;
            body
        });
        heard.send(serde_json::from_slice(&body?).ok()?).ok()
    });
    answer.recv_timeout(WITHIN).ok()
}
