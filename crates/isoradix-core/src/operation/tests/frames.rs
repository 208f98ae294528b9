//! Two ranks, from what each posts to what both do: boards, votes and frames as they are, and a table on each rank.

use super::*;
use crate::host::HostPool;
use crate::protocol::{
    AppliedFrame, Board, Control, Follower, Leader, Member, Pacing, Reduced, RunAhead, VoteMachine, reduce_min,
};
use crate::provenance::PerRank;

struct Rank {
    board: Board,
    votes: VoteMachine,
    table: OperationTable,
}

struct Pair {
    ranks: [Rank; 2],
    leader: Leader,
    follower: Follower,
    newest: Option<Reduced>,
}

impl Rank {
    fn new(rank: u32) -> Self {
        Self {
            board: Board::new(rank, 4).unwrap(),
            votes: VoteMachine::new(rank, 1, 4, Pacing::default()).unwrap(),
            table: OperationTable::new(rank, 4, Pools::USUAL).unwrap(),
        }
    }

    fn apply(&mut self, frame: &AppliedFrame) -> Result<Vec<Action>, OperationError> {
        let actions = self.table.apply_frame(frame)?;
        self.table.check().unwrap();
        for entry in self.table.iter().filter(|entry| entry.state().is_terminal()) {
            self.board.terminal(entry.ordinal()).unwrap();
        }
        self.board.finish_step(frame.step(), self.table.retired()).unwrap();
        Ok(actions)
    }
}

impl Pair {
    fn new() -> Self {
        let member = |rank| Member { rank, domain: 1, epoch: 1 };
        Self {
            ranks: [Rank::new(0), Rank::new(1)],
            leader: Leader::new(member(0), 0, RunAhead::new(0, 1)),
            follower: Follower::new(member(1), 0),
            newest: None,
        }
    }

    fn issue(&mut self, kind: Kind, pages: u32) -> Ordinal {
        let [k, other] = self.ranks.each_mut().map(|rank| {
            let k = issue(&mut rank.table, kind, pages);
            rank.board.issue(k).unwrap();
            rank.board.enqueue(kind.fifo(), k).unwrap();
            k
        });
        assert_eq!(k, other);
        k
    }

    /// Posts on both ranks.
    fn post<T: Copy + 'static, R>(&mut self, values: [T; 2], post: impl Fn(&mut Board, PerRank<T>) -> R) {
        for (rank, value) in self.ranks.iter_mut().zip(values) {
            post(&mut rank.board, PerRank::observe(value));
        }
    }

    fn vote(&mut self) {
        let [mut one, mut two] = self.ranks.each_mut().map(|rank| {
            let mut ballot = vec![0; rank.votes.words()];
            rank.votes.fill(&mut rank.board, &mut ballot).unwrap();
            ballot
        });
        reduce_min(&mut one, &two);
        two.clone_from(&one);
        let reduced = self.ranks.each_mut().map(|rank| rank.votes.complete(&mut rank.board, &one).unwrap());
        self.newest = reduced.into_iter().next();
    }

    /// A step on both ranks: the same actions, the same tables. Gives the actions.
    fn step(&mut self, controls: &[Control]) -> Result<Vec<Action>, OperationError> {
        let frame = self.leader.stamp(self.newest.as_ref(), PerRank::observe(0), 0, controls).unwrap();
        let [first, second] = &mut self.ranks;
        let followed = self.follower.check(frame.clone(), 0, &mut second.board).unwrap();
        let led = self.leader.apply(frame, &mut first.board).unwrap();
        let actions = [first.apply(&led), second.apply(&followed)];
        assert_eq!(actions[0].is_ok(), actions[1].is_ok());
        let [first, second] = actions;
        assert_eq!(first.as_ref().ok(), second.as_ref().ok());
        first
    }

    fn vote_and_step(&mut self, controls: &[Control]) -> Vec<Action> {
        self.vote();
        self.step(controls).unwrap()
    }

    fn states(&self, k: Ordinal) -> [State; 2] {
        [0, 1].map(|rank| state(&self.ranks[rank].table, k))
    }
}

#[test]
fn the_slower_rank_decides_how_much_and_both_deliver_it_in_one_step() {
    let mut pair = Pair::new();
    let operation = pair.issue(Kind::Prefetch, 8);
    assert_eq!(pair.vote_and_step(&[]), []);
    pair.post([8 * PAGE, 6 * PAGE], |board, hit| board.post_hit(operation, hit).unwrap());
    pair.post([5, 7], |board, pages| board.post_pages(operation, pages).unwrap());
    assert_eq!(pair.step(&[]).unwrap(), [], "posted is not agreed");
    assert_eq!(pair.vote_and_step(&[]), [Action::Commit { operation, share: share(5, 1) }]);
    // One rank runs ahead, beyond what is committed; the vote counts what both have.
    pair.post([5 * PAGE, PAGE], |board, tokens| board.post_progress(operation, tokens).unwrap());
    pair.vote();
    let kept = [Action::Deliver { operation, share: share(1, 1) }, Action::Cancel { operation, keep: 1 }];
    assert_eq!(pair.step(&[Control::Terminate(operation)]).unwrap(), kept, "vote first, then the decision");
    assert_eq!(pair.vote_and_step(&[Control::Abort(operation)]), []);
    assert_eq!(pair.states(operation), [State::Draining; 2]);
    pair.ranks[0].board.finish(operation).unwrap();
    assert_eq!(pair.vote_and_step(&[]), [], "one rank's copy still runs");
    pair.ranks[1].board.finish(operation).unwrap();
    let end = [Action::Return { operation, from: 1 }, Action::Unlock { operation }];
    assert_eq!(pair.vote_and_step(&[]), end);
    assert_eq!(pair.ranks.each_ref().map(|rank| (rank.table.retired(), rank.table.base())), [(1, 0); 2]);
    assert_eq!(pair.vote_and_step(&[]), []);
    assert_eq!(pair.ranks.each_ref().map(|rank| rank.table.base()), [1; 2], "one vote later the window slides");
}

