//! Mistakes that are planted in the core on purpose, to see them caught. Without the feature `planted-defects` there are none.

#[cfg(feature = "planted-defects")]
mod planted {
    use isoradix_core::defects::Defect;
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
            let by_all = [Defect::AbortFreesUnderCopy, Defect::ShortGrantKeepsCapacity, Defect::CopyGivenUpUnderLock];
            by_all.contains(&self.defect) || self.rank == rank
        }

        pub(crate) fn plant(self, rank: usize, core: &mut Rank) {
            if self.is_made_by(rank) {
                core.plant(self.defect);
            }
        }

        /// The wall clocks of two ranks are never quite alike.
        pub(crate) fn tell_time(self, rank: usize, now_us: u64, core: &mut Rank) {
            if self.is_made_by(rank) {
                core.set_wall_clock(u64::MAX / 2 - now_us);
            }
        }

        pub(crate) fn copy_ended(self, rank: usize, operation: Ordinal, core: &mut Rank) {
            if self.is_made_by(rank) {
                core.copy_ended_here(operation);
            }
        }

        /// Whether a rank's vote thread returns before it fills, when its rank has nothing to say.
        pub(crate) fn skips_vote(self, rank: usize, idle: bool) -> bool {
            self.defect == Defect::EarlyReturnBeforeVote && self.rank == rank && idle
        }

        pub(crate) fn arguments(self) -> String {
            format!(" --defect {} --defect-rank {}", self.defect.as_str(), self.rank)
        }
    }
}

#[cfg(not(feature = "planted-defects"))]
mod planted {
    use isoradix_core::{Ordinal, Rank};

    /// There is none without the feature `planted-defects`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum PlantedDefect {}

    impl PlantedDefect {
        pub(crate) fn plant(self, _: usize, _: &mut Rank) {
            match self {}
        }

        pub(crate) fn tell_time(self, _: usize, _: u64, _: &mut Rank) {
            match self {}
        }

        pub(crate) fn copy_ended(self, _: usize, _: Ordinal, _: &mut Rank) {
            match self {}
        }

        pub(crate) fn skips_vote(self, _: usize, _: bool) -> bool {
            match self {}
        }

        pub(crate) fn arguments(self) -> String {
            match self {}
        }
    }
}

pub use planted::PlantedDefect;
