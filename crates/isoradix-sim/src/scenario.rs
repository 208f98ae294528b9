//! All that a seed decides before a run begins.

use crate::defect::PlantedDefect;
use crate::fault::{self, Fault};
use crate::queue::Micros;
use crate::request::{Input, Request, What, Workload};
use crate::rng::{Rng, mix};
use crate::topology::Topology;
use crate::trailing::Trailing;
use isoradix_core::protocol::{Backoff, BreakerRule, Pacing};
use isoradix_core::{PrefetchPatience, Tiers, Writing};
use std::collections::BTreeSet;

/// What the ranks of a run do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// They keep a cache over three tiers.
    #[default]
    Cache,
    /// They decide which requests are ready everywhere, and compute prompts by chunks: without a cache.
    Decisions,
    /// The same, with a thousand requests that are all given up, in whatever phase.
    AbortStorm,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cache, Self::Decisions, Self::AbortStorm];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Decisions => "decisions",
            Self::AbortStorm => "abort-storm",
        }
    }
}

impl std::str::FromStr for Family {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::as_str).join(", ");
        let found = Self::ALL.into_iter().find(|family| family.as_str() == text);
        found.ok_or_else(|| format!("family is {text:?}, expected one of {}\nhint: cache is the usual one", names()))
    }
}

/// What is asked for on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What the ranks do.
    pub family: Family,
    /// Steps with requests; the run then goes on until it is quiet.
    pub steps: u64,
    /// The leader's step after which a run ends, whatever is going on: for schedules that were shrunk.
    pub limit: u64,
    /// Kinds of faults in a seed.
    pub fault_kinds: usize,
    /// Whether load-backs fail, which ends a run.
    pub fatal: bool,
    /// Faults of the plan that are kept, by their places; all if not said.
    pub keep_faults: Option<BTreeSet<usize>>,
    /// Inputs that are kept, by their places; all if not said.
    pub keep_inputs: Option<BTreeSet<usize>>,
    /// The domain that runs; all if not said. Domains know nothing of each other, so one can be repeated alone.
    pub domain: Option<u32>,
    /// A rank whose caller lies about the order of requests, from a quarter of the steps on.
    pub liar: Option<usize>,
    /// A corrupted input: this rank sees another token in the request of this number.
    pub corrupt: Option<(usize, u32)>,
    /// A mistake planted in the core.
    pub defect: Option<PlantedDefect>,
    /// Whether what the leader's rank does is written down.
    pub trace: bool,
    /// The eviction policy, if it is not the seed's to choose.
    pub eviction: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            family: Family::Cache,
            steps: 500,
            limit: u64::MAX,
            fault_kinds: 3,
            fatal: false,
            keep_faults: None,
            keep_inputs: None,
            domain: None,
            liar: None,
            corrupt: None,
            defect: None,
            trace: false,
            eviction: None,
        }
    }
}

impl Options {
    /// Refuses a rank or a domain that one of the topologies has not.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self, topologies: &[Topology]) -> Result<(), String> {
        let least = |number: fn(&Topology) -> usize| topologies.iter().map(number).min().unwrap_or(0);
        let (members, domains) = (least(|topology| topology.members()), least(|topology| topology.dp as usize));
        let named = [
            ("--corrupt", self.corrupt.map(|(rank, _)| rank), members, "ranks of a domain"),
            ("--liar", self.liar, members, "ranks of a domain"),
            ("--domain", self.domain.map(|domain| domain as usize), domains, "domains"),
        ];
        if self.family != Family::Cache {
            self.check_without_cache()?;
        }
        match named.into_iter().find(|(_, value, limit, _)| value.is_some_and(|value| value >= *limit)) {
            Some((name, Some(value), limit, of)) => Err(format!(
                "{name} is {value}, limits 0 to {}\nhint: {limit} {of} are in the smallest topology, counted from 0",
                limit - 1
            )),
            _ => Ok(()),
        }
    }

    fn check_without_cache(&self) -> Result<(), String> {
        let given = [
            ("--corrupt", self.corrupt.is_some()),
            ("--liar", self.liar.is_some()),
            ("--eviction", self.eviction.is_some()),
            ("--fatal", self.fatal),
        ];
        let family = self.family.as_str();
        match given.into_iter().find(|(_, given)| *given) {
            Some((name, _)) => Err(format!("{name} is about a cache, and --family is {family}\nhint: leave one out")),
            None => Ok(()),
        }
    }
}

