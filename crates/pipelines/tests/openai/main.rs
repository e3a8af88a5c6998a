//! A model behind an endpoint, scripted on a real socket: what is asked, what is believed, and
//! whose fault is what goes wrong.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod chat;
mod server;
mod tls;
mod vision;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use windrow_pipelines::adapters::embed::openai::{OpenAi, Options};
use windrow_pipelines::adapters::embed::{EmbedError, Embedded, Embedder, embed_all};
use windrow_pipelines::adapters::endpoint::Key;

use self::server::{Answer, Asked, Script, Server, vectors};

fn model(base: &str, change: impl FnOnce(&mut Options)) -> OpenAi {
    let mut options = Options::new("tiny");
    change(&mut options);
    OpenAi::new(base, options).unwrap()
}

/// What the server's vector for a text becomes.
fn vector(text: &str) -> Vec<f32> {
    let length = text.len() as f64;
    let whole = (length * length + 1.0).sqrt();
    vec![(length / whole) as f32, (1.0 / whole) as f32, 0.0]
}

#[track_caller]
fn transient(one: &Embedded) -> (&str, Option<u64>) {
    match one {
        Err(EmbedError::Transient { why, retry_after_ms }) => (why, *retry_after_ms),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn bad(one: &Embedded) -> &str {
    match one {
        Err(EmbedError::Bad { why }) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn texts_become_vectors_of_length_one_in_their_order() {
    let server = Server::start(|asked| {
        let mut data: Vec<_> = asked.texts().iter().map(|text| text.len()).enumerate().collect();
        data.reverse();
        let one = |(index, length)| json!({"index": index, "embedding": [length, 1, 0]});
        Answer::json(&json!({"data": data.into_iter().map(one).collect::<Vec<_>>()}))
    });
    let server = server.await;
    let model = model(&server.base(), |options| {
        options.endpoint.key = Some(Key::new("sk-secret").unwrap());
    });
    assert_eq!(model.dimension(), None);
    let all = model.embed(&["a", "bb", "dddd"]).await;
    assert_eq!(all, [Ok(vector("a")), Ok(vector("bb")), Ok(vector("dddd"))]);
    assert_eq!((model.name(), model.version(), model.dimension()), ("tiny", "1", Some(3)));
    let asked = &server.asked()[0];
    assert!(asked.head.starts_with("POST /v1/embeddings HTTP/1.1\r\n"), "{}", asked.head);
    assert!(asked.head.contains("authorization: Bearer sk-secret\r\n"), "{}", asked.head);
    assert_eq!(asked.body, json!({"model": "tiny", "input": ["a", "bb", "dddd"]}));
}

#[tokio::test]
async fn requests_are_of_a_size_and_share_a_connection() {
    let server = Server::start(vectors).await;
    let model = model(&server.base(), |options| {
        (options.batch_max, options.batch_bytes_max) = (2, 9);
    });
    let texts = ["a", "b", "12345", "123456", "1234567890123", "c"];
    let all = embed_all(&model, &texts).await.unwrap();
    assert_eq!(all, texts.map(vector));
    let asked = server.asked();
    let sizes: Vec<_> = asked.iter().map(|asked| asked.texts().len()).collect();
    assert_eq!(sizes, [2, 1, 1, 1, 1]);
    assert!(asked.iter().all(|asked| asked.connection == 0));
    assert!(model.embed(&[]).await.is_empty());
    assert_eq!(server.asked().len(), 5, "nothing is asked about nothing");
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_replaced() {
    let server = Server::start(|_| {
        Answer::SayAndHangUp(json!({"data": [{"embedding": [1, 0]}]}).to_string())
    });
    let server = server.await;
    let model = model(&server.base(), |_| {});
    for connections in 1..=3 {
        assert_eq!(model.embed(&["a"]).await, [Ok(vec![1.0, 0.0])]);
        assert_eq!(server.asked().len(), connections);
    }
}

#[tokio::test]
async fn what_is_no_texts_fault_is_transient_and_says_when_to_come_back() {
    for (status, headers, retry_after_ms, word) in [
        (429, "retry-after: 7\r\n", Some(7_000), "left alone"),
        (429, "", None, "left alone"),
        (503, "retry-after-ms: 1500\r\n", Some(1_500), "cannot do it now"),
        (500, "", None, "cannot do it now"),
        (502, "", None, "cannot do it now"),
        (401, "", None, "our key"),
        (403, "", None, "our key"),
        (404, "", None, "no such address or model"),
        (408, "", None, "no vectors"),
        (301, "location: /elsewhere\r\n", None, "leads elsewhere"),
        (204, "", None, "no vectors"),
    ] {
        let server = Server::start(move |_| Answer::Say {
            status,
            headers,
            body: r#"{"error": "so it is"}"#.into(),
        });
        let server = server.await;
        let all = model(&server.base(), |_| {}).embed(&["a", "b"]).await;
        // Who broke without a word is asked about a harmless one.
        let asked = if matches!(status, 500 | 502) { 2 } else { 1 };
        assert_eq!((server.asked().len(), all.len()), (asked, 2), "{status}");
        for one in &all {
            let (why, told) = transient(one);
            assert!(why.contains(word) && why.contains(&status.to_string()), "{status}: {why}");
            assert!(status == 204 || why.contains("so it is"), "{status}: {why}");
            assert_eq!(told, retry_after_ms, "{status}");
        }
    }
}

#[tokio::test]
async fn without_an_answer_it_is_transient() {
    let silent = |_: &Asked| Answer::Silence;
    let long = |_: &Asked| Answer::status(200, &" ".repeat(5_000));
    let scripts: [(Box<Script>, &str); 4] = [
        (Box::new(|_| Answer::HangUp), "connection"),
        (Box::new(|_| Answer::BreakOff), "broke off"),
        (Box::new(silent), "no answer within 200 ms"),
        (Box::new(long), "longer than 4000 bytes"),
    ];
    for (script, word) in scripts {
        let server = Server::start(script).await;
        let model = model(&server.base(), |options| {
            options.endpoint.within = Duration::from_millis(200);
            options.endpoint.answer_max = 4_000;
        });
        let all = model.embed(&["a"]).await;
        let (why, _) = transient(&all[0]);
        assert!(why.contains(word) && why.contains(&server.port.to_string()), "{word}: {why}");
    }
    // Nobody listens there any more.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let all = model(&base, |_| {}).embed(&["a"]).await;
    assert!(transient(&all[0]).0.contains("no connection"), "{all:?}");
}

#[tokio::test]
async fn only_the_text_that_is_to_blame_is_bad_and_no_other_is_paid_for_twice() {
    for (many, culprits) in [(8, &[5][..]), (13, &[0, 12]), (1, &[0]), (6, &[2, 3])] {
        let server = Server::start(|asked| {
            if asked.texts().iter().any(|text| text.starts_with("long")) {
                return Answer::status(400, r#"{"error": {"message": "context length exceeded"}}"#);
            }
            vectors(asked)
        });
        let server = server.await;
        let text = |nth| format!("{}{nth}", if culprits.contains(&nth) { "long" } else { "fine" });
        let texts: Vec<String> = (0..many).map(text).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let all = model(&server.base(), |_| {}).embed(&texts).await;
        for (nth, one) in all.iter().enumerate() {
            if culprits.contains(&nth) {
                assert!(bad(one).contains("(400): context length exceeded"), "{one:?}");
            } else {
                assert_eq!(*one, Ok(vector(texts[nth])));
            }
        }
        // An answer with vectors is what costs.
        let asked = server.asked();
        for text in texts.iter().filter(|text| text.starts_with("fine")) {
            let is_paid = |asked: &&Asked| {
                asked.texts().contains(text)
                    && !asked.texts().iter().any(|text| text.starts_with("long"))
            };
            assert_eq!(asked.iter().filter(is_paid).count(), 1, "{text}");
        }
        assert!(asked.len() <= 2 + 2 * 4 * culprits.len(), "{} requests", asked.len());
    }
}

/// It went on for ever: the text was tried again with ever new ones, for which the endpoint was
/// taken to be away.
#[tokio::test]
async fn a_text_that_an_endpoint_breaks_over_is_bad_and_the_others_are_embedded() {
    for (status, many, culprits) in
        [(500, 8, &[5][..]), (502, 13, &[0, 12]), (503, 1, &[0]), (504, 6, &[2, 3])]
    {
        let server = Server::start(move |asked| {
            if asked.texts().iter().any(|text| text.starts_with("odd")) {
                return Answer::status(status, r#"{"error": "assertion failed"}"#);
            }
            vectors(asked)
        });
        let server = server.await;
        let text = |nth| format!("{}{nth}", if culprits.contains(&nth) { "odd" } else { "fine" });
        let texts: Vec<String> = (0..many).map(text).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let all = model(&server.base(), |_| {}).embed(&texts).await;
        for (nth, one) in all.iter().enumerate() {
            if culprits.contains(&nth) {
                assert!(bad(one).contains(&format!("({status}): assertion failed")), "{one:?}");
            } else {
                assert_eq!(*one, Ok(vector(texts[nth])));
            }
        }
        let asked = server.asked().len();
        assert!(asked <= 4 + 4 * 4 * culprits.len(), "{asked} requests");
    }
}

#[tokio::test]
async fn an_endpoint_that_breaks_once_or_over_everything_blames_no_text() {
    // Once: whoever asks again is answered.
    let broke = AtomicUsize::new(0);
    let server = Server::start(move |asked| match broke.fetch_add(1, Ordering::SeqCst) {
        0 => Answer::status(500, ""),
        _ => vectors(asked),
    });
    let server = server.await;
    let once = model(&server.base(), |_| {}).embed(&["a"]).await;
    assert_eq!((once, server.asked().len()), (vec![Ok(vector("a"))], 3));
    // From some moment on, while it is looked for who is to blame.
    for sound in 0..4 {
        let harmless = AtomicUsize::new(0);
        let server = Server::start(move |asked| {
            let is_harmless = asked.texts() == ["hay"];
            if is_harmless && harmless.fetch_add(1, Ordering::SeqCst) < sound {
                return vectors(asked);
            }
            Answer::status(500, r#"{"error": "out of memory"}"#)
        });
        let server = server.await;
        let all = model(&server.base(), |_| {}).embed(&["a", "b", "c", "d"]).await;
        assert_eq!(server.asked().len(), 2 * (sound + 1), "{sound}");
        for one in &all {
            assert!(transient(one).0.contains("out of memory"), "{sound}: {one:?}");
        }
    }
}

#[tokio::test]
async fn an_endpoint_that_is_busy_or_away_in_between_ends_the_search_for_who_is_to_blame() {
    for status in [429, 500, 503] {
        let refused = AtomicUsize::new(0);
        let server = Server::start(move |asked| {
            let is_suspected = asked.texts().iter().any(|text| text.starts_with("long"));
            match is_suspected.then(|| refused.fetch_add(1, Ordering::SeqCst)) {
                None => vectors(asked),
                Some(0) => Answer::status(413, r#"{"error": "too large"}"#),
                Some(_) => {
                    Answer::Say { status, headers: "retry-after: 3\r\n", body: String::new() }
                }
            }
        });
        let server = server.await;
        let all = model(&server.base(), |_| {}).embed(&["long", "a", "b", "c"]).await;
        // One refusal, one word to be sure, one half; the rest is not asked for.
        assert_eq!(server.asked().len(), 3, "{status}");
        for one in &all {
            assert_eq!(transient(one).1, Some(3_000), "{status}: nobody is to blame yet");
        }
    }
}

#[tokio::test]
async fn an_endpoint_that_refuses_everything_blames_no_text() {
    for status in [400, 413, 422] {
        let server = Server::start(move |_| Answer::status(status, r#"{"detail": "no model"}"#));
        let server = server.await;
        let texts: Vec<&str> = std::iter::repeat_n("a", 50).collect();
        let all = model(&server.base(), |_| {}).embed(&texts).await;
        for one in &all {
            let (why, _) = transient(one);
            assert!(why.contains("refuses every text") && why.contains("no model"), "{why}");
        }
        assert_eq!(server.asked().len(), 2, "one question, and one to be sure");
    }
}

#[tokio::test]
async fn what_was_answered_before_an_outage_is_kept() {
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |it| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => vectors(it),
        _ => Answer::Say { status: 429, headers: "retry-after: 2\r\n", body: String::new() },
    });
    let server = server.await;
    let model = model(&server.base(), |options| options.batch_max = 2);
    let all = model.embed(&["a", "bb", " ", "ccc", "d", "e", "f"]).await;
    assert_eq!(all[..2], [Ok(vector("a")), Ok(vector("bb"))]);
    assert!(bad(&all[2]).contains("nothing in it"));
    for one in &all[3..] {
        assert_eq!(transient(one).1, Some(2_000));
    }
    assert_eq!(server.asked().len(), 2, "who asks to be left alone is");
    // What is bad is said first to who wants all or nothing.
    let error = embed_all(&model, &["a", "\n"]).await.unwrap_err();
    assert!(matches!(error, EmbedError::Bad { .. }), "{error:?}");
}

#[tokio::test]
async fn an_answer_that_cannot_be_right_is_not_believed() {
    for (body, word) in [
        (json!({"data": [{"embedding": [1, 0]}]}), "1 vectors for 2 texts"),
        (json!({"data": []}), "0 vectors for 2 texts"),
        (json!({"data": [{"embedding": [1, 0]}, {"embedding": [1, 0, 0]}]}), "3 dimensions"),
        (json!({"data": [{"embedding": []}, {"embedding": []}]}), "without numbers"),
        (
            json!({"data": [{"index": 1, "embedding": [1]}, {"index": 1, "embedding": [1]}]}),
            "not those of the texts",
        ),
        (
            json!({"data": [{"index": 0, "embedding": [1]}, {"index": 2, "embedding": [1]}]}),
            "not those of the texts",
        ),
        (json!({"data": [{"embedding": "AAAA"}, {"embedding": "AAAA"}]}), "no vectors"),
        (json!({"object": "list"}), "no vectors"),
        (json!("hello"), "no vectors"),
    ] {
        let server = Server::start(move |_| Answer::json(&body)).await;
        let all = model(&server.base(), |_| {}).embed(&["a", "b"]).await;
        for one in &all {
            let (why, _) = transient(one);
            assert!(why.contains(word), "{word}: {why}");
        }
    }
    let server = Server::start(|_| Answer::status(200, "<html>")).await;
    let all = model(&server.base(), |_| {}).embed(&["a"]).await;
    assert!(transient(&all[0]).0.contains("no vectors"));
}

#[tokio::test]
async fn a_text_whose_vector_is_none_is_bad_alone() {
    let server = Server::start(|_| {
        let data = [json!([1, null]), json!([0, 2]), json!([0, 0]), json!([1e300, 0])];
        let data = data.map(|embedding| json!({"embedding": embedding}));
        Answer::json(&json!({"data": data}))
    });
    let server = server.await;
    let all = model(&server.base(), |_| {}).embed(&["a", "b", "c", "d"]).await;
    assert!(bad(&all[0]).contains("not a number"), "{all:?}");
    assert_eq!(all[1], Ok(vec![0.0, 1.0]));
    assert!(bad(&all[2]).contains("points nowhere"), "{all:?}");
    assert!(bad(&all[3]).contains("not a number"), "{all:?}");
}

#[tokio::test]
async fn the_dimension_is_learnt_once_and_held() {
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        1 => Answer::json(&json!({"data": [{"embedding": [1, 0, 0]}]})),
        _ => Answer::json(&json!({"data": [{"embedding": [1, 0]}]})),
    });
    let server = server.await;
    let model = model(&server.base(), |_| {});
    assert_eq!(model.embed(&["a"]).await, [Ok(vec![1.0, 0.0])]);
    let other = model.embed(&["a"]).await;
    assert!(transient(&other[0]).0.contains("3 dimensions where 2 were expected"), "{other:?}");
    assert_eq!(model.embed(&["a"]).await, [Ok(vec![1.0, 0.0])]);
    assert_eq!(model.dimension(), Some(2));
}

#[tokio::test]
async fn a_dimension_that_was_asked_for_must_come() {
    let server = Server::start(vectors).await;
    let model = model(&server.base(), |options| options.dimension = Some(256));
    assert_eq!(model.dimension(), Some(256));
    let all = model.embed(&["a"]).await;
    assert!(transient(&all[0]).0.contains("3 dimensions where 256 were expected"), "{all:?}");
    assert_eq!(server.asked()[0].body["dimensions"], 256);
}

#[tokio::test]
async fn the_key_is_not_shown_even_if_the_endpoint_repeats_it() {
    for status in [200, 400, 401, 500] {
        let server = Server::start(move |asked| {
            if asked.texts() == ["hay"] {
                return vectors(asked);
            }
            Answer::status(status, r#""no such key: sk-secret-1""#)
        });
        let server = server.await;
        let model = model(&server.base(), |options| {
            options.endpoint.key = Some(Key::new("sk-secret-1").unwrap());
        });
        let all = model.embed(&["a"]).await;
        assert!(all[0].is_err(), "{status}: {all:?}");
        let shown = format!("{all:?} {model:?} {}", all[0].as_ref().unwrap_err());
        assert!(!shown.contains("secret"), "{status}: {shown}");
    }
}
