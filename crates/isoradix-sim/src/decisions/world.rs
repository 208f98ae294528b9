//! All ranks of a run, and what happens between them.

use super::account::Account;
use super::deeds::{Deeds, Ended};
use super::fate::{About, Trouble, reports};
use super::forward::Forward;
use super::history::History;
use super::leading::Leading;
use super::message::Message;
use super::phase::Group;
use super::plan::Plan;
use super::station::Station;
use super::tally::Tally;
use crate::active::Active;
use crate::coverage::Coverage;
use crate::fault::{Fault, FaultKind};
use crate::outcome::{End, Outcome};
use crate::plane::Plane;
use crate::queue::{Micros, Queue};
use crate::rng::{self, Purpose, roll};
use crate::topology::Topology;
use crate::violation::{Violation, Wrong, ensure};
use isoradix_core::decisions::{DecisionVote, Report};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Once nothing arrives any more and faults are over, everything has come to rest after so long.
const QUIET_US_MAX: Micros = 120_000_000;

/// A step of the leader, stalls included, takes no longer than this on average.
const STEP_US_MAX: Micros = 2_000_000;

/// Where no step comes to an end for a while, the run may take so much longer.
const STALL_US_MAX: Micros = 60_000_000;

/// Events between two looks at whether the run is to stop.
const EVENTS_A_LOOK: u32 = 4096;

/// Between two votes of a group, in microseconds.
const VOTE_PAUSE_US: Micros = 1_000;

/// What happens.
#[derive(Debug)]
pub(super) enum Event {
    /// A scheduler thread looks whether it can enter a step.
    Wake { rank: usize },
    /// A message arrives.
    Deliver { to: usize, message: Rc<Message> },
    /// A stage has computed its part of a step.
    Computed { stage: usize, step: u64 },
    /// A vote thread fills its next ballot.
    Fill { group: Group, rank: usize },
    /// A vote thread gets the vector that the group reduced.
    Voted { group: Group, rank: usize, vector: Rc<[i64]> },
    /// A rank sees something of a request.
    Report { rank: usize, about: About, report: Report },
    /// A fault is over.
    FaultEnds { fault: usize },
}

/// A run.
pub(crate) struct World<'a> {
    pub(super) plan: &'a Plan,
    pub(super) queue: Queue<Event>,
    pub(super) stations: Vec<Station>,
    planes: [Plane; 2],
    /// The newest vote that the leader holds, by group.
    pub(super) newest: [Option<DecisionVote>; 2],
    pub(super) faults: Active,
    history: History,
    account: Account,
    pub(super) leading: Leading,
    pub(super) forward: Forward,
    pub(super) tally: Tally,
    rank_steps: u64,
    trace: Vec<String>,
}

impl<'a> World<'a> {
    /// Runs a plan to its end; nothing, if it was told to stop before.
    pub(crate) fn run(plan: &'a Plan, stop: &AtomicBool) -> Option<Outcome> {
        let mut world = match Self::new(plan) {
            Ok(world) => world,
            Err(wrong) => return Some(Outcome::nothing(Err(wrong.at(plan.domain, None, 0, 0)))),
        };
        let played = catch_unwind(AssertUnwindSafe(|| world.play(stop)));
        let result = played.unwrap_or_else(|panic| Some(Err(world.at(None, Wrong::panicked(&*panic)))));
        result.map(|result| world.outcome(result))
    }

    fn new(plan: &'a Plan) -> Result<Self, Wrong> {
        let ranks = plan.topology.members();
        Ok(Self {
            plan,
            queue: Queue::new(),
            stations: Station::all(plan)?,
            planes: [Plane::new(ranks), Plane::new(ranks)],
            newest: [None, None],
            faults: Active::new(&plan.faults),
            history: History::new(ranks),
            account: Account::default(),
            leading: Leading::default(),
            forward: Forward::new(plan.topology.pp as usize),
            tally: Tally::default(),
            rank_steps: 0,
            trace: Vec::new(),
        })
    }

    fn play(&mut self, stop: &AtomicBool) -> Option<Result<End, Violation>> {
        for rank in 0..self.stations.len() {
            #[cfg(feature = "planted-defects")]
            self.plant(rank);
            for group in Group::ALL {
                let delay = self.about(200, Purpose::Wobble, [rank as u64, group as u64, 0]);
                self.queue.after(delay, Event::Fill { group, rank });
            }
        }
        self.wake(0, 0);
        while !stop.load(Ordering::Relaxed) {
            if let Some(result) = (0..EVENTS_A_LOOK).find_map(|_| self.next().transpose()) {
                return Some(result);
            }
        }
        None
    }

