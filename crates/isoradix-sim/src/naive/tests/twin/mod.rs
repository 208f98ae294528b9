//! The model beside the real thing: one rank, driven at random through frames, verbs and copies of any speed.

mod physics;
mod verbs;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use isoradix_core::host::{Backing, HostPool};
use isoradix_core::operation::{Action, Kind, Operation};
use isoradix_core::protocol::{
    Backoff, Board, BreakerRule, BreakerState, Control, Member, Pacing, Reduced, RunAhead, StartRecord, TopTier,
    VoteMachine, agree,
};
use isoradix_core::{
    Attachment, Config, HostLockReceipt, LockReceipt, Namespace, Ordinal, PerRank, PinReceipt, PrefetchTicket, Rank,
    SlotPool, TieredCache, Tiers, Writing,
};

use super::super::answers::Issued;
use super::super::{Model, Outcome, Settings};
use super::walks::Random;
use crate::coverage::Framed;
use crate::trailing::Trailing;
use physics::Copying;

const PAGE: u32 = 4;
const HOST_PAGES: u32 = 12;
const DEVICE_TOKENS: u64 = 64;

/// How often which kind of operation had which action, and what else is worth counting.
type Tally = BTreeMap<(&'static str, &'static str), u32>;

struct Twins {
    random: Random,
    model: Model,
    rank: Rank,
    board: Board,
    votes: VoteMachine,
    /// The vote completed last, and its words.
    newest: Option<(Reduced, Vec<i64>)>,
    now_ms: u64,
    pool: SlotPool,
    copies: BTreeMap<Ordinal, Copying>,
    /// Queries that storage has not answered yet, with the tokens asked for.
    queries: Vec<(Ordinal, u64)>,
    /// The operation by which storage is to be opened.
    opening: Option<Ordinal>,
    /// Of each operation that was issued, its kind and pages.
    kinds: BTreeMap<Ordinal, (Kind, u32)>,
    locks: Vec<(LockReceipt, u64)>,
    pins: Vec<(PinReceipt, u64)>,
    host_locks: Vec<(HostLockReceipt, u64)>,
    tickets: Vec<(PrefetchTicket, u64)>,
    tally: Tally,
    /// What happened, for the reader of a failure.
    log: Vec<String>,
}

