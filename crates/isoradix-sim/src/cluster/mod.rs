//! All ranks of a run, and what happens between them.
//!
//! Files: `station` (one rank), `step` (a rank's scheduler thread), `leading` (what only the leader decides), `copying` (copy
//! engines and storage), `voting` (vote threads), `searching` (searches for trailing state), `faults`, `ending` (how a run comes to its end, and what must be true then).

mod copying;
mod ending;
mod faults;
mod leading;
mod searching;
mod station;
mod step;
mod voting;

use crate::check::{History, Parted, Reference, first_record, show_record};
use crate::coverage::{Coverage, Mirror};
use crate::queue::{Micros, Queue};
use crate::rng::{self, Purpose, roll};
use crate::scenario::Scenario;
use crate::violation::{Violation, Wrong};
use faults::Active;
use isoradix_core::Ordinal;
use isoradix_core::operation::Kind;
use isoradix_core::protocol::Reduced;
use searching::Search;
use station::{FIRST_STEP, Message, Station};
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use voting::Plane;

/// What happens.
#[derive(Debug)]
enum Event {
    /// A scheduler thread looks whether it can begin a step.
    Wake { rank: usize },
    /// A message arrives.
    Deliver { to: usize, message: Message },
    /// The receiver has taken a message: its send is complete.
    Reap { rank: usize, edge: u32 },
    /// The stage above has computed its part of a step.
    Activate { rank: usize, step: u64 },
    /// The forward pass of a step ends.
    Computed { rank: usize },
    /// A vote thread fills its next ballot.
    Fill { rank: usize },
    /// A vote thread gets the vector that the group reduced.
    Voted { rank: usize, vector: Rc<[i64]> },
    /// A vote thread looks how long it has waited.
    Watch { rank: usize, vote: u64 },
    /// The turn of a page is over in a copy.
    Turn { rank: usize, kind: Kind, operation: Ordinal },
    /// Storage answers.
    Answer { rank: usize, operation: Ordinal },
    /// A round of a search for trailing state comes back.
    Searched { rank: usize, operation: Ordinal, pair: [i64; 2] },
    /// A rank has again the memory that it had lost for a moment.
    Remember { rank: usize },
    /// A fault is over.
    FaultEnds { fault: usize },
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// Everything came to rest, and a stop frame ended it.
    Clean,
    /// A stop frame came in the middle of everything.
    Stopped,
    /// A rank or its scheduler died, and the others noticed.
    Crashed,
    /// A load-back failed after commit, and all ranks were told.
    Fatal,
}

/// What a run has to say.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How it ended, or what was wrong.
    pub result: Result<End, Violation>,
    /// The hash chain over the whole history.
    pub history: u64,
    /// Steps of all ranks.
    pub rank_steps: u64,
    /// The leader's steps.
    pub steps: u64,
    /// Operations issued.
    pub operations: u64,
    /// Votes.
    pub votes: u64,
    /// Events of the simulation.
    pub events: u64,
    /// Virtual time.
    pub time_us: Micros,
    /// Steps that were held against the reference model.
    pub modelled: u64,
    /// Which transitions happened under which faults.
    pub coverage: Coverage,
    /// What the leader's rank did, line by line, if that was asked for.
    pub trace: Vec<String>,
}

fn panicked(panic: &(dyn Any + Send)) -> Wrong {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    Wrong::new("panic", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no text").to_owned())
}

/// A run.
pub(crate) struct Cluster<'a> {
    scenario: &'a Scenario,
    queue: Queue<Event>,
    stations: Vec<Station>,
    plane: Plane,
    searches: BTreeMap<Ordinal, Search>,
    faults: Active,
    history: History,
    mirror: Mirror,
    reference: Option<Reference<'a>>,
    coverage: Coverage,
    /// Peers of a stage that are ready for the forward pass of a step.
    barriers: BTreeMap<(usize, u64), usize>,
    /// The newest vote that the leader holds, and its words.
    newest: Option<(Reduced, Rc<[i64]>)>,
    framed: Option<u64>,
    leading: leading::Leading,
    modelled: u64,
    trace: Vec<String>,
    end: Option<End>,
}

impl<'a> Cluster<'a> {
    /// Runs a scenario to its end.
    pub(crate) fn run(scenario: &'a Scenario) -> Outcome {
        match Self::new(scenario) {
            Ok(mut cluster) => {
                // A core that panics has broken a promise like any other, and its seed is to be named.
                let played = catch_unwind(AssertUnwindSafe(|| cluster.play()));
                let result = played.unwrap_or_else(|panic| Err(cluster.at(None, panicked(&*panic))));
                cluster.outcome(result)
            }
            Err(wrong) => Outcome {
                result: Err(wrong.at(None, 0, 0)),
                history: 0,
                rank_steps: 0,
                steps: 0,
                operations: 0,
                votes: 0,
                events: 0,
                time_us: 0,
                modelled: 0,
                coverage: Coverage::default(),
                trace: Vec::new(),
            },
        }
    }

