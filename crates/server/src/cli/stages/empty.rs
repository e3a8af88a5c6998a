//! Whether there is anything left to do for some stages.
//!
//! What waits in a stage before them will come, whoever does that one. What is split waits for what
//! is below it, which is looked at itself.

use serde_json::Value;
use windrow_pipelines::documents::{QUEUE, Stages};

use crate::cli::exit::Stop;
use crate::cli::reach::{Ask, Target};

/// Items that are looked at together.
const PAGE: &str = "200";

/// Whether nothing is in these stages, or on its way to them.
pub(super) async fn is_empty(target: &Target, stages: Stages) -> Result<bool, Stop> {
    for stage in stages.and_before() {
        if holds_something(target, stage).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn holds_something(target: &Target, stage: &str) -> Result<bool, Stop> {
    let mut cursor = None::<String>;
    loop {
        let ask = Ask::get(&["queue"]).with("queue", Some(QUEUE)).with("stage", Some(stage));
        let ask = ask.with("status", Some("pending,processing")).with("limit", Some(PAGE));
        let page: Value = target.read(ask.with("cursor", cursor.as_ref())).await?;
        let mut items = page["items"].as_array().into_iter().flatten();
        if items.any(|item| !is_split(item)) {
            return Ok(true);
        }
        cursor = page["next"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return Ok(false);
        }
    }
}

fn is_split(item: &Value) -> bool {
    item["children"].is_object() && item["lease"].is_null()
}
