//! Configure: how a queue behaves, from now on.

use windrow_core::command::Outcome;
use windrow_core::settings::{
    Ahead, Backoff, KindSettings, Policy, Retention, Settings, StageSettings, Unique,
};
use windrow_core::trail::Ending;

use super::code;
use crate::suite::{Draft as _, retry};

cases! {
    fn settings_hold_from_now_on(bed) {
        bed.policy(Policy { max_attempts: 1, ..Policy::default() });
        bed.add(bed.item());
        assert_eq!(bed.settle(&bed.take(), retry()), Ending::Failed);
        bed.policy(Policy { max_attempts: 2, ..Policy::default() });
        bed.add(bed.item());
        assert_eq!(bed.settle(&bed.take(), retry()), Ending::Retried);
    }

    fn a_stage_may_have_a_policy_of_its_own(bed) {
        let policy = Policy { max_attempts: 1, ..Policy::default() };
        let stages = vec![StageSettings { stage: "ocr".into(), policy }];
        bed.configure(Settings { stages, ..Settings::default() });
        bed.add(bed.item().route(windrow_core::route::Route::of(&["ocr"])));
        assert_eq!(bed.settle(&bed.take(), retry()), Ending::Failed);
        bed.add(bed.item());
        assert_eq!(bed.settle(&bed.take(), retry()), Ending::Retried);
    }

    fn a_kind_may_have_a_lease_of_its_own(bed) {
        let kinds = vec![KindSettings { kind: "slow".into(), lease_ms: 7_200_000 }];
        bed.configure(Settings { kinds, ..Settings::default() });
        bed.add(bed.item().kind("slow"));
        let granted = bed.claim(bed.asks(1)).expect("work");
        let lasts_ms = granted.expires_at.since(bed.now());
        assert!(lasts_ms > 7_000_000, "{lasts_ms}");
    }

    fn every_setting_can_be_said(bed) {
        let backoff = Backoff { base_ms: 1, cap_ms: 2, slow_base_ms: 3, slow_cap_ms: 4 };
        let defaults = Policy {
            backoff,
            group_limit: Some(3),
            ordered: true,
            retry_first: true,
            deferrals_max: 9,
            resource: Some("model".into()),
            ahead: Some(Ahead { stage: "vector".into(), max: 100 }),
            ..Policy::default()
        };
        bed.configure(Settings {
            defaults,
            live_max: Some(1_000),
            unique: Unique::Retained,
            retention: Retention { max_age_ms: 86_400_000, max_per_tenant: 10 },
            ..Settings::default()
        });
        bed.add(bed.item());
        bed.settle(&bed.take(), Outcome::complete());
    }

    fn settings_that_cannot_hold_are_refused(bed) {
        let stages = vec![StageSettings { stage: "".into(), policy: Policy::default() }];
        let settings = Settings { stages, ..Settings::default() };
        let name = bed.name.as_str().into();
        assert_eq!(code(bed.wait(bed.port.configure(name, settings))), "invalid");
        let nameless = bed.port.configure("".into(), Settings::default());
        assert_eq!(code(bed.wait(nameless)), "invalid");
    }
}
