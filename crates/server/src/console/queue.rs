//! The queue: every item, narrowed by a filter that is kept in the address.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use windrow_core::item::Status;
use windrow_wire::filter::{KEYS, parse, written};
use windrow_wire::list::Filter;

use super::act::Act;
use super::draw::{badge, counted, list, number, short, text, when};
use super::operations::VERBS;
use super::page::Page;
use super::view::View;
use super::way;
use super::way::items;
use crate::ask::Ask;
use crate::auth::Role;
use crate::http::{Asked, Failed};

/// The priority of whoever says nothing.
const USUAL: u64 = 5;

/// What the address says.
#[derive(Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct Wanted {
    filter: String,
    cursor: String,
    /// What drop-downs add to the filter.
    status: String,
    source_type: String,
}

impl Wanted {
    /// The filter with what the drop-downs say in it.
    fn said(&self) -> String {
        let Ok(mut filter) = parse(&self.filter) else { return self.filter.clone() };
        let is_asked = |value: &str| !value.is_empty();
        if !is_asked(&self.status) && !is_asked(&self.source_type) {
            return self.filter.clone();
        }
        let set = |value: &str| (value != "any").then(|| value.to_owned());
        if is_asked(&self.status) {
            filter.status = set(&self.status);
        }
        if is_asked(&self.source_type) {
            filter.source_type = set(&self.source_type);
        }
        written(&filter)
    }
}

pub(super) async fn page(view: View, Asked(wanted): Asked<Wanted>) -> Result<Page, Failed> {
    let said = wanted.said();
    let narrowed = parse(&said).ok();
    let queue = narrowed.as_ref().and_then(|filter| filter.queue.as_deref());
    let tenant = narrowed.as_ref().and_then(|filter| filter.tenant.as_deref());
    let stats = Ask::get(&["queue", "stats"]).with("queue", queue).with("tenant", tenant);
    let stats = view.see(stats).await?;
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let ask = Ask::get(&["queue"]).with("filter", some(&said)).with("cursor", some(&wanted.cursor));
    let items = view.see(ask).await;
    let title = queue.map_or_else(|| "Queue".to_owned(), |queue| format!("Queue {queue}"));
    let page = view.page(title).part("counts", counts(&view, &stats, narrowed.as_ref()));
    let page = page.part("filter", filter(&view, &said, items.as_ref().err()));
    Ok(match items {
        Ok(items) => page.part("items", rows(&view, &items, &said, &wanted.cursor)),
        Err(_) => page,
    })
}

/// How many have each status, each a link to them. What else the filter says is not counted.
fn counts(view: &View, stats: &Value, filter: Option<&Filter>) -> Markup {
    let is_counted = filter.is_none_or(|filter| {
        let Filter { queue, tenant, .. } = filter.clone();
        let counted = Filter { queue, tenant, ..Filter::default() };
        written(&Filter { status: None, ..filter.clone() }) == written(&counted)
    });
    let to = |status: Option<&str>| {
        let filter =
            Filter { status: status.map(str::to_owned), ..filter.cloned().unwrap_or_default() };
        items(&written(&filter))
    };
    let chosen = filter.and_then(|filter| filter.status.as_deref());
    html! {
        ul.counts aria-label="Items by status" {
            li {
                a href=(view.to(to(None))) aria-current=[chosen.is_none().then_some("true")] {
                    "any status"
                }
            }
            @for status in Status::ALL {
                @let name = status.name();
                li aria-current=[(chosen == Some(name)).then_some("true")] {
                    a href=(view.to(to(Some(name)))) { (badge(name)) }
                    @if is_counted { " " (counted(view, number(stats, name), to(Some(name)))) }
                }
            }
        }
    }
}

