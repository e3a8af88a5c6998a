//! Peers that are not what they should be, on a real socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use windrow_pipelines::adapters::graph::bolt::{Bolt, Options};
use windrow_pipelines::adapters::graph::{Graph as _, GraphError, Origin};
use windrow_pipelines::catalog::Scope;

use crate::bed::{alone, origin, said, transient};

alone![
    what_listens_but_is_no_graph_database_is_named,
    a_server_that_says_try_again_is_asked_some_times_and_then_left,
    whose_fault_a_refusal_is_is_told_by_its_code,
    an_answer_that_makes_no_sense_is_not_believed,
    a_password_that_the_server_repeats_is_not_shown,
];

/// Bytes that a server sends after the handshake in answer to each message, by its kind.
type Script = dyn Fn(u8) -> Vec<u8> + Send + Sync;

const RUN: u8 = 0x10;
const COMMIT: u8 = 0x12;
const PULL: u8 = 0x3F;
const RESET: u8 = 0x0F;

fn framed(message: &[u8]) -> Vec<u8> {
    let mut out = (message.len() as u16).to_be_bytes().to_vec();
    out.extend(message);
    out.extend([0, 0]);
    out
}

fn success() -> Vec<u8> {
    framed(&[0xB1, 0x70, 0xA0])
}

fn ignored() -> Vec<u8> {
    framed(&[0xB0, 0x7E])
}

fn failure(code: &str, message: &str) -> Vec<u8> {
    let mut out = vec![0xB1, 0x7F, 0xA2, 0x84];
    out.extend(b"code");
    out.extend([0xD0, code.len() as u8]);
    out.extend(code.as_bytes());
    out.push(0x87);
    out.extend(b"message");
    out.extend([0xD0, message.len() as u8]);
    out.extend(message.as_bytes());
    framed(&out)
}

/// A server that takes a handshake and then follows a script. Says where it is.
async fn server(version: &'static [u8], script: Arc<Script>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("bolt://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let script = script.clone();
            tokio::spawn(async move {
                // Whoever asked may have gone.
                let _gone = serve(stream, version, &*script).await;
            });
        }
    });
    address
}

async fn serve(mut stream: TcpStream, version: &[u8], script: &Script) -> std::io::Result<()> {
    let mut hello = [0; 20];
    stream.read_exact(&mut hello).await?;
    assert_eq!(hello[..8], [0x60, 0x60, 0xB0, 0x17, 0, 3, 4, 5]);
    stream.write_all(version).await?;
    let mut message = Vec::new();
    loop {
        let length = usize::from(stream.read_u16().await?);
        let begins = message.len();
        message.resize(begins + length, 0);
        stream.read_exact(&mut message[begins..]).await?;
        if length == 0 {
            stream.write_all(&script(message[1])).await?;
            message.clear();
        }
    }
}

fn graph(address: &str) -> Bolt {
    let mut options = Options::new("user", "hunter22");
    options.within = Duration::from_secs(5);
    Bolt::new(address, options).unwrap()
}

fn chunk() -> Origin {
    origin(&Scope::new("t", "c"), 1, 1, 0)
}

