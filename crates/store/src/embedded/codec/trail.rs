//! Trails and tallies on disk.
//!
//! The common trail has one stage that was tried once; its record repeats what its only attempt
//! says, so that is written once.

use windrow_core::item::Status;
use windrow_core::tally::{Counts, Level, OnGaps, Tally};
use windrow_core::trail::{Attempt, Class, Fault, Progress, StageRecord, Trail};

use super::{Malformed, Pack, Reader, pack_enum, pack_lists, pack_struct};

pack_enum! {
    Class {
        0 = Gone, 1 = BadData, 2 = Resource, 3 = Infrastructure, 4 = RateLimit, 5 = Other,
        6 = LeaseExpired, 7 = Children, 8 = Internal,
    }
    OnGaps { 0 = Continue, 1 = Stop }
}

pack_struct! {
    Fault { class, message }
    Progress { current, total, message }
    Level { level, phase, counts }
    Tally { stage, more, on_gaps, children, gaps, phases, levels }
}

pack_lists!(Attempt, Level, (std::sync::Arc<str>, Counts));

impl Pack for Counts {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.iter().for_each(|count| count.put(out));
    }
    fn get(from: &mut Reader<'_>) -> Result<Counts, Malformed> {
        let mut counts = Counts::default();
        for count in &mut counts.0 {
            *count = from.get()?;
        }
        Ok(counts)
    }
}

/// Times after the first are written as the distance from it.
impl Pack for Attempt {
    fn put(&self, out: &mut Vec<u8>) {
        self.stage.put(out);
        self.number.put(out);
        self.lease.put(out);
        self.worker.put(out);
        self.started.put(out);
        self.ended.since(self.started).put(out);
        self.ending.put(out);
        self.error.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Attempt, Malformed> {
        let (stage, number, lease, worker) = (from.get()?, from.get()?, from.get()?, from.get()?);
        let started: windrow_core::Timestamp = from.get()?;
        let ended = started.plus(from.get()?);
        let (ending, error) = (from.get()?, from.get()?);
        Ok(Attempt { stage, number, lease, worker, started, ended, ending, error })
    }
}

/// The stage record is told by the last attempt in the log.
const AS_ATTEMPT: u8 = 1;

fn put_stage(stage: &StageRecord, last: Option<&Attempt>, out: &mut Vec<u8>) {
    let as_attempt = last.is_some_and(|last| {
        stage.worker.as_ref() == Some(&last.worker)
            && stage.started == Some(last.started)
            && stage.attempts == last.number
            && stage.completed == Some(last.ended)
            && stage.error == last.error
    });
    out.push(if as_attempt { AS_ATTEMPT } else { 0 });
    stage.status.put(out);
    if !as_attempt {
        stage.attempts.put(out);
        stage.worker.put(out);
        stage.started.put(out);
        stage.completed.put(out);
        stage.error.put(out);
    }
    stage.renewed.put(out);
    stage.output.put(out);
}

fn get_stage(last: Option<&Attempt>, from: &mut Reader<'_>) -> Result<StageRecord, Malformed> {
    let as_attempt = from.byte()? == AS_ATTEMPT;
    let status: Status = from.get()?;
    let mut stage = StageRecord { status, ..StageRecord::PENDING };
    if as_attempt {
        let last = last.ok_or(Malformed)?;
        stage.attempts = last.number;
        stage.worker = Some(last.worker.clone());
        stage.started = Some(last.started);
        stage.completed = Some(last.ended);
        stage.error.clone_from(&last.error);
    } else {
        stage.attempts = from.get()?;
        stage.worker = from.get()?;
        stage.started = from.get()?;
        stage.completed = from.get()?;
        stage.error = from.get()?;
    }
    stage.renewed = from.get()?;
    stage.output = from.get()?;
    Ok(stage)
}

impl Pack for Trail {
    fn put(&self, out: &mut Vec<u8>) {
        self.attempts.put(out);
        let last = self.attempts.last();
        self.stages.len().try_into().unwrap_or(u8::MAX).put(out);
        self.stages.iter().for_each(|stage| put_stage(stage, last, out));
        self.result.put(out);
        self.progress.put(out);
        self.finished_at.put(out);
        self.reason.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Trail, Malformed> {
        let attempts: Vec<Attempt> = from.get()?;
        let count: u8 = from.get()?;
        let mut stages = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            stages.push(get_stage(attempts.last(), from)?);
        }
        Ok(Trail {
            stages,
            attempts,
            result: from.get()?,
            progress: from.get()?,
            finished_at: from.get()?,
            reason: from.get()?,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use windrow_core::trail::Ending;
    use windrow_core::{LeaseId, Timestamp};

    use super::*;

    fn attempt(number: u16, error: Option<Fault>) -> Attempt {
        Attempt {
            stage: 0,
            number,
            lease: LeaseId(7),
            worker: "worker".into(),
            started: Timestamp(1_700_000_000_000),
            ended: Timestamp(1_700_000_000_020),
            ending: Ending::Completed,
            error,
        }
    }

    #[test]
    fn a_trail_comes_back_whole_and_the_common_one_is_short() {
        let mut trail =
            Trail { finished_at: Some(Timestamp(1_700_000_000_020)), ..Trail::default() };
        let record = trail.stage_mut(0);
        record.status = Status::Completed;
        record.attempts = 1;
        record.worker = Some("worker".into());
        record.started = Some(Timestamp(1_700_000_000_000));
        record.completed = Some(Timestamp(1_700_000_000_020));
        trail.log(attempt(1, None));
        let mut out = Vec::new();
        trail.put(&mut out);
        assert!(out.len() < 64, "{} bytes", out.len());
        assert_eq!(Reader::new(&out).get::<Trail>().unwrap(), trail);

        trail.stage_mut(2).output = Some(vec![1, 2, 3]);
        trail.log(attempt(2, Some(Fault::new(Class::BadData, "no"))));
        trail.result = Some(vec![9; 300]);
        trail.progress = Some(Progress { current: 1, total: 2, message: "half".into() });
        trail.reason = Some("why".into());
        let mut out = Vec::new();
        trail.put(&mut out);
        assert_eq!(Reader::new(&out).get::<Trail>().unwrap(), trail);
    }
}
