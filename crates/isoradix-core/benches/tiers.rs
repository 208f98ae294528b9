//! What a second tier costs: a match over both, a node's way to host and back, and a frame with many operations under way.
#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod common;

use common::{slots, tokens};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use isoradix_core::host::{Backing, HostPool};
use isoradix_core::protocol::{Board, Member, Pacing, Reduced, RunAhead, StartRecord, VoteMachine, agree};
use isoradix_core::{Config, Effect, Ints, Namespace, Ordinal, PerRank, PrefixCache, Rank, TieredCache, Tiers};
use std::time::{Duration, Instant};

const PAGE: u32 = 64;
const NODE: usize = 512;
/// Operations that fill the window.
const OPERATIONS: u32 = 64;
/// Pages of each.
const PAGES: u32 = 64;

fn namespace() -> Namespace {
    Namespace::default()
}

fn config() -> Config {
    Config { page_size: PAGE, ..Config::default() }
}

/// One rank that votes with itself.
struct Alone {
    rank: Rank,
    board: Board,
    votes: VoteMachine,
    ballot: Vec<i64>,
}

impl Alone {
    fn new(host_pages: u32) -> Self {
        let record = StartRecord::new(0, 1, PerRank::observe(host_pages));
        let capacity = agree(&[record]).expect("one rank agrees with itself").capacity_pages;
        let pool = HostPool::new(PerRank::observe(host_pages), capacity, Backing::Voting).expect("a valid pool");
        let tiers = Tiers { load_back_min: 1, ..Tiers::default() };
        let cache = TieredCache::new(0, config(), tiers, pool).expect("a valid configuration");
        let votes = VoteMachine::new(0, 0, tiers.window, Pacing::default()).expect("a valid window");
        let member = Member { domain: 0, epoch: 0, rank: 0 };
        Self {
            rank: Rank::leader(member, 1, RunAhead::new(0, 1), cache),
            board: Board::new(0, tiers.window).expect("a valid window"),
            ballot: vec![0; votes.words()],
            votes,
        }
    }

    fn vote(&mut self) -> Reduced {
        self.votes.fill(&mut self.board, &mut self.ballot).expect("in order");
        self.votes.complete(&mut self.board, &self.ballot).expect("alone")
    }

    /// A vote, and a frame with it.
    fn enter(&mut self) {
        let newest = self.vote();
        self.rank.lead(&mut self.board, Some(&newest), PerRank::observe(0), &[]).expect("alone");
    }

    fn close(&mut self) {
        self.rank.close_step(&mut self.board, 0).expect("in order");
    }

    /// A step in which every copy that the verbs start ends.
    fn step(&mut self, verbs: impl FnOnce(&mut TieredCache)) {
        self.enter();
        verbs(self.rank.cache_mut());
        self.close();
        for effect in self.rank.take_effects() {
            if let Effect::Start(transfer) = effect {
                self.board.ended(transfer.operation, PerRank::observe(true)).expect("started");
            }
        }
    }

    fn insert(&mut self, key: &[i64]) {
        let slots = slots(key.len());
        self.step(|cache| {
            cache.insert(Ints::I64(key), Ints::I64(&slots), &namespace(), 0, None).expect("valid input");
        });
        self.step(|_| ());
    }
}

/// A path of nodes in both tiers; from `on_device` on, on host alone.
fn tiered(key: &[i64], on_device: usize) -> TieredCache {
    let mut alone = Alone::new(u32::try_from(key.len()).expect("few") / PAGE);
    (NODE..=key.len()).step_by(NODE).for_each(|end| alone.insert(&key[..end]));
    let cut = (key.len() - on_device) as u64;
    alone.step(|cache| {
        assert_eq!(cache.evict(cut, &mut Vec::new()).expect("built in").demoted, cut, "all of it is on host");
    });
    let Alone { rank, .. } = alone;
    rank.into_cache()
}

fn plain(key: &[i64]) -> PrefixCache {
    let mut cache = PrefixCache::new(config()).expect("a valid configuration");
    for end in (NODE..=key.len()).step_by(NODE) {
        let slots = slots(end);
        cache.insert(Ints::I64(&key[..end]), Ints::I64(&slots), &namespace(), 0, None).expect("valid input");
    }
    cache
}

