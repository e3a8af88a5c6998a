//! Failures: failed items in groups of those that failed alike.
//!
//! Alike are items of one queue, stage and kind whose errors have one code and one [`Shape`]. Only
//! the newest are looked at, for a moment; the answer says whether there are more.

mod shape;

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::http::Method;
use axum::routing::get;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use windrow_core::find::{self, Listed};
use windrow_core::item::Status;
use windrow_core::{ItemId, Timestamp};
use windrow_wire::filter::written;
use windrow_wire::list::Filter;
use windrow_wire::time::Time;

use self::shape::Shape;
use super::reply::{Asked, Failed};
use super::table::{Operation, Role};
use crate::auth::Scoped;

/// Items that are looked at, and for how long.
const ITEMS_MAX: usize = 1_000;
const WITHIN: Duration = Duration::from_millis(50);
/// Groups that are shown: the largest.
const GROUPS_MAX: usize = 200;

pub(super) fn operations() -> Vec<Operation> {
    let summary = "Failed items in groups of those that failed alike: same queue, stage, kind and \
                   code, and the same error but for numbers, ids, paths and what is quoted. Of \
                   the newest 1,000, as far as 50 ms reach; the largest 200 groups.";
    vec![
        Operation::new(Method::GET, "/failures", Role::Viewer, summary, get(list))
            .asks(&[("queue", "only this queue")])
            .gives::<Failures>(200),
    ]
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Where {
    queue: Option<String>,
}

/// What failed.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct Failures {
    /// The largest first; of equally large ones that with the newest failure.
    groups: Vec<Group>,
    /// How many failed items were looked at.
    looked_at: usize,
    /// There are more that were not.
    partial: bool,
}

/// Items that failed alike.
#[derive(Clone, PartialEq, Serialize, JsonSchema, Debug)]
struct Group {
    /// The same whenever the same is wrong.
    fingerprint: String,
    queue: String,
    stage: String,
    kind: String,
    /// The class of the error; null if none was reported.
    code: Option<&'static str>,
    /// The newest error; null if none was reported.
    says: Option<String>,
    items: usize,
    /// When the first of them failed, and the last.
    first_at: Time,
    last_at: Time,
    /// The item that failed last.
    example: String,
    /// What finds them all in a list, and perhaps others whose errors have the same words.
    filter: String,
}

async fn list(scoped: Scoped, Asked(asked): Asked<Where>) -> Result<Json<Failures>, Failed> {
    let said = Filter { queue: asked.queue, ..Filter::default() };
    let filter = find::Filter { statuses: vec![Status::Failed], ..said.to_core()? };
    let find::Page { items, next } = scoped.search(filter, None, ITEMS_MAX, WITHIN).await?;
    let (looked_at, partial) = (items.len(), next.is_some());
    Ok(Json(Failures { groups: groups(&items), looked_at, partial }))
}

/// What items have in common that failed alike.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Alike<'a> {
    queue: &'a str,
    stage: &'a str,
    kind: &'a str,
    code: Option<&'static str>,
    shape: Shape,
}

/// What differs between them.
struct Found<'a> {
    items: usize,
    first: Timestamp,
    last: (Timestamp, ItemId),
    says: Option<&'a str>,
}

fn groups(items: &[Listed]) -> Vec<Group> {
    let mut alike: BTreeMap<Alike<'_>, Found<'_>> = BTreeMap::new();
    for listed in items {
        let Listed { item, body, error, reason, .. } = listed;
        let says = error.as_ref().map(|error| &error.message).or(reason.as_ref());
        let says = says.map(String::as_str);
        let key = Alike {
            queue: &body.queue,
            stage: &body.route.stage(item.stage).name,
            kind: &body.kind,
            code: error.as_ref().map(|error| error.class.name()),
            shape: Shape::of(says.unwrap_or_default()),
        };
        let at = listed.finished_at.unwrap_or(listed.changed_at);
        let last = (at, item.id);
        let found = alike.entry(key).or_insert(Found { items: 0, first: at, last, says });
        found.items += 1;
        found.first = found.first.min(at);
        if last > found.last {
            (found.last, found.says) = (last, says);
        }
    }
    let mut all: Vec<_> = alike.into_iter().collect();
    all.sort_by_key(|(_, found)| std::cmp::Reverse((found.items, found.last)));
    all.truncate(GROUPS_MAX);
    let group = |(alike, found): &(Alike<'_>, Found<'_>)| {
        let others = all.iter().map(|(other, _)| other);
        let others = others.filter(|other| other.place() == alike.place() && *other != alike);
        let others: Vec<&Shape> = others.map(|other| &other.shape).collect();
        Group::new(alike, found, &others)
    };
    all.iter().map(group).collect()
}

