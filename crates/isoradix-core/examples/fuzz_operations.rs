//! Random operations, legal and not, on the cache and on the naive model of its tests, until the time is up.
//!
//! `cargo run --release --example fuzz_operations -- --seconds 60 --seed 1`
//!
//! Each episode makes a cache of a random shape and runs some hundred operations on it; all invariants are checked after
//! each, and a refused call must leave sizes, digests and clock as they were. A failure prints the command that replays it.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "a program around the core, not part of it: it reads a clock and its arguments, and prints"
)]

#[path = "../tests/naive/mod.rs"]
mod naive;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use naive::operation::Random;
use naive::order::ORDERS;
use naive::twins::{Shape, Twins};

const PAGES: [usize; 8] = [1, 1, 2, 3, 4, 16, 64, 1024];
const OPERATIONS_MAX: u64 = 400;

/// What the command line asked for.
struct Options {
    seconds: u64,
    seed: u64,
    episodes: u64,
}

fn main() -> ExitCode {
    let options = match read_options() {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}\nhint: fuzz_operations [--seconds 60] [--seed 1] [--episodes 0 (no limit)]");
            return ExitCode::from(2);
        }
    };
    let (start, mut episodes, mut operations) = (Instant::now(), 0, 0);
    while start.elapsed() < Duration::from_secs(options.seconds)
        && (options.episodes == 0 || episodes < options.episodes)
    {
        let seed = options.seed.wrapping_add(episodes);
        let Ok(count) = catch_unwind(AssertUnwindSafe(|| episode(seed))) else {
            eprintln!("episode failed; replay: fuzz_operations --episodes 1 --seed {seed}");
            return ExitCode::FAILURE;
        };
        operations += count;
        episodes += 1;
    }
    println!("{episodes} episodes, {operations} operations from seed {}: clean", options.seed);
    ExitCode::SUCCESS
}

/// One cache from its making to its end; gives the number of operations.
fn episode(seed: u64) -> u64 {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let page = *pick(&mut random, &PAGES);
    // A page of a thousand tokens makes every comparison slow; a few operations tell as much.
    let count = if page > 64 { OPERATIONS_MAX / 8 } else { random.below(OPERATIONS_MAX) };
    let shape = Shape {
        page,
        bigram: random.below(3) == 0,
        order: *pick(&mut random, &std::array::from_fn::<usize, ORDERS, _>(|order| order)),
        journal_records: *pick(&mut random, &[0, 1, 7, 4096]),
        pool_pages: *pick(&mut random, &[8, 24, 48, 48, 160]),
    };
    let mut twins = Twins::new(shape);
    for _ in 0..count {
        twins.run(&random.operation());
    }
    count
}

fn pick<'a, T>(random: &mut Random, from: &'a [T]) -> &'a T {
    let index = random.below(from.len() as u64);
    &from[usize::try_from(index).expect("an index")]
}

fn read_options() -> Result<Options, String> {
    let mut options = Options { seconds: 60, seed: 1, episodes: 0 };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let text = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        let value = text.parse().map_err(|_| format!("{name} {text} is not a whole number"))?;
        match name.as_str() {
            "--seconds" => options.seconds = value,
            "--seed" => options.seed = value,
            "--episodes" => options.episodes = value,
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(options)
}
