//! How far ahead of its receivers a sender of frames may run.

use super::error::ProtocolError;
use std::fmt;

/// Frames in flight on an edge have reached their bound. A value, not a wait: the driver reaps what was delivered and calls again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backpressure {
    /// The fullest edge.
    pub edge: u32,
    /// Frames in flight on it.
    pub in_flight: u32,
    /// The bound.
    pub limit: u32,
}

impl fmt::Display for Backpressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { edge, in_flight, limit } = self;
        write!(
            f,
            "{in_flight} frames are in flight on edge {edge}, limit {limit}\n\
             hint: reap delivered frames and stamp again; if none is ever delivered, the receiver's scheduler is stuck"
        )
    }
}

/// Frames in flight on each edge from one rank, bounded by the pipeline's depth plus one.
///
/// The leader has one in its [`Leader`](super::Leader); a follower that relays frames down its lane keeps one of its own.
#[derive(Debug, Clone, Hash)]
pub struct RunAhead {
    limit: u32,
    in_flight: Vec<u32>,
}

impl RunAhead {
    /// So many edges, in a pipeline of `depth` stages.
    #[must_use]
    pub fn new(edges: u32, depth: u32) -> Self {
        Self { limit: depth.saturating_add(1), in_flight: vec![0; edges as usize] }
    }

    /// The edge that has no room for one more frame, if there is one.
    #[must_use]
    pub fn pressure(&self) -> Option<Backpressure> {
        let (edge, &in_flight) = (0..).zip(&self.in_flight).find(|(_, in_flight)| **in_flight >= self.limit)?;
        Some(Backpressure { edge, in_flight, limit: self.limit })
    }

    /// One frame leaves on every edge.
    ///
    /// # Errors
    /// If an edge has no room; then none leaves.
    pub fn send(&mut self) -> Result<(), Backpressure> {
        if let Some(pressure) = self.pressure() {
            return Err(pressure);
        }
        self.in_flight.iter_mut().for_each(|in_flight| *in_flight += 1);
        Ok(())
    }

    /// So many frames arrived over an edge: their sends completed.
    ///
    /// # Errors
    /// If there is no such edge, or fewer frames are in flight.
    pub fn delivered(&mut self, edge: u32, frames: u32) -> Result<(), ProtocolError> {
        let edges = self.in_flight.len() as u64;
        let Some(in_flight) = self.in_flight.get_mut(edge as usize) else {
            let hint = "one edge a receiver, counted from 0; a rank without receivers has none";
            let (what, value, max) = ("edge", edge.into(), edges.saturating_sub(1));
            return Err(ProtocolError::OutOfRange { what, value, min: 0, max, hint });
        };
        let hint = "each completed send is reaped once";
        ProtocolError::in_range("delivered frames", frames.into(), 0, (*in_flight).into(), hint)?;
        *in_flight -= frames;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_edge_stops_all() {
        let mut ahead = RunAhead::new(2, 2);
        for _ in 0..3 {
            ahead.send().unwrap();
        }
        ahead.delivered(0, 3).unwrap();
        assert_eq!(ahead.send(), Err(Backpressure { edge: 1, in_flight: 3, limit: 3 }));
        assert!(ahead.delivered(0, 1).is_err(), "none is in flight there: a refused send sends nothing");
        ahead.delivered(1, 1).unwrap();
        assert_eq!(ahead.send(), Ok(()));
    }

    #[test]
    fn a_rank_without_receivers_is_never_held_back() {
        let mut ahead = RunAhead::new(0, 1);
        (0..100).for_each(|_| ahead.send().unwrap());
        assert!(ahead.delivered(0, 0).is_err());
    }
}
