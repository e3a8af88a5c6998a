//! Tenants: what belongs to another is, in every way that can be asked, not there.

use serde_json::{Value, json};

use crate::matrix::operations;
use crate::rig::{Data, Reply, Server, create, id, store_in};

const ABSENT: &str = "01a1e554-9c99-7001-b210-29840971dd42";
const NO_LEASE: &str = "7f8cf7a9-0000-4000-8000-29840971dd42";

/// A server with an admin of everything and an operator of each of two tenants.
struct World {
    server: Server,
    admin: String,
    a: String,
    b: String,
    _data: Data,
}

impl World {
    fn new(test: &str) -> World {
        let data = Data::new(test);
        let store = store_in(&data);
        let admin = create(&store, &["--role", "admin"]);
        let a = create(&store, &["--role", "operator", "--tenant", "a", "--name", "of a"]);
        let b = create(&store, &["--role", "operator", "--tenant", "b", "--name", "of b"]);
        World { server: Server::start(&store), admin, a, b, _data: data }
    }

    fn claim(&self, token: &str, claim: Value) -> Value {
        let reply = self.server.post("/api/v1/claims", Some(token), &claim);
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()
    }
}

/// An answer without the id that was asked for.
fn without(reply: &Reply, id: &str) -> (u16, String) {
    (reply.status, reply.text.replace(id, "ID"))
}

#[test]
fn every_operation_that_takes_an_id_answers_for_a_foreign_one_as_for_none() {
    let world = World::new("foreign");
    let World { server, admin, a, b, .. } = &world;
    let document = server.get("/api/v1/openapi.json", Some(admin)).json();
    let claimed = server.enqueue(a, "a");
    let lease = world.claim(a, json!({"worker": "w"}))["lease"].as_str().unwrap().to_owned();
    let waiting = server.enqueue(a, "a");
    let wanted = json!({"verb": "retry", "filter": {"status": "failed"}});
    let operation = server.post("/api/v1/operations", Some(a), &wanted).json();
    assert_eq!(operation["filter"]["tenant"], "a", "{operation}");
    let operation = operation["id"].as_str().unwrap();
    let upload = server.post("/api/v1/blobs", Some(a), &json!({"length": 3})).json();
    let upload = upload["upload"].as_str().unwrap().to_owned();
    let daily = json!({"cron": "0 3 * * *", "item": {"queue": "q"}});
    let daily = server.send("PUT", "/api/v1/schedules/daily", Some(a), &daily.to_string());
    assert_eq!(daily.status, 200, "{daily:?}");
    let sha256 = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
    let kept = server.send("PUT", &format!("/api/v1/blobs/{sha256}"), Some(a), "x");
    assert_eq!(kept.status, 201, "{kept:?}");
    let text = json!({"name": "x.txt", "sha256": sha256});
    let text = server.post("/api/v1/documents", Some(a), &text).json();
    let text = text["id"].as_str().unwrap_or_else(|| panic!("{text}")).to_owned();
    let mut tried = 0;
    for ((method, path), _) in operations(&document) {
        let (foreign, absent) = match path.split('{').nth(1).and_then(|rest| rest.split('}').next())
        {
            None | Some("queue" | "token") => continue,
            Some("id") if path.starts_with("/operations/") => (operation, NO_LEASE),
            Some("id") if path.starts_with("/documents/") => (text.as_str(), NO_LEASE),
            Some("id") => (waiting.as_str(), ABSENT),
            Some("lease") => (lease.as_str(), NO_LEASE),
            Some("upload") => (upload.as_str(), NO_LEASE),
            // All of it is in a backup, so nobody with a tenant gets that far.
            Some("backup") => (NO_LEASE, ABSENT),
            // Each tenant has its own under the same name, or nobody with a tenant has any.
            Some("sha256" | "name" | "resource") => ("daily", "weekly"),
            Some(other) => panic!("say here whose {{{other}}} is, in {method} {path}"),
        };
        let ask = |what: &str, token: &str| {
            let path = if path.contains("{lease}") {
                path.replace("{id}", &claimed)
            } else {
                path.clone()
            };
            let name = path.split(['{', '}']).nth(1).unwrap_or_default();
            let url = format!("/api/v1{}", path.replace(&format!("{{{name}}}"), what));
            let items = match path.rsplit('/').next() {
                Some("settle") => json!({"items": [{"id": claimed, "outcome": "complete"}]}),
                Some("progress") => json!({"items": [{"id": claimed, "current": 1, "total": 2}]}),
                _ => json!({}),
            };
            server.send(&method, &url, Some(token), &items.to_string())
        };
        let (theirs, nobodys) = (ask(foreign, b), ask(absent, b));
        assert_eq!(without(&theirs, foreign), without(&nobodys, absent), "{method} {path}");
        let is_refused = match theirs.status {
            // Some are refused for what they say before anything is looked for.
            400..=499 => true,
            200 => theirs.json()[0]["error"] == "lease_lost",
            _ => false,
        };
        assert!(is_refused, "{method} {path}: {theirs:?}");
        tried += 1;
    }
    assert!(tried >= 11, "{tried}");
    assert_eq!(server.get(&format!("/api/v1/operations/{operation}"), Some(a)).status, 200);
    // Nothing happened to any of it, and to its own tenant it is all there.
    for (item, status) in [(&claimed, "processing"), (&waiting, "pending")] {
        let shown = server.get(&format!("/api/v1/queue/{item}"), Some(a)).json();
        assert_eq!(shown["status"], status, "{shown}");
    }
    let done = json!({"items": [{"id": claimed, "outcome": "complete"}]});
    let url = format!("/api/v1/leases/{lease}/settle");
    assert_eq!(server.post(&url, Some(a), &done).json()[0]["ending"], "completed");
    let url = format!("/api/v1/queue/{waiting}/cancel");
    assert_eq!(server.post(&url, Some(a), &json!({})).status, 200);
}

