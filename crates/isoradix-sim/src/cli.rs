//! Arguments in, text out.

use crate::growth;
use crate::output::Output;
use clap::{Parser, value_parser};
use isoradix_sim::{
    Batch, Family, Options, Summary, Tally, Topology, Violation, command, describe, exhaustive, shrink,
};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::ops::{ControlFlow, Range};
use std::process::ExitCode;
use std::time::Instant;

/// Seeds of one batch.
const SEEDS_MAX: u64 = 10_000_000;
/// The largest seed, so that a batch has an end.
const SEED_MAX: u64 = u64::MAX - SEEDS_MAX;
/// Steps with requests: each takes memory from the start.
const STEPS_MAX: u64 = 1_000_000;
/// Far more faults and inputs than a run has.
const NUMBERS_MAX: usize = 10_000_000;

/// Runs many ranks in one process, in virtual time, under a seeded plan of faults, and checks that none of them parts.
#[derive(Debug, Parser)]
#[command(
    version,
    about,
    after_help = "Examples:\n  \
        isoradix-sim --seeds 1000 --ranks tp2,pp2\n  \
        isoradix-sim --seeds 2000 --ranks tp2,pp2,tp2xpp2,pp8 --table --progress\n  \
        isoradix-sim --seeds 10000 --from 5000 --ranks tp2,pp8,tp2xpp2xcp2xdp2 --spread --progress --json\n  \
        isoradix-sim --exhaustive --progress\n  \
        isoradix-sim --growth\n  \
        isoradix-sim --family abort-storm --ranks pp4,pp8 --seeds 20\n  \
        isoradix-sim --seed 17 --ranks pp8 --steps 800 --faults 5\n\n\
        A run is a function of its arguments: a failing one prints the command that repeats it, and the smallest\n\
        schedule that still fails. A long batch can be split into ranges of seeds, with --from and --seeds.\n\n\
        Exit status: 0 clean, 1 a violation, 2 wrong usage, or no way to write."
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Arguments {
    /// How many seeds, from --from on.
    #[arg(long, default_value_t = 100, conflicts_with = "seed", value_parser = value_parser!(u64).range(1..=SEEDS_MAX))]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0, conflicts_with = "seed", value_parser = value_parser!(u64).range(..=SEED_MAX))]
    from: u64,
    /// One seed only.
    #[arg(long, value_parser = value_parser!(u64).range(..=SEED_MAX))]
    seed: Option<u64>,
    /// Topologies as tp2, pp8 or tp2xpp2xcp2xdp2; each runs all seeds.
    #[arg(long, value_delimiter = ',', default_value = "tp2,pp2,tp2xpp2,pp8")]
    ranks: Vec<Topology>,
    /// What the ranks do: keep a cache, agree on decisions and chunks, or the same while a thousand requests are given up.
    #[arg(long, default_value = "cache", value_name = "cache|decisions|abort-storm")]
    family: Family,
    /// Each seed runs on one of the topologies, by turns, and not on all of them.
    #[arg(long)]
    spread: bool,
    /// This domain only, of those that a topology with dp has.
    #[arg(long, value_name = "NUMBER")]
    domain: Option<u32>,
    /// Steps with requests; a run then goes on until it is quiet.
    #[arg(long, default_value_t = 500, value_parser = value_parser!(u64).range(1..=STEPS_MAX))]
    steps: u64,
    /// Kinds of faults in a seed.
    #[arg(long, default_value_t = 3)]
    faults: usize,
    /// Let load-backs fail, which ends a run on all ranks.
    #[arg(long)]
    fatal: bool,
    /// End a run after this step, whatever is going on.
    #[arg(long)]
    until: Option<u64>,
    /// Keep these faults of the plan only: numbers and ranges as 0..3,7, or none.
    #[arg(long, value_name = "NUMBERS")]
    keep_faults: Option<Numbers>,
    /// Keep these requests and other inputs only.
    #[arg(long, value_name = "NUMBERS")]
    keep_inputs: Option<Numbers>,
    /// Corrupt an input: this rank sees another token in the request of this number, to see it caught.
    #[arg(long, value_name = "RANK:REQUEST", value_parser = rank_and_request)]
    corrupt: Option<(usize, u32)>,
    /// The caller of this rank hands over requests in another order than they arrived in: it must be found out.
    #[arg(long, value_name = "RANK")]
    liar: Option<usize>,
    /// The eviction policy, instead of the seed's own choice.
    #[arg(long, value_parser = policy)]
    eviction: Option<String>,
    /// Plant this mistake in the core, to see it caught.
    #[cfg(feature = "planted-defects")]
    #[arg(long, value_parser = defect)]
    defect: Option<isoradix_core::defects::Defect>,
    /// The rank that makes it.
    #[cfg(feature = "planted-defects")]
    #[arg(long, default_value_t = 1)]
    defect_rank: usize,
    /// Threads; all cores if not said.
    #[arg(long)]
    threads: Option<usize>,
    /// Print the table of transitions and faults.
    #[arg(long, conflicts_with = "family")]
    table: bool,
    /// Print a summary as one line of JSON; a violation then goes to standard error.
    #[arg(long, conflicts_with_all = ["table", "trace"])]
    json: bool,
    /// Say how far it is, on standard error.
    #[arg(long)]
    progress: bool,
    /// Print what the leader's rank did; of one seed.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Instead of seeds, every interleaving of small scopes: minutes.
    #[arg(long, conflicts_with_all = ["seed", "seeds", "from", "table", "family"])]
    exhaustive: bool,
    /// Instead of a batch, one seed on 8, 32, 128 and 512 ranks: what a step costs.
    #[arg(long, conflicts_with_all = ["exhaustive", "seeds", "from", "ranks", "spread", "table", "trace", "family"])]
    growth: bool,
    /// Do not look for a smaller schedule that fails.
    #[arg(long)]
    no_shrink: bool,
}

