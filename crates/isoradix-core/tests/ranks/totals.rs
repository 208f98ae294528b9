//! What a tiered cache says it has done is what a naive count of its answers and operations comes to.

use crate::cluster::{Cluster, NO_POOL, Setup, Station, ns};
use crate::random::Random;
use isoradix_core::operation::{Event, Kind, State};
use isoradix_core::protocol::Control;
use isoradix_core::{Ints, NodeHandle, Ordinal, PerRank, TierTotals, Tiers, Writing};
use std::collections::BTreeMap;

fn totals(cluster: &mut Cluster) -> TierTotals {
    cluster.all(|station| station.rank.cache().totals())
}

/// What each rank is told to do in a step, and all that it was answered, in tokens.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Answers {
    /// Device slots that inserts and load-backs gave to the cache.
    given: u64,
    evicted: u64,
    demoted: u64,
    dropped_dirty: u64,
    host_evicted: u64,
    loaded: u64,
    declined: u64,
}

impl Answers {
    fn insert(&mut self, station: &mut Station, key: &[u32]) {
        self.make_room(station, key.len() as u64);
        let before = station.rank.cache().totals();
        let available = station.device.available();
        station.insert(key);
        assert_eq!(station.rank.cache().totals(), before, "an insert evicts nothing by itself");
        self.given += available - station.device.available();
    }

    fn load(&mut self, station: &mut Station, key: &[u32]) {
        let found = station.find(key);
        if found.host_tokens == 0 {
            return;
        }
        self.make_room(station, found.host_tokens);
        if station.device.available() < found.host_tokens {
            return;
        }
        let loaded = station.load(found);
        self.loaded += loaded;
        self.given += loaded;
        self.declined += u64::from(loaded == 0);
    }

    fn make_room(&mut self, station: &mut Station, tokens: u64) {
        if station.device.available() < tokens {
            self.evict(station, tokens - station.device.available());
        }
    }

    fn evict(&mut self, station: &mut Station, tokens: u64) {
        let mut freed = Vec::new();
        let done = station.cache().evict(tokens, &mut freed).unwrap();
        station.device.free(Ints::I64(&freed)).unwrap();
        self.evicted += freed.len() as u64;
        self.demoted += done.demoted;
        self.dropped_dirty += done.dropped_dirty;
    }

    fn evict_host(&mut self, station: &mut Station, pages: u32) {
        self.host_evicted += u64::from(station.cache().evict_host(pages));
    }
}

/// Every operation that was ever seen, with what it delivered.
type Seen = BTreeMap<Ordinal, (Kind, State, u64)>;

fn look(cluster: &Cluster, seen: &mut Seen) {
    for operation in cluster.stations[0].rank.cache().operations().iter() {
        let delivered = operation.delivered().map_or(0, |share| share.tokens);
        seen.insert(operation.ordinal(), (operation.kind(), operation.state(), delivered));
    }
}

fn key(random: &mut Random) -> Vec<u32> {
    (0..=random.below(12)).map(|at| if at % 4 == 3 { u32::try_from(random.below(3)).unwrap() } else { 7 }).collect()
}

/// Some rank is short of memory, storage has what it has, copies fail: whatever may happen in a step.
fn disturb(cluster: &mut Cluster, random: &mut Random) {
    let rank = usize::try_from(random.below(2)).unwrap();
    match random.below(6) {
        0 => drop(cluster.stations[rank].rank.withdraw(PerRank::observe(25)).unwrap()),
        1 => drop(cluster.stations[rank].rank.restore(PerRank::observe(25))),
        2 => cluster.now_ms += 20_000,
        _ => {}
    }
    for station in &mut cluster.stations {
        for k in std::mem::take(&mut station.queried) {
            station.rank.found(&mut station.board, k, PerRank::observe(random.below(20))).unwrap();
        }
        station.take_effects();
        let started: Vec<_> = station.started.iter().map(|(k, transfer)| (*k, transfer.kind)).collect();
        for (k, kind) in started {
            match random.below(8) {
                0 if kind != Kind::LoadBack => station.end(k, false),
                1 | 2 => station.end(k, true),
                _ => {}
            }
        }
    }
}

fn controls(cluster: &Cluster, random: &mut Random) -> Vec<Control> {
    let operations = cluster.stations[0].rank.cache().operations();
    let open: Vec<(Ordinal, Kind)> = operations
        .iter()
        .filter(|operation| operation.state().is_counting())
        .map(|operation| (operation.ordinal(), operation.kind()))
        .collect();
    match (open.first(), random.below(6)) {
        (Some((k, Kind::Prefetch)), 0) => vec![Control::Terminate(*k)],
        (Some((k, _)), 1) => vec![Control::Abort(*k)],
        _ => vec![],
    }
}

