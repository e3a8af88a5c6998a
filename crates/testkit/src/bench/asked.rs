//! The words after the name of a bench: what all of them understand, and what one has beside it.

use std::ffi::OsString;

use lexopt::Parser;
use lexopt::prelude::*;

/// What every bench can be asked for.
#[derive(PartialEq, Eq, Debug, Default)]
pub(super) struct Asked {
    pub(super) json: bool,
    pub(super) quick: bool,
    /// The parts of the bench that are wanted; all if nobody said.
    pub(super) only: Option<Vec<String>>,
}

/// A bench, to whoever reads what it is asked for.
#[derive(Clone, Debug)]
pub(super) struct Words {
    pub(super) help: &'static str,
    /// What a part is called, and which there are.
    pub(super) part: &'static str,
    pub(super) parts: Vec<&'static str>,
}

impl Words {
    /// What is asked for; nothing if that is help. An option that not every bench has goes to
    /// `other`, which says whether it knows it.
    pub(super) fn read(
        &self,
        words: Vec<OsString>,
        mut other: impl FnMut(&str, &mut Parser) -> anyhow::Result<bool>,
    ) -> anyhow::Result<Option<Asked>> {
        let mut asked = Asked::default();
        let mut words = Parser::from_args(words);
        while let Some(word) = words.next()? {
            match word {
                Long("json") => asked.json = true,
                Long("quick") => asked.quick = true,
                Long("only") => {
                    let names = words.value()?.string()?;
                    asked.only = Some(self.parts_of(&names)?);
                }
                Long("help") | Short('h') => return Ok(None),
                Long(name) => {
                    let name = name.to_owned();
                    let is_known = other(&name, &mut words)?;
                    anyhow::ensure!(is_known, "no option --{name}\n\n{}", self.help);
                }
                word => return Err(word.unexpected().into()),
            }
        }
        Ok(Some(asked))
    }

    fn parts_of(&self, names: &str) -> anyhow::Result<Vec<String>> {
        let names: Vec<String> = names.split(',').map(str::to_owned).collect();
        for name in &names {
            let is_known = self.parts.contains(&name.as_str());
            anyhow::ensure!(is_known, "no {} {name}\n\n{}", self.part, self.help);
        }
        Ok(names)
    }
}

impl Asked {
    /// Whether a part is wanted.
    pub(super) fn wants(&self, part: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|one| one == part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> anyhow::Result<Option<Asked>> {
        let bench = Words { help: "bench x", part: "sort", parts: vec!["fast", "slow"] };
        let words = words.iter().map(OsString::from).collect();
        bench.read(words, |name, words| match name {
            "width" => Ok(words.value()?.parse::<u8>().is_ok()),
            _ => Ok(false),
        })
    }

    #[test]
    fn what_every_bench_understands_is_read() {
        let asked = read(&["--quick", "--width", "3", "--only", "slow"]).unwrap().unwrap();
        assert!(asked.quick && !asked.json);
        assert!(asked.wants("slow") && !asked.wants("fast"));
        let asked = read(&["--json", "--only=slow,fast"]).unwrap().unwrap();
        assert!(asked.json && !asked.quick && asked.wants("slow") && asked.wants("fast"));
        assert!(read(&[]).unwrap().unwrap().wants("fast"), "all, if nobody said");
        assert_eq!(read(&["--json", "-h"]).unwrap(), None);
    }

    #[test]
    fn what_no_bench_understands_is_refused_with_the_help() {
        let said = |words| read(words).unwrap_err().to_string();
        assert_eq!(said(&["--only", "fast,odd"]), "no sort odd\n\nbench x");
        assert_eq!(said(&["--odd"]), "no option --odd\n\nbench x");
        assert!(read(&["--width", "many"]).is_err());
        assert!(read(&["odd"]).is_err());
        assert!(read(&["--only"]).is_err());
    }
}
