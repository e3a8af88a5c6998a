//! Settings: what is kept, who may come in, and what operators did.

use axum::body::Bytes;
use axum::http::Method;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::act::{Act, Kind, Sent};
use super::draw::{copied, head, list, missing, number, text, when};
use super::page::Page;
use super::view::View;
use crate::ask::Ask;
use crate::auth::Role;
use crate::http::Failed;

const DAY_MS: u64 = 86_400_000;

pub(super) async fn page(view: View) -> Result<Page, Failed> {
    let kept = view.see(Ask::get(&["admin", "settings", "queue"])).await?;
    let page = view.page("Settings").still().part("retention", retention(&view, &kept));
    if !view.may(Role::Admin) {
        return Ok(page.part("more", html! { p.note { "Tokens and the audit are for admins." } }));
    }
    Ok(page.part("tokens", tokens(&view).await).part("audit", audit(&view).await))
}

fn retention(view: &View, kept: &Value) -> Markup {
    let said = |field: &str| kept[field].as_u64().map(|n| n.to_string()).unwrap_or_default();
    html! {
        section aria-labelledby="retention-title" {
            h2 #retention-title { "Retention" }
            p { "What has ended is kept for " b { (number(kept, "max_age_days")) " days" }
                ", and at most " b { (number(kept, "max_per_user")) }
                " items of each tenant in each queue." }
            @if view.may(Role::Admin) {
                (Act::new("Save", Method::PATCH, &["admin", "settings", "queue"])
                    .with(json!({}))
                    .field(("max_age_days", "Days"), Kind::Number, said("max_age_days"))
                    .field(("max_per_user", "Of a tenant"), Kind::Number, said("max_per_user"))
                    .says("The retention holds from the next sweep on.").strong().button(view))
            }
        }
    }
}

async fn tokens(view: &View) -> Markup {
    let tokens = match view.see(Ask::get(&["tokens"])).await {
        Ok(tokens) => tokens,
        Err(failed) => return missing("Tokens", &failed),
    };
    let all = tokens.as_array().map_or(&[][..], Vec::as_slice);
    html! {
        section aria-labelledby="tokens-title" {
            h2 #tokens-title { "Tokens" }
            @if all.is_empty() {
                p { "There are none: whoever reaches this server from its own machine may do "
                    "everything. From the first token on everybody needs one." }
            }
            (new_token(view, all.is_empty()))
            @if !all.is_empty() {
                div.scrolls {
                    table {
                        (head(&["Name", "Role", "Tenant", "Created", "Used", "Ends", "~Do"]))
                        tbody {
                            @for token in all {
                                @let is_over = !token["revoked_at"].is_null();
                                tr {
                                    th scope="row" {
                                        (text(token, "name")) div.minor { (text(token, "id")) }
                                    }
                                    td { (text(token, "role")) }
                                    td {
                                        @if token["tenant"].is_null() {
                                            "all"
                                        } @else {
                                            (text(token, "tenant"))
                                        }
                                    }
                                    td { (when(&token["created_at"])) }
                                    td { (when(&token["last_used_at"])) }
                                    td { @if is_over { "revoked " (when(&token["revoked_at"])) }
                                        @else { (when(&token["expires_at"])) } }
                                    td.acts { @if !is_over {
                                        (Act::delete("Revoke", &["tokens", text(token, "id")])
                                            .asks("Revoke this token? Its users are locked out.")
                                            .says("The token opens nothing any more.").button(view))
                                    } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn new_token(view: &View, is_first: bool) -> Markup {
    // The first must be an admin's of all tenants: only an admin makes others.
    let roles: &[&str] = match is_first {
        true => &["admin"],
        false => &["viewer", "producer", "worker", "operator", "admin"],
    };
    html! {
        form.act method="post" action=(view.to("admin/tokens")) {
            label { span { "Name" } input name="name" required maxlength="100" autocomplete="off"; }
            label { span { "Role" }
                select name="role" { @for role in roles { option value=(role) { (role) } } } }
            @if !is_first { label { span { "Tenant" } input name="tenant" placeholder="all"; } }
            label { span { "Days" } input type="number" name="days" min="1" placeholder="no end"; }
            button type="submit" { "Make a token" }
        }
    }
}

/// Makes a token. Its text is on the page that answers, and nowhere else.
pub(super) async fn make_token(view: View, body: Bytes) -> Result<Page, Failed> {
    let sent = Sent::read(&body);
    let said = |name: &str| sent.get(name).map(str::trim).filter(|said| !said.is_empty());
    let mut wanted = json!({ "name": said("name"), "role": said("role") });
    if let Some(tenant) = said("tenant") {
        wanted["tenant"] = json!(tenant);
    }
    if let Some(days) = sent.number("days")? {
        wanted["expires_in_ms"] = json!(days.saturating_mul(DAY_MS));
    }
    let ask = Ask::post(&["tokens"]).json(&wanted);
    let made = view.see(ask.map_err(|error| Failed::malformed(error.to_string()))?).await?;
    let shown = html! {
        p {
            "The token "
            b { (text(&made, "name")) }
            ", role " (text(&made, "role")) ". Copy it now: it is not shown again."
        }
        p.note {
            "As long as there is a token everybody needs one, also workers that run already. "
            a href=(view.to("sign-in")) { "Sign in" } " here with this one or another."
        }
        (copied("", text(&made, "token")))
        p { a href=(view.to("admin/settings")) { "To the settings" } }
    };
    Ok(view.page("A new token").still().part("token", shown))
}

async fn audit(view: &View) -> Markup {
    let audit = match view.see(Ask::get(&["audit"])).await {
        Ok(audit) => audit,
        Err(failed) => return missing("The audit", &failed),
    };
    html! {
        section aria-labelledby="audit-title" {
            h2 #audit-title { "Audit" }
            div.scrolls {
                table {
                    (head(&["When", "Who", "What", "To what", "Outcome"]))
                    tbody {
                        @for entry in list(&audit, "entries") {
                            tr {
                                td { (when(&entry["at"])) }
                                td { (text(entry, "caller")) }
                                td { code { (text(entry, "operation")) } }
                                td.wide {
                                    @for target in list(entry, "targets") {
                                        (target.as_str().unwrap_or_default()) " "
                                    }
                                }
                                td { (text(entry, "outcome")) }
                            }
                        }
                    }
                }
            }
            @if list(&audit, "entries").is_empty() { p.note { "Nobody did anything yet." } }
        }
    }
}