    fn new(scenario: &'a Scenario) -> Result<Self, Wrong> {
        Ok(Self {
            scenario,
            queue: Queue::new(),
            stations: Station::all(scenario)?,
            plane: Plane::new(scenario.topology.ranks()),
            searches: BTreeMap::new(),
            faults: Active::new(scenario),
            history: History::new(scenario.topology.ranks(), FIRST_STEP),
            mirror: Mirror::new(scenario.page, scenario.tiers.prefetch_min),
            reference: Reference::new(scenario),
            coverage: Coverage::default(),
            barriers: BTreeMap::new(),
            newest: None,
            framed: None,
            leading: leading::Leading::default(),
            modelled: 0,
            trace: Vec::new(),
            end: None,
        })
    }

    fn play(&mut self) -> Result<End, Violation> {
        for rank in 0..self.stations.len() {
            self.queue.after(self.wobble(rank, 200), Event::Fill { rank });
        }
        self.wake(0, 0);
        while let Some(event) = self.queue.pop() {
            match self.happen(event) {
                Err(violation) if self.is_promised(&violation) => self.end = Some(End::Fatal),
                happened => happened?,
            }
            if let Some(end) = self.end {
                self.check_end(end)?;
                return Ok(end);
            }
            self.check_liveness().map_err(|wrong| self.at(None, wrong))?;
        }
        Err(self.at(None, Wrong::new("liveness", "nothing is left to happen, and the run has not come to its end")))
    }

    fn happen(&mut self, event: Event) -> Result<(), Violation> {
        let (rank, result) = match event {
            Event::Wake { rank } => (rank, self.begin(rank)),
            Event::Deliver { to, message } => {
                self.stations[to].mailbox.push_back(message);
                self.wake(to, self.poll_delay(to));
                (to, Ok(()))
            }
            Event::Reap { rank, edge } => (rank, self.reap(rank, edge)),
            Event::Activate { rank, step } => (rank, self.activate(rank, step)),
            Event::Computed { rank } => (rank, self.computed(rank)),
            Event::Fill { rank } => (rank, self.fill(rank)),
            Event::Voted { rank, vector } => (rank, self.voted(rank, &vector)),
            Event::Watch { rank, vote } => {
                self.watch(rank, vote);
                (rank, Ok(()))
            }
            Event::Turn { rank, kind, operation } => (rank, self.turn(rank, kind, operation)),
            Event::Answer { rank, operation } => (rank, self.answer(rank, operation)),
            Event::Searched { rank, operation, pair } => (rank, self.searched(rank, operation, pair)),
            Event::Remember { rank } => {
                self.remember(rank);
                (rank, Ok(()))
            }
            Event::FaultEnds { fault } => (self.faults.plan[fault].rank, self.fault_ends(fault)),
        };
        result.map_err(|wrong| self.at(Some(rank), wrong))
    }

    /// Whether a fatal error is the one that must come: a load-back has failed after commit.
    fn is_promised(&self, violation: &Violation) -> bool {
        violation.kind == "fatal" && self.stations.iter().any(|station| station.doomed)
    }

    fn at(&self, rank: Option<usize>, wrong: Wrong) -> Violation {
        let rank = wrong.rank.or(rank);
        wrong.at(rank, self.stations[rank.unwrap_or(0)].step, self.queue.now())
    }

    /// Names the rank that has left the history, and where.
    fn parted(&self, parted: &Parted) -> Wrong {
        let Parted { rank, how } = parted;
        let [own, leader] = [*rank, 0].map(|rank| self.stations[rank].core.cache());
        let record = first_record(own, leader).map(|record| format!("\n  {record}")).unwrap_or_default();
        Wrong { rank: Some(*rank), ..Wrong::new("divergence", format!("{how}{record}")) }
    }

    fn outcome(mut self, result: Result<End, Violation>) -> Outcome {
        if self.scenario.trace {
            let records = self.stations[0].core.cache().cache().journal();
            self.trace.extend(records.iter().map(|record| format!("record {}", show_record(record))));
        }
        self.coverage.fatal += u64::from(result == Ok(End::Fatal));
        Outcome {
            result,
            history: self.history.chain(),
            rank_steps: self.stations.iter().map(|station| station.steps).sum(),
            steps: self.stations[0].steps,
            operations: self.stations[0].core.cache().operations().issued(),
            votes: self.plane.votes(),
            events: self.queue.events(),
            time_us: self.queue.now(),
            modelled: self.modelled,
            coverage: self.coverage,
            trace: self.trace,
        }
    }

    // ---- how long things take

    /// What a rank's own clock shows, in milliseconds.
    fn clock_ms(&self, rank: usize) -> u64 {
        self.stations[rank].clock.at(self.queue.now()) / 1000
    }

    /// Between half and one and a half of a mean.
    fn about(&self, mean: Micros, purpose: Purpose, of: [u64; 3]) -> Micros {
        mean / 2 + rng::below(roll(self.scenario.seed, purpose, of), mean + 1)
    }

    fn wobble(&self, rank: usize, most: Micros) -> Micros {
        rng::below(roll(self.scenario.seed, Purpose::Wobble, [rank as u64, self.queue.events(), 0]), most + 1)
    }

    /// A rank's scheduler thread looks again after a while, unless it will anyway.
    fn wake(&mut self, rank: usize, delay: Micros) {
        let station = &mut self.stations[rank];
        if station.phase == station::Phase::Free && !station.wakes {
            station.wakes = true;
            self.queue.after(delay, Event::Wake { rank });
        }
    }
}
