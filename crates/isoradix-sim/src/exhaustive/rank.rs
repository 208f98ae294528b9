//! One rank: the machines as they are, and what a driver holds beside them.

use super::copy::Copy;
use super::message::Vector;
use super::scope::{Defect, Scope};
use isoradix_core::host::{Backing, HostPool};
use isoradix_core::operation::{Kind, OperationTable, Pools};
use isoradix_core::protocol::{
    Board, Follower, Leader, Member, Pacing, Reduced, RunAhead, StartRecord, VoteMachine, agree,
};
use isoradix_core::{Agreed, Ordinal, PerRank};
use std::fmt;
use std::rc::Rc;

/// Tokens of a page.
pub(super) const PAGE: u64 = 16;

const EPOCH: u64 = 1;
const FIRST_STEP: u64 = 1;

/// What does not hold, on which rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) rank: u32,
    pub(super) what: String,
}

/// Delivered pages, which are the tree's: what is left of an operation that ended well.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) operation: Ordinal,
    pub(super) kind: Kind,
    /// This rank's numbers of them.
    pub(super) pages: Vec<u32>,
    /// Operations that read them.
    pub(super) locks: Vec<Ordinal>,
}

/// A rank's side of the frames.
#[derive(Clone)]
pub(super) enum Role {
    /// With the last step that was reaped on each edge.
    Leader(Leader, Vec<u64>),
    Follower(Follower),
}

/// One rank of the world.
#[derive(Clone)]
pub(super) struct Rank {
    pub(super) id: u32,
    pub(super) board: Board,
    pub(super) votes: VoteMachine,
    pub(super) role: Role,
    pub(super) table: OperationTable,
    pub(super) host: HostPool,
    pub(super) device: HostPool,
    pub(super) tree: Vec<Node>,
    /// By ordinal.
    pub(super) copies: Vec<Copy>,
    /// The step whose frame is applied and whose verbs are not done.
    pub(super) open_step: Option<u64>,
    /// The last step whose frame is applied.
    pub(super) step: u64,
    /// Faults that may still happen here.
    pub(super) faults: u32,
    /// Pages that this rank may still lose.
    pub(super) losses: u32,
    /// Pages that this rank has lost.
    pub(super) lost: u32,
    /// Physics has moved since a ballot or a frame last saw it. Never in [`Order::Every`](super::Order::Every).
    pub(super) unseen_work: bool,
    /// A step was closed since a ballot or a frame last saw it.
    pub(super) unseen_close: bool,
    /// A load-back failed after commit: the server ends.
    pub(super) dead: bool,
    /// The vote completed last, and the same for the leader to stamp.
    pub(super) seen: Option<(Reduced, Rc<Vector>)>,
    /// The vote that was framed last, of the frames applied here.
    pub(super) framed: Option<Rc<Vector>>,
    /// This rank's ballots, and what became of them, of votes that no frame applied here has brought.
    pub(super) past: Vec<Rc<Vector>>,
    pub(super) defect: Option<Defect>,
    /// Shows what the next ballot would say.
    pub(super) probe: VoteMachine,
    pub(super) peeked: Rc<[i64]>,
    /// All that the future of this rank depends on, provided that no machine refuses what is as it should be.
    pub(super) fingerprint: u128,
    /// That, and all that a machine may look at in order to refuse.
    pub(super) exact: u128,
}

/// A number as an agreed one. This is a test's way around provenance: one rank alone agrees at start upon whatever it brings.
///
/// It is needed for the pages in an action. The table computed them from an applied frame, so they are agreed, but only the core can
/// say so: `AppliedFrame::decided` is closed to other crates. And for a scope's pages, which are the same on all ranks.
pub(super) fn as_agreed(pages: u32) -> Agreed<u32> {
    agree(&[StartRecord::new(0, 1, PerRank::observe(pages))]).expect("one rank agrees with itself").capacity_pages
}

fn pool(pages: u32, backing: Backing) -> HostPool {
    HostPool::new(PerRank::observe(pages), as_agreed(pages), backing).expect("as many pages as the capacity")
}

pub(super) fn machine(id: u32, window: u32) -> VoteMachine {
    VoteMachine::new(id, EPOCH, window, Pacing::default()).expect("the window is small")
}

