//! Whether anything can still move, and what it waits for if not.
//!
//! Pages wait for a program that is not installed, for as long as it takes, and look for it every
//! few seconds. A command that ends when all is done must not wait with them: it is over when
//! nothing else is left and each of them has looked in vain since the command began. What else
//! holds everything, such as a queue that is paused, only somebody else can change: it is said.

use serde_json::{Value, json};
use windrow_core::Timestamp;

use crate::cli::counted;
use crate::cli::exit::{Exit, Stop};
use crate::cli::reach::{Ask, Target};

/// What an item says that waits for a program, before and after the package's name.
const NEEDS: &str = " is needed to read this and is not installed; install ";
/// Items that are looked at together.
const PAGE: &str = "200";
/// What holds an item while others are at work, and ends with that.
const PASSING: [&str; 8] = [
    "next_in_line",
    "in_hand",
    "overdue",
    "waits_for_children",
    "too_much_ahead",
    "group_full",
    "group_order",
    "ended",
];

/// Items that wait for a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::cli) struct Wait {
    /// The kind of the items: documents, or pages.
    pub(in crate::cli) what: String,
    pub(in crate::cli) program: String,
    pub(in crate::cli) package: String,
    pub(in crate::cli) items: u64,
}

/// What is to be said of work that has not moved for a while.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::cli) enum Stuck {
    /// It may well move, unless something holds this item that waits, if one does.
    Moves(Option<String>),
    /// All of it waits for programs.
    Waits(Vec<Wait>),
    /// It waits for something else, in words.
    Because(String),
}

/// Items of documents by what they are: pending, processing, and ended.
pub(in crate::cli) type Live = [u64; 3];

/// How many items of a tenant's documents are where.
pub(in crate::cli) async fn live(target: &Target, tenant: &str) -> Result<Live, Stop> {
    let ask = Ask::get(&["queue", "stats"]).with("queue", Some("documents"));
    let stats: Value = target.read(ask.with("tenant", Some(tenant))).await?;
    let count = |status: &str| stats[status].as_u64().unwrap_or_default();
    let ended = ["completed", "failed", "cancelled", "skipped"].map(count).iter().sum();
    Ok([count("pending"), count("processing"), ended])
}

/// Lets everything look at once that waited for a program before this command began.
pub(in crate::cli) async fn wake(target: &Target, tenant: &str) -> anyhow::Result<()> {
    let filter = json!({
        "queue": "documents", "tenant": tenant, "status": "pending", "q": "is not installed",
    });
    let ask = Ask::post(&["operations"]).json(&json!({"verb": "retry", "filter": filter}))?;
    // Who may not do that waits until they look by themselves.
    let _begun = target.ask(ask).await;
    Ok(())
}

/// Looks at everything of a tenant that has not ended.
pub(in crate::cli) async fn look(
    target: &Target,
    tenant: &str,
    began: Timestamp,
) -> Result<Stuck, Stop> {
    let (mut waits, mut other, mut cursor) = (Vec::<Wait>::new(), None, None::<String>);
    loop {
        let ask = Ask::get(&["queue"]).with("queue", Some("documents"));
        let ask = ask.with("tenant", Some(tenant));
        let ask = ask.with("status", Some("pending,processing")).with("limit", Some(PAGE));
        let page: Value = target.read(ask.with("cursor", cursor.as_ref())).await?;
        for item in page["items"].as_array().into_iter().flatten() {
            match standing(item, began, crate::cli::show::now()) {
                Standing::Above => {}
                Standing::Moves => {
                    let id = item["id"].as_str().filter(|_| item["status"] == "pending");
                    return Ok(Stuck::Moves(id.map(str::to_owned)));
                }
                Standing::Later(why) => other = other.or(Some(why)),
                Standing::Waits(program, package) => {
                    let what = item["kind"].as_str().unwrap_or("item").to_owned();
                    let is_it = |wait: &&mut Wait| wait.program == program && wait.what == what;
                    match waits.iter_mut().find(is_it) {
                        Some(wait) => wait.items += 1,
                        None => waits.push(Wait { what, program, package, items: 1 }),
                    }
                }
            }
        }
        cursor = page["next"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return Ok(match other {
                Some(why) => Stuck::Because(why),
                // It ended meanwhile.
                None if waits.is_empty() => Stuck::Moves(None),
                None => Stuck::Waits(waits),
            });
        }
    }
}

/// Why nothing moves, in words, after it has not for a while. None if it will by itself.
pub(in crate::cli) async fn why(target: &Target, stuck: &Stuck) -> Result<Option<String>, Stop> {
    let id = match stuck {
        Stuck::Moves(None) => return Ok(None),
        Stuck::Because(why) => return Ok(Some(why.clone())),
        Stuck::Waits(waits) => {
            let each: Vec<String> = waits.iter().map(Wait::said).collect();
            return Ok(Some(each.join("; ")));
        }
        Stuck::Moves(Some(id)) => id,
    };
    match target.read(Ask::get(&["queue", id, "explain"])).await {
        // It went meanwhile.
        Err(stop) if stop.exit == Exit::NotFound => Ok(None),
        explained => Ok(held(&explained?)),
    }
}

