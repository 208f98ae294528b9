//! What a rank has fitted itself is used for nothing.

use super::{Plan, World};
use crate::fault::{Fault, FaultKind};
use crate::outcome::{End, Outcome};
use crate::scenario::{Family, Options};
use std::sync::atomic::AtomicBool;

fn run(plan: &Plan) -> Outcome {
    World::run(plan, &AtomicBool::new(false)).expect("nobody stops it")
}

fn plan(seed: u64, nudged: Option<usize>) -> Plan {
    let options =
        Options { steps: 100, family: Family::Decisions, keep_faults: Some([].into()), ..Options::default() };
    let mut plan = Plan::new(seed, "tp2xpp4".parse().expect("a topology"), 0, &options);
    let fault = |rank| Fault { kind: FaultKind::NudgedFit, rank, at_step: 0, micros: 10_000_000, size: 0 };
    plan.faults.extend(nudged.map(fault));
    plan
}

/// Ranks measure different times, and one is off by the last bit of its coefficient beside: chunks follow from the leader's alone.
#[test]
fn a_last_bit_of_one_ranks_fit_changes_no_ranks_chunk() {
    let mut fitted = 0;
    for seed in 0..6 {
        let without = run(&plan(seed, None));
        for rank in [1, 5] {
            let nudged = run(&plan(seed, Some(rank)));
            assert_eq!((&nudged.result, nudged.history), (&Ok(End::Clean), without.history), "seed {seed}, rank {rank}");
        }
        // of the leader it changes what is framed, for all ranks alike
        assert_eq!(run(&plan(seed, Some(0))).result, Ok(End::Clean), "seed {seed}");
        fitted += without.tally.fitted_chunks;
    }
    assert!(fitted > 100, "{fitted} chunks were made by coefficients");
}
