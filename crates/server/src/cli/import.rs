//! `windrow import`: what waits in another queue comes here.

mod queueber;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    from: From,
}

#[derive(clap::Subcommand, Debug)]
enum From {
    /// Take everything out of a queueber server and into a running Windrow server, over RPC.
    Queueber(queueber::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.from {
        From::Queueber(args) => queueber::run(args),
    }
}
