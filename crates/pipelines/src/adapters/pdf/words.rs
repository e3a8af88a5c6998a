//! The words of a page as `pdftotext -bbox-layout` has them: a tag on each line, of flows, blocks,
//! lines and words.

use crate::text::layout::{Block, Line, Word};

/// One page.
#[derive(Debug)]
pub(super) struct Page {
    /// Width and height, in points.
    pub(super) size: (f32, f32),
    pub(super) blocks: Vec<Block>,
}

/// The first page of what was said. What is not understood is left out: it was a stranger's file.
pub(super) fn read(said: &str) -> Option<Page> {
    let mut page: Option<Page> = None;
    for line in said.lines().map(str::trim_start) {
        if line.starts_with("<page ") {
            if page.is_some() {
                break;
            }
            let side = |name| number(line, name).unwrap_or_default();
            page = Some(Page { size: (side("width"), side("height")), blocks: Vec::new() });
        }
        let Some(Page { blocks, .. }) = &mut page else {
            continue;
        };
        if line.starts_with("<block ") {
            blocks.push(Block::default());
        } else if let Some(block) = blocks.last_mut() {
            if line.starts_with("<line ") {
                block.lines.push(Line::default());
            } else if let Some(into) = block.lines.last_mut() {
                into.words.extend(word(line));
            }
        }
    }
    page
}

fn word(line: &str) -> Option<Word> {
    let (tag, rest) = line.strip_prefix("<word ")?.split_once('>')?;
    let text = rest.strip_suffix("</word>")?;
    // The ampersand last, so that nothing is resolved twice.
    let signs = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ];
    let text = signs.iter().fold(text.to_owned(), |text, (coded, sign)| text.replace(coded, sign));
    Some(Word {
        text,
        left: number(tag, "xMin")?,
        top: number(tag, "yMin")?,
        right: number(tag, "xMax")?,
        bottom: number(tag, "yMax")?,
    })
}

fn number(tag: &str, name: &str) -> Option<f32> {
    let (_, rest) = tag.split_once(&format!("{name}=\""))?;
    rest.split('"').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_where_they_are() {
        let said = "<title>no <word xMin=\"1\">x</word></title>\n\
                      <page width=\"595.0\" height=\"842\">\n\
                    <word xMin=\"1\" yMin=\"2\" xMax=\"3\" yMax=\"4\">homeless</word>\n\
                    <flow>\n<block xMin=\"1\">\n<line xMin=\"1\">\n\
                    <word xMin=\"1\" yMin=\"2\" \
                    xMax=\"3.5\" yMax=\"4\">R&amp;amp;D &lt;x&gt;</word>\n\
                    <word xMin=\"1\" yMin=\"2\">nowhere</word>\n<word xMin=\"1\" cut\n</line>\n\
                    </block>\n</flow>\n</page>\n<page width=\"1\" height=\"1\">\n<block >";
        let page = read(said).expect("a page");
        assert_eq!((page.size, page.blocks.len()), ((595.0, 842.0), 1));
        let text = "R&amp;D <x>".to_owned();
        let expected = Word { text, left: 1.0, top: 2.0, right: 3.5, bottom: 4.0 };
        assert_eq!(page.blocks[0].lines, [Line { words: vec![expected] }]);
        assert!(read("<html>\n<body>").is_none());
    }
}
