//! Files of pages: how many there are, what their text layer says, and how they look.
//!
//! PDFs are read by the programs of poppler, each run with limits. Pictures (PNG, JPEG, TIFF) are
//! one page each, without a text layer. Decides what a file is by its first bytes, never by its
//! name; whether a text layer can be believed; and how large a picture of a page may become. Leaves
//! out reading pictures, which is `ocr/`.

mod kind;
mod layer;
mod words;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::tool::{Options, Ran, Scratch, Tool, ToolError};

pub use self::kind::Kind;

const PACKAGE: &str = "poppler-utils";
const PDFINFO: Tool = Tool { program: "pdfinfo", package: PACKAGE };
const PDFTOTEXT: Tool = Tool { program: "pdftotext", package: PACKAGE };
const PDFTOPPM: Tool = Tool { program: "pdftoppm", package: PACKAGE };
const PDFIMAGES: Tool = Tool { program: "pdfimages", package: PACKAGE };

/// What becomes of text and headings, as far as it is our doing. Raised when that changes, so that
/// pages are read again.
pub const VERSION: &str = "1";

/// A picture of a page has no longer side. One of a larger sheet is coarser instead.
const SIDE_MAX: f32 = 10_000.0;
/// What poppler says when it has no memory.
const OUT_OF_MEMORY: &str = "Out of memory";
/// Points in an inch.
const POINTS: f32 = 72.0;

/// Why a file or a page cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PdfError {
    /// It is encrypted, and opens with a password only.
    #[error("the file is encrypted and opens only with a password")]
    Encrypted,
    /// This file never works.
    #[error("{why}")]
    Broken { why: String },
    /// A program is not installed: wait until it is.
    #[error("{program} is not installed; the package {package} has it")]
    Missing { program: &'static str, package: &'static str },
    /// It is not the file's fault: try again.
    #[error("{why}")]
    Transient { why: String },
    /// A program was ended by others: try again, a few times.
    #[error("{why}")]
    Ended { why: String },
}

impl PdfError {
    fn broken(why: impl Into<String>) -> PdfError {
        PdfError::Broken { why: why.into() }
    }
}

/// What a program failed of is in the file, unless it was not run, only waited or was
/// ended by others.
impl From<ToolError> for PdfError {
    fn from(error: ToolError) -> PdfError {
        match error {
            ToolError::Missing { program, package } => PdfError::Missing { program, package },
            ToolError::NotRun { .. } | ToolError::TimedOut { is_cpu: false, .. } => {
                PdfError::Transient { why: error.to_string() }
            }
            ToolError::Ended { .. } => PdfError::Ended { why: error.to_string() },
            ToolError::Failed { words, .. } if words.contains("Incorrect password") => {
                PdfError::Encrypted
            }
            ToolError::Failed { .. } | ToolError::TimedOut { .. } | ToolError::TooLarge { .. } => {
                PdfError::broken(error.to_string())
            }
        }
    }
}

/// A picture of a page. If it was made for this, it goes when this is dropped.
#[derive(Debug)]
pub struct Image {
    path: PathBuf,
    complaint: Option<String>,
    _made: Option<Scratch>,
}

impl Image {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was wrong with the page, if something was. It may be drawn in part, or not at all: one
    /// on which nothing is found then is broken and not empty.
    pub fn complaint(&self) -> Option<&str> {
        self.complaint.as_deref()
    }
}

/// Reads files of pages.
#[derive(Clone, Debug, Default)]
pub struct Pdf {
    options: Options,
}

impl Pdf {
    pub fn new(options: Options) -> Pdf {
        Pdf { options }
    }

    /// Whether the programs that it runs are there.
    pub fn is_there(&self) -> Result<(), PdfError> {
        for tool in [PDFINFO, PDFTOTEXT, PDFTOPPM] {
            tool.find(&self.options)?;
        }
        Ok(())
    }

    /// How many pages a file has.
    pub async fn pages(&self, path: &Path) -> Result<u32, PdfError> {
        if Kind::of_file(path)? != Kind::Pdf {
            return Ok(1);
        }
        let path = absolute(path)?;
        let ran = self.run(PDFINFO, &[path.as_os_str()]).await?;
        let said = String::from_utf8_lossy(&ran.said);
        let count = field(&said, "Pages:").and_then(|count| count.parse().ok());
        match count {
            Some(0) => Err(PdfError::broken("the file has no pages")),
            Some(count) => Ok(count),
            None => Err(PdfError::broken("pdfinfo does not say how many pages the file has")),
        }
    }

    /// What the text layer of a page says, as Markdown. None if there is none worth believing: the
    /// page is empty or a picture, or its signs stand for no letters.
    pub async fn text_layer(&self, path: &Path, page: u32) -> Result<Option<String>, PdfError> {
        if Kind::of_file(path)? != Kind::Pdf {
            return one(page).map(|()| None);
        }
        if page == 0 {
            // To pdftotext that is the first.
            return Err(PdfError::broken("the file has no page 0"));
        }
        let path = absolute(path)?;
        let number = page.to_string();
        let words = ["-f", &number, "-l", &number, "-bbox-layout", "-enc", "UTF-8"].map(OsStr::new);
        let words = [&words[..], &[path.as_os_str(), OsStr::new("-")]].concat();
        let ran = self.run(PDFTOTEXT, &words).await?;
        let found = words::read(&String::from_utf8_lossy(&ran.said));
        let Some(found) = found else {
            return Err(PdfError::broken(format!("the file has no page {page}")));
        };
        let Some(text) = layer::believed(found.blocks) else {
            return Ok(None);
        };
        let is_note = layer::is_scanty(&text) && self.is_picture(&path, page, found.size).await?;
        Ok((!is_note).then_some(text))
    }

