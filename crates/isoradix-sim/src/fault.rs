//! What goes wrong in a run, as data: so that it can be listed, and left out piece by piece.

use crate::queue::Micros;
use crate::rng::Rng;
use crate::topology::Topology;
use std::fmt;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum FaultKind {
    /// Frames to the rank take `size` microseconds longer.
    SlowMessages = 0,
    /// The forward passes of the rank's stage take `size` times as long.
    SkewedStage,
    /// The rank's idle loop turns once in `size` microseconds.
    OddIdleLoop,
    /// The rank's copies take `size` times as long.
    SlowCopies,
    /// Of a thousand backups, prefetches and stores of the rank, `size` fail.
    FailingCopies,
    /// A cancelled copy of the rank leaves its pages only `size` microseconds later, and goes on copying until then.
    LateDrains,
    /// The rank has lost `size` of a thousand host pages, as far as they are free.
    ShortPool,
    /// The rank has lost every free host page.
    LostMemory,
    /// In `size` of a thousand steps the leader gives up a request or an operation, whatever state it is in.
    Aborts,
    /// The rank's next copy of kind number `size` does not move until the fault is over.
    HungOperation,
    /// The rank, a follower, applies no frame; the leader runs ahead up to its bound.
    StalledFollower,
    /// Of a thousand pages that the rank puts into storage, `size` are lost without a word.
    StorageDiffers,
    /// Of a thousand queries of the rank, `size` fail.
    StorageErrors,
    /// The rank says that it pauses, and does.
    PausedRank,
    /// The rank fills its ballots `size` microseconds late.
    SlowVotes,
    /// Messages to the rank take up to `size` microseconds longer, on each link by itself: they overtake those of other links.
    JitteryLinks,
    /// Frames to the rank arrive in `size` pieces.
    PartialMessages,
    /// The rank's clock runs at `size` thousandths of its rate.
    SkewedClock,
    /// Requests that are open for longer than `size` milliseconds by the leader's clock are given up.
    RequestTimeouts,
    /// In `size` of a thousand steps the leader sends the request that joined the batch last back to the queue.
    Retractions,
    /// The rank's storage takes `size` times as long, to answer and to move pages.
    SlowStorage,
    /// The rank's storage loses `size` of a thousand pages at once, without a word.
    StorageLoses,
    /// Of a thousand pages that the rank's storage has, `size` cannot be read.
    UnreadablePages,
    /// The rank's storage finds `size` thousandths of what it has.
    ShortHits,
    /// In `size` of a thousand steps the leader switches tiers off or on; when the fault is over, all of them on.
    SwitchedTiers,
    /// The rank's storage says nothing until the fault is over.
    HungStorage,
    /// Of a thousand times that the rank is to open its storage, it cannot `size` times.
    UnopenedStorage,
    /// In `size` of a thousand steps the leader attaches storage, or detaches it.
    Attachments,
    /// Whoever held `size` of a thousand pages of the store, of all ranks, is dead: they are known and cannot be read, and are
    /// forgotten when the fault is over.
    OwnerDies,
    /// The store of all ranks is down: it answers nothing and takes nothing, and comes back empty.
    StoreRestarts,
    /// The rank's scheduler thread dies; its vote thread lives.
    SchedulerDies,
    /// The rank dies.
    RankDies,
    /// The leader sends the stop frame in the middle of everything.
    EarlyStop,
    /// The rank's caller hands over requests in another order than they arrived in: it must be found out.
    LyingCaller,
    /// Of a thousand load-backs of the rank, `size` fail: fatal to the server, so asked for only.
    FailingLoads,
    /// The rank hears `size` microseconds late that data has come.
    LateReports,
    /// Of a thousand requests, the data of `size` does not come to the rank.
    FailingTransfers,
    /// The rank says nothing of requests that are asked about meanwhile.
    SilentRank,
    /// The last bits of the coefficient that the rank has fitted are others, by `size`.
    NudgedFit,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 39] = [
        Self::SlowMessages,
        Self::SkewedStage,
        Self::OddIdleLoop,
        Self::SlowCopies,
        Self::FailingCopies,
        Self::LateDrains,
        Self::ShortPool,
        Self::LostMemory,
        Self::Aborts,
        Self::HungOperation,
        Self::StalledFollower,
        Self::StorageDiffers,
        Self::StorageErrors,
        Self::PausedRank,
        Self::SlowVotes,
        Self::JitteryLinks,
        Self::PartialMessages,
        Self::SkewedClock,
        Self::RequestTimeouts,
        Self::Retractions,
        Self::SlowStorage,
        Self::StorageLoses,
        Self::UnreadablePages,
        Self::ShortHits,
        Self::SwitchedTiers,
        Self::HungStorage,
        Self::UnopenedStorage,
        Self::Attachments,
        Self::OwnerDies,
        Self::StoreRestarts,
        Self::SchedulerDies,
        Self::RankDies,
        Self::EarlyStop,
        Self::LyingCaller,
        Self::FailingLoads,
        Self::LateReports,
        Self::FailingTransfers,
        Self::SilentRank,
        Self::NudgedFit,
    ];

    /// The kinds that runs with caches know, from the first on.
    pub(crate) const OF_CACHES: usize = Self::LateReports as usize;

    /// The kinds that meet decisions; a run goes on after each.
    pub(crate) const OF_DECISIONS: [Self; 16] = [
        Self::LateReports,
        Self::FailingTransfers,
        Self::SilentRank,
        Self::NudgedFit,
        Self::SlowMessages,
        Self::JitteryLinks,
        Self::SkewedStage,
        Self::OddIdleLoop,
        Self::SlowVotes,
        Self::SkewedClock,
        Self::StalledFollower,
        Self::PausedRank,
        Self::Aborts,
        Self::RequestTimeouts,
        Self::Retractions,
        Self::PartialMessages,
    ];

    /// The kinds after which a run with caches goes on.
    #[must_use]
    pub fn passing() -> &'static [Self] {
        &Self::ALL[..Self::SchedulerDies as usize]
    }

    /// Whether it is over at some time, and the run goes on.
    pub(crate) fn is_temporary(self) -> bool {
        !matches!(self, Self::SchedulerDies | Self::RankDies | Self::EarlyStop | Self::LyingCaller)
    }

    /// The kind's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SlowMessages => "slow_messages",
            Self::SkewedStage => "skewed_stage",
            Self::OddIdleLoop => "odd_idle_loop",
            Self::SlowCopies => "slow_copies",
            Self::FailingCopies => "failing_copies",
            Self::LateDrains => "late_drains",
            Self::ShortPool => "short_pool",
            Self::LostMemory => "lost_memory",
            Self::Aborts => "aborts",
            Self::HungOperation => "hung_operation",
            Self::StalledFollower => "stalled_follower",
            Self::StorageDiffers => "storage_differs",
            Self::StorageErrors => "storage_errors",
            Self::PausedRank => "paused_rank",
            Self::SlowVotes => "slow_votes",
            Self::JitteryLinks => "jittery_links",
            Self::PartialMessages => "partial_messages",
            Self::SkewedClock => "skewed_clock",
            Self::RequestTimeouts => "request_timeouts",
            Self::Retractions => "retractions",
            Self::SlowStorage => "slow_storage",
            Self::StorageLoses => "storage_loses",
            Self::UnreadablePages => "unreadable_pages",
            Self::ShortHits => "short_hits",
            Self::SwitchedTiers => "switched_tiers",
            Self::HungStorage => "hung_storage",
            Self::UnopenedStorage => "unopened_storage",
            Self::Attachments => "attachments",
            Self::OwnerDies => "owner_dies",
            Self::StoreRestarts => "store_restarts",
            Self::SchedulerDies => "scheduler_dies",
            Self::RankDies => "rank_dies",
            Self::EarlyStop => "early_stop",
            Self::LyingCaller => "lying_caller",
            Self::FailingLoads => "failing_loads",
            Self::LateReports => "late_reports",
            Self::FailingTransfers => "failing_transfers",
            Self::SilentRank => "silent_rank",
            Self::NudgedFit => "nudged_fit",
        }
    }

    /// From what range its size is drawn.
    fn sizes(self) -> (u64, u64) {
        match self {
            Self::SlowMessages => (2_000, 60_000),
            Self::SkewedStage => (2, 8),
            Self::OddIdleLoop => (20, 20_000),
            Self::SlowCopies => (3, 40),
            Self::FailingCopies | Self::StorageErrors | Self::UnopenedStorage => (200, 1000),
            Self::LateDrains => (5_000, 200_000),
            Self::ShortPool => (200, 900),
            Self::Aborts => (100, 600),
            Self::StorageDiffers | Self::OwnerDies => (100, 800),
            Self::SlowVotes => (5_000, 80_000),
            Self::JitteryLinks => (5_000, 40_000),
            Self::PartialMessages => (2, 6),
            Self::SkewedClock => (500, 1_600),
            Self::RequestTimeouts => (30, 400),
            Self::Retractions | Self::SwitchedTiers | Self::Attachments => (50, 400),
            Self::SlowStorage => (3, 30),
            Self::StorageLoses | Self::UnreadablePages => (50, 600),
            Self::ShortHits => (0, 900),
            Self::FailingLoads => (300, 1000),
            Self::HungOperation => (0, 3),
            Self::LateReports => (10_000, 600_000),
            Self::FailingTransfers => (50, 800),
            Self::NudgedFit => (1, 1),
            Self::LostMemory
            | Self::SilentRank
            | Self::HungStorage
            | Self::StoreRestarts
            | Self::StalledFollower
            | Self::PausedRank
            | Self::SchedulerDies
            | Self::RankDies
            | Self::EarlyStop
            | Self::LyingCaller => (0, 0),
        }
    }
}

