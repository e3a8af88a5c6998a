//! Layers of values, and which of them said what.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context as _;

use super::keys::{KEYS, Key, SEEDS, find, near};

/// The prefix of our environment variables: `WINDROW_SERVER__LISTEN` is `server.listen`.
const PREFIX: &str = "WINDROW_";
/// A variable that ends like this names a file that holds the value.
const IN_A_FILE: &str = "_FILE";

/// Who said something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    Default,
    File(PathBuf),
    Environment(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("by default"),
            Origin::File(path) => write!(f, "from {}", path.display()),
            Origin::Environment(name) => write!(f, "from {name}"),
            Origin::Flag(name) => write!(f, "from {name}"),
        }
    }
}

/// What was said last about each key.
#[derive(Debug)]
pub(crate) struct Layers {
    values: BTreeMap<String, (String, Origin)>,
    /// What was said before, and counts no more.
    before: BTreeMap<String, Vec<(String, Origin)>>,
    warnings: Vec<String>,
}

impl Layers {
    /// Nothing but the defaults.
    pub(crate) fn new() -> Layers {
        let default =
            |key: &Key| Some((key.name.to_owned(), (key.default?.to_owned(), Origin::Default)));
        let values = KEYS.iter().filter(|key| key.is_one()).filter_map(default).collect();
        Layers { values, before: BTreeMap::new(), warnings: Vec::new() }
    }

