//! Ranks in one process, driven by hand: every call is one that a driver's thread would make.

use isoradix_core::host::{Backing, HostPool};
use isoradix_core::operation::Kind;
use isoradix_core::protocol::{
    Board, Control, DivergenceMode, Frame, Member, Pacing, Reduced, RunAhead, StartRecord, VoteMachine, agree,
    reduce_min,
};
use isoradix_core::{
    Config, DeviceRoom, Effect, Eviction, Ints, Namespace, Ordinal, PerRank, Rank, SlotPool, StepError, TieredCache,
    TieredMatch, Tiers, Transfer,
};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const EPOCH: u64 = 1;

/// Instead of a number of host pages: the rank has no host pool.
pub(crate) const NO_POOL: u32 = u32::MAX;

pub(crate) fn ns() -> Namespace {
    Namespace::default()
}

/// One rank with its board, its vote thread's machine, its device pool, and what its engines have been told.
pub(crate) struct Station {
    pub(crate) rank: Rank,
    pub(crate) board: Board,
    pub(crate) votes: VoteMachine,
    pub(crate) device: SlotPool,
    pub(crate) started: BTreeMap<Ordinal, Transfer>,
    pub(crate) queried: Vec<Ordinal>,
    pub(crate) cancelled: Vec<Ordinal>,
    /// Operations by which storage is to be opened.
    pub(crate) opening: Vec<Ordinal>,
    /// What it was told of storage.
    pub(crate) told: Vec<&'static str>,
    /// Operations whose copy has ended here.
    ended: BTreeSet<Ordinal>,
}

impl Station {
    pub(crate) fn cache(&mut self) -> &mut TieredCache {
        self.rank.cache_mut()
    }

    pub(crate) fn ballot(&mut self) -> Vec<i64> {
        let mut ballot = vec![0; self.votes.words()];
        self.votes.fill(&mut self.board, &mut ballot).unwrap();
        ballot
    }

    pub(crate) fn take_effects(&mut self) {
        for effect in self.rank.take_effects() {
            match effect {
                Effect::Query { operation, .. } => self.queried.push(operation),
                Effect::Start(transfer) => drop(self.started.insert(transfer.operation, transfer)),
                Effect::Cancel { operation } => {
                    self.started.remove(&operation);
                    self.cancelled.push(operation);
                }
                Effect::Open { operation } => self.opening.push(operation),
                Effect::Attached => self.told.push("attached"),
                Effect::Refused => self.told.push("refused"),
                Effect::Detached => self.told.push("detached"),
                Effect::FreeSlots(slots) => self.device.free(Ints::I64(&slots)).unwrap(),
            }
        }
    }

    /// The copy of an operation ends here.
    pub(crate) fn end(&mut self, k: Ordinal, well: bool) {
        let Some(transfer) = self.started.remove(&k) else { panic!("operation {k} has not started") };
        if transfer.kind == Kind::Prefetch {
            let page = u64::from(self.rank.cache().cache().page_size());
            let tokens = transfer.pages.len() as u64 * page;
            self.board.post_progress(k, PerRank::observe(tokens)).unwrap();
        }
        self.board.ended(k, PerRank::observe(well)).unwrap();
        self.ended.insert(k);
    }

    /// A prefetch ends here without a failure, but only so many tokens have come: the next page was there no more.
    pub(crate) fn end_short(&mut self, k: Ordinal, tokens: u64) {
        self.started.remove(&k).expect("it has started");
        self.board.post_progress(k, PerRank::observe(tokens)).unwrap();
        self.board.ended(k, PerRank::observe(true)).unwrap();
        self.ended.insert(k);
    }

    /// A prefetch fails here, after so many tokens.
    pub(crate) fn fail_after(&mut self, k: Ordinal, tokens: u64) {
        self.started.remove(&k).expect("it has started");
        self.board.post_progress(k, PerRank::observe(tokens)).unwrap();
        self.board.ended(k, PerRank::observe(false)).unwrap();
        self.ended.insert(k);
    }

    /// Storage has failed this rank's question, and no copy begins.
    pub(crate) fn fail_question(&mut self, k: Ordinal) {
        self.queried.retain(|asked| *asked != k);
        self.board.ended(k, PerRank::observe(false)).unwrap();
        self.ended.insert(k);
    }

    /// Storage has been opened here, or could not be.
    pub(crate) fn open(&mut self, well: bool) {
        let k = self.opening.pop().expect("it is asked to open its storage");
        self.board.ended(k, PerRank::observe(well)).unwrap();
        self.ended.insert(k);
    }

    /// Storage has answered this rank's question; the copy begins, if it is worth it.
    pub(crate) fn answer(&mut self, k: Ordinal, tokens: u64) {
        self.queried.retain(|asked| *asked != k);
        self.rank.found(&mut self.board, k, PerRank::observe(tokens)).unwrap();
        self.take_effects();
    }