    /// The next event; gives the end, if it is one.
    fn next(&mut self) -> Result<Option<End>, Violation> {
        let Some(event) = self.queue.pop() else {
            let what = "nothing is left to happen, and the run has not come to its end";
            return Err(self.at(None, Wrong::new("liveness", what)));
        };
        let (rank, happened) = self.happen(event);
        happened.map_err(|wrong| self.at(Some(rank), wrong))?;
        if self.stations.iter().all(|station| station.stopped) {
            return self.check_end().map(Some);
        }
        self.check_liveness().map(|()| None).map_err(|wrong| self.at(None, wrong))
    }

    fn happen(&mut self, event: Event) -> (usize, Result<(), Wrong>) {
        match event {
            Event::Wake { rank } => (rank, self.begin(rank)),
            Event::Deliver { to, message } => {
                self.stations[to].mailbox.push_back(message);
                self.wake(to, 0);
                (to, Ok(()))
            }
            Event::Computed { stage, step } => {
                self.computed(stage, step);
                (self.plan.topology.peers(stage).start, Ok(()))
            }
            Event::Fill { group, rank } => (rank, self.fill(group, rank)),
            Event::Voted { group, rank, vector } => (rank, self.voted(group, rank, &vector)),
            Event::Report { rank, about, report } => (rank, self.report(rank, about, report)),
            Event::FaultEnds { fault } => {
                let rank = self.plan.faults[fault].rank;
                self.fault_ends(fault);
                (rank, Ok(()))
            }
        }
    }

    // ---- steps

    fn begin(&mut self, rank: usize) -> Result<(), Wrong> {
        let halts = [FaultKind::PausedRank, FaultKind::StalledFollower];
        let halted = halts.into_iter().any(|kind| self.faults.size(kind, rank).is_some());
        let station = &mut self.stations[rank];
        station.wakes = false;
        if station.busy || station.stopped || halted || !station.has_room() {
            return Ok(());
        }
        if rank == 0 {
            self.faults_begin(self.stations[0].step + 1);
            let message = Rc::new(self.message());
            return self.enter(0, &message);
        }
        match station.mailbox.pop_front() {
            Some(message) => self.enter(rank, &message),
            None => Ok(()),
        }
    }

    fn enter(&mut self, rank: usize, message: &Rc<Message>) -> Result<(), Wrong> {
        let step = message.step;
        self.stations[rank].step = step;
        self.rank_steps += 1;
        if let Some(coefficients) = self.heard(rank, message) {
            self.stations[rank].desk.hear(coefficients);
        }
        #[cfg(feature = "planted-defects")]
        self.tell_time(rank);
        let deeds = self.stations[rank].desk.enter(self.plan, message)?;
        if rank == 0 {
            self.account.ruled(self.plan, message, &deeds)?;
            self.count(message, &deeds);
        }
        for about in &deeds.asked {
            self.account.asked(rank, *about);
            self.look(rank, *about);
        }
        let busy = self.busy_us(rank, &deeds);
        self.history.enter(rank, step, deeds)?;
        self.send(rank, message)?;
        if let Some((source, edge)) = Topology::source(rank) {
            self.stations[source].ahead[edge] -= 1;
            self.wake(source, 0);
        }
        let station = &mut self.stations[rank];
        (station.stopped, station.busy) = (message.last, true);
        self.join_pass(rank, step, busy);
        Ok(())
    }

    /// Relayed before the work of the step: a message is there late, but in order, and whole.
    fn send(&mut self, rank: usize, message: &Rc<Message>) -> Result<(), Wrong> {
        for (edge, to) in self.stations[rank].receivers.clone().enumerate() {
            let of = [to as u64, message.step, 0];
            let slow = self.faults.size(FaultKind::SlowMessages, to).unwrap_or(0);
            let jitter = self.faults.size(FaultKind::JitteryLinks, to).unwrap_or(0);
            let jitter = rng::below(roll(self.plan.seed, Purpose::Jitter, of), jitter + 1);
            if let Some(pieces) = self.faults.size(FaultKind::PartialMessages, to) {
                message.in_pieces(usize::try_from(pieces).unwrap_or(1))?;
            }
            let delay = self.about(self.plan.hop_us, Purpose::Hop, of) + slow + jitter;
            let now = self.queue.now();
            let station = &mut self.stations[to];
            station.arrival = station.arrival.max(now + delay);
            let delay = station.arrival - now;
            self.stations[rank].ahead[edge] += 1;
            self.queue.after(delay, Event::Deliver { to, message: Rc::clone(message) });
        }
        Ok(())
    }