/// One fault: it begins when the leader enters a step and lasts so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// Where.
    pub rank: usize,
    /// The leader's step at which it begins.
    pub at_step: u64,
    /// How long it lasts, in virtual microseconds.
    pub micros: Micros,
    /// How bad it is; see [`FaultKind`].
    pub size: u64,
}

impl Fault {
    /// A caller that lies from a step on.
    pub(crate) fn lie(rank: usize, at_step: u64) -> Self {
        Self { kind: FaultKind::LyingCaller, rank, at_step, micros: 0, size: 0 }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, rank, at_step, micros, size } = self;
        write!(f, "{} on rank {rank} from step {at_step} for {} ms, size {size}", kind.as_str(), micros / 1000)
    }
}

/// Of a thousand runs, how many end in a crash, an early stop or a lie.
const ENDINGS_PERMILLE: u64 = 100;

/// The plan of a seed: so many kinds, each once or a few times; and in some runs a bad end.
pub(crate) fn plan(rng: &mut Rng, topology: Topology, steps: u64, kinds: usize, fatal: bool) -> Vec<Fault> {
    let mut faults = passing(rng, FaultKind::passing(), topology, steps, kinds);
    let endings = [FaultKind::SchedulerDies, FaultKind::RankDies, FaultKind::EarlyStop, FaultKind::LyingCaller];
    let ending = *rng.pick(&endings);
    let ends = rng.chance(ENDINGS_PERMILLE);
    let last = draw(rng, ending, topology, (steps / 2, steps), (0, 0));
    faults.extend((ends && !fatal).then_some(last));
    if fatal {
        faults.push(draw(rng, FaultKind::FailingLoads, topology, (0, steps / 2), (500_000, 4_000_000)));
    }
    faults
}

