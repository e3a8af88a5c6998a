//! The other side: a connection to a server that speaks this.

use anyhow::Context as _;
use capnp::capability::FromClientHook;
use capnp::message::ReaderOptions;
use capnp_rpc::RpcSystem;
use capnp_rpc::rpc_twoparty_capnp::Side;
use capnp_rpc::twoparty::VatNetwork;
use tokio::net::TcpStream;
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};

/// What the server at this address gives first. Runs in a `LocalSet`, as long as it is used.
pub(crate) async fn connect<C: FromClientHook>(address: &str) -> anyhow::Result<C> {
    let stream = TcpStream::connect(address).await;
    let stream = stream.with_context(|| format!("cannot reach {address}; is the server there?"))?;
    stream.set_nodelay(true)?;
    let (reader, writer) = stream.into_split();
    let (reader, writer) = (reader.compat(), writer.compat_write());
    let network = VatNetwork::new(reader, writer, Side::Client, ReaderOptions::new());
    let mut system = RpcSystem::new(Box::new(network), None);
    let client = system.bootstrap(Side::Server);
    // What it dies of is told to every call that is under way.
    tokio::task::spawn_local(system);
    Ok(client)
}
