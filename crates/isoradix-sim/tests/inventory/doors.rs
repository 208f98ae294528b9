//! The doors: every public function of the core by which a per-rank value enters, and the row of the inventory that it is in.

/// A door, and the row.
pub(crate) const DOORS: &[(&str, &str)] = &[
    // What I/O threads post; the ballot is the only reader.
    ("Board::post_hit", "hit-length"),
    ("Board::post_pages", "host-allocation"),
    ("Board::post_progress", "download-progress"),
    ("Board::post_ready", "copy-ended"),
    ("Board::ended", "copy-ended"),
    ("Board::finish", "copy-off-pages"),
    ("Board::abstain", "writer-only"),
    ("Board::abstain_finished", "no-pool"),
    ("Board::post_backable", "backable"),
    ("Board::abstain_backable", "no-pool"),
    ("Board::pause", "pause"),
    // What the scheduler's thread tells its rank.
    ("Rank::found", "hit-length"),
    ("Rank::withdraw", "backable"),
    ("Rank::restore", "backable"),
    // The leader's own clock and vote: what it frames, all apply.
    ("Rank::lead", "leader-clock"),
    ("Leader::stamp", "leader-clock"),
    ("VoteMachine::complete", "vote-moment"),
    ("VoteMachine::fill", "vote-moment"),
    ("VoteMachine::refill", "vote-moment"),
    // Trailing state, round by round.
    ("TrailingVote::ballot", "trailing-end"),
    ("TrailingVote::complete", "trailing-end"),
    ("leading_run", "hit-length"),
    // The physical side of the host pool.
    ("HostPool::new", "host-budget"),
    ("HostPool::reserve", "host-allocation"),
    ("HostPool::reserve_up_to", "host-allocation"),
    ("HostPool::withdraw", "backable"),
    ("HostPool::restore", "backable"),
    // The start.
    ("StartRecord::new", "host-budget"),
    ("StartRecord::without_pool", "no-pool"),
    ("StartRecord::set", "settings"),
    ("capacity_tokens", "host-budget"),
    // What may end a rank, and decides nothing.
    ("Waiting::begin", "wait-length"),
    ("Waiting::look", "wait-length"),
    ("Stall::begin", "wait-length"),
    ("Stall::look", "wait-length"),
    ("RunAhead::delivered", "run-ahead"),
    ("RunAhead::send", "run-ahead"),
    ("Rank::run_ahead", "run-ahead"),
    ("Leader::ahead", "run-ahead"),
];
