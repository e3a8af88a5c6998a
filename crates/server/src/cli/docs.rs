//! Every command line that the documentation shows is one that the program takes.
//!
//! Looks at the pages of this repository: in fenced blocks at whole commands, which must parse; in
//! running text at what stands in code and begins with `windrow`, whose subcommand and flags must
//! exist. Whether a command does what its page says is for the pages that are played
//! (`tests/cli/page.rs`).

use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap::error::ErrorKind;

use super::Cli;

/// A command line of a page.
#[derive(PartialEq, Eq, Debug)]
struct Shown {
    line: usize,
    words: Vec<String>,
    /// Whether it is all there, or only what a sentence needs of it.
    is_whole: bool,
}

/// Why the program does not take it.
fn refusal(shown: &Shown) -> Option<String> {
    let error = Cli::command().try_get_matches_from(&shown.words).err()?;
    let is_abridged = shown.words.iter().any(|word| word.contains('…'));
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => None,
        ErrorKind::ValueValidation | ErrorKind::InvalidValue if is_abridged || !shown.is_whole => {
            None
        }
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            if !shown.is_whole =>
        {
            None
        }
        _ => Some(error.to_string().lines().next().unwrap_or_default().to_owned()),
    }
}

/// The command lines of a page, in order.
fn shown(page: &str) -> Vec<Shown> {
    let (mut all, mut fence) = (Vec::new(), None::<String>);
    let mut lines = page.lines().enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(language.to_owned()) };
            continue;
        }
        let command = match fence.as_deref() {
            None => {
                all.extend(spans(line).flat_map(|span| commands(&span, at + 1, false)));
                continue;
            }
            Some("console") => line.strip_prefix("$ "),
            Some("sh") => Some(line),
            // Five fields say when.
            Some("crontab") => line.splitn(6, ' ').nth(5),
            Some(_) => None,
        };
        let Some(mut command) = command.map(str::to_owned) else { continue };
        let is_more = |line: &str| fence.as_deref() == Some("console") && line.starts_with('>');
        while let Some((_, more)) =
            lines.next_if(|(_, line)| command.ends_with('\\') || is_more(line))
        {
            match command.strip_suffix('\\') {
                Some(before) => command = before.to_owned(),
                None => command.push('\n'),
            }
            // What a command reads is not for the shell.
            if !command.contains("<<") {
                command.push_str(more.strip_prefix("> ").unwrap_or(more));
            }
        }
        all.extend(commands(&command, at + 1, true));
    }
    all
}

/// What stands in code in a line of text and begins with the program's name.
fn spans(line: &str) -> impl Iterator<Item = String> {
    let code = line.split('`').skip(1).step_by(2);
    code.filter(|code| code.starts_with("windrow ")).map(|code| code.replace(['[', ']'], ""))
}

/// The calls of the program in a line for the shell.
fn commands(line: &str, at: usize, is_whole: bool) -> Vec<Shown> {
    let mut found = Vec::new();
    for words in simple(line) {
        let is_before =
            |word: &String| ["sudo", "exec", "time"].contains(&&**word) || is_variable(word);
        let words: Vec<String> = words.into_iter().skip_while(is_before).collect();
        // A word in capitals stands for any.
        let stands_for_any = |word: &String| word.chars().all(|c| c.is_ascii_uppercase());
        if words.first().is_some_and(|word| word == "windrow")
            && !words.get(1).is_some_and(stands_for_any)
        {
            found.push(Shown { line: at, words, is_whole });
        }
    }
    found
}

/// `NAME=value` before a command.
fn is_variable(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

/// The simple commands of a line, each as its words. Knows quotes, comments, redirections and what
/// joins commands; what `$` stands for stays as it is written.
fn simple(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut words) = (Vec::new(), Vec::new());
    let (mut word, mut skips) = (None::<String>, false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => {
                let inside = letters.by_ref().take_while(|letter| *letter != '\'');
                word.get_or_insert_default().extend(inside);
            }
            '"' => quoted(&mut letters, word.get_or_insert_default()),
            '\\' => word.get_or_insert_default().extend(letters.next()),
            '#' if word.is_none() => break,
            ' ' => keep(&mut word, &mut words, &mut skips),
            '<' | '>' => {
                // A number before it belongs to it.
                word.take_if(|word| word.chars().all(|c| c.is_ascii_digit()));
                keep(&mut word, &mut words, &mut skips);
                while letters.next_if(|letter| "<>&".contains(*letter)).is_some() {}
                skips = true;
            }
            '|' | '&' | ';' | '(' | ')' | '\n' => {
                keep(&mut word, &mut words, &mut skips);
                all.push(std::mem::take(&mut words));
            }
            _ => word.get_or_insert_default().push(letter),
        }
    }
    keep(&mut word, &mut words, &mut skips);
    all.push(words);
    all.retain(|words| !words.is_empty());
    all
}

