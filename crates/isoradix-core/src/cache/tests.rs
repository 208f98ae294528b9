//! What needs a look inside; the cache as a whole is tested against a model in `tests/`.

use std::collections::BTreeMap;

use super::*;
use crate::events::{KvEvent, Tier};
use crate::testing::SplitMix64;

const PAGE: u32 = 2;

fn cache(eviction: &str) -> PrefixCache {
    let eviction = crate::Eviction::parse(eviction).expect("a known policy");
    PrefixCache::new(Config { page_size: PAGE, eviction, kv_events: true, ..Config::default() }).expect("a valid shape")
}

fn insert(cache: &mut PrefixCache, key: &[u32], namespace: &Namespace, priority: i64) -> Insert {
    cache.insert(Ints::U32(key), Ints::U32(key), namespace, priority, None).expect("valid input")
}

// ---- KV events

/// Published blocks of each tier with their parents, as a listener knows them.
#[derive(Debug, Default, PartialEq)]
struct Listener {
    blocks: BTreeMap<(Tier, i64), Option<i64>>,
}

impl Listener {
    fn hear(&mut self, events: Vec<KvEvent>) {
        for event in events {
            match event {
                KvEvent::Stored { tier, block_hashes, mut parent, token_ids, block_size, .. } => {
                    assert_eq!(token_ids.len(), block_hashes.len() * block_size as usize);
                    assert!(parent.is_none_or(|parent| self.blocks.contains_key(&(tier, parent))), "parents first");
                    for hash in block_hashes {
                        assert_eq!(self.blocks.insert((tier, hash), parent), None, "stored twice");
                        parent = Some(hash);
                    }
                }
                KvEvent::Removed { tier, block_hashes } => {
                    for hash in block_hashes {
                        self.blocks.remove(&(tier, hash)).expect("what is removed was stored");
                    }
                }
                KvEvent::Cleared => self.blocks.clear(),
            }
        }
    }

    /// Blocks of a tier.
    fn count(&self, tier: Tier) -> u64 {
        self.blocks.keys().filter(|(of, _)| *of == tier).count() as u64
    }
}

/// One random call.
fn stir(cache: &mut PrefixCache, random: &mut SplitMix64) {
    let namespace = if random.below(3) == 0 { Namespace::new(Some("lora"), None) } else { Namespace::default() };
    let key: Vec<u32> = (0..random.below(6)).flat_map(|_| [random.below(3); PAGE as usize]).collect();
    match random.below(60) {
        0 => {
            cache.reset();
        }
        1 => {
            cache.remove_namespace_from_tiers(&namespace, &mut vec![], &mut vec![]).expect("nothing is held");
        }
        40..60 => stir_tiers(cache, &key, &namespace, random),
        2..6 => {
            cache.evict(u64::from(random.below(9)), &mut vec![]).expect("a built-in policy");
        }
        6..16 => {
            cache.match_prefix(Ints::U32(&key), &namespace, None).expect("valid input");
        }
        _ => {
            insert(cache, &key, &namespace, 0);
        }
    }
}

/// One random call that moves something between the tiers.
fn stir_tiers(cache: &mut PrefixCache, key: &[u32], namespace: &Namespace, random: &mut SplitMix64) {
    let found = cache.match_prefix(Ints::U32(key), namespace, None).expect("valid input").node;
    match random.below(6) {
        0 => {
            cache.evict_from_host(random.below(4), &mut vec![]);
        }
        1 => {
            cache.give_up_copies(random.below(4), u64::MAX, &mut vec![]);
        }
        2 => {
            let units = cache.host_only_units(found).expect("a living node");
            let slots: Vec<i64> = (0..i64::try_from(units).expect("few")).collect();
            let lock = cache.load_back(found, Ints::I64(&slots)).expect("valid input");
            cache.unlock(lock).expect("it is out");
        }
        3 => {
            let pages: Vec<u32> = (0..cache.pages_of(cache.units_in(key))).collect();
            cache.insert_on_host(key, namespace, NodeHandle::ROOT, &pages, &[]);
        }
        _ => {
            // As one backup, after which a node may have been split: its pieces are told as the path they are.
            let path = cache.path_without_backup(found);
            let units = path.iter().map(|at| cache.info(*at).expect("a living node").length).sum();
            let pages: Vec<u32> = (0..cache.pages_of(units)).collect();
            if let Some(end) = path.last() {
                cache.backed(*end, &pages, &[]);
            }
        }
    }
}

/// The caches of the test below, one of each kind of order, with events.
fn orders() -> [fn() -> PrefixCache; 2] {
    let clean_first = || {
        PrefixCache::clean_first(Config { page_size: PAGE, kv_events: true, ..Config::default() })
            .expect("a valid shape")
    };
    [|| cache("lru"), clean_first]
}