impl Twins {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let settings = settings(&mut random);
        let agreement = agree(&[StartRecord::new(0, 1, PerRank::observe(HOST_PAGES))]).unwrap();
        let host = HostPool::new(PerRank::observe(HOST_PAGES), agreement.capacity_pages, Backing::Voting).unwrap();
        let config = Config { page_size: PAGE, journal_records: 4096, ..Config::default() };
        let mut cache = TieredCache::new(0, config, tiers(&settings), host).unwrap();
        if let Some(trailing) = settings.trailing {
            cache = cache.with_components(trailing.components(PAGE, 0).unwrap());
        }
        let member = Member { domain: 1, epoch: 1, rank: 0 };
        Self {
            random,
            model: Model::new(settings),
            rank: Rank::leader(member, 1, RunAhead::new(0, 2), cache),
            board: Board::new(0, settings.window).unwrap(),
            votes: VoteMachine::new(0, 1, settings.window, Pacing::default()).unwrap(),
            newest: None,
            now_ms: 1,
            pool: SlotPool::new(DEVICE_TOKENS, PAGE, 0).unwrap(),
            copies: BTreeMap::new(),
            queries: vec![],
            opening: None,
            kinds: BTreeMap::new(),
            locks: vec![],
            pins: vec![],
            host_locks: vec![],
            tickets: vec![],
            tally: Tally::new(),
            log: vec![],
        }
    }

    fn step(&mut self) {
        let limbo = self.lead();
        self.compare();
        self.some_verbs(6);
        if self.random.below(3) == 0 {
            self.begin_loads();
            self.compare();
            self.some_verbs(3);
        }
        self.close(limbo);
        self.compare();
        self.some_verbs(3);
        for _ in 0..self.random.below(4) {
            self.work();
        }
        if self.random.below(3) > 0 {
            self.vote();
        }
    }

    fn some_verbs(&mut self, limit: u32) {
        for _ in 0..self.random.below(limit) {
            self.verb();
            self.compare();
        }
    }

    /// Applies a frame; gives the device tokens that limbo gives back by it.
    fn lead(&mut self) -> u64 {
        let controls = self.controls();
        let before = self.rank.cache().cache().clock();
        self.now_ms += 1;
        let (newest, now) = (self.newest.as_ref().map(|(reduced, _)| reduced), PerRank::observe(self.now_ms));
        let frame = self.rank.lead(&mut self.board, newest, now, &controls).unwrap();
        let mut records = self.rank.cache().cache().journal();
        records.retain(|record| record.seq > before.seq);
        let actions = self.model.actions(&records);
        let controls = frame.controls().to_vec();
        self.model.begin_frame(self.now_ms, &controls);
        self.model.slide(self.rank.cache().operations().base());
        for operation in self.rank.cache().operations().iter() {
            let outcome = Outcome { ended_by: operation.ended_by(), failed: operation.has_failed() };
            self.model.tell(operation.ordinal(), outcome);
        }
        let freed = actions.iter().map(|action| self.act(action)).sum();
        let vote = self.newest.as_ref().filter(|(reduced, _)| frame.vote() == Some(reduced.vote()));
        self.model.end_frame(&controls);
        let framed = Framed { vote: vote.map(|(_, words)| &words[..]), controls: &controls };
        if let Some(backable) = framed.backable() {
            self.model.lower(backable);
            self.model.raise(backable);
        }
        if let Some(state) = self.rank.cache().breaker() {
            self.count("breaker", state.as_str());
        }
        let capacity = self.rank.cache().host().ledger().capacity();
        self.count("capacity", if capacity < HOST_PAGES { "lowered" } else { "whole" });
        freed
    }

    fn act(&mut self, action: &Action) -> u64 {
        self.log.push(format!("{action:?}"));
        let (kind, asked) = self.kinds[&action.operation()];
        let what = match action {
            Action::Commit { share, .. } if share.pages < asked => "commit a part",
            Action::Commit { .. } => "commit",
            Action::Deliver { .. } => "deliver",
            Action::Settle { .. } => "settle",
            Action::Cancel { keep: 0, .. } => "cancel",
            Action::Cancel { .. } => "cancel the rest",
            Action::Return { .. } => "return",
            Action::Unlock { .. } => "unlock",
        };
        self.count(kind.as_str(), what);
        self.model.apply(action).unwrap()
    }

    fn controls(&mut self) -> Vec<Control> {
        let mut controls = self.ended();
        if self.random.below(30) == 0
            || self.rank.cache().attachment() == Attachment::Absent && self.random.below(6) == 0
        {
            let (attachment, asks) = (self.rank.cache().attachment(), self.rank.cache().asks_storage());
            let control = match attachment {
                Attachment::Attached | Attachment::Opening => Some(Control::Detach),
                Attachment::Absent if asks && self.random.below(6) == 0 => Some(Control::Detach),
                Attachment::Absent => Some(Control::Attach),
                Attachment::Detaching => None,
            };
            controls.extend(control);
            self.count("attachment", attachment.as_str());
        }
        let all = self.rank.cache().top_tier() == TopTier::Storage;
        if self.random.below(if all { 20 } else { 3 }) == 0 {
            let off = *self.random.pick(&[TopTier::Device, TopTier::Host]).unwrap();
            let top = if all { off } else { TopTier::Storage };
            self.count("tiers", top.as_str());
            controls.push(Control::Tiers(top));
        }
        controls
    }

    /// Now and then an operation is given up.
    fn ended(&mut self) -> Vec<Control> {
        let open: Vec<Ordinal> = self.rank.cache().operations().iter().map(Operation::ordinal).collect();
        let picked = self.random.pick(&open).copied();
        let Some(k) = picked.filter(|_| self.random.below(6) == 0) else { return vec![] };
        match self.random.below(3) {
            0 if self.kinds[&k].0 == Kind::Prefetch => vec![Control::Terminate(k)],
            1 => vec![Control::TimeOut(k)],
            _ => vec![Control::Abort(k)],
        }
    }

    /// Some schedulers begin their load-backs before a step ends.
    fn begin_loads(&mut self) {
        let before = self.rank.cache().operations().issued();
        self.rank.begin_loads(&mut self.board).unwrap();
        self.model.begin_loads();
        self.log.push(format!("begin loads: {:?}", self.model.issued()));
        self.compare_issued(before);
    }

    fn close(&mut self, limbo: u64) {
        let (before, free) = (self.rank.cache().operations().issued(), self.pool.available());
        self.rank.close_step(&mut self.board, free).unwrap();
        let given_up = self.model.given_up;
        self.model.close_step(free);
        self.log.push(format!("close {free}: {:?}", self.model.issued()));
        self.compare_issued(before);
        self.count("copies", if self.model.given_up > given_up { "given up" } else { "kept" });
        let freed = self.carry_out();
        assert_eq!(freed, limbo, "slots that limbo gives back");
        self.count("limbo", if freed > 0 { "freed" } else { "nothing" });
    }

    /// What both have issued since there were so many.
    fn compare_issued(&mut self, before: u64) {
        let table = self.rank.cache().operations();
        let new = (before..table.issued()).filter_map(|k| table.operation(Ordinal(k)));
        let real: Vec<Issued> =
            new.map(|it| Issued { ordinal: it.ordinal(), kind: it.kind(), subjects: it.subjects().to_vec() }).collect();
        assert_eq!(real, self.model.issued(), "issued");
        for Issued { ordinal, kind, subjects } in real {
            self.kinds.insert(ordinal, (kind, subjects.iter().map(|subject| subject.pages).sum()));
            self.count(kind.as_str(), if subjects.len() > 1 { "issue several" } else { "issue one" });
        }
    }

    fn compare(&self) {
        self.rank.cache().check().unwrap();
        self.model.check().unwrap();
        assert_eq!(self.model.difference(self.rank.cache()).unwrap(), None);
        let cache = self.rank.cache();
        assert_eq!(cache.breaker().map(BreakerState::as_str), self.model.breaker_name());
        assert_eq!(cache.attachment(), self.model.attachment());
        for (real, model) in &self.tickets {
            assert_eq!(self.rank.cache().prefetch_ordinal(*real), self.model.prefetch_ordinal(*model));
        }
    }

    fn count(&mut self, of: &'static str, what: &'static str) {
        *self.tally.entry((of, what)).or_default() += 1;
    }
}

