//! What one rank's scheduler asked its cache in a step, and what it was told: equal on all ranks.

use isoradix_core::Resume;
use std::fmt;

/// One verb with all that it was given. Nodes are named by their sequence numbers, holds by the numbers that the scheduler gave
/// them, keys by the request that they are the beginning of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Match {
        request: u32,
        length: usize,
    },
    Insert {
        request: u32,
        length: usize,
        resumed: Option<Resume>,
    },
    Lock {
        node: u64,
        hold: u64,
    },
    Unlock {
        hold: u64,
    },
    Pin {
        node: u64,
        hold: u64,
    },
    Unpin {
        hold: u64,
    },
    Touch {
        node: u64,
    },
    KeepStates {
        node: u64,
    },
    HostLock {
        node: u64,
        hold: u64,
    },
    UnlockHost {
        hold: u64,
    },
    LoadBackNeed {
        hold: u64,
    },
    LoadBack {
        hold: u64,
        slots: u64,
    },
    Prefetch {
        request: u32,
        length: usize,
        anchor: u64,
    },
    Evict {
        tokens: u64,
    },
    EvictHost {
        pages: u32,
    },
    RemoveNamespace {
        namespace: u8,
    },
    Reset,
    CloseStep {
        device_free: u64,
        promised: u64,
    },
    /// No verb of the cache: what the scheduler itself did.
    Batch {
        request: u32,
        prefix: usize,
        extend: usize,
    },
}

/// What a verb answered, in up to four numbers.
pub(crate) type Answer = [u64; 4];

/// A verb and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) verb: Verb,
    pub(crate) answer: Answer,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} -> {:?}", self.verb, self.answer)
    }
}

/// The calls of one step.
#[derive(Debug, Default)]
pub(crate) struct Tape {
    pub(crate) calls: Vec<Call>,
}

impl Tape {
    pub(crate) fn note(&mut self, verb: Verb, answer: Answer) {
        self.calls.push(Call { verb, answer });
    }
}
