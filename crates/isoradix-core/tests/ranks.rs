//! Ranks with two tiers, step by step: what operations do to the tree and to the pages, and that every rank does the same.

#[path = "ranks/aborting.rs"]
mod aborting;
#[path = "ranks/attaching.rs"]
mod attaching;
#[path = "ranks/cluster.rs"]
mod cluster;
#[path = "ranks/hits.rs"]
mod hits;
#[path = "ranks/modes.rs"]
mod modes;
#[path = "common/random.rs"]
mod random;
#[path = "ranks/storage.rs"]
mod storage;
#[path = "ranks/switching.rs"]
mod switching;
#[path = "ranks/totals.rs"]
mod totals;
#[path = "ranks/trailing.rs"]
mod trailing;

use cluster::{Cluster, NO_POOL, Setup, Station, ns};
use isoradix_core::operation::{Kind, Operation};
use isoradix_core::protocol::Control;
use isoradix_core::{Ints, NodeHandle, Ordinal, PerRank, PrefetchState, RecordKind, TieredCache, Tiers, Writing};
use random::Random;

fn tokens(range: std::ops::Range<u32>) -> Vec<u32> {
    range.collect()
}

fn k(ordinal: u64) -> Ordinal {
    Ordinal(ordinal)
}

/// Operations under way, by kind.
fn kinds(cache: &TieredCache) -> Vec<Kind> {
    cache.operations().iter().map(Operation::kind).collect()
}

fn on_host(cluster: &mut Cluster) -> u64 {
    cluster.all(|station| station.rank.cache().sizes().host_total)
}

/// A node is split while its backup is pending.
#[test]
fn a_backup_covers_both_halves_of_a_node_that_is_split_meanwhile() {
    let mut cluster = Cluster::new(&Setup::of_pages(1, 1000, 1000, 2));
    cluster.step(&[], |station| station.insert(&tokens(0..375)));
    assert!(cluster.stations.iter().all(|station| station.started[&k(0)].pages.len() == 375));
    cluster.step(&[], |station| assert_eq!(station.find(&tokens(0..374)).hit_tokens, 374));
    assert_eq!(cluster.all(|station| station.rank.cache().cache().num_nodes()), 2);
    assert_eq!(on_host(&mut cluster), 0);
    cluster.settle();
    assert_eq!(on_host(&mut cluster), 375);
    cluster.assert_quiet();
}

/// Nothing to release, nothing happens.
#[test]
fn a_release_of_no_pages_leaves_no_trace() {
    let mut cluster = Cluster::new(&Setup::of_pages(1, 100, 100, 2));
    cluster.step(&[], |station| {
        let before = station.rank.digest();
        assert_eq!(station.cache().evict_host(7), 0);
        assert_eq!(station.rank.digest(), before);
    });
    assert_eq!(cluster.all(|station| station.rank.cache().operations().issued()), 0);
    assert_eq!(cluster.all(|station| station.started.len() + station.queried.len() + station.cancelled.len()), 0);
}

/// What a match promises is there until it is loaded, or nothing is.
#[test]
fn a_promise_on_host_outlives_eviction_and_is_loaded_whole() {
    let length = 257_024_u64;
    let key = tokens(0..u32::try_from(length).unwrap());
    let pages = u32::try_from(length / 64).unwrap();
    let mut cluster = Cluster::new(&Setup::of_pages(64, length, pages, 2));
    cluster.step(&[], |station| station.insert(&key));
    cluster.settle();
    cluster.step(&[], |station| {
        station.evict_all();
        let found = station.find(&key);
        assert_eq!((found.hit_tokens, found.host_tokens), (0, length));
        let receipt = station.cache().host_lock(found.host_node).unwrap();
        assert_eq!(station.cache().evict_host(1), 0, "the promise is locked");
        assert_eq!(station.cache().load_back_need(receipt).unwrap(), length);
        let slots = station.slots(length);
        let short = &slots[..slots.len() - 1];
        let refused = station.cache().load_back(receipt, Ints::I64(short)).unwrap_err();
        assert!(refused.to_string().starts_with("slots has length 257023, expected 257024"), "{refused}");
        assert_eq!(station.find(&key).hit_tokens, 0, "none of it");
        assert_eq!(station.cache().load_back(receipt, Ints::I64(&slots)).unwrap(), length);
        assert_eq!(station.find(&key).hit_tokens, length, "all of it");
    });
    cluster.settle();
    cluster.assert_quiet();
    // Without a promise it is gone, and the match says so.
    cluster.step(&[], |station| {
        station.evict_all();
        assert_eq!(station.cache().evict_host(1), pages);
        assert_eq!(station.find(&key).host_tokens, 0);
    });
}