#[test]
fn a_lease_is_of_whoever_got_it_also_by_the_id_that_others_see() {
    let world = World::new("lease");
    let World { server, admin, a, b, .. } = &world;
    let item = server.enqueue(a, "a");
    let lease = world.claim(a, json!({"worker": "w"}))["lease"].as_str().unwrap().to_owned();
    let renew = |lease: &str, token: &str| {
        server.post(&format!("/api/v1/leases/{lease}/renew"), Some(token), &json!({}))
    };
    assert_eq!(renew(&lease, a).json()["held"], json!([item]));
    let seen = server.get(&format!("/api/v1/queue/{item}"), Some(a)).json();
    assert_eq!(seen["lease"], lease, "its own tenant sees the id it has");
    // The store's own id, which an admin sees, opens nothing for a tenant, nor the other way.
    let seen = server.get(&format!("/api/v1/queue/{item}"), Some(admin)).json();
    let real = seen["lease"].as_str().unwrap();
    assert_ne!(real, lease);
    renew(real, b).is(409, "lease_lost");
    renew(real, a).is(409, "lease_lost");
    renew(&lease, b).is(409, "lease_lost");
    renew(&lease, admin).is(409, "lease_lost");
    assert_eq!(renew(real, admin).status, 200);
    // An item of another tenant under a lease of one's own is not told from one that is not there.
    let own = server.enqueue(b, "b");
    let mine = world.claim(b, json!({"worker": "w"}));
    assert_eq!(mine["items"][0]["id"], own);
    let url = format!("/api/v1/leases/{}/settle", mine["lease"].as_str().unwrap());
    let settle = |item: &str| {
        let done = json!({"items": [{"id": item, "outcome": "complete"}]});
        server.post(&url, Some(b), &done)
    };
    assert_eq!(without(&settle(&item), &item), without(&settle(ABSENT), ABSENT));
}

