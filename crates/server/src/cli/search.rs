//! `windrow search`: passages of documents, by words and by meaning.

use std::io::Write;

use serde_json::Value;
use windrow_wire::search::{Found, Hit, Snippet};

use super::reach::{Ask, Reach};
use super::show::{Told, is_coloured, printable, read, say};
use super::with_target;

/// How a terminal begins and ends bold letters.
const BOLD: &str = "\u{1b}[1m";
const PLAIN: &str = "\u{1b}[0m";

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow search 'when are hives treated against varroa?'
      The best passages first: the document, the page, how well it fits, and the piece of it that
      has the most of what was asked.
  windrow search oxalic acid --collection inbox --limit 3
  windrow search varroa --graph
      Also what each passage mentions, and what that has to do with.
  windrow search varroa --json | jq -r '\"\\(.name) \\(.page)\"'
      One passage per line.")]
pub(super) struct Args {
    /// What to look for, in words.
    #[arg(value_name = "WORDS", required = true)]
    words: Vec<String>,
    /// Only in this collection.
    #[arg(long, value_name = "NAME")]
    collection: Option<String>,
    /// Only in this document.
    #[arg(long, value_name = "ID")]
    document: Option<String>,
    /// How many passages at most; up to 200.
    #[arg(
        long,
        short = 'n',
        default_value_t = 10,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=200),
    )]
    limit: u32,
    /// Say what each passage mentions.
    #[arg(long)]
    graph: bool,
    /// Whose documents; by default your own tenant's.
    #[arg(long)]
    tenant: Option<String>,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let ask = Ask::get(&["search"])
        .with("q", Some(args.words.join(" ")))
        .with("collection", args.collection.as_ref())
        .with("document", args.document.as_ref())
        .with("limit", Some(args.limit.to_string()))
        .with("graph", args.graph.then_some("true"))
        .with("tenant", args.tenant.as_ref());
    with_target(&args.reach, async |target| {
        let told = Told::read(&target.ask(ask).await?)?;
        if let Value::String(missing) = &told.seen["missing"] {
            say(missing);
        }
        let (mut out, hits) = (std::io::stdout().lock(), told.each("hits")?);
        if args.reach.json {
            return Ok(hits.iter().try_for_each(|hit| hit.print(&mut out))?);
        }
        if hits.is_empty() {
            say("nothing like that is in any document");
        }
        let Found { hits, missing } = read(told.text().as_bytes())?;
        // If words were not looked for, nobody knows.
        if missing.is_none() && !hits.is_empty() && !hits.iter().any(has_words) {
            say("no passage has any of these words; those nearest in meaning are:");
        }
        let is_bold = is_coloured();
        for (at, hit) in hits.iter().enumerate() {
            if at > 0 {
                writeln!(out)?;
            }
            print(&mut out, hit, is_bold)?;
        }
        Ok(())
    })
}

/// Whether a passage was found by its words.
fn has_words(hit: &Hit) -> bool {
    hit.parts.iter().any(|part| part.list == "words")
}

/// A passage, for people.
fn print(out: &mut impl Write, hit: &Hit, is_bold: bool) -> std::io::Result<()> {
    let (name, page, score) = (printable(&hit.name), hit.page, hit.score);
    let name = if is_bold { format!("{BOLD}{name}{PLAIN}") } else { name };
    writeln!(out, "{name}, page {page}  {score:.4}")?;
    writeln!(out, "  {}", marked(&hit.snippet, is_bold))?;
    writeln!(out, "  {}", printable(&hit.source))?;
    for entity in hit.graph.iter().flatten() {
        let near: Vec<String> =
            entity.neighbours.iter().map(|neighbour| printable(&neighbour.name)).collect();
        let near = if near.is_empty() { String::new() } else { format!(": {}", near.join(", ")) };
        writeln!(out, "    {} ({}){near}", printable(&entity.name), printable(&entity.kind))?;
    }
    Ok(())
}

/// A piece of a passage in one line, its words in bold if a terminal shows it.
fn marked(snippet: &Snippet, is_bold: bool) -> String {
    let mut line = String::from(if snippet.is_cut_before { "…" } else { "" });
    let mut from = 0;
    for (begins, ends) in &snippet.marks {
        let (begins, ends) = (*begins as usize, *ends as usize);
        // What a server says need not fit together.
        let (Some(before), Some(word)) =
            (snippet.text.get(from..begins), snippet.text.get(begins..ends))
        else {
            continue;
        };
        push(&mut line, before);
        if is_bold {
            line.push_str(BOLD);
        }
        push(&mut line, word);
        if is_bold {
            line.push_str(PLAIN);
        }
        from = ends;
    }
    push(&mut line, snippet.text.get(from..).unwrap_or_default());
    let mut line = line.trim().to_owned();
    line.push_str(if snippet.is_cut_after { "…" } else { "" });
    line
}

/// Adds a text in which line breaks and the like are single spaces.
fn push(line: &mut String, text: &str) {
    for letter in printable(text).chars() {
        if letter != ' ' || !line.ends_with(' ') {
            line.push(letter);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_were_asked_for_are_marked_where_somebody_sees_it() {
        let snippet = Snippet {
            text: "treat\nhives  with\u{1b} oxalic acid".into(),
            marks: vec![(6, 11), (19, 25)],
            is_cut_before: true,
            is_cut_after: false,
        };
        assert_eq!(marked(&snippet, false), "…treat hives with oxalic acid");
        let bold = "…treat \u{1b}[1mhives\u{1b}[0m with \u{1b}[1moxalic\u{1b}[0m acid";
        assert_eq!(marked(&snippet, true), bold);
    }

    #[test]
    fn marks_that_do_not_fit_their_text_do_no_harm() {
        let snippet = Snippet {
            text: "grün".into(),
            marks: vec![(3, 4), (2, 99), (0, 2)],
            is_cut_before: false,
            is_cut_after: true,
        };
        assert_eq!(marked(&snippet, true), "\u{1b}[1mgr\u{1b}[0mün…");
    }
}