/// A lookup pins, and nothing is retrieved; however the request ends, nothing stays pinned.
#[test]
fn a_promise_that_is_not_taken_up_is_given_back() {
    let mut cluster = Cluster::new(&Setup::of_pages(1, 2000, 2000, 2));
    cluster.step(&[], |station| station.insert(&tokens(0..1000)));
    cluster.settle();
    cluster.step(&[], |station| {
        station.evict_all();
        let found = station.find(&tokens(0..1000));
        assert_eq!(found.host_tokens, 1000);
        let receipt = station.cache().host_lock(found.host_node).unwrap();
        station.cache().unlock_host(receipt).unwrap();
        assert!(station.cache().unlock_host(receipt).is_err(), "once");
    });
    cluster.assert_quiet();
    cluster.step(&[], |station| assert_eq!(station.cache().evict_host(1), 1000));
}

/// A second load on top of one that is under way.
#[test]
fn a_second_load_brings_only_what_the_first_has_not() {
    let mut cluster = Cluster::new(&Setup::of_pages(1, 100, 100, 2));
    cluster.step(&[], |station| station.insert(&tokens(0..40)));
    cluster.settle();
    cluster.step(&[], |station| {
        station.evict_all();
        let first = station.find(&tokens(0..20));
        assert_eq!(station.load(first), 20);
    });
    assert!(cluster.stations.iter().all(|station| station.started[&k(1)].slots.len() == 20));
    cluster.step(&[], |station| {
        let second = station.find(&tokens(0..40));
        assert_eq!((second.hit_tokens, second.host_tokens), (20, 20));
        assert_eq!(station.load(second), 20);
    });
    for station in &cluster.stations {
        let (first, second) = (&station.started[&k(1)], &station.started[&k(2)]);
        assert_eq!(second.slots.len(), 20);
        assert!(first.slots.iter().all(|slot| !second.slots.contains(slot)), "each slot is loaded once");
        assert!(first.pages.iter().all(|page| !second.pages.contains(page)), "each page once");
    }
    cluster.end(k(2));
    cluster.settle();
    assert_eq!(cluster.all(|station| station.find(&tokens(0..40)).hit_tokens), 40);
    cluster.assert_quiet();
}

/// A child comes to host only with its parent, or after it.
#[test]
fn nothing_is_on_host_below_what_is_not() {
    let mut setup = Setup::of_pages(1, 100, 100, 2);
    setup.tiers.writing = Writing::Through { hits: 2 };
    let mut cluster = Cluster::new(&setup);
    cluster.step(&[], |station| station.insert(&tokens(0..10)));
    assert_eq!(cluster.all(|station| station.started.len()), 0, "the first hit of two");
    cluster.step(&[], |station| station.insert(&tokens(0..20)));
    assert!(cluster.stations.iter().all(|station| station.started[&k(0)].pages.len() == 10), "the parent alone");
    // The child has its hits, and its parent is still on the way: it waits.
    cluster.step(&[], |station| station.insert(&tokens(0..20)));
    assert_eq!(cluster.all(|station| station.rank.cache().operations().issued()), 1);
    cluster.end(k(0));
    cluster.vote();
    cluster.step(&[], |_| ());
    assert_eq!(on_host(&mut cluster), 10);
    assert!(cluster.stations.iter().all(|station| station.started[&k(1)].pages.len() == 10), "now the child");
    cluster.settle();
    assert_eq!(on_host(&mut cluster), 20);
    cluster.assert_quiet();
}

/// A parent that fails takes its children with it.
#[test]
fn a_failed_backup_leaves_parent_and_child_where_they_are() {
    let mut cluster = Cluster::new(&Setup::of_pages(1, 100, 100, 3));
    cluster.step(&[], |station| station.insert(&tokens(0..10)));
    cluster.step(&[], |station| station.insert(&tokens(0..20)));
    for (rank, station) in cluster.stations.iter_mut().enumerate() {
        station.end(k(0), rank != 1);
    }
    cluster.vote();
    cluster.step(&[], |_| ());
    assert_eq!(on_host(&mut cluster), 0);
    assert_eq!(cluster.all(|station| station.cancelled.len()), 1);
    // The watermark was in the same vote: the pages are back, and both nodes are tried together.
    assert!(cluster.stations.iter().all(|station| station.started[&k(1)].pages.len() == 20));
    cluster.settle();
    assert_eq!(on_host(&mut cluster), 20);
    cluster.assert_quiet();
}