/// One run, all of whose answers are counted beside.
fn run(writing: Writing, seed: u64) -> TierTotals {
    let mut setup = Setup::of_pages(1, 40, 30, 2);
    if seed.is_multiple_of(3) {
        setup.host.push(NO_POOL);
    }
    setup.tiers = Tiers { writing, storage: true, load_back_min: 2, ..setup.tiers };
    let (mut cluster, mut random) = (Cluster::new(&setup), Random(seed));
    let (mut counted, mut seen) = (Answers::default(), Seen::new());
    for _ in 0..80 {
        let (key, what, tokens) = (key(&mut random), random.below(8), random.below(12));
        let before = counted;
        let decided = controls(&cluster, &mut random);
        cluster.enter(&decided).into_iter().for_each(|entered| entered.unwrap());
        look(&cluster, &mut seen);
        counted = cluster.all(|station| {
            let mut counted = before;
            match what {
                0..=2 => counted.insert(station, &key),
                3 => counted.load(station, &key),
                4 => {
                    let ticket = station.cache().prefetch(Ints::U32(&key), &ns(), NodeHandle::ROOT).unwrap();
                    counted.declined += u64::from(ticket.is_none());
                    ticket.map(|ticket| station.cache().poll_prefetch(ticket));
                }
                5 => counted.evict(station, tokens),
                6 => counted.evict_host(station, 5),
                _ => counted.make_room(station, 30),
            }
            counted
        });
        let at_close = |station: &mut Station| station.rank.cache().totals().host_evicted_tokens;
        let host_evicted = cluster.all(at_close);
        cluster.close();
        counted.host_evicted += cluster.all(at_close) - host_evicted;
        look(&cluster, &mut seen);
        disturb(&mut cluster, &mut random);
        if random.below(2) == 0 {
            cluster.vote();
        }
    }
    let host_evicted = totals(&mut cluster).host_evicted_tokens;
    for _ in 0..40 {
        settle(&mut cluster, &mut seen);
    }
    counted.host_evicted += totals(&mut cluster).host_evicted_tokens - host_evicted;
    compare(&mut cluster, counted, &seen);
    totals(&mut cluster)
}

fn settle(cluster: &mut Cluster, seen: &mut Seen) {
    for station in &mut cluster.stations {
        for k in std::mem::take(&mut station.queried) {
            station.rank.found(&mut station.board, k, PerRank::observe(0)).unwrap();
        }
        station.end_all();
    }
    cluster.vote();
    cluster.step(&[], |_| ());
    look(cluster, seen);
}

fn compare(cluster: &mut Cluster, counted: Answers, seen: &Seen) {
    let (totals, sizes) = (totals(cluster), cluster.all(|station| station.rank.cache().sizes()));
    assert_eq!(totals.evicted_tokens, counted.evicted);
    assert_eq!(totals.demoted_tokens, counted.demoted);
    assert_eq!(totals.dropped_dirty_tokens, counted.dropped_dirty);
    assert_eq!(totals.host_evicted_tokens, counted.host_evicted);
    assert_eq!(totals.loaded_back_tokens, counted.loaded, "every load-back has ended");
    assert_eq!(sizes.device.total, counted.given - totals.evicted_tokens);
    let gone = totals.host_evicted_tokens + totals.reclaimed_tokens;
    assert_eq!(sizes.host_total, totals.backed_up_tokens + totals.prefetched_tokens - gone);
    let delivered = |of| seen.values().filter(|(kind, ..)| *kind == of).map(|(.., tokens)| tokens).sum::<u64>();
    assert_eq!(totals.backed_up_tokens, delivered(Kind::Backup));
    assert_eq!(totals.stored_tokens, delivered(Kind::Store));
    assert!(totals.prefetched_tokens <= delivered(Kind::Prefetch), "some of it was there already");
    for kind in Kind::ALL {
        let count = |of| seen.values().filter(|(other, state, _)| (*other, *state) == (kind, of)).count() as u64;
        let (own, [done, aborted]) = (totals.of(kind), [State::Done, State::Aborted].map(count));
        let ended = Event::ENDINGS.iter().map(|reason| own.aborted(*reason)).sum::<u64>();
        assert_eq!((own.issued, own.done, ended), (done + aborted, done, aborted), "{kind:?}");
    }
    let declined = [Kind::LoadBack, Kind::Prefetch].map(|kind| totals.of(kind).declined).iter().sum::<u64>();
    assert!(declined >= counted.declined, "beside what a close declines");
}

#[test]
fn totals_are_what_the_answers_come_to() {
    let (mut reasons, mut reclaimed) = ([0; Event::ENDINGS.len()], 0);
    for seed in 0..60 {
        for writing in [Writing::Through { hits: 1 }, Writing::Back { low_water: 25 }] {
            let totals = run(writing, seed);
            let gives_up = matches!(writing, Writing::Back { .. });
            assert!(gives_up || totals.reclaimed_tokens == 0, "write-through gives up no copy");
            reclaimed += totals.reclaimed_tokens;
            for (sum, reason) in reasons.iter_mut().zip(Event::ENDINGS) {
                *sum += Kind::ALL.iter().map(|kind| totals.of(*kind).aborted(reason)).sum::<u64>();
            }
        }
    }
    assert!(reasons.iter().all(|sum| *sum > 0), "every reason is met: {reasons:?}");
    assert!(reclaimed > 0);
}

#[test]
fn what_a_reset_keeps_back_is_in_limbo_until_copies_have_ended() {
    let mut cluster = Cluster::new(&Setup::of_pages(1, 100, 50, 2));
    let prompt: Vec<u32> = (0..10).collect();
    cluster.step(&[], |station| station.insert(&prompt));
    cluster.settle();
    cluster.step(&[], |station| {
        station.evict_all();
        let found = station.find(&prompt);
        assert_eq!(station.load(found), 10);
    });
    cluster.step(&[], |station| {
        let mut free = Vec::new();
        station.cache().reset(&mut free);
        assert!(free.is_empty());
    });
    let of = |totals: TierTotals| (totals.limbo_tokens, totals.limbo_slots, totals.limbo_pages);
    assert_eq!(of(totals(&mut cluster)), (10, 10, 10));
    let digest = cluster.all(|station| (station.rank.digest(), station.rank.cache().cache().tree_digest()));
    let looked = cluster.all(|station| {
        let _ = station.rank.cache().totals();
        (station.rank.digest(), station.rank.cache().cache().tree_digest())
    });
    assert_eq!(digest, looked);
    cluster.settle();
    assert_eq!(of(totals(&mut cluster)), (10, 0, 0));
    assert_eq!(totals(&mut cluster).loaded_back_tokens, 0, "the reset made it void");
    assert_eq!(totals(&mut cluster).of(Kind::LoadBack).done, 1);
}
