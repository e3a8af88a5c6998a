//! Sessions: played, and written down as they were printed.

use crate::mode::{Mode, World};
use crate::plain::Plain;

/// In which modes a session is played: the usual three, unless its first line says
/// `modes: directory local`.
pub(crate) fn modes(text: &str) -> Vec<Mode> {
    let first = text.lines().next().unwrap_or_default();
    let Some(named) = first.strip_prefix("modes: ") else { return Mode::USUAL.to_vec() };
    let is_named = |mode: &Mode| named.split_whitespace().any(|name| name == mode.name());
    Mode::ALL.into_iter().filter(is_named).collect()
}

/// Plays a session, and gives its text with what was printed now.
pub(crate) fn play(text: &str, world: &World) -> String {
    let (mut written, mut plain) = (String::new(), Plain::new(world));
    let (mut lines, mut has_begun) = (text.lines().peekable(), false);
    while let Some(line) = lines.next() {
        let Some(first) = line.strip_prefix("$ ") else {
            // Words about what follows stay; what was printed before is left out.
            if !has_begun || line.starts_with("# ") {
                written.push_str(line);
                written.push('\n');
            }
            continue;
        };
        has_begun = true;
        let mut command = first.to_owned();
        written.push_str(line);
        written.push('\n');
        while let Some(more) = lines.next_if(|line| line.starts_with("> ")) {
            command.push('\n');
            command.push_str(&more[2..]);
            written.push_str(more);
            written.push('\n');
        }
        written.push_str(&run(&command, world, &mut plain));
    }
    written
}

fn run(command: &str, world: &World, plain: &mut Plain) -> String {
    let output = world.shell(&plain.real(command)).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut written = plain.of(&text(&output.stdout));
    if !written.is_empty() && !written.ends_with('\n') {
        written.push_str("(no line break)\n");
    }
    for line in plain.of(&text(&output.stderr)).lines() {
        written.push_str(&format!("! {line}\n"));
    }
    match output.status.code() {
        Some(0) => {}
        Some(code) => written.push_str(&format!("[{code}]\n")),
        None => written.push_str("[signal]\n"),
    }
    written
}
