//! Inputs on which caches have gone wrong, with the values that are right.

use super::*;
use crate::host::Declined;

/// What a frame would do with the votes of all ranks for an operation that takes all or nothing; with the pages that the tree of
/// each rank has then.
fn all_or_nothing(ranks: &mut [HostPool], k: u64, asked: u32) -> (Vec<u32>, Vec<Vec<u32>>) {
    let votes: Vec<u32> = ranks.iter_mut().map(|pool| reserved(pool, k, asked)).collect();
    let granted = votes.iter().copied().min().unwrap();
    let backable = ranks.iter().map(|pool| pool.backable().into_ballot()).min().unwrap();
    let mut kept = vec![vec![]; ranks.len()];
    for (pool, kept) in ranks.iter_mut().zip(&mut kept) {
        if granted == asked {
            pool.commit(Ordinal(k), agreed(granted)).unwrap();
            kept.extend_from_slice(pool.pages(Ordinal(k)));
            pool.settle(Ordinal(k), agreed(granted)).unwrap();
        } else {
            pool.abort(Ordinal(k)).unwrap();
            pool.lower(agreed(backable));
        }
        pool.check().unwrap();
    }
    assert!(ranks.iter().all(|pool| pool.ledger() == ranks[0].ledger()));
    (votes, kept)
}

fn release_everywhere(ranks: &mut [HostPool], kept: &[Vec<u32>]) {
    for (pool, kept) in ranks.iter_mut().zip(kept) {
        pool.release(kept).unwrap();
    }
}

/// Nothing to release, nothing happens.
#[test]
fn releasing_no_pages_does_nothing() {
    let mut pool = voting(4, 4);
    settled(&mut pool, 0, 2);
    let before = pool.clone();
    pool.release(&[]).unwrap();
    assert!(pool == before);
}

/// Aborted while they wait for their grant, while they copy, and before this rank has reserved.
#[test]
fn aborted_prefetches_occupy_nothing() {
    let mut pool = voting(100, 100);
    for k in (0..60).step_by(3) {
        assert_eq!(reserved(&mut pool, k, 30), 30);
        assert_eq!(reserved(&mut pool, k + 1, 30), 30);
        pool.ask(Ordinal(k + 2), 40).unwrap().unwrap();
        assert_eq!(pool.ledger().available(), 0);
        pool.commit(Ordinal(k + 1), agreed(30)).unwrap();
        pool.drain(Ordinal(k + 1)).unwrap();
        pool.abort(Ordinal(k + 2)).unwrap();
        pool.abort(Ordinal(k)).unwrap();
        assert_eq!(pool.ledger().occupied(), 30, "a copy may touch the pages of {}", k + 1);
        pool.finished(Ordinal(k + 1)).unwrap();
        pool.abort(Ordinal(k + 1)).unwrap();
    }
    assert_eq!(pool.ledger().occupied(), 0);
    assert_eq!(pool.leaks(), Ok(()));
    assert_eq!(reserved(&mut pool, 60, 100), 100);
}

/// One rank's allocation fails: the node is backed up nowhere, the capacity follows what is there, and comes back with it.
#[test]
fn where_one_rank_has_no_memory_no_rank_backs_up() {
    let mut ranks = [voting(8, 8), voting(8, 8), voting(8, 8)];
    assert_eq!(ranks[1].withdraw(PerRank::observe(8)).unwrap().into_ballot(), 8);
    assert_eq!(all_or_nothing(&mut ranks, 0, 4).0, [4, 0, 4]);
    for pool in &mut ranks {
        assert_eq!((pool.ledger().occupied(), pool.ledger().capacity()), (0, 0));
        let declined = Declined { asked: 4, occupied: 0, capacity: 0 };
        assert_eq!(pool.ask(Ordinal(1), 4), Ok(Err(declined)), "on every rank, without a vote");
    }
    assert_eq!(ranks[1].restore(PerRank::observe(6)).into_ballot(), 6);
    let backable = ranks.iter().map(|pool| pool.backable().into_ballot()).min().unwrap();
    for pool in &mut ranks {
        pool.raise(agreed(backable));
    }
    assert_eq!(ranks[0].ledger().capacity(), 6);
    assert_eq!(all_or_nothing(&mut ranks, 2, 4).0, [4, 4, 4]);
    assert!(ranks.iter().all(|pool| pool.ledger().occupied() == 4));
}

/// A short pool evicts instead of starving: what it evicts is what it can hand out again.
#[test]
fn a_short_pool_evicts_and_goes_on() {
    let mut ranks = [voting(20, 20), voting(12, 20)];
    let (votes, kept) = all_or_nothing(&mut ranks, 0, 10);
    assert_eq!(votes, [10, 10]);
    assert_eq!(all_or_nothing(&mut ranks, 1, 10).0, [10, 2], "short once");
    let declined = ranks.each_mut().map(|pool| pool.ask(Ordinal(2), 10).unwrap().unwrap_err());
    assert_eq!(declined, [Declined { asked: 10, occupied: 10, capacity: 12 }; 2]);
    assert_eq!(declined[0].short_by(), 8);
    release_everywhere(&mut ranks, &kept);
    for k in 3..50 {
        let (votes, kept) = all_or_nothing(&mut ranks, k, 10);
        assert_eq!(votes, [10, 10], "never again");
        release_everywhere(&mut ranks, &kept);
    }
}

