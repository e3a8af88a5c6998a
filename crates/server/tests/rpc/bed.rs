//! A running server, and clients of it.

use std::future::Future;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use capnp_rpc::RpcSystem;
use capnp_rpc::rpc_twoparty_capnp::Side;
use capnp_rpc::twoparty::VatNetwork;
use serde_json::Value;
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};
pub(crate) use windrow_testkit::servers::listening::Data;
use windrow_testkit::servers::listening::Listening;

use crate::seed_capnp::seed_queue;

/// A running server.
pub(crate) struct Server {
    pub(crate) process: Listening,
    http: String,
    pub(crate) rpc: String,
}

impl Server {
    pub(crate) fn start(data: &Path) -> Server {
        Server::start_with(data, &[])
    }

    pub(crate) fn start_with(data: &Path, variables: &[(&str, &str)]) -> Server {
        let mut command = windrow(&["serve", "--listen", "127.0.0.1:0"]);
        command.envs(variables.iter().copied()).arg("--data-dir").arg(data);
        let process = Listening::start(&mut command).unwrap();
        let rpc = process.hears(|line| {
            let rest = line.split("RPC is at ").nth(1)?;
            rest.split(',').next().map(str::to_owned)
        });
        let http = process.address.clone();
        Server { process, http, rpc: rpc.unwrap() }
    }

    /// What it said.
    pub(crate) fn said(&self) -> String {
        self.process.said()
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let mut stream = TcpStream::connect(&self.http).unwrap();
        let host = &self.http;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        let (_, body) = all.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {all}"))
    }

    pub(crate) fn stats(&self) -> Value {
        self.get("/api/v1/queue/stats")
    }

    /// Claims that wait now.
    pub(crate) fn waiting(&self) -> u64 {
        let workers = self.get("/api/v1/workers");
        workers.as_array().unwrap().iter().map(|one| one["waiting"].as_u64().unwrap()).sum()
    }

    /// Comes back when so many claims wait; the test's own tasks go on meanwhile.
    pub(crate) async fn until_waiting(&self, count: u64) {
        while self.waiting() != count {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// A connection whose bytes the test writes itself.
    pub(crate) fn raw(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.rpc).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// A request over HTTP that is being worked on until its body, `{}`, has come.
    pub(crate) fn half_a_request(&self) -> TcpStream {
        let mut stream = TcpStream::connect(&self.http).unwrap();
        let head = "POST /api/v1/queues/q/items HTTP/1.1\r\ncontent-length: 2\r\n";
        write!(stream, "{head}host: {}\r\nexpect: 100-continue\r\n\r\n", self.http).unwrap();
        assert!(stream.read(&mut [0; 64]).unwrap() > 0);
        stream
    }

    pub(crate) async fn client(&self) -> seed_queue::Client {
        connect(&self.rpc).await.0
    }
}

pub(crate) fn windrow(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// A connection, and the task that serves it: aborting that ends it.
pub(crate) async fn connect<C>(address: &str) -> (C, tokio::task::JoinHandle<()>)
where
    C: capnp::capability::FromClientHook,
{
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (reader, writer) = stream.into_split();
    let options = capnp::message::ReaderOptions::new();
    let network = VatNetwork::new(reader.compat(), writer.compat_write(), Side::Client, options);
    let mut system = RpcSystem::new(Box::new(network), None);
    let client = system.bootstrap(Side::Server);
    let serving = tokio::task::spawn_local(async move {
        // How a connection ended shows in the calls that it ended.
        let _ended = system.await;
    });
    (client, serving)
}

/// Runs what talks to a server, on one thread.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let within = tokio::time::timeout(Duration::from_secs(120), test);
        within.await.expect("it takes too long")
    })
}

/// What a poll gave.
#[derive(Debug, PartialEq)]
pub(crate) struct Polled {
    pub(crate) lease: Vec<u8>,
    /// Contents and ids.
    pub(crate) items: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The calls of the seed's interface.
impl seed_queue::Client {
    pub(crate) async fn adds(&self, items: &[(&[u8], u64)]) -> capnp::Result<Vec<Vec<u8>>> {
        let mut request = self.add_request();
        let mut list = request.get().init_req().init_items(items.len() as u32);
        for (at, (contents, delay)) in (0..).zip(items) {
            let mut item = list.reborrow().get(at);
            item.set_contents(contents);
            item.set_visibility_timeout_secs(*delay);
        }
        let response = request.send().promise.await?;
        let ids = response.get()?.get_resp()?.get_ids()?;
        ids.iter().map(|id| id.map(<[u8]>::to_vec)).collect()
    }

    pub(crate) async fn polls(&self, valid: u64, max: u32, wait: u64) -> capnp::Result<Polled> {
        let mut request = self.poll_request();
        let mut req = request.get().init_req();
        req.set_lease_validity_secs(valid);
        req.set_num_items(max);
        req.set_timeout_secs(wait);
        let response = request.send().promise.await?;
        let response = response.get()?.get_resp()?;
        let item = |item: crate::seed_capnp::polled_item::Reader<'_>| {
            Ok((item.get_contents()?.to_vec(), item.get_id()?.to_vec()))
        };
        let items = response.get_items()?.iter().map(item).collect::<capnp::Result<_>>()?;
        Ok(Polled { lease: response.get_lease()?.to_vec(), items })
    }

    pub(crate) async fn removes(&self, id: &[u8], lease: &[u8]) -> capnp::Result<bool> {
        let mut request = self.remove_request();
        let mut req = request.get().init_req();
        req.set_id(id);
        req.set_lease(lease);
        Ok(request.send().promise.await?.get()?.get_resp()?.get_removed())
    }

    pub(crate) async fn extends(&self, lease: &[u8], valid: u64) -> capnp::Result<bool> {
        let mut request = self.extend_request();
        let mut req = request.get().init_req();
        req.set_lease(lease);
        req.set_lease_validity_secs(valid);
        Ok(request.send().promise.await?.get()?.get_resp()?.get_extended())
    }
}
