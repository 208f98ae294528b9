//! One rank: its core, its threads' machines, its scheduler and its part of the physical world.

use super::searching::elsewhere;
use crate::clock::Clock;
use crate::queue::Micros;
use crate::request::What;
use crate::rng::Rng;
use crate::scenario::Scenario;
use crate::scheduler::{Hands, Scheduler, Tape};
use crate::violation::Wrong;
use crate::world::{Device, Engine, HostMemory, Storage, World};
use isoradix_core::host::{Backing, HostPool};
use isoradix_core::protocol::{
    BatchHeader, Board, FIFOS, Member, Patience, RunAhead, Stall, Stalled, StartRecord, VoteMachine, Waiting, agree,
};
use isoradix_core::{Config, Eviction, Ordinal, PerRank, Rank, StoredRun, TieredCache};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;

/// The group's incarnation.
pub(super) const EPOCH: u64 = 1;

/// The step that the leader stamps first.
pub(super) const FIRST_STEP: u64 = 1;

/// Decisions that a journal keeps, to show where two part.
const JOURNAL_RECORDS: u32 = 256;

/// After so long a wait is reported, and after so long it is fatal, in milliseconds of virtual time.
pub(super) const REPORT_MS: u64 = 1_000;
pub(super) const FATAL_MS: u64 = 8_000;

/// A frame on its way, with the inputs that travel with it.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) frame: Rc<[u8]>,
    pub(super) inputs: Rc<[What]>,
}

/// Where a rank's scheduler thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Between two steps.
    Free,
    /// Its batch waits: for its own load-backs, or for the stage above.
    Blocked,
    /// Its batch waits for the peers of its stage.
    Ready,
    /// Its batch is computed.
    Forward,
    /// It applied the stop frame.
    Stopped,
}

/// What of a rank is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Alive {
    pub(super) scheduler: bool,
    pub(super) votes: bool,
}

/// How a vote thread came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VoteEnd {
    /// It left with all others, after the stop frame.
    Left,
    /// Its wait for a vote was fatal.
    Lost,
    /// Some rank applies no more steps, as it found; the rank is named by its own thread alone.
    Stalled(Stalled),
}

/// One rank.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Station {
    pub(super) core: Rank,
    pub(super) board: Board,
    pub(super) votes: VoteMachine,
    pub(super) stall: Stall,
    /// The wait for the vote in flight.
    pub(super) waiting: Option<Waiting>,
    /// Its vote thread will look how long it has waited.
    pub(super) watched: bool,
    pub(super) scheduler: Scheduler,
    /// Holds that the scheduler was given so far.
    pub(super) holds: u64,
    pub(super) world: World,
    pub(super) tape: Tape,
    /// Calls of the tape that the reference model has been told.
    pub(super) told: usize,
    /// Prefetches of which storage has not answered how much it has.
    pub(super) questions: BTreeMap<Ordinal, StoredRun>,
    /// The operation by which it is to open its storage.
    pub(super) opening: Option<Ordinal>,
    pub(super) mailbox: VecDeque<Message>,
    /// The time at which the last message to this rank arrives.
    pub(super) arrival: Micros,
    /// Of a follower that relays frames; the leader's is in its core.
    pub(super) ahead: RunAhead,
    pub(super) receivers: Range<usize>,
    pub(super) phase: Phase,
    /// The step that it is in, or was in last.
    pub(super) step: u64,
    pub(super) steps: u64,
    /// The last busy step whose activations have come from the stage above.
    pub(super) activated: u64,
    /// The batch of the stage above, as it came beside its activations.
    pub(super) above: Option<Rc<BatchHeader>>,
    pub(super) wakes: bool,
    /// Its monotonic clock.
    pub(super) clock: Clock,
    /// It waits for an end that no copy will report: a planted mistake.
    pub(super) waits_forever: bool,
    pub(super) alive: Alive,
    /// The watermarks that it voted last.
    pub(super) finished: [i64; FIFOS],
    /// Votes that it counted and took no part in.
    pub(super) skipped: i64,
    /// A load-back of its own has failed: it computes nothing any more.
    pub(super) doomed: bool,
    /// How its vote thread came to its end.
    pub(super) vote_end: Option<VoteEnd>,
}

impl Station {
    /// The ranks of a scenario, after the start-up agreement.
    pub(super) fn all(scenario: &Scenario) -> Result<Vec<Self>, Wrong> {
        let ranks = u32::try_from(scenario.topology.members()).unwrap_or(u32::MAX);
        let records: Vec<StartRecord> = (0..ranks)
            .zip(&scenario.host_pages)
            .map(|(rank, pages)| StartRecord::new(rank, ranks, PerRank::observe(*pages)))
            .collect();
        let agreed = agree(&records).map_err(|error| Wrong::new("setup", error.to_string()))?;
        let pool = |pages: u32| HostPool::new(PerRank::observe(pages), agreed.capacity_pages, Backing::Voting);
        (0..ranks)
            .zip(&scenario.host_pages)
            .map(|(rank, pages)| {
                let pool = pool(*pages).map_err(|error| Wrong::new("setup", error.to_string()))?;
                Self::new(scenario, rank, pool, *pages)
            })
            .collect()
    }

