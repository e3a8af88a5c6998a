//! Whoever answers: ports, the server, its version, its clock, our token, its health, and the
//! addresses that it calls.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use windrow_wire::time::Time;

use super::{Finding, Level, Reach, failed, machine, ok, problem, warn};
use crate::cli::exit::Exit;
use crate::cli::reach::{Ask, Target};
use crate::cli::show::{now, text};
use crate::config::Config;

/// How long somebody may take to take a connection.
const WITHIN: Duration = Duration::from_secs(3);
/// Addresses of webhooks that are tried.
const WEBHOOKS: usize = 20;

/// Asks whoever answers for the queue. With a configuration, ports are looked at too.
pub(super) async fn examine(reach: &Reach, config: Option<&Config>) -> Vec<Finding> {
    let target = match reach.target_silently().await {
        Ok(target) => target,
        Err(error) => return vec![failed("queue", &error)],
    };
    let mut found = Vec::new();
    if let Some(config) = config {
        found.extend(ports(config, Some(&target)));
    }
    found.extend(asked(&target).await);
    target.close().await;
    found
}

async fn asked(target: &Target) -> Vec<Finding> {
    #[derive(Deserialize)]
    struct System {
        timestamp: Time,
    }
    let begun = now();
    let system: System = match target.read(Ask::get(&["system", "status"])).await {
        Ok(system) => system,
        Err(stop) => {
            let check = if stop.exit == Exit::Denied { "token" } else { "server" };
            return vec![failed(check, &stop.into())];
        }
    };
    let answered = now();
    let mut found = vec![ok("queue", target.shown())];
    if let Target::Wire(_) = target {
        let asked_ms = answered.since(begun);
        found.push(machine::apart("the server's", system.timestamp.0, answered, asked_ms));
        found.push(version(target).await);
        found.push(role(target).await);
    }
    match target.read::<Value>(Ask::get(&["health"])).await {
        Ok(health) => found.extend(of_health(&health)),
        Err(stop) if stop.exit == Exit::Denied => {}
        Err(stop) => found.push(failed("health", &stop.into())),
    }
    if let Ok(webhooks) = target.read::<Vec<Value>>(Ask::get(&["webhooks"])).await {
        for webhook in webhooks.iter().filter(|hook| hook["enabled"] == true).take(WEBHOOKS) {
            let of = format!("webhook {}", text(webhook, "name"));
            found.push(reached(&of, text(webhook, "url")).await);
        }
    }
    found
}

/// What the token may do.
async fn role(target: &Target) -> Finding {
    match target.read::<Value>(Ask::get(&["caller"])).await {
        Ok(caller) => {
            let of = match caller["tenant"].as_str() {
                Some(tenant) => format!("tenant {tenant} only"),
                None => "all tenants".to_owned(),
            };
            let (name, role) = (text(&caller, "name"), text(&caller, "role"));
            ok("token", format!("{name} has the role {role}, for {of}"))
        }
        // A server that is older does not know the question.
        Err(stop) if stop.exit == Exit::NotFound => {
            ok("token", "it is let in; this server cannot say what it may do")
        }
        Err(stop) => failed("token", &stop.into()),
    }
}

/// What health says that is not well, and that the rest is.
fn of_health(health: &Value) -> Vec<Finding> {
    let checks = health["checks"].as_array().into_iter().flatten();
    let (well, ill): (Vec<&Value>, Vec<&Value>) =
        checks.partition(|check| text(check, "status") == "green");
    let mut found = vec![ok("health", format!("{} are green", well.len()))];
    found.extend(ill.into_iter().map(|check| {
        // That no server runs may be so on purpose.
        let is_red = text(check, "status") == "red" && text(check, "check") != "serving";
        let of = check["of"].as_str().map(|of| format!("{of}: ")).unwrap_or_default();
        Finding {
            check: text(check, "check").to_owned(),
            status: if is_red { Level::Problem } else { Level::Warn },
            says: format!("{of}{}", text(check, "says")),
            fix: check["remedy"].as_str().map(str::to_owned),
        }
    }));
    found
}

