//! The host pool: a grant, and a whole life of pages.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use isoradix_core::host::{Backing, HostPool};
use isoradix_core::protocol::{StartRecord, agree};
use isoradix_core::{Agreed, Ordinal, PerRank};

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

fn give_to_the_tree(pool: &mut HostPool, k: u64, pages: u32) {
    take(pool, k, pages, agreed(pages));
    pool.settle(Ordinal(k)).expect("committed");
}

/// A pool that is nearly full, its free list in no order, as operations of many sizes leave it. With its oldest and its next
/// operation.
fn used_pool(pages: u32) -> (HostPool, u64, u64) {
    let mut pool = HostPool::new(PerRank::observe(POOL_PAGES), agreed(POOL_PAGES), Backing::Voting).expect("backed");
    let mixed = 800;
    for k in 0..mixed {
        give_to_the_tree(&mut pool, k, u32::try_from(k * 7919 % 251 + 1).expect("small"));
    }
    for k in (0..mixed).step_by(2).chain((0..mixed / 2).rev().map(|i| 2 * i + 1)) {
        pool.release_all(Ordinal(k)).expect("settled");
    }
    let mut next = mixed;
    while pool.ledger().available() >= 2 * pages && next < mixed + 10_000 {
        give_to_the_tree(&mut pool, next, pages);
        next += 1;
    }
    (pool, mixed, next)
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
        let (granted, (mut pool, mut oldest, mut next)) = (agreed(pages), used_pool(pages));
        group.throughput(Throughput::Elements(pages.into()));
        group.bench_function(BenchmarkId::from_parameter(pages), |b| {
            b.iter(|| {
                pool.release_all(Ordinal(oldest)).expect("settled");
                take(&mut pool, next, pages, granted);
                pool.settle(Ordinal(next)).expect("committed");
                (oldest, next) = (oldest + 1, next + 1);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, granting, living);
criterion_main!(benches);
