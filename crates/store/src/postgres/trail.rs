//! Trails as JSON, so that whoever looks into the database can read what became of an item.
//!
//! Times are milliseconds UTC. What was not given is left out. Bytes are a text if they are one,
//! else `{"hex": …}`. The last attempt of a stage usually says what the stage's record says; then
//! only its lease and how it ended are written.

use std::fmt::Write as _;

use serde_json::Value;
use windrow_core::item::Status;
use windrow_core::trail::{Attempt, Class, Ending, Fault, Progress, StageRecord, Trail};
use windrow_core::{LeaseId, Timestamp};

use super::Error;

pub(super) fn write(trail: &Trail) -> String {
    let mut out = String::with_capacity(256);
    let mut object = Object::begin(&mut out);
    object.list("stages", &trail.stages, put_stage);
    object.list("attempts", &trail.attempts, |attempt, out| {
        let record = trail.stage(attempt.stage);
        put_attempt(attempt, record.filter(|record| repeats(attempt, record)).is_some(), out);
    });
    object.bytes("result", trail.result.as_deref());
    if let Some(Progress { current, total, message }) = &trail.progress {
        let mut inner = Object::begin(object.name("progress"));
        inner.number("current", Some(*current));
        inner.number("total", Some(*total));
        inner.text("message", Some(message));
        inner.end();
    }
    object.number("finished", trail.finished_at.map(|at| at.0));
    object.text("reason", trail.reason.as_deref());
    object.end();
    out
}

/// Whether a stage's record tells all but the lease and the ending.
fn repeats(attempt: &Attempt, record: &StageRecord) -> bool {
    record.worker.as_ref() == Some(&attempt.worker)
        && record.started == Some(attempt.started)
        && record.completed == Some(attempt.ended)
        && record.attempts == attempt.number
        && record.error == attempt.error
}

fn put_stage(record: &StageRecord, out: &mut String) {
    let mut object = Object::begin(out);
    object.text("status", Some(record.status.name()));
    object.number("attempts", Some(u64::from(record.attempts)));
    object.text("worker", record.worker.as_deref());
    object.number("started", record.started.map(|at| at.0));
    object.number("completed", record.completed.map(|at| at.0));
    object.number("renewed", record.renewed.map(|at| at.0));
    object.fault(record.error.as_ref());
    object.bytes("output", record.output.as_deref());
    object.end();
}

fn put_attempt(attempt: &Attempt, is_told: bool, out: &mut String) {
    let mut object = Object::begin(out);
    object.number("stage", Some(u64::from(attempt.stage)));
    object.text("lease", Some(&attempt.lease.to_string()));
    object.text("ending", Some(attempt.ending.name()));
    if !is_told {
        object.number("number", Some(u64::from(attempt.number)));
        object.text("worker", Some(&attempt.worker));
        object.number("started", Some(attempt.started.0));
        object.number("ended", Some(attempt.ended.0));
        object.fault(attempt.error.as_ref());
    }
    object.end();
}

/// An object that is being written.
struct Object<'a> {
    out: &'a mut String,
    is_empty: bool,
}

impl Object<'_> {
    fn begin(out: &mut String) -> Object<'_> {
        out.push('{');
        Object { out, is_empty: true }
    }

    fn end(self) {
        self.out.push('}');
    }

    fn name(&mut self, name: &str) -> &mut String {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(',');
        }
        self.out.push('"');
        self.out.push_str(name);
        self.out.push_str("\":");
        self.out
    }

    fn number(&mut self, name: &str, number: Option<u64>) {
        if let Some(number) = number {
            // Writing to a text cannot fail.
            let _infallible = write!(self.name(name), "{number}");
        }
    }

    fn text(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            put_text(text, self.name(name));
        }
    }

    fn bytes(&mut self, name: &str, bytes: Option<&[u8]>) {
        match bytes.map(std::str::from_utf8) {
            None => {}
            // The views read texts, and no text in PostgreSQL has a NUL.
            Some(Ok(text)) if !text.contains('\0') => put_text(text, self.name(name)),
            Some(_) => {
                let hex = bytes.unwrap_or_default().iter().map(|byte| format!("{byte:02x}"));
                let hex: String = hex.collect();
                let mut inner = Object::begin(self.name(name));
                inner.text("hex", Some(&hex));
                inner.end();
            }
        }
    }

    fn fault(&mut self, fault: Option<&Fault>) {
        if let Some(Fault { class, message }) = fault {
            let mut inner = Object::begin(self.name("error"));
            inner.text("class", Some(class.name()));
            inner.text("message", Some(message));
            inner.end();
        }
    }

    fn list<T>(&mut self, name: &str, list: &[T], put: impl Fn(&T, &mut String)) {
        if list.is_empty() {
            return;
        }
        let out = self.name(name);
        for (at, one) in list.iter().enumerate() {
            out.push(if at == 0 { '[' } else { ',' });
            put(one, out);
        }
        out.push(']');
    }
}