/// The stage with the larger tokens sets the capacity of all.
#[test]
fn the_capacity_is_that_of_the_smallest_pool() {
    let pages = [12_464, 13_120].map(|bytes_per_token| {
        let tokens = isoradix_core::host::capacity_tokens(100_000_000_000, bytes_per_token, 64).unwrap();
        u32::try_from(tokens / 64).unwrap()
    });
    let setup = Setup { host: pages.to_vec(), ..Setup::of_pages(64, 6400, 0, 2) };
    let mut cluster = Cluster::new(&setup);
    let capacity = cluster.all(|station| u64::from(station.rank.cache().host().ledger().capacity()) * 64);
    assert_eq!(capacity, 7_621_952);
    cluster.step(&[], |_| ());
    cluster.vote();
    cluster.step(&[], |_| ());
    let capacity = cluster.all(|station| u64::from(station.rank.cache().host().ledger().capacity()) * 64);
    assert_eq!(capacity, 7_621_952, "the larger pool raises nothing");
}

/// One rank's host allocation fails.
#[test]
fn a_rank_that_cannot_reserve_keeps_a_node_from_host_everywhere() {
    let mut cluster = Cluster::new(&Setup::of_pages(1, 100, 50, 2));
    let lost = cluster.stations[1].rank.withdraw(PerRank::observe(50)).unwrap();
    drop(lost);
    cluster.step(&[], |station| station.insert(&tokens(0..10)));
    assert_eq!(cluster.stations[0].started.len(), 1, "rank 0 runs ahead");
    assert_eq!(cluster.stations[1].started.len(), 0, "rank 1 has nothing to copy to");
    cluster.settle();
    assert_eq!(on_host(&mut cluster), 0);
    assert_eq!(cluster.all(|station| station.votes.vote()), 6, "both voted equally often");
    assert_eq!(cluster.all(|station| station.rank.cache().host().ledger().capacity()), 0, "no more than all can back");
    cluster.assert_quiet();
    drop(cluster.stations[1].rank.restore(PerRank::observe(50)));
    cluster.step(&[], |_| ());
    cluster.vote();
    cluster.step(&[], |station| station.insert(&tokens(0..10)));
    cluster.settle();
    assert_eq!(on_host(&mut cluster), 10);
}

/// A rank without a pool copies nothing and holds nobody back, and its tree is that of the others.
#[test]
fn a_rank_without_a_pool_has_no_say_and_the_same_tree() {
    for without in 0..3 {
        let mut setup = with_storage(4);
        setup.host = vec![30, 20, 25];
        setup.host[without] = NO_POOL;
        let mut cluster = Cluster::new(&setup);
        let capacity = setup.host.iter().copied().min();
        assert_eq!(Some(cluster.all(|station| station.rank.cache().host().ledger().capacity())), capacity);
        cluster.step(&[], |station| station.insert(&tokens(0..40)));
        cluster.settle();
        assert_eq!(on_host(&mut cluster), 40);
        cluster.step(&[], |station| {
            station.evict_all();
            let found = station.find(&tokens(0..40));
            assert_eq!(station.load(found), 40);
            assert!(station.cache().prefetch(Ints::U32(&tokens(200..232)), &ns(), NodeHandle::ROOT).unwrap().is_some());
        });
        for (rank, station) in cluster.stations.iter_mut().enumerate() {
            assert_eq!(station.queried.len() + station.started.len(), if rank == without { 0 } else { 2 });
            if rank != without {
                let k = station.queried[0];
                station.rank.found(&mut station.board, k, PerRank::observe(if rank == 2 { 12 } else { 32 })).unwrap();
                station.take_effects();
            }
        }
        cluster.settle();
        let least = if without == 2 { 32 } else { 12 };
        assert_eq!(on_host(&mut cluster), 40 + least, "its own copies are all that every other rank has found");
        cluster.assert_quiet();
    }
}