fn quoted(letters: &mut impl Iterator<Item = char>, word: &mut String) {
    while let Some(letter) = letters.next() {
        match letter {
            '"' => return,
            '\\' => word.extend(letters.next()),
            _ => word.push(letter),
        }
    }
}

/// Ends a word, unless it is where a redirection leads.
fn keep(word: &mut Option<String>, words: &mut Vec<String>, skips: &mut bool) {
    if let Some(word) = word.take()
        && !std::mem::take(skips)
    {
        words.push(word);
    }
}

/// All pages of the repository but the changelog, which tells of what was.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut open = vec![root.join("docs"), root.join("examples"), root.join("clients")];
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

#[test]
fn every_command_line_in_the_documentation_is_one_that_the_program_takes() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for path in pages() {
        for shown in shown(&std::fs::read_to_string(&path).unwrap()) {
            count += 1;
            let Some(why) = refusal(&shown) else { continue };
            let line = shown.words.join(" ");
            wrong.push(format!("{}:{}: {line}\n  {why}", path.display(), shown.line));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // If nothing is found, nothing is checked.
    assert!(count > 100, "only {count} command lines were found");
}

#[test]
fn a_command_line_that_is_wrong_is_noticed() {
    for (page, expected) in [
        ("```console\n$ windrow lst\n```", "unrecognized subcommand 'lst'"),
        ("```console\n$ windrow list --quue a\n```", "unexpected argument '--quue' found"),
        ("```console\n$ true && X=1 windrow list |\\\n  windrow wrk\n```", "subcommand 'wrk'"),
        (
            "```console\n$ windrow settings q \\\n>   --st 1\n```",
            "unexpected argument '--st' found",
        ),
        ("```sh\nwindrow enqueue\n```", "required arguments were not provided"),
        ("```crontab\n0 3 * * * windrow sweep --nw\n```", "unexpected argument '--nw' found"),
        ("See `windrow token create --rle admin`.", "unexpected argument '--rle' found"),
    ] {
        let found: Vec<String> = shown(page).iter().filter_map(refusal).collect();
        assert!(found.len() == 1 && found[0].contains(expected), "{page}: {found:?}");
    }
}

#[test]
fn a_command_line_that_is_right_is_left_alone() {
    for page in [
        "```console\n$ windrow list 'queue:\"my queue\"' > all.txt 2>&1 # all\nwindrow lst\n```",
        "```console\n$ windrow work --queue q -- sh -c 'windrow lst'\n```",
        "```console\n$ cat > a <<END\n> windrow lst\n> END\n```",
        "```text\nwindrow lst\n```",
        "Both `windrow token create|list|revoke` and `windrow COMMAND --help` are abridged.",
        "`windrow token create --role R [--tenant T]`",
    ] {
        let found: Vec<String> = shown(page).iter().filter_map(refusal).collect();
        assert!(found.is_empty(), "{page}: {found:?}");
    }
}

#[test]
fn a_line_is_taken_apart_as_a_shell_does() {
    let check = |line: &str, expected: &[&[&str]]| assert_eq!(simple(line), expected, "{line}");
    check("a 'b c' \"d \\\" e\"f", &[&["a", "b c", "d \" ef"]]);
    check("a 2>b >>c <d e", &[&["a", "e"]]);
    check("a | b && c; d &", &[&["a"], &["b"], &["c"], &["d"]]);
    check("x=$(a b) c # d", &[&["x=$"], &["a", "b"], &["c"]]);
    check("a#b \\# c", &[&["a#b", "#", "c"]]);
}
