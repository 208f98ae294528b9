//! All that a seed decides before a run begins.

use super::fate::Odds;
use super::fit::Speed;
use super::phase::Phase;
use crate::defect::PlantedDefect;
use crate::fault::{self, Fault, FaultKind};
use crate::queue::Micros;
use crate::rng::{Rng, mix};
use crate::scenario::{Family, Options, kept};
use crate::topology::Topology;
use isoradix_core::chunking::ChunkRule;
use std::fmt::Write;

/// Requests of a storm: each is given up.
pub(super) const STORM_REQUESTS: u64 = 1000;

/// Requests of a storm that arrive in a step.
const STORM_ARRIVALS: u64 = 20;

/// When the leader gives a request up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Abort {
    /// It has come to this phase, or past it.
    pub(super) phase: Phase,
    /// So many of the leader's steps ago.
    pub(super) steps: u64,
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    /// The leader's step before which it arrives.
    pub(super) at_step: u64,
    /// Tokens of its prompt.
    pub(super) prompt: u64,
    /// Steps that its answer takes.
    pub(super) answer: u64,
    pub(super) abort: Option<Abort>,
}

/// What the leader does now and then whatever the plan says, of a thousand steps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ambient {
    pub(super) aborts: u64,
    pub(super) retractions: u64,
}

/// One seed on one domain of a topology.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The domain's own.
    pub(super) seed: u64,
    pub(super) domain: u32,
    pub(super) topology: Topology,
    /// Steps with requests.
    pub(super) steps: u64,
    pub(super) limit: u64,
    /// Open questions of a queue.
    pub(super) window: u32,
    pub(super) patience_ms: u64,
    /// Requests that hold a slot.
    pub(super) slots: u64,
    /// Questions of a group in a step.
    pub(super) asks_a_step: usize,
    /// Requests whose prompts are computed in a step, a chunk of each.
    pub(super) prefills_a_step: usize,
    pub(super) chunk_base: u64,
    pub(super) rule: ChunkRule,
    pub(super) speed: Speed,
    /// A step without chunks.
    pub(super) step_us: Micros,
    /// The leader's idle loop.
    pub(super) idle_us: Micros,
    pub(super) hop_us: Micros,
    pub(super) vote_us: Micros,
    /// Until a rank's data has come, on average.
    pub(super) transfer_us: Micros,
    pub(super) odds: Odds,
    pub(super) ambient: Ambient,
    pub(super) requests: Vec<Request>,
    /// Requests that arrive, in their order.
    pub(crate) input_numbers: Vec<usize>,
    pub(super) faults: Vec<Fault>,
    pub(crate) fault_numbers: Vec<usize>,
    pub(super) defect: Option<PlantedDefect>,
    pub(super) trace: bool,
}

/// Streams of one seed; each is drawn from by itself.
#[derive(Clone, Copy)]
enum Stream {
    Shape = 101,
    Times,
    Faults,
    Work,
}

