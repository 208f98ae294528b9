//! What a step costs on more and more ranks.

use isoradix_sim::{Options, Outcome, Topology, command, run};
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

/// From small to large.
const TOPOLOGIES: [&str; 4] = ["tp8", "tp8xpp4", "tp8xpp4xcp4", "tp8xpp8xcp8"];

/// If none is given.
pub(crate) const SEED: u64 = 1;

/// One run, and the time that it took.
struct Sample {
    topology: Topology,
    outcome: Outcome,
    micros: u64,
}

impl Sample {
    fn new(seed: u64, topology: Topology, options: &Options) -> Self {
        let begun = now_micros();
        let outcome = run(seed, topology, options);
        Self { topology, outcome, micros: now_micros().saturating_sub(begun).max(1) }
    }

    fn micros_a_step(&self) -> u64 {
        self.micros / self.outcome.steps.max(1)
    }

    /// In hundredths.
    fn a_rank_step(&self, of: u64) -> u64 {
        of * 100 / self.outcome.rank_steps.max(1)
    }

    fn text(&self) -> String {
        let Self { topology, outcome, micros } = self;
        let [time, events] = [*micros, outcome.events].map(|of| hundredths(self.a_rank_step(of)));
        format!(
            "{:>6}  {:<14}{:>8}{:>12}{:>12}{:>10}{:>12}{time:>16}{events:>20}",
            topology.ranks(),
            topology.to_string(),
            outcome.steps,
            outcome.rank_steps,
            outcome.events,
            hundredths(micros / 10_000),
            self.micros_a_step(),
        )
    }

    fn json(&self) -> String {
        let Self { topology, outcome, micros } = self;
        let [time, events] = [*micros, outcome.events].map(|of| hundredths(self.a_rank_step(of)));
        format!(
            "{{\"ranks\":{},\"topology\":\"{topology}\",\"steps\":{},\"rank_steps\":{},\"events\":{},\"cpu_us\":{micros},\
             \"cpu_us_a_step\":{},\"cpu_us_a_rank_step\":{time},\"events_a_rank_step\":{events}}}",
            topology.ranks(),
            outcome.steps,
            outcome.rank_steps,
            outcome.events,
            self.micros_a_step(),
        )
    }
}

/// Runs one seed on each of the topologies.
pub(crate) fn measure(seed: u64, options: &Options, json: bool, out: &mut impl Write) -> io::Result<ExitCode> {
    if !json {
        writeln!(
            out,
            "{:>6}  {:<14}{:>8}{:>12}{:>12}{:>10}{:>12}{:>16}{:>20}",
            "ranks",
            "topology",
            "steps",
            "rank-steps",
            "events",
            "CPU s",
            "us a step",
            "us a rank-step",
            "events a rank-step"
        )?;
    }
    let mut samples = Vec::new();
    for name in TOPOLOGIES {
        let topology = name.parse().map_err(io::Error::other)?;
        let sample = Sample::new(seed, topology, options);
        if let Err(violation) = &sample.outcome.result {
            writeln!(out, "\n{violation}\nagain:\n  {}", command(seed, topology, options))?;
            return Ok(ExitCode::FAILURE);
        }
        writeln!(out, "{}", if json { sample.json() } else { sample.text() })?;
        samples.push(sample);
    }
    if let ([first, ..], [.., last], false) = (&samples[..], &samples[..], json) {
        let times = last.a_rank_step(last.micros) * 100 / first.a_rank_step(first.micros).max(1);
        let (more, ranks) = (last.topology.ranks() / first.topology.ranks(), first.topology.ranks());
        writeln!(
            out,
            "with {more} times as many ranks, a step of one rank costs {} times what it costs with {ranks}",
            hundredths(times)
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A number of hundredths with its point.
fn hundredths(number: u64) -> String {
    format!("{}.{:02}", number / 100, number % 100)
}

/// The time for which this thread has been running; where the system does not say, the time that has passed.
fn now_micros() -> u64 {
    static BEGUN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    let on_cpu = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = on_cpu.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    nanos.map_or_else(|| u64::try_from(BEGUN.elapsed().as_micros()).unwrap_or(u64::MAX), |nanos| nanos / 1000)
}