impl Group {
    fn new(alike: &Alike<'_>, found: &Found<'_>, others: &[&Shape]) -> Group {
        let (last_at, example) = found.last;
        Group {
            fingerprint: alike.fingerprint(),
            queue: alike.queue.to_owned(),
            stage: alike.stage.to_owned(),
            kind: alike.kind.to_owned(),
            code: alike.code,
            says: found.says.map(str::to_owned),
            items: found.items,
            first_at: Time(found.first),
            last_at: Time(last_at),
            example: example.to_string(),
            filter: alike.filter(others),
        }
    }
}

impl Alike<'_> {
    /// Where they failed, which a filter says exactly.
    fn place(&self) -> (&str, &str, &str) {
        (self.queue, self.stage, self.kind)
    }

    /// What finds them, and as few as can be of the others that failed there.
    fn filter(&self, others: &[&Shape]) -> String {
        let some = |text: &str| Some(text.to_owned());
        written(&Filter {
            status: some(Status::Failed.name()),
            queue: some(self.queue),
            stage: some(self.stage),
            kind: some(self.kind),
            q: self.shape.stretch(others).map(str::to_owned),
            ..Filter::default()
        })
    }

    fn fingerprint(&self) -> String {
        let Alike { queue, stage, kind, code, shape } = self;
        let mut hash = Sha256::new();
        for part in [queue, stage, kind, code.unwrap_or_default(), shape.as_str()] {
            // With its length, so that what ends one is never taken for what begins the next.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let hash: [u8; 32] = hash.finalize().into();
        hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use windrow_core::item::{Body, End};
    use windrow_core::ports::Inspected;
    use windrow_core::trail::{Class, Fault, StageRecord, Trail};
    use windrow_core::{Item, State};
    use windrow_wire::filter::parse;

    use super::*;

    fn failed(no: u64, queue: &str, kind: &str, message: &str) -> Inspected {
        let mut body = Body::new("acme", queue);
        body.kind = kind.into();
        let fault = Fault { class: Class::Other, message: message.to_owned() };
        let stage = StageRecord { error: Some(fault), ..StageRecord::PENDING };
        let finished_at = Some(Timestamp(no * 1_000));
        let trail = Trail { stages: vec![stage], finished_at, ..Trail::default() };
        let item = Item { state: State::Done(End::Failed), ..item(no) };
        Inspected { item, body, trail, tally: None, successor: None }
    }

    fn item(no: u64) -> Item {
        use windrow_core::id::StoreTag;
        use windrow_core::item::{KindNo, Marks, QueueNo, RouteNo, TenantNo};
        Item {
            id: ItemId::from_serial(no, StoreTag::default()),
            queue: QueueNo(1),
            tenant: TenantNo(1),
            kind: KindNo(1),
            group: None,
            route: RouteNo(1),
            priority: 5,
            stage: 0,
            state: State::Split,
            attempts: 1,
            deferrals: 0,
            generation: 0,
            skipped: 0,
            place: None,
            marks: Marks::default(),
        }
    }

    fn grouped(seen: &[Inspected]) -> Vec<Group> {
        groups(&seen.iter().cloned().map(Listed::from).collect::<Vec<_>>())
    }

    #[test]
    fn items_that_failed_alike_are_one_group_and_the_largest_comes_first() {
        let seen = [
            failed(1, "q", "page", "no route to 10.0.0.1"),
            failed(2, "q", "page", "page 7 of '/in/a.pdf' is empty"),
            failed(3, "q", "page", "page 12 of '/in/b c.pdf' is empty"),
            failed(4, "q", "mail", "page 7 of '/in/a.pdf' is empty"),
        ];
        let groups = grouped(&seen);
        let shown: Vec<_> =
            groups.iter().map(|of| (of.items, &*of.kind, of.says.as_deref())).collect();
        assert_eq!(
            shown,
            [
                (2, "page", Some("page 12 of '/in/b c.pdf' is empty")),
                (1, "mail", Some("page 7 of '/in/a.pdf' is empty")),
                (1, "page", Some("no route to 10.0.0.1")),
            ]
        );
        let first = &groups[0];
        assert_eq!(
            (first.first_at, first.last_at),
            (Time(Timestamp(2_000)), Time(Timestamp(3_000)))
        );
        assert_eq!(first.example, seen[2].item.id.to_string());
        assert_eq!(first.filter, r#"status:failed queue:q stage:work kind:page "is empty""#);
        assert_eq!(first.fingerprint, grouped(&seen[1..2])[0].fingerprint, "it is the same again");
        assert_ne!(first.fingerprint, groups[1].fingerprint);
    }

    #[test]
    fn a_filter_finds_no_others_where_errors_differ_in_a_stretch() {
        let seen = [
            failed(1, "q", "page", "the command ended with 66: cannot open '/in/1': no such file"),
            failed(2, "q", "page", "the command ended with 65: Bad header in '/in/2'"),
            failed(3, "q", "page", "the command ended with 1"),
        ];
        let groups = grouped(&seen);
        assert_eq!(groups.len(), 3);
        for group in &groups[..] {
            let filter = parse(&group.filter).expect("a filter").to_core().expect("it is one");
            let found: Vec<_> = seen.iter().filter(|seen| filter.admits(seen)).collect();
            assert!(found.iter().any(|seen| seen.item.id.to_string() == group.example));
            // The last one has nothing that the others do not have, too.
            let want =
                if group.says.as_deref() == Some("the command ended with 1") { 3 } else { 1 };
            assert_eq!(found.len(), want, "{}", group.filter);
        }
    }

    #[test]
    fn a_filter_admits_every_item_of_its_group_whatever_stands_in_names_and_errors() {
        let names = ["q", "my queue", "a:b", "\"in quotes\"", "back\\slash", "tenant:x \"y\" \\"];
        let errors = [
            ["no space left on /dev/sda1", "no space left on /dev/sdb17"],
            ["http://a.example: refused 5 times", "http://b.example/: refused 12 times"],
            ["say \"hi\" to C:\\x: \\d+ is no number", "say \"ho\" to D:\\y\\z: \\d+ is no number"],
            ["status:failed at 0x12ab34", "status:failed at 0x9"],
            ["queue:\tqueue: \"unclosed 1", "queue:\tqueue: \"unclosed 2"],
            ["zeile 1\nzeile zwei ist länger", "zeile 22\nzeile zwei ist länger"],
            ["17", "18"],
            ["", ""],
        ];
        for name in names {
            for texts in errors {
                let seen = [failed(1, name, name, texts[0]), failed(2, name, name, texts[1])];
                let groups = grouped(&seen);
                let [group] = &groups[..] else { panic!("{texts:?}: {groups:?}") };
                let filter = parse(&group.filter).unwrap_or_else(|wrong| {
                    panic!("{}: {wrong}", group.filter);
                });
                assert_eq!(filter.queue.as_deref(), Some(name), "{}", group.filter);
                let filter = filter.to_core().expect("it is a filter");
                assert!(seen.iter().all(|seen| filter.admits(seen)), "{}", group.filter);
                let other = failed(3, "another", name, texts[0]);
                assert!(!filter.admits(&other), "{}", group.filter);
            }
        }
    }
}
