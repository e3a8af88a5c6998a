//! A schedule as it is kept, in a note on a shelf of its own.

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use windrow_core::command::{NewItem as CoreItem, OnDuplicate};
use windrow_core::rules::enqueue::validate;
use windrow_core::{Refusal, RequestId, Timestamp};
use windrow_wire::new::NewItem;
use windrow_wire::schedule::{NewSchedule, Overlap, RunOutcome};
use windrow_wire::time::Time;

use super::cron::Cron;
use super::zone;
use crate::named::Name;

/// The shelf that schedules lie on.
pub(crate) const SHELF: &str = "schedules";

/// What the note of a schedule holds.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub(crate) struct Kept {
    pub(crate) says: NewSchedule,
    /// Rises whenever somebody writes the schedule, and not when it runs.
    pub(crate) revision: u64,
    /// The run to look at next.
    pub(crate) next: Option<Time>,
    /// Missed runs that were made up for in a row.
    #[serde(default)]
    pub(crate) made_up: u32,
    /// How often the queue was too full for the next run.
    #[serde(default)]
    pub(crate) tries: u32,
    pub(crate) last: Option<Last>,
}

/// What the last run came to.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub(crate) struct Last {
    pub(crate) run_at: Time,
    pub(crate) outcome: RunOutcome,
    pub(crate) item: Option<String>,
    pub(crate) reason: Option<String>,
    /// By what request it was asked for, if it was.
    #[serde(default)]
    pub(crate) request: Option<String>,
}

/// When a schedule comes.
#[derive(Debug)]
pub(crate) struct When {
    cron: Cron,
    zone: TimeZone,
}

impl When {
    /// Refuses what cannot be understood, and what never comes.
    pub(crate) fn new(says: &NewSchedule, now: Timestamp) -> Result<When, Refusal> {
        let when = When::read(says)?;
        if when.after(now).is_none() {
            let why = "never comes: no day of the next hundred years is like that";
            return Err(Refusal::invalid("cron", why));
        }
        Ok(when)
    }

    pub(crate) fn read(says: &NewSchedule) -> Result<When, Refusal> {
        let cron = says.cron.parse();
        let cron = cron
            .map_err(|error: super::cron::NotCron| Refusal::invalid("cron", error.to_string()))?;
        let zone = zone::named(&says.time_zone).ok_or_else(|| {
            let why = format!("{:?} is not a name like Europe/Berlin or UTC", says.time_zone);
            Refusal::invalid("time_zone", why)
        })?;
        Ok(When { cron, zone })
    }

    pub(crate) fn after(&self, at: Timestamp) -> Option<Timestamp> {
        zone::next(&self.cron, &self.zone, at)
    }

    pub(crate) fn upcoming(&self, after: Timestamp, count: usize) -> Vec<Timestamp> {
        zone::upcoming(&self.cron, &self.zone, after, count)
    }
}

impl Kept {
    pub(crate) fn read(bytes: &[u8]) -> Option<Kept> {
        serde_json::from_slice(bytes).ok()
    }

