//! Defects that can be planted on purpose, for a simulator to show that it catches them.
//!
//! Each is a mistake that deployed caches have made. Without the feature `planted-defects` nothing asks for one, and the
//! branches below are compiled away.

/// A mistake to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Defect {
    /// Room in the window opens with the vote that this rank completes, not with the frame that all ranks apply.
    WindowSlidesByVote,
    /// An abort gives pages back at once, though a copy may be on them.
    AbortFreesUnderCopy,
    /// A short grant never lowers the pool's capacity.
    ShortGrantKeepsCapacity,
    /// A follower applies its own newest vote in place of the frame's.
    FollowerReadsOwnVote,
    /// A vote thread returns early where its own rank has nothing to say. Made by the driver.
    EarlyReturnBeforeVote,
    /// Leaves on host of one step are told apart by the address of their pages.
    TieByAddress,
    /// Leaves on host are ranked by this rank's wall clock.
    WallClockOrder,
    /// A flush resets the counters that are voted.
    CounterResetByFlush,
    /// A lock is given back when this rank's own copy has ended.
    UnlockedByCompletion,
    /// A host copy is given up though something reads it, or is to hang below it.
    CopyGivenUpUnderLock,
    /// There is no room for an operation while this rank's own queue of copies is long.
    OwnQueueLength,
    /// A search for trailing state settles at the smallest of the ranks' deepest ends.
    SmallestOfDeepestEnds,
    /// A reservation that comes short on this rank evicts.
    EvictionInReserve,
    /// What was agreed to have arrived is dropped, as this rank's own copy is still under way.
    SecondPoll,
    /// A request's end is taken as soon as it reaches this rank, before the step that it belongs to. Made by the driver.
    UnsynchronisedAbort,
    /// The deadline of a prefetch is held against this rank's own clock.
    TimeoutJudgedLocally,
    /// A step's backups join those of the next step while this rank's backup queue is busy.
    MergedAtLocalBoundary,
    /// A copy that failed is acknowledged neither as ended nor as finished. Made by the driver.
    SkippedAckOnError,
    /// The k-th votes of a frame are taken for this rank's k-th open operation, whatever operation they are about.
    CountWithoutIdentity,
    /// Words are chained into the digest as they lie in this rank's memory, which is big-endian.
    HostOrderDigest,
    /// Of a prefetch as many host pages are kept as this rank's own storage has something for.
    OwnHitLength,
    /// What this rank's storage did not have once is not asked for again.
    LocalExistenceCache,
    /// A scheduler waits for the end of a copy that will never report one. Made by the driver.
    UnboundedWait,
    /// Tiers are left as they are while this rank's own copies are under way, whatever the frame says.
    TiersKeptWhileCopying,
    /// The breaker hears of what fails here at once, and not of what all ranks know to have failed.
    LocalBreaker,
    /// What storage failed is tried again only where it failed.
    RetryJudgedLocally,
    /// Storage counts as attached as soon as this rank is asked to open it.
    AttachWithoutPrepare,
    /// A node is stored though storage lacks what is above it.
    StoredWithoutParent,
    /// After the agreed verdict about a request, this rank looks again at what it knows of it, and acts on that.
    PollAfterVerdict,
    /// The patience for a request is held against this rank's own clock.
    VerdictTimedOutLocally,
    /// Chunks are computed from the coefficients that this rank has fitted itself. Made by the driver.
    OwnCoefficients,
}

impl Defect {
    /// All of them.
    pub const ALL: [Self; 31] = [
        Self::WindowSlidesByVote,
        Self::AbortFreesUnderCopy,
        Self::ShortGrantKeepsCapacity,
        Self::FollowerReadsOwnVote,
        Self::EarlyReturnBeforeVote,
        Self::TieByAddress,
        Self::WallClockOrder,
        Self::CounterResetByFlush,
        Self::UnlockedByCompletion,
        Self::CopyGivenUpUnderLock,
        Self::OwnQueueLength,
        Self::SmallestOfDeepestEnds,
        Self::EvictionInReserve,
        Self::SecondPoll,
        Self::UnsynchronisedAbort,
        Self::TimeoutJudgedLocally,
        Self::MergedAtLocalBoundary,
        Self::SkippedAckOnError,
        Self::CountWithoutIdentity,
        Self::HostOrderDigest,
        Self::OwnHitLength,
        Self::LocalExistenceCache,
        Self::UnboundedWait,
        Self::TiersKeptWhileCopying,
        Self::LocalBreaker,
        Self::RetryJudgedLocally,
        Self::AttachWithoutPrepare,
        Self::StoredWithoutParent,
        Self::PollAfterVerdict,
        Self::VerdictTimedOutLocally,
        Self::OwnCoefficients,
    ];

    /// Its name in lower case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WindowSlidesByVote => "window-slides-by-vote",
            Self::AbortFreesUnderCopy => "abort-frees-under-copy",
            Self::ShortGrantKeepsCapacity => "short-grant-keeps-capacity",
            Self::FollowerReadsOwnVote => "follower-reads-own-vote",
            Self::EarlyReturnBeforeVote => "early-return-before-vote",
            Self::TieByAddress => "tie-by-address",
            Self::WallClockOrder => "wall-clock-order",
            Self::CounterResetByFlush => "counter-reset-by-flush",
            Self::UnlockedByCompletion => "unlocked-by-completion",
            Self::CopyGivenUpUnderLock => "copy-given-up-under-lock",
            Self::OwnQueueLength => "own-queue-length",
            Self::SmallestOfDeepestEnds => "smallest-of-deepest-ends",
            Self::EvictionInReserve => "eviction-in-reserve",
            Self::SecondPoll => "second-poll",
            Self::UnsynchronisedAbort => "unsynchronised-abort",
            Self::TimeoutJudgedLocally => "timeout-judged-locally",
            Self::MergedAtLocalBoundary => "merged-at-local-boundary",
            Self::SkippedAckOnError => "skipped-ack-on-error",
            Self::CountWithoutIdentity => "count-without-identity",
            Self::HostOrderDigest => "host-order-digest",
            Self::OwnHitLength => "own-hit-length",
            Self::LocalExistenceCache => "local-existence-cache",
            Self::UnboundedWait => "unbounded-wait",
            Self::TiersKeptWhileCopying => "tiers-kept-while-copying",
            Self::LocalBreaker => "local-breaker",
            Self::RetryJudgedLocally => "retry-judged-locally",
            Self::AttachWithoutPrepare => "attach-without-prepare",
            Self::StoredWithoutParent => "stored-without-parent",
            Self::PollAfterVerdict => "poll-after-verdict",
            Self::VerdictTimedOutLocally => "verdict-timed-out-locally",
            Self::OwnCoefficients => "own-coefficients",
        }
    }
}

/// Which mistake is made, and what only that mistake reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub(crate) struct Planted {
    #[cfg(feature = "planted-defects")]
    pub(crate) defect: Option<Defect>,
    /// The cache was flushed since the last step was closed.
    #[cfg(feature = "planted-defects")]
    pub(crate) flushed: bool,
    /// This rank's wall clock.
    #[cfg(feature = "planted-defects")]
    pub(crate) wall_clock: u64,
}

impl Planted {
    /// Whether that mistake is to be made.
    #[cfg(feature = "planted-defects")]
    pub(crate) fn is(self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    /// None is.
    #[cfg(not(feature = "planted-defects"))]
    #[expect(clippy::unused_self, reason = "with the feature it is read")]
    #[inline]
    pub(crate) const fn is(self, _: Defect) -> bool {
        false
    }
}
