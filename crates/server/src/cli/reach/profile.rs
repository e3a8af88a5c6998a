//! Profiles: servers by a name, with what opens them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;

use crate::cli::exit::Stop;

/// One server.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    pub(super) server: String,
    pub(super) token_file: Option<PathBuf>,
    pub(super) ca: Option<PathBuf>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
}

/// The file that holds a user's profiles.
fn path() -> anyhow::Result<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty());
    let home = || named("HOME").map(|home| PathBuf::from(home).join(".config"));
    let base = named("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home);
    let base = base.context("there is no HOME, so there are no profiles; give --server")?;
    Ok(base.join("windrow/config.toml"))
}

/// The profile of this name.
pub(super) fn named(name: &str) -> anyhow::Result<Profile> {
    let path = path()?;
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    read(&path, &text, name)
}

fn read(path: &Path, text: &str, name: &str) -> anyhow::Result<Profile> {
    let shown = path.display();
    let File { mut profiles } = toml::from_str(text).with_context(|| shown.to_string())?;
    let known = profiles.keys().cloned().collect::<Vec<_>>().join(", ");
    let found = profiles.remove(name);
    let found = found.ok_or_else(|| {
        let known = if known.is_empty() { String::new() } else { format!("; there are {known}") };
        Stop::usage(format!(
            "there is no profile {name:?}{known}; write [profiles.{name}] with server = \
             \"http://…\" into {shown}"
        ))
    })?;
    // A path in a profile is meant from where the profile is.
    let beside = |file: PathBuf| path.parent().map_or(file.clone(), |dir| dir.join(&file));
    Ok(Profile {
        token_file: found.token_file.map(beside),
        ca: found.ca.map(beside),
        server: found.server,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_names_a_server_and_files_beside_it() {
        let text = "[profiles.prod]\nserver = \"https://q.example\"\ntoken_file = \"prod.token\"\n";
        let path = Path::new("/c/windrow/config.toml");
        let prod = read(path, text, "prod").expect("it is there");
        assert_eq!(prod.server, "https://q.example");
        assert_eq!(prod.token_file.as_deref(), Some(Path::new("/c/windrow/prod.token")));
        let error = read(path, text, "test").expect_err("it is not").to_string();
        assert!(error.contains("there are prod") && error.contains("[profiles.test]"), "{error}");
        assert!(read(path, "[profiles.x]\nsever = 1", "x").is_err());
    }
}