#[test]
fn ranks_without_any_pool_go_on_without_a_host_tier() {
    let mut cluster = Cluster::new(&Setup { host: vec![NO_POOL; 2], ..with_storage(4) });
    cluster.step(&[], |station| station.insert(&tokens(0..40)));
    cluster.settle();
    assert_eq!(cluster.all(|station| station.rank.cache().operations().issued()), 0);
    assert_eq!(cluster.all(|station| station.cache().evict(40, &mut vec![]).unwrap().demoted), 0);
}

/// A rank fails after all have said that they were ready.
#[test]
fn what_was_agreed_is_taken_and_a_later_failure_changes_nothing() {
    let mut cluster = Cluster::new(&Setup::of_pages(1, 100, 50, 2));
    cluster.step(&[], |station| station.insert(&tokens(0..10)));
    cluster.end(k(0));
    cluster.vote();
    cluster.stations[1].board.post_ready(k(0), PerRank::observe(false)).unwrap();
    cluster.step(&[], |_| ());
    assert_eq!(on_host(&mut cluster), 10);
    cluster.vote();
    cluster.step(&[], |_| ());
    assert_eq!(on_host(&mut cluster), 10);
    cluster.assert_quiet();
}

/// All ranks are said to have ended an operation that this rank never issued.
#[test]
fn an_agreed_count_above_an_empty_queue_is_named_and_nothing_is_popped() {
    let mut cluster = Cluster::new(&Setup::of_pages(1, 100, 50, 2));
    cluster.step(&[], |_| ());
    // Rank 1's scheduler misses the request that rank 0 serves.
    cluster.enter(&[]).into_iter().for_each(|entered| entered.unwrap());
    cluster.stations[0].insert(&tokens(0..10));
    for station in &mut cluster.stations {
        station.rank.close_step(&mut station.board, 0).unwrap();
    }
    let before = cluster.stations[1].rank.cache().operations().clone();
    let entered = cluster.enter(&[]).pop().unwrap();
    let message = entered.unwrap_err().to_string();
    assert!(message.contains("rank 1") && message.contains("digest"), "{message}");
    assert_eq!(*cluster.stations[1].rank.cache().operations(), before);
}

fn with_storage(prefetch_min: u64) -> Setup {
    let mut setup = Setup::of_pages(4, 400, 100, 2);
    setup.tiers = Tiers { storage: true, prefetch_min, load_back_min: 1, ..Tiers::default() };
    setup
}

#[test]
fn a_prefetch_brings_what_every_rank_has_found() {
    let mut cluster = Cluster::new(&with_storage(4));
    let key = tokens(0..43);
    cluster.step(&[], |station| {
        let ticket = station.cache().prefetch(Ints::U32(&key), &ns(), NodeHandle::ROOT).unwrap();
        assert_eq!(station.cache().prefetch_state(ticket.unwrap()), PrefetchState::Wished);
    });
    for (station, units) in cluster.stations.iter_mut().zip([40, 30]) {
        assert_eq!(station.queried, [k(0)]);
        station.rank.found(&mut station.board, k(0), PerRank::observe(units)).unwrap();
        for effect in station.rank.take_effects() {
            if let isoradix_core::Effect::Start(transfer) = effect {
                station.started.insert(k(0), transfer);
            }
        }
    }
    assert_eq!(cluster.stations.iter().map(|station| station.started[&k(0)].pages.len()).collect::<Vec<_>>(), [10, 7]);
    cluster.settle();
    assert_eq!(on_host(&mut cluster), 28);
    cluster.step(&[], |station| {
        let found = station.find(&key);
        assert_eq!((found.hit_tokens, found.host_tokens), (0, 28));
        assert_eq!(station.load(found), 28);
    });
    cluster.settle();
    cluster.assert_quiet();
}

