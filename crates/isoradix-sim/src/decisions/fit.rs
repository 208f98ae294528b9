//! How long chunks take on a rank, and the coefficients that it makes of that.

use super::plan::Plan;
use crate::queue::Micros;
use crate::rng::{self, Purpose, mix, roll};

/// How far a measured time is off at most, in parts of ten thousand.
const NOISE: u64 = 40;

/// How long a prompt of `l` tokens takes: `square l² + linear l + constant` picoseconds, where nothing is measured wrongly and no rank is
/// slower than another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Speed {
    pub(super) square: u64,
    pub(super) linear: u64,
    pub(super) constant: u64,
}

impl Speed {
    fn prompt_ps(self, tokens: u64) -> u64 {
        self.square * tokens * tokens + self.linear * tokens + self.constant
    }

    /// A chunk behind a history.
    pub(super) fn chunk_us(self, history: u64, length: u64) -> Micros {
        (self.prompt_ps(history + length) - self.prompt_ps(history)) / 1_000_000
    }
}

/// What this rank measures for three lengths, and the parabola through them: the bits of its coefficients of the square and of the
/// length.
pub(super) fn fit(plan: &Plan, rank: usize, step: u64) -> (u64, u64) {
    let unit = plan.chunk_base / 2;
    let measured = [1, 2, 3].map(|times| {
        let noise = rng::below(roll(plan.seed, Purpose::Measure, [rank as u64, step, times]), 2 * NOISE + 1);
        let exact_ns = plan.speed.prompt_ps(times * unit) / 1000 * plan.slowness(rank) / 1000;
        (exact_ns * (10_000 - NOISE + noise) / 10_000).cast_signed()
    });
    let [one, two, three] = measured;
    let unit = unit.cast_signed();
    let a = quotient(three - 2 * two + one, 2 * unit * unit);
    let b = quotient(8 * two - 5 * one - 3 * three, 2 * unit);
    (a.to_bits(), b.to_bits())
}

#[expect(
    clippy::float_arithmetic,
    clippy::cast_precision_loss,
    reason = "measured numbers are floats, and decide nothing"
)]
fn quotient(over: i64, under: i64) -> f64 {
    over as f64 / under as f64
}

impl Plan {
    /// How much slower than the fastest rank one may be, in thousandths: no two measure alike.
    pub(super) fn slowness(&self, rank: usize) -> u64 {
        1000 + rng::below(mix(self.seed, 77 + rank as u64), 600)
    }
}