/// So many of these kinds, each once or a few times.
pub(crate) fn passing(rng: &mut Rng, of: &[FaultKind], topology: Topology, steps: u64, kinds: usize) -> Vec<Fault> {
    let mut order = of.to_vec();
    rng.shuffle(&mut order);
    let mut faults = Vec::new();
    for &kind in &order[..kinds.min(order.len())] {
        // While a rank stands still, little happens: what matters is what comes after.
        let (times, longest) = match kind {
            FaultKind::StalledFollower | FaultKind::PausedRank => ((5, 14), 150_000),
            _ => ((1, 4), 800_000),
        };
        for _ in 0..rng.within(times.0, times.1) {
            faults.push(draw(rng, kind, topology, (0, steps * 9 / 10), (20_000, longest)));
        }
    }
    faults
}

fn draw(rng: &mut Rng, kind: FaultKind, topology: Topology, steps: (u64, u64), micros: (Micros, Micros)) -> Fault {
    let (low, high) = kind.sizes();
    let follower = 1 + rng.index(topology.members() - 1);
    let rank = if kind == FaultKind::StalledFollower { follower } else { rng.index(topology.members()) };
    let rank = if kind == FaultKind::EarlyStop { 0 } else { rank };
    Fault {
        kind,
        rank,
        at_step: rng.within(steps.0, steps.1),
        micros: rng.within(micros.0, micros.1),
        size: rng.within(low, high),
    }
}