    /// What a file says, in TOML.
    pub(crate) fn with_file(mut self, path: &Path) -> anyhow::Result<Layers> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
        // What stands there may be a password: only the place is told.
        let table = text.parse::<toml::Table>().map_err(|error: toml::de::Error| {
            let before = error.span().map_or("", |span| text.get(..span.start).unwrap_or(""));
            let line = before.matches('\n').count() + 1;
            anyhow::anyhow!("{shown}: line {line}: {}", error.message())
        })?;
        let mut said = Vec::new();
        flatten("", &table, &mut said);
        for (name, value) in said {
            let origin = Origin::File(path.to_owned());
            let set = value.and_then(|value| self.set(&name, value, origin));
            set.with_context(|| shown.to_string())?;
        }
        Ok(self)
    }

    /// What the environment says: by the names of the seeds, and over that by ours.
    pub(crate) fn with_environment(
        mut self,
        variables: impl Iterator<Item = (String, String)>,
    ) -> anyhow::Result<Layers> {
        let variables: Vec<(String, String)> = variables.collect();
        for (variable, value) in &variables {
            let (named, in_a_file) = match variable.strip_suffix(IN_A_FILE) {
                Some(named) => (named, true),
                None => (variable.as_str(), false),
            };
            let Some((_, key)) = SEEDS.iter().find(|(seed, _)| *seed == named) else { continue };
            let value = if in_a_file { held_by(variable, value)? } else { value.clone() };
            self.set(key, value, Origin::Environment(variable.clone()))
                .with_context(|| variable.clone())?;
        }
        for (variable, value) in variables {
            let Some(name) = variable.strip_prefix(PREFIX).filter(|name| name.contains("__"))
            else {
                self.warnings.extend(slip(&variable));
                continue;
            };
            let dotted = name.to_ascii_lowercase().replace("__", ".");
            let in_a_file = dotted.strip_suffix(&IN_A_FILE.to_ascii_lowercase());
            let origin = Origin::Environment(variable.clone());
            match in_a_file.filter(|_| find(&dotted).is_none()) {
                Some(name) => self.set(name, held_by(&variable, &value)?, origin),
                None => self.set(&dotted, value, origin),
            }
            .with_context(|| variable.clone())?;
        }
        Ok(self)
    }

    /// What was said on the command line.
    pub(crate) fn with_flag(
        mut self,
        flag: &'static str,
        name: &str,
        value: Option<String>,
    ) -> anyhow::Result<Layers> {
        if let Some(value) = value {
            self.set(name, value, Origin::Flag(flag))?;
        }
        Ok(self)
    }

    fn set(&mut self, name: &str, value: String, origin: Origin) -> anyhow::Result<()> {
        let Some(key) = find(name) else {
            return Err(match near(name) {
                Some(meant) => anyhow::anyhow!("there is no {name}; {meant} is meant, perhaps"),
                None => anyhow::anyhow!(
                    "there is no {name}; `windrow config show` lists everything that there is"
                ),
            });
        };
        // A store that is named later is meant instead of one that was named before.
        let other = match key.name {
            "store.url" => Some("store.data_dir"),
            "store.data_dir" => Some("store.url"),
            _ => None,
        };
        let is_earlier = |(_, said): &(String, Origin)| said.layer() < origin.layer();
        if let Some(other) = other.filter(|other| self.values.get(*other).is_some_and(is_earlier)) {
            self.values.remove(other);
        }
        if let Some(said) = self.values.insert(name.to_owned(), (value, origin))
            && said.1 != Origin::Default
        {
            self.before.entry(name.to_owned()).or_default().push(said);
        }
        Ok(())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let said = self.values.get(name).map(|(value, _)| value.as_str());
        said.or_else(|| find(name)?.default)
    }

    /// The texts of a list: an array, or with commas between them.
    pub(crate) fn list(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let value = self.get(name).unwrap_or_default();
        if let Some(array) = array(value) {
            return array.with_context(|| format!("{name} ({})", self.origin(name)));
        }
        let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
        Ok(names.map(str::to_owned).collect())
    }

    /// Every name of which something is said under a table, such as `workers`.
    pub(crate) fn names(&self, table: &str) -> Vec<String> {
        let name = |key: &String| match key.split('.').collect::<Vec<_>>()[..] {
            [first, name, _] if first == table => Some(name.to_owned()),
            _ => None,
        };
        let mut names: Vec<String> = self.values.keys().filter_map(name).collect();
        names.dedup();
        names
    }

    /// The environment's names of other systems that count.
    pub(crate) fn seeds(&self) -> Vec<(&str, &str)> {
        let mut all: Vec<(&str, &str)> = Vec::new();
        for (key, (_, origin)) in &self.values {
            if let Origin::Environment(name) = origin
                && !name.starts_with(PREFIX)
            {
                all.push((name, key));
            }
        }
        all
    }

    pub(crate) fn origin(&self, name: &str) -> Origin {
        self.values.get(name).map_or(Origin::Default, |(_, origin)| origin.clone())
    }

    /// Who said it, and whom that overrules.
    pub(crate) fn story(&self, key: &Key, name: &str) -> String {
        let mut story = self.origin(name).to_string();
        for (value, origin) in self.before.get(name).into_iter().flatten().rev() {
            story.push_str(&match key.is_secret {
                true => format!(", not {origin}"),
                false => format!(", not {value:?} {origin}"),
            });
        }
        story
    }

    /// What looks like a mistake, and is not one for certain.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Yes or no, as people and other systems write it.
    pub(crate) fn flag(&self, name: &str) -> anyhow::Result<bool> {
        let value = self.get(name).unwrap_or_default();
        match value.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Ok(true),
            "false" | "no" | "off" | "0" | "" => Ok(false),
            _ => anyhow::bail!("{name} ({}): {value:?} is not true or false", self.origin(name)),
        }
    }

    pub(crate) fn parse<T: FromStr>(&self, name: &str) -> anyhow::Result<T>
    where
        T::Err: fmt::Display,
    {
        let value = self.get(name).with_context(|| format!("{name} is not given"))?;
        let wrong = |error: T::Err| {
            let why = in_words(&error.to_string());
            anyhow::anyhow!("{name} ({}): {value:?}: {why}", self.origin(name))
        };
        value.parse().map_err(wrong)
    }
}

/// Why something is no number, in other words than the library's.
fn in_words(error: &str) -> String {
    if error.starts_with("invalid digit") || error.starts_with("cannot parse integer") {
        "expected a whole number of zero or more".to_owned()
    } else if error.starts_with("number too large") {
        "the number is too large".to_owned()
    } else {
        error.to_owned()
    }
}

