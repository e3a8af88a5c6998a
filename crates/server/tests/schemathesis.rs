//! The server held to its own OpenAPI document: schemathesis sends what the document allows and
//! what it forbids, from a seed, and looks for errors of the server, answers that are not
//! described, what is taken and should not be, and what is not taken and should be.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod running;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use running::{Data, Server, exchange};

/// How long it goes on at most, in seconds. On a machine with nothing else to do it is done sooner.
const BUDGET_S: &str = "80";

/// An admin's, which nothing that is sent can revoke.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A server that asks for a token, as its document says that it does.
fn server(test: &str) -> Server {
    let data = Data::new(test);
    let (store, token) = (data.0.join("store"), data.0.join("token"));
    std::fs::write(&token, TOKEN).unwrap();
    let variables = [("WINDROW_AUTH__TOKEN_FILE", token.to_str().unwrap())];
    Server::at(&["--data-dir", store.to_str().unwrap()], &variables, data)
}

/// The document of a server, kept in a file.
fn document(server: &Server, into: &Data) -> (PathBuf, serde_json::Value) {
    let request = format!(
        "GET /api/v1/openapi.json HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\
         authorization: Bearer {TOKEN}\r\n\r\n",
        server.address
    );
    let document = exchange(&server.address, request.as_bytes(), false).remove(0).json();
    let file = into.0.join("openapi.json");
    std::fs::write(&file, document.to_string()).unwrap();
    (file, document)
}

/// Where the program is: where the variable points, or where `cargo xtask test` installed it.
fn program() -> PathBuf {
    let named = std::env::var_os("WINDROW_SCHEMATHESIS").map(PathBuf::from);
    let installed = || {
        // Tests lie in the target directory, under the name of the profile.
        let target = Path::new(env!("CARGO_BIN_EXE_windrow")).ancestors().nth(2).unwrap();
        target.join("tools/schemathesis/bin/schemathesis")
    };
    let program = named.unwrap_or_else(installed);
    let how = "`cargo xtask test` installs it, or WINDROW_SCHEMATHESIS names it";
    assert!(program.is_file(), "schemathesis is not at {}; {how}", program.display());
    program
}

/// What is tried follows from it: the same every time, unless somebody wants to try something else.
fn seed() -> String {
    std::env::var("WINDROW_SCHEMATHESIS_SEED").unwrap_or_else(|_| "20261116".to_owned())
}

/// Runs it against a document, at the server or in a file.
fn held_to(document: &str, address: &str, seed: &str, examples: &str) -> Output {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    // It leaves files where it runs.
    let place = Data::new(&format!("schemathesis-{seed}"));
    let mut command = Command::new(program());
    command.current_dir(&place.0).env("PYTHONPATH", &tests);
    command.env("SCHEMATHESIS_HOOKS", "schemathesis_hooks").env("PYTHONDONTWRITEBYTECODE", "1");
    command.arg("--config-file").arg(tests.join("schemathesis.toml")).arg("run").arg(document);
    command.args(["--url", &format!("http://{address}"), "--checks", "all", "--seed", seed]);
    command.args(["--max-examples", examples, "--max-time", BUDGET_S, "--request-timeout", "10"]);
    command.args(["--phases", "examples,coverage,fuzzing", "--continue-on-failure"]);
    command.args(["--generation-database", "none", "--suppress-health-check", "all"]);
    command.args(["--header", &format!("Authorization: Bearer {TOKEN}")]);
    // With several threads Python 3.11 now and then loses count of its own recursion, and gives up.
    command.args(["--workers", "1", "--no-color"]).output().unwrap()
}

#[test]
fn the_server_does_what_its_document_says() {
    let mut server = server("schemathesis");
    let data = Data::new("schemathesis-whole");
    let (file, _) = document(&server, &data);
    let output = held_to(file.to_str().unwrap(), &server.address, &seed(), "20");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(server.is_running());
    let cases = said.split_whitespace().zip(said.split_whitespace().skip(1));
    let cases = cases.filter(|(_, word)| *word == "generated,").find_map(|(n, _)| n.parse().ok());
    assert!(cases.is_some_and(|cases: u32| cases > 300), "too little was tried:\n{said}");
}

/// A document that promises something else must not go through.
#[test]
fn a_document_that_says_something_else_is_noticed() {
    let server = server("schemathesis-control");
    let data = Data::new("schemathesis-document");
    let (file, mut document) = document(&server, &data);
    let stats = document["paths"]["/api/v1/queue/stats"].take();
    document["paths"] = serde_json::json!({ "/api/v1/queue/stats": stats });
    // What is a number in truth is said to be a text.
    document["components"]["schemas"]["Stats"]["properties"]["queued"] =
        serde_json::json!({ "type": "string" });
    std::fs::write(&file, document.to_string()).unwrap();
    let output = held_to(file.to_str().unwrap(), &server.address, "1", "3");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && said.contains("queued"), "it went through:\n{said}");
}
