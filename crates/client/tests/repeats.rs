//! What the client sends again, and what it does not: against a server that does as it is told,
//! because a real one cannot be made to lose an answer on purpose.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use windrow_client::http::Client;
use windrow_client::{Options, Token};
use windrow_core::command::{Claim, NewItem};
use windrow_core::item::Body;
use windrow_core::queue::{Error, Queue as _};
use windrow_core::{ItemId, RequestId};

const CREATED: &str = r#"[{"id":"019a1e54-ab99-70c0-8368-704973772be1","outcome":"created"}]"#;

/// What a connection does with the next request.
#[derive(Clone, Copy)]
enum Act {
    Answer(&'static str, &'static str),
    /// Reads the request and hangs up.
    HangUp,
}

/// Acts once per request, and tells what it was sent.
async fn server(acts: Vec<Act>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let mut heard = Vec::new();
        let mut acts = acts.into_iter().peekable();
        while acts.peek().is_some() {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = BufReader::new(stream);
            while acts.peek().is_some() {
                let Some(request) = request(&mut stream).await else { break };
                heard.push(request);
                match acts.next().unwrap() {
                    Act::HangUp => break,
                    Act::Answer(head, body) => {
                        let reply =
                            format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                        stream.get_mut().write_all(reply.as_bytes()).await.unwrap();
                    }
                }
            }
        }
        heard
    });
    (url, serving)
}

/// A request, whole; none if the client went away.
async fn request(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut text = String::new();
    while !text.ends_with("\r\n\r\n") {
        if stream.read_line(&mut text).await.unwrap() == 0 {
            return None;
        }
    }
    let length = header(&text, "content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    Some(text + &String::from_utf8(body).unwrap())
}

fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    request.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

const OK: &str = "HTTP/1.1 200 OK";

fn item() -> Vec<NewItem> {
    vec![NewItem::new(Body::new("t", "q"))]
}

fn patient(url: &str) -> Client {
    Client::new(url, Options { within: Duration::from_secs(20), ..Options::default() }).unwrap()
}

fn hasty(url: &str) -> Client {
    Client::new(url, Options { within: Duration::ZERO, ..Options::default() }).unwrap()
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_under_the_same_id() {
    let (url, serving) = server(vec![Act::HangUp, Act::Answer(OK, CREATED)]).await;
    let each = patient(&url).enqueue(item(), None).await.unwrap();
    assert!(each[0].is_ok());
    let heard = serving.await.unwrap();
    let ids: Vec<_> = heard.iter().map(|one| header(one, "idempotency-key")).collect();
    assert!(ids[0].is_some() && ids[0] == ids[1], "{ids:?}");
    assert!(heard[0].starts_with("POST /api/v1/items HTTP/1.1"), "{}", heard[0]);
}

#[tokio::test]
async fn a_callers_own_id_is_sent_and_calls_without_one_get_different_ones() {
    let acts = vec![Act::Answer(OK, CREATED); 3];
    let (url, serving) = server(acts).await;
    let client = patient(&url);
    client.enqueue(item(), Some(RequestId(7))).await.unwrap();
    client.enqueue(item(), None).await.unwrap();
    client.enqueue(item(), None).await.unwrap();
    let heard = serving.await.unwrap();
    let ids: Vec<_> = heard.iter().map(|one| header(one, "idempotency-key").unwrap()).collect();
    assert_eq!(ids[0], RequestId(7).to_string());
    assert!(ids[1] != ids[2] && ids[1] != ids[0], "{ids:?}");
}

#[tokio::test]
async fn a_busy_or_stopping_server_is_asked_again() {
    let busy = r#"{"code":"overloaded","detail":"much","retry_after_ms":1}"#;
    let stopping = r#"{"code":"stopping","detail":"bye","retry_after_ms":1}"#;
    let acts = vec![
        Act::Answer("HTTP/1.1 429 Too Many Requests", busy),
        Act::Answer("HTTP/1.1 503 Service Unavailable", stopping),
        Act::Answer(OK, r#"{"lease":null,"expires_at":null,"items":[]}"#),
    ];
    let (url, serving) = server(acts).await;
    let claimed = patient(&url).claim(Claim::new("w", "q", 1), 0, None).await;
    assert_eq!(claimed, Ok(None));
    assert_eq!(serving.await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_refusal_is_not_asked_again() {
    let lost = r#"{"code":"not_found","detail":"there is no such item"}"#;
    let (url, serving) = server(vec![Act::Answer("HTTP/1.1 404 Not Found", lost)]).await;
    let error = patient(&url).cancel(ItemId(1), None).await.unwrap_err();
    assert_eq!(error.code(), Some("not_found"));
    assert_eq!(serving.await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_known_is_said_to_be_unknown() {
    let (url, serving) = server(vec![Act::HangUp]).await;
    let error = hasty(&url).enqueue(item(), None).await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error}");
    serving.await.unwrap();
    let (url, serving) = server(vec![Act::HangUp]).await;
    let error = hasty(&url).inspect(ItemId(1)).await.unwrap_err();
    assert!(matches!(error, Error::NotApplied(_)), "{error}");
    serving.await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_not_there_took_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = hasty(&url).enqueue(item(), None).await.unwrap_err();
    assert!(matches!(&error, Error::NotApplied(why) if why.contains(&url)), "{error}");
}

#[tokio::test]
async fn a_busy_server_is_reported_in_the_end() {
    let busy = r#"{"code":"overloaded","detail":"much","retry_after_ms":700}"#;
    let (url, serving) = server(vec![Act::Answer("HTTP/1.1 429 Too Many", busy)]).await;
    let error = hasty(&url).enqueue(item(), None).await.unwrap_err();
    assert_eq!(error, Error::Overloaded { retry_after_ms: 700 });
    serving.await.unwrap();
}

#[tokio::test]
async fn an_answer_of_something_in_between_is_not_taken_for_a_refusal() {
    let (url, serving) = server(vec![Act::Answer("HTTP/1.1 502 Bad Gateway", "<html>")]).await;
    let error = hasty(&url).enqueue(item(), None).await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error}");
    serving.await.unwrap();
}

#[tokio::test]
async fn a_token_is_sent_with_every_request() {
    let (url, serving) = server(vec![Act::Answer(OK, CREATED)]).await;
    let token = Some(Token::new("s3cret").unwrap());
    let client = Client::new(&url, Options { token, ..Options::default() }).unwrap();
    client.enqueue(item(), None).await.unwrap();
    let heard = serving.await.unwrap();
    assert_eq!(header(&heard[0], "authorization"), Some("Bearer s3cret"));
    assert!(!format!("{client:?}").contains("s3cret"));
}
