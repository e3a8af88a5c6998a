//! Settings, resources and routes on disk.

use std::sync::Arc;

use windrow_core::item::End;
use windrow_core::resource::{Breaker, Bucket, Limits, Rate, Resource};
use windrow_core::route::{Route, Stage};
use windrow_core::settings::{
    Ahead, Backoff, KindSettings, Notify, OnExpiry, Policy, Retention, Settings, StageSettings,
    Unique,
};

use super::{Malformed, Pack, Reader, pack_enum, pack_lists, pack_struct};

pack_enum! {
    OnExpiry { 0 = Retry, 1 = Requeue, 2 = Fail }
    Unique { 0 = Live, 1 = Retained }
    Breaker {
        0 = Calm { failures, since }, 1 = Resting { times }, 2 = Probing { times },
        3 = Ramping { times, step, left },
    }
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
    Notify { webhook, tenants, endings }
    Rate { count, per_ms, burst }
    Limits { rate, failures, window_ms, rest_ms, rest_max_ms }
    Bucket { tokens, at }
    Resource { limits, closed_until, breaker, bucket }
    Stage { name, below }
    Route { stages }
}

pack_lists!(StageSettings, KindSettings, Notify, End, Stage, Arc<str>);

/// Bits of the byte that says whether completed items are forgotten. Before there were webhooks it
/// was only that, so settings without any are as they always were.
const FORGETS: u8 = 1;
const NOTIFIES: u8 = 2;

impl Pack for Settings {
    fn put(&self, out: &mut Vec<u8>) {
        self.defaults.put(out);
        self.live_max.put(out);
        self.unique.put(out);
        self.retention.put(out);
        let notifies = !self.notify.is_empty();
        let forgets = if self.forget_completed { FORGETS } else { 0 };
        out.push(forgets | if notifies { NOTIFIES } else { 0 });
        self.stages.put(out);
        self.kinds.put(out);
        if notifies {
            self.notify.put(out);
        }
    }

    fn get(from: &mut Reader<'_>) -> Result<Settings, Malformed> {
        let (defaults, live_max) = (from.get()?, from.get()?);
        let (unique, retention, bits) = (from.get()?, from.get()?, from.byte()?);
        if bits & !(FORGETS | NOTIFIES) != 0 {
            return Err(Malformed);
        }
        let (stages, kinds) = (from.get()?, from.get()?);
        let notify = if bits & NOTIFIES != 0 { from.get()? } else { Vec::new() };
        let forget_completed = bits & FORGETS != 0;
        Ok(Settings {
            defaults,
            live_max,
            unique,
            retention,
            forget_completed,
            stages,
            kinds,
            notify,
        })
    }
}

impl Pack for Arc<Route> {
    fn put(&self, out: &mut Vec<u8>) {
        Route::put(self, out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Arc<Route>, Malformed> {
        from.get::<Route>().map(Arc::new)
    }
}