async fn what_listens_but_is_no_graph_database_is_named() {
    for (version, why) in [
        (&[0, 0, 0, 0][..], "no Bolt between 5.1 and 5.4"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak Bolt"),
        (&[0, 0, 4, 4], "does not speak Bolt"),
    ] {
        let address = server(version, Arc::new(|_| Vec::new())).await;
        let said = transient(graph(&address).put(&chunk(), &said(&["Ada"])).await);
        assert!(said.contains(why) && said.contains(&address), "{said}");
    }
    // One that says nothing, and one that is not there.
    let silent = server(&[], Arc::new(|_| Vec::new())).await;
    let mut options = Options::new("user", "hunter22");
    options.within = Duration::from_millis(200);
    let silent = Bolt::new(&silent, options).unwrap();
    let why = transient(silent.put(&chunk(), &said(&["Ada"])).await);
    assert!(why.contains("no answer within 200 ms"), "{why}");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("bolt://{}", listener.local_addr().unwrap());
    drop(listener);
    let why = transient(graph(&address).put(&chunk(), &said(&["Ada"])).await);
    assert!(why.contains("no connection"), "{why}");
}

/// Takes everything up to the statements of a transaction, and answers those with a failure.
fn refusing(code: &'static str, message: &'static str, begun: Arc<AtomicUsize>) -> Arc<Script> {
    let failed = AtomicUsize::new(0);
    Arc::new(move |kind| match kind {
        0x11 => {
            begun.fetch_add(1, Ordering::SeqCst);
            failed.store(1, Ordering::SeqCst);
            success()
        }
        RUN if failed.load(Ordering::SeqCst) == 1 => {
            failed.store(2, Ordering::SeqCst);
            failure(code, message)
        }
        RESET => {
            failed.store(0, Ordering::SeqCst);
            success()
        }
        RUN | PULL | COMMIT if failed.load(Ordering::SeqCst) == 2 => ignored(),
        _ => success(),
    })
}

async fn a_server_that_says_try_again_is_asked_some_times_and_then_left() {
    for code in [
        "Neo.TransientError.Transaction.DeadlockDetected",
        "Neo.ClientError.Schema.ConstraintValidationFailed",
    ] {
        let begun = Arc::new(AtomicUsize::new(0));
        let address = server(&[0, 0, 4, 5], refusing(code, "please retry", begun.clone())).await;
        let why = transient(graph(&address).put(&chunk(), &said(&["Ada"])).await);
        assert!(why.contains(code) && why.contains("please retry"), "{why}");
        assert_eq!(begun.load(Ordering::SeqCst), 6);
    }
}

async fn whose_fault_a_refusal_is_is_told_by_its_code() {
    for (code, word, is_bad) in [
        ("Neo.ClientError.Statement.ArgumentError", "refuses it", true),
        ("Neo.ClientError.Security.Forbidden", "does not let us", false),
        ("Neo.ClientError.Database.DatabaseNotFound", "no such database", false),
        ("Neo.DatabaseError.General.UnknownError", "cannot do it now", false),
        ("Neo.ClientError.Cluster.NotALeader", "cannot do it now", false),
        ("", "cannot do it now", false),
    ] {
        let begun = Arc::new(AtomicUsize::new(0));
        let address = server(&[0, 0, 1, 5], refusing(code, "so it is", begun.clone())).await;
        let graph = graph(&address);
        for tries in 1..=2 {
            let error = graph.put(&chunk(), &said(&["Ada"])).await.unwrap_err();
            let shown = error.to_string();
            assert!(shown.contains(word) && shown.contains("so it is"), "{code}: {shown}");
            assert_eq!(matches!(error, GraphError::Bad { .. }), is_bad, "{code}");
            assert_eq!(begun.load(Ordering::SeqCst), tries, "{code}: asked once each time");
        }
    }
}

async fn an_answer_that_makes_no_sense_is_not_believed() {
    let endless = || {
        let mut out = Vec::new();
        for _ in 0..400 {
            out.extend([0xFF, 0xFF]);
            out.resize(out.len() + 0xFFFF, 0x01);
        }
        out
    };
    let answers: [(Vec<u8>, &str); 5] = [
        (framed(&[0x01]), "no message"),
        (framed(&[0xB0, 0x55]), "message 0x55"),
        (framed(&[0xB1, 0x70, 0xDA, 0xFF, 0xFF, 0xFF, 0xFF]), "cannot be read"),
        (framed(&[0x91; 1_000]), "nested too deeply"),
        (endless(), "longer than"),
    ];
    for (answer, word) in answers {
        let script = move |kind| if kind == PULL { answer.clone() } else { success() };
        let address = server(&[0, 0, 4, 5], Arc::new(script)).await;
        let why = transient(graph(&address).put(&chunk(), &said(&["Ada"])).await);
        assert!(why.contains(word), "{word}: {why}");
    }
    // Everything succeeds, and what should be a number is none.
    let address = server(&[0, 0, 4, 5], Arc::new(|_| success())).await;
    let why = transient(graph(&address).counts(&Scope::new("t", "c")).await);
    assert!(why.contains("no number"), "{why}");
    // The connection ends in the middle of an answer, each time anew.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("bolt://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _gone = stream.write_all(&[0, 0, 4, 5, 0, 9, 0xB1]).await;
        }
    });
    let why = transient(graph(&address).put(&chunk(), &said(&["Ada"])).await);
    assert!(why.contains("the connection broke"), "{why}");
}

async fn a_password_that_the_server_repeats_is_not_shown() {
    let script = |kind| match kind {
        0x6A => failure("Neo.ClientError.Security.Unauthorized", "hunter22 is wrong"),
        _ => success(),
    };
    let address = server(&[0, 0, 4, 5], Arc::new(script)).await;
    let why = transient(graph(&address).put(&chunk(), &said(&["Ada"])).await);
    assert!(why.contains("refuses our user or password") && why.contains("is wrong"), "{why}");
    assert!(!why.contains("hunter22"), "{why}");
}
