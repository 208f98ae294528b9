//! The host pool: a grant, and a whole life of pages.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use isoradix_core::host::{Backing, HostPool};
use isoradix_core::protocol::{StartRecord, agree};
use isoradix_core::{Agreed, Ordinal, PerRank};
use std::collections::VecDeque;

/// Pages of the pool: 100 GB of tokens at 13,120 bytes, in pages of 64 (row 18 of the cases).
const POOL_PAGES: u32 = 119_093;

/// A number that a deployment of one rank agrees upon at start.
fn agreed(pages: u32) -> Agreed<u32> {
    agree(&[StartRecord::new(0, 1, PerRank::observe(pages))]).expect("one rank agrees with itself").capacity_pages
}

fn take(pool: &mut HostPool, k: u64, pages: u32, granted: Agreed<u32>) {
    pool.ask(Ordinal(k), pages).expect("in order").expect("room");
    let _ = pool.reserve(Ordinal(k)).expect("asked");
    pool.commit(Ordinal(k), granted).expect("reserved");
}

/// Gives the numbers of the pages, which the tree keeps.
fn give_to_the_tree(pool: &mut HostPool, k: u64, pages: u32, granted: Agreed<u32>) -> Vec<u32> {
    take(pool, k, pages, granted);
    let numbers = pool.pages(Ordinal(k)).to_vec();
    pool.settle(Ordinal(k), granted).expect("committed");
    numbers
}

/// A pool that is nearly full, its free list in no order, as operations of many sizes leave it. With what the tree has of it, oldest
/// first, and its next operation.
fn used_pool(pages: u32) -> (HostPool, VecDeque<Vec<u32>>, u64) {
    let mut pool = HostPool::new(PerRank::observe(POOL_PAGES), agreed(POOL_PAGES), Backing::Voting).expect("backed");
    let mixed: usize = 800;
    let mut kept = Vec::new();
    for k in 0..mixed {
        let pages = u32::try_from(k * 7919 % 251 + 1).expect("small");
        kept.push(give_to_the_tree(&mut pool, k as u64, pages, agreed(pages)));
    }
    for k in (0..mixed).step_by(2).chain((0..mixed / 2).rev().map(|i| 2 * i + 1)) {
        pool.release(&kept[k]).expect("settled");
    }
    let (mut tree, mut next) = (VecDeque::new(), mixed as u64);
    while pool.ledger().available() >= 2 * pages && tree.len() < 10_000 {
        tree.push_back(give_to_the_tree(&mut pool, next, pages, agreed(pages)));
        next += 1;
    }
    (pool, tree, next)
}

/// What a frame's grant costs a rank, with the ask before and the abort after it.
fn granting(c: &mut Criterion) {
    let mut group = c.benchmark_group("host: ask, reserve, commit, abort");
    for (asked, grant) in [(1, 1), (64, 64), (1000, 1000), (1000, 400)] {
        let (granted, (mut pool, _, mut next)) = (agreed(grant), used_pool(asked));
        group.throughput(Throughput::Elements(asked.into()));
        group.bench_function(BenchmarkId::new(format!("{grant} pages of"), asked), |b| {
            b.iter(|| {
                take(&mut pool, next, asked, granted);
                pool.abort(Ordinal(next)).expect("committed");
                next += 1;
            });
        });
    }
    group.finish();
}

/// A whole life, in which the pool's oldest pages come back to make room.
fn living(c: &mut Criterion) {
    let mut group = c.benchmark_group("host: release the oldest, ask, reserve, commit, settle");
    for pages in [1, 64, 1000] {
        let (granted, (mut pool, mut tree, mut next)) = (agreed(pages), used_pool(pages));
        group.throughput(Throughput::Elements(pages.into()));
        group.bench_function(BenchmarkId::from_parameter(pages), |b| {
            b.iter(|| {
                pool.release(&tree.pop_front().expect("it has some")).expect("settled");
                tree.push_back(give_to_the_tree(&mut pool, next, pages, granted));
                next += 1;
            });
        });
    }
    group.finish();
}

criterion_group!(benches, granting, living);
criterion_main!(benches);