/// The filter, and drop-downs that write into it.
fn filter(view: &View, said: &str, wrong: Option<&Failed>) -> Markup {
    let sources = ["file", "email", "api", "manual", "schedule", "git", "csv"];
    html! {
        form.filter role="search" method="get" action=(view.to("queue")) {
            label for="filter-text" { "Filter" }
            input #filter-text type="search" name="filter" value=(said) data-focus="/"
                placeholder="status:failed queue:thumbs no space" list="filter-keys"
                autocomplete="off" spellcheck="false"
                aria-describedby=[wrong.map(|_| "filter-wrong")];
            datalist #filter-keys {
                @for (key, _) in KEYS { option value={ (key) ":" } {} }
                @for status in Status::ALL { option value={ "status:" (status.name()) } {} }
            }
            label for="status" { "Status" }
            select #status name="status" data-submits {
                option value="" { "as in the filter" }
                option value="any" { "any" }
                @for known in Status::ALL {
                    option value=(known.name()) { (known.name()) }
                }
            }
            label for="source_type" { "Source" }
            select #source_type name="source_type" data-submits {
                option value="" { "as in the filter" }
                option value="any" { "any" }
                @for known in sources {
                    option value=(known) { (known) }
                }
            }
            button type="submit" { "Filter" }
            @if let Some(wrong) = wrong {
                p.wrong #filter-wrong role="alert" { (wrong.detail()) }
            }
            details.help {
                summary { "What can be asked" }
                dl {
                    @for (key, means) in KEYS { dt { code { (key) ":" } } dd { (means) } }
                }
            }
        }
    }
}

fn rows(view: &View, page: &Value, filter: &str, cursor: &str) -> Markup {
    let listed = list(page, "items");
    let acts = view.may(Role::Operator);
    html! {
        form.items method="post" action=(view.to("operations")) {
            (super::act::back(view))
            // What Enter in a field would press: nothing.
            button type="submit" disabled hidden {}
            @if acts {
                div.bulk role="group" aria-label="Do something to many" {
                    select name="which" aria-label="To which items" {
                        option value="selected" { "to selected" }
                        option value="all" { "to everything that matches" }
                    }
                    input type="hidden" name="matching" value=(filter);
                    @for (verb, name) in VERBS {
                        button type="submit" name="verb" value=(verb) { (name) }
                    }
                    label { span { "priority" }
                        input.small type="number" name="priority" min="0" max="10" value="8"; }
                }
            }
            div.scrolls {
                table.rows {
                    thead {
                        tr {
                            @if acts {
                                th scope="col" {
                                    input type="checkbox" data-selects hidden
                                        aria-label="Select all on this page";
                                }
                            }
                            th scope="col" { "Date" }
                            th scope="col" { "Source" }
                            th scope="col" { "Info" }
                            th scope="col" { "Status" }
                            th scope="col" title="Whether something came of it" { "Relevant" }
                            th scope="col" { "Result" }
                            th scope="col" { "Stage" }
                            th scope="col" { span.unseen { "Open" } }
                        }
                    }
                    tbody {
                        @for item in listed { (row(view, item, acts)) }
                    }
                }
            }
        }
        @if listed.is_empty() {
            p.note { @if page["partial"] == true { "Nothing found yet; the search goes on below." }
                @else { "Nothing matches." } }
        }
        nav.pages aria-label="Pages" {
            @if !cursor.is_empty() {
                a href=(view.to(items(filter))) { "« Newest" }
            }
            @if let Some(next) = page["next"].as_str() {
                a rel="next" href=(view.to(items(filter).with("cursor", next))) {
                    @if page["partial"] == true { "Search on »" } @else { "Older »" }
                }
            }
        }
    }
}

fn row(view: &View, item: &Value, acts: bool) -> Markup {
    let id = text(item, "id");
    let (status, error) = (text(item, "status"), &item["error"]);
    let said = text(error, "message");
    html! {
        tr data-key=(id) {
            @if acts {
                td { input type="checkbox" name="id" value=(id) aria-label={ "Select " (id) }; }
            }
            td { (when(&item["created_at"])) }
            td { (text(item, "source_type")) div.minor { (text(item, "queue")) } }
            td.wide {
                a.open href=(view.to(way(&["queue", id]))) { (named(item)) }
                @if !said.is_empty() { div.minor.bad { (short(said, 140)) } }
                @else if let Some(reason) = item["reason"].as_str() {
                    div.minor { (short(reason, 140)) }
                }
            }
            td {
                (badge(status))
                @if number(item, "attempts") > 1 {
                    div.minor { "attempt " (number(item, "attempts")) }
                }
            }
            td { (relevant(item)) }
            td { (result(view, item)) }
            td {
                (text(item, "stage"))
                @match item["priority"].as_u64() {
                    None | Some(USUAL) => {},
                    Some(priority) => div.minor { "priority " (priority) },
                }
            }
            td.acts { a href=(view.to(way(&["queue", id]))) { "Details" } }
        }
    }
}

