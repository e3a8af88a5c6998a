//! `windrow config`: what a server would be told, and by whom.

use std::path::PathBuf;

use super::exit::Stop;
use super::serve::Flags;
use crate::config::{Config, KEYS, Key, Layers};

/// The file that is read if none is named.
const FILE: &str = "windrow.toml";

/// Where configuration comes from, besides flags.
#[derive(clap::Args, Debug)]
pub(super) struct Source {
    /// The file to read, in TOML; by default windrow.toml here, if there is one.
    #[arg(long, value_name = "FILE", env = "WINDROW_CONFIG")]
    config: Option<PathBuf>,
}

impl Source {
    pub(super) fn layers(&self) -> anyhow::Result<Layers> {
        let layers = Layers::new();
        let here = PathBuf::from(FILE);
        let layers = match &self.config {
            Some(path) => layers.with_file(path)?,
            None if here.is_file() => layers.with_file(&here)?,
            None => layers,
        };
        // A variable that is no text cannot be one of ours.
        let text = |value: std::ffi::OsString| value.into_string().ok();
        let variables = std::env::vars_os().filter_map(|(a, b)| Some((text(a)?, text(b)?)));
        let layers = layers.with_environment(variables)?;
        for warning in layers.warnings() {
            eprintln!("windrow: {warning}");
        }
        Ok(layers)
    }
}

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Print every value. What may hold a password is not shown.
    Show {
        #[command(flatten)]
        flags: Flags,
        /// Say of each where it came from.
        #[arg(long)]
        origin: bool,
    },
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let Command::Show { flags, origin } = &args.command;
    let read = flags.layers().and_then(|layers| Ok((Config::new(&layers)?, layers)));
    let (config, layers) = read.map_err(|error| Stop::usage(format!("{error:#}")))?;
    let mut out = std::io::stdout().lock();
    for (key, name) in KEYS.iter().flat_map(|key| names(key, &layers)) {
        // The directory that is worked out is shown too, unless there is a database instead.
        let worked_out = (key.name == "store.data_dir" && config.store.is_none())
            .then(|| config.data_dir.display().to_string());
        let value = match layers.get(&name).map(str::to_owned).or(worked_out) {
            Some(_) if key.is_secret => "(set)".to_owned(),
            Some(value) => written(&value),
            None => "(not set)".to_owned(),
        };
        let from =
            if *origin { format!("  # {}", layers.story(key, &name)) } else { String::new() };
        std::io::Write::write_fmt(&mut out, format_args!("# {}\n", key.what))?;
        std::io::Write::write_fmt(&mut out, format_args!("{name} = {value}{from}\n"))?;
    }
    Ok(())
}

/// A key by its name, or by all names that were declared.
fn names<'a>(key: &'a Key, layers: &Layers) -> Vec<(&'a Key, String)> {
    if key.is_one() {
        return vec![(key, key.name.to_owned())];
    }
    let declared = layers.names("workers");
    declared.iter().map(|name| (key, key.name.replace("NAME", name))).collect()
}

/// A value as it would stand in the file.
fn written(value: &str) -> String {
    match value.parse::<u64>() {
        Ok(number) => number.to_string(),
        Err(_) if matches!(value, "true" | "false") => value.to_owned(),
        Err(_) => toml::Value::from(value).to_string(),
    }
}
