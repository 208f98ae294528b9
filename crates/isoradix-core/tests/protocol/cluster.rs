//! Four ranks in one process, driven by hand: each call below is one thing that a driver's thread would do.

use isoradix_core::protocol::{
    AppliedFrame, Board, Control, Divergence, Follower, Frame, Leader, Member, Pacing, ProtocolError, Reduced,
    RunAhead, VoteMachine, reduce_min,
};
use isoradix_core::{Ordinal, PerRank};
use std::collections::VecDeque;

pub(crate) const RANKS: usize = 4;
pub(crate) const WINDOW: u32 = 8;
pub(crate) const DEPTH: u32 = 2;
pub(crate) const EPOCH: u64 = 5;
pub(crate) const FIRST_STEP: u64 = 1;

pub(crate) fn k(ordinal: u64) -> Ordinal {
    Ordinal(ordinal)
}

pub(crate) fn member(rank: u32) -> Member {
    Member { domain: 3, epoch: EPOCH, rank }
}

/// What one rank owns: the board, its vote thread's machine, and a stand-in for its decision digest.
pub(crate) struct Rank {
    pub(crate) board: Board,
    pub(crate) votes: VoteMachine,
    pub(crate) digest: u64,
    pub(crate) retired: u64,
}

impl Rank {
    fn new(rank: u32) -> Self {
        let votes = VoteMachine::new(rank, EPOCH, WINDOW, Pacing::default()).unwrap();
        Self { board: Board::new(rank, WINDOW).unwrap(), votes, digest: 0, retired: 0 }
    }

    pub(crate) fn fill(&mut self) -> Result<Vec<i64>, ProtocolError> {
        let mut ballot = vec![0; self.votes.words()];
        self.votes.fill(&mut self.board, &mut ballot).map(|()| ballot)
    }

    pub(crate) fn refill(&mut self) -> Result<Vec<i64>, ProtocolError> {
        let mut ballot = vec![0; self.votes.words()];
        self.votes.refill(&mut self.board, &mut ballot).map(|()| ballot)
    }

    pub(crate) fn complete(&mut self, reduced: &[i64]) -> Result<Reduced, ProtocolError> {
        self.votes.complete(&mut self.board, reduced)
    }

    /// The decisions of a step: here only a digest that depends on the frame.
    fn decide(&mut self, applied: &AppliedFrame) {
        let vote = applied.vote().map_or(0, |vote| vote.ordinal().get() + 1);
        self.digest = self.digest.rotate_left(7) ^ (applied.step() << 16) ^ vote ^ (applied.now_ms().get() << 32);
        self.board.finish_step(applied.step(), self.retired).unwrap();
    }
}

pub(crate) struct Cluster {
    pub(crate) ranks: Vec<Rank>,
    pub(crate) leader: Leader,
    pub(crate) followers: Vec<Follower>,
    /// Frames on their way to each follower, as bytes.
    pub(crate) wires: Vec<VecDeque<Vec<u8>>>,
    pub(crate) newest: Option<Reduced>,
    pub(crate) now_ms: u64,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        let followers = (1..).take(RANKS - 1).map(|rank| Follower::new(member(rank), FIRST_STEP));
        Self {
            ranks: (0..).take(RANKS).map(Rank::new).collect(),
            leader: Leader::new(member(0), FIRST_STEP, RunAhead::new(3, DEPTH)),
            followers: followers.collect(),
            wires: vec![VecDeque::new(); RANKS - 1],
            newest: None,
            now_ms: 1000,
        }
    }

    pub(crate) fn issue(&mut self, ordinal: u64) {
        self.ranks.iter_mut().for_each(|rank| rank.board.issue(k(ordinal)).unwrap());
    }

    /// Operations below `retired` are terminal on all ranks, from the next applied frame on.
    pub(crate) fn retire(&mut self, retired: u64) {
        for rank in &mut self.ranks {
            (rank.retired..retired).for_each(|ordinal| rank.board.terminal(k(ordinal)).unwrap());
            rank.retired = retired;
        }
    }

    /// All ballots, tampered with on their way, reduced to one vector.
    pub(crate) fn reduce(&mut self, tamper: impl FnOnce(&mut [Vec<i64>])) -> Vec<i64> {
        let mut ballots: Vec<Vec<i64>> = self.ranks.iter_mut().map(|rank| rank.fill().unwrap()).collect();
        tamper(&mut ballots);
        let mut reduced = ballots[0].clone();
        ballots[1..].iter().for_each(|ballot| reduce_min(&mut reduced, ballot));
        reduced
    }

    /// What each rank makes of a reduced vector.
    pub(crate) fn complete(&mut self, reduced: &[i64]) -> Vec<Result<Reduced, ProtocolError>> {
        let results: Vec<_> = self.ranks.iter_mut().map(|rank| rank.complete(reduced)).collect();
        if let Ok(newest) = &results[0] {
            self.newest = Some(newest.clone());
        }
        results
    }

    pub(crate) fn vote(&mut self) {
        let reduced = self.reduce(|_| ());
        let results = self.complete(&reduced);
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }

    /// A vote after which all ranks must refuse, each with its own message.
    pub(crate) fn vote_refused(&mut self, tamper: impl FnOnce(&mut [Vec<i64>])) -> Vec<Divergence> {
        let reduced = self.reduce(tamper);
        let refused = self.complete(&reduced).into_iter().map(|result| match result {
            Err(ProtocolError::Divergence(divergence)) => divergence,
            other => panic!("{other:?}"),
        });
        refused.collect()
    }

    pub(crate) fn stamp(&mut self, controls: &[Control]) -> Result<Frame, ProtocolError> {
        self.now_ms += 10;
        let (now, digest) = (PerRank::observe(self.now_ms), self.ranks[0].digest);
        self.leader.stamp(self.newest.as_ref(), now, digest, controls)
    }

    /// The leader's step: stamp, send, apply.
    pub(crate) fn lead(&mut self, controls: &[Control]) -> Result<AppliedFrame, ProtocolError> {
        let frame = self.stamp(controls)?;
        let bytes = frame.to_bytes();
        self.wires.iter_mut().for_each(|wire| wire.push_back(bytes.clone()));
        let applied = self.leader.apply(frame, &mut self.ranks[0].board)?;
        self.ranks[0].decide(&applied);
        Ok(applied)
    }

    /// Checks a frame on a follower that may refuse it.
    pub(crate) fn check(&mut self, rank: usize, frame: Frame) -> Result<AppliedFrame, Divergence> {
        let Rank { board, digest, .. } = &mut self.ranks[rank];
        self.followers[rank - 1].check(frame, *digest, board)
    }

    /// A follower's step, if a frame has arrived.
    pub(crate) fn follow(&mut self, rank: usize) -> Option<AppliedFrame> {
        let bytes = self.wires[rank - 1].pop_front()?;
        let edge = u32::try_from(rank - 1).unwrap();
        self.leader.ahead().delivered(edge, 1).unwrap();
        let frame = Frame::from_bytes(&bytes).unwrap();
        let applied = self.check(rank, frame).unwrap_or_else(|divergence| panic!("{divergence}"));
        self.ranks[rank].decide(&applied);
        Some(applied)
    }

    /// One step of all ranks.
    pub(crate) fn step(&mut self, controls: &[Control]) -> Vec<AppliedFrame> {
        let mut applied = vec![self.lead(controls).unwrap()];
        applied.extend((1..RANKS).map(|rank| self.follow(rank).unwrap()));
        applied
    }
}
