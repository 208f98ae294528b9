//! What the leader hands down, once a step.

use super::vote::DecisionVote;

/// The leader's newest vote, clock and aborts, for one step of all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// The step, from 1.
    pub step: u64,
    /// The leader's clock.
    pub now_ms: u64,
    /// The leader's digest before the step.
    pub digest: u64,
    /// What was voted, if there is something newer than in the ruling before.
    pub vote: Option<DecisionVote>,
    /// Requests that are given up.
    pub aborts: Vec<u64>,
}
