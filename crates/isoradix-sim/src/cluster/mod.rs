//! All ranks of a run, and what happens between them.
//!
//! Files: `station` (one rank), `step` (a rank's scheduler thread), `leading` (what only the leader decides), `copying` (copy
//! engines and storage), `voting` (vote threads), `searching` (trailing state in storage), `faults`, `lying` (a caller that does), `ending` (how a run comes to its end, and what must be true then).

mod copying;
mod ending;
mod faults;
mod leading;
mod lying;
mod searching;
mod station;
mod step;
mod voting;

use crate::active::Active;
use crate::check::{History, Parted, Reference, first_record, show_record};
use crate::coverage::{Coverage, Mirror};
use crate::decisions::Tally;
use crate::outcome::{End, Outcome};
use crate::plane::Plane;
use crate::queue::{Micros, Queue};
use crate::rng::{self, Purpose, roll};
use crate::scenario::Scenario;
use crate::violation::{Violation, Wrong, ensure};
use isoradix_core::Ordinal;
use isoradix_core::operation::Kind;
use isoradix_core::protocol::{BatchHeader, Frame, Reduced};
use lying::Lie;
use searching::Search;
use station::{FIRST_STEP, Message, Station};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What happens.
#[derive(Debug)]
enum Event {
    /// A scheduler thread looks whether it can begin a step.
    Wake { rank: usize },
    /// A message arrives.
    Deliver { to: usize, message: Message },
    /// The beginning of a message arrives, so many bytes of its frame.
    Piece { to: usize, frame: Rc<[u8]>, bytes: usize },
    /// The receiver has taken a message: its send is complete.
    Reap { rank: usize, edge: u32 },
    /// The stage above has computed its part of a step.
    Activate { rank: usize, step: u64, header: Rc<BatchHeader> },
    /// The forward pass of a step ends.
    Computed { rank: usize },
    /// A vote thread fills its next ballot.
    Fill { rank: usize },
    /// A vote thread gets the vector that the group reduced.
    Voted { rank: usize, vector: Rc<[i64]> },
    /// A vote thread looks how long it has waited.
    Watch { rank: usize },
    /// The turn of a page is over in a copy.
    Turn { rank: usize, kind: Kind, operation: Ordinal },
    /// Storage answers.
    Answer { rank: usize, operation: Ordinal },
    /// Storage has been opened, or could not be.
    Opened { rank: usize, operation: Ordinal },
    /// A rank has again the memory that it had lost for a moment.
    Remember { rank: usize },
    /// A fault is over.
    FaultEnds { fault: usize },
}

/// Events between two looks at whether the run is to stop.
const EVENTS_A_LOOK: u32 = 4096;

/// A run.
pub(crate) struct Cluster<'a> {
    scenario: &'a Scenario,
    queue: Queue<Event>,
    stations: Vec<Station>,
    plane: Plane,
    searches: BTreeMap<Ordinal, Search>,
    faults: Active,
    lie: Lie,
    history: History,
    mirror: Mirror,
    reference: Option<Reference<'a>>,
    coverage: Coverage,
    /// Peers of a stage that are ready for the forward pass of a step, and the batch of the first.
    barriers: BTreeMap<(usize, u64), (usize, Rc<BatchHeader>)>,
    /// The newest vote that the leader holds, and its words.
    newest: Option<(Reduced, Rc<[i64]>)>,
    framed: Option<u64>,
    leading: leading::Leading,
    modelled: u64,
    trace: Vec<String>,
    end: Option<End>,
}

impl<'a> Cluster<'a> {
    /// Runs a scenario to its end; nothing, if it was told to stop before.
    pub(crate) fn run(scenario: &'a Scenario, stop: &AtomicBool) -> Option<Outcome> {
        let mut cluster = match Self::new(scenario) {
            Ok(cluster) => cluster,
            Err(wrong) => return Some(Outcome::nothing(Err(wrong.at(scenario.domain, None, 0, 0)))),
        };
        let played = catch_unwind(AssertUnwindSafe(|| cluster.play(stop)));
        let result = played.unwrap_or_else(|panic| Some(Err(cluster.at(None, Wrong::panicked(&*panic)))));
        result.map(|result| cluster.outcome(result))
    }

