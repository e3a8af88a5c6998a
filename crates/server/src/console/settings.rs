//! Settings: what is kept, who may come in, and what operators did.

use axum::http::Method;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::act::{Act, Kind};
use super::draw::{copied, list, missing, number, text, when};
use super::page::Page;
use super::view::View;
use crate::ask::Ask;
use crate::auth::Role;
use crate::http::Failed;

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
            p { "What has ended is kept for " b { (number(kept, "max_age_days")) " days" } ", and at most "
                b { (number(kept, "max_per_user")) } " items of each tenant in each queue." }
            @if view.may(Role::Admin) {
                (Act::new("Save", Method::PATCH, &["admin", "settings", "queue"])
                    .with(json!({}))
                    .field(("max_age_days", "Days"), Kind::Number, said("max_age_days"))
                    .field(("max_per_user", "Items of each tenant"), Kind::Number, said("max_per_user"))
                    .says("It holds from the next sweep on.").strong().button(view))
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
                p { "There are none: whoever reaches this server from its own machine may do everything. "
                    "From the first token on everybody needs one." }
            }
            // A new token is shown once, and so by the command line: it stays in no browser.
            (copied("Make one", "windrow token create --name ada --role operator"))
            @if !all.is_empty() {
                div.scrolls {
                    table {
                        thead { tr { th scope="col" { "Name" } th scope="col" { "Role" } th scope="col" { "Tenant" }
                            th scope="col" { "Created" } th scope="col" { "Used" } th scope="col" { "Ends" }
                            th scope="col" { span.unseen { "Do" } } } }
                        tbody {
                            @for token in all {
                                @let is_over = !token["revoked_at"].is_null();
                                tr {
                                    th scope="row" { (text(token, "name")) div.minor { (text(token, "id")) } }
                                    td { (text(token, "role")) }
                                    td { @if token["tenant"].is_null() { "all" } @else { (text(token, "tenant")) } }
                                    td { (when(&token["created_at"])) }
                                    td { (when(&token["used_at"])) }
                                    td { @if is_over { "revoked " (when(&token["revoked_at"])) }
                                        @else { (when(&token["expires_at"])) } }
                                    td.acts { @if !is_over {
                                        (Act::delete("Revoke", &["tokens", text(token, "id")])
                                            .asks("Revoke this token? Whoever uses it is locked out at once.")
                                            .says("It opens nothing any more.").button(view))
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
                    thead { tr { th scope="col" { "When" } th scope="col" { "Who" } th scope="col" { "What" }
                        th scope="col" { "To what" } th scope="col" { "Outcome" } } }
                    tbody {
                        @for entry in list(&audit, "entries") {
                            tr {
                                td { (when(&entry["at"])) }
                                td { (text(entry, "caller")) }
                                td { code { (text(entry, "operation")) } }
                                td.wide {
                                    @for target in list(entry, "targets") { (target.as_str().unwrap_or_default()) " " }
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
