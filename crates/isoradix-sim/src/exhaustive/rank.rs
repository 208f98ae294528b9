//! One rank: the machines as they are, and what a driver holds beside them.

use super::check::owner;
use super::copy::Copy;
use super::fingerprint::Fingerprint;
use super::message::{self, Vector};
use super::scope::{Defect, Scope};
use isoradix_core::host::{Backing, HostPool};
use isoradix_core::operation::{Kind, OperationTable, Pools};
use isoradix_core::protocol::{
    Agreement, Board, Follower, Leader, Member, Pacing, Reduced, RunAhead, StartRecord, VoteMachine, agree,
};
use isoradix_core::{Ordinal, PerRank};
use std::fmt;
use std::hash::Hash;
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
    past: Vec<Rc<Vector>>,
    pub(super) defect: Option<Defect>,
    /// Shows what the next ballot would say.
    probe: VoteMachine,
    peeked: Rc<[i64]>,
    /// All that the future of this rank depends on, provided that no machine refuses what is as it should be.
    pub(super) print: u128,
    /// That, and all that a machine may look at in order to refuse.
    pub(super) exact: u128,
}

/// A host pool of so many pages, agreed upon at start.
fn pool(ranks: u32, pages: u32, backing: Backing) -> HostPool {
    let record = |rank| StartRecord::new(rank, ranks, PerRank::observe(pages));
    let Agreement { capacity_pages, .. } = agree(&(0..ranks).map(record).collect::<Vec<_>>()).expect("all are alike");
    HostPool::new(PerRank::observe(pages), capacity_pages, backing).expect("as many pages as the capacity")
}

fn machine(id: u32, window: u32) -> VoteMachine {
    VoteMachine::new(id, EPOCH, window, Pacing::default()).expect("the window is small")
}

impl Rank {
    pub(super) fn new(id: u32, scope: &Scope, defect: Option<Defect>) -> Self {
        let Scope { ranks, window, host_pages, .. } = *scope;
        let member = Member { domain: 0, epoch: EPOCH, rank: id };
        let leader = || Leader::new(member, FIRST_STEP, RunAhead::new(ranks - 1, scope.in_flight - 1));
        let reaped = || vec![FIRST_STEP - 1; ranks as usize - 1];
        let host = pool(ranks, host_pages, Backing::Voting);
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
            device: pool(ranks, host_pages, Backing::Fixed),
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
            print: 0,
            exact: 0,
        };
        rank.aim_probe();
        rank.take_prints();
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

    /// Posts that the copy of an operation is off its pages, or will never be on them.
    pub(super) fn post_finished(&mut self, k: Ordinal) -> Result<(), Broken> {
        let finished = self.board.finish(k);
        // The mistaken rank has said so before.
        let again = finished.is_err() && self.has(Defect::FinishedWhileCopying);
        if again { Ok(()) } else { finished.map_err(|error| self.broken(error)) }
    }
}

/// What this rank is, in numbers.
impl Rank {
    /// All that decisions may read: what must be equal on all ranks.
    pub(super) fn logical(&self) -> u128 {
        let mut print = Fingerprint::new();
        self.dead.hash(&mut print);
        self.table.iter().for_each(|entry| entry.hash(&mut print));
        (self.table.base(), self.table.retired(), self.table.issued()).hash(&mut print);
        Kind::ALL.map(|kind| self.table.finished(kind)).hash(&mut print);
        self.host.ledger().hash(&mut print);
        self.device.ledger().hash(&mut print);
        for Node { operation, kind, pages, locks } in &self.tree {
            (operation, kind, pages.len(), locks).hash(&mut print);
        }
        print.finish128()
    }

    /// The decision digest. No machine reads more of it than whether it equals another one, so a hash of the state that the
    /// decisions led to does; and states that were reached in different ways stay one.
    #[expect(clippy::cast_possible_truncation, reason = "half of it")]
    pub(super) fn digest(&self) -> u64 {
        self.logical() as u64
    }

    pub(super) fn take_prints(&mut self) {
        let mut print = Fingerprint::new();
        self.board.hash(&mut print);
        self.table.hash(&mut print);
        self.device.hash(&mut print);
        self.hash_pages(&mut print);
        (self.votes.vote(), self.votes.is_in_flight()).hash(&mut print);
        (self.open_step, self.step, self.faults, self.losses, self.lost).hash(&mut print);
        (self.unseen_work, self.unseen_close, self.dead).hash(&mut print);
        self.framed.as_ref().map(|vector| (vector.vote, &vector.arrived)).hash(&mut print);
        // Only the leader stamps a vote; the others are told what it was.
        let unframed = self.unframed().filter(|_| self.id == 0);
        unframed.map(|(_, vector)| vector.told).hash(&mut print);
        if self.has(Defect::WindowSlidesByVote) {
            self.seen.as_ref().map(|(_, vector)| vector.print).hash(&mut print);
        }
        self.print = print.finish128();
        self.take_exact(print);
    }