    fn new(scenario: &'a Scenario) -> Result<Self, Wrong> {
        Ok(Self {
            scenario,
            queue: Queue::new(),
            stations: Station::all(scenario)?,
            plane: Plane::new(scenario.topology.members()),
            searches: BTreeMap::new(),
            faults: Active::new(&scenario.faults),
            lie: Lie::default(),
            history: History::new(scenario.topology.members(), FIRST_STEP),
            mirror: Mirror::new(scenario.page, scenario.tiers.prefetch_min, scenario.trailing.is_some()),
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

    fn play(&mut self, stop: &AtomicBool) -> Option<Result<End, Violation>> {
        self.begin_run();
        while !stop.load(Ordering::Relaxed) {
            if let Some(result) = (0..EVENTS_A_LOOK).find_map(|_| self.next().transpose()) {
                return Some(result);
            }
        }
        None
    }

    fn begin_run(&mut self) {
        for rank in 0..self.stations.len() {
            self.queue.after(self.wobble(rank, 200), Event::Fill { rank });
        }
        self.wake(0, 0);
    }

    /// The next event; gives the end, if it is one.
    fn next(&mut self) -> Result<Option<End>, Violation> {
        let Some(event) = self.queue.pop() else {
            let what = "nothing is left to happen, and the run has not come to its end";
            return Err(self.at(None, Wrong::new("liveness", what)));
        };
        match self.happen(event) {
            Err(violation) if self.is_promised(&violation) => self.end = Some(End::Fatal),
            Err(violation) if self.finds_out(&violation) => self.end = Some(End::Detected),
            happened => happened?,
        }
        match self.end {
            Some(end) => self.check_end(end).map(Some),
            None => self.check_liveness().map(|()| None).map_err(|wrong| self.at(None, wrong)),
        }
    }

    fn happen(&mut self, event: Event) -> Result<(), Violation> {
        let (rank, result) = match event {
            Event::Wake { rank } => (rank, self.begin(rank)),
            Event::Deliver { to, message } => {
                self.stations[to].mailbox.push_back(message);
                self.wake(to, self.poll_delay(to));
                (to, Ok(()))
            }
            Event::Piece { to, frame, bytes } => {
                let whole = Frame::from_bytes(&frame[..bytes]).is_ok();
                (to, ensure(!whole, "frame", || format!("the first {bytes} of {} bytes pass for a frame", frame.len())))
            }
            Event::Reap { rank, edge } => (rank, self.reap(rank, edge)),
            Event::Activate { rank, step, header } => (rank, self.activate(rank, step, header)),
            Event::Computed { rank } => (rank, self.computed(rank)),
            Event::Fill { rank } => (rank, self.fill(rank)),
            Event::Voted { rank, vector } => (rank, self.voted(rank, &vector)),
            Event::Watch { rank } => {
                self.watch(rank);
                (rank, Ok(()))
            }
            Event::Turn { rank, kind, operation } => (rank, self.turn(rank, kind, operation)),
            Event::Answer { rank, operation } => (rank, self.answer(rank, operation)),
            Event::Opened { rank, operation } => (rank, self.opened(rank, operation)),
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
        wrong.at(self.scenario.domain, rank, self.stations[rank.unwrap_or(0)].step, self.queue.now())
    }

    /// Names the rank that has left the history, and where.
    fn parted(&self, parted: &Parted) -> Wrong {
        let Parted { rank, how, .. } = parted;
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
            steps_min: self.stations[0].steps,
            operations: self.stations[0].core.cache().operations().issued(),
            votes: self.plane.votes(),
            events: self.queue.events(),
            time_us: self.queue.now(),
            modelled: self.modelled,
            coverage: self.coverage,
            tally: Tally::default(),
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
