//! A model that sees, scripted: what it is shown, what is believed of it, and whose fault is what
//! goes wrong.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use windrow_pipelines::adapters::endpoint::Key;
use windrow_pipelines::adapters::ocr::vision::{Options, Vision};
use windrow_pipelines::adapters::ocr::{Ocr, OcrError};

use crate::server::{Answer, Asked, Server};

fn model(server: &Server, change: impl FnOnce(&mut Options)) -> Vision {
    let mut options = Options::new("sees");
    change(&mut options);
    Vision::new(&server.base(), options).unwrap()
}

fn inbox(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/inbox").join(name)
}

fn picture() -> PathBuf {
    inbox("notice-board.png")
}

fn says(text: &str) -> Answer {
    Answer::json(&json!({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}))
}

/// The picture in a question.
fn shown(asked: &Asked) -> &str {
    asked.body["messages"][0]["content"][1]["image_url"]["url"].as_str().expect("a picture")
}

fn is_ours(asked: &Asked) -> bool {
    shown(asked).len() > 10_000
}

async fn read(
    script: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
) -> Result<String, OcrError> {
    let server = Server::start(script).await;
    model(&server, |_| {}).read(&picture()).await
}

#[tokio::test]
async fn a_picture_is_shown_whole_and_its_text_comes_back() {
    let server = Server::start(|_| says("```markdown\n# Village Hall\n\nClosed.\n```")).await;
    let model = model(&server, |options| {
        options.endpoint.key = Some(Key::new("sk-secret").unwrap());
        options.tokens_max = Some(4_000);
    });
    assert_eq!(model.read(&picture()).await.unwrap(), "# Village Hall\n\nClosed.");
    let asked = &server.asked()[0];
    assert!(asked.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", asked.head);
    assert!(asked.head.contains("authorization: Bearer sk-secret\r\n"), "{}", asked.head);
    let body = &asked.body;
    assert_eq!(
        (&body["model"], &body["max_tokens"], &body["temperature"]),
        (&json!("sees"), &json!(4_000), &json!(0.0))
    );
    let prompt = body["messages"][0]["content"][0]["text"].as_str().unwrap();
    assert!(prompt.contains("Markdown") && prompt.contains("[blank]"), "{prompt}");
    let encoded = shown(asked).strip_prefix("data:image/png;base64,").expect("a PNG");
    let length = std::fs::metadata(picture()).unwrap().len() as usize;
    assert_eq!(encoded.len(), length.div_ceil(3) * 4, "all of it");
}

/// A model that said nothing of a blank page was taken for one that is down, for all pages.
#[tokio::test]
async fn an_empty_page_is_one_that_the_model_says_is_empty_or_says_nothing_of_twice() {
    assert_eq!(read(|_| says("[blank]")).await, Ok(String::new()));
    let nothing = json!({"choices": [{"message": {}}]});
    for nothing in [json!(""), json!(" \n"), json!("<think>hm</think>"), nothing] {
        let server = Server::start(move |_| match nothing.as_str() {
            Some(said) => says(said),
            None => Answer::json(&nothing),
        });
        let server = server.await;
        assert_eq!(model(&server, |_| {}).read(&picture()).await, Ok(String::new()));
        assert_eq!(server.asked().len(), 2, "it may have been a slip");
    }
    let asked = AtomicUsize::new(0);
    let slip = move |_: &Asked| match asked.fetch_add(1, Ordering::Relaxed) {
        0 => says(""),
        _ => says("Closed."),
    };
    assert_eq!(read(slip).await, Ok("Closed.".to_owned()));
}

#[tokio::test]
async fn what_is_no_pictures_fault_is_transient_and_says_when_to_come_back() {
    for (status, headers, retry_after_ms, word) in [
        (429, "retry-after: 7\r\n", Some(7_000), "left alone"),
        (503, "retry-after-ms: 1500\r\n", Some(1_500), "cannot do it now"),
        (500, "", None, "cannot do it now"),
        (401, "", None, "our key"),
        (404, "", None, "no such address or model"),
        (408, "", None, "gives no answer"),
    ] {
        let body = r#"{"error": "so it is"}"#;
        let read = read(move |_| Answer::Say { status, headers, body: body.into() }).await;
        let Err(OcrError::Transient { why, retry_after_ms: told }) = read else {
            panic!("{status}: {read:?}");
        };
        assert!(why.contains(word) && why.contains("so it is"), "{status}: {why}");
        assert_eq!(told, retry_after_ms, "{status}");
    }
}

#[tokio::test]
async fn without_an_answer_it_is_transient() {
    for (answer, word) in [
        (json!(null), "no answer within 300 ms"),
        (json!("hang up"), "connection"),
        (json!({"choices": []}), "there is none"),
        (json!({"choices": [{"text": "old"}]}), "no answer of a model"),
        (json!([1, 2]), "no answer of a model"),
    ] {
        let server = Server::start(move |_| match &answer {
            Value::Null => Answer::Silence,
            Value::String(_) => Answer::HangUp,
            said => Answer::json(said),
        });
        let server = server.await;
        let model = model(&server, |options| {
            options.endpoint.within = Duration::from_millis(300);
        });
        let read = model.read(&picture()).await;
        assert!(
            matches!(&read, Err(OcrError::Transient { why, .. }) if why.contains(word)),
            "{word}: {read:?}"
        );
    }
}

#[tokio::test]
async fn a_picture_that_is_refused_is_bad_if_a_harmless_one_is_not() {
    let server = Server::start(|asked| {
        if is_ours(asked) {
            Answer::status(400, r#"{"error": "too large"}"#)
        } else {
            says("[blank]")
        }
    });
    let server = server.await;
    let read = model(&server, |_| {}).read(&picture()).await;
    assert_eq!(read, Err(OcrError::Bad { why: "refused (400): too large".into() }));
    assert_eq!(server.asked().len(), 2);
    // A model that sees nothing refuses every picture.
    for status in [400, 413, 422] {
        let read = self::read(move |_| Answer::status(status, r#"{"error": "text only"}"#)).await;
        assert!(
            matches!(&read, Err(OcrError::Transient { why, .. }) if why.contains("every picture")),
            "{read:?}"
        );
    }
}

#[tokio::test]
async fn a_model_that_refuses_or_does_not_end_gives_no_page() {
    for (choice, word) in [
        (json!({"message": {"refusal": "not this one"}}), "refuses the page: not this one"),
        (
            json!({"message": {"content": "I'm sorry, I can't assist with that."}}),
            "refuses the page",
        ),
        (json!({"message": {"content": "half"}, "finish_reason": "content_filter"}), "filters"),
        (json!({"message": {"content": "ha ha ha"}, "finish_reason": "length"}), "cut off"),
    ] {
        let read = read(move |_| Answer::json(&json!({"choices": [choice.clone()]}))).await;
        assert!(
            matches!(&read, Err(OcrError::Bad { why }) if why.contains(word)),
            "{word}: {read:?}"
        );
    }
}

#[tokio::test]
async fn a_key_that_is_said_back_is_not_passed_on() {
    let said = |_: &Asked| Answer::status(401, r#"{"error": "no such key: sk-secret"}"#);
    let refuses = |_: &Asked| {
        Answer::json(&json!({"choices": [{"message": {"refusal": "not with sk-secret"}}]}))
    };
    for server in [Server::start(said).await, Server::start(refuses).await] {
        let model = model(&server, |options| {
            options.endpoint.key = Some(Key::new("sk-secret").unwrap());
        });
        let error = model.read(&picture()).await.unwrap_err().to_string();
        assert!(error.contains('…') && !error.contains("sk-secret"), "{error}");
    }
}

#[tokio::test]
async fn what_is_no_picture_or_too_large_is_not_sent() {
    let server = Server::start(|_| says("text")).await;
    let model = model(&server, |options| options.image_bytes_max = 1_000);
    for (name, word) in [
        ("notice-board.png", "larger than 1000 bytes"),
        ("beekeeping-year.pdf", "PNG and JPEG only"),
        ("composting.md", "neither a PDF nor a picture"),
        ("not-there.png", "not there"),
    ] {
        let read = model.read(&inbox(name)).await;
        assert!(
            matches!(&read, Err(OcrError::Bad { why }) if why.contains(word)),
            "{name}: {read:?}"
        );
    }
    assert!(server.asked().is_empty());
}
