//! A source as it is kept, in a note on a shelf of its own.
//!
//! Decides what may be said of a source, and which collection its documents are in. Leaves out
//! whether the folder is there, which is looked at when somebody says it and at every scan.

use std::path::{Component, Path};

use serde::{Deserialize, Serialize};
use windrow_core::limits::NAME_MAX;
use windrow_core::{Refusal, text};
use windrow_wire::source::{NewSource, OnMissing};

use super::walk::Id;
use crate::named::Name;

/// The shelf that sources lie on.
pub(crate) const SHELF: &str = "sources";
/// Bytes of a path: a file below it must fit into what a document is found by.
const PATH_MAX: usize = 1_000;
/// Names that are left out, and the bytes of one.
const IGNORE_MAX: usize = 100;
const IGNORED_MAX: usize = 255;
/// The collection of what has no folder to be called after.
const COLLECTION: &str = "default";

/// What the note of a source holds.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct Kept {
    /// What was said. The collection is always there.
    pub(crate) says: NewSource,
    /// The machine whose path it is.
    pub(crate) host: String,
    #[serde(default)]
    pub(crate) is_paused: bool,
    /// What told the folder from every other when it was named; none for a file.
    #[serde(default)]
    pub(crate) root: Option<Id>,
    /// How often somebody asked for everything to be looked at again.
    #[serde(default)]
    pub(crate) rescans: u64,
}

impl Kept {
    pub(crate) fn read(bytes: &[u8]) -> Option<Kept> {
        serde_json::from_slice(bytes).ok()
    }

    pub(crate) fn written(&self) -> std::sync::Arc<[u8]> {
        // Only maps whose keys are no texts cannot be written, and there is none in it.
        serde_json::to_vec(self).unwrap_or_default().into()
    }

    pub(crate) fn collection(&self) -> &str {
        self.says.collection.as_deref().unwrap_or(COLLECTION)
    }

    /// Why a folder is not believed to be the one that was named, if it is not and documents would
    /// go for it. Where they stay, a folder may be replaced by another.
    pub(crate) fn mistaken(&self, now: Option<Id>) -> Option<String> {
        let is_other = self.root.is_some() && now != self.root;
        (is_other && self.says.on_missing == OnMissing::Remove).then(|| {
            "it is another folder than when it was named, perhaps because something is not \
             mounted; if this is the one that is meant, PUT the source again"
                .to_owned()
        })
    }

    /// Whether another machine has files of the same paths in the same collection, so that one
    /// would take the other's documents for its own.
    fn is_rival(&self, other: &Kept) -> bool {
        let below = |one: &str, other: &str| {
            one.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let (ours, theirs) = (&self.says.path, &other.says.path);
        self.host != other.host
            && self.collection() == other.collection()
            && (below(ours, theirs) || below(theirs, ours))
    }
}

/// Why a source is in the way of another one, if it is.
pub(crate) fn rivalry(name: &Name, kept: &Kept, all: &[(Name, Kept, u64)]) -> Option<String> {
    let is_other = |other: &Name| other.tenant == name.tenant && other.name != name.name;
    let rival = |(other, its, _): &&(Name, Kept, u64)| is_other(other) && kept.is_rival(its);
    let (other, its, _) = all.iter().find(rival)?;
    Some(format!(
        "{} on {} is the source {} with the same collection, {}; name another collection, so that \
         the documents of both machines are told apart",
        its.says.path,
        its.host,
        other.name,
        kept.collection(),
    ))
}

/// What is to be kept of what was said, of a path that leads to a folder or to a file.
pub(crate) fn checked(mut says: NewSource, is_folder: bool) -> Result<NewSource, Refusal> {
    says.path = plain_path(&says.path)?;
    if says.ignore.len() > IGNORE_MAX {
        return Err(Refusal::invalid("ignore", format!("has more than {IGNORE_MAX} names")));
    }
    for name in &says.ignore {
        text::required("ignore", name, IGNORED_MAX)?;
        if name.contains('/') || name == "." {
            let why = "takes names, such as node_modules, and endings, such as .tmp; no paths";
            return Err(Refusal::invalid("ignore", why));
        }
    }
    let collection = match says.collection.take().filter(|said| !said.is_empty()) {
        Some(said) => said,
        None if is_folder => fitting(Path::new(&says.path)),
        None => COLLECTION.to_owned(),
    };
    text::name("collection", &collection, true)?;
    says.collection = Some(collection);
    Ok(says)
}

/// A path as it is kept: from the root, and by itself.
pub(crate) fn plain_path(said: &str) -> Result<String, Refusal> {
    let wrong = |why: &str| Err(Refusal::invalid("path", why));
    text::required("path", said, PATH_MAX)?;
    let path = Path::new(said);
    if !path.is_absolute() {
        return wrong("must begin with a slash: it is a path on the machine of the server");
    }
    // A dot in the middle is no component of its own, and two are.
    let has_dots = said.split('/').any(|part| matches!(part, "." | ".."));
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(part) => part.to_str(),
        _ => None,
    });
    let parts: Vec<&str> = parts.collect();
    if has_dots {
        return wrong("must not have . or .. in it");
    }
    if parts.is_empty() {
        return wrong("is the whole machine; name a folder");
    }
    Ok(format!("/{}", parts.join("/")))
}