#[test]
fn a_listener_knows_what_is_in_each_tier() {
    let mut seen = [[0; 2]; 2];
    for (made, told) in orders().into_iter().zip(&mut seen) {
        for seed in 0..60 {
            let (mut random, mut cache, mut listener) = (SplitMix64(seed), made(), Listener::default());
            for _ in 0..200 {
                stir(&mut cache, &mut random);
                cache.check().unwrap();
                listener.hear(cache.take_events());
                let TierSizes { device, host_total, .. } = cache.tier_sizes();
                for (count, (tier, units)) in
                    told.iter_mut().zip([(Tier::Device, device.total), (Tier::Host, host_total)])
                {
                    assert_eq!(listener.count(tier) * u64::from(PAGE), units, "{tier:?}");
                    *count += units;
                }
            }
        }
    }
    assert!(seen.as_flattened().iter().all(|units| *units > 10_000), "{seen:?}");
}

#[test]
fn a_listener_is_right_after_an_overflow() {
    let mut overflows = 0;
    for (seed, made) in (0..60).zip(orders().into_iter().cycle()) {
        let mut random = SplitMix64(seed);
        let (mut bounded, mut unbounded) = (made(), made());
        bounded.events = Some(EventLog::with_entries_max(40));
        let (mut short, mut full) = (Listener::default(), Listener::default());
        for _ in 0..200 {
            let mut same = SplitMix64(random.next());
            stir(&mut unbounded, &mut SplitMix64(same.0));
            stir(&mut bounded, &mut same);
            bounded.check().unwrap();
            full.hear(unbounded.take_events());
            if random.below(8) == 0 {
                let events = bounded.take_events();
                overflows += u32::from(events.len() > 1 && events[0] == KvEvent::Cleared);
                short.hear(events);
                assert_eq!(short, full);
            }
        }
        assert_eq!(bounded.decision_digest(), unbounded.decision_digest());
    }
    assert!(overflows > 100, "{overflows} overflows");
}

#[test]
fn what_an_overflow_dropped_is_announced_anew() {
    let mut cache = cache("lru");
    cache.events = Some(EventLog::with_entries_max(12));
    let namespace = Namespace::default();
    insert(&mut cache, &[1, 1, 2, 2], &namespace, 0);
    insert(&mut cache, &[1, 1, 3, 3], &namespace, 0);
    let told: Vec<(Vec<u32>, bool)> = cache
        .take_events()
        .into_iter()
        .map(|event| match event {
            KvEvent::Stored { token_ids, parent, .. } => (token_ids, parent.is_some()),
            _ => (vec![], false),
        })
        .collect();
    // 1 + 2 + 4 entries, then 1 + 1 + 2, then one too many.
    assert_eq!(told, [(vec![1, 1, 2, 2], false), (vec![3, 3], true)]);
    insert(&mut cache, &[1, 1, 4, 4], &namespace, 0);
    insert(&mut cache, &[1, 1, 5, 5], &namespace, 0);
    insert(&mut cache, &[1, 1, 6, 6], &namespace, 0);
    insert(&mut cache, &[1, 1, 7, 7], &namespace, 0);
    let events = cache.take_events();
    assert_eq!(events[0], KvEvent::Cleared);
    assert_eq!(events.len(), 1 + 7, "the common page and six leaves");
    assert_eq!(cache.take_events(), [], "and once only");
}

#[test]
fn a_reset_ends_an_overflow() {
    let mut cache = cache("lru");
    cache.events = Some(EventLog::with_entries_max(4));
    insert(&mut cache, &[1, 1, 2, 2], &Namespace::default(), 0);
    cache.reset();
    assert_eq!(cache.take_events(), [KvEvent::Cleared]);
    assert_eq!(cache.take_events(), []);
}

#[test]
fn removed_blocks_count_as_pending() {
    let mut cache = cache("lru");
    cache.events = Some(EventLog::with_entries_max(20));
    for leaf in 0..200 {
        insert(&mut cache, &[leaf, leaf], &Namespace::default(), 0);
        cache.take_events();
    }
    cache.evict(u64::MAX, &mut vec![]).unwrap();
    assert_eq!(cache.take_events(), [KvEvent::Cleared]);
}

// ---- priorities

#[test]
fn the_priority_of_what_never_had_one_is_not_shown() {
    for priority in [-5, 0, 5, i64::MIN] {
        let mut cache = cache("priority");
        let namespace = Namespace::new(Some("lora"), None);
        let shown = |cache: &PrefixCache, node| cache.info(node).expect("a living node").priority;
        assert_eq!(shown(&cache, NodeHandle::ROOT), 0);
        let end = insert(&mut cache, &[1, 1, 2, 2], &namespace, priority).node;
        let head = cache.match_prefix(Ints::U32(&[1, 1]), &namespace, None).expect("valid input").node;
        assert_eq!((shown(&cache, end), shown(&cache, head)), (priority, priority));
        let miss = cache.match_prefix(Ints::U32(&[7, 7]), &namespace, None).expect("valid input").node;
        assert_eq!(shown(&cache, miss), 0);
        insert(&mut cache, &[1, 1, 3, 3], &namespace, 9);
        assert_eq!((shown(&cache, end), shown(&cache, head)), (priority, 9));
    }
}

