//! Reading by tesseract, a program on this machine, run with limits and one thread.

use std::ffi::OsStr;
use std::path::Path;

use futures_util::future::BoxFuture;

use super::{Ocr, OcrError, tsv};
use crate::adapters::pdf::Kind;
use crate::adapters::tool::{self, Tool, ToolError};
use crate::text::layout::{Sizes, markdown};

const TESSERACT: Tool = Tool { program: "tesseract", package: "tesseract-ocr" };

/// Raised when we make something else of its words.
const VERSION: &str = "1";

/// What can be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// The languages of the texts as tesseract calls them, such as `eng` or `deu+eng`.
    pub languages: String,
    /// The resolution at which pages are read. Of scans in print of six points and more, 150 reads
    /// as many words as 200 and 300, and takes a quarter and half of their time off.
    pub dpi: u32,
    pub tool: tool::Options,
}

impl Default for Options {
    fn default() -> Options {
        Options { languages: "eng".to_owned(), dpi: 150, tool: tool::Options::default() }
    }
}

/// A text that names no languages.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} names no languages; write them as tesseract calls them, such as eng or deu+eng")]
pub struct NotLanguages(String);

/// Tesseract.
#[derive(Debug)]
pub struct Tesseract {
    options: Options,
    parameters: String,
}

impl Tesseract {
    /// Nothing is run yet, and it need not be installed yet.
    pub fn new(options: Options) -> Result<Tesseract, NotLanguages> {
        let Options { languages, dpi, .. } = &options;
        let is_one = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_alphabetic())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        if !languages.split('+').all(is_one) {
            return Err(NotLanguages(languages.clone()));
        }
        let parameters = format!("languages={languages} dpi={dpi}");
        Ok(Tesseract { options, parameters })
    }

    async fn recognise(&self, image: &Path) -> Result<String, OcrError> {
        check(image)?;
        let image = std::path::absolute(image);
        let image = image.map_err(|error| OcrError::transient(error.to_string()))?;
        let words = ["stdout", "-l", &self.options.languages, "--psm", "3", "tsv"].map(OsStr::new);
        let words = [&[image.as_os_str()], &words[..]].concat();
        let ran = TESSERACT.run(&words, &self.options.tool).await.map_err(failed)?;
        // Without one of several it goes on, and reads what it can.
        if let Some(missing) = unloaded(&ran.words) {
            return Err(missing);
        }
        Ok(markdown(tsv::read(&String::from_utf8_lossy(&ran.said)), Sizes::Ink))
    }
}

impl Ocr for Tesseract {
    fn name(&self) -> &str {
        "tesseract"
    }

    fn version(&self) -> &str {
        VERSION
    }

    fn parameters(&self) -> &str {
        &self.parameters
    }

    fn dpi(&self) -> u32 {
        self.options.dpi
    }

    fn is_there(&self) -> Result<(), OcrError> {
        Ok(TESSERACT.find(&self.options.tool).map(drop)?)
    }

    fn read<'a>(&'a self, image: &'a Path) -> BoxFuture<'a, Result<String, OcrError>> {
        Box::pin(self.recognise(image))
    }
}

/// Tesseract takes what it does not know for a list of files, and would read those.
fn check(image: &Path) -> Result<(), OcrError> {
    match Kind::of_file(image) {
        Ok(Kind::Png | Kind::Jpeg | Kind::Tiff) => Ok(()),
        Ok(Kind::Pdf) => Err(OcrError::bad("a PDF is no picture")),
        Err(error) => Err(error.into()),
    }
}

/// A language that is not installed is no fault of the picture.
fn failed(error: ToolError) -> OcrError {
    let missing = match &error {
        ToolError::Failed { words, .. } => unloaded(words),
        _ => None,
    };
    missing.unwrap_or_else(|| error.into())
}

/// A language that it says it does not have.
fn unloaded(words: &str) -> Option<OcrError> {
    let (_, rest) = words.split_once("Failed loading language '")?;
    let (language, _) = rest.split_once('\'')?;
    let what = format!("the language {language} of tesseract");
    Some(OcrError::Missing { what, package: package(language) })
}

/// The Debian package of a language.
fn package(language: &str) -> String {
    format!("tesseract-ocr-{}", language.to_lowercase().replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::tool::How;

    #[test]
    fn languages_are_names() {
        for (languages, is_fine) in [
            ("eng", true),
            ("deu+eng", true),
            ("chi_sim", true),
            ("", false),
            ("eng+", false),
            ("../eng", false),
            ("-eng", false),
            ("eng deu", false),
        ] {
            let options = Options { languages: languages.to_owned(), ..Options::default() };
            assert_eq!(Tesseract::new(options).is_ok(), is_fine, "{languages}");
        }
    }

    #[test]
    fn what_changes_the_text_is_in_the_parameters() {
        let one = Tesseract::new(Options::default()).unwrap();
        assert_eq!(one.parameters(), "languages=eng dpi=150");
        assert_eq!((one.name(), one.version(), one.dpi()), ("tesseract", "1", 150));
    }

    #[test]
    fn a_language_that_is_missing_is_no_fault_of_the_picture() {
        let words = "Error opening data file deu.traineddata Failed loading language 'deu' \
                     Tesseract couldn't load any languages!";
        let program = "tesseract";
        let error = ToolError::Failed { program, how: How::Code(1), words: words.into() };
        let said =
            "the language deu of tesseract is not installed; the package tesseract-ocr-deu has it";
        assert_eq!(failed(error).to_string(), said);
        assert_eq!(package("chi_sim"), "tesseract-ocr-chi-sim");
    }
}
