//! Mistakes planted on purpose are caught, each by the checker that is there for it, and named.
#![cfg(feature = "planted-defects")]

use isoradix_core::defects::Defect;
use isoradix_sim::{Family, Options, PlantedDefect, Topology, Violation, run, shrink};

/// Seeds that are tried before a mistake counts as missed. Of 39 kinds of faults a run meets a few, so one that only a certain kind
/// shows takes some tens of them.
const SEEDS: u64 = 80;

/// How a mistake shows.
struct Caught {
    defect: Defect,
    /// Who makes it, where it is not made by all.
    rank: usize,
    /// Which checkers see it first.
    kinds: &'static [&'static str],
    /// What the ranks do.
    family: Family,
    /// Whether it names the rank; what all ranks do alike is no single rank's.
    names_rank: bool,
}

const fn by(kinds: &'static [&'static str], defect: Defect) -> Caught {
    Caught { defect, rank: 1, kinds, family: Family::Cache, names_rank: true }
}

/// Seen where ranks decide without a cache.
const fn without_cache(defect: Defect) -> Caught {
    Caught { family: Family::Decisions, ..by(&["divergence"], defect) }
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
    by(&["divergence"], Defect::OwnHitLength),
    by(&["divergence"], Defect::LocalExistenceCache),
    by(&["liveness"], Defect::UnboundedWait),
    by(&["divergence"], Defect::TiersKeptWhileCopying),
    by(&["divergence"], Defect::LocalBreaker),
    by(&["divergence"], Defect::RetryJudgedLocally),
    by(&["divergence"], Defect::AttachWithoutPrepare),
    Caught { names_rank: false, ..by(&["model"], Defect::StoredWithoutParent) },
    without_cache(Defect::PollAfterVerdict),
    without_cache(Defect::VerdictTimedOutLocally),
    without_cache(Defect::OwnCoefficients),
];

fn topology() -> Topology {
    "tp2xpp2".parse().expect("a topology")
}

/// What is wrong on all ranks alike is wrong by the reference model; without it, memory has to show it.
fn eviction(defect: Defect) -> String {
    if defect == Defect::AbortFreesUnderCopy { "lfu" } else { "lru" }.to_owned()
}

/// Where a mistake is first seen.
fn first(&Caught { defect, rank, family, .. }: &Caught, topology: Topology) -> Option<(u64, Violation)> {
    let defect = PlantedDefect { defect, rank };
    let eviction = (family == Family::Cache).then(|| eviction(defect.defect));
    let options = Options { family, defect: Some(defect), eviction, ..Options::default() };
    (0..SEEDS).find_map(|seed| Some((seed, run(seed, topology, &options).result.err()?)))
}

/// What is wrong with how a mistake is caught, if something is.
fn missed(caught: &Caught, topology: Topology) -> Option<String> {
    let &Caught { defect, rank, kinds, names_rank, .. } = caught;
    let name = defect.as_str();
    let Some((seed, violation)) = first(caught, topology) else { return Some(format!("{name} was not caught")) };
    println!("{name}: {topology}, seed {seed}: {violation}");
    let wrong = !kinds.contains(&violation.kind) || names_rank && violation.rank != Some(rank);
    wrong.then(|| format!("{name}, expected {kinds:?}: {violation}"))
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
    let wrong: Vec<String> = ALL.iter().filter_map(|caught| missed(caught, topology())).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whatever the pipeline's depth, and whichever rank: the last one too.
#[test]
fn mistakes_about_decisions_are_caught_in_deep_pipelines() {
    let of_decisions = || ALL.into_iter().filter(|caught| caught.family == Family::Decisions);
    let mut wrong = Vec::new();
    for name in ["pp4", "pp8", "tp2xpp4"] {
        let topology: Topology = name.parse().expect("a topology");
        for rank in [1, topology.members() - 1] {
            wrong.extend(of_decisions().filter_map(|caught| missed(&Caught { rank, ..caught }, topology)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_schedule_of_decisions_is_made_small() {
    let defect = Some(PlantedDefect { defect: Defect::VerdictTimedOutLocally, rank: 2 });
    let options = Options { family: Family::Decisions, defect, ..Options::default() };
    let topology = "pp4".parse().expect("a topology");
    let violation = run(1, topology, &options).result.expect_err("a rank judges by its own clock");
    let shrunk = shrink(1, topology, &options, &violation, || true);
    assert_eq!(shrunk.options.keep_faults, Some([].into()), "no fault is needed");
    assert!(shrunk.options.keep_inputs.as_ref().is_some_and(|kept| kept.len() < 5), "few requests are");
    assert_eq!(run(1, topology, &shrunk.options).result, Err(shrunk.violation));
}

#[test]
fn without_a_mistake_the_same_seeds_are_clean() {
    let decisions = Options { family: Family::Decisions, ..Options::default() };
    for seed in 0..SEEDS {
        for name in ["tp2xpp2", "pp8"] {
            let outcome = run(seed, name.parse().expect("a topology"), &decisions);
            assert!(outcome.result.is_ok(), "{name}, seed {seed}: {:?}", outcome.result);
        }
    }
    for eviction in ["lru", "lfu"] {
        let options = Options { eviction: Some(eviction.to_owned()), ..Options::default() };
        for seed in 0..SEEDS {
            let outcome = run(seed, topology(), &options);
            assert!(outcome.result.is_ok(), "{eviction}, seed {seed}: {:?}", outcome.result);
        }
    }
}