    pub(crate) fn written(&self) -> std::sync::Arc<[u8]> {
        // Only maps whose keys are no texts cannot be written, and there is none in it.
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

/// The item of one run. It is the same however often it is made, so that a repeat is recognised.
/// `when` says in words when it ran.
pub(crate) fn item(
    name: &Name,
    says: &NewSchedule,
    run: Timestamp,
    when: &str,
) -> Result<CoreItem, Refusal> {
    let template = says.item.clone();
    let Some(queue) = template.queue.clone() else {
        return Err(Refusal::invalid("item.queue", "must say which queue it goes to"));
    };
    if template.tenant.as_ref().is_some_and(|tenant| *tenant != name.tenant) {
        let why = "must be the schedule's own tenant; leave it out";
        return Err(Refusal::invalid("item.tenant", why));
    }
    let or = |said: Option<String>, other: &dyn Fn() -> String| said.or_else(|| Some(other()));
    let key = match says.overlap {
        Overlap::Allow => template.key,
        // Two of one key are never worked on at once, whatever else goes wrong.
        Overlap::Skip | Overlap::Replace => or(template.key, &|| format!("schedule/{}", name.name)),
    };
    let template = NewItem {
        key,
        source_type: or(template.source_type, &|| "schedule".into()),
        source_info: or(template.source_info, &|| format!("{} {when}", name.name)),
        ..template
    };
    let new = template.into_core(&queue.into(), &name.tenant.as_str().into(), run)?;
    validate(&new, run)?;
    Ok(match says.overlap {
        Overlap::Replace => CoreItem { on_duplicate: OnDuplicate::Replace, ..new },
        Overlap::Allow | Overlap::Skip => new,
    })
}

/// The id by which the enqueue of one run is repeated. A try that was refused is answered for good,
/// so that the next one needs another id.
pub(crate) fn request(name: &Name, revision: u64, run: Timestamp, tries: u32) -> RequestId {
    let text = format!("schedule\n{}\n{revision}\n{}\n{tries}", name.of_note(), run.0);
    let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    let half: [u8; 16] = std::array::from_fn(|at| hash[at]);
    RequestId(u128::from_be_bytes(half))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(json: &str) -> NewSchedule {
        serde_json::from_str(json).expect("a schedule")
    }

    fn name() -> Name {
        Name::new("t", "nightly").expect("a name")
    }

    #[test]
    fn the_item_of_a_run_is_the_same_however_often_it_is_made() {
        let says = says(r#"{"cron":"@daily","item":{"queue":"q","delay_ms":5,"payload":{"n":1}}}"#);
        let run = Timestamp(1_000);
        let made = item(&name(), &says, run, "now").expect("an item");
        assert_eq!(made, item(&name(), &says, run, "now").expect("an item"));
        assert_eq!((made.not_before, &made.body.key), (Timestamp(1_005), &None));
        assert_eq!(made.body.source_type.as_deref(), Some("schedule"));
        let first = request(&name(), 1, run, 0);
        assert_eq!(first, request(&name(), 1, run, 0));
        for other in [(2, run, 0), (1, Timestamp(2_000), 0), (1, run, 1)] {
            assert_ne!(first, request(&name(), other.0, other.1, other.2));
        }
    }

    #[test]
    fn runs_that_must_not_overlap_share_a_key() {
        let of = |overlap: &str, item_says: &str| {
            let json = format!(
                r#"{{"cron":"@daily","overlap":"{overlap}","item":{{"queue":"q"{item_says}}}}}"#
            );
            item(&name(), &says(&json), Timestamp(9), "now").expect("an item")
        };
        assert_eq!(of("allow", "").body.key, None);
        assert_eq!(of("skip", "").body.key.as_deref(), Some("schedule/nightly"));
        assert_eq!(of("skip", r#","key":"mine""#).body.key.as_deref(), Some("mine"));
        assert_eq!(of("replace", "").on_duplicate, OnDuplicate::Replace);
    }

    #[test]
    fn what_cannot_be_a_schedule_is_refused_with_its_field() {
        let refused = |json: &str| {
            let says = says(json);
            let when = When::new(&says, Timestamp(0)).map(drop);
            when.and_then(|()| item(&name(), &says, Timestamp(0), "now").map(drop))
                .expect_err(json)
                .to_string()
        };
        for (json, why) in [
            (r#"{"cron":"0 0 30 2 *","item":{"queue":"q"}}"#, "never comes"),
            (r#"{"cron":"every day","item":{"queue":"q"}}"#, "expected five fields"),
            (r#"{"cron":"@daily","time_zone":"Mars","item":{"queue":"q"}}"#, "time_zone"),
            (r#"{"cron":"@daily","item":{}}"#, "item.queue"),
            (r#"{"cron":"@daily","item":{"queue":"q","tenant":"other"}}"#, "item.tenant"),
            (r#"{"cron":"@daily","item":{"queue":"q","priority":11}}"#, "priority"),
        ] {
            let said = refused(json);
            assert!(said.contains(why), "{json}: {said}");
        }
    }
}
