//! The authorisation matrix: every route, asked by every kind of caller.
//!
//! The routes come from the OpenAPI document, which is made from the same table as the router, and
//! must stand in docs/reference/auth.md with the role they need. What is not in the table of the
//! server does not answer at all: `http/gate.rs` has the test with a planted route.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::rig::{Data, Server, create, id, store_in};

pub(crate) const ROLES: [&str; 5] = ["viewer", "producer", "worker", "operator", "admin"];
const ABSENT: &str = "01a1e554-9c99-7001-b210-29840971dd42";

/// Which roles may do what asks for one, written down once more and not taken from the server.
pub(crate) fn may(role: &str, asked: &str) -> bool {
    let above: &[&str] = match asked {
        "viewer" => &["viewer", "producer", "worker", "operator", "admin"],
        "producer" => &["producer", "operator", "admin"],
        "worker" => &["worker", "operator", "admin"],
        "operator" => &["operator", "admin"],
        "admin" => &["admin"],
        other => panic!("{other} is no role"),
    };
    above.contains(&role)
}

/// Every operation as (method, path), with the role that it says it needs.
pub(crate) fn operations(document: &Value) -> BTreeMap<(String, String), String> {
    let mut all = BTreeMap::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let role = operation["x-windrow-role"].as_str();
            let role = role.unwrap_or_else(|| panic!("{method} {path} says no role"));
            let path = path.strip_prefix("/api/v1").unwrap().to_owned();
            all.insert((method.to_ascii_uppercase(), path), role.to_owned());
        }
    }
    all
}

/// The path with something in the braces that does not exist.
fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| if part.starts_with('{') { ABSENT } else { part });
    parts.collect::<Vec<_>>().join("/")
}

