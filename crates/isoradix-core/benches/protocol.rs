//! What alignment costs on one rank: a ballot, a vote, a frame, with 64 live operations.
//!
//! `cargo bench -p isoradix-core --bench protocol -- ballot` runs one group.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use isoradix_core::protocol::{
    AppliedFrame, Board, FIFOS, Follower, Frame, Leader, Member, Pacing, Reduced, RunAhead, VoteMachine, reduce_min,
};
use isoradix_core::{Ordinal, PerRank};
use std::cell::RefCell;
use std::hint::black_box;

const WINDOW: u32 = 64;
const EPOCH: u64 = 1;

/// A leader and a follower with 64 live operations each, and the buffer of their votes.
struct Pair {
    boards: [Board; 2],
    votes: [VoteMachine; 2],
    ballots: [Vec<i64>; 2],
    leader: Leader,
    follower: Follower,
}

impl Pair {
    fn new() -> Self {
        let votes =
            [0, 1].map(|rank| VoteMachine::new(rank, EPOCH, WINDOW, Pacing::default()).expect("a valid window"));
        let ballots = [0, 1].map(|rank: usize| vec![0; votes[rank].words()]);
        let member = |rank| Member { domain: 0, epoch: EPOCH, rank };
        let (leader, follower) = (Leader::new(member(0), 1, RunAhead::new(0, 2)), Follower::new(member(1), 1));
        Self { boards: [0, 1].map(board), votes, ballots, leader, follower }
    }

    fn fill(&mut self, rank: usize) {
        self.votes[rank].fill(&mut self.boards[rank], &mut self.ballots[rank]).expect("the vote before is completed");
    }

    fn complete(&mut self, rank: usize) -> Reduced {
        self.votes[rank].complete(&mut self.boards[rank], &self.ballots[0]).expect("ranks that agree")
    }

    fn vote(&mut self) -> Reduced {
        (0..2).for_each(|rank| self.fill(rank));
        let [reduced, other] = &mut self.ballots;
        reduce_min(reduced, other);
        self.complete(1);
        self.complete(0)
    }

    /// A frame that carries a new vote.
    fn stamp(&mut self, newest: &Reduced) -> Frame {
        let frame = self.leader.stamp(Some(newest), PerRank::observe(5), 0, &[]).expect("no receiver is behind");
        self.leader.apply(frame.clone(), &mut self.boards[0]).expect("the frame just stamped");
        frame
    }

    fn check(&mut self, frame: Frame) -> AppliedFrame {
        self.follower.check(frame, 0, &mut self.boards[1]).expect("ranks that agree")
    }
}

/// A board on which all operations of the window are live, with every number known.
fn board(rank: u32) -> Board {
    let mut board = Board::new(rank, WINDOW).expect("a valid window");
    for (ordinal, fifo) in (0..u64::from(WINDOW)).map(Ordinal).zip((0..FIFOS).cycle()) {
        board.issue(ordinal).expect("inside the window");
        board.enqueue(fifo, ordinal).expect("the next one");
        board.post_hit(ordinal, PerRank::observe(4096)).expect("issued");
        board.post_pages(ordinal, PerRank::observe(64)).expect("issued");
        board.post_progress(ordinal, PerRank::observe(ordinal.0)).expect("issued");
        board.post_ready(ordinal, PerRank::observe(true)).expect("issued");
    }
    board
}

/// Reads every number of every operation, as the operation table does.
fn read(applied: &AppliedFrame) -> i64 {
    let vote = applied.vote().expect("a vote");
    vote.slots().flat_map(|(_, slot)| slot.words()).map(isoradix_core::Agreed::get).fold(0, i64::wrapping_add)
}

fn voting(c: &mut Criterion) {
    let mut group = c.benchmark_group("vote");
    group.throughput(Throughput::Elements(u64::from(WINDOW)));
    let pair = RefCell::new(Pair::new());
    group.bench_function("fill a ballot", |b| {
        // What the vote needs besides is done outside of the measured time.
        let finish_last = || {
            let mut pair = pair.borrow_mut();
            if pair.votes[0].is_in_flight() {
                pair.complete(0);
            }
        };
        b.iter_batched(finish_last, |()| pair.borrow_mut().fill(0), BatchSize::PerIteration);
    });
    let mut lonely = Pair::new();
    group.bench_function("fill and complete", |b| {
        b.iter(|| {
            lonely.fill(0);
            lonely.complete(0)
        });
    });
    group.finish();
}

fn framing(c: &mut Criterion) {
    let mut group = c.benchmark_group("frame");
    group.throughput(Throughput::Elements(u64::from(WINDOW)));
    let pair = RefCell::new(Pair::new());
    group.bench_function("stamp, to bytes", |b| {
        let vote = || pair.borrow_mut().vote();
        b.iter_batched(vote, |newest| pair.borrow_mut().stamp(&newest).to_bytes(), BatchSize::PerIteration);
    });
    let pair = RefCell::new(Pair::new());
    let next = || {
        let mut pair = pair.borrow_mut();
        let newest = pair.vote();
        pair.stamp(&newest)
    };
    group.bench_function("from bytes", |b| {
        let bytes = next().to_bytes();
        pair.replace(Pair::new());
        b.iter(|| Frame::from_bytes(black_box(&bytes)).expect("a frame"));
    });
    group.bench_function("check, read every number", |b| {
        b.iter_batched(next, |frame| read(&pair.borrow_mut().check(frame)), BatchSize::PerIteration);
    });
    let pair = RefCell::new(Pair::new());
    group.bench_function("from bytes, check, read every number", |b| {
        let bytes = || {
            let mut pair = pair.borrow_mut();
            let newest = pair.vote();
            pair.stamp(&newest).to_bytes()
        };
        let apply = |bytes: Vec<u8>| {
            let frame = Frame::from_bytes(&bytes).expect("a frame");
            read(&pair.borrow_mut().check(frame))
        };
        b.iter_batched(bytes, apply, BatchSize::PerIteration);
    });
    group.finish();
}

criterion_group!(benches, voting, framing);
criterion_main!(benches);
