//! Documents: how far each is, what of it failed, and what it says.

pub(super) mod document;
pub(super) mod graph;
pub(super) mod list;
pub(super) mod page;

use maud::{Markup, html};
use serde_json::Value;

use super::draw::{bar, number, text};

/// A bar for each phase.
fn phases(of: &[Value]) -> Markup {
    html! {
        div.phases {
            @for phase in of {
                @let name = text(phase, "name");
                @let done = number(phase, "completed") + number(phase, "skipped");
                @let (failed, total) = (number(phase, "failed"), number(phase, "total"));
                div {
                    span.minor {
                        (name) " " (done) "/" (total)
                        @if failed > 0 { ", " span.bad { (failed) " failed" } }
                    }
                    @let says = format!("{name}: {done} of {total} done, {failed} failed");
                    (bar(done, failed, total, &says))
                }
            }
        }
    }
}