    /// From now on the rank sees something of a request: at times of its own.
    fn look(&mut self, rank: usize, about: About) {
        let trouble = Trouble {
            late_us: self.faults.size(FaultKind::LateReports, rank).unwrap_or(0),
            fails_permille: self.faults.size(FaultKind::FailingTransfers, rank).unwrap_or(0),
            silent: self.faults.size(FaultKind::SilentRank, rank).is_some(),
        };
        for (delay, report) in reports(self.plan, about, rank, trouble) {
            self.queue.after(delay, Event::Report { rank, about, report });
        }
    }

    fn report(&mut self, rank: usize, about: About, report: Report) -> Result<(), Wrong> {
        let desk = &mut self.stations[rank].desk;
        let asks = desk.asks(about);
        let Some(counts) = desk.report(about, report)? else { return Ok(()) };
        self.tally.late_reports += u64::from(!counts);
        self.account.reported(rank, about, report, asks, counts)
    }

    /// How long the step takes on this rank.
    fn busy_us(&self, rank: usize, deeds: &Deeds) -> Micros {
        let step = self.stations[rank].step;
        let skew = self.faults.size(FaultKind::SkewedStage, rank).unwrap_or(1);
        let chunks: Micros =
            deeds.chunks.iter().map(|chunk| self.plan.speed.chunk_us(chunk.history, chunk.length)).sum();
        let own = (chunks * self.plan.slowness(rank) / 1000 + self.plan.step_us) * skew;
        self.about(own, Purpose::Forward, [rank as u64, step, 0])
    }

    /// The coefficients that a rank takes from a step: the leader's, but for a mistake.
    fn heard(&self, rank: usize, message: &Message) -> Option<(u64, u64)> {
        let own = self.plan.defect.is_some_and(|defect| defect.keeps_own_coefficients(rank));
        message.coefficients.map(|agreed| if own { self.fitted(rank, message.step) } else { agreed })
    }

    fn count(&mut self, message: &Message, deeds: &Deeds) {
        let tally = &mut self.tally;
        tally.questions += deeds.asked.len() as u64;
        for group in Group::ALL {
            deeds.verdicts[group as usize].iter().for_each(|decided| tally.verdict(group, decided.verdict));
        }
        tally.retracted += deeds.readmitted.len() as u64;
        tally.finished += deeds.ended.iter().filter(|(_, how)| *how == Ended::Finished).count() as u64;
        tally.chunks += deeds.chunks.len() as u64;
        tally.fitted_chunks += deeds.chunks.iter().filter(|chunk| chunk.fitted).count() as u64;
        if self.plan.trace {
            self.trace.push(format!("step {}: {deeds:?}", message.step));
        }
    }

    // ---- votes

    fn fill(&mut self, group: Group, rank: usize) -> Result<(), Wrong> {
        let station = &mut self.stations[rank];
        let queue = station.desk.queue_mut(group);
        let mut ballot = vec![0; queue.words()];
        queue.fill(&mut ballot).map_err(|error| Wrong::new("vote", error.to_string()))?;
        let (own, votes) = (station.votes[group as usize], self.planes[group as usize].votes());
        ensure(own == votes, "conservation", || format!("its vote {own} meets vote {votes} of the others"))?;
        let Some(vector) = self.planes[group as usize].fill(&ballot) else { return Ok(()) };
        for rank in 0..self.stations.len() {
            let delay = self.about(self.plan.vote_us, Purpose::VoteLatency, [rank as u64, own, group as u64]);
            self.queue.after(delay, Event::Voted { group, rank, vector: Rc::clone(&vector) });
        }
        Ok(())
    }

    fn voted(&mut self, group: Group, rank: usize, vector: &[i64]) -> Result<(), Wrong> {
        let station = &mut self.stations[rank];
        let vote = station.desk.queue_mut(group).complete(vector);
        let vote = vote.map_err(|error| Wrong::new("vote", error.to_string()))?;
        station.votes[group as usize] += 1;
        let of = [rank as u64, station.votes[group as usize], group as u64];
        if rank == 0 {
            self.newest[group as usize] = Some(vote);
        }
        let slow = self.faults.size(FaultKind::SlowVotes, rank).unwrap_or(0);
        let pause = self.about(VOTE_PAUSE_US, Purpose::VotePause, of) + slow;
        self.queue.after(pause, Event::Fill { group, rank });
        Ok(())
    }

    // ---- faults

