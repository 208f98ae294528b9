//! Mistakes that are planted in the core on purpose, to see them caught. Without the feature `planted-defects` there are none.

#[cfg(feature = "planted-defects")]
mod planted {
    use isoradix_core::decisions::DecisionQueue;
    use isoradix_core::defects::Defect;
    use isoradix_core::protocol::Board;
    use isoradix_core::{Ordinal, Rank};

    /// A mistake, and the rank that makes it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct PlantedDefect {
        /// The mistake.
        pub defect: Defect,
        /// Who makes it, where it is not made by all.
        pub rank: usize,
    }

    impl PlantedDefect {
        /// What all ranks do alike parts none of them: these mistakes are made by all.
        fn is_made_by(self, rank: usize) -> bool {
            let by_all = [
                Defect::AbortFreesUnderCopy,
                Defect::ShortGrantKeepsCapacity,
                Defect::CopyGivenUpUnderLock,
                Defect::StoredWithoutParent,
            ];
            by_all.contains(&self.defect) || self.rank == rank
        }

        pub(crate) fn plant(self, rank: usize, core: &mut Rank, board: &mut Board) {
            if self.is_made_by(rank) {
                core.plant(self.defect);
                board.plant(self.defect);
            }
        }

        pub(crate) fn plant_queue(self, rank: usize, queue: &mut DecisionQueue) {
            if self.is_made_by(rank) {
                queue.plant(self.defect);
            }
        }

        /// The wall clocks of two ranks are never quite alike, and their monotonic clocks not at all.
        pub(crate) fn tell_time(self, rank: usize, now_us: u64, own_ms: u64, core: &mut Rank) {
            if self.is_made_by(rank) {
                core.set_clocks(u64::MAX / 2 - now_us, own_ms);
            }
        }

        pub(crate) fn copy_ended(self, rank: usize, operation: Ordinal, core: &mut Rank) {
            if self.is_made_by(rank) {
                core.copy_ended_here(operation);
            }
        }

        pub(crate) fn storage_failed(self, rank: usize, operation: Ordinal, core: &mut Rank) {
            if self.is_made_by(rank) {
                core.failed_here(operation);
            }
        }

        /// Whether a rank's vote thread returns before it fills, when its rank has nothing to say.
        pub(crate) fn skips_vote(self, rank: usize, idle: bool) -> bool {
            self.defect == Defect::EarlyReturnBeforeVote && self.rank == rank && idle
        }

        /// Whether a rank ends requests as soon as it hears of it.
        pub(crate) fn takes_aborts_early(self, rank: usize) -> bool {
            self.defect == Defect::UnsynchronisedAbort && self.rank == rank
        }

        /// Whether a rank says nothing of a copy that failed.
        pub(crate) fn skips_ack(self, rank: usize) -> bool {
            self.defect == Defect::SkippedAckOnError && self.rank == rank
        }

        /// Whether a rank's scheduler waits for copies that do not end well.
        pub(crate) fn waits_forever(self, rank: usize) -> bool {
            self.defect == Defect::UnboundedWait && self.rank == rank
        }

        /// Whether a rank computes chunks from what it has fitted itself.
        pub(crate) fn keeps_own_coefficients(self, rank: usize) -> bool {
            self.defect == Defect::OwnCoefficients && self.rank == rank
        }

        pub(crate) fn arguments(self) -> String {
            format!(" --defect {} --defect-rank {}", self.defect.as_str(), self.rank)
        }
    }
}

#[cfg(not(feature = "planted-defects"))]
mod planted {
    use isoradix_core::protocol::Board;
    use isoradix_core::{Ordinal, Rank};

    /// There is none without the feature `planted-defects`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum PlantedDefect {}

    impl PlantedDefect {
        pub(crate) fn plant(self, _: usize, _: &mut Rank, _: &mut Board) {
            match self {}
        }

        pub(crate) fn tell_time(self, _: usize, _: u64, _: u64, _: &mut Rank) {
            match self {}
        }

        pub(crate) fn copy_ended(self, _: usize, _: Ordinal, _: &mut Rank) {
            match self {}
        }

        pub(crate) fn storage_failed(self, _: usize, _: Ordinal, _: &mut Rank) {
            match self {}
        }

        pub(crate) fn skips_vote(self, _: usize, _: bool) -> bool {
            match self {}
        }

        pub(crate) fn takes_aborts_early(self, _: usize) -> bool {
            match self {}
        }

        pub(crate) fn skips_ack(self, _: usize) -> bool {
            match self {}
        }

        pub(crate) fn waits_forever(self, _: usize) -> bool {
            match self {}
        }

        pub(crate) fn keeps_own_coefficients(self, _: usize) -> bool {
            match self {}
        }

        pub(crate) fn arguments(self) -> String {
            match self {}
        }
    }
}

pub use planted::PlantedDefect;
