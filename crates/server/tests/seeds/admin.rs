//! What admins do in seeds 003 and 004: retention, figures, a job cancelled or run again.

use serde_json::{Value, json};

use crate::rig::Rig;
use crate::story;

#[test]
fn what_is_kept_of_every_queue_is_said_in_one_place() {
    Rig::both("kept", |rig| {
        let path = "/admin/settings/queue";
        assert_eq!(rig.get(path), json!({"max_age_days": 7, "max_per_user": 5000}));
        rig.does("PUT", "/queues/own/settings", json!({"retention": {"max_per_tenant": 3}}));
        rig.does("PUT", "/queues/set/settings", json!({"live_max": 100}));
        for queue in ["own", "set", "plain"].into_iter().flat_map(|queue| [queue; 4]) {
            rig.add(queue, json!({}));
            rig.settle(&rig.take(json!({"queues": [queue]})), json!({"outcome": "complete"}));
        }
        let kept = rig.does("PATCH", path, json!({"max_per_user": 1}));
        assert_eq!(kept, json!({"max_age_days": 7, "max_per_user": 1}));
        let kept = rig.does("PATCH", path, json!({"max_age_days": 30}));
        assert_eq!(kept, json!({"max_age_days": 30, "max_per_user": 1}));
        assert_eq!(rig.does("PATCH", path, json!({})), kept);
        assert_eq!(rig.get(path), kept);

        let left =
            |queue: &str| rig.get(&format!("/queue/stats?queue={queue}"))["completed"].clone();
        let queues = ["own", "set", "plain"];
        let wanted = [json!(3), json!(1), json!(1)];
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while queues.map(left) != wanted {
            assert!(
                std::time::Instant::now() < until,
                "the sweep goes by it: {:?}",
                queues.map(left)
            );
        }
        let names = rig.get("/queues");
        let names = names.as_array().unwrap().iter().map(|queue| queue["queue"].as_str().unwrap());
        assert_eq!(names.collect::<Vec<_>>(), ["own", "plain", "set"], "* is no queue");

        let said = rig.refuses("PATCH", path, json!({"max_age_day": 1}), (400, "malformed"));
        assert!(said.contains("max_age_days"), "{said}");
        for wrong in [json!({"max_age_days": 0}), json!({"max_per_user": 0})] {
            rig.refuses("PATCH", path, wrong, (422, "invalid"));
        }
        rig.refuses("PATCH", path, json!({"max_age_days": "x"}), (400, "malformed"));
        rig.refuses("PUT", "/queues/*/settings", json!({}), (422, "invalid"));
        assert_eq!(rig.get(path), kept);
    });
}

#[test]
fn the_queue_monitor_of_seed_004_sees_what_it_knows() {
    Rig::both("monitor", |rig| {
        story::of_items(rig);
        (0..5).for_each(|_| drop(rig.add("more", json!({}))));
        let stats = rig.get("/admin/queue/stats");
        let figures = &stats["queueStats"];
        let all = rig.get("/queue/stats");
        for status in ["pending", "processing", "completed", "failed", "cancelled", "skipped"] {
            assert_eq!(figures[status], all[status], "{status}");
        }
        assert_eq!(all["queued"], all["pending"]);
        let jobs = rig.get("/views/job_queue?limit=20");
        assert_eq!(stats["recentJobs"], jobs["rows"], "the newest, in the view's shape");
        assert_eq!(stats["recentJobs"].as_array().unwrap().len(), 20);
        let failed = rig.get("/views/job_queue?status=failed");
        assert_eq!(stats["failedJobs"], failed["rows"]);
        let pending = rig.rows("job_queue", "status=PENDING");
        assert_eq!(stats["oldestPendingJob"], *pending.last().unwrap());
        let metrics = &stats["performanceMetrics"];
        assert_eq!(metrics["types"][0]["jobType"], "item");
        assert_eq!(
            (&metrics["types"][0]["count"], &metrics["partial"]),
            (&json!(3), &json!(false))
        );
        assert!(metrics["types"][0]["avgDurationMs"].is_u64() && stats["timestamp"].is_string());
    });
}

