//! What cargo built: the test binaries of the workspace, as its messages name them.
//!
//! Decides which messages are about a test binary and what it is called: by the words after
//! `cargo test -p` that repeat it. Reads cargo's messages and nothing else.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::cargo;

/// One test binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Suite {
    /// What follows `cargo test -p` to repeat it, such as `windrow-server --test slow`.
    pub(super) name: String,
    pub(super) package: String,
    /// The package's own manifest. Tests run in the directory of it.
    pub(super) manifest: PathBuf,
    pub(super) executable: PathBuf,
}

#[cfg(test)]
impl Suite {
    /// One of which only the name matters.
    pub(super) fn named(name: &str) -> Suite {
        let (name, package) = (name.to_owned(), "package".to_owned());
        Suite { name, package, manifest: PathBuf::new(), executable: PathBuf::new() }
    }
}

/// Builds all of them. What the compiler says is shown as it comes.
pub(super) fn build() -> anyhow::Result<Vec<Suite>> {
    let words = ["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"];
    let mut building = cargo::cargo(&words);
    let mut child = building.stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let mut messages = String::new();
    let stdout = child.stdout.as_mut().context("cargo has an output")?;
    stdout.read_to_string(&mut messages)?;
    let status = child.wait()?;
    if !status.success() {
        bail!("the tests do not build ({status}); `cargo test --workspace --no-run` repeats it");
    }
    read(&messages)
}

/// The test binaries among cargo's messages, one message on each line.
fn read(messages: &str) -> anyhow::Result<Vec<Suite>> {
    let mut suites = Vec::new();
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line)
            .with_context(|| format!("cargo said something that is not JSON: {line}"))?;
        suites.extend(suite(&message)?);
    }
    ensure!(!suites.is_empty(), "cargo built no test binary");
    Ok(suites)
}

/// `None` for everything that is not a test binary: libraries, programs, build scripts, the end.
fn suite(message: &Value) -> anyhow::Result<Option<Suite>> {
    let is_test = message["profile"]["test"] == true;
    let Some(executable) = message["executable"].as_str().filter(|_| is_test) else {
        return Ok(None);
    };
    let text = |value: &Value, what: &str| -> anyhow::Result<String> {
        let text = value.as_str().with_context(|| format!("no {what} in {message}"))?;
        Ok(text.to_owned())
    };
    let package = package(&text(&message["package_id"], "package")?);
    let target = text(&message["target"]["name"], "target")?;
    let selector = match text(&message["target"]["kind"][0], "kind")?.as_str() {
        "test" => format!("--test {target}"),
        "bin" => format!("--bin {target}"),
        "example" => format!("--example {target}"),
        "bench" => format!("--bench {target}"),
        _ => "--lib".to_owned(),
    };
    Ok(Some(Suite {
        name: format!("{package} {selector}"),
        package,
        manifest: PathBuf::from(text(&message["manifest_path"], "manifest")?),
        executable: PathBuf::from(executable),
    }))
}

/// A package's name in cargo's identifier of it, which leaves out a name that is the directory's.
fn package(id: &str) -> String {
    let (path, version) = id.rsplit_once('#').unwrap_or((id, ""));
    let named = version.split_once('@').map(|(name, _)| name);
    let directory = || Path::new(path).file_name().unwrap_or_default().to_string_lossy();
    named.map_or_else(|| directory().into_owned(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message about something that was built, as cargo writes it.
    fn built(package: &str, kind: &str, target: &str, is_test: bool, executable: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"path+file:///r/{package}",
            "manifest_path":"/r/Cargo.toml","target":{{"kind":["{kind}"],"name":"{target}"}},
            "profile":{{"test":{is_test}}},"executable":{executable}}}"#
        )
        .replace('\n', "")
    }

    #[test]
    fn test_binaries_are_called_by_what_repeats_them() {
        let exe = "\"/t/deps/x-1\"";
        let of = |kind, target| built("crates/core#windrow-core@0.1.0", kind, target, true, exe);
        let messages = [
            of("lib", "windrow_core"),
            of("test", "diagram"),
            of("bin", "sim"),
            built("xtask#0.1.0", "bin", "xtask", true, exe),
        ];
        let suites = read(&messages.join("\n")).unwrap();
        let names: Vec<&str> = suites.iter().map(|suite| suite.name.as_str()).collect();
        let expected = [
            "windrow-core --lib",
            "windrow-core --test diagram",
            "windrow-core --bin sim",
            "xtask --bin xtask",
        ];
        assert_eq!(names, expected);
        assert_eq!(suites[1].executable, Path::new("/t/deps/x-1"));
        assert_eq!(suites[1].manifest, Path::new("/r/Cargo.toml"));
    }

    #[test]
    fn libraries_programs_and_other_messages_are_no_test_binaries() {
        let id = "crates/core#windrow-core@0.1.0";
        let messages = [
            built(id, "lib", "windrow_core", false, "null"),
            built(id, "bin", "windrow", false, "\"/t/windrow\""),
            built(id, "lib", "tested_without_a_program", true, "null"),
            r#"{"reason":"build-script-executed","package_id":"x#1"}"#.to_owned(),
            built(id, "test", "diagram", true, "\"/t/diagram-1\""),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let suites = read(&messages.join("\n")).unwrap();
        assert_eq!(suites.len(), 1, "{suites:?}");
    }

    #[test]
    fn a_build_without_tests_does_not_pass_for_one_whose_tests_passed() {
        assert!(read(r#"{"reason":"build-finished","success":true}"#).is_err());
        assert!(read("Compiling").unwrap_err().to_string().contains("not JSON"));
    }
}
