//! Layers: which crate may depend on which, and on what from outside.
//!
//! A crate earns its boundary by forbidding something; this is the list of what each forbids. It
//! reads the manifests themselves, so a dependency is refused before it is ever built.

use super::Finding;
use super::tree::Tree;

/// What one crate may depend on.
struct Law {
    /// Its directory under crates/, and its name after `windrow-`.
    name: &'static str,
    /// Crates of this workspace below it.
    below: &'static [&'static str],
    /// Crates of this workspace its tests may use as well.
    for_tests: &'static [&'static str],
    outside: Outside,
    why: &'static str,
}

enum Outside {
    Any,
    Only(&'static [&'static str]),
    /// Also every crate whose name goes on with a dash, such as `axum-extra`.
    AnyBut(&'static [&'static str]),
}

const LAWS: &[Law] = &[
    Law {
        name: "core",
        below: &[],
        for_tests: &["testkit"],
        outside: Outside::Only(&["hashbrown", "siphasher", "smallvec", "thiserror"]),
        why: "the rules do no I/O, await nothing and read no clock",
    },
    Law {
        name: "store",
        below: &["core"],
        for_tests: &["testkit"],
        outside: Outside::Any,
        why: "a store knows the rules and the disk, not who calls it",
    },
    Law {
        name: "engine",
        below: &["core"],
        for_tests: &["store", "testkit"],
        outside: Outside::AnyBut(HTTP_AND_SQL),
        why: "the engine runs over any store and under any front",
    },
    Law {
        name: "wire",
        below: &["core"],
        for_tests: &[],
        outside: Outside::Only(&[
            "base64",
            "capnp",
            "schemars",
            "serde",
            "serde_json",
            "serde_path_to_error",
        ]),
        why: "what goes over the wire is said without knowing who sends it or how",
    },
    Law {
        name: "client",
        below: &["core", "wire"],
        for_tests: &[],
        outside: Outside::AnyBut(FRONTS_AND_SQL),
        why: "who uses a queue elsewhere carries neither a server nor a store",
    },
    Law {
        name: "pipelines",
        // The client for its workers, which take any queue.
        below: &["core", "client"],
        for_tests: &["testkit", "engine", "store"],
        outside: Outside::AnyBut(FRONTS),
        why: "a pipeline sees the port of a queue, so that it runs in the server or elsewhere",
    },
    Law {
        name: "testkit",
        below: &["core", "store", "engine", "client"],
        for_tests: &["server"],
        outside: Outside::Any,
        why: "the proofs stand beside the program, not on it",
    },
    Law {
        name: "server",
        below: &["core", "store", "engine", "wire", "client", "pipelines"],
        for_tests: &["testkit"],
        outside: Outside::Any,
        why: "what is only for tests does not ship",
    },
];

const FRONTS: &[&str] = &["axum", "reqwest", "tower", "warp"];

const FRONTS_AND_SQL: &[&str] =
    &["axum", "reqwest", "tower", "warp", "rusqlite", "sqlx", "tokio-postgres"];

const HTTP_AND_SQL: &[&str] = &[
    "axum",
    "hyper",
    "reqwest",
    "tower",
    "warp", // fronts
    "deadpool",
    "diesel",
    "libsqlite3",
    "postgres",
    "rusqlite",
    "sea-orm",
    "sqlx",
    "tokio-postgres",
];

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let Some(name) = crate_name(&file.path) else {
            continue;
        };
        let Some(law) = LAWS.iter().find(|law| law.name == name) else {
            let message = format!("say in {} what `{name}` may depend on", file!());
            findings.push(Finding::new(&file.path, 0, message));
            continue;
        };
        for dependency in dependencies(&file.text) {
            if let Some(message) = law.refuses(&dependency) {
                findings.push(Finding::new(&file.path, dependency.line, message));
            }
        }
    }
    findings
}

impl Law {
    fn refuses(&self, dependency: &Dependency) -> Option<String> {
        let Dependency { name, renamed, for_tests, .. } = *dependency;
        if renamed {
            return Some(format!("`{name}` is renamed, which hides what it is"));
        }
        let allowed = match name.strip_prefix("windrow-") {
            Some(ours) => self.below.contains(&ours) || for_tests && self.for_tests.contains(&ours),
            None => for_tests || self.outside.allows(name),
        };
        let refusal = || format!("{} must not depend on `{name}`: {}", self.name, self.why);
        (!allowed).then(refusal)
    }
}

impl Outside {
    fn allows(&self, name: &str) -> bool {
        match self {
            Outside::Any => true,
            Outside::Only(list) => list.contains(&name),
            Outside::AnyBut(list) => !list.iter().any(|banned| {
                name.strip_prefix(banned)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            }),
        }
    }
}

fn crate_name(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml").filter(|name| !name.contains('/'))
}

#[derive(Debug, PartialEq, Eq)]
struct Dependency<'a> {
    name: &'a str,
    line: usize,
    renamed: bool,
    for_tests: bool,
}

