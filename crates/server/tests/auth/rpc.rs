//! The authorisation matrix over RPC: every method of the schema, asked by every kind of caller.
//!
//! The methods come from the schema itself and must stand in docs/reference/auth.md with the role
//! they need; a method that no test here knows how to call fails the test too.

use std::collections::BTreeMap;
use std::net::TcpListener;

use capnp_rpc::RpcSystem;
use capnp_rpc::rpc_twoparty_capnp::Side;
use capnp_rpc::twoparty::VatNetwork;
use serde_json::json;
use tokio::net::TcpStream;
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};
use windrow_wire::queue_capnp::{queue, windrow};

use crate::matrix::{ROLES, may};
use crate::rig::{Data, Server, create, id, store_in};

const SCHEMA: &str = include_str!("../../../wire/schema/queue.capnp");
/// What needs no role: it is how a role is shown.
const NOBODY: &str = "(nobody)";

/// Every method of the schema, as `Interface.method`.
fn methods(schema: &str) -> Vec<String> {
    let mut methods = Vec::new();
    let mut interface = None;
    for line in schema.lines() {
        if let Some(rest) = line.strip_prefix("interface ") {
            interface = rest.split([' ', '{']).next();
        }
        interface = interface.filter(|_| line != "}");
        let method = line.strip_prefix("  ").and_then(|line| line.split_once(" @"));
        if let (Some(interface), Some((name, _))) = (interface, method)
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
        {
            methods.push(format!("{interface}.{name}"));
        }
    }
    methods
}

/// The methods that the reference lists, with the role that each needs.
fn listed() -> BTreeMap<String, String> {
    let page = format!("{}/../../docs/reference/auth.md", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let rows = rows.filter(|(name, _)| name.starts_with("Queue.") || name.starts_with("Windrow."));
    let role = |rest: &str| rest.split(" |").next().unwrap_or_default().to_owned();
    rows.map(|(name, rest)| (name.to_owned(), role(rest))).collect()
}

/// A server that listens for RPC where it is told.
fn server(store: &[String]) -> (Server, String) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let rpc = free.local_addr().unwrap().to_string();
    drop(free);
    (Server::start_with(store, &["--listen", "127.0.0.1:0", "--rpc-listen", &rpc], &[]), rpc)
}

/// What a connection gets first.
async fn connect(address: &str) -> queue::Client {
    let (reader, writer) = TcpStream::connect(address).await.unwrap().into_split();
    let (reader, writer) = (reader.compat(), writer.compat_write());
    let network =
        VatNetwork::new(reader, writer, Side::Client, capnp::message::ReaderOptions::new());
    let mut system = RpcSystem::new(Box::new(network), None);
    let client = system.bootstrap(Side::Server);
    tokio::task::spawn_local(system);
    client
}

/// A connection on which somebody said who they are.
async fn login(address: &str, token: &str) -> capnp::Result<(queue::Client, windrow::Client)> {
    let queue = connect(address).await;
    let mut request = queue.login_request();
    request.get().set_token(token);
    let windrow = request.send().promise.await?.get()?.get_queue()?;
    Ok((queue, windrow))
}

/// What an exception says, from its code on.
fn thrown(error: &capnp::Error) -> String {
    let said = error.extra.strip_prefix("remote exception: ");
    said.unwrap_or_else(|| panic!("{error}")).to_owned()
}

/// Calls with nothing in it; the answer is the code of the refusal, if it is one.
macro_rules! code {
    ($client:expr, $request:ident, exception) => {
        match $client.$request().send().promise.await {
            Ok(_) => None,
            Err(error) => thrown(&error).split(": ").next().map(str::to_owned),
        }
    };
    ($client:expr, $request:ident) => {{
        let response = $client.$request().send().promise.await.unwrap();
        let response = response.get().unwrap();
        let refused = response.has_refused().then(|| response.get_refused().unwrap());
        refused.map(|refused| refused.get_code().unwrap().to_string().unwrap())
    }};
}