/// A collection that is called after a folder.
fn fitting(folder: &Path) -> String {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    let plain: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match text::kept(plain.trim().to_owned(), NAME_MAX) {
        name if name.is_empty() => COLLECTION.to_owned(),
        name => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(json: &str) -> NewSource {
        serde_json::from_str(json).expect("a source")
    }

    #[test]
    fn documents_are_in_a_collection_called_after_their_folder() {
        let collection = |path: &str, is_folder| {
            let says = says(&format!(r#"{{"path":"{path}"}}"#));
            checked(says, is_folder).expect(path).collection.expect("there is always one")
        };
        assert_eq!(collection("/srv/inbox/", true), "inbox");
        assert_eq!(collection("/srv/Meine Akten", true), "Meine Akten");
        assert_eq!(collection("/srv/a.pdf", false), "default");
        let long = format!("/srv/{}", "ü".repeat(100));
        assert_eq!(collection(&long, true), "ü".repeat(64));
        let named = says(r#"{"path":"/srv/inbox","collection":"c"}"#);
        assert_eq!(checked(named, true).expect("it is named").collection.as_deref(), Some("c"));
    }

    #[test]
    fn what_cannot_be_a_source_is_refused_with_its_field() {
        for (json, why) in [
            (r#"{"path":""}"#, "path: must not be empty"),
            (r#"{"path":"inbox"}"#, "path: must begin with a slash"),
            (r#"{"path":"/srv/../etc"}"#, "path: must not have . or .."),
            (r#"{"path":"//"}"#, "path: is the whole machine"),
            (r#"{"path":"/srv","ignore":["a/b"]}"#, "ignore: takes names"),
            (r#"{"path":"/srv","ignore":[""]}"#, "ignore: must not be empty"),
        ] {
            let said = checked(says(json), true).expect_err(json).to_string();
            assert!(said.contains(why), "{json}: {said}");
        }
        assert_eq!(plain_path("//srv//inbox/").expect("a path"), "/srv/inbox");
    }

    fn kept(host: &str, json: &str) -> Kept {
        let host = host.to_owned();
        Kept { says: says(json), host, is_paused: false, root: Some((1, 2)), rescans: 0 }
    }

    #[test]
    fn a_folder_that_is_another_is_not_believed_where_documents_would_go() {
        let removes = kept("a", r#"{"path":"/srv/inbox","on_missing":"remove"}"#);
        assert_eq!(removes.mistaken(Some((1, 2))), None);
        for other in [Some((1, 3)), Some((2, 2)), None] {
            let said = removes.mistaken(other).expect("it is another");
            assert!(said.contains("not mounted") && said.contains("PUT"), "{said}");
        }
        let keeps = kept("a", r#"{"path":"/srv/inbox"}"#);
        assert_eq!(keeps.mistaken(Some((1, 3))), None);
        let old = Kept { root: None, ..removes };
        assert_eq!(old.mistaken(Some((1, 3))), None, "nobody looked when it was named");
    }

    /// Two machines with a folder of the same path let each other's documents go.
    #[test]
    fn folders_of_the_same_path_on_two_machines_need_two_collections() {
        let name = |tenant: &str, name: &str| Name { tenant: tenant.into(), name: name.into() };
        let there = kept("a", r#"{"path":"/srv/inbox","collection":"c"}"#);
        let all = [(name("t", "inbox"), there, 1)];
        let said = |of: &Name, host: &str, path: &str, collection: &str| {
            let json = format!(r#"{{"path":"{path}","collection":"{collection}"}}"#);
            rivalry(of, &kept(host, &json), &all)
        };
        let here = &name("t", "here");
        for path in ["/srv/inbox", "/srv", "/srv/inbox/deep"] {
            let said = said(here, "b", path, "c").expect(path);
            assert!(said.contains("/srv/inbox on a") && said.contains("collection"), "{said}");
        }
        assert_eq!(said(here, "a", "/srv/inbox", "c"), None, "on one machine it is one folder");
        assert_eq!(said(here, "b", "/srv/inbox", "d"), None);
        assert_eq!(said(here, "b", "/srv/inbox-2", "c"), None);
        assert_eq!(said(&name("u", "here"), "b", "/srv/inbox", "c"), None);
        assert_eq!(said(&name("t", "inbox"), "b", "/srv/inbox", "c"), None, "it moves");
    }
}
