//! Many ranks in virtual time: a batch of the simulator's runs.

use std::ops::ControlFlow;

use isoradix_core::Eviction;
use isoradix_sim::{Batch, End, Family, Options, Summary, Topology, arguments, describe, shrink};
use pyo3::prelude::*;

use crate::errors::{self, Class};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Simulated>()?;
    module.add_class::<Found>()?;
    module.add_function(wrap_pyfunction!(simulate, module)?)
}

/// What a batch of runs came to.
#[pyclass(frozen, get_all, module = "isoradix")]
struct Simulated {
    /// Runs that have ended; fewer than asked for after a violation.
    runs: u64,
    /// Runs by their end.
    clean: u64,
    stopped: u64,
    crashed: u64,
    fatal: u64,
    detected: u64,
    /// Steps of all ranks, and of the leaders.
    rank_steps: u64,
    steps: u64,
    /// The fewest steps of a leader in a run that came to rest.
    steps_min: Option<u64>,
    /// Steps held against the reference model.
    modelled: u64,
    operations: u64,
    votes: u64,
    events: u64,
    /// Of runs that decide without a cache: questions, verdicts (ready, failed, aborted, timed out, missing), requests that were given
    /// up, and chunks of prompts.
    questions: u64,
    verdicts: [u64; 5],
    given_up: u64,
    chunks: u64,
    /// Virtual time, in microseconds.
    time_us: u64,
    /// Pairs of a transition and a fault that never met.
    never_met: usize,
    /// The hash over all histories.
    history: u64,
    /// The first violation, in the order of the runs.
    found: Option<Py<Found>>,
}

/// A violation, and the arguments that repeat it.
#[pyclass(frozen, get_all, module = "isoradix")]
struct Found {
    seed: u64,
    topology: String,
    /// Which promise, as a word.
    kind: String,
    /// What, where and when.
    what: String,
    /// Arguments of `isoradix sim`.
    again: String,
    /// The schedule: shape, faults, and inputs if they are few.
    schedule: String,
    /// The same, made smaller: what, arguments and schedule.
    smallest: Option<(String, String, String)>,
}

/// Run a batch of seeds, without the GIL.
///
/// Args:
///     seeds: the first seed, and the one after the last.
///     ranks: topologies such as "tp2xpp2xcp2xdp2".
///     family: what the ranks do: "cache", "decisions" or "abort-storm".
///     spread: whether each seed runs on one of the topologies, by turns, and not on all.
///     threads: at least 1.
///     steps, until, faults, fatal, keep_faults, keep_inputs, domain, liar, corrupt, eviction: as `isoradix sim` explains.
///     shrinks: whether a violation is made smaller.
///     progress: called with the runs that have ended, ten times a second or more; what it raises ends the batch.
///
/// Raises:
///     InvalidInputError: a topology, a family or a policy that there is not, an option that is not the family's, or a rank or domain that the smallest topology has not.
#[pyfunction]
#[pyo3(signature = (
    seeds, ranks, *, family="cache", spread, threads, steps, until=None, faults, fatal=false, keep_faults=None, keep_inputs=None, domain=None,
    liar=None, corrupt=None, eviction=None, shrinks=true, progress
))]
#[expect(clippy::too_many_arguments, reason = "each is an option of the command")]
#[expect(clippy::needless_pass_by_value, reason = "as PyO3 hands them over")]
fn simulate(
    py: Python<'_>,
    seeds: (u64, u64),
    ranks: Vec<String>,
    family: &str,
    spread: bool,
    threads: usize,
    steps: u64,
    until: Option<u64>,
    faults: usize,
    fatal: bool,
    keep_faults: Option<Vec<usize>>,
    keep_inputs: Option<Vec<usize>>,
    domain: Option<u32>,
    liar: Option<usize>,
    corrupt: Option<(usize, u32)>,
    eviction: Option<String>,
    shrinks: bool,
    progress: Py<PyAny>,
) -> PyResult<Simulated> {
    let invalid = |what: String| errors::new(py, Class::InvalidInput, what);
    if let Some(name) = &eviction {
        Eviction::parse(name).map_err(|error| errors::from_core(py, &error))?;
    }
    let options = Options {
        family: family.parse::<Family>().map_err(invalid)?,
        steps,
        limit: until.unwrap_or(u64::MAX),
        fault_kinds: faults,
        fatal,
        keep_faults: keep_faults.map(|kept| kept.into_iter().collect()),
        keep_inputs: keep_inputs.map(|kept| kept.into_iter().collect()),
        domain,
        liar,
        corrupt,
        eviction,
        ..Options::default()
    };
    let topologies: Result<Vec<Topology>, String> = ranks.iter().map(|name| name.parse()).collect();
    let topologies = topologies.map_err(invalid)?;
    options.check(&topologies).map_err(invalid)?;
    let batch = Batch { seeds: seeds.0..seeds.1, topologies, options, spread, threads };
    let (summary, found) = py.detach(|| run(&batch, shrinks, &progress))?;
    let found = found.map(|found| Py::new(py, found)).transpose()?;
    Ok(Simulated::new(&summary, found))
}

/// The batch, and what it found.
fn run(batch: &Batch, shrinks: bool, progress: &Py<PyAny>) -> PyResult<(Summary, Option<Found>)> {
    let mut raised = None;
    let mut tell = |done: u64| {
        // Signals are handled in this thread, if it is the main one: Ctrl-C ends the batch.
        let told = Python::attach(|py| py.check_signals().and_then(|()| progress.call1(py, (done,)).map(drop)));
        match told {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                raised = Some(error);
                ControlFlow::Break(())
            }
        }
    };
    let summary = batch.run(&mut tell);
    let found = summary.failed.as_ref().map(|(seed, topology, violation)| {
        let options = &batch.options;
        let goes_on = || tell(summary.runs).is_continue();
        let smaller = shrinks.then(|| shrink(*seed, *topology, options, violation, goes_on));
        Found {
            seed: *seed,
            topology: topology.to_string(),
            kind: violation.kind.to_owned(),
            what: violation.to_string(),
            again: arguments(*seed, *topology, options),
            schedule: describe(*seed, *topology, options),
            smallest: smaller.map(|smaller| {
                let again = arguments(*seed, *topology, &smaller.options);
                (smaller.violation.to_string(), again, describe(*seed, *topology, &smaller.options))
            }),
        }
    });
    match raised {
        Some(error) => Err(error),
        None => Ok((summary, found)),
    }
}

impl Simulated {
    fn new(summary: &Summary, found: Option<Py<Found>>) -> Self {
        let ended = |end: End| summary.ends[end as usize];
        Self {
            runs: summary.runs,
            clean: ended(End::Clean),
            stopped: ended(End::Stopped),
            crashed: ended(End::Crashed),
            fatal: ended(End::Fatal),
            detected: ended(End::Detected),
            rank_steps: summary.rank_steps,
            steps: summary.steps,
            steps_min: summary.steps_min,
            modelled: summary.modelled,
            operations: summary.operations,
            votes: summary.votes,
            events: summary.events,
            questions: summary.tally.questions,
            verdicts: summary.tally.of_both(),
            given_up: summary.tally.aborted(),
            chunks: summary.tally.chunks,
            time_us: summary.time_us,
            never_met: summary.never_met(),
            history: summary.history,
            found,
        }
    }
}
