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
    // Of a rank that is alone in its domain: where there are others, all vote equally often.
    ("VoteMachine::has_news", "vote-count"),
    // Decisions about requests: what a rank reports, when it votes, and the leader's clock, vote and aborts.
    ("DecisionQueue::report", "readiness"),
    ("DecisionQueue::fill", "verdict-vote"),
    ("DecisionQueue::complete", "verdict-vote"),
    ("DecisionQueue::rule", "readiness-timeout"),
    // Trailing state: what storage has beside keys and values.
    ("Rank::found_presence", "trailing-end"),
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

/// By these nothing per-rank enters, and why. `Type::*` are all functions of a type that has no door.
pub(crate) const LOGICAL: &[(&str, &str)] = &[
    // Frames, and what is made of them: every number in one is agreed once it is applied.
    ("AppliedVote::*", "reads an applied frame"),
    ("Frame::*", "reads what the leader stamped"),
    ("Follower::*", "applies frames, and compares them with what this rank voted"),
    ("Leader::new", "its place in the domain"),
    ("Leader::apply", "applies the frame just stamped"),
    ("Rank::leader", "its place in the domain"),
    ("Rank::follower", "its place in the domain"),
    ("Rank::of_the_past", "its place in the domain; it applies the frames of a journal"),
    ("Rank::follow", "applies a frame"),
    ("Rank::with_mode", "configuration, equal on all ranks"),
    ("DivergenceMode::*", "a table"),
    ("Rank::close_step", "issues what the step wished for; free slots are counted logically"),
    ("Rank::begin_loads", "issues what the step wished for"),
    ("Rank::take_effects", "gives what is to be carried out"),
    ("Rank::cache_mut", "the verbs: their arguments come from the request stream"),
    // Operations move by agreed numbers alone.
    ("OperationTable::*", "issues logically, moves by Agreed values"),
    ("Operation::*", "looks"),
    ("State::*", "a table"),
    ("transition", "a table"),
    ("Pools::*", "a table"),
    // Decisions about requests, but for what a rank has seen and the leader rules.
    ("DecisionQueue::new", "configuration, equal on all ranks"),
    ("DecisionQueue::ask", "in logical order; room is that of the last applied ruling"),
    ("DecisionQueue::retract", "in logical order"),
    ("DecisionQueue::forget", "in logical order"),
    ("DecisionQueue::apply", "applies a ruling"),
    ("DecisionQueue::is_open", "looks"),
    ("Ruling::*", "what the leader has ruled, as bytes"),
    // Chunks: from numbers that a frame has brought.
    ("ChunkModel::*", "coefficients of a frame, bit by bit"),
    ("ChunkRule::*", "configuration, and a logical history"),
    // The board's other side: what the scheduler issued and applied.
    ("Board::new", "its place in the domain"),
    ("Board::issue", "ordinals in logical order"),
    ("Board::enqueue", "queues in logical order"),
    ("Board::terminal", "by an applied frame"),
    ("Board::finish_step", "by an applied frame"),
    // The host pool's logical side.
    ("Ledger::*", "looks at what was asked and agreed"),
    ("HostPool::without_memory", "Agreed capacity"),
    ("HostPool::ask", "logical need"),
    ("HostPool::commit", "Agreed grant"),
    ("HostPool::pages", "gives page numbers, which go into effects alone"),
    ("HostPool::settle", "Agreed"),
    ("HostPool::drain", "by an applied frame"),
    ("HostPool::drain_rest", "Agreed"),
    ("HostPool::finished", "by an applied frame"),
    ("HostPool::abort", "by an applied frame"),
    ("HostPool::release", "pages that logical code gives up"),
    ("HostPool::lower", "Agreed"),
    ("HostPool::raise", "Agreed"),
    ("TopTier::*", "a table"),
    // Timers on the framed clock.
    ("Deadline::*", "Agreed clock"),
    ("Retry::*", "Agreed clock and outcomes"),
    ("Breaker::*", "Agreed clock and outcomes"),
    ("prefetch_patience_ms", "configuration and logical sizes"),
    // Comparisons between ranks: they find a divergence, and decide nothing.
    ("BatchRequest::*", "evidence"),
    ("BatchHeader::*", "evidence"),
    ("DigestRing::*", "evidence"),
    ("blame", "evidence"),
    // Sizes, and MIN itself.
    ("VoteMachine::new", "configuration"),
    (
        "VoteMachine::with_mode",
        "configuration, equal on all ranks: it decides nothing, but whether a difference ends the rank",
    ),
    ("RunAhead::new", "topology"),
    ("Patience::*", "configuration"),
    ("Window::*", "configuration, and a base out of frames"),
    ("ballot_words", "configuration"),
    ("reduce_min", "MIN"),
    ("StartRecord::from_bytes", "what another rank brings to the agreement"),
    ("agree", "the agreement"),
];

/// What a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Door,
    Logical,
}

/// How a function is classified, if it is.
pub(crate) fn class(name: &str) -> Option<Class> {
    let of = name.split_once("::").map(|(of, _)| of);
    let is_logical = |(listed, _): &(&str, &str)| *listed == name || of.is_some() && listed.strip_suffix("::*") == of;
    let is_door = DOORS.iter().any(|(door, _)| *door == name);
    if is_door { Some(Class::Door) } else { LOGICAL.iter().any(is_logical).then_some(Class::Logical) }
}