    /// What physics and decisions have made of this rank.
    pub(super) fn met(&self) -> u128 {
        let mut print = Fingerprint::new();
        (self.id, self.step, self.logical()).hash(&mut print);
        self.hash_pages(&mut print);
        print.finish128()
    }

    /// Host pages, whatever their numbers: whose each is, as the pool has it, and who reads or writes it. Ranks that differ in the
    /// numbers alone have the same future, since a free page is as good as another.
    fn hash_pages(&self, print: &mut Fingerprint) {
        self.host.ledger().hash(print);
        self.tree.iter().for_each(|node| (node.operation, node.kind, node.pages.len(), &node.locks).hash(print));
        self.copies.iter().for_each(|copy| copy.facts().hash(print));
        let mut pages: Vec<u128> = (0..self.host_pages()).map(|page| self.page_print(page)).collect();
        pages.sort_unstable();
        pages.hash(print);
    }

    fn page_print(&self, page: u32) -> u128 {
        let mut print = Fingerprint::new();
        owner(&self.host, page).hash(&mut print);
        let place = |pages: &[u32]| pages.iter().position(|other| *other == page);
        for (k, copy) in (0..).map(Ordinal).zip(&self.copies) {
            let touched = if copy.kind == Kind::LoadBack { None } else { place(&copy.touches) };
            (place(self.host.pages(k)), touched, place(&copy.reads)).hash(&mut print);
        }
        let host = self.tree.iter().filter(|node| node.kind != Kind::LoadBack);
        host.for_each(|node| place(&node.pages).hash(&mut print));
        print.finish128()
    }

    fn host_pages(&self) -> u32 {
        self.host.ledger().start_capacity()
    }

    fn take_exact(&mut self, mut print: Fingerprint) {
        let compared = self.seen.as_ref().map_or(-1, |(_, vector)| vector.words[message::APPLIED_STEP]);
        for step in u64::try_from(compared).unwrap_or(0)..=self.step {
            self.board.digests().get(step).hash(&mut print);
        }
        for vector in self.seen.iter().map(|(_, vector)| vector).chain(&self.framed).chain(&self.past) {
            (vector.vote, vector.print).hash(&mut print);
        }
        self.host.hash(&mut print);
        self.copies.iter().for_each(|copy| (&copy.touches, &copy.reads).hash(&mut print));
        if let Role::Leader(_, reaped) = &self.role {
            reaped.hash(&mut print);
        }
        self.exact = print.finish128();
    }

    /// Keeps a ballot, or a reduced vector, until a frame has brought its vote or a later one.
    pub(super) fn keep(&mut self, vector: Rc<Vector>) {
        let framed = self.framed.as_ref().map(|vector| vector.vote);
        self.past.retain(|vector| Some(vector.vote) > framed);
        self.past.push(vector);
    }
}

/// What the next ballot would say.
impl Rank {
    /// The probe asks about the admission window, and is ready to fill.
    fn aim_probe(&mut self) {
        let mut probe = machine(self.id, self.board.admission().width());
        let mut words = vec![0; probe.words()];
        let width = self.board.admission().width();
        // What the probe completes is no vote of this rank, and its board keeps nothing of it.
        let mut board = Board::new(self.id, width).expect("the window is small");
        let filled = probe.fill(&mut self.board.clone(), &mut words);
        words[message::RETIRED] = self.board.admission().base().cast_signed();
        let completed = filled.and_then(|()| probe.complete(&mut board, &words));
        completed.expect("a vote of one rank, on what is retired on all");
        self.probe = probe;
        self.peeked = self.peek();
    }

    fn peek(&self) -> Rc<[i64]> {
        let mut words = vec![0; self.probe.words()];
        self.probe.clone().fill(&mut self.board.clone(), &mut words).expect("the probe has no vote in flight");
        words.into()
    }

    /// No event takes back what a ballot has said, or could have said.
    pub(super) fn check_growth(&mut self) -> Result<(), Broken> {
        let now = self.peek();
        let before = std::mem::replace(&mut self.peeked, now);
        if let Some(at) = message::first_backward(&before, &self.peeked) {
            let (before, now) = (before[at], self.peeked[at]);
            return Err(self.broken(format_args!("word {at} of the next ballot went back from {before} to {now}")));
        }
        if i64::try_from(self.board.admission().base()) != Ok(self.probe_base()) {
            self.aim_probe();
        }
        Ok(())
    }

    fn probe_base(&self) -> i64 {
        self.peeked[4]
    }
}

/// An ordinal as an index.
pub(super) fn index(k: Ordinal) -> usize {
    usize::try_from(k.0).expect("a scope has few operations")
}