/// A terminated prefetch: the tree has the framed progress at once, the rest drains, and neither hinders the other.
#[test]
fn a_terminated_prefetch_keeps_the_framed_progress() {
    for released_while_draining in [false, true] {
        let mut pool = voting(8, 8);
        assert_eq!(reserved(&mut pool, 0, 8), 8);
        pool.commit(Ordinal(0), agreed(6)).unwrap();
        assert_eq!(pool.pages(Ordinal(0)), [0, 1, 2, 3, 4, 5]);
        pool.drain_rest(Ordinal(0), agreed(2)).unwrap();
        assert_eq!((pool.ledger().occupied(), pool.pages(Ordinal(0))), (6, &[2, 3, 4, 5][..]));
        if released_while_draining {
            pool.release(&[1, 0]).unwrap();
            assert_eq!(pool.ledger().occupied(), 4);
        }
        pool.finished(Ordinal(0)).unwrap();
        pool.abort(Ordinal(0)).unwrap();
        pool.check().unwrap();
        assert_eq!(pool.ledger().occupied(), if released_while_draining { 0 } else { 2 });
        assert_eq!(pool.ledger().stage(Ordinal(0)).is_none(), released_while_draining);
    }
}

type Verbs = fn(&mut HostPool);

/// Every end of operation 0, with the pages that the tree has then.
const ENDS: [(Verbs, u32); 5] = [
    (|pool| pool.settle(Ordinal(0), agreed(2)).unwrap(), 2),
    (|pool| pool.settle(Ordinal(0), agreed(1)).unwrap(), 1),
    (|pool| pool.abort(Ordinal(0)).unwrap(), 0),
    (|pool| drained(pool, |pool| pool.drain(Ordinal(0)).unwrap()), 0),
    (|pool| drained(pool, |pool| pool.drain_rest(Ordinal(0), agreed(1)).unwrap()), 1),
];

/// Nothing comes back while an operation drains.
fn drained(pool: &mut HostPool, drain: Verbs) {
    drain(pool);
    pool.check().unwrap();
    assert_eq!(pool.surplus(Ordinal(0)), [2, 3, 4]);
    pool.finished(Ordinal(0)).unwrap();
    assert_eq!(pool.surplus(Ordinal(0)), [2, 3, 4]);
    pool.abort(Ordinal(0)).unwrap();
}

/// A copy of this rank may have run ahead beyond the grant: what it may touch is nobody else's, though the ledger counts it no more.
#[test]
fn what_a_grant_leaves_over_stays_until_no_copy_touches_it() {
    for (end, kept) in ENDS {
        let mut pool = voting(6, 6);
        assert_eq!(reserved(&mut pool, 0, 5), 5);
        pool.commit(Ordinal(0), agreed(2)).unwrap();
        assert_eq!(pool.pages(Ordinal(0)), [0, 1]);
        assert_eq!((pool.ledger().occupied(), pool.surplus(Ordinal(0))), (2, &[2, 3, 4][..]));
        assert_eq!(reserved(&mut pool, 1, 4), 1, "admitted, as on every rank; this one has a single page left");
        assert_eq!(pool.withdraw(PerRank::observe(6)).unwrap().into_ballot(), 0);
        pool.check().unwrap();
        end(&mut pool);
        pool.check().unwrap();
        pool.abort(Ordinal(1)).unwrap();
        assert_eq!(pool.ledger().occupied(), kept);
        assert_eq!(reserved(&mut pool, 2, 6 - kept), 6 - kept, "all of it is back");
    }
}

/// A rank without a host pool is never short, whatever the others are granted.
#[test]
fn a_pool_without_memory_has_whatever_the_ledger_has_room_for() {
    let mut pool = HostPool::without_memory(agreed(6)).unwrap();
    assert_eq!(reserved(&mut pool, 0, 6), 6);
    pool.commit(Ordinal(0), agreed(2)).unwrap();
    assert_eq!((pool.surplus(Ordinal(0)), pool.ledger().available()), (&[][..], 4));
    assert_eq!(reserved(&mut pool, 1, 4), 4);
    pool.check().unwrap();
    assert_eq!(pool.withdraw(PerRank::observe(6)).unwrap().into_ballot(), 0, "there is nothing to lose");
    pool.drain(Ordinal(1)).unwrap();
    pool.settle(Ordinal(0), agreed(1)).unwrap();
    assert_eq!(reserved(&mut pool, 2, 1), 1);
    pool.finished(Ordinal(1)).unwrap();
    pool.abort(Ordinal(1)).unwrap();
    assert_eq!(reserved(&mut pool, 3, 4), 4);
    pool.check().unwrap();
}

#[test]
fn a_fixed_pool_commits_at_once() {
    let mut pool = fixed(8);
    pool.ask(Ordinal(3), 5).unwrap().unwrap();
    assert_eq!(pool.pages(Ordinal(3)), [0, 1, 2, 3, 4]);
    assert_eq!(pool.reserve(Ordinal(3)).unwrap().into_ballot(), 5);
    assert_eq!(pool.ask(Ordinal(4), 4), Ok(Err(Declined { asked: 4, occupied: 5, capacity: 8 })));
    pool.settle(Ordinal(3), agreed(5)).unwrap();
    pool.release(&[1, 3]).unwrap();
    pool.ask(Ordinal(5), 4).unwrap().unwrap();
    assert_eq!(pool.pages(Ordinal(5)), [1, 3, 5, 6], "what came back last goes first");
    pool.check().unwrap();
}

/// Nothing is added to the occupancy before something is taken off it.
#[test]
fn the_largest_capacity_is_counted() {
    let mut pool = voting(1, u32::MAX);
    pool.ask(Ordinal(0), u32::MAX).unwrap().unwrap();
    pool.drain(Ordinal(0)).unwrap();
    assert_eq!(pool.ask(Ordinal(1), u32::MAX).unwrap().unwrap_err().short_by(), u64::from(u32::MAX));
    pool.finished(Ordinal(0)).unwrap();
    pool.abort(Ordinal(0)).unwrap();
    assert_eq!(pool.ledger().available(), u32::MAX);
}
