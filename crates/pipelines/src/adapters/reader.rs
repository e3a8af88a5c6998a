//! The reader of every kind of file that a pipeline takes.
//!
//! Decides who reads a page: a text is read as it is; of a PDF the text layer, if it can be
//! believed, else a picture of the page; and a picture by OCR. A page on which nothing was found is
//! empty, unless it could not be drawn whole: then it is bad.

use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::ocr::{Ocr, OcrError};
use super::pdf::{self, Kind, Pdf, PdfError};
use crate::documents::{PageText, ReadError, Reader, TextFiles};

/// Reads text, Markdown, HTML, PDFs and pictures.
#[derive(Clone, Debug)]
pub struct AnyFile {
    pub pdf: Pdf,
    pub ocr: Arc<dyn Ocr>,
}

impl AnyFile {
    /// What it needs on this machine and is not there, in words. It is waited for.
    pub fn missing(&self) -> Vec<String> {
        let pdf = self.pdf.is_there().err().map(|error| ReadError::from(error).to_string());
        let ocr = self.ocr.is_there().err().map(|error| ReadError::from(error).to_string());
        pdf.into_iter().chain(ocr).collect()
    }

    /// How a page looks, in PNG. None if the file has no pages that look like something.
    pub async fn picture(
        &self,
        file: &Path,
        media_type: &str,
        page: u32,
        dpi: u32,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        if !Kind::is_pages(file, media_type)? {
            return Ok(None);
        }
        let image = self.pdf.raster(file, page, dpi).await?;
        let unread = |why: String| ReadError::Transient { why, retry_after_ms: None };
        let read = tokio::task::spawn_blocking(move || std::fs::read(image.path())).await;
        let read = read.map_err(|error| unread(error.to_string()))?;
        Ok(Some(read.map_err(|error| unread(error.to_string()))?))
    }

    async fn count(&self, file: &Path, media_type: &str) -> Result<u32, ReadError> {
        if Kind::is_pages(file, media_type)? {
            Ok(self.pdf.pages(file).await?)
        } else {
            TextFiles.pages(file, media_type).await
        }
    }

    async fn page(&self, file: &Path, media_type: &str, page: u32) -> Result<PageText, ReadError> {
        if !Kind::is_pages(file, media_type)? {
            return TextFiles.read(file, media_type, page).await;
        }
        if let Some(markdown) = self.pdf.text_layer(file, page).await? {
            return Ok(PageText { markdown, how: "text_layer" });
        }
        let image = self.pdf.raster(file, page, self.ocr.dpi()).await?;
        let markdown = self.ocr.read(image.path()).await?;
        match image.complaint() {
            Some(why) if markdown.is_empty() => Err(ReadError::bad(why)),
            _ => Ok(PageText { markdown, how: self.ocr.how() }),
        }
    }
}

impl Reader for AnyFile {
    fn version(&self) -> String {
        let (text, pages, ocr) = (TextFiles.version(), pdf::VERSION, &self.ocr);
        let (name, version, parameters) = (ocr.name(), ocr.version(), ocr.parameters());
        format!("{text}, pages {pages}, {name} {version} {parameters}")
    }

    fn asks_others(&self) -> bool {
        self.ocr.how() == "vision"
    }

    fn pages<'a>(
        &'a self,
        file: &'a Path,
        media_type: &'a str,
    ) -> BoxFuture<'a, Result<u32, ReadError>> {
        Box::pin(self.count(file, media_type))
    }

    fn read<'a>(
        &'a self,
        file: &'a Path,
        media_type: &'a str,
        page: u32,
    ) -> BoxFuture<'a, Result<PageText, ReadError>> {
        Box::pin(self.page(file, media_type, page))
    }
}

impl From<PdfError> for ReadError {
    fn from(error: PdfError) -> ReadError {
        match error {
            PdfError::Missing { program, package } => {
                ReadError::Missing { program: program.to_owned(), package: package.to_owned() }
            }
            PdfError::Transient { why } => ReadError::Transient { why, retry_after_ms: None },
            PdfError::Ended { why } => ReadError::Ended { why },
            PdfError::Encrypted | PdfError::Broken { .. } => ReadError::bad(error),
        }
    }
}

impl From<OcrError> for ReadError {
    fn from(error: OcrError) -> ReadError {
        match error {
            OcrError::Missing { what, package } => ReadError::Missing { program: what, package },
            OcrError::Transient { why, retry_after_ms } => {
                ReadError::Transient { why, retry_after_ms }
            }
            OcrError::Ended { why } => ReadError::Ended { why },
            OcrError::Bad { why } => ReadError::Bad { why },
        }
    }
}