impl Rank {
    pub(super) fn new(id: u32, scope: &Scope, defect: Option<Defect>) -> Self {
        let Scope { ranks, window, host_pages, .. } = *scope;
        let member = Member { domain: 0, epoch: EPOCH, rank: id };
        let leader = || Leader::new(member, FIRST_STEP, RunAhead::new(ranks - 1, scope.in_flight - 1));
        let reaped = || vec![FIRST_STEP - 1; ranks as usize - 1];
        let host = pool(host_pages, Backing::Voting);
        let mut board = Board::new(id, window).expect("the window is small");
        board.post_backable(host.backable());
        // The mistaken rank has to get past its table to be seen.
        let wider = u32::from(defect == Some(Defect::WindowSlidesByVote));
        let mut rank = Self {
            id,
            board,
            votes: machine(id, window),
            role: if id == 0 {
                Role::Leader(leader(), reaped())
            } else {
                Role::Follower(Follower::new(member, FIRST_STEP))
            },
            table: OperationTable::new(id, window + wider, Pools::USUAL).expect("the window is small"),
            host,
            device: pool(host_pages, Backing::Fixed),
            tree: Vec::new(),
            copies: Vec::new(),
            open_step: None,
            step: FIRST_STEP - 1,
            faults: 0,
            losses: 0,
            lost: 0,
            unseen_work: false,
            unseen_close: false,
            dead: false,
            seen: None,
            framed: None,
            past: Vec::new(),
            defect,
            probe: machine(id, window),
            peeked: Rc::new([]),
            fingerprint: 0,
            exact: 0,
        };
        rank.aim_probe();
        rank.take_fingerprints();
        rank
    }

    pub(super) fn broken(&self, what: impl fmt::Display) -> Broken {
        Broken { rank: self.id, what: what.to_string() }
    }

    pub(super) fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    /// The pool that operations of a kind take pages from.
    pub(super) fn pool(&mut self, kind: Kind) -> &mut HostPool {
        if kind == Kind::LoadBack { &mut self.device } else { &mut self.host }
    }

    pub(super) fn pool_ref(&self, kind: Kind) -> &HostPool {
        if kind == Kind::LoadBack { &self.device } else { &self.host }
    }

    pub(super) fn copy(&mut self, k: Ordinal) -> &mut Copy {
        &mut self.copies[index(k)]
    }

    pub(super) fn copy_ref(&self, k: Ordinal) -> &Copy {
        &self.copies[index(k)]
    }

    /// The vote completed last, if no frame applied here has brought it.
    pub(super) fn unframed(&self) -> Option<&(Reduced, Rc<Vector>)> {
        let framed = self.framed.as_ref().map(|vector| vector.vote);
        self.seen.as_ref().filter(|(reduced, _)| Some(reduced.vote()) > framed)
    }

    pub(super) fn host_pages(&self) -> u32 {
        self.host.ledger().start_capacity()
    }

    /// Host pages that nobody owns here.
    pub(super) fn free_pages(&self) -> u32 {
        let held: usize = (0..self.copies.len() as u64).map(|k| self.host.pages(Ordinal(k)).len()).sum();
        let kept = self.tree.iter().filter(|node| node.kind != Kind::LoadBack).map(|node| node.pages.len());
        let taken = u32::try_from(held + kept.sum::<usize>()).unwrap_or(u32::MAX);
        self.host_pages().saturating_sub(taken.saturating_add(self.lost))
    }

    /// What of each operation is whole here: all of it where this rank has no part in it, nothing once it is forgotten.
    pub(super) fn arrived(&self) -> Vec<u32> {
        let arrived = |copy: &Copy| if copy.stake || copy.asked == 0 { copy.arrived } else { u32::MAX };
        self.copies.iter().map(arrived).collect()
    }

    /// Keeps a ballot, or a reduced vector, until a frame has brought its vote or a later one.
    pub(super) fn keep(&mut self, vector: Rc<Vector>) {
        let framed = self.framed.as_ref().map(|vector| vector.vote);
        self.past.retain(|vector| Some(vector.vote) > framed);
        self.past.push(vector);
    }

    /// Posts that the copy of an operation is off its pages, or will never be on them.
    pub(super) fn post_finished(&mut self, k: Ordinal) -> Result<(), Broken> {
        let finished = self.board.finish(k);
        // The mistaken rank has said so before.
        let again = finished.is_err() && self.has(Defect::FinishedWhileCopying);
        if again { Ok(()) } else { finished.map_err(|error| self.broken(error)) }
    }
}

/// An ordinal as an index.
pub(super) fn index(k: Ordinal) -> usize {
    usize::try_from(k.0).expect("a scope has few operations")
}