    fn new(scenario: &Scenario, rank: u32, pool: HostPool, host_pages: u32) -> Result<Self, Wrong> {
        let setup = |error: &dyn std::fmt::Display| Wrong::new("setup", error.to_string());
        let eviction = Eviction::parse(&scenario.eviction).map_err(|error| setup(&error))?;
        let config = Config {
            page_size: scenario.page,
            eviction,
            bigram: false,
            journal_records: JOURNAL_RECORDS,
            kv_events: false,
        };
        let mut cache = TieredCache::new(rank, config, scenario.tiers, pool).map_err(|error| setup(&error))?;
        if let Some(trailing) = scenario.trailing {
            let elsewhere = elsewhere(scenario.topology.stage(rank as usize));
            cache =
                cache.with_components(trailing.components(scenario.page, elsewhere).map_err(|error| setup(&error))?);
        }
        let member = Member { domain: scenario.domain, epoch: EPOCH, rank };
        let receivers = scenario.topology.receivers(rank as usize);
        let ahead = || RunAhead::new(u32::try_from(receivers.len()).unwrap_or(u32::MAX), scenario.topology.pp);
        let mut core = match rank {
            0 => Rank::leader(member, FIRST_STEP, ahead(), cache),
            _ => Rank::follower(member, FIRST_STEP, cache),
        };
        let window = scenario.tiers.window;
        let mut board = Board::new(rank, window).map_err(|error| setup(&error))?;
        if let Some(defect) = scenario.defect {
            defect.plant(rank as usize, &mut core, &mut board);
        }
        let clock = Clock::new(&mut Rng::new(scenario.seed, 10_000 + u64::from(rank)));
        let mut rng = Rng::new(scenario.seed, 1000 + u64::from(rank));
        let patience = Patience::new(REPORT_MS, FATAL_MS, FATAL_MS).map_err(|error| setup(&error))?;
        Ok(Self {
            core,
            board,
            votes: VoteMachine::new(rank, EPOCH, window, scenario.pacing).map_err(|error| setup(&error))?,
            stall: Stall::begin(patience, clock.at(0) / 1000),
            waiting: None,
            scheduler: Scheduler::default(),
            holds: 0,
            world: World {
                device: Device::new(scenario.device_pages, scenario.page, &mut rng)?,
                host: HostMemory::new(host_pages, scenario.page),
                storage: filled(scenario, &mut rng),
                engine: Engine::new(scenario.page),
            },
            tape: Tape::default(),
            told: 0,
            questions: BTreeMap::new(),
            opening: None,
            mailbox: VecDeque::new(),
            arrival: 0,
            ahead: ahead(),
            receivers,
            phase: Phase::Free,
            step: 0,
            steps: 0,
            activated: 0,
            above: None,
            watched: false,
            wakes: false,
            clock,
            waits_forever: false,
            alive: Alive { scheduler: true, votes: true },
            finished: [0; FIFOS],
            skipped: 0,
            doomed: false,
            vote_end: None,
        })
    }

    /// The scheduler with what it works on.
    pub(super) fn scheduler<'a, 's>(
        &'s mut self,
        scenario: &'a Scenario,
        rank: usize,
    ) -> (&'s mut Scheduler, Hands<'s, 'a>)
    where
        'a: 's,
    {
        let corrupted = scenario.corrupt.filter(|(at, _)| *at == rank).map(|(_, request)| request);
        let hands = Hands {
            scenario,
            cache: self.core.cache_mut(),
            device: &mut self.world.device,
            tape: &mut self.tape,
            holds: &mut self.holds,
            corrupted,
        };
        (&mut self.scheduler, hands)
    }

    /// Whether its scheduler thread may begin a step.
    pub(super) fn is_free(&self) -> bool {
        self.phase == Phase::Free && self.alive.scheduler
    }
}

/// Storage that other servers have filled: the beginnings of some requests, of which this rank lacks some pages.
fn filled(scenario: &Scenario, rng: &mut Rng) -> Storage {
    let mut storage = Storage::default();
    if !scenario.tiers.storage {
        return storage;
    }
    for (number, request) in scenario.requests.iter().enumerate() {
        let chosen = crate::rng::mix(scenario.seed, number as u64).is_multiple_of(3);
        for page in request.tags[..request.prompt].chunks_exact(scenario.page as usize) {
            let Some(name) = page.last() else { continue };
            if chosen && !rng.chance(20) {
                storage.put(*name, page.to_vec());
            }
        }
    }
    storage
}
