//! The alignment protocol: how per-rank numbers become agreed ones, at the same step on every rank.
//!
//! ```text
//! post  --> Board --> VoteMachine::fill --> MIN over ranks --> VoteMachine::complete --> Reduced
//!             ^                                                                            |
//!             |                                                    Leader::stamp (one rank, once a step)
//!             |                                                                            |
//!           apply <-- AppliedFrame <-- Leader::apply / Follower::check <------------- Frame (bytes)
//! ```
//!
//! Three threads of a driver meet here, and no machine in here knows of them. I/O threads post to the [`Board`]; the vote
//! thread owns a [`VoteMachine`]; the scheduler owns a [`Leader`] or a [`Follower`]. The board is all that they share.
//!
//! These machines speak of ordinals, FIFOs and numbers. What an operation is, they do not know. Each takes time and messages
//! as arguments and gives values back; nothing in here waits. Files, each importing only from those before it:
//!
//! 1. `error`, `layout`: refusals, and what each word of a vector means
//!    and `divergence_mode`, what a difference of digests does
//! 2. `window`, `digests`, `ballot`, `watermarks`: which ordinals a vector speaks of; a rank's own digests, ballots and FIFOs
//! 3. `reduced`, `completed`, `trailing`, `board`, `vote`: from posts to a reduced vector; and what goes down with the votes, since a
//!    single MIN cannot align it
//! 4. `top_tier`, `frame`, `applied`, `run_ahead`, `leader`, `follower`: from a reduced vector to Agreed values
//! 5. `timers`, `start`, `wait`: what else reads an agreed clock, what must be equal at start, and how long a wait may last
//! 6. `batch`: what a scheduler has made of equal trees, compared before the forward pass

mod applied;
mod ballot;
mod batch;
mod board;
mod completed;
mod digests;
mod divergence_mode;
mod error;
mod follower;
pub(crate) mod frame;
mod layout;
mod leader;
mod reduced;
mod run_ahead;
mod start;
mod timers;
mod top_tier;
mod trailing;
mod vote;
mod wait;
mod watermarks;
mod window;

pub use applied::{AppliedControl, AppliedFrame, AppliedSlot, AppliedVote, Told};
pub use batch::{
    BATCH_HEADER_BYTES, BATCH_REQUEST_BYTES, BATCH_REQUESTS_MAX, BatchDifference, BatchError, BatchHeader, BatchRequest,
};
pub use board::{Board, Posted};
pub use digests::{DigestRing, StepDigest, blame};
pub use divergence_mode::DivergenceMode;
pub use error::{Divergence, FrameError, ProtocolError};
pub use follower::Follower;
pub use frame::{Control, FRAME_CONTROLS_MAX, FRAME_HEADER_BYTES, Frame, Member, Mode};
pub use layout::{
    BALLOT_HEADER_WORDS, FIFOS, NO_STAKE, SLOT_WORDS, SlotField, UNKNOWN, WINDOW_MAX, ballot_words, words,
};
pub use leader::Leader;
pub use reduced::{Reduced, reduce_min};
pub use run_ahead::{Backpressure, RunAhead};
pub use start::{Agreement, Difference, Disagreement, START_BYTES, START_SETTINGS_MAX, StartRecord, agree};
pub use timers::{Backoff, Breaker, BreakerRule, BreakerState, Deadline, Retry, prefetch_patience_ms};
pub use top_tier::TopTier;
pub(crate) use trailing::{Found, found as found_end};
pub use vote::{Pace, Pacing, VoteMachine};
pub use wait::{Patience, Stall, Stalled, Wait, Waiting};
pub use window::Window;
