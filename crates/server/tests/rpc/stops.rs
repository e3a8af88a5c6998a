//! How connections end: by the server's stop, by silence, and by messages that never end.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use crate::bed::{Data, Server, run, windrow};
use crate::messages::{bootstrap, call, nothing};

#[test]
fn polls_that_wait_are_let_go_when_the_server_stops() {
    let data = Data::new("stop");
    let mut server = Server::start(&data.0);
    run(async {
        let client = server.client().await;
        let polls: Vec<_> = (0..50)
            .map(|_| {
                let client = client.clone();
                tokio::task::spawn_local(async move { client.polls(60, 1, 0).await })
            })
            .collect();
        server.until_waiting(50).await;
        server.signal("-TERM");
        for poll in polls {
            let polled = poll.await.unwrap().unwrap();
            assert!(polled.items.is_empty() && polled.lease.is_empty());
        }
    });
    assert!(server.process.child.wait().unwrap().success());
}

/// It ended the connections at once, and took no new ones.
#[test]
fn while_the_server_stops_work_is_removed_and_extended_and_nothing_is_added() {
    let data = Data::new("draining");
    let mut server = Server::start(&data.0);
    // A body that does not end holds the stop up.
    let mut busy = server.half_a_request();
    run(async {
        let client = server.client().await;
        client.adds(&[(b"a", 0), (b"b", 0)]).await.unwrap();
        let polled = client.polls(60, 2, 1).await.unwrap();
        server.signal("-TERM");
        while server.get("/readyz")["code"] != "stopping" {}
        let mut ids = polled.items.iter().map(|(_, id)| id);
        assert!(client.extends(&polled.lease, 60).await.unwrap());
        assert!(client.removes(ids.next().unwrap(), &polled.lease).await.unwrap());
        let new = server.client().await;
        assert!(new.removes(ids.next().unwrap(), &polled.lease).await.unwrap());
        for refused in [new.adds(&[(b"c", 0)]).await.map(drop), new.polls(60, 1, 1).await.map(drop)]
        {
            let said = refused.unwrap_err().to_string();
            assert!(said.contains("stopping: "), "{said}");
        }
    });
    busy.write_all(b"{}").unwrap();
    assert!(server.process.child.wait().unwrap().success());
}

#[test]
fn a_connection_that_says_nothing_or_never_ends_is_ended() {
    let data = Data::new("slow");
    let variables =
        [("WINDROW_SERVER__RPC_FRAME_MS", "300"), ("WINDROW_SERVER__RPC_IDLE_MS", "900")];
    let server = Server::start_with(&data.0, &variables);
    let whole = bootstrap(0);
    let said = |bytes: &[u8]| {
        let mut stream = server.raw();
        stream.write_all(bytes).unwrap();
        let mut answers = Vec::new();
        // Ends by itself; the time-out of the test's socket would be an error.
        stream.read_to_end(&mut answers).unwrap();
        answers.len()
    };
    assert_eq!(said(b""), 0, "nothing was ever said");
    assert_eq!(said(&whole[..20]), 0, "a message that does not end");
    assert!(said(&whole) > 0, "answered, and ended when nothing more came");
    run(async {
        // A call under way is not idle, however long it takes.
        let client = server.client().await;
        let polled = client.polls(60, 1, 2).await.unwrap();
        assert!(polled.items.is_empty());
    });
}

#[test]
fn whoever_takes_no_answers_is_let_go() {
    let data = Data::new("stuck");
    let server = Server::start_with(&data.0, &[("WINDROW_SERVER__RPC_FRAME_MS", "300")]);
    let mut stream = server.raw();
    stream.set_write_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(&bootstrap(0)).unwrap();
    // Each is answered with an exception; nobody reads them.
    let asked: Vec<u8> = (1..=1_000).flat_map(|at| call(at, 1, 0, nothing)).collect();
    let sent = (0..10_000).try_for_each(|_| stream.write_all(&asked));
    let error = sent.expect_err("the server takes no more, and then ends the connection");
    assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "it was never ended");
}

#[test]
fn rpc_can_be_off_and_is_not_for_other_machines() {
    let data = Data::new("places");
    let serve = |listen: &str| {
        let mut command = windrow(&["serve", "--listen", "127.0.0.1:0", "--rpc-listen", listen]);
        command.arg("--data-dir").arg(&data.0);
        command
    };
    let refused = serve("0.0.0.0:0").output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("0.0.0.0:0 can be reached"), "{said}");
    let refused = serve("of").output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("server.rpc_listen"), "{said}");
    let data = Data::new("off");
    let server = windrow(&["serve", "--listen", "127.0.0.1:0", "--rpc-listen", "off"])
        .arg("--data-dir")
        .arg(&data.0)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let pid = server.id().to_string();
    let mut server = server;
    let mut first = [0; 8];
    server.stderr.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let output = server.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && !said.contains("RPC"), "{said}");
}
