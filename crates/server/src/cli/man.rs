//! `windrow man`: the pages of the manual, made from the same table as `--help`.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_mangen::Man;

use super::show::say;
use super::{Cli, counted};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow man
  windrow man ~/.local/share/man/man1
      One page for each command: windrow.1, windrow-list.1 and so on.")]
pub(super) struct Args {
    /// Where to put the pages; without it the first one is shown, or
    /// printed for `man -l -` if somebody else reads.
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let mut command = Cli::command();
    command.build();
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page)?;
        if std::io::stdout().is_terminal() {
            if is_shown(&page) {
                return Ok(());
            }
            say("`man` is not there, or does not show it; this is what it would be given");
        }
        return Ok(std::io::stdout().lock().write_all(&page)?);
    };
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let written = write(dir, command, "windrow")?;
    say(&format!("{} in {}", counted(written, "page"), dir.display()));
    Ok(())
}

/// Has `man` show a page, if it is installed.
fn is_shown(page: &[u8]) -> bool {
    let man =
        Command::new("man").args(["-l", "-"]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut man) = man else { return false };
    // Whoever leaves it early has seen enough.
    let _written = man.stdin.take().map(|mut to| to.write_all(page));
    man.wait().is_ok_and(|ended| ended.success())
}

/// Writes the page of a command, and those of the commands below it.
fn write(dir: &Path, command: clap::Command, name: &str) -> anyhow::Result<u64> {
    let mut written = 1;
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        written += write(dir, below.clone(), &format!("{name}-{}", below.get_name()))?;
    }
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    let path = dir.join(format!("{name}.1"));
    std::fs::write(&path, page).with_context(|| path.display().to_string())?;
    Ok(written)
}