/// What an item is about, as far as it says so.
pub(super) fn named(item: &Value) -> String {
    let kind = match text(item, "kind") {
        "" => "item",
        kind => kind,
    };
    match (text(item, "source_info"), text(item, "key"), text(item, "ref")) {
        ("", "", "") => format!("{kind} {}", text(item, "id")),
        ("", "", reference) => format!("{kind} {}", short(reference, 12)),
        ("", key, _) => short(key, 120),
        (info, _, _) => short(info, 120),
    }
}

/// Whether something came of it: what it led to is its reference.
fn relevant(item: &Value) -> Markup {
    match (text(item, "status"), item["ref"].is_string()) {
        ("skipped", _) => html! { span.badge.skipped { "– no" } },
        (_, true) => html! { span.badge.completed { "✓ yes" } },
        _ => html! { span.none { "–" } },
    }
}

/// What an item led to.
pub(super) fn result(view: &View, item: &Value) -> Markup {
    let reference = text(item, "ref");
    match (text(item, "queue"), text(item, "kind")) {
        _ if reference.is_empty() => html! { span.none { "–" } },
        ("documents", "document") => {
            html! { a href=(view.to(way(&["documents", reference]))) { "document" } }
        }
        _ => html! { code title=(reference) { (short(reference, 12)) } },
    }
}

/// Whether nothing more happens to an item by itself.
pub(super) fn is_over(status: &str) -> bool {
    matches!(status, "completed" | "failed" | "cancelled" | "skipped")
}

/// What can be done to one item, by its status.
pub(super) fn acts(id: &str, status: &str) -> Vec<Act> {
    let mut acts = Vec::new();
    if is_over(status) {
        // The same item, so that whoever looks at it sees it go on.
        let retry = Act::post("Retry", &["queue", id, "retry"])
            .with(serde_json::json!({ "mode": "reset" }))
            .says("The item is in line again.");
        // What ended well is most likely to stay as it is.
        acts.push(if status == "failed" { retry.strong() } else { retry });
        acts.push(
            Act::delete("Delete", &["queue", id])
                .asks("Delete this item and its history?")
                .says("The item is deleted.")
                .then("queue"),
        );
    } else {
        acts.push(
            Act::post("Cancel", &["queue", id, "cancel"])
                .asks("Cancel this item and everything below it?")
                .says("The item is cancelled; a worker that has it is told."),
        );
        acts.push(
            Act::post("Prioritise", &["queue", id, "prioritise"])
                .with(serde_json::json!({}))
                .field(("priority", "priority"), super::act::Kind::Number, "8")
                .says("The item has another priority."),
        );
    }
    acts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_downs_write_the_grammar_that_people_write() {
        let wanted = |filter: &str, status: &str, source_type: &str| {
            let (filter, status) = (filter.to_owned(), status.to_owned());
            Wanted { filter, status, source_type: source_type.to_owned(), ..Wanted::default() }
                .said()
        };
        assert_eq!(wanted("queue:a x", "failed", ""), "status:failed queue:a x");
        assert_eq!(wanted("status:failed queue:a", "any", "email"), "queue:a source_type:email");
        assert_eq!(wanted("status:failed", "", ""), "status:failed");
        assert_eq!(
            wanted("colour:red", "failed", ""),
            "colour:red",
            "what is wrong stays to be mended"
        );
        assert_eq!(wanted("\"a b\"", "failed", ""), "status:failed \"a b\"");
    }
}
