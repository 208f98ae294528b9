//! Logical time: the only clock that a decision may read.

/// A moment of logical time. `seq` alone orders two stamps; `step` says in which batch step it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Stamp {
    /// The scheduler's batch step.
    pub step: u64,
    /// Running number of the event, over all steps; never reset.
    pub seq: u64,
}

/// Counts steps, and events inside them. Never reset, not even by a flush.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LogicalClock {
    now: Stamp,
}

impl LogicalClock {
    /// The stamp given out last.
    pub(crate) fn now(&self) -> Stamp {
        self.now
    }

    /// A new stamp, later than all before.
    #[inline]
    pub(crate) fn tick(&mut self) -> Stamp {
        self.now.seq += 1;
        self.now
    }

    /// Enters a later step. The caller checks that it is later.
    pub(crate) fn enter(&mut self, step: u64) {
        debug_assert!(step > self.now.step);
        self.now.step = step;
    }
}
