//! What a run finds wrong.

use crate::queue::Micros;
use std::any::Any;
use std::fmt;

/// The first thing that must not happen in a run and did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The domain in which it was seen.
    pub domain: u32,
    /// The rank on which it was seen, if it is one rank's.
    pub rank: Option<usize>,
    /// The step that the rank was in, or the leader's.
    pub step: u64,
    /// When, in virtual microseconds.
    pub time_us: Micros,
    /// Which promise: one word, for counting and for telling whether a shrunk schedule fails in the same way.
    pub kind: &'static str,
    /// What, with its values.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, rank, step, time_us, kind, what } = self;
        write!(f, "{kind}: ")?;
        if *domain > 0 {
            write!(f, "domain {domain}, ")?;
        }
        if let Some(rank) = rank {
            write!(f, "rank {rank}, ")?;
        }
        write!(f, "step {step}, at {}.{:03} ms: {what}", time_us / 1000, time_us % 1000)
    }
}

/// What is wrong, before it is known where and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrong {
    /// The rank, if it is another one than that whose turn it was.
    pub(crate) rank: Option<usize>,
    pub(crate) kind: &'static str,
    pub(crate) what: String,
}

impl Wrong {
    pub(crate) fn new(kind: &'static str, what: impl Into<String>) -> Self {
        Self { rank: None, kind, what: what.into() }
    }

    /// A core that panics has broken a promise like any other, and its seed is to be named.
    pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Self::new("panic", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no text"))
    }

    pub(crate) fn at(self, domain: u32, rank: Option<usize>, step: u64, time_us: Micros) -> Violation {
        Violation { domain, rank, step, time_us, kind: self.kind, what: self.what }
    }
}

/// Refuses, with a message that is only made then.
pub(crate) fn ensure(holds: bool, kind: &'static str, what: impl FnOnce() -> String) -> Result<(), Wrong> {
    if holds { Ok(()) } else { Err(Wrong::new(kind, what())) }
}
