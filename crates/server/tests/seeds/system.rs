//! `GET /system/status`: what seed 003 shows admins.

use serde_json::{Value, json};

use crate::rig::Rig;

#[test]
fn the_system_shows_workers_jobs_and_figures() {
    Rig::both("system", |rig| {
        assert_eq!(rig.get("/system/status")["queue_worker"]["status"], "absent");
        let daily = json!({"cron": "0 3 * * *", "item": {"queue": "q"}});
        rig.does("PUT", "/schedules/daily", daily);
        rig.add("q", json!({}));
        rig.add("q", json!({}));
        rig.take(json!({"worker": "ocr-1"}));
        let status = loop {
            let status = rig.get("/system/status");
            if !status["scheduled_jobs"][1]["last_run"].is_null() {
                break status;
            }
        };
        let figures = &status["queue_stats"];
        assert_eq!((&figures["queued"], &figures["processing"]), (&json!(1), &json!(1)));
        assert_eq!(status["workers"][0]["name"], "ocr-1");
        assert_eq!(status["queue_worker"]["status"], "running");
        assert!(status["queue_worker"]["last_run"].is_string());
        let jobs = status["scheduled_jobs"].as_array().unwrap();
        let names: Vec<&Value> = jobs.iter().map(|job| &job["name"]).collect();
        assert_eq!(names, ["reclaim", "retention", "daily"]);
        for job in jobs {
            assert!(job["next_run"].is_string() && job["status"] == "running", "{job}");
        }
        assert!(jobs[0]["last_run"].is_string() && jobs[0]["handled"].is_u64(), "{}", jobs[0]);
        let kinds: Vec<&Value> = jobs.iter().map(|job| &job["kind"]).collect();
        assert_eq!(kinds, ["own", "own", "schedule"]);
        let daily = &jobs[2];
        assert_eq!((&daily["cron"], &daily["tenant"]), (&json!("0 3 * * *"), &json!("default")));
    });
}