#[test]
fn an_empty_queue_has_a_monitor_too() {
    let stats = Rig::embedded("empty").get("/admin/queue/stats");
    assert_eq!((&stats["oldestPendingJob"], &stats["recentJobs"]), (&Value::Null, &json!([])));
    assert_eq!((&stats["queueStats"]["pending"], &stats["partial"]), (&json!(0), &json!(false)));
}

#[test]
fn a_job_is_cancelled_or_run_again_only_from_where_that_makes_sense() {
    Rig::both("jobs", |rig| {
        let job = |status: &str, outcome: Value| {
            let id = rig.add(status, json!({}));
            rig.settle(&rig.take(json!({"queues": [status]})), outcome);
            id
        };
        let failed = job("failed", json!({"outcome": "fail", "error": "it broke"}));
        let completed = job("completed", json!({"outcome": "complete"}));
        let (retry, cancel) = ("/admin/queue/retry", "/admin/queue/cancel");
        let by_query = |path: &str, id: &str| format!("{path}?jobId={id}");

        let said = rig.refuses("POST", cancel, json!({"jobId": failed}), (400, "wrong_status"));
        assert!(said.ends_with("this one is failed"), "{said}");
        rig.refuses("POST", &by_query(retry, &completed), Value::Null, (400, "wrong_status"));
        let again = rig.does("POST", &by_query(retry, &failed), Value::Null);
        assert_eq!((&again["success"], &again["jobId"]), (&json!(true), &json!(failed)));
        let job = &again["job"];
        assert_eq!((&job["status"], &job["attempts"]), (&json!("PENDING"), &json!(0)));
        rig.refuses("POST", retry, json!({"jobId": failed}), (400, "wrong_status"));

        let ended = rig.does("POST", cancel, json!({"jobId": failed}));
        assert_eq!(ended["job"]["status"], "CANCELLED");
        rig.refuses("POST", retry, json!({"jobId": failed}), (400, "wrong_status"));
        rig.refuses("POST", cancel, json!({"jobId": failed}), (400, "wrong_status"));
        let working = rig.add("working", json!({}));
        rig.take(json!({"queues": ["working"]}));
        rig.refuses("POST", retry, json!({"jobId": working}), (400, "wrong_status"));
        let ended = rig.does("POST", &by_query(cancel, &working), json!({}));
        assert_eq!(ended["job"]["status"], "CANCELLED");

        for path in [retry, cancel] {
            let nobody = "01a1e554-9c99-7001-b210-29840971dd42";
            rig.refuses("POST", path, json!({"jobId": nobody}), (404, "not_found"));
            rig.refuses("POST", path, json!({"jobId": "x"}), (404, "not_found"));
            rig.refuses("POST", path, json!({}), (422, "invalid"));
            rig.refuses("POST", &by_query(path, &failed), json!({"jobId": "x"}), (422, "invalid"));
            rig.refuses("POST", path, json!({"jobID": "x"}), (400, "malformed"));
        }
    });
}

#[test]
fn a_retry_says_how_in_its_body_or_after_the_question_mark() {
    let rig = Rig::embedded("retry");
    let id = rig.add("q", json!({"route": ["one", "two"]}));
    rig.settle(&rig.take(json!({})), json!({"outcome": "complete"}));
    rig.settle(&rig.take(json!({})), json!({"outcome": "fail", "error": "it broke"}));
    let retry = |query: &str| format!("/queue/{id}/retry{query}");
    rig.refuses("POST", &retry("?mode=again"), json!({}), (400, "malformed"));
    rig.refuses("POST", &retry("?mode=clone"), json!({"mode": "reset"}), (422, "invalid"));
    rig.refuses("POST", &retry("?from_stage=three"), json!({}), (422, "no_such_stage"));
    let reset = rig.does("POST", &retry("?mode=reset&from_stage=one"), Value::Null);
    assert_eq!(reset["id"], json!(id));
    assert_eq!(rig.get(&format!("/queue/{id}"))["stage"], "one");
    rig.does("POST", &format!("/queue/{id}/cancel"), json!({}));
    let clone = rig.does("POST", &retry(""), Value::Null);
    assert_ne!(clone["id"], json!(id), "a clone, unless somebody says otherwise");
}
