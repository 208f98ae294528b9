//! The plane of a group that votes.

use isoradix_core::protocol::reduce_min;
use std::rc::Rc;

/// The group's plane: it reduces the k-th ballots of all ranks to the k-th vector.
#[derive(Debug)]
pub(crate) struct Plane {
    ranks: usize,
    /// Votes that were reduced.
    votes: u64,
    filled: usize,
    vector: Vec<i64>,
}

impl Plane {
    pub(crate) fn new(ranks: usize) -> Self {
        Self { ranks, votes: 0, filled: 0, vector: Vec::new() }
    }

    pub(crate) fn votes(&self) -> u64 {
        self.votes
    }

    /// Whether some ranks have filled and others have not.
    pub(crate) fn is_open(&self) -> bool {
        self.filled > 0
    }

    /// Takes a rank's ballot; gives the vector once all are there.
    pub(crate) fn fill(&mut self, ballot: &[i64]) -> Option<Rc<[i64]>> {
        if self.filled == 0 {
            self.vector.clear();
            self.vector.extend_from_slice(ballot);
        } else {
            reduce_min(&mut self.vector, ballot);
        }
        self.filled += 1;
        if self.filled < self.ranks {
            return None;
        }
        (self.filled, self.votes) = (0, self.votes + 1);
        Some(self.vector.as_slice().into())
    }
}