    /// A picture of a page in PNG, in grey; or the file itself, if that is one.
    pub async fn raster(&self, path: &Path, page: u32, dpi: u32) -> Result<Image, PdfError> {
        let kind = Kind::of_file(path)?;
        let path = absolute(path)?;
        if kind != Kind::Pdf {
            return one(page).map(|()| Image { path, complaint: None, _made: None });
        }
        let (width, height) = self.size(&path, page).await?;
        let finest = SIDE_MAX * POINTS / width.max(height).max(1.0);
        let dpi = (dpi as f32).min(finest).max(1.0).to_string();
        let number = page.to_string();
        let words = ["-png", "-gray", "-singlefile", "-r", &dpi, "-f", &number, "-l", &number];
        let words = words.map(OsStr::new);
        let words = [&words[..], &[path.as_os_str(), OsStr::new("page")]].concat();
        let ran = self.run(PDFTOPPM, &words).await?;
        let made = ran.scratch.path().join("page.png");
        if !made.is_file() {
            let words = if ran.words.is_empty() { "it does not say why" } else { &*ran.words };
            return Err(PdfError::broken(format!("pdftoppm made no picture: {words}")));
        }
        let is_wrong = ran.words.contains("Error");
        let complaint = is_wrong.then(|| format!("pdftoppm: {}", ran.words));
        Ok(Image { path: made, complaint, _made: Some(ran.scratch) })
    }

    async fn run(&self, tool: Tool, words: &[&OsStr]) -> Result<Ran, PdfError> {
        let ran = tool.run(words, &self.options).await?;
        // Without memory it leaves out what it has no room for, and calls that a success.
        if ran.words.contains(OUT_OF_MEMORY) {
            let bytes = self.options.limits.memory_bytes;
            let why = format!("{} needs more than {bytes} bytes of memory", tool.program);
            return Err(PdfError::broken(why));
        }
        Ok(ran)
    }

    /// How large a page is, in points.
    async fn size(&self, path: &Path, page: u32) -> Result<(f32, f32), PdfError> {
        let number = page.to_string();
        let words = ["-f", &number, "-l", &number].map(OsStr::new);
        let ran = self.run(PDFINFO, &[&words[..], &[path.as_os_str()]].concat()).await?;
        let said = String::from_utf8_lossy(&ran.said);
        let size = said.lines().find_map(|line| {
            let rest = line.strip_prefix("Page")?.trim_start();
            let rest = rest.strip_prefix(&*number)?.trim_start().strip_prefix("size:")?;
            let mut sides = rest.split_whitespace();
            let width: f32 = sides.next()?.parse().ok()?;
            let height: f32 = sides.nth(1)?.parse().ok()?;
            (width.is_finite() && height.is_finite()).then_some((width, height))
        });
        size.ok_or_else(|| PdfError::broken(format!("the file has no page {page}")))
    }

    /// Whether most of a page is one picture.
    async fn is_picture(
        &self,
        path: &Path,
        page: u32,
        (width, height): (f32, f32),
    ) -> Result<bool, PdfError> {
        let number = page.to_string();
        let words = ["-list", "-f", &number, "-l", &number].map(OsStr::new);
        let ran = self.run(PDFIMAGES, &[&words[..], &[path.as_os_str()]].concat()).await?;
        let sheet = width * height / (POINTS * POINTS);
        let covers = |line: &str| {
            let columns: Vec<f32> =
                line.split_whitespace().map(|column| column.parse().unwrap_or(f32::NAN)).collect();
            // Width and height in dots, and far behind them how many dots make an inch.
            let [_, _, _, wide, high, _, _, _, _, _, _, _, wide_ppi, high_ppi, ..] = columns[..]
            else {
                return false;
            };
            wide / wide_ppi * (high / high_ppi) * 2.0 >= sheet
        };
        Ok(String::from_utf8_lossy(&ran.said).lines().any(covers))
    }
}

/// What stands behind a name, in what pdfinfo says.
fn field<'a>(said: &'a str, name: &str) -> Option<&'a str> {
    said.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// A path that no program takes for an option.
fn absolute(path: &Path) -> Result<PathBuf, PdfError> {
    std::path::absolute(path).map_err(|error| PdfError::Transient { why: error.to_string() })
}

fn one(page: u32) -> Result<(), PdfError> {
    if page == 1 { Ok(()) } else { Err(PdfError::broken(format!("a picture has no page {page}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::tool::How;

    #[test]
    fn whose_fault_it_is_follows_from_how_a_program_ended() {
        let program = "pdfinfo";
        let failed =
            |words: &str| ToolError::Failed { program, how: How::Code(1), words: words.into() };
        let late = |is_cpu| ToolError::TimedOut { program, secs: 9, is_cpu };
        for (error, is_broken) in [
            (failed("Syntax Error: Couldn't read xref table"), true),
            (late(true), true),
            (late(false), false),
            (ToolError::TooLarge { program, bytes: 1 }, true),
            (ToolError::NotRun { program, why: "no space left".into() }, false),
        ] {
            let why = error.to_string();
            let expected =
                if is_broken { PdfError::Broken { why } } else { PdfError::Transient { why } };
            assert_eq!(PdfError::from(error), expected);
        }
        let locked = failed("Command Line Error: Incorrect password");
        assert_eq!(PdfError::from(locked), PdfError::Encrypted);
        let missing = ToolError::Missing { program, package: PACKAGE };
        assert_eq!(
            PdfError::from(missing).to_string(),
            "pdfinfo is not installed; the package poppler-utils has it"
        );
    }
}
