//! The context of a span: its trace, itself, and whether the trace is recorded.

use std::sync::{Mutex, PoisonError};

use rand::RngExt as _;
use rand::rngs::StdRng;

/// One place in a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Context {
    pub(super) trace: u128,
    pub(super) span: u64,
    pub(super) is_sampled: bool,
}

impl Context {
    /// Reads a `traceparent`.
    pub(super) fn parse(text: &str) -> Option<Context> {
        if !windrow_core::trace::is_valid(text) {
            return None;
        }
        let mut parts = text.split('-').skip(1);
        let trace = u128::from_str_radix(parts.next()?, 16).ok()?;
        let span = u64::from_str_radix(parts.next()?, 16).ok()?;
        let flags = u8::from_str_radix(parts.next()?, 16).ok()?;
        Some(Context { trace, span, is_sampled: flags & 1 == 1 })
    }

    /// The beginning of a new trace.
    pub(super) fn root() -> Context {
        let (high, low, span) = random();
        let trace = u128::from(high) << 64 | u128::from(low);
        Context { trace: trace.max(1), span, is_sampled: true }
    }

    /// A new span in the same trace.
    pub(super) fn child(self) -> Context {
        let (_, _, span) = random();
        Context { span, ..self }
    }
}

/// Ids need only be different.
static RANDOM: Mutex<Option<StdRng>> = Mutex::new(None);

fn random() -> (u64, u64, u64) {
    let mut random = RANDOM.lock().unwrap_or_else(PoisonError::into_inner);
    let random = random.get_or_insert_with(rand::make_rng);
    (random.random(), random.random(), random.random_range(1..=u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_read_and_continued() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = Context::parse(text).expect("it is one");
        assert_eq!(context.trace, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!((context.span, context.is_sampled), (0xb7ad_6b71_6920_3331, true));
        let child = context.child();
        assert!(child.trace == context.trace && child.span != context.span);
        let unsampled = Context::parse(&text.replace("-01", "-00")).expect("it is one");
        assert!(!unsampled.is_sampled && !unsampled.child().is_sampled);
        assert_eq!(Context::parse("00-x-y-01"), None);
        assert_ne!(Context::root().trace, Context::root().trace);
    }
}