/// A set of numbers.
#[derive(Debug, Clone)]
struct Numbers(BTreeSet<usize>);

impl std::str::FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<usize>().map_err(|_| format!("{text:?} is no number"));
        let mut numbers = BTreeSet::new();
        for part in text.split(',').filter(|_| text != "none") {
            match part.split_once("..") {
                Some((from, end)) => {
                    let (from, end) = (number(from)?, number(end)?);
                    if from >= end || end > NUMBERS_MAX {
                        return Err(format!("{part:?} is no range: from below to, up to {NUMBERS_MAX}"));
                    }
                    numbers.extend(from..end);
                }
                None => drop(numbers.insert(number(part)?)),
            }
        }
        Ok(Self(numbers))
    }
}

fn policy(name: &str) -> Result<String, String> {
    isoradix_core::Eviction::parse(name).map(|_| name.to_owned()).map_err(|error| error.to_string())
}

fn rank_and_request(text: &str) -> Result<(usize, u32), String> {
    let (rank, request) = text.split_once(':').ok_or("expected a rank, a colon and a request")?;
    let wrong = |_| format!("{text:?} is no rank and request");
    Ok((rank.parse().map_err(wrong)?, request.parse().map_err(wrong)?))
}

#[cfg(feature = "planted-defects")]
fn defect(name: &str) -> Result<isoradix_core::defects::Defect, String> {
    use isoradix_core::defects::Defect;
    let names = || Defect::ALL.map(Defect::as_str).join(", ");
    Defect::ALL.into_iter().find(|defect| defect.as_str() == name).ok_or_else(|| format!("expected one of {}", names()))
}

impl Arguments {
    #[cfg(feature = "planted-defects")]
    fn planted(&self) -> Option<isoradix_sim::PlantedDefect> {
        self.defect.map(|defect| isoradix_sim::PlantedDefect { defect, rank: self.defect_rank })
    }

    #[cfg(not(feature = "planted-defects"))]
    #[expect(clippy::unused_self, reason = "with the feature it is read")]
    fn planted(&self) -> Option<isoradix_sim::PlantedDefect> {
        None
    }

    fn options(&self) -> Options {
        Options {
            family: self.family,
            steps: self.steps,
            limit: self.until.unwrap_or(u64::MAX),
            fault_kinds: self.faults,
            fatal: self.fatal,
            keep_faults: self.keep_faults.clone().map(|numbers| numbers.0),
            keep_inputs: self.keep_inputs.clone().map(|numbers| numbers.0),
            domain: self.domain,
            liar: self.liar,
            corrupt: self.corrupt,
            defect: self.planted(),
            trace: self.trace,
            eviction: self.eviction.clone(),
        }
    }