#[test]
fn a_prefetch_that_is_late_is_ended_by_the_leader_and_keeps_what_has_arrived() {
    let mut cluster = Cluster::new(&with_storage(4));
    let key = tokens(0..40);
    cluster.step(&[], |station| {
        let ticket = station.cache().prefetch(Ints::U32(&key), &ns(), NodeHandle::ROOT).unwrap();
        station.cache().poll_prefetch(ticket.unwrap());
    });
    for station in &mut cluster.stations {
        station.rank.found(&mut station.board, k(0), PerRank::observe(40)).unwrap();
        station.board.post_progress(k(0), PerRank::observe(18)).unwrap();
    }
    cluster.vote();
    cluster.step(&[], |_| ());
    cluster.now_ms += 2_000;
    cluster.step(&[], |_| ());
    assert_eq!(on_host(&mut cluster), 0, "the deadline is seen in this frame, and acted upon in the next");
    cluster.step(&[], |_| ());
    assert_eq!(on_host(&mut cluster), 16, "whole pages of what has arrived");
    assert_eq!(cluster.all(|station| station.cancelled.clone()), [k(0)]);
    assert_eq!(cluster.all(|station| station.rank.cache().host().ledger().occupied()), 10, "the rest drains");
    cluster.settle();
    assert_eq!(cluster.all(|station| station.rank.cache().host().ledger().occupied()), 4);
    cluster.assert_quiet();
}

#[test]
fn backups_go_on_to_storage_and_hold_their_pages_meanwhile() {
    let mut cluster = Cluster::new(&with_storage(4));
    cluster.step(&[], |station| station.insert(&tokens(0..20)));
    cluster.end(k(0));
    cluster.vote();
    cluster.step(&[], |_| ());
    for station in &cluster.stations {
        let store = &station.started[&k(1)];
        assert_eq!((store.kind, store.pages.len(), store.stored[0].key.len()), (Kind::Store, 5, 20));
    }
    cluster.step(&[], |station| {
        station.evict_all();
        assert_eq!(station.cache().evict_host(1), 0, "a copy reads it");
    });
    cluster.settle();
    cluster.step(&[], |station| assert_eq!(station.cache().evict_host(1), 5));
    cluster.assert_quiet();
}

#[test]
fn a_reset_frees_what_copies_touch_only_when_they_have_ended() {
    let mut cluster = Cluster::new(&Setup::of_pages(1, 100, 50, 2));
    cluster.step(&[], |station| station.insert(&tokens(0..10)));
    cluster.step(&[], |station| {
        station.insert(&tokens(100..105));
        let mut free = Vec::new();
        assert_eq!(station.cache().reset(&mut free), 15);
        assert_eq!(free.len(), 5, "the ten that are being backed up stay");
        station.device.free(Ints::I64(&free)).unwrap();
    });
    assert_eq!(cluster.all(|station| station.device.available()), 90);
    let digest = cluster.all(|station| station.rank.digest());
    cluster.settle();
    assert_ne!(cluster.all(|station| station.rank.digest()), digest);
    assert_eq!(cluster.all(|station| station.device.available()), 100);
    assert_eq!(cluster.all(|station| station.rank.cache().host().ledger().occupied()), 0);
    cluster.assert_quiet();
}

/// What was promised and is not allotted yet stays free or evictable, though backups lock what they read; they are made later.
#[test]
fn backups_wait_for_what_was_promised() {
    let mut cluster = Cluster::new(&Setup::of_pages(1, 40, 100, 2));
    let obtainable = |station: &mut Station| station.device.available() + station.rank.cache().sizes().device.evictable;
    cluster.promised = 25;
    cluster.step(&[], |station| {
        station.insert(&tokens(0..10));
        station.insert(&tokens(100..110));
        station.insert(&[&tokens(0..10)[..], &[7; 5]].concat());
    });
    assert_eq!(cluster.all(|station| station.started[&k(0)].pages.len()), 15, "of one path; ten more would leave 15");
    assert_eq!(cluster.all(obtainable), 25);
    cluster.promised = 41;
    cluster.settle();
    assert_eq!(on_host(&mut cluster), 15, "what cannot be kept is not made worse");
    cluster.promised = 0;
    cluster.settle();
    assert_eq!(on_host(&mut cluster), 25);
    cluster.assert_quiet();
}

#[test]
fn write_back_cleans_the_oldest_before_the_device_is_full() {
    let mut setup = Setup::of_pages(1, 40, 100, 2);
    setup.tiers.writing = Writing::Back { low_water: 20 };
    let mut cluster = Cluster::new(&setup);
    cluster.step(&[], |station| station.insert(&tokens(0..10)));
    cluster.step(&[], |station| station.insert(&tokens(100..110)));
    assert_eq!(cluster.all(|station| station.rank.cache().operations().issued()), 0, "20 are free");
    cluster.step(&[], |station| station.insert(&tokens(200..205)));
    assert!(cluster.stations.iter().all(|station| station.started[&k(0)].pages.len() == 10), "the oldest");
    cluster.settle();
    assert_eq!(on_host(&mut cluster), 10);
    let evicted = cluster.all(|station| {
        let mut freed = Vec::new();
        station.cache().evict(20, &mut freed).unwrap()
    });
    assert_eq!((evicted.freed, evicted.demoted, evicted.dropped_dirty), (20, 10, 10));
}