    /// All copies that go on end well, and those that were cancelled leave their pages.
    pub(crate) fn end_all(&mut self) {
        for k in self.started.keys().copied().collect::<Vec<_>>() {
            self.end(k, true);
        }
        for k in std::mem::take(&mut self.cancelled).into_iter().filter(|k| !self.ended.contains(k)) {
            self.board.finish(k).unwrap();
        }
    }

    /// Slots for so many tokens, evicting from the device if need be.
    pub(crate) fn slots(&mut self, tokens: u64) -> Vec<i64> {
        let available = self.device.available();
        if available < tokens {
            let mut freed = Vec::new();
            self.rank.cache_mut().evict(tokens - available, &mut freed).unwrap();
            self.device.free(Ints::I64(&freed)).unwrap();
        }
        let mut slots = Vec::new();
        self.device.alloc(tokens, &mut slots).unwrap();
        slots
    }

    /// Caches a key as a finished request does.
    pub(crate) fn insert(&mut self, key: &[u32]) {
        let page = u64::from(self.rank.cache().cache().page_size());
        let whole = key.len() as u64 / page * page;
        let slots = self.slots(whole);
        let insert = self.cache().insert(Ints::U32(key), Ints::I64(&slots), &ns(), 0, None).unwrap();
        let duplicates = &slots[..usize::try_from(insert.prefix_len).unwrap()];
        self.device.free(Ints::I64(duplicates)).unwrap();
    }

    pub(crate) fn find(&mut self, key: &[u32]) -> TieredMatch {
        self.cache().match_prefix(Ints::U32(key), &ns(), None).unwrap()
    }

    /// Evicts everything that may go from the device.
    pub(crate) fn evict_all(&mut self) {
        let mut freed = Vec::new();
        self.cache().evict(u64::MAX, &mut freed).unwrap();
        self.device.free(Ints::I64(&freed)).unwrap();
    }

    /// Loads back what a match found on host: 0 if it is declined.
    pub(crate) fn load(&mut self, found: TieredMatch) -> u64 {
        let receipt = self.cache().host_lock(found.host_node).unwrap();
        let need = self.cache().load_back_need(receipt).unwrap();
        let slots = self.slots(need);
        let loaded = self.cache().load_back(receipt, Ints::I64(&slots)).unwrap();
        if loaded == 0 {
            self.cache().unlock_host(receipt).unwrap();
        }
        loaded
    }
}

/// What a cluster is made of.
pub(crate) struct Setup {
    pub(crate) page: u32,
    pub(crate) device: u64,
    /// Host pages that each rank has; [`NO_POOL`] for none.
    pub(crate) host: Vec<u32>,
    pub(crate) tiers: Tiers,
    pub(crate) policy: &'static str,
}

impl Setup {
    pub(crate) fn of_pages(page: u32, device: u64, host: u32, ranks: usize) -> Self {
        let tiers = Tiers { load_back_min: 1, prefetch_min: 1, ..Tiers::default() };
        Self { page, device, host: vec![host; ranks], tiers, policy: "lru" }
    }
}

pub(crate) struct Cluster {
    pub(crate) stations: Vec<Station>,
    newest: Option<Reduced>,
    pub(crate) now_ms: u64,
    /// Tokens that are promised on the device at each close.
    pub(crate) promised: u64,
}

impl Cluster {
    pub(crate) fn new(setup: &Setup) -> Self {
        Self::with_mode(setup, DivergenceMode::default())
    }

    pub(crate) fn with_mode(setup: &Setup, mode: DivergenceMode) -> Self {
        Self::made(setup, mode, |_, cache| cache)
    }

    /// Each rank's cache is changed before it is used.
    pub(crate) fn of(setup: &Setup, change: impl Fn(u32, TieredCache) -> TieredCache) -> Self {
        Self::made(setup, DivergenceMode::default(), change)
    }

