//! The bare tools: what reads a page, in a shell loop.
//!
//! For each page what Windrow runs for it too: the text layer; and where there is none a picture of
//! the page, and its words. As many pages at once as there are cores.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Context as _;

use crate::servers::process::output;

/// What is done for one page: `$1` is the file, `$2` the number.
const PAGE: &str = r#"
set -e
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
case $1 in
*.pdf) pdftotext -f "$2" -l "$2" -bbox-layout -enc UTF-8 "$1" "$dir/layer" ;;
*) : > "$dir/layer" ;;
esac
if ! grep -q '<word' "$dir/layer"; then
    case $1 in
    *.pdf) pdftoppm -f "$2" -l "$2" -r 150 -gray -png -singlefile "$1" "$dir/page" ;;
    *) cp "$1" "$dir/page.png" ;;
    esac
    export OMP_THREAD_LIMIT=1
    tesseract "$dir/page.png" stdout -l eng --psm 3 tsv > "$dir/words" 2> /dev/null
fi
"#;

/// Files with pages, none like another.
pub(super) struct Files {
    dir: PathBuf,
    all: Vec<PathBuf>,
}

impl Files {
    /// So many copies of what is in a directory and has pages. Each has something behind its end
    /// that no reader looks at: what was read before is remembered by its content.
    pub(super) fn make(from: &Path, copies: usize, round: usize) -> anyhow::Result<Files> {
        let dir =
            std::env::temp_dir().join(format!("windrow-bench-{}-{round}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        let mut all = Vec::new();
        let files = std::fs::read_dir(from).with_context(|| from.display().to_string())?;
        for file in files {
            let path = file?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let has_pages = name.ends_with(".pdf") || name.ends_with(".png");
            if !has_pages || name.starts_with("corrupt") {
                continue;
            }
            let bytes = std::fs::read(&path)?;
            for copy in 0..copies {
                let made = dir.join(format!("{round}-{copy}-{name}"));
                let mark = format!("\n% {round} {copy}\n");
                std::fs::write(&made, [&bytes, mark.as_bytes()].concat())?;
                all.push(made);
            }
        }
        all.sort_unstable();
        anyhow::ensure!(!all.is_empty(), "there are no files with pages in {}", from.display());
        Ok(Files { dir, all })
    }

    pub(super) fn all(&self) -> &[PathBuf] {
        &self.all
    }

    /// Sends every page through the tools. How many seconds that takes.
    pub(super) fn through_the_tools(&self) -> anyhow::Result<f64> {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let began = Instant::now();
        let mut lines = String::new();
        for file in &self.all {
            for page in 1..=pages(file)? {
                lines.push_str(&format!("{}\n{page}\n", file.display()));
            }
        }
        let list = self.dir.join("list");
        std::fs::write(&list, lines)?;
        let mut loops = Command::new("xargs");
        loops.arg("-a").arg(&list).args(["-n", "2", "-P", &cores.to_string()]);
        output(loops.args(["sh", "-c", PAGE, "page"]))?;
        Ok(began.elapsed().as_secs_f64())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.dir);
    }
}

fn pages(file: &Path) -> anyhow::Result<usize> {
    if file.extension().is_none_or(|kind| kind != "pdf") {
        return Ok(1);
    }
    let said = output(Command::new("pdfinfo").arg(file))?;
    let count = said.lines().find_map(|line| line.strip_prefix("Pages:")?.trim().parse().ok());
    count.with_context(|| format!("pdfinfo says nothing of {}", file.display()))
}
