//! Settings and routes on disk.

use std::sync::Arc;

use windrow_core::route::{Route, Stage};
use windrow_core::settings::{
    Ahead, Backoff, KindSettings, OnExpiry, Policy, Retention, Settings, StageSettings, Unique,
};

use super::{Malformed, Pack, Reader, pack_enum, pack_lists, pack_struct};

pack_enum! {
    OnExpiry { 0 = Retry, 1 = Requeue, 2 = Fail }
    Unique { 0 = Live, 1 = Retained }
}

pack_struct! {
    Ahead { stage, max }
    Backoff { base_ms, cap_ms, slow_base_ms, slow_cap_ms }
    Retention { max_age_ms, max_per_tenant }
    Policy {
        lease_ms, max_attempts, backoff, on_expiry, retry_first, group_limit, ordered,
        deferrals_max, resource, ahead,
    }
    StageSettings { stage, policy }
    KindSettings { kind, lease_ms }
    Settings { defaults, live_max, unique, retention, forget_completed, stages, kinds }
    Stage { name, below }
    Route { stages }
}

pack_lists!(StageSettings, KindSettings, Stage, Arc<str>);

impl Pack for Arc<Route> {
    fn put(&self, out: &mut Vec<u8>) {
        Route::put(self, out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Arc<Route>, Malformed> {
        from.get::<Route>().map(Arc::new)
    }
}