fn put_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => {
                let _infallible = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

pub(super) fn read(json: &str) -> Result<Trail, Error> {
    let value: Value = serde_json::from_str(json).map_err(|_| Error::Malformed)?;
    get_trail(&value).ok_or(Error::Malformed)
}

fn get_trail(value: &Value) -> Option<Trail> {
    let list = |name: &str| value.get(name).and_then(Value::as_array).into_iter().flatten();
    let stages: Vec<StageRecord> = list("stages").map(get_stage).collect::<Option<_>>()?;
    let attempt = |value: &Value| get_attempt(value, &stages);
    let attempts = list("attempts").map(attempt).collect::<Option<_>>()?;
    let progress = |value: &Value| {
        let number = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or(0);
        let message = text(value, "message").unwrap_or_default();
        Progress { current: number("current"), total: number("total"), message }
    };
    Some(Trail {
        attempts,
        stages,
        result: bytes(value, "result"),
        progress: value.get("progress").map(progress),
        finished_at: time(value, "finished"),
        reason: text(value, "reason"),
    })
}

fn get_stage(value: &Value) -> Option<StageRecord> {
    Some(StageRecord {
        status: Status::parse(value.get("status")?.as_str()?)?,
        attempts: value.get("attempts")?.as_u64()? as u16,
        worker: text(value, "worker").map(Into::into),
        started: time(value, "started"),
        completed: time(value, "completed"),
        renewed: time(value, "renewed"),
        error: fault(value),
        output: bytes(value, "output"),
    })
}

fn get_attempt(value: &Value, stages: &[StageRecord]) -> Option<Attempt> {
    let stage = value.get("stage")?.as_u64()? as u8;
    let lease: LeaseId = value.get("lease")?.as_str()?.parse().ok()?;
    let word = value.get("ending")?.as_str()?;
    let ending = Ending::parse(word)?;
    Some(match value.get("number") {
        Some(number) => Attempt {
            stage,
            number: number.as_u64()? as u16,
            lease,
            worker: text(value, "worker")?.into(),
            started: time(value, "started")?,
            ended: time(value, "ended")?,
            ending,
            error: fault(value),
        },
        None => {
            let record = stages.get(usize::from(stage))?;
            Attempt {
                stage,
                number: record.attempts,
                lease,
                worker: record.worker.clone()?,
                started: record.started?,
                ended: record.completed?,
                ending,
                error: record.error.clone(),
            }
        }
    })
}

fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name)?.as_str().map(str::to_owned)
}

fn time(value: &Value, name: &str) -> Option<Timestamp> {
    value.get(name)?.as_u64().map(Timestamp)
}

fn fault(value: &Value) -> Option<Fault> {
    let fault = value.get("error")?;
    let class = Class::parse(fault.get("class")?.as_str()?)?;
    Some(Fault { class, message: text(fault, "message")? })
}

fn bytes(value: &Value, name: &str) -> Option<Vec<u8>> {
    match value.get(name)? {
        Value::String(text) => Some(text.clone().into_bytes()),
        other => {
            let hex = other.get("hex")?.as_str()?.as_bytes();
            let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok();
            hex.chunks(2).map(byte).collect()
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn attempt(number: u16, error: Option<Fault>) -> Attempt {
        Attempt {
            stage: 0,
            number,
            lease: LeaseId(7 << 64),
            worker: "wörker \"1\"".into(),
            started: Timestamp(1_700_000_000_000),
            ended: Timestamp(1_700_000_000_020),
            ending: Ending::Completed,
            error,
        }
    }

    #[test]
    fn a_trail_comes_back_whole() {
        let mut trail = Trail::default();
        assert_eq!(read(&write(&trail)).unwrap(), trail);
        let first = attempt(1, None);
        let record = trail.stage_mut(0);
        record.status = Status::Completed;
        record.attempts = 1;
        record.worker = Some(first.worker.clone());
        record.started = Some(first.started);
        record.completed = Some(first.ended);
        trail.log(first);
        trail.finished_at = Some(Timestamp(1_700_000_000_020));
        let short = write(&trail);
        assert!(short.len() < 300, "{short}");
        assert_eq!(read(&short).unwrap(), trail);

        trail.stage_mut(2).output = Some(vec![0, 255, 3]);
        trail.log(attempt(2, Some(Fault::new(Class::BadData, "no\nline\0"))));
        trail.result = Some(b"{\"a\": 1}".to_vec());
        trail.progress = Some(Progress { current: 1, total: 2, message: "half".into() });
        trail.reason = Some(String::new());
        assert_eq!(read(&write(&trail)).unwrap(), trail);
    }
}
