//! The core's verbs, without Python: match, insert, lock, evict, and what the evidence costs.
//!
//! `cargo bench -p isoradix-core -- evict` runs one group.

mod common;

use common::{slots, tokens};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use isoradix_core::{Config, Eviction, Ints, Namespace, PrefixCache, Resume};

const PAGE: u32 = 64;
const LEAF: usize = 64;

fn cache(policy: &str) -> PrefixCache {
    let eviction = Eviction::parse(policy).expect("a known policy");
    PrefixCache::new(Config { page_size: PAGE, eviction, ..Config::default() }).expect("a valid configuration")
}

fn insert(cache: &mut PrefixCache, key: &[i64], slots: &[i64]) {
    cache.insert(Ints::I64(key), Ints::I64(slots), &Namespace::default(), 0, None).expect("valid input");
}

/// A path of 512-token nodes, as a growing conversation leaves it.
fn deep(length: usize) -> (PrefixCache, Vec<i64>) {
    let (mut cache, key, slots) = (cache("lru"), tokens(1, length), slots(length));
    for end in (512..=length).step_by(512) {
        insert(&mut cache, &key[..end], &slots[..end]);
    }
    (cache, key)
}

fn leaves(policy: &str, count: usize) -> PrefixCache {
    let (mut cache, slots) = (cache(policy), slots(LEAF));
    for seed in (0_u64..).take(count) {
        insert(&mut cache, &tokens(seed.wrapping_mul(0x5851_f42d_4c95_7f2d), LEAF), &slots);
    }
    cache
}

fn matching(c: &mut Criterion) {
    let mut group = c.benchmark_group("match");
    let namespace = Namespace::default();
    for length in [1024, 32_768] {
        let (mut cache, key) = deep(length);
        let narrow: Vec<u32> = key.iter().map(|token| u32::try_from(*token).expect("a token")).collect();
        group.throughput(Throughput::Elements(length as u64));
        group.bench_function(BenchmarkId::new("deep i64", length), |b| {
            b.iter(|| cache.match_prefix(Ints::I64(&key), &namespace, None).expect("valid input"));
        });
        group.bench_function(BenchmarkId::new("deep u32", length), |b| {
            b.iter(|| cache.match_prefix(Ints::U32(&narrow), &namespace, None).expect("valid input"));
        });
        let found = cache.match_prefix(Ints::I64(&key), &namespace, None).expect("valid input");
        let resume = Some(Resume { node: found.node, length: found.hit_tokens });
        group.bench_function(BenchmarkId::new("resumed at the end", length), |b| {
            b.iter(|| cache.match_prefix(Ints::I64(&key), &namespace, resume).expect("valid input"));
        });
        group.bench_function(BenchmarkId::new("probe", length), |b| {
            b.iter(|| cache.probe(Ints::I64(&key), &namespace).expect("valid input"));
        });
    }
    group.finish();
}

fn inserting(c: &mut Criterion) {
    let mut group = c.benchmark_group("insert");
    for length in [512, 131_072] {
        let (key, slots) = (tokens(9, length), slots(length));
        let mut cache = cache("lru");
        let mut freed = Vec::with_capacity(length + LEAF);
        group.throughput(Throughput::Elements(length as u64));
        group.bench_function(BenchmarkId::new("new, and evicted again", length), |b| {
            b.iter(|| {
                insert(&mut cache, &key, &slots);
                freed.clear();
                cache.evict(u64::MAX, &mut freed).expect("a built-in policy")
            });
        });
    }
    group.finish();
}

fn locking(c: &mut Criterion) {
    let (mut cache, key) = deep(256 * 512);
    let node = cache.match_prefix(Ints::I64(&key), &Namespace::default(), None).expect("valid input").node;
    c.bench_function("lock and unlock 256 nodes", |b| {
        b.iter(|| {
            let receipt = cache.lock(node).expect("a living node");
            cache.unlock(receipt).expect("an outstanding receipt");
        });
    });
    c.bench_function("touch 256 nodes", |b| b.iter(|| cache.touch(node).expect("a living node")));
    // Touching the root stamps no node: what is left is one record of the journal, which is never off.
    let root = isoradix_core::NodeHandle::ROOT;
    c.bench_function("evidence: one record", |b| b.iter(|| cache.touch(root).expect("the root lives")));
}

fn evicting(c: &mut Criterion) {
    let mut group = c.benchmark_group("evict");
    group.sample_size(20);
    for policy in ["lru", "lfu"] {
        for count in [10_000, 100_000, 1_000_000] {
            let mut full = leaves(policy, count);
            let mut seed = count as u64;
            let slots = slots(LEAF);
            let mut freed = Vec::with_capacity(2 * LEAF);
            group.throughput(Throughput::Elements(LEAF as u64));
            // One leaf goes and one comes, so that the tree keeps its size.
            group.bench_function(BenchmarkId::new(policy, count), |b| {
                b.iter_batched(
                    || {
                        seed += 1;
                        tokens(!seed, LEAF)
                    },
                    |key| {
                        freed.clear();
                        full.evict(1, &mut freed).expect("a built-in policy");
                        insert(&mut full, &key, &slots);
                    },
                    BatchSize::SmallInput,
                );
            });
        }
    }
    group.finish();
}

criterion_group!(benches, matching, inserting, locking, evicting);
criterion_main!(benches);
