//! A program of a Debian package.

use std::path::Path;

use anyhow::Context as _;

use super::postgres::apt_install;

pub(super) struct Debian {
    pub(super) package: &'static str,
    /// Where it is when it is there.
    pub(super) program: &'static str,
}

/// Shows a process another time; tests of the server move its clock with it.
pub(super) const FAKETIME: Debian = Debian { package: "faketime", program: "/usr/bin/faketime" };

/// Reads PDFs, for tests of the pipelines as for their users.
pub(super) const POPPLER: Debian =
    Debian { package: "poppler-utils", program: "/usr/bin/pdftotext" };
/// Reads pictures of text.
pub(super) const TESSERACT: Debian =
    Debian { package: "tesseract-ocr", program: "/usr/bin/tesseract" };

impl Debian {
    pub(super) fn is_here(&self) -> bool {
        Path::new(self.program).exists()
    }

    pub(super) fn install(&self) -> anyhow::Result<()> {
        apt_install(self.package).with_context(|| format!("without apt, put {}", self.program))
    }
}
