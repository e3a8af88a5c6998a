//! What goes to a Qdrant and what is believed of its answers, to the byte.
//!
//! The expectations are written from Qdrant's public API reference. A real one runs the suite where
//! `WINDROW_TEST_QDRANT_URL` names it.

use std::pin::Pin;

use libtest_mimic::Trial;
use uuid::Uuid;
use windrow_pipelines::adapters::endpoint::Key;
use windrow_pipelines::adapters::vectors::qdrant::{Options, Qdrant};
use windrow_pipelines::adapters::vectors::{Filter, Live, Point, Vectors as _, VectorsError};

use crate::bases::runtime;
use crate::scripted::{Answer, Server};

pub(crate) fn trials() -> Vec<Trial> {
    type Case = (&'static str, fn() -> Pin<Box<dyn Future<Output = ()>>>);
    macro_rules! cases {
        ($($name:ident),* $(,)?) => { vec![$((stringify!($name), || Box::pin($name()))),*] };
    }
    let cases: Vec<Case> = cases![
        the_first_put_makes_a_collection_with_its_indexes,
        what_is_known_is_not_asked_again_and_points_go_in_batches,
        a_search_sends_its_filter_and_reads_the_nearest,
        removals_go_to_every_collection_of_ours,
        points_are_counted_exactly,
        another_dimension_is_looked_for_and_refused,
        a_collection_that_another_process_makes_is_waited_for,
        a_collection_that_was_dropped_is_made_again,
        the_key_is_sent_and_never_shown,
        whose_fault_a_refusal_is_is_told_by_its_status,
        an_answer_that_is_none_is_not_believed,
    ];
    let trial = |(name, case): Case| {
        Trial::test(format!("qdrant::wire::{name}"), move || {
            runtime().block_on(case());
            Ok(())
        })
    };
    cases.into_iter().map(trial).collect()
}

const DONE: &str = r#"{"operation_id":7,"status":"completed"}"#;

fn store(server: &Server) -> Qdrant {
    Qdrant::new(Options::new(server.url(), "tiny@1")).unwrap()
}

/// What a Qdrant lists.
fn listed(names: &[&str]) -> Answer {
    let named: Vec<String> = names.iter().map(|name| format!(r#"{{"name":"{name}"}}"#)).collect();
    Answer::ok(&format!(r#"{{"collections":[{}]}}"#, named.join(",")))
}

fn point(n: u8) -> Point {
    Point {
        id: [n; 16],
        document: Uuid::from_u128(0xd0c),
        generation: 3,
        page: 2,
        tenant: "acme".into(),
        collection: "papers".into(),
    }
}

/// A body over several lines, as one: line breaks and what lines begin with are not sent.
fn flat(body: &str) -> String {
    body.lines().map(str::trim_start).collect()
}

/// The document of all points.
const DOCUMENT: &str = "00000000-0000-0000-0000-000000000d0c";

/// What stands beside the vector of each point.
fn payload() -> String {
    flat(&format!(
        r#"{{"tenant":"acme","collection":"papers","document":"{DOCUMENT}","generation":3,
        "page":2,"at":"{DOCUMENT}/3"}}"#
    ))
}

/// A point as it is sent.
fn sent(n: u8, vector: &str) -> String {
    let (id, payload) = (Uuid::from_bytes([n; 16]), payload());
    format!(r#"{{"id":"{id}","vector":{vector},"payload":{payload}}}"#)
}

/// The answers to a first put.
fn making() -> Vec<Answer> {
    let mut answers = vec![listed(&[]), Answer::ok("true")];
    answers.extend(std::iter::repeat_n(Answer::ok(DONE), 5));
    answers
}

async fn the_first_put_makes_a_collection_with_its_indexes() {
    let server = Server::start(making()).await;
    store(&server).put(&[(point(1), vec![0.6, -0.8])]).await.unwrap();
    let index = "PUT /collections/windrow_tiny@1_2/index?wait=true";
    server.was_asked(&[
        ("GET /collections", ""),
        ("PUT /collections/windrow_tiny@1_2", r#"{"vectors":{"size":2,"distance":"Cosine"}}"#),
        (index, r#"{"field_name":"tenant","field_schema":{"type":"keyword","is_tenant":true}}"#),
        (index, r#"{"field_name":"collection","field_schema":{"type":"keyword"}}"#),
        (index, r#"{"field_name":"document","field_schema":{"type":"keyword"}}"#),
        (index, r#"{"field_name":"at","field_schema":{"type":"keyword"}}"#),
        (
            "PUT /collections/windrow_tiny@1_2/points?wait=true",
            &format!(r#"{{"points":[{}]}}"#, sent(1, "[0.6,-0.8]")),
        ),
    ]);
}

async fn what_is_known_is_not_asked_again_and_points_go_in_batches() {
    let more = std::iter::repeat_n(Answer::ok(DONE), 3);
    let server = Server::start(making().into_iter().chain(more)).await;
    let options = Options { batch_max: 2, ..Options::new(server.url() + "/", "tiny@1") };
    let store = Qdrant::new(options).unwrap();
    store.put(&[(point(9), vec![1.0])]).await.unwrap();
    assert_eq!(server.take().len(), 7);
    // In the order of their ids, and of two with one id the last.
    let mut points = [5, 1, 4, 2, 3, 1].map(|n| (point(n), vec![1.0]));
    points[1].1 = vec![-1.0];
    store.put(&points).await.unwrap();
    let put = "PUT /collections/windrow_tiny@1_1/points?wait=true";
    let one = |n| sent(n, "[1.0]");
    server.was_asked(&[
        (put, &format!(r#"{{"points":[{},{}]}}"#, one(1), one(2))),
        (put, &format!(r#"{{"points":[{},{}]}}"#, one(3), one(4))),
        (put, &format!(r#"{{"points":[{}]}}"#, one(5))),
    ]);
}

async fn a_search_sends_its_filter_and_reads_the_nearest() {
    let found = |n: u8, score: &str| {
        let (id, payload) = (Uuid::from_bytes([n; 16]), payload());
        format!(r#"{{"id":"{id}","version":4,"score":{score},"payload":{payload}}}"#)
    };
    let points = [found(7, "0.5"), found(3, "0.5"), found(9, "0.25")].join(",");
    let found = Answer::ok(&format!(r#"{{"points":[{points}]}}"#));
    let there = || listed(&["notes", "windrow_tiny@1_2", "windrow_x"]);
    let server = Server::start([there(), found.clone(), there(), found]).await;
    let store = store(&server);
    let document = Uuid::from_u128(0xd0c);
    let filter = Filter {
        tenant: Some("acme".into()),
        collection: Some("pa\"pers".into()),
        document: Some(document),
        live: Some(std::sync::Arc::new(Live::from([(document, 3), (document, 12)]))),
    };
    let hits = store.search(&[1.0, 0.0], &filter, 3).await.unwrap();
    let expected = [(point(3), 0.5), (point(7), 0.5), (point(9), 0.25)];
    assert_eq!(hits.into_iter().map(|hit| (hit.point, hit.score)).collect::<Vec<_>>(), expected);
    store.search(&[1.0, 0.0], &Filter::default(), 5).await.unwrap();
    let query = "POST /collections/windrow_tiny@1_2/points/query";
    let filtered = flat(&format!(
        r#"{{"query":[1.0,0.0],"filter":{{"must":[
        {{"key":"tenant","match":{{"value":"acme"}}}},
        {{"key":"collection","match":{{"value":"pa\"pers"}}}},
        {{"key":"document","match":{{"value":"{DOCUMENT}"}}}},
        {{"key":"at","match":{{"any":["{DOCUMENT}/12","{DOCUMENT}/3"]}}}}
        ]}},"limit":3,"with_payload":true}}"#
    ));
    server.was_asked(&[
        ("GET /collections", ""),
        (query, &filtered),
        ("GET /collections", ""),
        (query, r#"{"query":[1.0,0.0],"limit":5,"with_payload":true}"#),
    ]);
    // Nothing can be found, so nothing is asked.
    let none = Filter { live: Some(Default::default()), ..Filter::default() };
    assert_eq!(store.search(&[1.0, 0.0], &none, 5).await, Ok(Vec::new()));
    assert_eq!(store.search(&[1.0, 0.0], &Filter::default(), 0).await, Ok(Vec::new()));
    assert_eq!(store.count(&none).await, Ok(0));
    server.was_asked(&[]);
}

async fn removals_go_to_every_collection_of_ours() {
    let there = listed(&["windrow_tiny@1_2", "other", "windrow_big@3_768"]);
    let done = || Answer::ok(DONE);
    let answers = [there.clone(), done(), done(), there.clone(), done(), done(), there, done()];
    let server = Server::start(answers.into_iter().chain([done()])).await;
    let store = store(&server);
    let document = Uuid::from_u128(0xd0c);
    let one = "POST /collections/windrow_tiny@1_2/points/delete?wait=true";
    let other = "POST /collections/windrow_big@3_768/points/delete?wait=true";
    store.remove_generation(document, 3).await.unwrap();
    let by = |key: &str, value: &str| {
        format!(r#"{{"filter":{{"must":[{{"key":"{key}","match":{{"value":"{value}"}}}}]}}}}"#)
    };
    let body = by("at", &format!("{DOCUMENT}/3"));
    server.was_asked(&[("GET /collections", ""), (one, &body), (other, &body)]);
    store.remove_document(document).await.unwrap();
    let body = by("document", DOCUMENT);
    server.was_asked(&[("GET /collections", ""), (one, &body), (other, &body)]);
    store.remove_chunks(&[[1; 16], [2; 16]]).await.unwrap();
    let body = flat(
        r#"{"points":["01010101-0101-0101-0101-010101010101",
        "02020202-0202-0202-0202-020202020202"]}"#,
    );
    server.was_asked(&[("GET /collections", ""), (one, &body), (other, &body)]);
    store.remove_chunks(&[]).await.unwrap();
    server.was_asked(&[]);
}

async fn points_are_counted_exactly() {
    let there = listed(&["windrow_tiny@1_2", "windrow_big@3_768"]);
    let counted = |n: u64| Answer::ok(&format!(r#"{{"count":{n}}}"#));
    let server = Server::start([there.clone(), counted(40), counted(2), there, counted(0)]).await;
    let store = store(&server);
    assert_eq!(store.count(&Filter::default()).await, Ok(42));
    let of_tenant = Filter { tenant: Some("acme".into()), ..Filter::default() };
    let error = store.count(&of_tenant).await.unwrap_err();
    assert!(matches!(error, VectorsError::Transient { .. }), "half of it is nothing: {error:?}");
    let one = "POST /collections/windrow_tiny@1_2/points/count";
    let other = "POST /collections/windrow_big@3_768/points/count";
    let all = r#"{"exact":true}"#;
    let some = r#"{"filter":{"must":[{"key":"tenant","match":{"value":"acme"}}]},"exact":true}"#;
    server.was_asked(&[
        ("GET /collections", ""),
        (one, all),
        (other, all),
        ("GET /collections", ""),
        (one, some),
        (other, some),
    ]);
}

async fn another_dimension_is_looked_for_and_refused() {
    let there = listed(&["windrow_tiny@1_2", "windrow_big@3_768"]);
    let one = format!(r#"{{"points":[{{"id":"{}","payload":{}}}]}}"#, Uuid::nil(), payload());
    let (one, none) = (Answer::ok(&one), Answer::ok(r#"{"points":[],"next_page_offset":null}"#));
    let answers = [there.clone(), one.clone(), there, none, one];
    let server = Server::start(answers).await;
    let store = store(&server);
    let misfit = |holds, given| VectorsError::Dimension {
        tenant: "acme".into(),
        collection: "papers".into(),
        holds,
        given,
    };
    assert_eq!(store.put(&[(point(1), vec![1.0, 0.0])]).await, Err(misfit(768, 2)));
    let scroll = flat(
        r#"{"filter":{"must":[{"key":"tenant","match":{"value":"acme"}},
        {"key":"collection","match":{"value":"papers"}}]},"limit":1,"with_payload":true}"#,
    );
    let big = "POST /collections/windrow_big@3_768/points/scroll";
    server.was_asked(&[("GET /collections", ""), (big, &scroll)]);
    let of_tenant = Filter { tenant: Some("acme".into()), ..Filter::default() };
    assert_eq!(store.search(&[1.0, 0.0, 0.0], &of_tenant, 4).await, Err(misfit(768, 3)));
    let scroll = flat(
        r#"{"filter":{"must":[{"key":"tenant","match":{"value":"acme"}}]},
        "limit":1,"with_payload":true}"#,
    );
    let small = "POST /collections/windrow_tiny@1_2/points/scroll";
    server.was_asked(&[("GET /collections", ""), (small, &scroll), (big, &scroll)]);
}

async fn a_collection_that_another_process_makes_is_waited_for() {
    let exists =
        || Answer::error(409, "Wrong input: Collection `windrow_tiny@1_1` already exists!");
    let not_yet = || Answer::error(500, "Service internal error: 0 of 0 read operations failed");
    let mut answers = vec![listed(&[]), exists(), not_yet(), Answer::ok(r#"{"count":0}"#)];
    answers.extend(std::iter::repeat_n(Answer::ok(DONE), 5));
    let server = Server::start(answers).await;
    store(&server).put(&[(point(1), vec![1.0])]).await.unwrap();
    assert_eq!(server.left(), 0);
    // One that never is there is an outage.
    let never = [listed(&[]), exists()].into_iter().chain(std::iter::repeat_n(not_yet(), 6));
    let server = Server::start(never).await;
    let error = store(&server).put(&[(point(1), vec![1.0])]).await.unwrap_err();
    assert!(matches!(&error, VectorsError::Transient { why, .. } if why.contains("0 of 0")));
    assert_eq!(server.left(), 0);
}

async fn a_collection_that_was_dropped_is_made_again() {
    let gone = Answer::error(404, "Not found: Collection `windrow_tiny@1_1` doesn't exist!");
    let answers = making().into_iter().chain([gone]).chain(making());
    let server = Server::start(answers).await;
    let store = store(&server);
    let points = [(point(1), vec![1.0])];
    store.put(&points).await.unwrap();
    let error = store.put(&points).await.unwrap_err();
    assert!(matches!(error, VectorsError::Transient { .. }), "{error:?}");
    store.put(&points).await.unwrap();
    assert_eq!(server.left(), 0);
}

async fn the_key_is_sent_and_never_shown() {
    let server = Server::start([Answer::error(403, "hunter22 may not")]).await;
    let mut options = Options::new(server.url(), "tiny@1");
    options.endpoint.key = Some(Key::new("hunter22").unwrap());
    let store = Qdrant::new(options).unwrap();
    let error = store.count(&Filter::default()).await.unwrap_err();
    let (shown, debug) = (error.to_string(), format!("{store:?}"));
    assert!(shown.contains("refuses our key (403)") && shown.contains("may not"), "{shown}");
    assert!(!shown.contains("hunter22") && !debug.contains("hunter22"), "{shown} {debug}");
    let port = server.url().rsplit(':').next().unwrap().to_owned();
    let version = env!("CARGO_PKG_VERSION");
    let head = format!(
        "GET /collections HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nuser-agent: windrow/{version}\r\n\
         content-type: application/json\r\napi-key: hunter22\r\n\r\n"
    );
    assert_eq!(server.take(), [(head, String::new())]);
}

async fn whose_fault_a_refusal_is_is_told_by_its_status() {
    for (status, headers, is_bad, retry_after_ms) in [
        (400, "", true, None),
        (422, "", true, None),
        (401, "", false, None),
        (429, "retry-after: 3\r\n", false, Some(3_000)),
        (500, "", false, None),
        (503, "retry-after-ms: 1020\r\n", false, Some(1_020)),
    ] {
        let refused = Answer { headers, ..Answer::error(status, "so it is") };
        let server = Server::start([listed(&["windrow_tiny@1_1"]), refused]).await;
        let error = store(&server).search(&[1.0], &Filter::default(), 1).await.unwrap_err();
        let shown = error.to_string();
        assert!(shown.contains("so it is") && shown.contains(&status.to_string()), "{shown}");
        match error {
            VectorsError::Bad { .. } => assert!(is_bad, "{shown}"),
            VectorsError::Transient { retry_after_ms: told, .. } => {
                assert_eq!((is_bad, told), (false, retry_after_ms), "{shown}");
            }
            other => panic!("{other:?}"),
        }
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let nobody = Qdrant::new(Options::new(url, "tiny@1")).unwrap();
    let error = nobody.count(&Filter::default()).await.unwrap_err();
    assert!(matches!(&error, VectorsError::Transient { why, .. } if why.contains("no connection")));
    assert!(Qdrant::new(Options::new("localhost:6333", "tiny@1")).is_err());
}

async fn an_answer_that_is_none_is_not_believed() {
    let plain = |body: &str| Answer { status: 200, headers: "", body: body.to_owned() };
    for (answer, part) in [
        (plain("<h1>hello</h1>"), "not one of Qdrant's"),
        (plain("{}"), "not one of Qdrant's"),
        (Answer::ok("[]"), "not one of Qdrant's"),
    ] {
        let server = Server::start([answer]).await;
        let error = store(&server).count(&Filter::default()).await.unwrap_err();
        let VectorsError::Transient { why, .. } = error else { panic!("{error:?}") };
        assert!(why.contains(part) && why.contains(&server.url()), "{why}");
    }
    // A write that is only noted may be lost, and is not seen yet.
    let mut answers = making();
    answers.pop();
    answers.push(Answer::ok(r#"{"operation_id":7,"status":"acknowledged"}"#));
    let server = Server::start(answers).await;
    let error = store(&server).put(&[(point(1), vec![1.0])]).await.unwrap_err();
    assert!(matches!(&error, VectorsError::Transient { why, .. } if why.contains("acknowledged")));
}
