//! A story that leaves items in every state, and documents in many.

use serde_json::{Value, json};

use crate::rig::{Held, Rig};

/// Items in every state that there is.
pub(crate) fn of_items(rig: &Rig) {
    rig.does("PUT", "/queues/free/settings", json!({"max_attempts": 0}));
    rig.add("free", json!({"kind": "page", "payload": "plain", "tenant": "acme"}));
    rig.add("late", json!({"delay_ms": 3_600_000, "payload_base64": "AP8H"}));
    let ended = |outcome: Value| {
        let item = json!({
            "key": "k", "payload": {"n": [1, 2]}, "collection": "code", "branch": "next",
            "metadata": {"by": "hand"}, "op": "update", "priority": 9,
        });
        rig.add("ended", item);
        rig.settle(&rig.take(json!({"queues": ["ended"]})), outcome);
    };
    ended(json!({"outcome": "complete", "result": {"ok": true}}));
    ended(json!({"outcome": "complete", "result_base64": "/wA="}));
    ended(json!({"outcome": "complete", "result_base64": "cGxhaW4="}));
    ended(json!({"outcome": "fail", "error": "it is \"broken\""}));
    ended(json!({"outcome": "skip", "reason": "nothing to do"}));
    let cancelled = rig.add("ended", json!({"key": "c"}));
    rig.does("POST", &format!("/queue/{cancelled}/cancel"), json!({}));
    rig.add("routed", json!({"route": ["one", "two"], "kind": "VECTORIZE"}));
    let routed = || rig.take(json!({"queues": ["routed"], "wait_ms": 20_000}));
    rig.settle(&routed(), json!({"outcome": "retry", "error": "not yet", "delay_ms": 1}));
    rig.settle(&routed(), json!({"outcome": "complete", "output": "out"}));
    rig.settle(&routed(), json!({"outcome": "retry", "error": "again"}));
    rig.add("busy", json!({"key": "busy"}));
    let held = rig.take(json!({"queues": ["busy"], "worker": "w".repeat(120)}));
    rig.does("POST", &format!("/leases/{}/renew", held.lease), json!({}));
    let progress = json!({"items": [{"id": held.id, "current": 3, "total": 9, "message": "on"}]});
    rig.does("POST", &format!("/leases/{}/progress", held.lease), progress);
    rig.add("busy", json!({"key": "busy"}));
    for queue in ["split", "called_off"] {
        rig.add(queue, json!({}));
        let held = rig.take(json!({"queues": [queue]}));
        let part = |ordinal: u32| json!({"ordinal": ordinal, "kind": "part"});
        rig.settle(&held, json!({"outcome": "split", "children": [part(0), part(1)]}));
        if queue == "called_off" {
            rig.does("POST", &format!("/queue/{}/cancel", held.id), json!({}));
            // What is below it is ended after it.
            while rig.get("/queue/stats?queue=called_off")["pending"] != 0 {}
        }
    }
    rig.add("big", json!({"payload": "x".repeat(20_000)}));
}

/// Three documents: one that only waits, one with a page in each state, one that is done. Gives
/// the second.
pub(crate) fn of_documents(rig: &Rig) -> String {
    let route = json!([{"name": "pages", "below": ["ocr", "chunk", "vector", "graph"]}, "publish"]);
    let document = |name: &str, priority: u8| {
        json!({
            "kind": "document", "route": route, "priority": priority, "key": name,
            "metadata": {"filename": format!("{name}.pdf")},
        })
    };
    let page = |number: u32| {
        let route = json!(["ocr", {"name": "chunk", "below": ["vector", "graph"]}]);
        let path = format!("{number}_nohf.md");
        json!({"ordinal": number, "kind": "page", "route": route,
               "metadata": {"page_file_path": path}})
    };
    // How much was extracted stands in the metadata of some, and in the result of others.
    let chunk = |index: u32| {
        let mut metadata = json!({"chunk_id": format!("c{index}"), "chunk_content_hash": "abc"});
        if index.is_multiple_of(2) {
            metadata["entities_extracted"] = json!(7);
        }
        json!({"ordinal": index, "kind": "chunk", "route": ["vector", "graph"],
               "metadata": metadata})
    };
    let take = |stage: &str| rig.take(json!({"queues": ["docs"], "stages": [stage]}));
    let split = |held: &Held, children: Vec<Value>| {
        rig.settle(held, json!({"outcome": "split", "children": children}));
    };
    let done = |held: &Held| rig.settle(held, json!({"outcome": "complete"}));

    rig.add("docs", document("done", 9));
    split(&take("pages"), vec![page(1)]);
    done(&take("ocr"));
    split(&take("chunk"), vec![chunk(0), chunk(1)]);
    for stage in ["vector", "vector"] {
        done(&take(stage));
    }
    for entities in [json!(4), json!("many")] {
        let result = json!({"entities_extracted": entities, "relationships_extracted": 2});
        rig.settle(&take("graph"), json!({"outcome": "complete", "result": result}));
    }
    done(&take("publish"));
    let mixed = rig.add("docs", document("mixed", 9));
    split(&take("pages"), (1..=6).map(page).collect());
    rig.settle(&take("ocr"), json!({"outcome": "fail", "error": "no text"}));
    rig.settle(&take("ocr"), json!({"outcome": "skip", "reason": "markdown"}));
    rig.settle(&take("ocr"), json!({"outcome": "retry", "error": "once more"}));
    done(&take("ocr"));
    done(&take("ocr"));
    split(&take("chunk"), (0..5).map(chunk).collect());
    rig.settle(&take("vector"), json!({"outcome": "fail", "error": "too long"}));
    done(&take("vector"));
    rig.settle(&take("vector"), json!({"outcome": "skip", "reason": "empty"}));
    done(&take("graph"));
    take("graph");
    take("vector");
    take("chunk");
    take("ocr");
    rig.add("docs", document("waiting", 1));
    mixed
}