#[test]
fn write_back_gives_up_copies_of_what_runs_before_it_evicts_from_host() {
    let mut setup = Setup::of_pages(1, 28, 20, 2);
    setup.tiers.writing = Writing::Back { low_water: 20 };
    let mut cluster = Cluster::new(&setup);
    cluster.step(&[], |station| station.insert(&tokens(0..8)));
    cluster.step(&[], |station| station.insert(&tokens(100..112)));
    cluster.settle();
    assert_eq!(on_host(&mut cluster), 20, "host is full");
    let running = cluster.all(|station| {
        let node = station.find(&tokens(100..112)).node;
        station.cache().lock(node).unwrap()
    });
    cluster.step(&[], |station| station.insert(&tokens(200..210)));
    cluster.settle();
    let totals = cluster.all(|station| station.rank.cache().totals());
    assert_eq!((totals.reclaimed_tokens, totals.host_evicted_tokens, totals.dropped_dirty_tokens), (12, 0, 0));
    let records = cluster.stations[0].rank.cache().cache().journal();
    assert!(records.iter().any(|record| record.kind == RecordKind::GiveUp && record.a == 12));
    cluster.all(|station| station.cache().unlock(running).unwrap());
    cluster.assert_quiet();
}

#[test]
fn what_is_loaded_back_stays_on_host_until_no_rank_reads_it() {
    let mut setup = Setup::of_pages(1, 28, 12, 2);
    setup.tiers.writing = Writing::Back { low_water: 28 };
    let mut cluster = Cluster::new(&setup);
    cluster.step(&[], |station| station.insert(&tokens(0..12)));
    cluster.settle();
    cluster.step(&[], |station| {
        station.evict_all();
        station.insert(&tokens(100..112));
        let found = station.find(&tokens(0..12));
        assert_eq!(station.load(found), 12);
    });
    let loaded = |station: &mut cluster::Station| {
        let found = station.find(&tokens(0..12));
        station.rank.cache().is_on_host(found.node).unwrap()
    };
    let running = cluster.all(|station| {
        let node = station.find(&tokens(0..12)).node;
        station.cache().lock(node).unwrap()
    });
    let load = *cluster.stations[0].started.keys().last().unwrap();
    for ended in 0..2 {
        cluster.vote();
        cluster.step(&[], |_| ());
        assert!(cluster.all(loaded), "{ended} of two ranks have ended");
        cluster.stations[ended].end(load, true);
    }
    cluster.settle();
    assert!(!cluster.all(loaded), "it makes room for what is only on the device");
    assert_eq!(on_host(&mut cluster), 12);
    cluster.all(|station| station.cache().unlock(running).unwrap());
    cluster.assert_quiet();
}

#[test]
fn an_aborted_backup_drains_before_its_pages_are_free() {
    let mut cluster = Cluster::new(&Setup::of_pages(1, 100, 10, 2));
    cluster.step(&[], |station| station.insert(&tokens(0..10)));
    cluster.step(&[Control::Abort(k(0))], |_| ());
    assert_eq!(cluster.all(|station| station.rank.cache().host().ledger().occupied()), 10);
    cluster.stations[0].board.finish(k(0)).unwrap();
    cluster.vote();
    cluster.step(&[], |_| ());
    assert_eq!(cluster.all(|station| station.rank.cache().host().ledger().occupied()), 10, "rank 1's copy is on them");
    cluster.stations[1].board.finish(k(0)).unwrap();
    cluster.vote();
    cluster.step(&[], |_| ());
    assert_eq!(cluster.all(|station| station.rank.cache().host().ledger().occupied()), 0);
    cluster.stations.iter_mut().for_each(|station| station.cancelled.clear());
    cluster.assert_quiet();
}

