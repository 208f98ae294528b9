//! One rank: its scheduler, its clock and what is on its way to it.

use super::desk::Desk;
use super::message::Message;
use super::plan::Plan;
use crate::clock::Clock;
use crate::queue::Micros;
use crate::rng::Rng;
use crate::violation::Wrong;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

/// Messages that a rank may have sent to another one, and that one not entered.
const AHEAD_MAX: u64 = 6;

/// A rank.
pub(super) struct Station {
    pub(super) desk: Desk,
    pub(super) clock: Clock,
    pub(super) mailbox: VecDeque<Rc<Message>>,
    /// When the last message to it arrives.
    pub(super) arrival: Micros,
    pub(super) receivers: Range<usize>,
    /// Messages sent and not entered, by edge.
    pub(super) ahead: Vec<u64>,
    /// It computes a step.
    pub(super) busy: bool,
    pub(super) wakes: bool,
    /// It has entered the last step.
    pub(super) stopped: bool,
    pub(super) step: u64,
    /// Votes that it has completed, by group.
    pub(super) votes: [u64; 2],
}

impl Station {
    pub(super) fn all(plan: &Plan) -> Result<Vec<Self>, Wrong> {
        (0..plan.topology.members()).map(|rank| Self::new(plan, rank)).collect()
    }

    fn new(plan: &Plan, rank: usize) -> Result<Self, Wrong> {
        let receivers = plan.topology.receivers(rank);
        Ok(Self {
            desk: Desk::new(plan, u32::try_from(rank).unwrap_or(u32::MAX))?,
            clock: Clock::new(&mut Rng::new(plan.seed, 20_000 + rank as u64)),
            mailbox: VecDeque::new(),
            arrival: 0,
            ahead: vec![0; receivers.len()],
            receivers,
            busy: false,
            wakes: false,
            stopped: false,
            step: 0,
            votes: [0; 2],
        })
    }

    /// Whether all to whom it sends have room for another message.
    pub(super) fn has_room(&self) -> bool {
        self.ahead.iter().all(|ahead| *ahead < AHEAD_MAX)
    }
}
