//! A server that answers as a test tells it to, on a real socket, and keeps what it was asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What a server says next.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: &'static str,
    pub(crate) body: String,
}

impl Answer {
    /// As Qdrant says that all is well.
    pub(crate) fn ok(result: &str) -> Answer {
        let body = format!(r#"{{"result":{result},"status":"ok","time":0.002}}"#);
        Answer { status: 200, headers: "", body }
    }

    /// As Qdrant says that something is wrong.
    pub(crate) fn error(status: u16, why: &str) -> Answer {
        let body = format!(r#"{{"status":{{"error":"{why}"}},"time":0.002}}"#);
        Answer { status, headers: "", body }
    }
}

pub(crate) struct Server {
    port: u16,
    script: Arc<Mutex<Script>>,
}

#[derive(Default)]
struct Script {
    answers: VecDeque<Answer>,
    asked: Vec<(String, String)>,
}

impl Server {
    /// One that gives these answers, one after the other, and then hangs up.
    pub(crate) async fn start(answers: impl IntoIterator<Item = Answer>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answers = answers.into_iter().collect();
        let script = Arc::new(Mutex::new(Script { answers, asked: Vec::new() }));
        let all = Arc::clone(&script);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&all)));
            }
        });
        Server { port, script }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Demands that this was asked since the last time, to the byte: the first line up to the
    /// protocol, and the body.
    #[track_caller]
    pub(crate) fn was_asked(&self, expected: &[(&str, &str)]) {
        let asked = self.take();
        let line = |head: &str| head.split(" HTTP/1.1\r\n").next().unwrap_or_default().to_owned();
        let asked: Vec<_> = asked.iter().map(|(head, body)| (line(head), body.clone())).collect();
        let asked: Vec<(&str, &str)> =
            asked.iter().map(|(l, b)| (l.as_str(), b.as_str())).collect();
        assert_eq!(asked, expected);
    }

    /// What was asked since the last time: heads and bodies.
    pub(crate) fn take(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.script.lock().unwrap().asked)
    }

    /// How many answers nobody has asked for.
    pub(crate) fn left(&self) -> usize {
        self.script.lock().unwrap().answers.len()
    }
}

async fn serve(stream: TcpStream, script: Arc<Mutex<Script>>) {
    let mut stream = BufReader::new(stream);
    while let Some(asked) = read(&mut stream).await {
        let answer = {
            let mut script = script.lock().unwrap();
            script.asked.push(asked);
            script.answers.pop_front()
        };
        let Some(Answer { status, headers, body }) = answer else { return };
        let length = body.len();
        let said =
            format!("HTTP/1.1 {status} Said\r\n{headers}content-length: {length}\r\n\r\n{body}");
        // Whoever asked may have gone.
        let _gone = stream.write_all(said.as_bytes()).await;
        let _gone = stream.flush().await;
    }
}

/// One request. None when there is no more.
async fn read(stream: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.and_then(|length| length.parse().ok()).unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    Some((head, String::from_utf8(body).ok()?))
}