#[test]
fn a_tenant_claims_counts_and_enqueues_only_its_own() {
    let world = World::new("own");
    let World { server, admin, a, b, .. } = &world;
    let of_a = server.enqueue(admin, "a");
    let of_b = server.enqueue(b, "b");
    let plain = server.post("/api/v1/queues/q/items", Some(b), &json!({}));
    let plain = plain.json()["id"].as_str().unwrap().to_owned();
    let shown = server.get(&format!("/api/v1/queue/{plain}"), Some(admin)).json();
    assert_eq!(shown["tenant"], "b", "what names no tenant is for the caller's");
    let items = "/api/v1/queues/q/items";
    server.post(items, Some(b), &json!({"tenant": "a"})).is(403, "forbidden");
    server.post(items, Some(b), &json!([{}, {"user_id": "a"}])).is(403, "forbidden");

    let stats = |token: &str, more: &str| {
        server.get(&format!("/api/v1/queue/stats{more}"), Some(token)).json()
    };
    assert_eq!((&stats(b, "")["pending"], &stats(a, "")["pending"]), (&json!(2), &json!(1)));
    assert_eq!(stats(admin, "")["pending"], 3);
    assert_eq!(stats(b, "?tenant=a"), stats(b, "?tenant=nobody"));

    let claims = "/api/v1/claims";
    let foreign = json!({"worker": "w", "tenants": ["a", "b"]});
    server.post(claims, Some(b), &foreign).is(403, "forbidden");
    let grant = world.claim(b, json!({"worker": "w", "max": 100}));
    let ids: Vec<&str> = grant["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, [of_b.as_str(), plain.as_str()]);
    let spawn = json!({"items": [{"id": of_b, "outcome": "complete",
                                  "spawn": [{"queue": "q", "tenant": "a"}]}]});
    let url = format!("/api/v1/leases/{}/settle", grant["lease"].as_str().unwrap());
    server.post(&url, Some(b), &spawn).is(403, "forbidden");
    let spawn = json!({"items": [{"id": of_b, "outcome": "complete", "spawn": [{"queue": "r"}]}]});
    assert_eq!(server.post(&url, Some(b), &spawn).json()[0]["ending"], "completed");
    assert_eq!(stats(b, "?queue=r")["queues"][0]["tenant"], "b");
    assert_eq!(world.claim(b, json!({"worker": "w"}))["items"][0]["queue"], "r");
    assert_eq!(world.claim(a, json!({"worker": "of a"}))["items"][0]["id"], of_a);

    let workers = |token: &str| server.get("/api/v1/workers", Some(token)).json();
    assert_eq!(workers(a).as_array().unwrap().len(), 1);
    assert_eq!((&workers(a)[0]["name"], &workers(b)[0]["name"]), (&json!("of a"), &json!("w")));
    assert_eq!(workers(admin).as_array().unwrap().len(), 2);
}

#[test]
fn what_is_everybodys_needs_a_token_for_everybody() {
    let world = World::new("everybody");
    let World { server, admin, a, .. } = &world;
    let pause = |body: Value| server.post("/api/v1/queues/q/pause", Some(a), &body);
    pause(json!({})).is(403, "forbidden");
    pause(json!({"stage": "work"})).is(403, "forbidden");
    pause(json!({"tenant": "b"})).is(403, "forbidden");
    assert_eq!(pause(json!({"tenant": "a"})).status, 200);
    assert_eq!(pause(json!({"tenant": "a", "stage": "none"})).json()["done"], true);
    let settings = |token: &str| {
        server.send("PUT", "/api/v1/queues/q/settings", Some(token), r#"{"max_attempts": 2}"#)
    };
    settings(a).is(403, "forbidden");
    for path in ["/api/v1/flow", "/api/v1/stages"] {
        server.get(path, Some(a)).is(403, "forbidden");
    }
    for verb in ["drain", "resume"] {
        let url = format!("/api/v1/workers/w/{verb}");
        server.post(&url, Some(a), &json!({})).is(403, "forbidden");
    }
    let scoped = server.token(Some(admin), &json!({"role": "admin", "tenant": "a"}));
    for path in ["/api/v1/tokens", "/api/v1/audit"] {
        server.get(path, Some(&scoped)).is(403, "forbidden");
    }
    server.post("/api/v1/tokens", Some(&scoped), &json!({"role": "admin"})).is(403, "forbidden");
    let url = format!("/api/v1/tokens/{}", id(admin));
    server.send("DELETE", &url, Some(&scoped), "").is(403, "forbidden");
}

#[test]
fn a_tenant_sees_its_own_failures_and_what_workers_run_for_it() {
    let world = World::new("failures");
    let World { server, admin, a, b, .. } = &world;
    for (token, tenant) in [(a, "a"), (b, "b")] {
        server.enqueue(token, tenant);
        let grant = world.claim(token, json!({"worker": "w"}));
        let url = format!("/api/v1/leases/{}/settle", grant["lease"].as_str().unwrap());
        let fail = json!({"id": grant["items"][0]["id"], "outcome": "fail", "error": tenant});
        server.post(&url, Some(token), &json!({"items": [fail]}));
    }
    let says = |token: &str| {
        let told = server.get("/api/v1/failures", Some(token)).json();
        let groups = told["groups"].as_array().unwrap();
        groups.iter().map(|group| group["says"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((says(a), says(b), says(admin).len()), (vec!["a".into()], vec!["b".into()], 2));
    // Workers of two tenants that call themselves alike.
    let (of_a, of_b) = (server.enqueue(a, "a"), server.enqueue(b, "b"));
    world.claim(a, json!({"worker": "w"}));
    world.claim(b, json!({"worker": "w"}));
    let runs = |token: &str| {
        let workers = server.get("/api/v1/workers", Some(token)).json();
        let runs = workers[0]["runs"].as_array().cloned().unwrap_or_default();
        runs.iter().map(|run| run["item"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((runs(b), runs(admin)), (vec![of_b.clone()], vec![of_a, of_b]));
}

#[test]
fn the_shapes_of_the_seeds_show_ones_own_things() {
    let world = World::new("shapes");
    let World { server, admin, a, b, .. } = &world;
    let (of_a, of_b) = (server.enqueue(a, "a"), server.enqueue(b, "b"));
    let daily = json!({"cron": "0 3 * * *", "item": {"queue": "q"}}).to_string();
    assert_eq!(server.send("PUT", "/api/v1/schedules/daily", Some(a), &daily).status, 200);
    let get = |token: &str, path: &str| server.get(&format!("/api/v1{path}"), Some(token)).json();
    let rows = |token: &str, view: &str| get(token, &format!("/views/{view}"))["rows"].clone();
    for view in ["unified_queue", "job_queue", "queue_stats"] {
        let of = |token: &str| rows(token, view);
        assert_eq!((of(b)[0]["tenant_id"].clone(), of(b)[1].clone()), (json!("b"), Value::Null));
        assert_eq!(of(admin).as_array().unwrap().len(), 2, "{view}");
    }
    assert_eq!(get(b, "/views/job_queue?tenant=a")["rows"], json!([]));
    // Whoever holds an item is shown to its tenant, also under the id that only it knows.
    world.claim(b, json!({"worker": "of b"}));
    assert_eq!(rows(b, "unified_queue")[0]["worker_id"], "of b");

    let stats = get(b, "/admin/queue/stats");
    assert_eq!(
        (&stats["queueStats"]["pending"], &stats["oldestPendingJob"]),
        (&json!(0), &Value::Null)
    );
    assert_eq!(stats["recentJobs"][0]["id"], json!(of_b));
    assert_eq!(get(a, "/admin/queue/stats")["oldestPendingJob"]["id"], json!(of_a));
    let status = get(b, "/system/status");
    let jobs = status["scheduled_jobs"].as_array().unwrap();
    assert!(jobs.iter().all(|job| job["kind"] == "own" && job["handled"].is_null()), "{status}");
    assert_eq!(get(a, "/system/status")["scheduled_jobs"][2]["name"], "daily");
    assert_eq!(status["queue_stats"]["queued"], 0);

    let settings = "/api/v1/admin/settings/queue";
    server.get(settings, Some(a)).is(403, "forbidden");
    let scoped = server.token(Some(admin), &json!({"role": "admin", "tenant": "a"}));
    server.send("PATCH", settings, Some(&scoped), "{}").is(403, "forbidden");
    for verb in ["cancel", "retry"] {
        let ask = |id: &str| {
            let path = format!("/api/v1/admin/queue/{verb}");
            server.post(&path, Some(b), &json!({ "jobId": id }))
        };
        assert_eq!(without(&ask(&of_a), &of_a), without(&ask(ABSENT), ABSENT), "{verb}");
        ask(&of_a).is(404, "not_found");
    }
    let audited = get(admin, "/audit?operation=POST%20/admin/queue/cancel");
    assert_eq!(audited["entries"], json!([]), "nothing was done");
    let own = server.post("/api/v1/admin/queue/cancel", Some(a), &json!({"jobId": of_a}));
    assert_eq!(own.json()["job"]["status"], "CANCELLED");
    let audited = get(admin, "/audit?operation=POST%20/admin/queue/cancel");
    assert_eq!(audited["entries"][0]["targets"], json!([of_a]));
}

#[test]
fn tenants_that_choose_the_same_request_id_do_not_meet() {
    let world = World::new("request");
    let World { server, a, b, .. } = &world;
    let send = |token: &str| {
        let body = r#"{"payload": 1}"#;
        let request = format!(
            "POST /api/v1/queues/q/items HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\
             authorization: bearer {token}\r\nidempotency-key: order 1\r\n\
             content-length: {}\r\n\r\n{body}",
            server.address,
            body.len()
        );
        let mut stream = std::net::TcpStream::connect(&server.address).unwrap();
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        Reply::read(&mut stream)
    };
    let (of_a, of_b) = (send(a), send(b));
    assert_eq!((of_a.status, of_b.status), (201, 201), "{of_a:?} {of_b:?}");
    assert_ne!(of_a.json()["id"], of_b.json()["id"]);
    assert_eq!(send(a).json(), of_a.json(), "a repeat gets the first answer");
}

#[test]
fn lists_and_bulk_work_are_about_ones_own_items() {
    let world = World::new("lists");
    let World { server, admin, a, b, .. } = &world;
    let (of_a, of_b) = (server.enqueue(a, "a"), server.enqueue(b, "b"));
    let settings = r#"{"live_max": 1000}"#;
    assert_eq!(server.send("PUT", "/api/v1/queues/r/settings", Some(admin), settings).status, 200);
    let pause = json!({"tenant": "a"});
    assert_eq!(server.post("/api/v1/queues/q/pause", Some(admin), &pause).status, 200);
    let ids = |token: &str, query: &str| -> Vec<String> {
        let page = server.get(&format!("/api/v1/queue{query}"), Some(token)).json();
        let items = page["items"].as_array().unwrap_or_else(|| panic!("{page}"));
        items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(b, ""), [of_b.as_str()]);
    assert_eq!(ids(b, "?tenant=b"), [of_b.as_str()]);
    assert_eq!(ids(admin, "").len(), 2);
    let none: [&str; 0] = [];
    assert_eq!(ids(b, "?tenant=a"), none);
    assert_eq!(ids(b, &format!("?q={of_a}")), none);
    assert_eq!(ids(a, &format!("?q={of_a}")), [of_a.as_str()]);
    // A lease in a list is the one that its tenant knows.
    let lease = world.claim(b, json!({"worker": "w"}))["lease"].clone();
    let row = server.get("/api/v1/queue", Some(b)).json()["items"][0].clone();
    assert_eq!(row["lease"], lease);

    let queues = |token: &str| server.get("/api/v1/queues", Some(token)).json();
    let names = |queues: &Value| -> Vec<String> {
        let names = queues.as_array().unwrap().iter().map(|queue| queue["queue"].as_str().unwrap());
        names.map(str::to_owned).collect()
    };
    assert_eq!(names(&queues(admin)), ["q", "r"]);
    assert_eq!(names(&queues(b)), ["q"]);
    assert_eq!((&queues(b)[0]["paused"], &queues(b)[0]["processing"]), (&json!([]), &json!(1)));
    assert_eq!(queues(a)[0]["paused"][0]["tenant"], "a");
    let settings = |queue: &str, token: &str| {
        server.get(&format!("/api/v1/queues/{queue}/settings"), Some(token)).json()
    };
    assert_ne!(settings("r", admin), settings("nothing", admin));
    assert_eq!(settings("r", b), settings("nothing", b));

    let begin = |token: &str, filter: Value| {
        let wanted = json!({"verb": "cancel", "filter": filter, "all": true});
        server.post("/api/v1/operations", Some(token), &wanted)
    };
    begin(b, json!({"tenant": "a"})).is(403, "forbidden");
    // Without a tenant, and with one that is empty as forms send it, its own is meant.
    for filter in [json!({}), json!({"tenant": ""})] {
        let reply = begin(b, filter);
        assert_eq!((reply.status, &reply.json()["filter"]["tenant"]), (202, &json!("b")));
        let path = format!("/api/v1/operations/{}", reply.json()["id"].as_str().unwrap());
        while server.get(&path, Some(b)).json()["state"] == "running" {}
    }
    let status = |item: &str| server.get(&format!("/api/v1/queue/{item}"), Some(admin)).json();
    assert_eq!(status(&of_b)["status"], "cancelled");
    assert_eq!(status(&of_a)["status"], "pending");
    let all = |token: &str| server.get("/api/v1/operations", Some(token)).json();
    assert_eq!(all(a), json!([]));
    assert_eq!((all(b).as_array().unwrap().len(), all(admin).as_array().unwrap().len()), (2, 2));
}

#[test]
fn a_source_is_its_tenants_to_see_and_no_tenants_to_make() {
    let world = World::new("sources");
    let World { server, admin, a, b, .. } = &world;
    let folder = Data::new("sources-of-a");
    let says = json!({"path": folder.0, "collection": "letters"}).to_string();
    let put = |token: &str, query: &str| {
        server.send("PUT", &format!("/api/v1/sources/in{query}"), Some(token), &says)
    };
    // An admin of one tenant would read with it what the machine has of others.
    let of_a = server.token(Some(admin), &json!({"role": "admin", "tenant": "a"}));
    put(&of_a, "").is(403, "forbidden");
    put(a, "").is(403, "forbidden");
    assert_eq!(put(admin, "?tenant=a").json()["tenant"], "a");
    let names = |token: &str, query: &str| -> Vec<String> {
        let all = server.get(&format!("/api/v1/sources{query}"), Some(token)).json();
        let all = all.as_array().unwrap_or_else(|| panic!("{all}")).clone();
        all.iter().map(|source| source["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((names(a, ""), names(admin, "?tenant=a")), (vec!["in".into()], vec!["in".into()]));
    assert_eq!((names(b, ""), names(b, "?tenant=a")), (vec![], vec![]));
    assert_eq!(names(admin, "?tenant=b"), Vec::<String>::new());
    server.get("/api/v1/sources/in", Some(b)).is(404, "not_found");
    server.get("/api/v1/sources/in?tenant=a", Some(b)).is(403, "forbidden");
    let of_b = server.token(Some(admin), &json!({"role": "admin", "tenant": "b"}));
    for (method, path) in
        [("POST", "/pause"), ("POST", "/resume"), ("POST", "/rescan"), ("DELETE", "")]
    {
        let url = format!("/api/v1/sources/in{path}");
        server.send(method, &url, Some(&of_b), "{}").is(404, "not_found");
        server.send(method, &format!("{url}?tenant=a"), Some(&of_b), "{}").is(403, "forbidden");
    }
    let paused = server.post("/api/v1/sources/in/pause", Some(&of_a), &json!({}));
    assert_eq!(paused.json()["state"], "paused");
    assert_eq!(server.send("DELETE", "/api/v1/sources/in", Some(&of_a), "").status, 200);
    assert_eq!(names(admin, ""), Vec::<String>::new());
}

/// What a stage that is done elsewhere reads and writes is its own tenant's, whatever it names.
#[test]
fn a_worker_of_one_tenant_gets_at_no_pages_of_another() {
    let world = World::new("stage-calls");
    let World { server, a, b, .. } = &world;
    let sha256 = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
    let kept = server.send("PUT", &format!("/api/v1/blobs/{sha256}"), Some(a), "x");
    assert_eq!(kept.status, 201, "{kept:?}");
    let text = json!({"name": "x.txt", "sha256": sha256});
    let text = server.post("/api/v1/documents", Some(a), &text).json();
    let id = text["id"].as_str().unwrap_or_else(|| panic!("{text}")).to_owned();
    let shown = || server.get(&format!("/api/v1/documents/{id}"), Some(a)).json();
    while shown()["state"] != "live" {
        world.claim(a, json!({"queues": ["nowhere"], "worker": "clock", "wait_ms": 50}));
    }
    let page = json!({"document": id, "generation": 1, "number": 1});
    let call = |token: &str, tenant: &str, call: Value| {
        let call = json!({"tenant": tenant, "call": call});
        server.post("/api/v1/documents/stage-calls?version=1", Some(token), &call)
    };
    let outcome = json!({"without": {"reason": "it was torn out"}});
    let put = json!({"write": {"put_page": {"page": page, "outcome": outcome}}});
    let read = json!({"read": {"markdown": {"page": page}}});
    let of = json!({"document": id, "generation": 1});
    let writes = [
        put.clone(),
        json!({"write": {"begin_pages": {"of": of, "pages": 7}}}),
        json!({"write": {"fail_generation": {"of": of, "why": "no"}}}),
        json!({"write": {"put_chunks": {"page": page, "chunks": []}}}),
        json!({"write": {"publish": {"of": of}}}),
        json!({"write": {"remove_generation": {"of": of}}}),
        json!({"write": {"remove_document": {"document": id}}}),
    ];
    for write in &writes {
        let forbidden = call(b, "a", write.clone());
        forbidden.is(403, "forbidden");
        let gone = call(b, "b", write.clone());
        assert_eq!(gone.status, 200, "{gone:?}");
        assert!(gone.json()["gone"].is_object(), "{write}: {}", gone.text);
    }
    call(b, "a", read.clone()).is(403, "forbidden");
    assert_eq!(call(b, "b", read.clone()).json(), json!({"markdown": {"markdown": null}}));
    let chunks = server.get(&format!("/api/v1/documents/{id}/pages/1"), Some(a)).json();
    let chunk = chunks["chunks"][0]["id"].as_str().unwrap_or_else(|| panic!("{chunks}")).to_owned();
    let pieces = json!({"read": {"pieces": {"chunks": [chunk]}}});
    assert_eq!(call(b, "b", pieces.clone()).json(), json!({"pieces": []}));
    let graph = json!({"chunk": chunk, "entities": [], "relationships": []});
    let graph = call(b, "b", json!({"write": {"put_graph": graph}}));
    assert!(graph.json()["gone"].is_object(), "{}", graph.text);
    let (state, markdown) = (shown()["state"].clone(), call(a, "a", read.clone()).json());
    assert_eq!((state, markdown), (json!("live"), json!({"markdown": {"markdown": "x\n"}})));

    // What a tenant may do with its own, so that the test could fail.
    assert_eq!(call(a, "a", pieces).json()["pieces"][0]["text"], "x");
    assert_eq!(call(a, "a", put).json(), json!("done"));
    assert_eq!(call(a, "a", read).json(), json!({"markdown": {"markdown": null}}));
    // Nor does a worker remove what nobody let go.
    let refused = call(a, "a", json!({"write": {"remove_generation": {"of": of}}}));
    assert!(refused.json()["bad"].is_object(), "{}", refused.text);
    let refused = call(a, "a", json!({"write": {"remove_document": {"document": id}}}));
    assert_eq!(refused.json(), json!({"removed": false}), "{}", refused.text);
}