fn matching(c: &mut Criterion) {
    let mut group = c.benchmark_group("match");
    for length in [1024, 32_768] {
        let key = tokens(1, length);
        let (mut one, mut two, mut low) = (plain(&key), tiered(&key, length), tiered(&key, length / 2));
        group.throughput(Throughput::Elements(length as u64));
        group.bench_function(BenchmarkId::new("one tier", length), |b| {
            b.iter(|| one.match_prefix(Ints::I64(&key), &namespace(), None).expect("valid input"));
        });
        group.bench_function(BenchmarkId::new("two tiers", length), |b| {
            b.iter(|| two.match_prefix(Ints::I64(&key), &namespace(), None).expect("valid input"));
        });
        group.bench_function(BenchmarkId::new("two tiers, half on host alone", length), |b| {
            b.iter(|| low.match_prefix(Ints::I64(&key), &namespace(), None).expect("valid input"));
        });
    }
    group.finish();
}

/// From the insert to the frame that says that it is on host; then evicted from the device; then loaded back.
fn moving(c: &mut Criterion) {
    let mut group = c.benchmark_group("tiers");
    let length = 64 * PAGE as usize;
    group.throughput(Throughput::Elements(length as u64));
    group.bench_function("insert, back up, demote, load back: 64 pages", |b| {
        let key = tokens(7, length);
        b.iter_batched_ref(
            || Alone::new(64),
            |alone| {
                alone.insert(&key);
                alone.step(|cache| load_back(cache, &key));
                alone.step(|_| ());
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

fn load_back(cache: &mut TieredCache, key: &[i64]) {
    let mut freed = Vec::new();
    cache.evict(key.len() as u64, &mut freed).expect("built in");
    let found = cache.match_prefix(Ints::I64(key), &namespace(), None).expect("valid input");
    let lock = cache.host_lock(found.host_node).expect("alive");
    assert_eq!(cache.load_back(lock, Ints::I64(&freed)).expect("as many slots"), key.len() as u64);
}

/// A leader with 64 backups under way, one a step, on none of which a copy has ended.
fn busy() -> Alone {
    let mut alone = Alone::new(OPERATIONS * PAGES);
    let length = (PAGES * PAGE) as usize;
    for seed in 0..u64::from(OPERATIONS) {
        let (key, slots) = (tokens(seed << 32, length), slots(length));
        alone.enter();
        let cache = alone.rank.cache_mut();
        cache.insert(Ints::I64(&key), Ints::I64(&slots), &namespace(), 0, None).expect("valid input");
        alone.close();
        alone.rank.take_effects();
    }
    alone.enter();
    alone.close();
    assert_eq!(alone.rank.cache().operations().iter().count(), OPERATIONS as usize);
    alone
}

/// A leader stamps and applies a frame whose vote says something new about each of 64 operations, or nothing new.
fn applying(c: &mut Criterion) {
    let mut group = c.benchmark_group("lead: stamp and apply, 64 live operations");
    for (name, news) in [("a new vote, nothing new in it", false), ("progress of each", true)] {
        group.bench_function(name, |b| {
            let (mut alone, mut progress) = (busy(), 0);
            b.iter_custom(|rounds| {
                let mut spent = Duration::ZERO;
                for _ in 0..rounds {
                    if progress == u64::from(PAGES * PAGE) {
                        (alone, progress) = (busy(), 0);
                    }
                    if news {
                        progress += 1;
                        for k in 0..u64::from(OPERATIONS) {
                            alone.board.post_progress(Ordinal(k), PerRank::observe(progress)).expect("issued");
                        }
                    }
                    let newest = alone.vote();
                    let begin = Instant::now();
                    let frame = alone.rank.lead(&mut alone.board, Some(&newest), PerRank::observe(0), &[]);
                    spent += begin.elapsed();
                    frame.expect("alone");
                    alone.close();
                }
                spent
            });
        });
    }
    group.finish();
}

criterion_group!(benches, matching, moving, applying);
criterion_main!(benches);