impl Origin {
    /// Later ones win.
    fn layer(&self) -> u8 {
        match self {
            Origin::Default => 0,
            Origin::File(_) => 1,
            Origin::Environment(_) => 2,
            Origin::Flag(_) => 3,
        }
    }
}

/// What stands in the file that a variable names.
fn held_by(variable: &str, path: &str) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("{variable}: cannot read {path}"))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// The texts of an array, if it is one.
pub(super) fn array(value: &str) -> Option<anyhow::Result<Vec<String>>> {
    let is_array = value.trim_start().starts_with('[');
    // What stands there may be a secret, and is not repeated.
    let wrong = |_| anyhow::anyhow!("is not an array of texts; write [\"a\", \"b c\"]");
    is_array.then(|| serde_json::from_str(value).map_err(wrong))
}

/// A warning about a variable that is one of ours but for an underscore.
fn slip(variable: &str) -> Option<String> {
    let name = variable.strip_prefix(PREFIX)?;
    let (name, end) = match name.strip_suffix(IN_A_FILE) {
        Some(name) => (name, IN_A_FILE),
        None => (name, ""),
    };
    let is_meant =
        |key: &&Key| key.is_one() && key.name.replace('.', "_").eq_ignore_ascii_case(name);
    let meant = KEYS.iter().find(is_meant)?.name.replace('.', "__").to_ascii_uppercase();
    Some(format!("{variable} is not read; {PREFIX}{meant}{end} is meant, with two underscores"))
}

type Said = (String, anyhow::Result<String>);

/// Dotted names for what stands in tables.
fn flatten(above: &str, table: &toml::Table, into: &mut Vec<Said>) {
    for (name, value) in table {
        let name = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        let Some(key) = find(&name) else {
            match value {
                toml::Value::Table(inner) => flatten(&name, inner, into),
                toml::Value::Array(all)
                    if is_named(&name) && all.iter().all(|one| one.is_table()) =>
                {
                    let wrong = format!("[[{name}]] has no name; write [{name}.NAME] for each");
                    into.push((name, Err(anyhow::anyhow!(wrong))));
                }
                // That there is no such name, and which is meant, is said of the name alone.
                _ => into.push((name, Ok(String::new()))),
            }
            continue;
        };
        let said = text_of(key, value).map_err(|wanted| anyhow::anyhow!("{name}: {wanted}"));
        into.push((name, said));
    }
}

/// Whether what is below a name has names of its own.
fn is_named(above: &str) -> bool {
    let below = |key: &Key| key.name.strip_prefix(above).is_some_and(|rest| rest.starts_with('.'));
    KEYS.iter().any(|key| !key.is_one() && below(key))
}

/// A value as a text, or what is wanted instead.
fn text_of(key: &Key, value: &toml::Value) -> Result<String, &'static str> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Array(all) if key.is_list => {
            let texts: Option<Vec<&str>> = all.iter().map(toml::Value::as_str).collect();
            texts.and_then(|texts| serde_json::to_string(&texts).ok()).ok_or(LIST)
        }
        _ if key.is_list => Err(LIST),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Boolean(yes) => Ok(yes.to_string()),
        toml::Value::Array(_) => Err("expected one value, and it is an array; write it without []"),
        toml::Value::Datetime(_) => Err("cannot be a time; write it as a text, in quotes"),
        toml::Value::Float(_) => Err("cannot be a number with a point"),
        toml::Value::Table(_) => Err("expected one value, and it is a table; write it with ="),
    }
}