/// The dependencies a manifest names, in either of TOML's spellings and for any target.
fn dependencies(manifest: &str) -> Vec<Dependency<'_>> {
    let mut found: Vec<Dependency<'_>> = Vec::new();
    let mut section = Section::Other;
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        let line_number = index + 1;
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = section_of(header);
            if let Section::One { name, for_tests } = section {
                found.push(Dependency { name, line: line_number, renamed: false, for_tests });
            }
            continue;
        }
        let key = line.split(['=', '.', ' ']).next().unwrap_or("");
        let is_key =
            !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-".contains(c));
        match section {
            Section::Many { for_tests } if is_key => {
                let renamed = line.contains("package =") || line.contains("package=");
                found.push(Dependency { name: key, line: line_number, renamed, for_tests });
            }
            Section::One { .. } if key == "package" => {
                found.last_mut().expect("the header was pushed").renamed = true;
            }
            _ => {}
        }
    }
    found
}

#[derive(Clone, Copy)]
enum Section<'a> {
    /// `[dependencies]`
    Many {
        for_tests: bool,
    },
    /// `[dependencies.name]`
    One {
        name: &'a str,
        for_tests: bool,
    },
    Other,
}

fn section_of(header: &str) -> Section<'_> {
    for (table, for_tests) in
        [("dev-dependencies", true), ("build-dependencies", false), ("dependencies", false)]
    {
        let Some(at) = header.find(table) else {
            continue;
        };
        return match header[at + table.len()..].strip_prefix('.') {
            Some(name) => Section::One { name, for_tests },
            None => Section::Many { for_tests },
        };
    }
    Section::Other
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[track_caller]
    fn check(name: &str, manifest: &str, expected: &[&str]) {
        let path = format!("crates/{name}/Cargo.toml");
        let found = found(find, &[(&path, manifest)]);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(&format!("{path}:{expected}")), "{found}");
        }
    }

    #[test]
    fn every_spelling_of_a_dependency_is_read() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\n\
                        b = { version = \"1\", features = [\n  \"c\",\n] }\nd=\"1\"\n\
                        [dev-dependencies]\ne = \"1\"\n[build-dependencies.f]\nversion = \"1\"\n\
                        [target.'cfg(unix)'.dependencies]\ng = \"1\"\n[features]\nh = []\n";
        let names: Vec<_> = dependencies(manifest).iter().map(|d| (d.name, d.for_tests)).collect();
        let expected =
            [("a", false), ("b", false), ("d", false), ("e", true), ("f", false), ("g", false)];
        assert_eq!(names, expected);
    }

    #[test]
    fn the_core_depends_on_nothing_of_ours_and_nothing_with_io() {
        check("core", "[dependencies]\nthiserror = \"2\"\n", &[]);
        check("core", "[dependencies]\nwindrow-store.workspace = true\n", &["2: core must not"]);
        check("core", "[dependencies]\ntokio = \"1\"\n", &["2: core must not depend on `tokio`"]);
        check("core", "[dev-dependencies]\nwindrow-engine.workspace = true\n", &["2: core must"]);
        check("core", "[dependencies.tokio]\nversion = \"1\"\n", &["1: core must not"]);
    }

    #[test]
    fn the_store_knows_only_the_core() {
        check("store", "[dependencies]\nwindrow-core.workspace = true\n", &[]);
        check("store", "[dependencies]\nwindrow-engine.workspace = true\n", &["2: store must not"]);
    }

    #[test]
    fn the_engine_knows_a_store_only_in_tests_and_never_http_or_sql() {
        check("engine", "[dev-dependencies]\nwindrow-store.workspace = true\n", &[]);
        check("engine", "[dependencies]\nwindrow-store.workspace = true\n", &["2: engine must"]);
        for name in ["axum", "axum-extra", "rusqlite", "sqlx", "tokio-postgres"] {
            check("engine", &format!("[dependencies]\n{name} = \"1\"\n"), &["2: engine must"]);
        }
        check("engine", "[dependencies]\ntokio = \"1\"\n", &[]);
    }

    #[test]
    fn a_pipeline_sees_a_queue_wherever_it_is_and_serves_nothing() {
        check("pipelines", "[dependencies]\nwindrow-core.workspace = true\nhyper = \"1\"\n", &[]);
        for name in ["windrow-engine", "windrow-store", "windrow-server", "axum"] {
            let manifest = format!("[dependencies]\n{name} = \"1\"\n");
            check("pipelines", &manifest, &["2: pipelines must not"]);
        }
    }

    #[test]
    fn what_is_for_tests_does_not_ship() {
        check("server", "[dependencies]\nwindrow-testkit.workspace = true\n", &["2: server must"]);
        check("server", "[dev-dependencies]\nwindrow-testkit.workspace = true\n", &[]);
    }

    #[test]
    fn a_renamed_dependency_cannot_hide() {
        let renamed = "[dependencies]\nthiserror = { package = \"tokio\", version = \"1\" }\n";
        check("core", renamed, &["2: `thiserror` is renamed"]);
        let renamed = "[dependencies.thiserror]\npackage = \"tokio\"\n";
        check("core", renamed, &["1: `thiserror` is renamed"]);
    }

    #[test]
    fn a_crate_without_a_law_is_found() {
        check("novel", "", &[" say in "]);
    }
}