impl Random {
    /// A short key over few tokens, so that keys share prefixes.
    fn key(&mut self) -> Vec<u32> {
        (0..=self.below(12)).map(|at| if at % 4 == 3 { u32::try_from(self.below(3)).unwrap() } else { 7 }).collect()
    }
}

fn wander(policy: &'static str, writing: Writing, seed: u64) {
    let mut setup = Setup::of_pages(1, 40, 30, 2);
    if seed.is_multiple_of(3) {
        setup.host.push(NO_POOL);
    }
    (setup.policy, setup.tiers.writing, setup.tiers.storage) = (policy, writing, seed.is_multiple_of(2));
    let (mut cluster, mut random) = (Cluster::new(&setup), Random(seed));
    for _ in 0..60 {
        let (key, what) = (random.key(), random.below(8));
        let lost = PerRank::observe(u32::try_from(random.below(30)).unwrap());
        drop(cluster.stations[1].rank.withdraw(lost).unwrap());
        cluster.step(&[], |station| match what {
            0..=2 => station.insert(&key),
            3 => drop(station.find(&key)),
            4 => {
                let found = station.find(&key);
                if found.host_tokens > 0 {
                    station.load(found);
                }
            }
            5 => station.evict_all(),
            6 => drop(station.cache().evict_host(5)),
            _ => {
                let found = station.find(&key);
                let receipt = station.cache().pin(found.host_node).unwrap();
                station.cache().evict_host(100);
                station.cache().unpin(receipt).unwrap();
            }
        });
        drop(cluster.stations[1].rank.restore(PerRank::observe(30)));
        if random.below(3) == 0 {
            cluster.settle();
        } else if random.below(2) == 0 {
            cluster.vote();
        }
    }
    cluster.settle();
    cluster.settle();
    cluster.assert_quiet();
}

#[test]
fn every_policy_keeps_its_order_over_two_tiers() {
    for policy in ["lru", "lfu", "fifo", "mru", "filo", "priority", "slru:2", "tlru:8,4"] {
        for seed in 0..12 {
            wander(policy, Writing::Through { hits: 1 }, seed);
            wander(policy, Writing::Back { low_water: 25 }, seed);
        }
    }
}

#[test]
fn what_is_not_on_host_is_not_locked_there_and_a_prefetch_hangs_on_its_own_path() {
    let mut cluster = Cluster::new(&with_storage(4));
    cluster.step(&[], |station| station.insert(&tokens(0..20)));
    cluster.step(&[], |station| {
        let found = station.find(&tokens(0..20));
        let refused = station.cache().host_lock(found.node).unwrap_err();
        assert!(refused.to_string().starts_with("node 1 is not on host\nhint: "), "{refused}");
        assert_eq!(station.cache().prefetch(Ints::U32(&tokens(0..40)), &ns(), found.node).unwrap(), None);
    });
    cluster.settle();
    cluster.step(&[], |station| {
        let anchor = station.find(&tokens(0..20)).host_node;
        let foreign = tokens(100..140);
        let before = station.rank.digest();
        let refused = station.cache().prefetch(Ints::U32(&foreign), &ns(), anchor).unwrap_err();
        assert!(refused.to_string().starts_with("resume point does not fit"), "{refused}");
        assert_eq!(station.rank.digest(), before);
    });
}

#[test]
fn what_cannot_fit_evicts_nothing_and_holds_back_nothing_else() {
    let mut cluster = Cluster::new(&Setup::of_pages(1, 400, 100, 2));
    cluster.step(&[], |station| station.insert(&tokens(0..90)));
    cluster.settle();
    cluster.step(&[], |station| {
        station.evict_all();
        station.insert(&tokens(1000..1150));
        station.insert(&tokens(2000..2005));
    });
    cluster.settle();
    let sizes = cluster.all(|station| station.rank.cache().sizes());
    assert_eq!((sizes.host_only, sizes.host_total), (90, 95), "150 cannot fit, 5 can");
    cluster.assert_quiet();
}

#[test]
fn cleaning_passes_over_what_is_larger_than_host() {
    let mut setup = Setup::of_pages(1, 400, 100, 2);
    setup.tiers.writing = Writing::Back { low_water: 400 };
    let mut cluster = Cluster::new(&setup);
    cluster.step(&[], |station| station.insert(&tokens(1000..1150)));
    cluster.step(&[], |station| station.insert(&tokens(0..9)));
    cluster.settle();
    assert_eq!(cluster.all(|station| station.rank.cache().sizes().clean), 9);
    cluster.assert_quiet();
}

