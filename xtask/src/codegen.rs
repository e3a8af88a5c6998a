//! Codegen: the code that is made from schemas, made again and compared.
//!
//! It is checked in, so that whoever builds Windrow needs no schema compiler. What is checked in
//! must be what the compiler writes, line by line.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::setup::{self, Need, capnp};
use crate::{Verb, cargo};

pub(crate) const VERB: Verb = Verb {
    name: "codegen",
    summary: "makes the Rust code of the Cap'n Proto schemas; --check only compares",
    help: Some(HELP),
    run,
};

const HELP: &str = "\
cargo xtask codegen [--check]

Installs what is missing (capnp from Debian, capnpc-rust from crates.io), then
makes the code of every schema and puts it where it is checked in.

  --check   changes nothing, and fails if what is checked in is something else
";

/// A schema, and the file that is made of it.
struct Schema {
    schema: &'static str,
    code: &'static str,
}

const SCHEMAS: &[Schema] = &[
    Schema {
        schema: "crates/wire/schema/queue.capnp",
        code: "crates/wire/src/generated/queue_capnp.rs",
    },
    Schema {
        schema: "crates/server/tests/rpc/seed.capnp",
        code: "crates/server/tests/rpc/generated/seed_capnp.rs",
    },
];

fn run(words: Vec<OsString>) -> anyhow::Result<()> {
    let only_checks = match words.as_slice() {
        [] => false,
        [word] if word == "--check" => true,
        _ => bail!("codegen takes --check or nothing; try --help"),
    };
    setup::ensure(&[Need::Capnp, Need::CapnpcRust])?;
    if only_checks {
        return check();
    }
    for schema in SCHEMAS {
        let (made, place) = (schema.make()?, cargo::root().join(schema.code));
        fs::create_dir_all(place.parent().unwrap_or(&place))?;
        fs::write(&place, made).with_context(|| format!("cannot write {}", schema.code))?;
        eprintln!("codegen: {}", schema.code);
    }
    Ok(())
}

/// Fails if what is checked in is not what the compiler writes.
pub(crate) fn check() -> anyhow::Result<()> {
    for schema in SCHEMAS {
        let place = cargo::root().join(schema.code);
        let there =
            fs::read_to_string(&place).with_context(|| format!("cannot read {}", schema.code))?;
        if there != schema.make()? {
            bail!("{} is not what is made of {}", schema.code, schema.schema);
        }
    }
    eprintln!("codegen: {} schemas, their code is what is made of them", SCHEMAS.len());
    Ok(())
}

impl Schema {
    /// The code, made beside what is checked in.
    fn make(&self) -> anyhow::Result<String> {
        let out = cargo::target_dir().join("codegen");
        fs::create_dir_all(&out)?;
        let schema = cargo::root().join(self.schema);
        let prefix = schema.parent().unwrap_or(Path::new("/"));
        let mut compile = Command::new("capnp");
        compile.arg("compile").arg(format!("--src-prefix={}", prefix.display()));
        compile.arg(format!("-o{}:{}", capnp::plugin().display(), out.display()));
        cargo::run(compile.arg(&schema))?;
        let name = Path::new(self.code).file_name().unwrap_or_default();
        let made = fs::read_to_string(out.join(name));
        let made = made.with_context(|| format!("nothing was made of {}", self.schema))?;
        Ok(without_the_compiler(&made))
    }
}

/// Which version of the compiler a system has changes nothing but the line that says so.
fn without_the_compiler(code: &str) -> String {
    let is_said = |line: &&str| line.starts_with("// capnp binary version");
    code.split_inclusive('\n').filter(|line| !is_said(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_line_about_the_compiler_is_left_out() {
        let code = "// source: a\n// capnp binary version: 0.9.2\n\nmod a {}\n";
        assert_eq!(without_the_compiler(code), "// source: a\n\nmod a {}\n");
    }

    #[test]
    fn every_schema_and_its_code_are_there() {
        for Schema { schema, code } in SCHEMAS {
            assert!(cargo::root().join(schema).is_file(), "{schema}");
            assert!(cargo::root().join(code).is_file(), "{code}");
        }
    }
}