fn settings(random: &mut Random) -> Settings {
    let hits = 1 + random.below(2);
    let low_water = u64::from(8 + random.below(48));
    Settings {
        page: PAGE,
        writing: if random.below(3) > 0 { Writing::Through { hits } } else { Writing::Back { low_water } },
        load_back_min: random.below(9).into(),
        prefetch_min: random.below(9).into(),
        storage: random.below(2) == 0,
        window: 3 + random.below(4),
        capacity: HOST_PAGES,
        breaker: (random.below(3) > 0).then(|| BreakerRule {
            failures_max: 1 + random.below(3),
            open_ms: random.below(20).into(),
            trials: 1 + random.below(2),
            slow_ms: u64::from(4 + random.below(20)),
        }),
        retry: Backoff { first_ms: random.below(4).into(), longest_ms: 6, attempts_max: 1 + random.below(3) },
        trailing: (random.below(2) == 0)
            .then(|| Trailing { window: 1 + random.below(10), state: random.below(3) == 0 }),
    }
}

fn tiers(settings: &Settings) -> Tiers {
    Tiers {
        writing: settings.writing,
        load_back_min: settings.load_back_min,
        prefetch_min: settings.prefetch_min,
        storage: settings.storage,
        window: settings.window,
        patience: None,
        breaker: settings.breaker,
        retry: settings.retry,
    }
}

/// Two namespaces.
fn namespace(number: u32) -> Namespace {
    if number == 0 { Namespace::default() } else { Namespace::new(Some("lora"), None) }
}

/// Runs 80 steps; a failure comes with the last calls before it.
fn run(seed: u64, tally: &mut Tally) {
    let mut twins = Twins::new(seed);
    let result = catch_unwind(AssertUnwindSafe(|| (0..80).for_each(|_| twins.step())));
    if let Err(panic) = result {
        let tail = &twins.log[twins.log.len().saturating_sub(40)..];
        eprintln!("seed {seed}, {:?}\n{tail:#?}", twins.model.settings);
        resume_unwind(panic);
    }
    twins.tally.into_iter().for_each(|(what, times)| *tally.entry(what).or_default() += times);
}

/// `TWIN_SEEDS` says how many walks, for a longer search.
#[test]
fn the_real_cache_and_the_model_agree() {
    let mut tally = Tally::new();
    let seeds = std::env::var("TWIN_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(200);
    (0..seeds).for_each(|seed| run(seed, &mut tally));
    let due = [
        ("backup", "issue several"),
        ("backup", "commit a part"),
        ("backup", "cancel"),
        ("backup", "deliver"),
        ("load_back", "issue several"),
        ("load_back", "deliver"),
        ("prefetch", "commit a part"),
        ("prefetch", "cancel"),
        ("prefetch", "cancel the rest"),
        ("prefetch", "deliver"),
        ("store", "cancel"),
        ("store", "deliver"),
        ("capacity", "lowered"),
        ("capacity", "whole"),
        ("limbo", "freed"),
        ("insert", "revived"),
        ("insert", "resumed"),
        ("match", "on host"),
        ("match", "clamped"),
        ("match", "to a state"),
        ("prefetch", "brings parts"),
        ("evict", "demoted"),
        ("evict", "dropped dirty"),
        ("copies", "given up"),
        ("breaker", "open"),
        ("breaker", "trial"),
        ("attachment", "opening"),
        ("attachment", "attached"),
        ("attachment", "absent"),
        ("tiers", "l1"),
        ("tiers", "l2"),
        ("tiers", "l3"),
    ];
    for what in due {
        assert!(tally.get(&what).is_some_and(|times| *times > 1), "{what:?} is too rare: {tally:#?}");
    }
}
