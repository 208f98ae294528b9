//! Whole runs: each is its seed's own, those without a defect are clean, and a defect is caught, named and made small.

use isoradix_sim::{Batch, End, Options, Topology, run, shrink};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

fn topologies() -> Vec<Topology> {
    ["tp2", "pp2", "tp2xpp2", "pp8"].map(|name| name.parse().expect("a topology")).into()
}

fn short() -> Options {
    Options { steps: 200, ..Options::default() }
}

#[test]
fn a_run_is_a_function_of_seed_and_topology() {
    for topology in topologies() {
        let history = |seed| run(seed, topology, &short()).history;
        assert_eq!(history(11), history(11), "{topology}");
        assert_ne!(history(11), history(12), "{topology}");
    }
}

#[test]
fn the_order_of_threads_does_not_matter() {
    let batch = |threads| Batch { seeds: 0..6, topologies: topologies(), options: short(), spread: false, threads };
    let [one, three] = [1, 3].map(|threads| batch(threads).run(|_| ControlFlow::Continue(())));
    assert_eq!((one.history, one.rank_steps, &one.coverage), (three.history, three.rank_steps, &three.coverage));
    assert_eq!(one.runs, 24);
}

#[test]
fn dozens_of_seeds_are_clean_on_each_topology() {
    let batch = Batch { seeds: 100..130, topologies: topologies(), options: short(), spread: false, threads: 2 };
    let summary = batch.run(|_| ControlFlow::Continue(()));
    assert_eq!(summary.failed, None);
    let [clean, stopped, crashed, fatal, detected] = summary.ends;
    assert_eq!((clean + stopped + crashed + detected, fatal, summary.runs), (120, 0, 120));
    assert!(clean > 90 && crashed > 0, "{:?}", summary.ends);
    assert!(summary.steps_min >= Some(200) && summary.modelled > 5_000 && summary.operations > 4_000);
}

#[test]
fn faults_change_a_run_and_no_fault_is_one_too() {
    let topology = "tp2xpp2".parse().expect("a topology");
    let none = Options { keep_faults: Some([].into()), ..short() };
    let [with, without] = [short(), none].map(|options| run(4, topology, &options));
    assert_eq!((with.result, without.result), (Ok(End::Clean), Ok(End::Clean)));
    assert_ne!(with.time_us, without.time_us);
}

#[test]
fn a_failed_load_back_ends_a_run_on_all_ranks() {
    let options = Options { fatal: true, ..short() };
    let batch = Batch { seeds: 0..20, topologies: topologies(), options, spread: false, threads: 2 };
    let summary = batch.run(|_| ControlFlow::Continue(()));
    assert_eq!(summary.failed, None);
    assert!(summary.ends[End::Fatal as usize] > 5, "{:?}", summary.ends);
}

/// Domains know nothing of each other: each does alone what it does beside others.
#[test]
fn a_domain_alone_is_the_domain_beside_others() {
    let topology = "tp2xcp2xdp3".parse().expect("a topology");
    let all = run(4, topology, &short());
    let alone: Vec<_> = (0..3).map(|domain| run(4, topology, &Options { domain: Some(domain), ..short() })).collect();
    assert_eq!(all.result, Ok(End::Clean));
    assert_eq!(all.rank_steps, alone.iter().map(|outcome| outcome.rank_steps).sum::<u64>());
    let histories: BTreeSet<u64> = alone.iter().map(|outcome| outcome.history).collect();
    assert_eq!(histories.len(), 3, "each has its own work");
    let joined = run(4, topology, &Options { domain: Some(2), ..short() });
    assert_eq!(joined.history, alone[2].history);
}

/// A request that reaches one rank in another order is found out by the core, whichever rank it is, and before the rank applies
/// another frame.
#[test]
fn a_caller_that_lies_is_found_out() {
    for liar in 0..4 {
        let options = Options { liar: Some(liar), ..short() };
        let topology = "tp2xpp2".parse().expect("a topology");
        for seed in 0..12 {
            let outcome = run(seed, topology, &options);
            assert_eq!(outcome.result, Ok(End::Detected), "seed {seed}, rank {liar}");
        }
    }
}

#[test]
fn five_hundred_ranks_come_to_rest() {
    let topology: Topology = "tp8xpp4xcp4xdp4".parse().expect("a topology");
    assert_eq!(topology.ranks(), 512);
    let outcome = run(4, topology, &Options { steps: 20, ..short() });
    assert_eq!(outcome.result, Ok(End::Clean));
    assert!(outcome.rank_steps > 512 * 20);
}

/// What happens in a step of one rank does not grow with the number of ranks.
#[test]
fn events_grow_linearly_in_the_ranks() {
    let events_a_thousand_rank_steps = |name: &str| {
        let outcome = run(1, name.parse().expect("a topology"), &Options { steps: 60, ..short() });
        assert_eq!(outcome.result, Ok(End::Clean), "{name}");
        outcome.events * 1000 / outcome.rank_steps
    };
    let [few, many] = ["tp4xpp2", "tp4xpp4xcp4"].map(events_a_thousand_rank_steps);
    assert!(many < few * 3 / 2, "{few} events in a thousand steps of 8 ranks, {many} of 64");
}

/// A batch that is broken off says how far it came.
#[test]
fn a_batch_can_be_broken_off_and_spread() {
    let batch = |spread| Batch { seeds: 4..8, topologies: topologies(), options: short(), spread, threads: 2 };
    let jobs = batch(true).jobs();
    let seeds: Vec<u64> = jobs.iter().map(|(seed, _)| *seed).collect();
    assert_eq!((seeds, batch(false).jobs().len()), (vec![4, 5, 6, 7], 16));
    assert_eq!(jobs.iter().map(|(_, topology)| *topology).collect::<Vec<_>>(), topologies());
    let broken = batch(false).run(|done| if done >= 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) });
    assert!((2..16).contains(&broken.runs), "{}", broken.runs);
}

/// One rank gets another token in one request: everything up to that is as it should be.
#[test]
fn a_corrupted_request_is_caught_named_and_made_small() {
    let options = Options { corrupt: Some((2, 12)), ..short() };
    let topology = "tp2xpp2".parse().expect("a topology");
    let violation = run(5, topology, &options).result.expect_err("rank 2 is corrupted");
    assert_eq!((violation.kind, violation.rank), ("divergence", Some(2)), "{violation}");
    assert!(violation.what.contains("first other record") && violation.what.contains("expected"), "{violation}");
    let shrunk = shrink(5, topology, &options, &violation, || true);
    assert_eq!(shrunk.options.keep_faults, Some([].into()), "no fault is needed");
    assert_eq!(shrunk.options.keep_inputs.as_ref().map(std::collections::BTreeSet::len), Some(1), "one request is");
    let again = run(5, topology, &shrunk.options);
    assert_eq!(again.result, Err(shrunk.violation));
}
