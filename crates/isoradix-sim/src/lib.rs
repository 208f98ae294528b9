//! Many ranks in one process, in virtual time, under a seeded plan of faults.
//!
//! A run is a function of its seed, its topology and its [`Options`]: the same ones give the same history, to the last bit. What
//! runs is the core itself: [`Rank`](isoradix_core::Rank), [`Board`](isoradix_core::protocol::Board) and
//! [`VoteMachine`](isoradix_core::protocol::VoteMachine) of each rank. What is made up is the rest of the world: threads, messages, copies,
//! memory, storage, users, and what goes wrong.
//!
//! Checked, while it runs:
//!
//! - there is one history: every rank enters each step with the digest of all others, and leaves it with the same answers and state;
//! - it is the reference model's history (`naive`), and the operations move as their votes say;
//! - memory: no slot or page is read before it was written, or after it was given away, or for other tokens;
//! - every invariant of the core; every operation ends; nothing is left over; no message is lost or unpaired;
//! - a rank that died is noticed.
//!
//! There are runs without a cache as well (`decisions`): which requests are ready on every rank, and how long the chunks of their prompts
//! are, with a checker of their own.
//!
//! Not checked: that KV holds what a model would compute; sockets and processes; a rank that lies.
//!
//! Files, each importing only from those before it: `rng`, `queue`, `clock`, `topology`, `violation`; `fault`, `active` (faults that are on),
//! `plane`, `request`, `scenario` (what a seed decides); `world` (memory, copies, storage); `scheduler`; `naive`, `coverage`, `check`,
//! `outcome`; `cluster` and `decisions` (a domain with a cache, and one without); `shrink`, `batch`, `report`. Beside all that, `exhaustive`: every interleaving of small scopes.

mod active;
mod batch;
mod check;
mod clock;
mod cluster;
mod coverage;
mod decisions;
mod defect;
pub mod exhaustive;
mod fault;
mod naive;
mod outcome;
mod plane;
mod queue;
mod report;
mod request;
mod rng;
mod scenario;
mod scheduler;
mod shrink;
mod topology;
mod trailing;
mod violation;
mod world;

pub use batch::{Batch, Summary};
pub use coverage::Coverage;
pub use decisions::{Phase, Tally};
pub use defect::PlantedDefect;
pub use fault::{Fault, FaultKind};
pub use outcome::{End, Outcome};
pub use report::{arguments, command, describe};
pub use scenario::{Family, Options};
pub use shrink::{Shrunk, shrink};
pub use topology::Topology;
pub use violation::Violation;

use std::sync::atomic::AtomicBool;

/// Runs one seed on one topology, all its domains.
#[must_use]
pub fn run(seed: u64, topology: Topology, options: &Options) -> Outcome {
    let never = AtomicBool::new(false);
    run_unless(&never, seed, topology, options).unwrap_or_else(|| unreachable!("nobody stops it"))
}

/// As [`run`], unless it is told to stop before it has come to its end.
#[must_use]
pub fn run_unless(stop: &AtomicBool, seed: u64, topology: Topology, options: &Options) -> Option<Outcome> {
    let domains = options.domain.map_or(0..topology.dp, |domain| domain..domain + 1);
    let mut run: Option<Outcome> = None;
    for domain in domains {
        let outcome = match options.family {
            Family::Cache => cluster::Cluster::run(&scenario::Scenario::new(seed, topology, domain, options), stop)?,
            Family::Decisions | Family::AbortStorm => {
                decisions::World::run(&decisions::Plan::new(seed, topology, domain, options), stop)?
            }
        };
        match &mut run {
            Some(run) => run.join(outcome),
            None => run = Some(outcome),
        }
        if run.as_ref().is_some_and(|run| run.result.is_err()) {
            break;
        }
    }
    run
}
