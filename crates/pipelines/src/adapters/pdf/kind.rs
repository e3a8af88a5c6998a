//! What a file is, by its first bytes.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use super::PdfError;

/// A file of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Pdf,
    Png,
    Jpeg,
    Tiff,
}

/// Before a PDF begins there may be so much of something else.
const BEGINS_WITHIN: usize = 1_024;

impl Kind {
    /// What begins like this, if it is a file of pages. Of a PDF there may be something before it.
    pub fn of(bytes: &[u8]) -> Option<Kind> {
        let head = &bytes[..bytes.len().min(BEGINS_WITHIN)];
        let is_pdf = || head.windows(5).any(|five| five == b"%PDF-");
        Kind::exactly(bytes).or_else(|| is_pdf().then_some(Kind::Pdf))
    }

    /// What begins with its very first bytes. A text may speak of PDFs.
    fn exactly(bytes: &[u8]) -> Option<Kind> {
        let begins = |with: &[u8]| bytes.starts_with(with);
        if begins(b"\x89PNG\r\n\x1a\n") {
            Some(Kind::Png)
        } else if begins(b"\xff\xd8\xff") {
            Some(Kind::Jpeg)
        } else if begins(b"II*\0") || begins(b"MM\0*") {
            Some(Kind::Tiff)
        } else {
            begins(b"%PDF-").then_some(Kind::Pdf)
        }
    }

    /// Whether a file that is said to be of this type is one of pages, or says that it is.
    pub(crate) fn is_pages(path: &Path, media_type: &str) -> Result<bool, PdfError> {
        if media_type == "application/pdf" || media_type.starts_with("image/") {
            return Ok(true);
        }
        let head = head(path)?;
        let is_text = media_type.starts_with("text/");
        let kind = if is_text { Kind::exactly(&head) } else { Kind::of(&head) };
        Ok(kind.is_some())
    }

    /// As an endpoint is told it.
    pub fn media_type(self) -> &'static str {
        match self {
            Kind::Pdf => "application/pdf",
            Kind::Png => "image/png",
            Kind::Jpeg => "image/jpeg",
            Kind::Tiff => "image/tiff",
        }
    }

    pub(crate) fn of_file(path: &Path) -> Result<Kind, PdfError> {
        let head = head(path)?;
        if head.is_empty() {
            return Err(PdfError::broken("the file is empty"));
        }
        Kind::of(&head).ok_or_else(|| {
            PdfError::broken("the file is neither a PDF nor a picture in PNG, JPEG or TIFF")
        })
    }
}

/// The first bytes of a file.
fn head(path: &Path) -> Result<Vec<u8>, PdfError> {
    let mut head = Vec::with_capacity(BEGINS_WITHIN);
    let read =
        File::open(path).and_then(|file| file.take(BEGINS_WITHIN as u64).read_to_end(&mut head));
    match read {
        Ok(_) => Ok(head),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(PdfError::broken("the file is not there"))
        }
        Err(error) => Err(PdfError::Transient { why: format!("the file cannot be read: {error}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_what_it_begins_with() {
        for (bytes, expected) in [
            (&b"%PDF-1.7\n"[..], Some(Kind::Pdf)),
            (b"mail header\n\n%PDF-1.4", Some(Kind::Pdf)),
            (b"\x89PNG\r\n\x1a\nIHDR", Some(Kind::Png)),
            (b"\xff\xd8\xff\xe0JFIF", Some(Kind::Jpeg)),
            (b"II*\0....", Some(Kind::Tiff)),
            (b"MM\0*....", Some(Kind::Tiff)),
            (b"%PD", None),
            (b"PK\x03\x04", None),
            (b"", None),
        ] {
            assert_eq!(Kind::of(bytes), expected, "{bytes:?}");
        }
        let late = [&[b' '; BEGINS_WITHIN][..], b"%PDF-1.4"].concat();
        assert_eq!(Kind::of(&late), None);
    }
}
