//! A model behind an endpoint, which says the same of the same text and counts what it is asked.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// How often each text was sent, to be embedded and to be read.
#[derive(Default, Debug)]
pub(crate) struct Asked {
    pub(crate) embedded: HashMap<String, usize>,
    pub(crate) read: HashMap<String, usize>,
}

/// A running model.
pub(crate) struct Model {
    pub(crate) url: String,
    asked: Arc<Mutex<Asked>>,
}

impl Model {
    pub(crate) fn start() -> Model {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::<Mutex<Asked>>::default();
        let all = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let all = Arc::clone(&all);
                // A server that was killed hangs up.
                std::thread::spawn(move || while answered(&stream, &all).is_some() {});
            }
        });
        Model { url, asked }
    }

    /// The variables that let a server ask it for everything.
    pub(crate) fn variables(&self) -> Vec<(&str, &str)> {
        vec![
            ("WINDROW_DOCUMENTS__EMBED", "endpoint"),
            ("WINDROW_DOCUMENTS__EMBED_URL", &self.url),
            ("WINDROW_DOCUMENTS__EMBED_MODEL", "counting"),
            ("WINDROW_DOCUMENTS__EXTRACT", "endpoint"),
            ("WINDROW_DOCUMENTS__EXTRACT_URL", &self.url),
            ("WINDROW_DOCUMENTS__EXTRACT_MODEL", "counting"),
        ]
    }

    /// What was asked, from the first time on.
    pub(crate) fn asked(&self) -> std::sync::MutexGuard<'_, Asked> {
        self.asked.lock().unwrap()
    }
}

/// Answers one request; None when there is none.
fn answered(stream: &TcpStream, all: &Mutex<Asked>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length, mut first) = (String::new(), 0, String::new());
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if first.is_empty() {
            first.clone_from(&line);
        }
        if let Some(said) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = said.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body: Value = serde_json::from_slice(&body).ok()?;
    let answer = match first.contains("/embeddings") {
        true => embedded(&body, all),
        false => read(&body, all),
    };
    let answer = answer.to_string();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
    (&*stream).write_all((head + &answer).as_bytes()).ok()
}

/// A vector for each text: how often each letter stands in it.
fn embedded(body: &Value, all: &Mutex<Asked>) -> Value {
    let texts = body["input"].as_array().unwrap();
    let vector = |(index, text): (usize, &Value)| {
        let text = text.as_str().unwrap();
        *all.lock().unwrap().embedded.entry(text.to_owned()).or_default() += 1;
        let mut vector = [0.001_f32; 32];
        text.bytes().for_each(|byte| vector[usize::from(byte % 32)] += 1.0);
        json!({"index": index, "embedding": vector})
    };
    json!({"data": texts.iter().enumerate().map(vector).collect::<Vec<_>>()})
}

/// Two entities of each text, and what relates them.
fn read(body: &Value, all: &Mutex<Asked>) -> Value {
    let text = body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
    *all.lock().unwrap().read.entry(text.to_owned()).or_default() += 1;
    let town = text.split("town number ").nth(1).and_then(|rest| rest.split(' ').next());
    let town = format!("town number {}", town.unwrap_or("0"));
    let entity = |name: &str, kind: &str| {
        let description = format!("it is {name}");
        json!({"name": name, "kind": kind, "description": description, "score": 80})
    };
    let said = json!({
        "entities": [entity(&town, "place"), entity("Marta Quell", "person")],
        "relationships": [{
            "source": "Marta Quell", "target": town, "description": "she kept its records",
            "keywords": ["keeps"], "weight": 7,
        }],
    });
    json!({"choices": [{
        "message": {"role": "assistant", "content": said.to_string()}, "finish_reason": "stop",
    }]})
}
