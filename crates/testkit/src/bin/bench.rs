//! The benches. `cargo xtask bench NAME` runs this program, built as users get Windrow.

use std::process::ExitCode;

use windrow_testkit::bench::{console, documents, postgres, programs, queue, wire};

fn main() -> ExitCode {
    let mut words: Vec<_> = std::env::args_os().skip(1).collect();
    let name = if words.is_empty() { Default::default() } else { words.remove(0) };
    let met = match name.to_str() {
        Some("queue") => queue::run(words),
        Some("postgres") => postgres::run(words),
        Some("wire") => wire::run(words),
        Some("clients") => programs::run(words),
        Some("documents") => documents::run(words),
        Some("console") => console::run(words),
        _ => {
            let all = [
                queue::HELP,
                postgres::HELP,
                wire::HELP,
                programs::HELP,
                documents::HELP,
                console::HELP,
            ];
            let all = all.join("\n");
            Err(anyhow::anyhow!("which bench?\n\n{all}"))
        }
    };
    match met {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
