//! A server that answers as a test tells it to, on a real socket.

use std::sync::Arc;
use std::sync::Mutex;

use serde_json::{Value, json};
use tokio::io::BufReader;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// What somebody asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The first line and the headers, as they came.
    pub(crate) head: String,
    pub(crate) body: Value,
    /// Which connection it came on, from 0.
    pub(crate) connection: usize,
}

impl Asked {
    pub(crate) fn texts(&self) -> Vec<&str> {
        let input = self.body["input"].as_array().expect("texts");
        input.iter().map(|text| text.as_str().expect("a text")).collect()
    }
}

/// What to do about it.
pub(crate) enum Answer {
    Say {
        status: u16,
        headers: &'static str,
        body: String,
    },
    /// An answer, and then the end of the connection.
    SayAndHangUp(String),
    /// Half of an answer.
    BreakOff,
    HangUp,
    Silence,
}

impl Answer {
    pub(crate) fn status(status: u16, body: &str) -> Answer {
        Answer::Say { status, headers: "", body: body.to_owned() }
    }

    pub(crate) fn json(body: &Value) -> Answer {
        Answer::status(200, &body.to_string())
    }
}

/// A vector for each text, which says how long the text is.
pub(crate) fn vectors(asked: &Asked) -> Answer {
    let data: Vec<Value> = asked
        .texts()
        .iter()
        .enumerate()
        .map(|(index, text)| json!({"index": index, "embedding": [text.len(), 1, 0]}))
        .collect();
    Answer::json(&json!({"data": data}))
}

pub(crate) struct Server {
    pub(crate) port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
}

pub(crate) type Script = dyn Fn(&Asked) -> Answer + Send + Sync;

impl Server {
    pub(crate) async fn start(script: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Server {
        Server::listen(None, Arc::new(script)).await
    }

    pub(crate) async fn start_encrypted(
        tls: TlsAcceptor,
        script: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    ) -> Server {
        Server::listen(Some(tls), Arc::new(script)).await
    }

    async fn listen(tls: Option<TlsAcceptor>, script: Arc<Script>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let all = asked.clone();
        tokio::spawn(async move {
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let (script, all, tls) = (script.clone(), all.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, connection, &*script, &all).await,
                        Some(tls) => {
                            // Who does not trust us has gone.
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, connection, &*script, &all).await;
                            }
                        }
                    }
                });
            }
        });
        Server { port, asked }
    }

    pub(crate) fn base(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    connection: usize,
    script: &Script,
    all: &Mutex<Vec<Asked>>,
) {
    let mut stream = BufReader::new(stream);
    while let Some((head, body)) = read(&mut stream).await {
        let body = serde_json::from_slice(&body).expect("JSON");
        let asked = Asked { head, body, connection };
        all.lock().unwrap().push(asked.clone());
        let (status, headers, body, is_last) = match script(&asked) {
            Answer::Say { status, headers, body } => (status, headers, body, false),
            Answer::SayAndHangUp(body) => (200, "", body, true),
            Answer::BreakOff => {
                let _gone =
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{").await;
                let _gone = stream.flush().await;
                return;
            }
            Answer::HangUp => return,
            Answer::Silence => return std::future::pending().await,
        };
        let head =
            format!("HTTP/1.1 {status} Said\r\n{headers}content-length: {}\r\n\r\n", body.len());
        // Whoever asked may have gone.
        let _gone = stream.write_all((head + &body).as_bytes()).await;
        let _gone = stream.flush().await;
        if is_last {
            return;
        }
    }
}

/// One request. None when there is no more.
async fn read<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut BufReader<S>,
) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    let mut body = vec![0; length.parse().ok()?];
    stream.read_exact(&mut body).await.ok()?;
    Some((head, body))
}
