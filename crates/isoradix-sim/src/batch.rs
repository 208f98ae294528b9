//! Many seeds on many topologies, on several threads; the results come in the order of the seeds all the same.

use crate::coverage::Coverage;
use crate::decisions::Tally;
use crate::outcome::{End, Outcome};
use crate::run_unless;
use crate::scenario::Options;
use crate::topology::Topology;
use crate::violation::Violation;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// How often progress is told, even if no run ends.
const LOOK: Duration = Duration::from_millis(100);

/// What to run.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Seeds.
    pub seeds: std::ops::Range<u64>,
    /// Topologies, at least one.
    pub topologies: Vec<Topology>,
    /// Whether each seed runs on one topology, by turns, and not on all of them.
    pub spread: bool,
    /// For all of them.
    pub options: Options,
    /// Threads; at least 1.
    pub threads: usize,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Runs.
    pub runs: u64,
    /// Runs by their [`End`].
    pub ends: [u64; End::ALL.len()],
    /// Steps of all ranks.
    pub rank_steps: u64,
    /// The leaders' steps.
    pub steps: u64,
    /// The fewest steps of the leader in a run that came to rest.
    pub steps_min: Option<u64>,
    /// Operations issued.
    pub operations: u64,
    /// Votes.
    pub votes: u64,
    /// Steps held against the reference model.
    pub modelled: u64,
    /// Events of the simulation.
    pub events: u64,
    /// Virtual time in microseconds.
    pub time_us: u64,
    /// The hash over all histories, in the order of the runs.
    pub history: u64,
    /// Transitions by faults.
    pub coverage: Coverage,
    /// What was asked and decided, in runs with decisions.
    pub tally: Tally,
    /// What the leader's rank did in the last run, if that was asked for.
    pub trace: Vec<String>,
    /// The first violation, in the order of the runs.
    pub failed: Option<(u64, Topology, Violation)>,
}

impl Summary {
    /// Pairs of a transition and a fault that never met; of runs without a cache, none.
    #[must_use]
    pub fn never_met(&self) -> usize {
        if self.operations == 0 { 0 } else { self.coverage.zeros().len() }
    }

    fn add(&mut self, seed: u64, topology: Topology, outcome: Outcome) {
        self.runs += 1;
        self.rank_steps += outcome.rank_steps;
        self.steps += outcome.steps;
        self.operations += outcome.operations;
        self.votes += outcome.votes;
        self.modelled += outcome.modelled;
        self.events += outcome.events;
        self.time_us += outcome.time_us;
        self.history = crate::rng::mix(self.history, outcome.history);
        self.coverage.merge(&outcome.coverage);
        self.tally.join(&outcome.tally);
        self.trace = outcome.trace;
        match outcome.result {
            Ok(end) => {
                self.ends[end as usize] += 1;
                if end == End::Clean {
                    self.steps_min = Some(self.steps_min.unwrap_or(u64::MAX).min(outcome.steps_min));
                }
            }
            Err(violation) => self.failed = Some((seed, topology, violation)),
        }
    }
}

impl Batch {
    /// All runs, in their order.
    #[must_use]
    pub fn jobs(&self) -> Vec<(u64, Topology)> {
        let turns = self.topologies.len() as u64;
        let of_seed = |seed: u64| {
            let its_turn = move |turn: u64| !self.spread || turn == seed % turns;
            let topologies = (0..).zip(&self.topologies).filter(move |(turn, _)| its_turn(*turn));
            topologies.map(move |(_, topology)| (seed, *topology))
        };
        self.seeds.clone().flat_map(of_seed).collect()
    }

    /// Runs everything up to the first violation. `progress` hears how many runs are done, from time to time also while no run
    /// ends, and may break it off: what was under way then does not count.
    #[must_use]
    pub fn run(&self, mut progress: impl FnMut(u64) -> ControlFlow<()>) -> Summary {
        let jobs = self.jobs();
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let mut summary = Summary::default();
        std::thread::scope(|scope| {
            let (results, received) = mpsc::channel();
            for _ in 0..self.threads.max(1) {
                let (results, jobs, next, stop) = (results.clone(), &jobs, &next, &stop);
                scope.spawn(move || {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some((seed, topology)) = jobs.get(number) else { break };
                        let Some(outcome) = run_unless(stop, *seed, *topology, &self.options) else { break };
                        let failed = outcome.result.is_err();
                        if results.send((number, outcome)).is_err() || failed {
                            // Earlier runs go on: the first violation is the first in the order of the runs.
                            next.fetch_max(jobs.len(), Ordering::Relaxed);
                            break;
                        }
                    }
                });
            }
            drop(results);
            collect(&jobs, &received, &mut summary, &mut progress, &stop);
        });
        summary
    }
}

/// Takes results in the order of the jobs, whatever the order in which they come.
fn collect(
    jobs: &[(u64, Topology)],
    received: &mpsc::Receiver<(usize, Outcome)>,
    summary: &mut Summary,
    progress: &mut impl FnMut(u64) -> ControlFlow<()>,
    stop: &AtomicBool,
) {
    let mut early = std::collections::BTreeMap::new();
    let mut due = 0;
    loop {
        match received.recv_timeout(LOOK) {
            Ok((number, outcome)) => drop(early.insert(number, outcome)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        while let Some(outcome) = early.remove(&due) {
            if summary.failed.is_none() {
                let (seed, topology) = jobs[due];
                summary.add(seed, topology, outcome);
            }
            due += 1;
        }
        if progress(summary.runs).is_break() {
            stop.store(true, Ordering::Relaxed);
            break;
        }
    }
}