/// How long things take, in microseconds, before rolls and faults.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timings {
    /// A forward pass.
    pub(crate) forward: Micros,
    /// The leader's idle loop.
    pub(crate) idle: Micros,
    /// A message.
    pub(crate) hop: Micros,
    /// An all-reduce, once all have filled.
    pub(crate) vote: Micros,
    /// A page, by kind.
    pub(crate) page: [Micros; 4],
    /// A storage query.
    pub(crate) query: Micros,
}

/// What goes wrong now and then whatever the plan says, each of a thousand: so that every fault of the plan meets everything else.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ambient {
    /// Steps in which the leader gives something up.
    pub(crate) aborts: u64,
    /// Copies that fail.
    pub(crate) copies: u64,
    /// Queries that find nothing.
    pub(crate) queries: u64,
    /// Steps in which a rank loses its free host pages for a moment.
    pub(crate) memory: u64,
}

/// One seed on one domain of a topology.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    /// The domain's own.
    pub(crate) seed: u64,
    pub(crate) domain: u32,
    pub(crate) topology: Topology,
    pub(crate) steps: u64,
    pub(crate) limit: u64,
    pub(crate) page: u32,
    pub(crate) device_pages: u32,
    /// Host pages by rank; the capacity is the smallest.
    pub(crate) host_pages: Vec<u32>,
    pub(crate) tiers: Tiers,
    /// What the model keeps beside keys and values, if anything: ranks then search for the deepest end that all have.
    pub(crate) trailing: Option<Trailing>,
    pub(crate) eviction: String,
    pub(crate) running_max: usize,
    pub(crate) pacing: Pacing,
    pub(crate) timings: Timings,
    pub(crate) ambient: Ambient,
    pub(crate) requests: Vec<Request>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) corrupt: Option<(usize, u32)>,
    pub(crate) defect: Option<PlantedDefect>,
    pub(crate) trace: bool,
    /// The numbers that kept faults and inputs have in the whole plan.
    pub(crate) fault_numbers: Vec<usize>,
    pub(crate) input_numbers: Vec<usize>,
}

/// Streams of one seed; each is drawn from by itself, so that one does not move the others.
#[derive(Clone, Copy)]
enum Stream {
    Shape = 1,
    Times,
    Faults,
    Work,
    Host,
    Noise,
    Storage,
}

impl Scenario {
    /// Shape and times are equal in all domains of a topology; work and faults are not.
    pub(crate) fn new(seed: u64, topology: Topology, domain: u32, options: &Options) -> Self {
        let own = if domain == 0 { seed } else { mix(seed, domain.into()) };
        let stream = |stream: Stream| Rng::new(own, stream as u64);
        let [mut shape, mut times] = [Stream::Shape, Stream::Times].map(|stream| Rng::new(seed, stream as u64));
        let page = *shape.pick(&[1, 4]);
        let device_pages = pages(&mut shape, if page == 1 { (64, 160) } else { (24, 64) });
        let host = pages(&mut shape, (device_pages / 4, device_pages * 2));
        let longest = (device_pages * page / 2) as usize;
        let mut tiers = tiers(&mut shape, page, device_pages * page);
        guard(&mut Rng::new(seed, Stream::Storage as u64), &mut tiers);
        let eviction =
            *shape.pick(&["lru", "lru", "lru", "lru", "lru", "lru", "lfu", "fifo", "mru", "filo", "priority", "slru"]);
        let running_max = shape.within(2, 5);
        let has_trailing = tiers.storage && shape.chance(300);
        let trailing = has_trailing
            .then(|| Trailing { window: page * (1 + u32::from(seed % 5 > 1)), state: seed.is_multiple_of(3) });
        let mut spare = stream(Stream::Host);
        let Workload { mut requests, inputs } = Workload::new(&mut stream(Stream::Work), options.steps, longest);
        cut_requests(&mut requests, longest);
        let mut faults =
            fault::plan(&mut stream(Stream::Faults), topology, options.steps, options.fault_kinds, options.fatal);
        faults.extend(options.liar.map(|rank| Fault::lie(rank, options.steps / 4)));
        let fault_numbers = kept(faults.len(), options.keep_faults.as_ref());
        let input_numbers = kept(inputs.len(), options.keep_inputs.as_ref());
        Self {
            seed: own,
            domain,
            topology,
            steps: options.steps,
            limit: options.limit,
            page,
            device_pages,
            host_pages: (0..topology.members()).map(|_| host + pages(&mut spare, (0, host / 8))).collect(),
            tiers,
            trailing,
            eviction: options.eviction.clone().unwrap_or_else(|| eviction.to_owned()),
            running_max: usize::try_from(running_max).unwrap_or(2),
            pacing: Pacing { busy_ms: 1, idle_ms: 3, paused_ms: 20 },
            timings: timings(&mut times),
            ambient: ambient(&mut stream(Stream::Noise)),
            requests,
            inputs: input_numbers.iter().map(|&number| inputs[number]).collect(),
            faults: fault_numbers.iter().map(|&number| faults[number]).collect(),
            corrupt: options.corrupt,
            defect: options.defect,
            trace: options.trace,
            fault_numbers,
            input_numbers,
        }
    }