/// Calls a method with nothing in it.
async fn ask(method: &str, queue: &queue::Client, full: &windrow::Client) -> Option<String> {
    match method {
        "Queue.add" => code!(queue, add_request, exception),
        "Queue.remove" => code!(queue, remove_request, exception),
        // With nothing in it a poll would be refused for its lease before it waits for ever.
        "Queue.poll" => code!(queue, poll_request, exception),
        "Queue.extend" => code!(queue, extend_request, exception),
        "Queue.open" => code!(queue, open_request, exception),
        "Windrow.enqueue" => code!(full, enqueue_request),
        "Windrow.claim" => code!(full, claim_request),
        "Windrow.renew" => code!(full, renew_request),
        "Windrow.progress" => code!(full, progress_request),
        "Windrow.settle" => code!(full, settle_request),
        "Windrow.cancel" => code!(full, cancel_request),
        "Windrow.retry" => code!(full, retry_request),
        "Windrow.delete" => code!(full, delete_request),
        "Windrow.prioritise" => code!(full, prioritise_request),
        "Windrow.pause" => code!(full, pause_request),
        "Windrow.resume" => code!(full, resume_request),
        "Windrow.configure" => code!(full, configure_request),
        "Windrow.inspect" => code!(full, inspect_request),
        "Windrow.explain" => code!(full, explain_request),
        "Windrow.stats" => code!(full, stats_request),
        "Windrow.children" => code!(full, children_request),
        other => panic!("nobody here asks for {other}; say how"),
    }
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test)
}

#[test]
fn every_method_of_the_schema_is_listed_with_the_role_it_needs() {
    let (methods, listed) = (methods(SCHEMA), listed());
    assert!(methods.len() >= 22, "there are methods: {methods:?}");
    for method in &methods {
        let row = format!("| `{method}` | role | for a token with a tenant |");
        assert!(listed.contains_key(method), "docs/reference/auth.md lacks this row\n{row}");
    }
    for method in listed.keys() {
        assert!(
            methods.contains(method),
            "docs/reference/auth.md lists {method}, which is not there"
        );
    }
    // The control: one more method is noticed.
    let planted = SCHEMA.replace("  enqueue @0 ", "  planted @99 () -> ();\n  enqueue @0 ");
    assert!(self::methods(&planted).contains(&"Windrow.planted".to_owned()));
}

#[test]
fn every_method_asks_every_caller_for_its_role() {
    let data = Data::new("rpc-matrix");
    let store = store_in(&data);
    let admin = create(&store, &["--role", "admin"]);
    let (server, rpc) = server(&store);
    let admin = Some(admin.as_str());
    let roles = ROLES.map(|role| (role, server.token(admin, &json!({"role": role}))));
    let revoked = server.token(admin, &json!({"role": "admin"}));
    run(async {
        let stranger = login(&rpc, &revoked).await.unwrap();
        let path = format!("/api/v1/tokens/{}", id(&revoked));
        assert_eq!(server.send("DELETE", &path, admin, "").status, 200);
        let mut asked = 0;
        for (method, needs) in listed().iter().filter(|(_, needs)| *needs != NOBODY) {
            let code = ask(method, &stranger.0, &stranger.1).await;
            assert_eq!(code.as_deref(), Some("unauthorized"), "{method}, revoked");
            for (role, token) in &roles {
                let (queue, full) = login(&rpc, token).await.unwrap();
                let code = ask(method, &queue, &full).await;
                let is_forbidden = code.as_deref() == Some("forbidden");
                assert_ne!(code.as_deref(), Some("unauthorized"), "{role}: {method}");
                assert_eq!(is_forbidden, !may(role, needs), "{role}: {method}: {code:?}");
                asked += 1;
            }
        }
        assert!(asked >= 21 * ROLES.len(), "there are methods: {asked}");
    });
}

#[test]
fn who_shows_no_token_that_opens_anything_gets_nothing() {
    let data = Data::new("rpc-strangers");
    let store = store_in(&data);
    let admin = create(&store, &["--role", "admin"]);
    let (server, rpc) = server(&store);
    let expired = server.token(Some(&admin), &json!({"role": "admin", "expires_in_ms": 1}));
    let wrong = format!("{}{}", &admin[..admin.len() - 1], i32::from(!admin.ends_with('1')));
    let secretless = format!("wr_{}_", id(&admin));
    run(async {
        let mut said = Vec::new();
        for token in ["", "wr_0011223344556677_00", &wrong, &secretless, &expired] {
            let error = login(&rpc, token).await.err().expect(token);
            said.push(thrown(&error));
        }
        said.dedup();
        assert_eq!(said.len(), 1, "who is not let in does not learn why: {said:?}");
        assert!(said[0].starts_with("unauthorized: "), "{said:?}");
        let queue = connect(&rpc).await;
        for code in [
            code!(queue, add_request, exception),
            code!(queue, remove_request, exception),
            code!(queue, poll_request, exception),
            code!(queue, extend_request, exception),
            code!(queue, open_request, exception),
        ] {
            assert_eq!(code.as_deref(), Some("unauthorized"));
        }
    });
}
