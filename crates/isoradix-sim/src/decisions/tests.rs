//! What a rank has fitted itself is used for nothing.

use super::{Plan, World};
use crate::fault::{Fault, FaultKind};
use crate::outcome::{End, Outcome};
use crate::scenario::{Family, Options};
use std::sync::atomic::AtomicBool;

/// A run in which the last bits of one rank's own coefficient are others.
fn nudged(seed: u64, rank: usize, bits: u64) -> Outcome {
    let options = Options { steps: 100, family: Family::Decisions, keep_faults: Some([].into()), ..Options::default() };
    let mut plan = Plan::new(seed, "tp2xpp4".parse().expect("a topology"), 0, &options);
    plan.faults.push(Fault { kind: FaultKind::NudgedFit, rank, at_step: 0, micros: 10_000_000, size: bits });
    World::run(&plan, &AtomicBool::new(false)).expect("nobody stops it")
}

/// Ranks measure different times, and one is off by the last bit of its coefficient beside: chunks follow from the leader's alone.
#[test]
fn a_last_bit_of_one_ranks_fit_changes_no_ranks_chunk() {
    let mut fitted = 0;
    for seed in 0..6 {
        for rank in [1, 5] {
            let same = nudged(seed, rank, 0);
            for bits in [1, 0xffff_ffff_ffff] {
                let other = nudged(seed, rank, bits);
                assert_eq!(other.result, Ok(End::Clean), "seed {seed}, rank {rank}");
                assert_eq!((other.history, other.tally), (same.history, same.tally), "seed {seed}, rank {rank}");
            }
            fitted += same.tally.fitted_chunks;
        }
        // of the leader it changes what is framed, for all ranks alike
        let [same, other] = [0, 0xffff_ffff_ffff].map(|bits| nudged(seed, 0, bits));
        assert_eq!(other.result, Ok(End::Clean), "seed {seed}");
        assert_ne!(other.history, same.history, "seed {seed}");
    }
    assert!(fitted > 100, "{fitted} chunks were made by coefficients");
}