    /// The leader enters a step: some faults begin. After the last step with requests none does.
    fn faults_begin(&mut self, step: u64) {
        if step > self.plan.steps {
            return;
        }
        for fault in self.faults.due(step) {
            let Fault { kind, rank, micros, size, .. } = self.plan.faults[fault];
            let now = self.queue.now();
            self.faults.set(fault, Some(now + micros));
            if kind == FaultKind::SkewedClock {
                self.stations[rank].clock.run(now, size);
            }
            self.queue.after(micros, Event::FaultEnds { fault });
        }
    }

    fn fault_ends(&mut self, fault: usize) {
        let Fault { kind, rank, .. } = self.plan.faults[fault];
        self.faults.set(fault, None);
        if kind == FaultKind::SkewedClock && self.faults.size(kind, rank).is_none() {
            self.stations[rank].clock.run(self.queue.now(), 1000);
        }
        self.wake(rank, 0);
    }

    // ---- the end

    /// Every run comes to its end in bounded virtual time.
    fn check_liveness(&self) -> Result<(), Wrong> {
        let now = self.queue.now();
        let limit = match self.leading.dry_since {
            Some(since) => since + QUIET_US_MAX,
            None => STALL_US_MAX + self.stations[0].step * STEP_US_MAX,
        };
        ensure(now <= limit, "liveness", || {
            let open: Vec<_> = self.stations[0].desk.open().collect();
            let steps: Vec<u64> = self.stations.iter().map(|station| station.step).collect();
            format!("the run does not come to rest: open requests {open:?}; ranks are at steps {steps:?}")
        })
    }

    fn check_end(&self) -> Result<End, Violation> {
        let quiet = self.leading.is_quiet();
        let sent = self.stations[0].step;
        for (rank, station) in self.stations.iter().enumerate() {
            let left = station.mailbox.len();
            let same = ensure(station.step == sent && left == 0, "conservation", || {
                format!("{sent} steps were sent, it is at step {} with {left} messages left", station.step)
            });
            let rest = same.and_then(|()| if quiet { station.desk.check_rest() } else { Ok(()) });
            rest.map_err(|wrong| self.at(Some(rank), wrong))?;
        }
        if !quiet {
            return Ok(End::Stopped);
        }
        let rest = self.account.check_rest(self.plan.input_numbers.len());
        rest.map(|()| End::Clean).map_err(|wrong| self.at(None, wrong))
    }

    fn at(&self, rank: Option<usize>, wrong: Wrong) -> Violation {
        let rank = wrong.rank.or(rank);
        wrong.at(self.plan.domain, rank, self.stations[rank.unwrap_or(0)].step, self.queue.now())
    }

    fn outcome(self, result: Result<End, Violation>) -> Outcome {
        let steps = self.stations[0].step;
        Outcome {
            history: self.history.chain(),
            rank_steps: self.rank_steps,
            steps,
            steps_min: steps,
            votes: self.planes.iter().map(Plane::votes).sum(),
            events: self.queue.events(),
            time_us: self.queue.now(),
            modelled: steps,
            coverage: Coverage::default(),
            tally: self.tally,
            trace: self.trace,
            ..Outcome::nothing(result)
        }
    }

    // ---- how long things take

    /// Between half and one and a half of a mean.
    fn about(&self, mean: Micros, purpose: Purpose, of: [u64; 3]) -> Micros {
        mean / 2 + rng::below(roll(self.plan.seed, purpose, of), mean + 1)
    }

    /// Between two steps of the leader.
    pub(super) fn idle_us(&self) -> Micros {
        self.faults.size(FaultKind::OddIdleLoop, 0).unwrap_or(self.plan.idle_us)
    }

    /// A rank's scheduler thread looks again after a while, unless it will anyway.
    pub(super) fn wake(&mut self, rank: usize, delay: Micros) {
        let station = &mut self.stations[rank];
        if !station.busy && !station.stopped && !station.wakes {
            station.wakes = true;
            self.queue.after(delay, Event::Wake { rank });
        }
    }

    // ---- mistakes

    #[cfg(feature = "planted-defects")]
    fn plant(&mut self, rank: usize) {
        let Some(defect) = self.plan.defect else { return };
        for group in Group::ALL {
            defect.plant_queue(rank, self.stations[rank].desk.queue_mut(group));
        }
    }

    #[cfg(feature = "planted-defects")]
    fn tell_time(&mut self, rank: usize) {
        let now = self.queue.now();
        let station = &mut self.stations[rank];
        let own_ms = station.clock.at(now) / 1000;
        for group in Group::ALL {
            station.desk.queue_mut(group).set_clock(own_ms);
        }
    }
}
