//! Sources: folders of the server's machine, watched for documents.
//!
//! Whoever may look sees where they are and how they are. Only an admin says which path of the
//! machine is read, and only one who has to do with all tenants: the files of the machine are no
//! tenant's.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use axum::routing::{delete, get, post, put};
use serde::Deserialize;
use tokio::task::spawn_blocking;
use windrow_core::Refusal;
use windrow_core::note::Expects;
use windrow_engine::Failure;
use windrow_wire::source as wire;
use windrow_wire::source::NewSource;

use super::App;
use super::reply::{Asked, Done, Failed, Named, Read};
use super::table::{Operation, Role};
use crate::auth::Scoped;
use crate::named::Name;
use crate::sources::kept::{Kept, checked, plain_path};
use crate::sources::walk::Id;

const TENANT: (&str, &str) = ("tenant", "whose it is (also user_id); `default` if left out");

/// What can be asked of sources.
pub(super) fn operations() -> Vec<Operation> {
    let of = Operation::new;
    vec![
        of(
            Method::GET,
            "/sources",
            Role::Viewer,
            "Folders that are watched for documents, with what became of their files.",
            get(list),
        )
        .asks(&[("tenant", "only this tenant's (also user_id)")])
        .gives::<Vec<wire::Source>>(200),
        of(Method::GET, "/sources/{name}", Role::Viewer, "One of them.", get(show))
            .asks(&[TENANT])
            .gives::<wire::Source>(200),
        of(
            Method::PUT,
            "/sources/{name}",
            Role::Admin,
            "Watch a folder of the server's machine, or one file: what is in it becomes documents, \
             and what changes new versions of them.",
            put(write),
        )
        .asks(&[TENANT])
        .needs::<NewSource>()
        .gives::<wire::Source>(200),
        of(
            Method::DELETE,
            "/sources/{name}",
            Role::Admin,
            "Watch a folder no more. Its documents stay.",
            delete(remove),
        )
        .asks(&[TENANT])
        .gives::<Done>(200),
        of(
            Method::POST,
            "/sources/{name}/pause",
            Role::Admin,
            "Do not look at a folder until it is resumed.",
            post(pause),
        )
        .asks(&[TENANT])
        .gives::<wire::Source>(200),
        of(Method::POST, "/sources/{name}/resume", Role::Admin, "Look at it again.", post(resume))
            .asks(&[TENANT])
            .gives::<wire::Source>(200),
        of(
            Method::POST,
            "/sources/{name}/rescan",
            Role::Admin,
            "Look at it now, and read every file again to see whether it has changed.",
            post(rescan),
        )
        .asks(&[TENANT])
        .gives::<wire::Source>(200),
    ]
}

/// Whose source is meant.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Whose {
    #[serde(alias = "user_id")]
    tenant: Option<String>,
}

impl Whose {
    /// The source that is meant, of a tenant that the caller has to do with.
    fn named(&self, name: &str, scoped: &Scoped) -> Result<Name, Failed> {
        let own = scoped.tenant();
        let tenant = self.tenant.as_deref().filter(|said| !said.is_empty()).unwrap_or(&own);
        let name = Name::new(tenant, name)?;
        scoped.own(tenant)?;
        Ok(name)
    }
}

async fn list(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Asked(whose): Asked<Whose>,
) -> Result<Json<Vec<wire::Source>>, Failed> {
    let tenant = whose.tenant.as_deref().filter(|said| !said.is_empty());
    let is_meant = |name: &Name| {
        scoped.sees(&name.tenant) && tenant.is_none_or(|tenant| *tenant == *name.tenant)
    };
    let all = app.sources.all().await?.into_iter().filter(|(name, ..)| is_meant(name));
    Ok(Json(all.map(|(name, kept, _)| shown(&app, name, kept)).collect()))
}

async fn show(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Named(name): Named,
    Asked(whose): Asked<Whose>,
) -> Result<Json<wire::Source>, Failed> {
    let name = whose.named(&name, &scoped)?;
    let (kept, _) = known(&app, &name).await?;
    Ok(Json(shown(&app, name, kept)))
}

async fn write(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Named(name): Named,
    Asked(whose): Asked<Whose>,
    Read(says): Read<NewSource>,
) -> Result<Json<wire::Source>, Failed> {
    let name = whose.named(&name, &scoped)?;
    scoped.whole()?;
    let root = looked_at(&app, &says.path).await?;
    let says = checked(says, root.is_some())?;
    let host = app.sources.host().to_owned();
    let new = Kept { says, host, is_paused: false, root, rescans: 0 };
    if let Some(why) = app.sources.rivalry(&name, &new).await? {
        return Err(Refusal::invalid("collection", why).into());
    }
    changed(&app, name, |was| {
        let (is_paused, rescans) = was.map_or((false, 0), |was| (was.is_paused, was.rescans));
        Some(Kept { is_paused, rescans, ..new.clone() })
    })
    .await
}