impl Plan {
    /// Shape and times are equal in all domains of a topology; work and faults are not.
    pub(crate) fn new(seed: u64, topology: Topology, domain: u32, options: &Options) -> Self {
        let own = if domain == 0 { seed } else { mix(seed, domain.into()) };
        let storm = options.family == Family::AbortStorm;
        let stream = |stream: Stream| Rng::new(own, stream as u64);
        let [mut shape, mut times] = [Stream::Shape, Stream::Times].map(|stream| Rng::new(seed, stream as u64));
        let small = |range: (u64, u64), shape: &mut Rng| usize::try_from(shape.within(range.0, range.1)).unwrap_or(1);
        let chunk_base = *shape.pick(if storm { &[512][..] } else { &[1024, 2048, 4096] });
        let rule = ChunkRule::new(chunk_base, *shape.pick(&[1, 64, 128]), 1 << 17, 2 * chunk_base);
        let mut work = stream(Stream::Work);
        let requests =
            if storm { storm_requests(&mut work) } else { requests(&mut work, options.steps, 4 * chunk_base) };
        let planned = fault::passing(
            &mut stream(Stream::Faults),
            &FaultKind::OF_DECISIONS,
            topology,
            options.steps,
            options.fault_kinds,
        );
        let fault_numbers = kept(planned.len(), options.keep_faults.as_ref());
        let odds = |most: [u64; 4]| {
            let [fails, fails_late, stuck, silent] = most;
            Odds { fails, fails_late, stuck, silent }
        };
        Self {
            seed: own,
            domain,
            topology,
            steps: options.steps,
            limit: options.limit,
            window: if storm { 96 } else { *shape.pick(&[4, 8, 32, 128]) },
            patience_ms: shape.within(150, 600),
            slots: if storm { STORM_REQUESTS } else { shape.within(6, 40) },
            asks_a_step: if storm { 16 } else { small((1, 6), &mut shape) },
            prefills_a_step: if storm { 32 } else { small((1, 4), &mut shape) },
            chunk_base,
            rule: rule.unwrap_or_else(|error| unreachable!("{error}")),
            speed: speed(&mut times),
            step_us: times.within(1_000, 6_000),
            idle_us: times.within(300, 2_000),
            hop_us: times.within(80, 1_500),
            vote_us: times.within(200, 4_000),
            transfer_us: times.within(2_000, 60_000),
            odds: odds(if storm { [20, 20, 10, 10] } else { [60, 60, 30, 30] }),
            ambient: if storm {
                Ambient { aborts: 0, retractions: 100 }
            } else {
                Ambient { aborts: shape.within(0, 60), retractions: shape.within(0, 60) }
            },
            input_numbers: kept(requests.len(), options.keep_inputs.as_ref()),
            requests,
            faults: fault_numbers.iter().map(|number| planned[*number]).collect(),
            fault_numbers,
            defect: options.defect,
            trace: options.trace,
        }
    }

    pub(super) fn request(&self, number: u32) -> &Request {
        &self.requests[number as usize]
    }

    /// Its shape, its faults, and its requests if they are few.
    pub(crate) fn describe(&self) -> String {
        let mut out = format!(
            "  {} open questions of a queue, patience {} ms, {} slots, chunks of {} tokens at first\n",
            self.window, self.patience_ms, self.slots, self.chunk_base
        );
        for (number, fault) in self.fault_numbers.iter().zip(&self.faults) {
            let _ = writeln!(out, "  fault {number}: {fault}");
        }
        let _ = writeln!(out, "  {} requests", self.input_numbers.len());
        if self.input_numbers.len() <= 16 {
            for number in &self.input_numbers {
                let _ = writeln!(out, "  request {number}: {:?}", self.requests[*number]);
            }
        }
        out
    }
}

fn speed(rng: &mut Rng) -> Speed {
    Speed {
        square: rng.within(100, 1_000),
        linear: rng.within(300_000, 1_500_000),
        constant: rng.within(0, 2_000_000_000),
    }
}

/// About one in two steps.
fn requests(rng: &mut Rng, steps: u64, longest: u64) -> Vec<Request> {
    let mut requests = Vec::new();
    for at_step in 1..=steps {
        for _ in 0..*rng.pick(&[0, 0, 0, 1, 1, 2]) {
            let (prompt, answer) = (rng.within(1, longest), rng.within(1, 40));
            requests.push(Request { at_step, prompt, answer, abort: None });
        }
    }
    requests
}

/// Each is given up a few steps after it has come to some phase.
fn storm_requests(rng: &mut Rng) -> Vec<Request> {
    let request = |number| Request {
        at_step: 1 + number / STORM_ARRIVALS,
        prompt: rng.within(1, 2_000),
        answer: 1_000_000,
        abort: Some(Abort { phase: *rng.pick(&Phase::ALL), steps: rng.within(0, 3) }),
    };
    (0..STORM_REQUESTS).map(request).collect()
}