#[test]
fn wishes_wait_once_while_a_backup_hangs() {
    let mut cluster = Cluster::new(&Setup::of_pages(1, 3000, 3000, 1));
    cluster.step(&[], |station| station.insert(&tokens(0..10)));
    // Nothing above ends, so everything below waits: 600 turns, each a node deeper.
    for end in 11..611 {
        cluster.enter(&[]).into_iter().for_each(|entered| entered.unwrap());
        let station = &mut cluster.stations[0];
        station.insert(&tokens(0..end));
        station.rank.close_step(&mut station.board, 0).unwrap();
    }
    assert_eq!(cluster.all(|station| station.rank.cache().operations().issued()), 1);
    cluster.end(k(0));
    cluster.settle();
    assert_eq!(on_host(&mut cluster), 610);
    cluster.assert_quiet();
}

#[test]
fn stores_have_their_turn_in_the_narrowest_window() {
    let mut setup = with_storage(4);
    setup.tiers.window = 1;
    let mut cluster = Cluster::new(&setup);
    let mut stored = 0;
    for turn in 0..10 {
        cluster.step(&[], |station| station.insert(&tokens(100 * turn..100 * turn + 8)));
        stored += u32::from(cluster.stations[0].started.values().any(|transfer| transfer.kind == Kind::Store));
        cluster.settle();
    }
    let records = cluster.stations[0].rank.cache().cache().journal();
    let stored = records.iter().filter(|record| record.kind == RecordKind::Stored).count() + stored as usize;
    assert!(stored >= 9, "{stored} of 10");
}

#[test]
fn a_decision_that_no_rank_could_apply_is_refused_before_the_step() {
    let mut cluster = Cluster::new(&Setup::of_pages(1, 100, 50, 2));
    cluster.step(&[], |station| station.insert(&tokens(0..10)));
    let digest = cluster.all(|station| station.rank.digest());
    for control in [Control::Abort(k(999)), Control::Terminate(k(0))] {
        let refused = cluster.enter(&[control]).remove(0).unwrap_err();
        assert!(!refused.is_fatal(), "{refused}");
        assert_eq!(cluster.all(|station| station.rank.digest()), digest);
    }
    cluster.settle();
    assert_eq!(on_host(&mut cluster), 10);
}

/// A backup locks what it reads. A scheduler that has counted on evicting it allots the slots first, with its loads under way.
#[test]
fn loads_begin_before_a_step_ends_and_lock_nothing_else() {
    let mut cluster = Cluster::new(&Setup::of_pages(1, 20, 50, 2));
    cluster.step(&[], |station| station.insert(&tokens(0..10)));
    cluster.settle();
    cluster.step(&[], Station::evict_all);
    cluster.enter(&[]).into_iter().for_each(|entered| entered.unwrap());
    for station in &mut cluster.stations {
        station.insert(&tokens(100..108));
        let found = station.find(&tokens(0..10));
        assert_eq!(station.load(found), 10);
        station.rank.begin_loads(&mut station.board).unwrap();
        let cache = station.rank.cache();
        assert_eq!(kinds(cache), [Kind::LoadBack]);
        assert_eq!(
            (cache.sizes().device.evictable, cache.sizes().device.protected),
            (8, 10),
            "what was inserted can still go"
        );
    }
    cluster.close();
    let station = &mut cluster.stations[0];
    assert_eq!(kinds(station.rank.cache()), [Kind::LoadBack, Kind::Backup], "each once");
    assert!(station.rank.begin_loads(&mut station.board).is_err(), "no step is open");
}

#[test]
fn a_step_that_is_open_is_closed_before_the_next() {
    let mut cluster = Cluster::new(&Setup::of_pages(1, 100, 50, 2));
    cluster.enter(&[]).into_iter().for_each(|entered| entered.unwrap());
    let refused = cluster.enter(&[]).remove(0).unwrap_err();
    assert!(refused.to_string().contains("the step before is not closed") && !refused.is_fatal(), "{refused}");
    cluster.close();
    let station = &mut cluster.stations[0];
    assert!(station.rank.close_step(&mut station.board, 0).is_err(), "once");
    assert!(station.rank.found(&mut station.board, k(7), PerRank::observe(3)).is_err(), "never issued");
}