    fn made(setup: &Setup, mode: DivergenceMode, change: impl Fn(u32, TieredCache) -> TieredCache) -> Self {
        let ranks = u32::try_from(setup.host.len()).unwrap();
        let record = |(rank, pages): (u32, &u32)| match *pages {
            NO_POOL => StartRecord::without_pool(rank, ranks),
            pages => StartRecord::new(rank, ranks, PerRank::observe(pages)),
        };
        let records: Vec<StartRecord> = (0..).zip(&setup.host).map(record).collect();
        let capacity = agree(&records).unwrap().capacity_pages;
        let station = |(rank, pages): (u32, &u32)| {
            let pool = match *pages {
                NO_POOL => HostPool::without_memory(capacity),
                pages => HostPool::new(PerRank::observe(pages), capacity, Backing::Voting),
            };
            let eviction = Eviction::parse(setup.policy).unwrap();
            let config = Config { page_size: setup.page, eviction, ..Config::default() };
            let cache = change(rank, TieredCache::new(rank, config, setup.tiers, pool.unwrap()).unwrap());
            let member = Member { domain: 0, epoch: EPOCH, rank };
            let rank_of = |cache| match rank {
                0 => Rank::leader(member, 1, RunAhead::new(0, 1), cache),
                _ => Rank::follower(member, 1, cache),
            };
            Station {
                rank: rank_of(cache).with_mode(mode),
                board: Board::new(rank, setup.tiers.window).unwrap(),
                votes: VoteMachine::new(rank, EPOCH, setup.tiers.window, Pacing::default()).unwrap().with_mode(mode),
                device: SlotPool::new(setup.device, setup.page, 0).unwrap(),
                started: BTreeMap::new(),
                queried: vec![],
                cancelled: vec![],
                opening: vec![],
                told: vec![],
                ended: BTreeSet::new(),
            }
        };
        Self { stations: (0..).zip(&setup.host).map(station).collect(), newest: None, now_ms: 0, promised: 0 }
    }

    /// Every rank does the same, and answers the same.
    pub(crate) fn all<T: PartialEq + std::fmt::Debug>(&mut self, verb: impl Fn(&mut Station) -> T) -> T {
        let mut answers: Vec<T> = self.stations.iter_mut().map(verb).collect();
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
        answers.swap_remove(0)
    }

    /// All ranks enter the next step.
    pub(crate) fn enter(&mut self, controls: &[Control]) -> Vec<Result<(), StepError>> {
        self.now_ms += 1;
        let (leader, followers) = self.stations.split_first_mut().unwrap();
        let now = PerRank::observe(self.now_ms);
        let frame = match leader.rank.lead(&mut leader.board, self.newest.as_ref(), now, controls) {
            Ok(frame) => frame,
            Err(error) => return vec![Err(error)],
        };
        let bytes = frame.to_bytes();
        let follow =
            |station: &mut Station| station.rank.follow(&mut station.board, Frame::from_bytes(&bytes).unwrap());
        std::iter::once(Ok(())).chain(followers.iter_mut().map(follow)).collect()
    }

    /// All ranks close their step, and are compared.
    pub(crate) fn close(&mut self) {
        for station in &mut self.stations {
            let room = DeviceRoom { free: station.device.available(), promised: self.promised };
            station.rank.close_step(&mut station.board, room).unwrap();
            station.take_effects();
            station.rank.cache().check().unwrap();
        }
        self.all(|station| {
            let cache = station.rank.cache();
            let ledger = cache.host().ledger().clone();
            (station.rank.digest(), cache.cache().tree_digest(), cache.sizes(), ledger, cache.totals())
        });
    }

    /// One step in which every rank does the same.
    pub(crate) fn step(&mut self, controls: &[Control], verbs: impl Fn(&mut Station)) {
        self.enter(controls).into_iter().for_each(|entered| entered.unwrap());
        self.stations.iter_mut().for_each(verbs);
        self.close();
    }

    /// The vote that the next frame carries.
    pub(crate) fn frame(&mut self, newest: Reduced) {
        self.newest = Some(newest);
    }

    pub(crate) fn vote(&mut self) {
        let ballots: Vec<Vec<i64>> = self.stations.iter_mut().map(Station::ballot).collect();
        let mut reduced = ballots[0].clone();
        ballots[1..].iter().for_each(|ballot| reduce_min(&mut reduced, ballot));
        for station in &mut self.stations {
            self.newest = Some(station.votes.complete(&mut station.board, &reduced).unwrap());
        }
    }

    /// The copies of an operation end well everywhere.
    pub(crate) fn end(&mut self, k: Ordinal) {
        self.stations.iter_mut().for_each(|station| station.end(k, true));
    }

    /// Everything that was started ends well, everything that was cancelled leaves, and that is voted and framed.
    pub(crate) fn settle(&mut self) {
        for _ in 0..6 {
            self.stations.iter_mut().for_each(Station::end_all);
            self.vote();
            self.step(&[], |_| ());
        }
    }

    /// Nothing is open, nothing is held.
    pub(crate) fn assert_quiet(&mut self) {
        self.all(|station| {
            let cache = station.rank.cache();
            cache.check().unwrap();
            cache.host().leaks().unwrap();
            assert_eq!(cache.operations().retired(), cache.operations().issued());
            let refs =
                |node| cache.cache().info(node).map(|info| (info.lock_ref, info.pin_ref, info.host_ref)).unwrap();
            let nodes = cache.cache().walk(isoradix_core::NodeHandle::ROOT).unwrap();
            assert!(nodes.into_iter().all(|node| refs(node) == (0, 0, 0)));
        });
    }
}