    fn batch(&self) -> Batch {
        let seeds = self.seed.map_or(self.from..self.from.saturating_add(self.seeds), |seed| seed..seed + 1);
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        Batch {
            seeds,
            topologies: self.ranks.clone(),
            spread: self.spread,
            options: self.options(),
            threads: self.threads.unwrap_or_else(cores),
        }
    }
}

/// Every interleaving of every scope.
fn explore(arguments: &Arguments, out: &mut Output) -> io::Result<ExitCode> {
    let begun = Instant::now();
    let (mut states, mut transitions) = (0, 0);
    for scope in exhaustive::scopes() {
        let scope_begun = Instant::now();
        let outcome = exhaustive::run(scope, |progress| {
            if arguments.progress {
                eprint!("\r{:<24} {:>10} states", scope.name, progress.states);
                let _ = io::stderr().flush();
            }
        });
        if arguments.progress {
            eprint!("\r{:60}\r", "");
        }
        let millis = scope_begun.elapsed().as_millis();
        if arguments.json {
            writeln!(
                out,
                "{{\"scope\":\"{}\",\"states\":{},\"transitions\":{},\"depth\":{},\"leaves\":{},\"millis\":{millis},\"clean\":{}}}",
                scope.name,
                outcome.states,
                outcome.transitions,
                outcome.depth,
                outcome.leaves,
                outcome.violation.is_none(),
            )?;
        } else {
            writeln!(out, "{:<24} {outcome} {:>6}.{:03} s", scope.name, millis / 1000, millis % 1000)?;
        }
        if let Some(violation) = outcome.violation {
            writeln!(out, "\n{violation}\nagain:\n  cargo run --release -p isoradix-sim -- --exhaustive")?;
            return Ok(ExitCode::FAILURE);
        }
        states += outcome.states;
        transitions += outcome.transitions;
    }
    if !arguments.json {
        let (scopes, seconds) = (exhaustive::scopes().len(), begun.elapsed().as_secs());
        writeln!(out, "{scopes} scopes, {states} states, {transitions} transitions, {seconds} s, no violation")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Does what was asked for; the exit code says whether it was clean.
pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let mut out = Output::new();
    let done = match arguments {
        Arguments { exhaustive: true, .. } => explore(arguments, &mut out),
        Arguments { growth: true, seed, json, .. } => {
            growth::measure(seed.unwrap_or(growth::SEED), &arguments.options(), *json, &mut out)
        }
        _ => simulate(arguments, &mut out),
    };
    done.unwrap_or_else(|error| {
        eprintln!("standard output: {error}");
        ExitCode::from(2)
    })
}

fn simulate(arguments: &Arguments, out: &mut Output) -> io::Result<ExitCode> {
    if let Err(wrong) = arguments.options().check(&arguments.ranks) {
        eprintln!("error: {wrong}");
        return Ok(ExitCode::from(2));
    }
    let batch = arguments.batch();
    let (runs, mut told) = (batch.jobs().len() as u64, u64::MAX);
    let begun = Instant::now();
    let summary = batch.run(|done| {
        if arguments.progress && done != told && (done % 50 == 0 || done == runs) {
            told = done;
            eprint!("\r{done} of {runs} runs");
            let _ = io::stderr().flush();
        }
        ControlFlow::Continue(())
    });
    if arguments.progress {
        eprintln!();
    }
    let millis = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
    if arguments.json {
        writeln!(out, "{}", json(arguments, &summary, millis))?;
    } else {
        write!(out, "{}", text(&batch.seeds, &summary, millis))?;
        if arguments.family != Family::Cache {
            write!(out, "{}", decided(&summary.tally))?;
        }
    }
    for line in &summary.trace {
        writeln!(out, "{line}")?;
    }
    if arguments.table {
        write!(out, "{}", summary.coverage.table())?;
        let zeros = summary.coverage.zeros();
        writeln!(out, "{} pairs of a transition and a fault never met", zeros.len())?;
        for pair in zeros {
            writeln!(out, "  {pair}")?;
        }
    }
    match &summary.failed {
        None => Ok(ExitCode::SUCCESS),
        Some((seed, topology, violation)) => {
            if arguments.json {
                report(arguments, *seed, *topology, violation, &mut io::stderr())?;
            } else {
                report(arguments, *seed, *topology, violation, out)?;
            }
            Ok(ExitCode::FAILURE)
        }
    }
}

fn report(
    arguments: &Arguments,
    seed: u64,
    topology: Topology,
    violation: &Violation,
    out: &mut impl Write,
) -> io::Result<()> {
    let options = arguments.options();
    writeln!(out, "\nviolation in seed {seed} on {topology}\n{violation}")?;
    writeln!(out, "again:\n  {}", command(seed, topology, &options))?;
    write!(out, "{}", describe(seed, topology, &options))?;
    if arguments.no_shrink {
        return Ok(());
    }
    // If it is a panic, it comes again and again.
    std::panic::set_hook(Box::new(|_| ()));
    let shrunk = shrink(seed, topology, &options, violation, || true);
    writeln!(out, "\nsmallest schedule that fails in this way, after {} runs\n{}", shrunk.runs, shrunk.violation)?;
    writeln!(out, "again:\n  {}", command(seed, topology, &shrunk.options))?;
    write!(out, "{}", describe(seed, topology, &shrunk.options))
}

fn text(seeds: &Range<u64>, summary: &Summary, millis: u64) -> String {
    let [clean, stopped, crashed, fatal, detected] = summary.ends;
    format!(
        "{} runs: {clean} came to rest, {stopped} were stopped, {crashed} crashed and were noticed, {fatal} ended by a failed \
         load-back, {detected} found a lying caller out, {} failed\n\
         {} rank-steps in {}.{:03} s, {} a second; {} steps of leaders, {} of them against the reference model, at least {} in a \
         run\n\
         {} operations, {} votes, {} s of virtual time, seeds {}..{}, history {:#018x}\n",
        summary.runs,
        u64::from(summary.failed.is_some()),
        summary.rank_steps,
        millis / 1000,
        millis % 1000,
        summary.rank_steps * 1000 / millis,
        summary.steps,
        summary.modelled,
        summary.steps_min.unwrap_or(0),
        summary.operations,
        summary.votes,
        summary.time_us / 1_000_000,
        seeds.start,
        seeds.end,
        summary.history,
    )
}

/// What was asked and decided.
fn decided(tally: &Tally) -> String {
    let [ready, failed, aborted, timed_out, missing] = tally.of_both();
    format!(
        "{} requests, {} questions: {ready} ready, {failed} failed, {aborted} aborted, {timed_out} timed out, {missing} missing\n\
         {} requests were given up, by phase {:?}; {} were sent back; {} chunks, {} by coefficients; {} reports came too late\n",
        tally.requests,
        tally.questions,
        tally.aborted(),
        tally.aborted_in,
        tally.retracted,
        tally.chunks,
        tally.fitted_chunks,
        tally.late_reports,
    )
}

fn json(arguments: &Arguments, summary: &Summary, millis: u64) -> String {
    let [clean, stopped, crashed, fatal, detected] = summary.ends;
    let seeds = arguments.batch().seeds;
    let again = match &summary.failed {
        None => "null".to_owned(),
        Some((seed, topology, _)) => format!("\"{}\"", command(*seed, *topology, &arguments.options())),
    };
    format!(
        "{{\"runs\":{},\"from\":{},\"to\":{},\"clean\":{clean},\"stopped\":{stopped},\"crashed\":{crashed},\
         \"fatal\":{fatal},\"detected\":{detected},\"failed\":{},\"again\":{again},\
         \"rank_steps\":{},\"rank_steps_per_s\":{},\"steps\":{},\"modelled\":{},\"operations\":{},\"votes\":{},\
         \"questions\":{},\"verdicts\":{:?},\"given_up\":{},\"chunks\":{},\
         \"never_met\":{},\"millis\":{millis},\"history\":\"{:016x}\"}}",
        summary.runs,
        seeds.start,
        seeds.end,
        u64::from(summary.failed.is_some()),
        summary.rank_steps,
        summary.rank_steps * 1000 / millis,
        summary.steps,
        summary.modelled,
        summary.operations,
        summary.votes,
        summary.tally.questions,
        summary.tally.of_both(),
        summary.tally.aborted(),
        summary.tally.chunks,
        summary.never_met(),
        summary.history,
    )
}
