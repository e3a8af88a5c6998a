//! What is due: decided from what a schedule says and the time, and nothing else.

use windrow_core::Timestamp;
use windrow_wire::schedule::Missed;

/// A run that is late by no more than this was not missed: a server starts anew, or another one
/// takes over.
const LATE_MS: u64 = 60_000;
/// Runs that are made up for, one after the other.
pub(super) const MADE_UP_MAX: u32 = 100;

/// What to do with the next run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Plan {
    /// Its time has not come; none if it never comes again.
    Wait(Option<Timestamp>),
    /// It runs, and after it that one. So many were made up for in a row.
    Run { run: Timestamp, then: Option<Timestamp>, made_up: u32 },
    /// It was missed, and stays so.
    Miss { then: Option<Timestamp> },
}

/// Looks at the next run, whose time is kept with the schedule: whoever looks again after a crash
/// sees the same run. `after` says which run comes after a moment.
pub(super) fn plan(
    next: Option<Timestamp>,
    missed: Missed,
    made_up: u32,
    now: Timestamp,
    after: impl Fn(Timestamp) -> Option<Timestamp>,
) -> Plan {
    let Some(run) = next.filter(|next| *next <= now) else { return Plan::Wait(next) };
    if now.since(run) <= LATE_MS {
        return Plan::Run { run, then: after(run), made_up: 0 };
    }
    // Everything up to here was missed.
    let lately = Timestamp(now.0 - LATE_MS - 1);
    match missed {
        Missed::Skip => Plan::Miss { then: after(lately) },
        Missed::One => Plan::Run { run, then: after(lately), made_up: 0 },
        Missed::All if made_up < MADE_UP_MAX => {
            Plan::Run { run, then: after(run), made_up: made_up + 1 }
        }
        Missed::All => Plan::Miss { then: after(lately) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    /// Every ten minutes, of which the first five hundred come.
    fn after(at: Timestamp) -> Option<Timestamp> {
        let next = (at.0 / (10 * MINUTE) + 1) * 10 * MINUTE;
        (next <= 5_000 * MINUTE).then_some(Timestamp(next))
    }

    fn at(minute: u64) -> Timestamp {
        Timestamp(minute * MINUTE)
    }

    #[test]
    fn a_run_waits_runs_or_was_missed() {
        let (skip, one, all) = (Missed::Skip, Missed::One, Missed::All);
        let run = |run, then, made_up| Plan::Run { run: at(run), then: Some(at(then)), made_up };
        let miss = |then| Plan::Miss { then: Some(at(then)) };
        for (next, missed, made_up, now, expected) in [
            (20, skip, 0, at(19), Plan::Wait(Some(at(20)))),
            (20, skip, 0, at(20), run(20, 30, 0)),
            (20, skip, 7, at(21), run(20, 30, 0)),
            (20, skip, 0, Timestamp(21 * MINUTE + 1), miss(30)),
            (20, skip, 0, at(75), miss(80)),
            // The run of minute 70 is late and not missed.
            (20, skip, 0, Timestamp(70 * MINUTE + 500), miss(70)),
            (20, one, 0, at(75), run(20, 80, 0)),
            (20, one, 0, at(70), run(20, 70, 0)),
            (20, all, 0, at(75), run(20, 30, 1)),
            (30, all, 1, at(75), run(30, 40, 2)),
            (30, all, MADE_UP_MAX - 1, at(75), run(30, 40, MADE_UP_MAX)),
            (30, all, MADE_UP_MAX, at(75), miss(80)),
        ] {
            let planned = plan(Some(at(next)), missed, made_up, now, after);
            assert_eq!(planned, expected, "{next} {missed:?} {made_up} at {now}");
        }
        assert_eq!(plan(None, skip, 0, at(9), after), Plan::Wait(None));
        let last = plan(Some(at(5_000)), skip, 0, at(5_000), after);
        assert_eq!(last, Plan::Run { run: at(5_000), then: None, made_up: 0 });
    }

    /// Every run that comes of a long absence.
    fn made_up_for(missed: Missed, now: Timestamp) -> Vec<u64> {
        let (mut next, mut made_up, mut runs) = (Some(at(10)), 0, Vec::new());
        loop {
            match plan(next, missed, made_up, now, after) {
                Plan::Wait(_) => return runs,
                Plan::Run { run, then, made_up: so_far } => {
                    runs.push(run.0 / MINUTE);
                    (next, made_up) = (then, so_far);
                }
                Plan::Miss { then } => (next, made_up) = (then, 0),
            }
        }
    }

    #[test]
    fn an_absence_is_made_up_for_as_the_policy_says() {
        assert_eq!(made_up_for(Missed::Skip, at(4_005)), [0; 0]);
        assert_eq!(made_up_for(Missed::One, at(4_005)), [10]);
        let all = made_up_for(Missed::All, at(4_005));
        assert_eq!((all.len() as u32, all[0], all[99]), (MADE_UP_MAX, 10, 1_000));
        assert_eq!(made_up_for(Missed::Skip, at(4_000)), [4_000], "that one was on time");
        assert_eq!(made_up_for(Missed::All, at(45)), [10, 20, 30, 40]);
    }
}
