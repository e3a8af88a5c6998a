//! `windrow doctor`: is everything as it must be, and what to do if not.
//!
//! Looks at the configuration, at who answers, at clocks, versions and ports from here, and then
//! asks the queue itself how it is: its store, its disk, and what a database is set to.

use std::net::TcpListener;

use serde_json::Value;

use super::reach::{Ask, Reach, Target};
use super::show::{Cell, Table, say, text};
use super::{Stop, counted, exit::Exit, runtime};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow doctor
      Looks at everything that could be in the way, and says what to do. Ends with 1 if something
      is.
  windrow doctor --store postgres://windrow@db.example/queue
  windrow doctor --json | jq 'select(.status != \"green\")'")]
pub(super) struct Args {
    #[command(flatten)]
    reach: Reach,
}

/// One thing that was looked at, in the words that health has.
#[derive(serde::Serialize)]
struct Finding {
    check: String,
    status: &'static str,
    says: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Finding {
    fn well(check: &str, says: impl Into<String>) -> Finding {
        Finding { check: check.into(), status: "green", says: says.into(), remedy: None }
    }

    fn ill(check: &str, status: &'static str, says: impl Into<String>, remedy: &str) -> Finding {
        let remedy = Some(remedy.to_owned()).filter(|remedy| !remedy.is_empty());
        Finding { check: check.into(), status, says: says.into(), remedy }
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let findings = runtime()?.block_on(examine(&args.reach));
    let mut out = std::io::stdout().lock();
    if args.reach.json {
        for finding in &findings {
            std::io::Write::write_fmt(
                &mut out,
                format_args!("{}\n", serde_json::to_string(finding)?),
            )?;
        }
    } else {
        let mut table = Table::new(&["CHECK", "STATUS", "SAYS"]);
        for Finding { check, status, says, .. } in &findings {
            table.row([check.as_str().into(), Cell::status(status), says.as_str().into()]);
        }
        table.print(&mut out)?;
        for Finding { check, remedy, .. } in &findings {
            remedy.iter().for_each(|remedy| say(&format!("{check}: {remedy}")));
        }
    }
    let red = findings.iter().filter(|finding| finding.status == "red").count();
    if red > 0 {
        let said = format!("{} in the way", counted(red as u64, "thing"));
        return Err(Stop::new(Exit::Failed, said).into());
    }
    Ok(())
}

async fn examine(reach: &Reach) -> Vec<Finding> {
    let mut found = Vec::new();
    let listen = match reach.configured() {
        Ok(config) => {
            found.push(Finding::well("config", "it is read"));
            Some(config.listen)
        }
        Err(error) => {
            let remedy = "`windrow config show --origin` says what comes from where";
            found.push(Finding::ill("config", "red", format!("{error:#}"), remedy));
            None
        }
    };
    let target = match reach.target_silently().await {
        Ok(target) => target,
        Err(error) => {
            found.push(Finding::ill("queue", "red", format!("{error:#}"), ""));
            found.extend(listen.map(|listen| port(listen, None)));
            return found;
        }
    };
    found.push(Finding::well("queue", target.shown()));
    found.extend(listen.map(|listen| port(listen, Some(&target))));
    found.push(clock(&target).await);
    found.push(version(&target).await);
    match target.read::<Value>(Ask::get(&["health"])).await {
        Ok(health) => found.extend(of_health(&health)),
        Err(stop) => found.push(Finding::ill("health", "red", stop.to_string(), "")),
    }
    target.close().await;
    found
}

/// What health says that is not well, and that the rest is.
fn of_health(health: &Value) -> Vec<Finding> {
    let checks = health["checks"].as_array().into_iter().flatten();
    let (well, ill): (Vec<&Value>, Vec<&Value>) =
        checks.partition(|check| text(check, "status") == "green");
    let mut found = vec![Finding::well("health", format!("{} are green", well.len()))];
    found.extend(ill.into_iter().map(|check| {
        let status = if text(check, "status") == "red" { "red" } else { "yellow" };
        let remedy = check["remedy"].as_str().unwrap_or_default();
        Finding::ill(text(check, "check"), status, text(check, "says"), remedy)
    }));
    found
}

/// Whether a server could listen where it would.
fn port(listen: std::net::SocketAddr, target: Option<&Target>) -> Finding {
    let is_its = |target: &Target| match target {
        Target::Wire(client) => client.address().authority() == listen.to_string(),
        Target::Here(_) => false,
    };
    match TcpListener::bind(listen) {
        _ if target.is_some_and(is_its) => {
            Finding::well("port", format!("the server listens on {listen}"))
        }
        Ok(_) => Finding::well("port", format!("{listen} is free")),
        Err(error) => {
            let remedy = "a server here needs another one: --listen, or server.listen";
            Finding::ill("port", "yellow", format!("{listen}: {error}"), remedy)
        }
    }
}

/// Whether the newest item was created in what is the past here.
async fn clock(target: &Target) -> Finding {
    const SLACK_MS: i64 = 2_000;
    let page: Result<Value, Stop> =
        target.read(Ask::get(&["queue"]).with("limit", Some("1"))).await;
    let newest = match &page {
        Ok(page) => &page["items"][0]["created_at"],
        Err(stop) => return Finding::ill("clock", "yellow", stop.to_string(), ""),
    };
    let created = newest.as_str().and_then(|at| at.parse::<jiff::Timestamp>().ok());
    let ahead =
        created.map_or(0, |at| at.as_millisecond() - jiff::Timestamp::now().as_millisecond());
    if ahead <= SLACK_MS {
        return Finding::well("clock", "it is not behind the queue's");
    }
    let said = format!("this machine's clock is {} s behind the queue's", ahead / 1_000);
    Finding::ill("clock", "yellow", said, "set it by NTP: leases and delays go by clocks")
}

/// Whether the server is of our version.
async fn version(target: &Target) -> Finding {
    const OURS: &str = env!("CARGO_PKG_VERSION");
    let document: Result<Value, Stop> = target.read(Ask::get(&["openapi.json"])).await;
    match document.as_ref().map(|document| text(&document["info"], "version")) {
        Ok(OURS) => Finding::well("version", format!("{OURS}, here and there")),
        Ok(theirs) => {
            let said = format!("this is {OURS}, and the server is {theirs}");
            Finding::ill("version", "yellow", said, "use the same version on both sides")
        }
        Err(stop) => Finding::ill("version", "yellow", stop.to_string(), ""),
    }
}
