//! No way out travels beside a per-rank value: what is wrapped is `'static`, so it is no borrowed cell.

use isoradix_core::PerRank;
use std::cell::Cell;

fn main() {
    let seen = Cell::new(0);
    let _ = PerRank::observe(3_u32).zip(PerRank::observe(&seen)).map(|(value, out)| out.set(value));
}