// ---- resuming

#[test]
fn a_resume_point_is_compared_over_a_window_at_its_end() {
    let key: Vec<u32> = (0..200).collect();
    let mut cache = cache("lru");
    let found = insert(&mut cache, &key, &Namespace::default(), 0);
    let resume = Some(Resume { node: found.node, length: found.length });
    for at in 0..200 {
        let mut other = key.clone();
        other[at] = 7_777;
        let answer = cache.match_prefix(Ints::U32(&other), &Namespace::default(), resume);
        assert_eq!(answer.is_ok(), at < 200 - RESUME_WINDOW, "token {at}");
    }
}

#[test]
fn a_window_is_no_longer_than_its_node_and_takes_in_the_token_before() {
    let mut cache =
        PrefixCache::new(Config { page_size: PAGE, bigram: true, ..Config::default() }).expect("a valid shape");
    let key: Vec<u32> = (0..9).collect();
    let namespace = Namespace::default();
    insert(&mut cache, &key[..5], &namespace, 0);
    let end = cache.insert(Ints::U32(&key), Ints::U32(&key), &namespace, 0, None).expect("valid input");
    let resume = Some(Resume { node: end.node, length: end.length });
    for at in 0..9 {
        let mut other = key.clone();
        other[at] = 7_777;
        let answer = cache.match_prefix(Ints::U32(&other), &namespace, resume);
        assert_eq!(answer.is_ok(), at < 4, "token {at}");
    }
}

// ---- looking

#[test]
fn debug_forms_are_short() {
    let config = Config { page_size: PAGE, eviction: crate::Eviction::parse("slru:3").unwrap(), ..Config::default() };
    let expected = "Config { page_size: 2, eviction: Eviction(\"slru:3\"), bigram: false, journal_records: 4096, \
                    kv_events: false }";
    assert_eq!(format!("{config:?}"), expected);
    let mut cache = PrefixCache::new(config).unwrap();
    insert(&mut cache, &[1, 1], &Namespace::default(), 0);
    let expected = "PrefixCache { page_size: 2, policy: \"slru:3\", bigram: false, sizes: Sizes { total: 2, protected: 0, \
                    pinned: 0, evictable: 2 }, nodes: 1, .. }";
    assert_eq!(format!("{cache:?}"), expected);
}

#[test]
fn receipts_namespaces_and_block_hashes_take_memory() {
    let mut cache = cache("lru");
    let node = insert(&mut cache, &[1, 1], &Namespace::default(), 0).node;
    let before = cache.memory_bytes();
    for _ in 0..100 {
        cache.lock(node).expect("a living node");
    }
    assert!(cache.memory_bytes() - before >= 1_600);
    let (name, before) = ("x".repeat(1_000), cache.memory_bytes());
    insert(&mut cache, &[1, 1], &Namespace::new(Some(&name), None), 0);
    assert!(cache.memory_bytes() - before >= 2_000);
    let long: Vec<u32> = (0..2_000).collect();
    let [with, without] = [true, false].map(|kv_events| {
        let mut cache = PrefixCache::new(Config { page_size: PAGE, kv_events, ..Config::default() }).unwrap();
        insert(&mut cache, &long, &Namespace::default(), 0);
        cache.memory_bytes()
    });
    assert!(with - without >= 1_000 * 32 + 3_000 * 8, "{with} {without}: blocks, and a pending event");
}

/// Reserved bytes a token after 100 runs of 5,000 tokens in pages of one, with slots that `slot` gives.
fn bytes_per_token(slot: impl Fn(i64) -> i64) -> u64 {
    let (mut cache, mut random) = (PrefixCache::new(Config::default()).unwrap(), SplitMix64(1));
    for run in 0..100 {
        let key: Vec<u32> = (0..5_000).map(|_| random.below(1 << 30)).collect();
        let slots: Vec<i64> = (0..5_000).map(|at| slot(run * 5_000 + at)).collect();
        cache.insert(Ints::U32(&key), Ints::I64(&slots), &Namespace::default(), 0, None).unwrap();
    }
    cache.memory_bytes() / 500_000
}

#[test]
fn slots_that_count_up_take_next_to_no_memory() {
    assert!(bytes_per_token(|at| at) < 6);
    assert!((8..13).contains(&bytes_per_token(|at| at ^ 1)), "the spill is a slab that doubles");
}