/// Looks what is at a path that somebody wants to be read; what tells it apart if it is a folder.
async fn looked_at(app: &App, said: &str) -> Result<Option<Id>, Failed> {
    let (path, places) = (plain_path(said)?, app.documents.places());
    let look = move || {
        let wrong = |why: String| Refusal::invalid("path", why);
        let here = Path::new(&path).canonicalize();
        let here = here.map_err(|error| wrong(format!("cannot be read here: {error}")))?;
        let about = here.metadata().map_err(|error| wrong(error.to_string()))?;
        let is_own = |place: &std::path::PathBuf| {
            place.canonicalize().is_ok_and(|place| here.starts_with(place))
        };
        if places.iter().any(is_own) {
            return Err(wrong("is where the queue keeps its own files".into()));
        }
        match (about.is_dir(), about.is_file()) {
            (false, false) => Err(wrong("is neither a folder nor a file".into())),
            (is_folder, _) => Ok(is_folder.then(|| (about.dev(), about.ino()))),
        }
    };
    let given_up = |_| Failed::from(Refusal::Internal);
    Ok(spawn_blocking(look).await.map_err(given_up)??)
}

async fn remove(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Named(name): Named,
    Asked(whose): Asked<Whose>,
) -> Result<Json<Done>, Failed> {
    let name = whose.named(&name, &scoped)?;
    loop {
        let (_, version) = known(&app, &name).await?;
        match app.sources.write(&name, Expects::Version(version), None).await {
            Err(Failure::Refused(Refusal::Changed { .. })) => {}
            written => {
                written?;
                return Ok(Done::YES);
            }
        }
    }
}

async fn pause(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Named(name): Named,
    Asked(whose): Asked<Whose>,
) -> Result<Json<wire::Source>, Failed> {
    let name = whose.named(&name, &scoped)?;
    changed(&app, name, |was| Some(Kept { is_paused: true, ..was? })).await
}

async fn resume(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Named(name): Named,
    Asked(whose): Asked<Whose>,
) -> Result<Json<wire::Source>, Failed> {
    let name = whose.named(&name, &scoped)?;
    changed(&app, name, |was| Some(Kept { is_paused: false, ..was? })).await
}

async fn rescan(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Named(name): Named,
    Asked(whose): Asked<Whose>,
) -> Result<Json<wire::Source>, Failed> {
    let name = whose.named(&name, &scoped)?;
    changed(&app, name, |was| was.map(|was| Kept { rescans: was.rescans + 1, ..was })).await
}

async fn known(app: &App, name: &Name) -> Result<(Kept, u64), Failed> {
    app.sources.find(name).await?.ok_or_else(|| Failed::not_found("such source"))
}

/// Changes a source, as often as somebody else does at the same moment. There is none if nothing
/// comes of it.
async fn changed(
    app: &App,
    name: Name,
    change: impl Fn(Option<Kept>) -> Option<Kept>,
) -> Result<Json<wire::Source>, Failed> {
    loop {
        let (was, version) = app.sources.find(&name).await?.unzip();
        let kept = change(was.clone()).ok_or_else(|| Failed::not_found("such source"))?;
        if was.as_ref() == Some(&kept) {
            return Ok(Json(shown(app, name, kept)));
        }
        let expects = version.map_or(Expects::Nothing, Expects::Version);
        match app.sources.write(&name, expects, Some(&kept)).await {
            Err(Failure::Refused(Refusal::Changed { .. })) => {}
            written => {
                written?;
                return Ok(Json(shown(app, name, kept)));
            }
        }
    }
}

/// As it is shown, with what is known here of how it goes.
fn shown(app: &App, name: Name, kept: Kept) -> wire::Source {
    let is_here = app.sources.is_here(&kept);
    let status = app.sources.status(&name).filter(|_| is_here);
    let state = match &status {
        _ if !is_here => wire::State::Elsewhere,
        _ if kept.is_paused => wire::State::Paused,
        Some(status) => status.state.unwrap_or(wire::State::Waiting),
        None => wire::State::Waiting,
    };
    let collection = kept.collection().to_owned();
    let Kept { says: NewSource { path, on_missing, ignore, .. }, host, .. } = kept;
    let since_start = status.as_ref().map(|status| status.sum);
    let status = status.unwrap_or_default();
    wire::Source {
        name: name.name,
        tenant: name.tenant,
        path,
        collection,
        on_missing,
        ignore,
        host,
        state,
        last_error: status.last_error.filter(|_| state == wire::State::Failed),
        last_scan: status.last_scan,
        next_scan: status.next_scan.filter(|_| state != wire::State::Paused),
        scan: status.scan,
        since_start,
    }
}
