//! Many seeds on many topologies, on several threads; the results come in the order of the seeds all the same.

use crate::cluster::{End, Outcome};
use crate::coverage::Coverage;
use crate::run;
use crate::scenario::Options;
use crate::topology::Topology;
use crate::violation::Violation;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

/// What to run.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Seeds.
    pub seeds: std::ops::Range<u64>,
    /// Topologies, each with all seeds.
    pub topologies: Vec<Topology>,
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
    /// Runs by their end: clean, stopped, crashed, fatal.
    pub ends: [u64; 4],
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
    /// Virtual time in microseconds.
    pub time_us: u64,
    /// The hash over all histories, in the order of the runs.
    pub history: u64,
    /// Transitions by faults.
    pub coverage: Coverage,
    /// What the leader's rank did in the last run, if that was asked for.
    pub trace: Vec<String>,
    /// The first violation, in the order of the runs.
    pub failed: Option<(u64, Topology, Violation)>,
}

impl Summary {
    fn add(&mut self, seed: u64, topology: Topology, outcome: Outcome) {
        self.runs += 1;
        self.rank_steps += outcome.rank_steps;
        self.steps += outcome.steps;
        self.operations += outcome.operations;
        self.votes += outcome.votes;
        self.modelled += outcome.modelled;
        self.time_us += outcome.time_us;
        self.history = crate::rng::mix(self.history, outcome.history);
        self.coverage.merge(&outcome.coverage);
        self.trace = outcome.trace;
        match outcome.result {
            Ok(end) => {
                self.ends[end as usize] += 1;
                if end == End::Clean {
                    self.steps_min = Some(self.steps_min.unwrap_or(u64::MAX).min(outcome.steps));
                }
            }
            Err(violation) => self.failed = Some((seed, topology, violation)),
        }
    }
}

impl Batch {
    /// Runs everything up to the first violation. `progress` hears how many runs are done.
    #[must_use]
    pub fn run(&self, mut progress: impl FnMut(u64)) -> Summary {
        let seeds: Vec<u64> = self.seeds.clone().collect();
        let jobs: Vec<(u64, Topology)> =
            seeds.iter().flat_map(|seed| self.topologies.iter().map(move |topology| (*seed, *topology))).collect();
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let mut summary = Summary::default();
        std::thread::scope(|scope| {
            let (results, received) = mpsc::channel();
            for _ in 0..self.threads.max(1) {
                let (results, jobs, next, failed) = (results.clone(), &jobs, &next, &failed);
                scope.spawn(move || {
                    while !failed.load(Ordering::Relaxed) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some((seed, topology)) = jobs.get(number) else { break };
                        let outcome = run(*seed, *topology, &self.options);
                        failed.fetch_or(outcome.result.is_err(), Ordering::Relaxed);
                        if results.send((number, outcome)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(results);
            collect(&jobs, &received, &mut summary, &mut progress);
        });
        summary
    }
}

/// Takes results in the order of the jobs, whatever the order in which they come.
fn collect(
    jobs: &[(u64, Topology)],
    received: &mpsc::Receiver<(usize, Outcome)>,
    summary: &mut Summary,
    progress: &mut impl FnMut(u64),
) {
    let mut early = std::collections::BTreeMap::new();
    let mut due = 0;
    for (number, outcome) in received {
        early.insert(number, outcome);
        while let Some(outcome) = early.remove(&due) {
            if summary.failed.is_none() {
                let (seed, topology) = jobs[due];
                summary.add(seed, topology, outcome);
                progress(summary.runs);
            }
            due += 1;
        }
    }
}
