//! What is said about a run, and the command that repeats it.

use crate::decisions::Plan;
use crate::scenario::{Family, Options, Scenario};
use crate::topology::Topology;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The one command that repeats a run.
#[must_use]
pub fn command(seed: u64, topology: Topology, options: &Options) -> String {
    let features = options.defect.map_or("", |_| " --features planted-defects");
    format!("cargo run --release -p isoradix-sim{features} -- {}", arguments(seed, topology, options))
}

/// The arguments that repeat a run, of every command line that has the simulator.
#[must_use]
pub fn arguments(seed: u64, topology: Topology, options: &Options) -> String {
    let usual = Options::default();
    let mut out = format!("--seed {seed} --ranks {topology} --steps {}", options.steps);
    if options.family != usual.family {
        let _ = write!(out, " --family {}", options.family.as_str());
    }
    if options.fault_kinds != usual.fault_kinds {
        let _ = write!(out, " --faults {}", options.fault_kinds);
    }
    if options.fatal {
        out.push_str(" --fatal");
    }
    if options.limit != usual.limit {
        let _ = write!(out, " --until {}", options.limit);
    }
    if let Some(kept) = &options.keep_faults {
        let _ = write!(out, " --keep-faults {}", ranges(kept));
    }
    if let Some(kept) = &options.keep_inputs {
        let _ = write!(out, " --keep-inputs {}", ranges(kept));
    }
    if let Some(domain) = options.domain {
        let _ = write!(out, " --domain {domain}");
    }
    if let Some(rank) = options.liar {
        let _ = write!(out, " --liar {rank}");
    }
    if let Some(eviction) = &options.eviction {
        let _ = write!(out, " --eviction {eviction}");
    }
    if let Some(defect) = options.defect {
        out.push_str(&defect.arguments());
    }
    if let Some((rank, request)) = options.corrupt {
        let _ = write!(out, " --corrupt {rank}:{request}");
    }
    out
}

/// The schedule of a run: its shape, its faults, and its inputs if they are few.
#[must_use]
pub fn describe(seed: u64, topology: Topology, options: &Options) -> String {
    let domain = options.domain.unwrap_or(0);
    if options.family != Family::Cache {
        return Plan::new(seed, topology, domain, options).describe();
    }
    let scenario = Scenario::new(seed, topology, domain, options);
    let mut out = format!(
        "  pages of {}, {} on the device, {:?} on host, {}, {:?}\n",
        scenario.page, scenario.device_pages, scenario.host_pages, scenario.eviction, scenario.tiers
    );
    for (number, fault) in scenario.fault_numbers.iter().zip(&scenario.faults) {
        let _ = writeln!(out, "  fault {number}: {fault}");
    }
    let _ = writeln!(out, "  {} inputs, {} of them requests", scenario.inputs.len(), scenario.arrivals());
    if scenario.inputs.len() <= 16 {
        for (number, input) in scenario.input_numbers.iter().zip(&scenario.inputs) {
            let _ = writeln!(out, "  input {number} before step {}: {:?}", input.at_step, input.what);
        }
    }
    out
}

/// `0..3,7`; `none` for none.
fn ranges(numbers: &BTreeSet<usize>) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, end)) if *end == number => *end += 1,
            _ => runs.push((number, number + 1)),
        }
    }
    let show = |(from, end): &(usize, usize)| if end - from == 1 { from.to_string() } else { format!("{from}..{end}") };
    if runs.is_empty() { "none".to_owned() } else { runs.iter().map(show).collect::<Vec<_>>().join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_say_what_is_not_usual() {
        let topology = "tp2".parse().unwrap();
        let usual = Options::default();
        let expected = "cargo run --release -p isoradix-sim -- --seed 4 --ranks tp2 --steps 500";
        assert_eq!(command(4, topology, &usual), expected);
        let special = Options {
            fault_kinds: 5,
            limit: 70,
            keep_faults: Some([].into()),
            keep_inputs: Some([0, 1, 2, 7, 9, 10].into()),
            corrupt: Some((1, 3)),
            domain: Some(2),
            liar: Some(1),
            ..usual
        };
        let end = command(4, topology, &special).split_off(expected.len());
        assert_eq!(
            end,
            " --faults 5 --until 70 --keep-faults none --keep-inputs 0..3,7,9..11 --domain 2 --liar 1 --corrupt 1:3"
        );
    }
}
