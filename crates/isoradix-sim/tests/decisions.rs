//! Runs without a cache: which requests are ready everywhere, in two queues, and how long the chunks of their prompts are.

use isoradix_sim::{Batch, End, Family, Options, Phase, Summary, Tally, Topology, run};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

fn of(family: Family) -> Options {
    Options { family, ..Options::default() }
}

fn topologies(names: &[&str]) -> Vec<Topology> {
    names.iter().map(|name| name.parse().expect("a topology")).collect()
}

fn batch(seeds: std::ops::Range<u64>, names: &[&str], options: Options) -> Summary {
    let batch = Batch { seeds, topologies: topologies(names), options, spread: false, threads: 2 };
    batch.run(|_| ControlFlow::Continue(()))
}

#[test]
fn every_rank_takes_each_verdict_at_one_step() {
    let names = ["tp2", "pp4", "tp2xpp2", "pp8", "tp2xpp4", "tp2xdp2"];
    let summary = batch(0..8, &names, of(Family::Decisions));
    assert_eq!(summary.failed, None);
    assert_eq!((summary.ends[End::Clean as usize], summary.runs), (48, 48));
    let Tally { questions, retracted, late_reports, .. } = summary.tally;
    assert!(questions > 15_000 && retracted > 400 && late_reports > 5_000, "{:?}", summary.tally);
    for (verdicts, group) in summary.tally.verdicts.iter().zip(["prefill", "decode"]) {
        assert!(verdicts.iter().all(|verdicts| *verdicts > 50), "{group}: {verdicts:?}");
    }
}

/// Ranks measure different times, and each fits its own; the leader's coefficients make all chunks.
#[test]
fn chunks_follow_from_the_leaders_coefficients_on_all_ranks() {
    let summary = batch(20..26, &["tp2", "pp4", "pp8"], of(Family::Decisions));
    assert_eq!(summary.failed, None);
    let Tally { chunks, fitted_chunks, .. } = summary.tally;
    assert!(fitted_chunks > 5_000 && fitted_chunks <= chunks, "{fitted_chunks} of {chunks}");
}

#[test]
fn a_run_is_a_function_of_seed_and_topology() {
    for family in [Family::Decisions, Family::AbortStorm] {
        let histories = ["tp2", "pp4", "tp2xpp2"].map(|name| {
            let history = |seed| run(seed, name.parse().expect("a topology"), &of(family)).history;
            assert_eq!(history(3), history(3), "{name}");
            assert_ne!(history(3), history(4), "{name}");
            history(3)
        });
        assert_eq!(BTreeSet::from(histories).len(), 3, "each topology has its own times");
    }
}

/// Domains know nothing of each other: each does alone what it does beside others.
#[test]
fn a_domain_alone_is_the_domain_beside_others() {
    let topology = "tp2xdp3".parse().expect("a topology");
    let all = run(3, topology, &of(Family::Decisions));
    let alone = |domain| run(3, topology, &Options { domain: Some(domain), ..of(Family::Decisions) });
    assert_eq!(all.result, Ok(End::Clean));
    assert_eq!(all.rank_steps, (0..3).map(|domain| alone(domain).rank_steps).sum::<u64>());
    assert_ne!(alone(1).history, alone(2).history);
}

#[test]
fn what_is_about_a_cache_is_refused() {
    let topology: Topology = "pp4".parse().expect("a topology");
    for options in [
        Options { liar: Some(1), ..of(Family::Decisions) },
        Options { corrupt: Some((1, 0)), ..of(Family::AbortStorm) },
        Options { eviction: Some("lru".to_owned()), ..of(Family::Decisions) },
        Options { fatal: true, ..of(Family::Decisions) },
    ] {
        assert!(options.check(&[topology]).is_err_and(|wrong| wrong.contains("--family is")));
    }
    assert_eq!(of(Family::Decisions).check(&[topology]), Ok(()));
}

/// A thousand requests in two groups, each given up a few steps after it has come to some phase. What is left over at the end is a
/// violation: a question, a slot, a request that is remembered.
fn storm(topology: &str) {
    for (fault_kinds, seed) in [(0, 1), (0, 2), (3, 3), (3, 4), (8, 5)] {
        let options = Options { fault_kinds, ..of(Family::AbortStorm) };
        let outcome = run(seed, topology.parse().expect("a topology"), &options);
        assert_eq!(outcome.result, Ok(End::Clean), "seed {seed}");
        let Tally { requests, aborted_in, retracted, finished, .. } = outcome.tally;
        assert_eq!((requests, finished), (1000, 0), "seed {seed}");
        let aborted = outcome.tally.aborted();
        assert!(aborted >= 950 || fault_kinds > 0 && aborted >= 500, "seed {seed}: {aborted} were given up");
        assert!(retracted > 0, "seed {seed}: none was sent back");
        let least = if fault_kinds == 0 { 20 } else { 5 };
        for phase in Phase::ALL.into_iter().filter(|phase| *phase != Phase::Prefilled) {
            assert!(aborted_in[phase as usize] >= least, "seed {seed}: {phase:?} of {aborted_in:?}");
        }
        let [ready, _, given_up, ..] = outcome.tally.of_both();
        assert!(ready > 100 && given_up > 100, "seed {seed}: {ready} ready, {given_up} by verdict");
    }
}

#[test]
fn a_thousand_aborts_in_two_groups_of_four_stages() {
    storm("pp4");
}

#[test]
fn a_thousand_aborts_in_two_groups_of_eight_stages() {
    storm("pp8");
}

#[test]
fn a_thousand_aborts_in_two_groups_of_four_stages_of_two_lanes() {
    storm("tp2xpp4");
}