/// What a list is written like.
const LIST: &str = "expected a text or an array of texts, such as [\"a\", \"b c\"]";

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(all: &[(&str, &str)]) -> impl Iterator<Item = (String, String)> + use<> {
        let all: Vec<_> = all.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        all.into_iter()
    }

    fn file(test: &str, text: &str) -> PathBuf {
        let name = format!("windrow-config-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).expect("it can be written");
        path
    }

    #[test]
    fn later_layers_win_and_their_origin_is_known() {
        let path = file("later", "[server]\nlisten = \"127.0.0.1:1\"\ndrain_ms = 7\n");
        let layers = Layers::new().with_file(&path).expect("it is read");
        assert_eq!(layers.get("server.drain_ms"), Some("7"));
        let said = variables(&[
            ("WINDROW_SERVER__LISTEN", "127.0.0.1:2"),
            ("HOME", "/"),
            ("WINDROW_X", ""),
        ]);
        let layers = layers.with_environment(said).expect("it is read");
        assert_eq!(layers.get("server.listen"), Some("127.0.0.1:2"));
        let layers = layers.with_flag("--listen", "server.listen", Some("127.0.0.1:3".into()));
        let layers = layers.expect("it is read");
        assert_eq!(
            layers.parse::<std::net::SocketAddr>("server.listen").expect("an address").port(),
            3
        );
        assert_eq!(layers.origin("server.listen").to_string(), "from --listen");
        assert_eq!(layers.origin("server.drain_ms"), Origin::File(path.clone()));
        std::fs::remove_file(path).expect("it is there");
    }

    #[test]
    fn whoever_is_overruled_is_named_too() {
        let path = file("story", "[server]\nlisten = \"127.0.0.1:1\"\n");
        let layers = Layers::new().with_file(&path).expect("it is read");
        let said = variables(&[("WINDROW_SERVER__LISTEN", "127.0.0.1:2")]);
        let layers = layers.with_environment(said).expect("it is read");
        let key = find("server.listen").expect("there is one");
        let file = format!("not \"127.0.0.1:1\" from {}", path.display());
        assert_eq!(layers.story(key, key.name), format!("from WINDROW_SERVER__LISTEN, {file}"));
        let other = find("server.drain_ms").expect("there is one");
        assert_eq!(layers.story(other, other.name), "by default");
        std::fs::remove_file(path).expect("it is there");
    }

    #[test]
    fn names_of_the_seeds_work_below_ours() {
        let secret = file("cron", "0123456789abcdef0123456789abcdef\n");
        let said = [
            ("WINDROW_WORKERS__POLL_S", "7"),
            ("WORKER_POLL_INTERVAL", "9"),
            ("TASK_QUEUE_ENABLED", "true"),
            ("CRON_SECRET_FILE", secret.to_str().expect("a text")),
        ];
        let layers = Layers::new().with_environment(variables(&said)).expect("it is read");
        assert_eq!(layers.get("workers.poll_s"), Some("7"));
        assert_eq!(layers.get("workers.enabled"), Some("true"));
        assert_eq!(layers.get("workers.secret"), Some("0123456789abcdef0123456789abcdef"));
        let used =
            [("TASK_QUEUE_ENABLED", "workers.enabled"), ("CRON_SECRET_FILE", "workers.secret")];
        assert_eq!(layers.seeds(), used);
        std::fs::remove_file(secret).expect("it is there");
    }

    #[test]
    fn what_is_declared_has_a_name_and_lists() {
        let text = "[workers.load]\nqueues = [\"a\", \"b,c\"]\nkinds = \"x, y\"\n\
                    [workers.sum]\nmax_jobs = 2\n";
        let path = file("workers", text);
        let layers = Layers::new().with_file(&path).expect("it is read");
        assert_eq!(layers.names("workers"), ["load", "sum"]);
        assert_eq!(layers.list("workers.load.queues").expect("a list"), ["a", "b,c"]);
        assert_eq!(layers.list("workers.load.kinds").expect("a list"), ["x", "y"]);
        assert_eq!(layers.get("workers.sum.max_jobs"), Some("2"));
        assert_eq!(layers.get("workers.load.max_jobs"), Some("3"));
        std::fs::remove_file(path).expect("it is there");
    }

    #[test]
    fn a_variable_with_one_underscore_too_few_is_not_passed_over_in_silence() {
        let said = variables(&[
            ("WINDROW_SERVER_LISTEN", "127.0.0.1:2"),
            ("WINDROW_STORE_URL_FILE", "x"),
            ("WINDROW_POSTGRES_18", "x"),
        ]);
        let layers = Layers::new().with_environment(said).expect("it is read");
        let [listen, url] = layers.warnings() else { panic!("{:?}", layers.warnings()) };
        assert!(listen.contains("WINDROW_SERVER__LISTEN is meant"), "{listen}");
        assert!(url.contains("WINDROW_STORE__URL_FILE is meant"), "{url}");
        assert_eq!(layers.get("server.listen"), Some("127.0.0.1:7117"));
    }

    #[test]
    fn a_store_that_is_named_later_takes_the_place_of_the_other() {
        let path = file("store", "[store]\ndata_dir = \"/data\"\n");
        let secret = file("secret", "postgres://u:p@h/d\n");
        let said = [("WINDROW_STORE__URL_FILE", secret.to_str().expect("a text"))];
        let layers = Layers::new().with_file(&path).expect("it is read");
        let layers = layers.with_environment(variables(&said)).expect("it is read");
        assert_eq!(layers.get("store.url"), Some("postgres://u:p@h/d"));
        assert_eq!(layers.get("store.data_dir"), None);
        for path in [path, secret] {
            std::fs::remove_file(path).expect("it is there");
        }
    }

    #[test]
    fn what_does_not_exist_is_refused_with_what_was_meant() {
        let path = file("wrong", "[server]\nlisen = \"127.0.0.1:1\"\n");
        let error = format!("{:#}", Layers::new().with_file(&path).expect_err("it is wrong"));
        assert!(error.contains("there is no server.lisen; server.listen is meant"), "{error}");
        for (text, says) in [
            ("[server]\nlisten = [1]", "server.listen: expected one value, and it is an array"),
            ("[workers.load]\nstage = [\"ocr\"]", "workers.NAME.stages is meant, perhaps"),
            ("[workers.load]\nstages = 3", "workers.load.stages: expected a text or an array"),
            ("[workers.load]\nstages = [3]", "workers.load.stages: expected a text or an array"),
            ("[workers.load.max_jobs]\na = 1", "max_jobs: expected one value, and it is a table"),
            ("[[workers]]\nstages = [\"ocr\"]", "[[workers]] has no name; write [workers.NAME]"),
            ("[[servers]]\nlisten = \"x\"", "there is no servers;"),
        ] {
            std::fs::write(&path, text).expect("it can be written");
            let error = format!("{:#}", Layers::new().with_file(&path).expect_err("it is wrong"));
            let is_placed = error.starts_with(&path.display().to_string());
            assert!(is_placed && error.contains(says), "{error}");
        }
        std::fs::write(&path, "[store]\nurl = \"postgres://u:secret@h\"\nurl = \"\"\n")
            .expect("written");
        let error = format!("{:#}", Layers::new().with_file(&path).expect_err("it is wrong"));
        assert!(error.contains("line 3: duplicate key") && !error.contains("secret"), "{error}");
        std::fs::remove_file(path).expect("it is there");
        let said = variables(&[("WINDROW_STORE__URLL", "x")]);
        let error = format!("{:#}", Layers::new().with_environment(said).expect_err("it is wrong"));
        assert!(error.contains("WINDROW_STORE__URLL: there is no store.urll"), "{error}");
        for (value, says) in [("abc", "expected a whole number"), ("-4", "expected a whole number")]
        {
            let said = variables(&[("WINDROW_SERVER__DRAIN_MS", value)]);
            let layers = Layers::new().with_environment(said).expect("it is read");
            let error = layers.parse::<u64>("server.drain_ms").expect_err("it is wrong");
            assert!(error.to_string().contains(says), "{error}");
        }
        let layers = Layers::new().with_flag("--listen", "server.listen", Some("here".into()));
        let error = layers.expect("it is read").parse::<std::net::SocketAddr>("server.listen");
        assert!(error.expect_err("it is wrong").to_string().contains("(from --listen)"));
    }
}