impl Wait {
    /// What waits for what, and what helps.
    pub(in crate::cli) fn said(&self) -> String {
        let Wait { what, program, package, items } = self;
        let (what, wait) = (counted(*items, what), if *items == 1 { "waits" } else { "wait" });
        format!("{what} {wait} for {program}; install {package}")
    }
}

/// What holds an item that will not end by itself, of all that explains it.
fn held(explained: &Value) -> Option<String> {
    let reasons = explained["reasons"].as_array()?;
    let is_it = |why: &&Value| why["code"].as_str().is_some_and(|code| !PASSING.contains(&code));
    let why = reasons.iter().find(is_it)?;
    let word = |field: &str| why[field].as_str().unwrap_or_default();
    let (code, until) = (word("code"), word("unblocked_by"));
    let hint = match code {
        "no_worker" => {
            " (the server leaves it to others, by documents.stages or documents.enabled: start \
             `windrow worker` with the stage)"
        }
        _ => "",
    };
    let id = explained["id"].as_str().unwrap_or_default();
    Some(format!("nothing moves: item {id} is held, {code}; it waits for {until}{hint}"))
}

/// How one item stands.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Standing {
    /// It waits for what is below it.
    Above,
    Moves,
    /// It looked for a program in vain, since the command began.
    Waits(String, String),
    /// It is tried again later, because of this.
    Later(String),
}

fn standing(item: &Value, began: Timestamp, now: Timestamp) -> Standing {
    let is_open = |status: &str| item["children"][status].as_u64().is_some_and(|open| open > 0);
    if item["lease"].is_null() && (is_open("pending") || is_open("processing")) {
        return Standing::Above;
    }
    let time = |field: &str| item[field].as_str().and_then(|at| at.parse::<Timestamp>().ok());
    let is_later = time("not_before").is_some_and(|at| at > now);
    let is_new = time("updated_at").is_some_and(|at| at >= began);
    let error = item["error"]["message"].as_str();
    match error {
        Some(error) if item["status"] == "pending" && is_later && is_new => {
            match error.split_once(NEEDS) {
                Some((program, package)) => Standing::Waits(program.into(), package.into()),
                None => Standing::Later(format!("work waits and is tried again: {error}")),
            }
        }
        _ => Standing::Moves,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_looked_for_its_program_since_then_waits_for_it() {
        let at = |seconds: u64| Timestamp(seconds * 1_000).to_string();
        let (began, now) = (Timestamp(100_000), Timestamp(110_000));
        let error = "tesseract is needed to read this and is not installed; install tesseract-ocr";
        let item = |updated, not_before, error: &str| {
            json!({
                "status": "pending", "updated_at": at(updated), "not_before": at(not_before),
                "error": {"message": error},
            })
        };
        let of = |item: Value| standing(&item, began, now);
        let waits = Standing::Waits("tesseract".into(), "tesseract-ocr".into());
        assert_eq!(of(item(105, 115, error)), waits);
        assert_eq!(of(item(95, 115, error)), Standing::Moves, "it looked before that");
        assert_eq!(of(item(105, 105, error)), Standing::Moves, "it looks now");
        let why = "work waits and is tried again: busy".to_owned();
        assert_eq!(of(item(105, 115, "busy")), Standing::Later(why));
        assert_eq!(of(json!({"status": "processing", "lease": "x"})), Standing::Moves);
        for children in [json!({"pending": 1}), json!({"pending": 0, "processing": 1})] {
            let above = json!({"status": "processing", "children": children});
            assert_eq!(of(above), Standing::Above);
        }
    }

    #[test]
    fn only_what_does_not_end_by_itself_is_said() {
        let of = |codes: &[&str]| {
            let why = |code: &&str| json!({"code": code, "unblocked_by": "somebody"});
            let reasons: Vec<Value> = codes.iter().map(why).collect();
            held(&json!({"id": "7", "status": "pending", "reasons": reasons}))
        };
        assert_eq!(of(&["next_in_line"]), None);
        assert_eq!(of(&["too_much_ahead", "group_full"]), None);
        let said = "nothing moves: item 7 is held, paused; it waits for somebody";
        assert_eq!(of(&["too_much_ahead", "paused"]).as_deref(), Some(said));
        assert!(of(&["no_worker"]).is_some_and(|said| said.contains("documents.enabled")));
    }

    /// A document whose `publish` is tried again in a minute counted as one that waits for its
    /// pages, so that a command was over while it was not.
    #[test]
    fn a_document_whose_pages_have_ended_stands_for_itself() {
        let at = |seconds: u64| Timestamp(seconds * 1_000).to_string();
        let of = |item: Value| standing(&item, Timestamp(100_000), Timestamp(110_000));
        let children = json!({"pending": 0, "processing": 0, "completed": 3});
        let later = json!({
            "status": "pending", "updated_at": at(105), "not_before": at(165),
            "children": children, "error": {"message": "busy"},
        });
        let why = "work waits and is tried again: busy".to_owned();
        assert_eq!(of(later), Standing::Later(why));
        assert_eq!(of(json!({"status": "pending", "children": children})), Standing::Moves);
    }
}
