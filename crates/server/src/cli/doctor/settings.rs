//! The configuration: whether it is understood, and who else can read what is secret in it.

use std::path::{Path, PathBuf};

use super::{Finding, Reach, Serving, failed, ok, warn};
use crate::config::{Config, KEYS, Layers, Origin};

/// Reads the configuration and says how that went.
pub(super) fn read(reach: &Reach, serving: &Serving, found: &mut Vec<Finding>) -> Option<Config> {
    let layers = reach.layers().and_then(|layers| serving.over(layers));
    let read = layers.and_then(|layers| Ok((Config::new(&layers)?, layers)));
    let (config, layers) = match read {
        Ok(read) => read,
        Err(error) => {
            let fix = "correct the file, the variable or the flag that it names".to_owned();
            found.push(Finding { fix: Some(fix), ..failed("config", &error) });
            return None;
        }
    };
    found.push(ok("config", "it is read, and every key in it is known"));
    for warning in layers.warnings() {
        found.push(warn("config", warning, "correct the name of the variable, or remove it"));
    }
    let files = secrets(&config, &layers, reach.token_file());
    let open: Vec<Finding> = files.iter().filter_map(|path| readable(path)).collect();
    if !files.is_empty() && open.is_empty() {
        found.push(ok("secrets", "files with secrets are their owner's alone"));
    }
    found.extend(open);
    Some(config)
}

/// Files that hold secrets.
fn secrets(config: &Config, layers: &Layers, token: Option<&Path>) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    files.extend(token.map(Path::to_owned));
    files.extend(config.token_file.clone());
    files.extend(config.tls.as_ref().map(|tls| tls.key.clone()));
    for key in KEYS.iter().filter(|key| key.is_secret) {
        match layers.origin(key.name) {
            Origin::File(path) => files.push(path),
            Origin::Environment(name) if name.ends_with("_FILE") => {
                files.extend(std::env::var_os(name).map(PathBuf::from));
            }
            Origin::Environment(_) | Origin::Flag(_) | Origin::Default => {}
        }
    }
    files.extend(std::env::var_os("WINDROW_TOKEN_FILE").map(PathBuf::from));
    files.sort();
    files.dedup();
    files
}

/// Says so if others than its owner can read a file.
fn readable(path: &Path) -> Option<Finding> {
    use std::os::unix::fs::PermissionsExt as _;
    let shown = path.display();
    match std::fs::metadata(path) {
        Ok(told) if told.permissions().mode() & 0o077 != 0 => {
            let mode = told.permissions().mode() & 0o777;
            let said =
                format!("{shown} holds a secret and has mode {mode:03o}: others can read it");
            Some(warn("secrets", said, format!("chmod 600 {shown}")))
        }
        Ok(_) => None,
        Err(error) => {
            let fix = "name a file that this user can read";
            Some(super::problem("secrets", format!("{shown}: {error}"), fix))
        }
    }
}
