//! Mistakes planted in the core are caught, and named.
#![cfg(feature = "planted-defects")]

use isoradix_core::defects::Defect;
use isoradix_sim::{Options, PlantedDefect, Violation, run};

/// Seeds that are tried before a mistake counts as missed.
const SEEDS: u64 = 20;

/// Where a mistake is first seen.
fn caught(defect: Defect, rank: usize) -> Option<(u64, Violation)> {
    let planted = Some(PlantedDefect { defect, rank });
    // What is wrong on all ranks alike is wrong by the reference model; without it, memory has to show it.
    let eviction = if defect == Defect::AbortFreesUnderCopy { "lfu" } else { "lru" };
    let options = Options { defect: planted, eviction: Some(eviction.to_owned()), ..Options::default() };
    let topology = "tp2xpp2".parse().expect("a topology");
    (0..SEEDS).find_map(|seed| Some((seed, run(seed, topology, &options).result.err()?)))
}

#[test]
fn every_planted_mistake_is_caught_and_named() {
    for defect in Defect::ALL {
        let (seed, violation) = caught(defect, 1).unwrap_or_else(|| panic!("{} was not caught", defect.as_str()));
        println!("{}: seed {seed}: {violation}", defect.as_str());
        let expected = match defect {
            Defect::AbortFreesUnderCopy => "memory",
            Defect::ShortGrantKeepsCapacity | Defect::CopyGivenUpUnderLock => "model",
            Defect::EarlyReturnBeforeVote => "conservation",
            Defect::CounterResetByFlush => "vote",
            _ => "divergence",
        };
        assert_eq!(violation.kind, expected, "{}: {violation}", defect.as_str());
        let by_all = [Defect::AbortFreesUnderCopy, Defect::ShortGrantKeepsCapacity, Defect::CopyGivenUpUnderLock];
        assert!(by_all.contains(&defect) || violation.rank == Some(1), "{}: {violation}", defect.as_str());
    }
}

#[test]
fn without_a_mistake_the_same_seeds_are_clean() {
    let topology = "tp2xpp2".parse().expect("a topology");
    for eviction in ["lru", "lfu"] {
        let options = Options { eviction: Some(eviction.to_owned()), ..Options::default() };
        for seed in 0..SEEDS {
            let outcome = run(seed, topology, &options);
            assert!(outcome.result.is_ok(), "{eviction}, seed {seed}: {:?}", outcome.result);
        }
    }
}