#[test]
fn every_route_is_listed_with_the_role_it_needs() {
    let data = Data::new("listed");
    let server = Server::start(&store_in(&data));
    let document = server.get("/api/v1/openapi.json", None).json();
    let page = format!("{}/../../docs/reference/auth.md", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(page).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let mut expected: Vec<String> = Vec::new();
    for ((method, path), role) in operations(&document) {
        expected.push(format!("| `{method} {path}` | {role} |"));
    }
    for row in &expected {
        let is_listed = rows.iter().any(|listed| listed.starts_with(row.as_str()));
        assert!(is_listed, "docs/reference/auth.md does not list this route; add the row\n{row}");
    }
    for row in rows.iter().filter(|row| row.contains(" /") && !row.contains("` | (")) {
        let exists = expected.iter().any(|expected| row.starts_with(expected.as_str()));
        assert!(exists, "docs/reference/auth.md lists what does not exist:\n{row}");
    }
}

#[test]
fn every_route_asks_every_caller_for_its_role() {
    let data = Data::new("matrix");
    let store = store_in(&data);
    let admin = create(&store, &["--role", "admin"]);
    let server = Server::start(&store);
    let admin = Some(admin.as_str());
    let document = server.get("/api/v1/openapi.json", admin).json();
    let token = |role: &str| server.token(admin, &json!({"role": role}));
    let by_role: BTreeMap<&str, String> =
        ROLES.into_iter().map(|role| (role, token(role))).collect();

    let revoked = token("admin");
    let gone = server.send("DELETE", &format!("/api/v1/tokens/{}", id(&revoked)), admin, "");
    assert_eq!(gone.status, 200, "{}", gone.text);
    let expired = server.token(admin, &json!({"role": "admin", "expires_in_ms": 1}));
    let known = by_role["admin"].clone();
    let wrong =
        format!("{}{}", &known[..known.len() - 1], if known.ends_with('0') { 1 } else { 0 });
    let secretless = format!("wr_{}_", id(&known));
    let strangers = [
        None,
        Some(""),
        Some("wr_0011223344556677_00"),
        Some(wrong.as_str()),
        Some(secretless.as_str()),
        Some(revoked.as_str()),
        Some(expired.as_str()),
    ];

    let mut asked = 0;
    for ((method, path), needs) in operations(&document) {
        for base in ["/api/v1", "/api"] {
            let url = format!("{base}{}", filled(&path));
            let mut bodies = Vec::new();
            for stranger in strangers {
                let reply = server.send(&method, &url, stranger, "{}");
                reply.is(401, "unauthorized");
                bodies.push(reply.text);
                asked += 1;
            }
            bodies.dedup();
            // Who showed a token learns that it opens nothing, and not why.
            assert_eq!(bodies.len(), 2, "one for no token, one for any: {bodies:?}");
            for role in ROLES {
                let reply = server.send(&method, &url, Some(&by_role[role]), "{}");
                asked += 1;
                let case = format!("{role}: {method} {url}: {} {}", reply.status, reply.text);
                if may(role, &needs) {
                    assert!(![401, 403].contains(&reply.status) && reply.status < 500, "{case}");
                } else {
                    assert_eq!(reply.status, 403, "{case}");
                    reply.is(403, "forbidden");
                }
            }
        }
    }
    assert!(asked >= 2 * 12 * 18, "there are routes: {asked}");
}

/// Pages of the console, with the least role that sees them.
const PAGES: [(&str, &str); 13] = [
    ("/", "viewer"),
    ("/queue", "viewer"),
    ("/history", "viewer"),
    ("/workers", "viewer"),
    ("/schedules", "viewer"),
    ("/documents", "viewer"),
    ("/documents/graph", "viewer"),
    ("/search", "viewer"),
    ("/sources", "viewer"),
    ("/live?page=queue", "viewer"),
    ("/admin/queue-monitor", "operator"),
    ("/admin/system", "operator"),
    ("/admin/settings", "operator"),
];

/// Whoever may not come in is asked who they are, and whoever may not see it is told so in a page.
/// A form that no page of ours sent is refused, whoever sends it.
#[test]
fn pages_ask_who_one_is_and_show_what_the_role_may_see() {
    let data = Data::new("pages");
    let store = store_in(&data);
    let admin = create(&store, &["--role", "admin"]);
    let viewer = create(&store, &["--role", "viewer"]);
    let operator = create(&store, &["--role", "operator"]);
    let server = Server::start(&store);
    for (page, least) in PAGES {
        let stranger = server.get(page, None);
        assert_eq!(stranger.status, 303, "{page}");
        // From where the page is, so that it holds below any path.
        let sign_in = stranger.headers.contains("location: ./sign-in?to=")
            || stranger.headers.contains("location: ../sign-in?to=")
            || (page == "/" && stranger.headers.contains("location: ./sign-in"));
        assert!(sign_in, "{page}: {}", stranger.headers);
        if page.starts_with("/live") {
            continue;
        }
        let of_viewer = server.get(page, Some(&viewer)).status;
        let is_seen = matches!(of_viewer, 200 | 303);
        assert_eq!(is_seen, least == "viewer", "{page}: {of_viewer}");
        assert!(is_seen || of_viewer == 403, "{page}: {of_viewer}");
        assert!(matches!(server.get(page, Some(&operator)).status, 200 | 303), "{page}");
    }
    for press in ["/act", "/operations", "/operations/confirm", "/admin/rate", "/admin/tokens"] {
        let sent = server.send("POST", press, Some(&admin), "do=DELETE+%2Fqueue%2Fx");
        assert_eq!(sent.status, 403, "{press}");
        assert!(sent.text.contains("not sent by a page of this server"), "{}", sent.text);
    }
    for open in ["/sign-in", "/assets/console.css", "/assets/console.js", "/assets/mark.svg"] {
        assert_eq!(server.get(open, None).status, 200, "{open}");
    }
}

#[test]
fn what_is_no_operation_asks_too() {
    let data = Data::new("plain");
    let store = store_in(&data);
    let admin = create(&store, &["--role", "admin"]);
    let viewer = create(&store, &["--role", "viewer", "--tenant", "a"]);
    let server = Server::start(&store);
    for path in ["/healthz", "/readyz"] {
        assert_eq!(server.get(path, None).status, 200, "{path}");
    }
    for path in [
        "/docs",
        "/docs/errors",
        "/docs/errors/invalid.md",
        "/api/v1/openapi.json",
        "/nothing",
        "/api/v1/nothing",
    ] {
        server.get(path, None).is(401, "unauthorized");
    }
    assert_eq!(server.get("/docs", Some(&viewer)).status, 200);
    server.get("/nothing", Some(&viewer)).is(404, "not_found");
    let reply = server.get("/api/v1/claims", Some(&admin));
    reply.is(405, "method_not_allowed");
    assert!(reply.headers.contains("allow: post"), "{}", reply.headers);
    assert_eq!(server.send("HEAD", "/api/v1/queue/stats", Some(&viewer), "").status, 200);
    server.send("OPTIONS", "/api/v1/queue/stats", None, "").is(401, "unauthorized");
}
