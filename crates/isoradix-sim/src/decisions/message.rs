//! What the leader sends, once a step.

use super::phase::Group;
use crate::violation::{Wrong, ensure};
use isoradix_core::decisions::Ruling;
use std::rc::Rc;

/// A step of all ranks.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) step: u64,
    /// Each group's ruling, as bytes.
    pub(super) rulings: [Rc<[u8]>; 2],
    /// Bits of the coefficients that the leader has fitted, if it has anew.
    pub(super) coefficients: Option<(u64, u64)>,
    /// Requests that have arrived.
    pub(super) arrivals: Vec<u32>,
    /// Requests that are given up, in whatever phase.
    pub(super) aborts: Vec<u32>,
    /// Requests that are sent back to the queue.
    pub(super) retractions: Vec<u32>,
    /// There is no other step.
    pub(super) last: bool,
}

impl Message {
    /// A group's ruling.
    pub(super) fn ruling(&self, group: Group) -> Result<Ruling, Wrong> {
        Ruling::from_bytes(&self.rulings[group as usize]).map_err(|error| Wrong::new("frame", error.to_string()))
    }

    /// No part of a ruling passes for one, where it arrives in so many pieces.
    pub(super) fn in_pieces(&self, pieces: usize) -> Result<(), Wrong> {
        for bytes in &self.rulings {
            for piece in 1..pieces {
                let part = bytes.len() * piece / pieces;
                let whole = Ruling::from_bytes(&bytes[..part]).is_ok();
                ensure(!whole, "frame", || format!("the first {part} of {} bytes pass for a ruling", bytes.len()))?;
            }
        }
        Ok(())
    }
}