    pub(crate) fn request(&self, number: u32) -> &Request {
        &self.requests[number as usize]
    }

    /// Requests that arrive.
    pub(crate) fn arrivals(&self) -> usize {
        self.inputs.iter().filter(|input| matches!(input.what, What::Arrive(_))).count()
    }
}

/// No request is longer than half of the device pool, so that one always fits.
fn cut_requests(requests: &mut [Request], longest: usize) {
    for request in requests {
        request.tokens.truncate(longest);
        request.tags.truncate(longest);
        request.prompt = request.prompt.min(longest);
    }
}

/// The numbers of a plan's parts that are kept.
pub(crate) fn kept(count: usize, keep: Option<&BTreeSet<usize>>) -> Vec<usize> {
    (0..count).filter(|number| keep.is_none_or(|keep| keep.contains(number))).collect()
}

fn pages(rng: &mut Rng, (low, high): (u32, u32)) -> u32 {
    u32::try_from(rng.within(low.into(), high.into())).unwrap_or(low)
}

fn tiers(rng: &mut Rng, page: u32, device_tokens: u32) -> Tiers {
    let writing = match rng.below(4) {
        0 => Writing::Through { hits: 2 },
        1 => Writing::Back { low_water: u64::from(device_tokens) / rng.within(2, 5) },
        _ => Writing::Through { hits: 1 },
    };
    let patience = rng.chance(600).then(|| PrefetchPatience {
        base_ms: rng.within(5, 60),
        per_ki_token_ms: rng.within(0, 400),
        most_ms: rng.within(60, 200),
    });
    Tiers {
        writing,
        load_back_min: *rng.pick(&[1, 4, 10]),
        prefetch_min: rng.within(1, 3) * u64::from(page.max(2)),
        storage: rng.chance(850),
        window: *rng.pick(&[2, 4, 8, 16]),
        patience,
        breaker: None,
        retry: Backoff { first_ms: 0, longest_ms: 0, attempts_max: 1 },
    }
}

/// When storage is left alone, and how often it is tried again.
fn guard(rng: &mut Rng, tiers: &mut Tiers) {
    let mut count = |most| u32::try_from(rng.within(1, most)).unwrap_or(1);
    let (failures_max, trials, attempts_max) = (count(4), count(2), count(3));
    let rule = BreakerRule { failures_max, open_ms: rng.within(5, 400), trials, slow_ms: rng.within(40, 600) };
    tiers.breaker = rng.chance(800).then_some(rule);
    tiers.retry = Backoff { first_ms: rng.within(0, 40), longest_ms: rng.within(40, 200), attempts_max };
}

/// A third of the seeds has none.
fn ambient(rng: &mut Rng) -> Ambient {
    if rng.chance(333) {
        return Ambient::default();
    }
    Ambient {
        aborts: rng.within(10, 120),
        copies: rng.within(0, 60),
        queries: rng.within(0, 60),
        memory: rng.within(0, 30),
    }
}

fn timings(rng: &mut Rng) -> Timings {
    let page = [(50, 600), (30, 400), (200, 4000), (200, 4000)].map(|(low, high)| rng.within(low, high));
    Timings {
        forward: rng.within(5_000, 40_000),
        idle: rng.within(300, 2_000),
        hop: rng.within(80, 1_500),
        vote: rng.within(200, 4_000),
        page,
        query: rng.within(200, 10_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_its_seeds_own_and_keeps_what_it_is_told() {
        let topology = "pp2".parse().unwrap();
        let make = |seed, options: &Options| format!("{:?}", Scenario::new(seed, topology, 0, options));
        let options = Options::default();
        assert_eq!(make(3, &options), make(3, &options));
        assert_ne!(make(3, &options), make(4, &options));
        let whole = Scenario::new(3, topology, 0, &options);
        let kept = Options { keep_faults: Some([1].into()), keep_inputs: Some([0, 7].into()), ..options };
        let part = Scenario::new(3, topology, 0, &kept);
        assert_eq!(part.faults, [whole.faults[1]]);
        assert_eq!(part.inputs, [whole.inputs[0], whole.inputs[7]]);
        assert_eq!(part.requests, whole.requests);
    }
}
