//! Mistakes planted on purpose are caught, each by the checker that is there for it, and named.
#![cfg(feature = "planted-defects")]

use isoradix_core::defects::Defect;
use isoradix_sim::{Options, PlantedDefect, Topology, Violation, run};

/// Seeds that are tried before a mistake counts as missed.
const SEEDS: u64 = 40;

/// How a mistake shows.
struct Caught {
    defect: Defect,
    /// Who makes it, where it is not made by all.
    rank: usize,
    /// Which checkers see it first.
    kinds: &'static [&'static str],
    /// Whether it names the rank; what all ranks do alike is no single rank's.
    names_rank: bool,
}

const fn by(kinds: &'static [&'static str], defect: Defect) -> Caught {
    Caught { defect, rank: 1, kinds, names_rank: true }
}

/// Every mistake, and which checker catches it.
const ALL: [Caught; Defect::ALL.len()] = [
    by(&["divergence"], Defect::WindowSlidesByVote),
    Caught { names_rank: false, ..by(&["memory"], Defect::AbortFreesUnderCopy) },
    Caught { names_rank: false, ..by(&["model"], Defect::ShortGrantKeepsCapacity) },
    by(&["divergence"], Defect::FollowerReadsOwnVote),
    by(&["conservation"], Defect::EarlyReturnBeforeVote),
    by(&["divergence"], Defect::TieByAddress),
    by(&["divergence"], Defect::WallClockOrder),
    by(&["vote", "refused"], Defect::CounterResetByFlush),
    by(&["divergence"], Defect::UnlockedByCompletion),
    Caught { names_rank: false, ..by(&["model", "memory"], Defect::CopyGivenUpUnderLock) },
    by(&["divergence"], Defect::OwnQueueLength),
    by(&["trailing"], Defect::SmallestOfDeepestEnds),
    by(&["divergence"], Defect::EvictionInReserve),
    by(&["divergence"], Defect::SecondPoll),
    // The last stage is far enough behind the leader to hear of an end before its step.
    Caught { rank: 3, ..by(&["divergence"], Defect::UnsynchronisedAbort) },
    by(&["divergence"], Defect::TimeoutJudgedLocally),
    by(&["divergence"], Defect::MergedAtLocalBoundary),
    by(&["liveness"], Defect::SkippedAckOnError),
    by(&["divergence"], Defect::CountWithoutIdentity),
    by(&["divergence"], Defect::HostOrderDigest),
    by(&["divergence"], Defect::LocalExistenceCache),
    by(&["liveness"], Defect::UnboundedWait),
    by(&["divergence"], Defect::TiersKeptWhileCopying),
    by(&["divergence"], Defect::LocalBreaker),
    by(&["divergence"], Defect::RetryJudgedLocally),
    by(&["divergence"], Defect::AttachWithoutPrepare),
];

fn topology() -> Topology {
    "tp2xpp2".parse().expect("a topology")
}

/// What is wrong on all ranks alike is wrong by the reference model; without it, memory has to show it.
fn eviction(defect: Defect) -> String {
    if defect == Defect::AbortFreesUnderCopy { "lfu" } else { "lru" }.to_owned()
}

/// Where a mistake is first seen.
fn first(defect: Defect, rank: usize) -> Option<(u64, Violation)> {
    let planted = Some(PlantedDefect { defect, rank });
    let options = Options { defect: planted, eviction: Some(eviction(defect)), ..Options::default() };
    (0..SEEDS).find_map(|seed| Some((seed, run(seed, topology(), &options).result.err()?)))
}

#[test]
fn the_table_has_every_mistake_once() {
    for defect in Defect::ALL {
        let listed = ALL.iter().filter(|caught| caught.defect == defect).count();
        assert_eq!(listed, 1, "{}", defect.as_str());
    }
}

#[test]
fn every_planted_mistake_is_caught_and_named() {
    let mut wrong = Vec::new();
    for Caught { defect, rank, kinds, names_rank } in ALL {
        let name = defect.as_str();
        let Some((seed, violation)) = first(defect, rank) else {
            wrong.push(format!("{name} was not caught"));
            continue;
        };
        println!("{name}: seed {seed}: {violation}");
        if !kinds.contains(&violation.kind) || names_rank && violation.rank != Some(rank) {
            wrong.push(format!("{name}, expected {kinds:?}: {violation}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn without_a_mistake_the_same_seeds_are_clean() {
    for eviction in ["lru", "lfu"] {
        let options = Options { eviction: Some(eviction.to_owned()), ..Options::default() };
        for seed in 0..SEEDS {
            let outcome = run(seed, topology(), &options);
            assert!(outcome.result.is_ok(), "{eviction}, seed {seed}: {:?}", outcome.result);
        }
    }
}
