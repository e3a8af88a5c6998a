//! OCR: a picture of a page becomes Markdown.
//!
//! `tesseract.rs` runs a program on this machine; `vision.rs` asks a model behind an endpoint. A
//! page without text is read as nothing, which is no failure. Leaves out remembering what was read
//! before, which is the pipeline's: name, version and parameters say when that holds no longer.

pub mod tesseract;
mod tsv;
pub mod vision;

use std::fmt;
use std::path::Path;

use futures_util::future::BoxFuture;

use super::pdf::PdfError;
use super::tool::ToolError;

/// Something that reads pictures of text.
pub trait Ocr: fmt::Debug + Send + Sync {
    /// What it is, in a word.
    fn name(&self) -> &str;

    /// How it reads, in a word that stands beside every page it read.
    fn how(&self) -> &'static str {
        "ocr"
    }

    /// Raised when it reads otherwise, so that everything is read again.
    fn version(&self) -> &str;

    /// What was chosen of it that changes what it reads.
    fn parameters(&self) -> &str;

    /// The resolution at which it wants to see a page, in dots per inch.
    fn dpi(&self) -> u32;

    /// Whether what it needs on this machine is there.
    fn is_there(&self) -> Result<(), OcrError> {
        Ok(())
    }

    /// Reads a picture in PNG, JPEG or TIFF.
    fn read<'a>(&'a self, image: &'a Path) -> BoxFuture<'a, Result<String, OcrError>>;
}

/// Why a picture was not read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OcrError {
    /// It is not the picture's fault: try again.
    #[error("{why}")]
    Transient {
        why: String,
        /// How long the endpoint asks to be left alone.
        retry_after_ms: Option<u64>,
    },
    /// A program was ended by others: try again, a few times.
    #[error("{why}")]
    Ended { why: String },
    /// This picture never works.
    #[error("{why}")]
    Bad { why: String },
    /// Something is not installed: wait until it is.
    #[error("{what} is not installed; the package {package} has it")]
    Missing { what: String, package: String },
}

impl OcrError {
    fn transient(why: impl Into<String>) -> OcrError {
        OcrError::Transient { why: why.into(), retry_after_ms: None }
    }

    fn bad(why: impl Into<String>) -> OcrError {
        OcrError::Bad { why: why.into() }
    }
}

/// What a program failed of is in the picture, unless it was not run, only waited or
/// was ended by others.
impl From<ToolError> for OcrError {
    fn from(error: ToolError) -> OcrError {
        match error {
            ToolError::Missing { program, package } => {
                OcrError::Missing { what: program.to_owned(), package: package.to_owned() }
            }
            ToolError::NotRun { .. } | ToolError::TimedOut { is_cpu: false, .. } => {
                OcrError::transient(error.to_string())
            }
            ToolError::Ended { .. } => OcrError::Ended { why: error.to_string() },
            ToolError::Failed { .. } | ToolError::TimedOut { .. } | ToolError::TooLarge { .. } => {
                OcrError::bad(error.to_string())
            }
        }
    }
}

/// A picture that is no file of pages, or cannot be had.
impl From<PdfError> for OcrError {
    fn from(error: PdfError) -> OcrError {
        match error {
            PdfError::Missing { program, package } => {
                OcrError::Missing { what: program.to_owned(), package: package.to_owned() }
            }
            PdfError::Transient { why } => OcrError::transient(why),
            PdfError::Ended { why } => OcrError::Ended { why },
            PdfError::Broken { .. } | PdfError::Encrypted => OcrError::bad(error.to_string()),
        }
    }
}
