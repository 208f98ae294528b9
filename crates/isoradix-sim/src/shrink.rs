//! The smallest schedule that still fails.

use crate::decisions::Plan;
use crate::outcome::Outcome;
use crate::run;
use crate::scenario::{Family, Options, Scenario};
use crate::topology::Topology;
use crate::violation::Violation;
use std::collections::BTreeSet;

/// Runs that shrinking may take.
const RUNS_MAX: u32 = 400;

/// A failing schedule, made smaller.
#[derive(Debug, Clone)]
pub struct Shrunk {
    /// What to run.
    pub options: Options,
    /// What is wrong there.
    pub violation: Violation,
    /// Runs that it took.
    pub runs: u32,
}

/// Leaves out faults, then inputs, then steps, as long as the run fails in the same way. It is content with what it has once
/// `goes_on` says so, which is asked before every run.
#[must_use]
pub fn shrink(
    seed: u64,
    topology: Topology,
    options: &Options,
    violation: &Violation,
    goes_on: impl FnMut() -> bool,
) -> Shrunk {
    // Domains know nothing of each other: the others are left out.
    let best = Options { domain: (topology.dp > 1).then_some(violation.domain), ..options.clone() };
    let (faults, inputs) = parts(seed, topology, violation.domain, &best);
    let mut search = Search { seed, topology, best, violation: violation.clone(), runs: 0, goes_on };
    search.steps();
    search.sets(faults.clone(), |options, kept| options.keep_faults = Some(kept));
    search.sets(inputs, |options, kept| options.keep_inputs = Some(kept));
    search.sets(faults, |options, kept| options.keep_faults = Some(kept));
    search.steps();
    Shrunk { options: search.best, violation: search.violation, runs: search.runs }
}

/// The numbers of the faults and inputs of a run.
fn parts(seed: u64, topology: Topology, domain: u32, options: &Options) -> (Vec<usize>, Vec<usize>) {
    if options.family == Family::Cache {
        let whole = Scenario::new(seed, topology, domain, options);
        return (whole.fault_numbers, whole.input_numbers);
    }
    let whole = Plan::new(seed, topology, domain, options);
    (whole.fault_numbers, whole.input_numbers)
}

struct Search<G> {
    seed: u64,
    topology: Topology,
    best: Options,
    violation: Violation,
    runs: u32,
    goes_on: G,
}

impl<G: FnMut() -> bool> Search<G> {
    /// Keeps a candidate if it fails in the same way.
    fn keep(&mut self, candidate: Options) -> bool {
        if self.runs >= RUNS_MAX || !(self.goes_on)() {
            return false;
        }
        self.runs += 1;
        let Outcome { result, .. } = run(self.seed, self.topology, &candidate);
        let Err(violation) = result else { return false };
        let same = violation.kind == self.violation.kind;
        if same {
            (self.best, self.violation) = (candidate, violation);
        }
        same
    }

    /// What happens after the violation is not needed.
    fn steps(&mut self) {
        let until = self.violation.step + 1;
        for steps in [until, until + 2, until + 10, until + 40] {
            if steps < self.best.limit && self.keep(Options { limit: steps, ..self.best.clone() }) {
                break;
            }
        }
    }

    /// Halves, quarters and so on of a set are left out, down to single ones.
    fn sets(&mut self, all: Vec<usize>, set: fn(&mut Options, BTreeSet<usize>)) {
        let mut kept = all;
        let mut size = kept.len();
        while size > 0 {
            let mut at = 0;
            while at < kept.len() {
                let rest: Vec<usize> = kept
                    .iter()
                    .enumerate()
                    .filter(|(place, _)| !(at..at + size).contains(place))
                    .map(|(_, n)| *n)
                    .collect();
                let mut candidate = self.best.clone();
                set(&mut candidate, rest.iter().copied().collect());
                if self.keep(candidate) {
                    kept = rest;
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
    }
}