#[test]
fn success_counts_before_the_watermark_that_comes_with_it() {
    let mut pair = Pair::new();
    let operation = pair.issue(Kind::Backup, 2);
    pair.post([2, 2], |board, pages| board.post_pages(operation, pages).unwrap());
    pair.post([true, true], |board, well| board.ended(operation, well).unwrap());
    let life = [
        Action::Commit { operation, share: share(2, 1) },
        Action::Deliver { operation, share: share(2, 1) },
        Action::Settle { operation, keep: 2 },
        Action::Unlock { operation },
    ];
    assert_eq!(pair.vote_and_step(&[Control::Abort(operation)]), life, "the abort comes too late");
}

#[test]
fn what_a_slow_rank_says_of_an_operation_that_is_over_changes_nothing() {
    let mut pair = Pair::new();
    let k = pair.issue(Kind::Prefetch, 8);
    pair.post([6 * PAGE, 8 * PAGE], |board, hit| board.post_hit(k, hit).unwrap());
    pair.post([8, 8], |board, pages| board.post_pages(k, pages).unwrap());
    pair.post([6 * PAGE, 8 * PAGE], |board, tokens| board.post_progress(k, tokens).unwrap());
    pair.post([true, true], |board, well| board.post_ready(k, well).unwrap());
    pair.vote();
    // The leader is done, and votes no stake, before the follower is.
    let frame = pair.leader.stamp(pair.newest.as_ref(), PerRank::observe(0), 0, &[]).unwrap();
    let led = pair.leader.apply(frame.clone(), &mut pair.ranks[0].board).unwrap();
    pair.ranks[0].apply(&led).unwrap();
    pair.vote();
    let followed = pair.follower.check(frame, 0, &mut pair.ranks[1].board).unwrap();
    pair.ranks[1].apply(&followed).unwrap();
    // So this vote says that all eight pages have arrived, of the six that were committed.
    assert_eq!(pair.step(&[]).unwrap(), []);
    assert_eq!(pair.states(k), [State::Done; 2]);
}

/// The way of a grant: from what each pool has got, over the smallest vote, to what each pool commits.
#[test]
fn pools_commit_what_the_table_decided_from_the_frame() {
    let mut pair = Pair::new();
    let k = pair.issue(Kind::Backup, 4);
    let part = |id, pages: u32| Subject { id, pages, tokens: u64::from(pages) * PAGE };
    let batch = [part(1, 2), part(2, 2)];
    let next = pair.ranks.each_mut().map(|rank| {
        let next = rank.table.issue_batch(Kind::Backup, &batch).unwrap();
        rank.board.issue(next).unwrap();
        rank.board.enqueue(Kind::Backup.fifo(), next).unwrap();
        next
    });
    let mut pools = [9, 7].map(|pages| HostPool::new(PerRank::observe(pages), agreed(9), Backing::Voting).unwrap());
    for (rank, pool) in pair.ranks.iter_mut().zip(&mut pools) {
        for k in [k, next[0]] {
            pool.ask(k, 4).unwrap().unwrap();
            rank.board.post_pages(k, pool.reserve(k).unwrap()).unwrap();
        }
    }
    pair.vote();
    let frame = pair.leader.stamp(pair.newest.as_ref(), PerRank::observe(0), 0, &[]).unwrap();
    let [first, second] = &mut pair.ranks;
    let followed = pair.follower.check(frame.clone(), 0, &mut second.board).unwrap();
    let led = pair.leader.apply(frame, &mut first.board).unwrap();
    for ((rank, applied), pool) in pair.ranks.iter_mut().zip([led, followed]).zip(&mut pools) {
        for action in rank.apply(&applied).unwrap() {
            let Action::Commit { operation, share } = action else { panic!("{action:?}") };
            pool.commit(operation, applied.decided(share.pages)).unwrap();
        }
    }
    assert_eq!(
        pools.each_ref().map(|pool| [k, next[0]].map(|k| pool.pages(k).len())),
        [[4, 2]; 2],
        "3 hold one subject"
    );
    assert_eq!(pools[0].ledger(), pools[1].ledger());
}

#[test]
fn a_refused_frame_leaves_nothing_behind() {
    let mut pair = Pair::new();
    let backup = pair.issue(Kind::Backup, 2);
    let load = pair.issue(Kind::LoadBack, 2);
    pair.post([2, 2], |board, pages| board.post_pages(backup, pages).unwrap());
    pair.post([true, false], |board, well| board.post_ready(load, well).unwrap());
    pair.vote();
    let before = pair.ranks.each_ref().map(|rank| rank.table.clone());
    let error = pair.step(&[]).unwrap_err();
    assert_eq!(error, OperationError::Fatal { rank: 0, operation: load, kind: Kind::LoadBack });
    assert_eq!(pair.ranks.map(|rank| rank.table), before, "the backup is not committed either");
}
