//! `windrow import`: what another system holds comes here.

mod documents;
mod queueber;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    from: From,
}

#[derive(clap::Subcommand, Debug)]
enum From {
    /// Take over documents, pages and chunks from the tables of an older OCR pipeline.
    Documents(Box<documents::Args>),
    /// Take everything out of a queueber server and into a running Windrow server, over RPC.
    Queueber(queueber::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.from {
        From::Documents(args) => documents::run(args),
        From::Queueber(args) => queueber::run(args),
    }
}