/// Whether a server could listen where it would, or does.
pub(super) fn ports(config: &Config, target: Option<&Target>) -> Vec<Finding> {
    let its = match target {
        Some(Target::Wire(client)) => Some(client.address().authority().to_owned()),
        _ => None,
    };
    let http = port("port", "--listen", config.listen, its.as_deref());
    // Where HTTP is answered by the store's own server, RPC is too.
    let is_its = its.as_deref() == Some(&config.listen.to_string());
    let rpc = config.rpc.as_ref().map(|rpc| {
        let its = is_its.then(|| rpc.listen.to_string());
        port("rpc port", "--rpc-listen", rpc.listen, its.as_deref())
    });
    [http].into_iter().chain(rpc).collect()
}

fn port(check: &str, flag: &str, listen: SocketAddr, its: Option<&str>) -> Finding {
    if its == Some(&*listen.to_string()) {
        return ok(check, format!("the server listens on {listen}"));
    }
    match TcpListener::bind(listen) {
        Ok(_) => ok(check, format!("{listen} is free")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let who = if speaks_windrow(listen) { "another windrow" } else { "another program" };
            let fix = format!("stop that one, or choose another port with {flag}");
            warn(check, format!("{who} listens on {listen}: no server here can"), fix)
        }
        Err(error) => {
            let fix = format!("choose an address of this machine, and a port from 1024 on: {flag}");
            problem(check, format!("{listen}: {error}"), fix)
        }
    }
}

/// Whether whoever listens there answers as a Windrow does.
fn speaks_windrow(at: SocketAddr) -> bool {
    use std::io::{Read as _, Write as _};
    let Ok(mut stream) = std::net::TcpStream::connect_timeout(&at, WITHIN) else { return false };
    let request = format!(
        "GET /api/v1/health HTTP/1.1\r\nhost: {at}\r\nauthorization: Bearer wr_\r\n\
         connection: close\r\n\r\n"
    );
    let mut answer = Vec::new();
    let timely = stream.set_read_timeout(Some(WITHIN)).is_ok();
    let asked = timely && stream.write_all(request.as_bytes()).is_ok();
    // What arrived before it hung up is enough.
    let _read = stream.take(4_096).read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    asked && (answer.contains("\"checks\"") || answer.contains("\"code\":\"unauthorized\""))
}

/// Whether the server is of our version.
async fn version(target: &Target) -> Finding {
    const OURS: &str = env!("CARGO_PKG_VERSION");
    let document: Result<Value, _> = target.read(Ask::get(&["openapi.json"])).await;
    match document.as_ref().map(|document| text(&document["info"], "version")) {
        Ok(OURS) => ok("version", format!("{OURS}, here and there")),
        Ok(theirs) => {
            let said = format!("this is {OURS}, and the server is {theirs}");
            warn("version", said, "use the same version on both sides")
        }
        Err(stop) => warn("version", stop.to_string(), "see what is between here and the server"),
    }
}

/// Whether traces have somebody who takes them.
pub(super) async fn traces(config: &Config) -> Option<Finding> {
    let endpoint = config.otel.as_ref()?;
    Some(reached("otel.endpoint", endpoint).await)
}

/// Whether somebody takes a connection at an address, from here. What is behind its host may be a
/// secret, and is not shown.
async fn reached(of: &str, url: &str) -> Finding {
    let Some((host, port)) = host_of(url) else {
        let said = format!("{of} has no address that can be called");
        return problem("endpoint", said, "write http:// or https://, a host and a path");
    };
    let fix = "see that it runs and that this machine may reach it; what is sent there waits";
    let connected = tokio::net::TcpStream::connect((host.as_str(), port));
    match tokio::time::timeout(WITHIN, connected).await {
        Ok(Ok(_)) => ok("endpoint", format!("{of}: {host}:{port} takes connections")),
        Ok(Err(error)) => warn("endpoint", format!("{of}: {host}:{port}: {error}"), fix),
        Err(_) => warn("endpoint", format!("{of}: {host}:{port} does not answer"), fix),
    }
}

pub(super) fn host_of(url: &str) -> Option<(String, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let (name, port) = match host.rsplit_once(':') {
        Some((name, number)) if !number.ends_with(']') => (name, number.parse().ok()?),
        _ => (host, port),
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    (!name.is_empty()).then(|| (name.to_owned(), port))
}
